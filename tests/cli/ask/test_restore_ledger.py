"""A lost disk, as a user meets it: each message names what to do next, and what was spent never returns."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cli.support import Run

ASK = ("ask", "SELECT COUNT(*) AS n FROM people", "--epsilon")


@pytest.fixture
def backup(census: Path, run: Run) -> Path:
    """A copy made after the first of two questions; 0.4 is spent."""
    assert run(*ASK, "0.1", "--request-id", "first").code == 0
    copied = run("ledger", "backup", "backups")
    assert (copied.code, "epsilon 0.1 of epsilon 2 is spent" in " ".join(copied.out.split())) == (0, True)
    assert run(*ASK, "0.3", "--request-id", "second").code == 0
    return census / "backups" / "census.ledger"


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


@pytest.mark.each(6)
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
    assert run("ledger", "backup", "newest").code == 0
    newest = census / "newest" / "census.ledger"
    lose(census)
    assert run("ledger", "restore", str(census / "none.ledger"), "--reason", "r").code == 2
    assert run("ledger", "restore", str(newest), "--reason", "r").code == 0  # nothing is lost: put back as it was
    assert "gone on" not in run("ledger", "verify").out
    assert "epsilon 0.4 spent of 2" in run("budget").out


def test_a_backup_is_one_private_file_and_replaces_the_last(census: Path, run: Run) -> None:
    assert "nothing has been asked yet" in " ".join(run("ledger", "backup", "backups").out.split())
    assert run(*ASK, "0.1").code == 0
    assert run("ledger", "backup", "backups").code == 0
    first = (census / "backups" / "census.ledger").read_bytes()
    assert run(*ASK, "0.1").code == 0
    assert run("ledger", "backup", "backups").code == 0
    copy = census / "backups" / "census.ledger"
    assert copy.read_bytes() != first
    assert [path.name for path in copy.parent.iterdir()] == ["census.ledger"]
    assert copy.stat().st_mode & 0o077 == 0


def test_a_backup_has_the_servers_store(census: Path, run: Run) -> None:
    assert run("serve", "account", "add", "ana", "--role", "analyst").code == 0
    assert run("ledger", "backup", "backups").code == 0
    store = census / "sordino-server.db"
    store.unlink()
    shutil.copy(census / "backups" / store.name, store)
    assert "ana" in run("serve", "account", "list").out


@pytest.mark.usefixtures("census")
@pytest.mark.parametrize("folder", [".", "census.ledger"])
def test_a_backup_never_takes_the_ledgers_place(folder: str, run: Run) -> None:
    assert run(*ASK, "0.1").code == 0
    refused = run("ledger", "backup", folder)
    assert (refused.code, "name another folder" in " ".join(refused.err.split())) == (2, True)
    assert run(*ASK, "0.1").code == 0


def test_a_ledger_that_is_not_sound_is_not_backed_up(census: Path, run: Run, backup: Path) -> None:
    sound = backup.read_bytes()
    lose(census)
    shutil.copy(backup, census / "census.ledger")
    assert run("ledger", "backup", "backups").code == 2
    assert backup.read_bytes() == sound
