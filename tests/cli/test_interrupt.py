"""Ctrl-C ends every command with exit 130, wherever it comes: in the engine, in the fit, while a file is written."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
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
    "demo": (),
}


@pytest.mark.parametrize(
    "command",
    [pytest.param(command, marks=[pytest.mark.deep] * (command != "ask")) for command in _ASKED],
)
def test_a_question_stopped_in_the_engine_is_130(command: str, census: Path) -> None:
    """The engine is at work on a query that takes hours when the signal comes."""
    line = [sys.executable, "-c", _IN_THE_ENGINE, *command.split(), *_ASKED[command]]
    done = subprocess.run(line, cwd=census, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 130, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    # the demo's question is asked by a command within the command
    assert "3. The same in Python" not in done.stdout


@pytest.mark.each(3)
@pytest.mark.parametrize("line", ["1. A table", "$ sordino check", "$ sordino synth fit"])
def test_a_demo_stopped_anywhere_is_130(line: str, census: Path) -> None:
    """A real SIGINT to a command at work, as a terminal sends it."""
    command = [sys.executable, "-u", "-m", "sordino", "demo", "--rows", "2000000"]
    process = subprocess.Popen(command, cwd=census, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not process.stdout.readline().startswith(line):  # what it prints next takes a while
        pass
    code = None
    while code is None:  # a library that is being imported may swallow one signal: a person presses the keys again
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=1)
    assert process.stderr is not None
    said = process.stderr.read()
    # Python itself ends by the signal, which a shell calls 130, where it fell into text that `exec` ran
    assert code in (130, -signal.SIGINT), (code, said)
    assert "error:" not in said
