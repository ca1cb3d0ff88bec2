"""%%sordino in a real IPython shell: the answer with its interval, the price, and refusals in words."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from far import listening
from places import ROOT
from serving import COUNT, served, write_project


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(write_project(tmp_path).parent)
    # Imported by the one worker that runs these tests.
    from IPython.core.interactiveshell import InteractiveShell

    shell_type: Any = InteractiveShell
    made = shell_type()
    made.run_line_magic("load_ext", "sordino")
    yield made
    made.history_manager.end_session()


def ask(shell: Any, line: str, cell: str = COUNT) -> Any:
    return shell.run_cell_magic("sordino", line, cell)


def test_a_cell_is_charged_once_and_shows_its_interval(shell: Any) -> None:
    release = ask(shell, "--epsilon 1/2 --to answer")
    assert isinstance(release, sd.Release)
    assert shell.user_ns["answer"] is release
    assert "95%" in release._repr_html_()
    assert release.cost.amounts()["epsilon"] * 2 == 1
    again = ask(shell, "--epsilon 0.25")
    assert again.charge != release.charge


def test_a_plan_spends_nothing(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(shell, "--plan --epsilon 1 --confidence 0.9") is None
    assert "at 90%" in capsys.readouterr().out
    assert sd.connect("sordino.toml").ledger("people").charges() == []


@pytest.mark.parametrize(
    ("line", "cell", "words"),
    [
        ("", COUNT, "state a privacy loss"),
        ("--epsilon 99", COUNT, "BudgetExhausted"),
        ("--epsilon 0.1", "SELECT age FROM people", "QuestionRefused"),
        ("--epsilom 1", COUNT, "%sordino --help"),
        ("--epsilon '1", COUNT, "quotation mark"),
        ("--epsilon 1", " ", "write the question"),
        ("--epsilon 1 --project nowhere.toml", COUNT, "nowhere.toml"),
        ("--epsilon 0.1 --to 1x", COUNT, "name of a variable"),
    ],
)
def test_refusals_are_words_without_a_trace(shell: Any, line: str, cell: str, words: str) -> None:
    from IPython.core.error import UsageError

    with pytest.raises(UsageError, match=words):
        ask(shell, line, cell)
    assert sd.connect("sordino.toml").ledger("people").charges() == []


@pytest.mark.deep
def test_a_notebook_in_a_process_of_its_own(tmp_path: Path) -> None:
    write_project(tmp_path)
    lines = (
        "%load_ext sordino",
        f"%sordino --project {tmp_path / 'sordino.toml'}",
        f"get_ipython().run_cell_magic('sordino', '--epsilon 1', {COUNT!r})",
        "print('done')",
    )
    (tmp_path / "cells.ipy").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "IPython", "--quick", "--no-banner", str(tmp_path / "cells.ipy")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={"IPYTHONDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "done" in done.stdout
    assert len(sd.connect(tmp_path / "sordino.toml").ledger("people").charges()) == 1


def test_a_server_is_asked_like_a_project(shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far").mkdir()
    with served(tmp_path / "far") as server, listening(server) as url:
        monkeypatch.setenv("SORDINO_TOKEN", server.tokens["ana"])
        assert ask(shell, f"--project {url} --plan --epsilon 0.1") is None
        assert server.service.ledger("people").charges() == []
        assert isinstance(ask(shell, "--epsilon 0.1"), sd.Release)
        assert [charge.spender for charge in server.service.ledger("people").charges()] == ["ana"]
