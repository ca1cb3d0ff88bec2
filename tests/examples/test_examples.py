"""The scripts in examples/ run as they stand."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from places import ADULT, ROOT, needs_adult

Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a script as its own program, in this process, which has imported what it needs; return what it prints."""

    def run_script(script: str, *arguments: str) -> str:
        path = str(ROOT / "examples" / script)
        monkeypatch.setattr(sys, "argv", [path, *arguments])
        monkeypatch.delenv("SORDINO_ADULT", raising=False)
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out

    return run_script


def test_every_example_is_run_here() -> None:
    known = [
        "adult.py",
        "adult_deeper.py",
        "ask_census.py",
        "households.py",
        "local_adult.py",
        "local_survey.py",
        "synth_adult.py",
        "synth_census.py",
        "synth_rules.py",
        "tabulate_census.py",
    ]
    assert sorted(p.name for p in (ROOT / "examples").glob("*.py")) == known


def test_ask_census(run: Run) -> None:
    said = run("ask_census.py")
    assert "Capital" in said
    assert "refused: " in said


def test_synth_census(run: Run) -> None:
    assert "over 40, from the model" in run("synth_census.py")


def test_synth_rules(run: Run) -> None:
    said = run("synth_rules.py")
    assert "with rules: areas do not add up in 0 of 5,000 rows, 0 were renovated" in said
    assert "refused: " in said


def test_tabulate_census(run: Run) -> None:
    assert "region x sex: each cell within" in run("tabulate_census.py")


def test_households(run: Run) -> None:
    assert "hiding one household" in run("households.py")


@pytest.mark.deep
def test_households_in_a_python_of_its_own() -> None:
    command = [sys.executable, str(ROOT / "examples" / "households.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "hiding one household" in done.stdout


@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("script", "instead"), [("adult.py", "refused: "), ("adult_deeper.py", "refused: "), ("synth_adult.py", "over 40")]
)
def test_without_adult_an_example_says_where_it_is_and_does_the_like(script: str, instead: str, run: Run) -> None:
    said = run(script)
    assert "UCI Machine Learning Repository" in said
    assert instead in said


@needs_adult
def test_adult(run: Run) -> None:
    assert "mean age" in run("adult.py", str(ADULT))


@pytest.mark.deep
@needs_adult
def test_adult_deeper(run: Run, tmp_path: Path) -> None:
    """The script checks its own answers; with secure noise about one run in 500 fails by chance (a bound of age above 100)."""
    said = run("adult_deeper.py", str(ADULT), str(tmp_path / "pictures"))
    assert "most common occupation" in said
    assert "45 cells of age band by occupation" in said
    assert len(list((tmp_path / "pictures").glob("*.svg"))) == 4


@needs_adult
def test_local_adult(run: Run) -> None:
    assert "largest error" in run("local_adult.py", str(ADULT))
