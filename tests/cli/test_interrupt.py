"""Ctrl-C ends every command with exit 130, wherever it comes: in the engine, in the fit, while a file is written."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_IN_THE_ENGINE = """
import os, signal, sys, threading
import sordino as sd
from sordino.cli import main as command
from sordino.ask.engines.duckdb import DuckDBEngine

read = DuckDBEngine._read

def slow(self, work, **options):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    text = "SELECT SUM(a.range * b.range % 7) AS n FROM range(200000) AS a, range(200000) AS b"
    return read(self, lambda: self._connection.execute(text).fetchall(), **options)

DuckDBEngine._read = slow
sys.exit(command.main(sys.argv[1:]))
"""
_ASKED = {
    "ask": ("SELECT COUNT(*) AS n FROM people", "--epsilon", "0.1"),
    "synth fit": ("--epsilon", "0.1", "-o", "p.model"),
    "bounds": ("gain", "--epsilon", "0.1"),
}


@pytest.mark.parametrize(
    "command", [pytest.param(command, marks=[pytest.mark.deep] * (command == "bounds")) for command in _ASKED]
)
def test_a_question_stopped_in_the_engine_is_130(command: str, census: Path) -> None:
    """The engine is at work on a query that takes hours when the signal comes."""
    line = [sys.executable, "-c", _IN_THE_ENGINE, *command.split(), *_ASKED[command]]
    done = subprocess.run(line, cwd=census, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 130, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_a_demo_stopped_anywhere_is_130(seconds: float, census: Path) -> None:
    """A real SIGINT to a command at work, as a terminal sends it."""
    line = [sys.executable, "-u", "-m", "sordino", "demo", "--rows", "2000000"]
    process = subprocess.Popen(line, cwd=census, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while "1." not in process.stdout.readline():  # it is at work
        pass
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130, (process.returncode, said)
    assert "Traceback" not in said
