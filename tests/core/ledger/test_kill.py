"""kill -9 at any point of `sordino ask`: no charge is refunded, no answer seen is missing, the cap holds."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from fractions import Fraction
from pathlib import Path

import pytest

import sordino as sd
from forking import Fork
from sordino.cli.main import main
from sordino.lab.datasets.census import write_census_project

SQL = "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex"
EPSILON = "0.01"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_census_project(tmp_path / "census", 2000, sd.Rng.seeded(1)).parent


def _words(request: str) -> list[str]:
    return ["ask", SQL, "--epsilon", EPSILON, "--format", "json", "--request-id", request]


# Starts an ask, kills it after so many seconds if any are stated, and returns what it printed.
_Ask = Callable[[Path, str, float | None], str]


def _by_a_program(directory: Path, request: str, seconds: float | None) -> str:
    """As it is typed: a second of its life is the start of Python."""
    command = [sys.executable, "-m", "sordino", *_words(request)]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if seconds is not None:
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    return process.communicate()[0]


def _by_a_fork(directory: Path, request: str, seconds: float | None) -> str:
    """As it is from its first line on."""

    def ask() -> int:
        os.chdir(directory)
        return main(_words(request))

    process = Fork(ask)
    if seconds is not None:
        time.sleep(seconds)
        process.kill()
    return process.communicate()[0]


def _delay(i: int, longest: float) -> float:
    """Spread delays over the life of an ask, the same in every run."""
    return longest * int.from_bytes(hashlib.sha256(str(i).encode()).digest()[:4], "big") / 2**32


def _crash(project: Path, kills: int, ask: _Ask) -> None:
    start = time.monotonic()
    whole = ask(project, "whole", None)
    longest = 1.1 * (time.monotonic() - start)
    seen = {"whole": json.loads(whole)}
    for i in range(kills):
        out = ask(project, f"r{i}", _delay(i, longest))
        if out.endswith("}\n"):
            seen[f"r{i}"] = json.loads(out)
    ledger = sd.Ledger.existing(next(project.glob("*.ledger")))
    report, charges = ledger.verify(), {c.request: c for c in ledger.charges()}
    assert ledger.spent() == sd.PureDP(Fraction(EPSILON) * len(charges))
    assert report.committed + report.failed + report.in_doubt == len(charges)
    for request, answer in seen.items():
        assert charges[request].state == "committed"
        stored = sd.Release.from_dict(json.loads(ledger.answer(charges[request].id)))
        assert stored.to_dict()["rows"] == answer["rows"]
    for asked, charge in charges.items():  # asked again: the stored answer, or in doubt; never a second charge
        with redirect_stdout(io.StringIO()) as again, contextlib.chdir(project):
            code = main(_words(str(asked)))
        if charge.state == "committed":
            assert json.loads(again.getvalue())["charge"] == charge.id
        else:
            assert code == 5
    assert ledger.spent() == sd.PureDP(Fraction(EPSILON) * len(charges))


def test_a_kill(project: Path) -> None:
    _crash(project, 2, _by_a_fork)


@pytest.mark.deep
def test_many_kills(project: Path) -> None:
    _crash(project, 60, _by_a_program)


def test_one_ask_fits_and_the_next_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert [main(["ask", SQL, "--epsilon", "2", "--quiet"]) for _ in range(2)] == [0, 4]


@pytest.mark.deep
def test_of_two_processes_one_fits_and_the_next_is_refused(project: Path) -> None:
    codes = []
    for i in range(2):
        command = [sys.executable, "-m", "sordino", "ask", SQL, "--epsilon", "2", "--quiet"]
        environment = {**os.environ, "PYTHONHASHSEED": str(i)}
        codes.append(subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False).returncode)
    assert codes == [0, 4]
