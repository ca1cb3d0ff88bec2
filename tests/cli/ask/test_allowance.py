"""An allowance in the project file: enforced by commands, shown by `sordino budget`, amended, and refused with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.support import Run

PROJECT = """
[budgets.people]
cap = {rho = 3, delta = 1e-6}
ledger = "people.ledger"
[budgets.people.allowance]
every = "year"
rho = 0.5
rolling = true

[tables.people]
source = "people.csv"
csv = {header = true}
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
[tables.people.columns]
age = {type = "integer", lower = 0, upper = 99}
"""
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT)
    (tmp_path / "people.csv").write_text("age\n" + "30\n" * 100)
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return path


def test_what_lies_ahead_is_shown_before_and_after_it_is_spent(run: Run) -> None:
    before = run("budget").out
    assert "rho 0 of 0.5 spent, rho 0.5 left" in " ".join(before.split())
    assert run("ask", COUNT, "--rho", "0.4").code == 0
    refused = run("ask", COUNT, "--rho", "0.2")
    assert refused.code == 4
    assert (
        "the allowance does not cover this: it asks for rho 0.2, and rho 0.1 of rho 0.5 in any 12 months is left"
        in refused.err
    )
    words = " ".join(run("budget").out.split())
    assert "rho 0.4 of 0.5 spent, rho 0.1 left; more may be spent from" in words
    assert "the cap covers the allowance 5 more times in full" in words
    assert "Somebody whose rows stay for 10 years loses at most rho 3 in that time: all that the cap allows" in words
    (shown,) = json.loads(run("budget", "--format", "json").out)["budgets"]
    assert (shown["allowance"]["spent"], shown["allowance"]["left"]) == ({"rho": "0.4"}, {"rho": "0.1"})
    assert "sound" in run("ledger", "verify").out


def test_another_allowance_is_amended_and_holds_later(run: Run, project: Path) -> None:
    assert run("ask", COUNT, "--rho", "0.5").code == 0
    project.write_text(PROJECT.replace("rho = 0.5", "rho = 0.7"))
    refused = run("ask", COUNT, "--rho", "0.1")
    assert refused.code == 2
    assert (
        "the ledger holds an allowance of rho 0.5 in any 12 months, and rho 0.7 in any 12 months is stated"
        in refused.err
    )
    amended = run("ledger", "amend", "--reason", "more questions")
    assert amended.code == 0
    assert "rho 0.5 in any 12 months -> rho 0.7 in any 12 months, from its next period on" in amended.err + amended.out
    assert run("ask", COUNT, "--rho", "0.1").code == 4
    assert "rho 0.7 in any 12 months" in run("budget").out


BAD = [
    ('every = "decade"', "every"),
    ("rho = 4", "above the cap of 3"),
    ("epsilon = 1", "cap's kind"),
    ('every = "year"\nevry = 1', "evry"),
]


@pytest.mark.parametrize(("line", "words"), BAD, ids=[line[:12] for line, _ in BAD])
def test_an_allowance_that_makes_no_sense_is_named_with_its_place(
    run: Run, project: Path, line: str, words: str
) -> None:
    key = line.partition(" ")[0]
    old = 'every = "year"' if key == "every" else "rho = 0.5"
    project.write_text(PROJECT.replace(old, line))
    refused = run("budget")
    assert refused.code == 2
    assert "budgets.people.allowance" in refused.err
    assert words in refused.err
