"""What docs/schedule.md says and examples/schedule holds, run as it stands: a day is charged once, whatever starts it."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from places import ROOT
from serving import write_project

SCHEDULE = ROOT / "examples" / "schedule"
DAY = "2026-11-24"
NIGHTLY = """
[[table]]
name = "by_sex"
sql = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
epsilon = "0.1"

[[table]]
name = "older"
sql = "SELECT COUNT(*) AS n FROM people WHERE age > 64"
epsilon = "0.2"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder as /srv/sordino is: the project, the script, its file of tables, and an environment in .venv."""
    write_project(tmp_path)
    shutil.copy(SCHEDULE / "release_tables.py", tmp_path)
    (tmp_path / "nightly.toml").write_text(NIGHTLY)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, command in (("python", ""), ("sordino", " -m sordino")):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{command} "$@"\n')
        (programs / name).chmod(0o755)
    return tmp_path


def run_shell(command: str, project: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell as the schedule would, with the project in the place of /srv/sordino."""
    places = [str(project / ".venv" / "bin"), os.environ["PATH"]]
    variables = {**os.environ, "PATH": ":".join(places), "PYTHONPATH": str(ROOT / "src"), **more}
    return subprocess.run(
        ["bash", "-c", command.replace("/srv/sordino", str(project))],
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def release(project: Path, *more: str) -> int:
    """Run the script in this process, which has imported what it needs, and return its exit code."""
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(project):
        patch.setattr(sys, "argv", ["release_tables.py", "nightly.toml", "--day", DAY, *more])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path("release_tables.py", run_name="__main__")
    return int(str(ended.value.code))


def charges(project: Path) -> Sequence[tuple[str | None, str]]:
    """Return each charge's request id and loss."""
    connection = sd.connect(project / "sordino.toml")
    return [(charge.request, charge.loss.describe()) for charge in connection.ledger("people").charges()]


ONCE = [(f"by_sex-{DAY}", "epsilon 0.1"), (f"older-{DAY}", "epsilon 0.2")]


def test_a_day_that_is_run_twice_is_charged_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release(project) == 0
    files = {path.name: path.read_bytes() for path in (project / "releases").iterdir()}
    assert sorted(files) == [f"by_sex-{DAY}.csv", f"older-{DAY}.csv"]
    assert release(project) == 0
    assert {path.name: path.read_bytes() for path in (project / "releases").iterdir()} == files
    assert charges(project) == ONCE
    # Another day is another charge, and other SQL under the same name and day is none.
    assert release(project, "--day", "2026-11-25") == 0
    assert len(charges(project)) == 4
    (project / "nightly.toml").write_text(NIGHTLY.replace("> 64", "> 65"))
    assert release(project) == 3
    assert "one id means one question" in capsys.readouterr().err
    assert len(charges(project)) == 4


@pytest.mark.deep
def test_a_run_that_was_killed_goes_on_where_it_stopped(project: Path) -> None:
    """Killed as soon as its first table is there, wherever it then is, the next run charges no table twice.

    If the kill fell between a charge and its answer, which nobody can tell from a process that still runs, it says so.
    """
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "release_tables.py", "nightly.toml", "--day", DAY]
    with subprocess.Popen(command, cwd=project, env=variables, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None and not (project / "releases" / f"by_sex-{DAY}.csv").exists():
            time.sleep(0.005)
        running.send_signal(signal.SIGKILL)
    first = (project / "releases" / f"by_sex-{DAY}.csv").read_bytes()
    states = [charge.state for charge in sd.connect(project / "sordino.toml").ledger("people").charges()]
    assert release(project) == (5 if "reserved" in states else 0)
    assert (project / "releases" / f"by_sex-{DAY}.csv").read_bytes() == first
    assert charges(project) == ONCE


KILLED = """
import os, runpy, signal, sys
from sordino.ask.curator.plan import DataAccess
run, runs = DataAccess.run, []
def run_or_die(*stated, **named):
    runs.append(stated)
    if len(runs) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(*stated, **named)
DataAccess.run = run_or_die
runpy.run_path("release_tables.py", run_name="__main__")
"""


@pytest.mark.deep
def test_a_table_whose_process_was_killed_between_charge_and_answer_takes_another_name(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", KILLED, "nightly.toml", "--day", DAY]
    killed = subprocess.run(command, cwd=project, env=variables, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    for _ in range(2):
        assert release(project) == 5
        assert "ask again as a new request, which charges again" in capsys.readouterr().err
        assert charges(project) == ONCE
    (project / "nightly.toml").write_text(NIGHTLY.replace('"older"', '"older_again"'))
    assert release(project) == 0
    assert charges(project) == [*ONCE, (f"older_again-{DAY}", "epsilon 0.2")]


def test_staging_charges_nothing(project: Path) -> None:
    assert release(project, "--dummy", "--folder", "staging") == 0
    assert (project / "staging" / f"older-{DAY}.csv").exists()
    assert charges(project) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[table]]\nname = 'a'\nsql = 'SELECT 1'\nepsilom = 1", "epsilom is unknown"),
        ("[[table]]\nname = 'a'\nsql = 'SELECT 1'", "a loss are needed"),
        ("[[table]]\nname = '../a'\nsql = 'SELECT 1'\nepsilon = 1", "of letters, digits and _"),
        (NIGHTLY + NIGHTLY, "a table's name is its own"),
        ("[[table]]\nname = 'a'\nsql = 'SELECT 1; SELECT 2'\nepsilon = 1", "'a' has several"),
        ("", "lists no table"),
        ("[[", "is no TOML file of tables"),
    ],
)
def test_a_file_that_is_wrong_is_refused_before_anything_is_asked(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "nightly.toml"
    path.write_text(text)
    scope: dict[str, Any] = {"__name__": "release_tables"}
    exec(compile((SCHEDULE / "release_tables.py").read_text(), "release_tables.py", "exec"), scope)
    with pytest.raises(sd.errors.DeclarationError, match=re.escape(words)):
        scope["read_tables"](path)


def commands_of_cron() -> list[str]:
    lines = [line.split(maxsplit=5) for line in (SCHEDULE / "crontab").read_text().splitlines() if line[:1].isdigit()]
    # cron reads % as the end of a line, unless it is escaped
    return [line[5].replace("\\%", "%") for line in lines]


def commands_of_systemd() -> list[str]:
    text = (SCHEDULE / "sordino-release.service").read_text()
    return [found.replace("%%", "%") for found in re.findall(r"^ExecStart(?:Post)?=(.*)$", text, re.MULTILINE)]


def commands_of_airflow() -> list[str]:
    """Return what the tasks of the DAG run, of a run of a day: its constants, without Airflow, which is not installed here."""
    tree = ast.parse((SCHEDULE / "airflow_dag.py").read_text())
    constants: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.Assign)]
    scope: dict[str, str] = {}
    exec(compile(ast.Module(constants, []), "airflow_dag.py", "exec"), scope)
    return [scope[name].replace("{{ ds }}", DAY) for name in ("RELEASE", "BACKUP")]


@pytest.mark.deep
@pytest.mark.parametrize("source", [commands_of_cron, commands_of_systemd, commands_of_airflow])
def test_each_schedule_releases_a_day_once_and_backs_it_up(source: Callable[[], list[str]], project: Path) -> None:
    """The same day is released a second time as well."""
    commands = source()
    assert len(commands) == 2
    for command in (*commands, commands[0]):
        done = run_shell(command, project)
        assert done.returncode == 0, done.stderr
    assert [loss for _, loss in charges(project)] == ["epsilon 0.1", "epsilon 0.2"]
    (copy,) = (project / "backups").glob("*/people.ledger")
    assert copy.stat().st_size > 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_units_are_as_systemd_reads_them(project: Path) -> None:
    for unit in ("sordino-release.service", "sordino-release.timer"):
        text = (SCHEDULE / unit).read_text().replace("/srv/sordino", str(project)).replace("User=sordino\n", "")
        (project / unit).write_text(text)
    checked = run_shell("systemd-analyze verify ./sordino-release.service ./sordino-release.timer", project)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_page_shows_the_file_of_tables_as_it_is() -> None:
    shown = (ROOT / "docs" / "schedule.md").read_text().partition("    [[table]]\n")[2].partition("\n\n")[0]
    table = tomllib.loads("[[table]]\n" + shown.replace("    ", ""))["table"][0]
    assert table in tomllib.loads((SCHEDULE / "nightly.toml").read_text())["table"]


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_twenty_steps_to_production_walked(project: Path) -> None:
    page = (ROOT / "docs" / "schedule.md").read_text().partition("## Twenty steps")[2]
    steps = [line.removeprefix("    ") for line in page.splitlines() if line.startswith("    ")]
    numbers = [int(number) for step in steps for number in re.findall(r"# (\d+)\. ", step)]
    assert numbers == [*range(1, 21)]
    shutil.copy(SCHEDULE / "nightly.toml", project)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = "\n".join(["set -eu", "trap 'kill ${SERVER:-} 2>/dev/null || true' EXIT", *steps]).replace("8000", port)
    walked = run_shell(script, project)
    assert walked.returncode == 0, walked.stderr
    curator = project / "curator"
    # a night of two tables, once, beside what the demo asked; then ana's question
    asked = sd.connect(curator / "sordino.toml").ledger("people").charges()
    assert [charge.request for charge in asked if (charge.request or "").endswith(DAY)] == [
        f"by_region-{DAY}",
        f"hours-{DAY}",
    ]
    assert [charge.spender for charge in asked][-1] == "ana"
    assert "sordino_budget_spent" in (curator / "metrics.txt").read_text()
    assert (curator / "board.html").stat().st_size > 0
