"""The command as a whole: help, version, errors nobody foresaw, terminals, and the demo."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import sordino
from cli.support import Run
from sordino.core.text_table import columns_of, plain

PANELS = {
    "Declare": ("init", "check", "import"),
    "Ask": ("plan", "ask"),
    "Look back": ("budget", "releases", "show", "ledger"),
    "Learn": ("explain", "demo"),
}


def test_help_groups_every_command(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    places = [done.out.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    for (panel, commands), end in zip(PANELS.items(), [*places[1:], len(done.out)], strict=True):
        part = done.out[done.out.index(f"─ {panel} ─") : end]
        for command in commands:
            assert f" {command} " in part, command
            helped = run(command, "--help")
            assert helped.code == 0
            assert command == "ledger" or "Example: sordino" in helped.out
            assert command in ("demo", "init", "import", "ledger") or "--project" in helped.out
    for command in ("verify", "export", "amend"):
        assert "--project" in run("ledger", command, "--help").out
    assert "4 budget" in " ".join(done.out.split())


def test_version_usage_and_completion(run: Run, spawn: Run) -> None:
    assert run("--version").out == f"sordino {sordino.__version__}\n"
    assert run().code == 2
    assert "Usage" in run().out
    done = run("asc")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert run("ledger", "amend").code == 2
    said = spawn(_SORDINO_COMPLETE="complete_bash", COMP_WORDS="sordino led", COMP_CWORD="1").out
    assert said.split() == ["ledger"]


def test_help_loads_no_engine() -> None:
    """What makes a command slow to begin is what it imports: help needs none of these."""
    program = "import sys; from sordino.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    loaded = set(done.stderr.split())
    assert "typer" in loaded
    assert not loaded & {"numpy", "pyarrow", "duckdb", "scipy", "sqlglot", "pandas", "sqlite3", "starlette"}


@pytest.mark.usefixtures("census")
def test_an_unforeseen_error_tells_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("row 17 holds 42.742")

    monkeypatch.setattr("sordino.cli.ask.question.read_question", fail)
    done = run("ask", "SELECT COUNT(*) FROM people", "--epsilon", "0.5")
    assert done.code == 1
    assert "42.742" not in done.err
    assert "SORDINO_DEBUG" in done.err
    assert len(done.err.splitlines()) == 1
    monkeypatch.setenv("SORDINO_DEBUG", "1")
    assert "42" in run("ask", "SELECT COUNT(*) FROM people", "--epsilon", "0.5").err


@pytest.mark.usefixtures("census")
def test_an_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sordino.cli.ask.question.read_question", stop)
    assert run("ask", "SELECT COUNT(*) FROM people", "--epsilon", "0.5").code == 130


def in_a_terminal(*arguments: str, **environment: str) -> str:
    """Return what a command prints where it believes a person watches."""
    script = "import sys; from sordino.cli.main import main; sys.exit(main())"
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, "-c", script, *arguments], {**os.environ, "TERM": "xterm", **environment}
        )
    said = b""
    try:
        while chunk := os.read(fd, 4096):
            said += chunk
    except OSError:
        pass
    os.waitpid(pid, 0)
    return said.decode()


@pytest.mark.deep
@pytest.mark.usefixtures("census")
def test_a_terminal_gets_color_and_a_screenful() -> None:
    sql = "SELECT region, sex, occupation, COUNT(*) AS n FROM people GROUP BY region, sex, occupation"
    said = in_a_terminal("ask", sql, "--epsilon", "0.5")
    assert "\x1b[1m" in said
    assert "... 116 more declared combinations" in said
    colorless = in_a_terminal("budget", NO_COLOR="1")
    assert "\x1b" not in colorless
    assert "[#####" in colorless


def test_names_cannot_command_a_terminal() -> None:
    assert plain("a\x1b[31mb\u202ec\nd") == "a?[31mb?c\nd"
    assert columns_of(["k"], [["x\ny"], ["日本"]], right=[False]) == ["k", "x y", "日本"]


def test_demo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("demo", "--rows", "2000")
    assert done.code == 0, done.err
    assert "exit code 4" in done.out
    assert "charge c-0001" in done.out
    assert os.listdir() in ([], ["state"])
    # Notes are not wrapped where no terminal shows them.
    assert all(len(line) <= 100 or "never compared" in line for line in done.out.splitlines())
    kept = run("demo", "--rows", "2000", "--keep", "census")
    assert kept.code == 0
    monkeypatch.chdir("census")
    commands = [line.strip() for line in kept.out.partition("Try next")[2].splitlines() if line.strip()]
    assert len(commands) == 3
    assert run("check").code == 0
    monkeypatch.chdir(tmp_path)
    assert run("demo", "--keep", "census").code == 2
    assert run("demo", "--rows", "0").code == 2


def test_values_are_rounded_to_two_figures_of_their_error_and_intervals_outward() -> None:
    from fractions import Fraction

    from sordino.core.estimates.noisy import Noisy
    from sordino.core.noise.laws import DiscreteLaplace
    from sordino.reporting.release_text import _format_estimate

    cents = Noisy((-12, 0, 123_456_789), Fraction(1, 100), DiscreteLaplace(Fraction(100)))
    assert _format_estimate(cents, 0.95) == [
        ("-0.1", "-3.2 - 2.9"),
        ("0.0", "-3.0 - 3.0"),
        ("1,234,567.9", "1,234,564.8 - 1,234,570.9"),
    ]
    whole = Noisy((1234,), Fraction(1), DiscreteLaplace(Fraction(2)))
    assert _format_estimate(whole, 0.95) == [("1,234", "1,228 - 1,240")]


def test_an_option_of_another_command_names_that_command(run: Run) -> None:
    done = run("ask", "SELECT COUNT(*) FROM people", "--error", "5")
    assert done.code == 2
    assert "`sordino plan` has it" in done.err
