"""Ctrl-C ends every command with exit 130, wherever it comes: in the engine, in the fit, while a file is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sordino.datasets import write_census_project
from sordino.noise.rng import Rng

_LONG = {  # commands that run for seconds on 300,000 rows, and when to stop them
    "synth fit": ("--epsilon", "1", "-o", "p.model"),
    "demo": ("--rows", "3000000"),
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large")
    write_census_project(directory, 300_000, Rng.seeded(5))
    return directory


@pytest.mark.parametrize(("command", "seconds"), [("synth fit", 0.9), ("synth fit", 1.3), ("demo", 0.7)])
def test_a_real_interrupt_is_130(command: str, seconds: float, large: Path) -> None:
    """A real SIGINT, as a terminal sends it."""
    line = [sys.executable, "-m", "sordino", *command.split(), *_LONG[command]]
    process = subprocess.Popen(
        line, cwd=large, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, (process.returncode, said)
    assert "Traceback" not in said
