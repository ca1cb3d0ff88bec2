"""The example of a whole collection runs as it stands: key, task, service, devices, estimate, close, export."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from places import ROOT
from sordino.cli.main import main

SCRIPT = ROOT / "examples" / "local_survey.py"


def check_what_was_said(said: str) -> None:
    """Require the figures that follow from the task, and that they are marked."""
    assert "at most epsilon 2 of its cap of 3" in said
    assert "posted 60 reports of 49 bytes: 60 stored, 1 again" in said
    assert "NOT PRIVATE" in said
    assert said.count("with 1% malicious") == 3
    assert "exported: <Reports unary: 60 of 1 bytes>" in said


def test_the_survey_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In this process, and so are the commands that it runs: the service alone is a program of its own."""
    own = subprocess.run

    def run(command: Sequence[str], **more: Any) -> subprocess.CompletedProcess[str]:
        if list(command[:3]) != [sys.executable, "-m", "sordino"]:
            return own(command, **more)
        before = capsys.readouterr().out
        code = main(command[3:])
        out = capsys.readouterr().out
        print(before, end="")
        assert code == 0
        return subprocess.CompletedProcess(command, code, out, "")

    monkeypatch.setattr(subprocess, "run", run)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    check_what_was_said(capsys.readouterr().out)


@pytest.mark.deep
def test_the_survey_example_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    check_what_was_said(done.stdout)
    assert done.stderr == ""
