"""A file that a command would write in a form that its ending does not name is refused before all else, uncharged."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from sordino.cli.main import app

Run = Callable[..., Any]

_SQL = "SELECT COUNT(*) AS n FROM people"
_WRITERS: dict[str, tuple[str, ...]] = {  # every command that writes a file, but for the file
    "ask": (_SQL, "--epsilon", "0.1", "-o"),
    "plan": (_SQL, "--epsilon", "0.1", "--plot"),
    "show": ("c-0001", "-o"),
    "report": ("-o",),
    "budget": ("--plot",),
    "explain": ("--plot",),
    "dummy": ("-o",),
    "init": ("people.parquet", "-o"),
    "bounds": ("capital_gain", "--epsilon", "0.1", "--plot"),
    "caps": ("--epsilon", "0.1", "--plot"),
    "sensitivity": ("--universe", "1,2,3", "--size", "2", "--query", "mean", "--plot"),
    "attack": ("release", "-o"),
    "ledger export": ("-o",),
    "epsilon worlds": ("--universe", "1,2,3", "--size", "2", "--query", "mean", "--risk", "1/2", "--plot"),
    "epsilon choose": ("--query", _SQL, "--error", "9", "--max-posterior", "0.9", "--attacker-prior", "0.5", "--plot"),
    "local plan": ("--size", "4", "--epsilon", "1", "--respondents", "100", "--plot"),
    "local simulate": ("--data", "x.csv", "--column", "a", "--epsilon", "1", "--plot"),
    "local estimate": ("--store", "r.db", "--plot"),
    "local keygen": ("-o",),
    "series release": ("wards", "2026-01-01", "-o"),
    "series show": ("wards", "--plot"),
    "local task create": (
        *("t", "--key", "k.key", "--question", "Q?", "--label", "a", "--label", "b", "--epsilon", "1"),
        *("--permanent-epsilon", "2", "--epoch", "1", "--expires", "2099-01-01", "--origin", "https://x.example", "-o"),
    ),
    "local export": ("--store", "r.db", "-o"),
    "model fit": ("pca", "--columns", "age", "--components", "1", "--epsilon", "0.1", "-o"),
    "model choose": (
        *("naive_bayes", "logistic_regression", "--y", "sex", "--x", "age", "--validate", "4"),
        *("--epsilon", "0.1", "-o"),
    ),
    "model show": ("r.model", "--plot"),
    "synth fit": ("--epsilon", "0.1", "-o"),
    "synth plan": ("--epsilon", "0.1", "--plot"),
    "synth sample": ("people.model", "--rows", "3", "-o"),
    "synth answer": ("people.model", _SQL, "-o"),
    "synth report": ("people.model", "--epsilon", "0.1", "-o"),
    "synth show": ("people.model", "--plot"),
}


def _writers(group: Any, above: tuple[str, ...] = ()) -> set[str]:
    """Return the names of all commands with an option for a file to write."""
    found = set()
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= _writers(command, (*above, name))
        elif any(p.name in ("output", "plot") and _is_path(p) for p in command.params):
            found.add(" ".join((*above, name)))
    return found


def _is_path(option: Any) -> bool:
    return bool(option.metavar == "FILE")


def test_every_command_that_writes_a_file_is_here() -> None:
    assert _writers(typer.main.get_command(app)) == set(_WRITERS)


@pytest.mark.parametrize("command", _WRITERS)
def test_an_unknown_ending_is_refused_before_the_charge(command: str, census: Path, run: Run) -> None:
    draw = random.Random(command)
    endings = ["xls", "docx", *("".join(draw.choices(string.ascii_lowercase, k=draw.randint(5, 9))) for _ in range(3))]
    before = sorted(p.name for p in census.iterdir())
    for ending in endings:
        ran = run(*command.split(), *_WRITERS[command], f"out.{ending}")
        assert ran.code == 2, (command, ending, ran)
        assert "end in" in ran.err or "ends in" in ran.err, ran.err
    assert sorted(p.name for p in census.iterdir()) == before  # no ledger, so no charge, and no file


def test_a_format_and_an_ending_that_differ_are_refused(census: Path, run: Run) -> None:
    for form, name in (("csv", "n.json"), ("table", "n.csv"), ("json", "n.parquet"), ("parquet", "n.txt")):
        ran = run("ask", _SQL, "--epsilon", "0.1", "--format", form, "-o", name)
        assert (ran.code, "does not fit" in ran.err) == (2, True), ran
    assert not (census / "people.ledger").exists()
    assert run("ask", _SQL, "--epsilon", "0.1", "-o", "n.txt").code == 0
    assert "95% interval" in (census / "n.txt").read_text()
