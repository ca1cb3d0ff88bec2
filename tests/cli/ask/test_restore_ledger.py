"""A lost disk, as a user meets it: each message names what to do next, and what was spent never returns."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from cli.support import Run

ASK = ("ask", "SELECT COUNT(*) AS n FROM people", "--epsilon")


def back_up(ledger: Path, to: Path) -> None:
    source, target = sqlite3.connect(ledger), sqlite3.connect(to)
    source.backup(target)
    source.close()
    target.close()


@pytest.fixture
def backup(census: Path, run: Run) -> Path:
    """A copy made after the first of two questions; 0.4 is spent."""
    assert run(*ASK, "0.1", "--request-id", "first").code == 0
    back_up(census / "census.ledger", census / "backup.ledger")
    assert run(*ASK, "0.3", "--request-id", "second").code == 0
    return census / "backup.ledger"


def lose(census: Path) -> None:
    for file in census.glob("census.ledger*"):
        file.unlink()


def follow(words: str, run: Run, backup: Path) -> None:
    """Do what a message says: run the command in it."""
    found = re.search(r"sordino ledger restore( BACKUP)? --reason", " ".join(words.split()))
    assert found is not None, words
    named = (str(backup),) if found[1] else ()
    restored = run("ledger", "restore", *named, "--reason", "the disk was lost")
    assert restored.code == 0, restored.err
    assert "epsilon 0.3" in restored.out
    assert "epsilon 0.4 of epsilon 2 is spent" in " ".join(restored.out.split())


@pytest.mark.each(3)
@pytest.mark.parametrize("way", ["ask", "budget", "ledger new", "ledger amend", "ledger verify"])
@pytest.mark.parametrize("lies", ["nothing", "the copy"])
def test_each_message_leads_out(lies: str, way: str, census: Path, run: Run, backup: Path) -> None:
    lose(census)
    if lies == "the copy":
        shutil.copy(backup, census / "census.ledger")
    if lies == "nothing" and way == "ledger new":
        return  # this begins another ledger, which is a way out
    command = {"ask": (*ASK, "0.1"), "budget": ("budget",), "ledger verify": ("ledger", "verify")}.get(way)
    refused = run(*(command or (*way.split(), "--reason", "the disk was lost")))
    assert refused.code == 2
    follow(refused.err, run, backup)
    again = run(*ASK, "0.1", "--request-id", "first")  # its answer is in the copy
    assert again.code == 0
    assert "epsilon 0.4 spent of 2" in run("budget").out
    assert run(*ASK, "0.3", "--request-id", "second").code == 0  # its answer is lost: charged again
    assert "epsilon 0.7 spent of 2" in run("budget").out
    assert "gone on from an older copy 1 times: epsilon 0.3" in " ".join(run("ledger", "verify").out.split())


def test_what_is_whole_or_in_the_way_is_not_replaced(census: Path, run: Run, backup: Path) -> None:
    whole = run("ledger", "restore", "--reason", "r")
    assert (whole.code, "nothing is to be restored" in whole.err) == (2, True)
    taken = run("ledger", "restore", str(backup), "--reason", "r")
    assert (taken.code, "leave BACKUP out" in " ".join(taken.err.split())) == (2, True)
    newest = census / "newest.ledger"
    back_up(census / "census.ledger", newest)
    lose(census)
    assert run("ledger", "restore", str(census / "none.ledger"), "--reason", "r").code == 2
    assert run("ledger", "restore", str(newest), "--reason", "r").code == 0  # nothing is lost: put back as it was
    assert "gone on" not in run("ledger", "verify").out
    assert "epsilon 0.4 spent of 2" in run("budget").out
