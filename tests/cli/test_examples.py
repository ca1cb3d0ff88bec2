"""The scripts in examples/ run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADULT = Path(os.environ.get("SORDINO_ADULT") or ROOT.parent / "shared" / "data" / "adult.data")


def ran(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / script), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SORDINO_ADULT"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    assert sorted(p.name for p in (ROOT / "examples").glob("*.py")) == ["adult.py", "ask_census.py", "households.py"]


def test_ask_census() -> None:
    said = ran("ask_census.py")
    assert "Capital" in said
    assert "refused: " in said


def test_households() -> None:
    assert "hiding one household" in ran("households.py")


def test_adult_says_what_it_needs() -> None:
    assert "name the Adult extract" in ran("adult.py")


@pytest.mark.skipif(not ADULT.is_file(), reason="no Adult extract; set SORDINO_ADULT to its path")
def test_adult() -> None:
    assert "mean age" in ran("adult.py", str(ADULT))
