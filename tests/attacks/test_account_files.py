"""Attacks on the account where it lies: older copies, deletion, swaps and edits, beside the file that a textbook would keep."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.core.ledger.ledger import Ledger
from sordino.errors import SordinoError

CAP = 1


class JsonAccount:
    """The account of a textbook: one number in a file, checked and written back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def charge(self, amount: int) -> bool:
        spent = json.loads(self.path.read_text())["spent"] if self.path.exists() else 0
        if spent + amount > CAP:
            return False
        self.path.write_text(json.dumps({"spent": spent + amount}))
        return True


def spend(path: Path) -> bool:
    """Ask for the whole budget, as a new process would; say whether an answer came."""
    with contextlib.suppress(SordinoError), contextlib.ExitStack() as stack:
        rows, domain = pa.table({"x": [1] * 9}), sd.Domain({"x": sd.Integer(0, 1)})
        curator = protect(rows, domain, ledger=path, budget=sd.PureDP(CAP), name="people")
        stack.callback(curator.close)
        curator.ask(sd.count(), epsilon=CAP)
        return True
    return False


def roll_back(path: Path, before: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    for file in before.glob("*"):
        shutil.copy(file, path.parent / file.name)


def delete(path: Path, _: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def swap(path: Path, _: Path) -> None:
    other = path.with_name("other")
    if path.suffix == ".json":
        other.write_text(json.dumps({"spent": 0}))
    else:
        protect(pa.table({"x": [1]}), sd.Domain({"x": sd.Integer(0, 1)}), ledger=other, budget=sd.PureDP(CAP)).close()
    other.replace(path)


def edit(path: Path, _: Path) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps({"spent": 0}))
        return
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE budget SET spent = '0', spent_units = 0")


def truncate(path: Path, _: Path) -> None:
    path.write_bytes(b"" if path.suffix != ".json" else b'{"spent": 0}')


MOVES: list[Callable[[Path, Path], None]] = [roll_back, delete, swap, edit, truncate]


@pytest.mark.attack(
    "roll back, delete, swap or edit the account",
    source="Haeberlen, Pierce, Narayan 2011, privacy budget attacks",
)
@pytest.mark.parametrize("move", MOVES)
def test_a_budget_is_spent_once_or_the_rest_is_told_whatever_is_done_to_its_file(
    tmp_path: Path, move: Callable[[Path, Path], None]
) -> None:
    naive, before = tmp_path / "account.json", tmp_path / "before"
    before.mkdir()
    (before / naive.name).write_text(json.dumps({"spent": 0}))
    account = JsonAccount(naive)
    assert account.charge(CAP)
    assert not account.charge(CAP)
    move(naive, before)
    assert account.charge(CAP), "the attack is not what it should be"
    path = tmp_path / "people.ledger"
    protect(
        pa.table({"x": [1] * 9}), sd.Domain({"x": sd.Integer(0, 1)}), ledger=path, budget=sd.PureDP(CAP), name="people"
    ).close()
    shutil.rmtree(before)
    before.mkdir()
    for file in tmp_path.glob("people.ledger*"):
        shutil.copy(file, before / file.name)
    assert spend(path)
    assert not spend(path)
    move(path, before)
    granted = sum(spend(path) for _ in range(3))
    assert granted <= (
        move is swap
    )  # a sound ledger of the same cap is not refused, but what lay there is told beside it
    if granted:
        with Ledger.existing(path) as ledger:
            report = ledger.verify()
            assert report.spent.amounts()["epsilon"] + report.uncounted["epsilon"] == 1 + granted
