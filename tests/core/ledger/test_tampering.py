"""What anyone may do to a ledger's file from outside - edit any cell, swap, delete, restore - is refused or told."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import ApproxDP, Loss, Number, PureDP
from sordino.errors import BudgetExhausted, DeclarationError, LedgerError

ROW = {"neighbors": "add_remove", "privacy_unit": "row", "columns": {"age": {"type": "integer", "upper": 99}}}
TABLES = ("entries", "state", "budget", "charges", "declarations")
CAP = PureDP(7)
SPENT = 6  # of it, so that one more charge fits


def ask(ledger: Ledger, epsilon: Number = 1) -> None:
    ledger.commit(ledger.charge(LaplaceEvent(epsilon), note="a question", question="q"), "1")


def count_grants(path: Path, cap: Loss) -> int:
    """Return how many charges of 1 a ledger grants, three times asked; it may refuse at any point."""
    count = 0
    with contextlib.suppress(LedgerError, DeclarationError), Ledger.open(path, cap=cap) as ledger:
        for _ in range(3):
            try:
                ledger.charge(LaplaceEvent(1), note="after the edit", question="q")
            except BudgetExhausted:
                break
            count += 1
        assert ledger.spent() == PureDP(SPENT + count)
        assert ledger.cap == CAP
    return count


def edit(path: Path, draw: random.Random) -> str | None:
    """Edit one cell or row by SQL, the triggers gone; return the words, or None where SQLite itself refused."""
    db = sqlite3.connect(path, isolation_level=None)
    try:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        table = draw.choice(TABLES)
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        places = [row[0] for row in db.execute(f"SELECT rowid FROM {table}")]
        here, there = draw.choice(places), draw.choice(places)
        column = draw.choice(columns)
        old = db.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (here,)).fetchone()[0]
        other = db.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (there,)).fetchone()[0]
        new: Any = draw.choice([0, 1, "0", "1/3", "", None, -1, 10**9, "x", b"\x00", other, _nearby(old, draw)])
        kind = draw.choice(["cell", "cell", "cell", "row", "copy"])
        try:
            if kind == "row":
                db.execute(f"DELETE FROM {table} WHERE rowid = ?", (here,))
            elif kind == "copy":
                row = list(db.execute(f"SELECT * FROM {table} WHERE rowid = ?", (here,)).fetchone())
                row[0] = new
                db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)
            else:
                db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, here))
        except (sqlite3.Error, OverflowError):
            return None
        return f"{kind} of {table}.{column} at {here}: {old!r} becomes {new!r}"
    finally:
        db.close()


def _nearby(value: Any, draw: random.Random) -> Any:
    """Return a value with one character or unit changed."""
    if isinstance(value, int):
        return value + draw.choice([-1, 1])
    if isinstance(value, str) and value:
        at = draw.randrange(len(value))
        return value[:at] + draw.choice("01/7a") + value[at + 1 :]
    return value


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("column", ["time", "kind"])
def test_an_edit_of_the_last_entry_is_found_by_its_hash(tmp_path: Path, column: str) -> None:
    """Also one that leaves the sums in it as they are."""
    path = tmp_path / "people.ledger"
    with Ledger.open(path, cap=CAP) as ledger:
        ask(ledger)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("DROP TRIGGER entries_stay")
    db.execute(f"UPDATE entries SET {column} = 'x' WHERE seq = (SELECT max(seq) FROM entries)")
    db.close()
    with pytest.raises(LedgerError, match="is not what was written"):
        Ledger.existing(path)


@pytest.mark.attack("roll back, delete, swap or edit the account")
@pytest.mark.parametrize("most", [20, pytest.param(60, marks=pytest.mark.deep)])
def test_any_edit_of_any_cell_or_row_is_refused_or_changes_nothing_of_the_spend(
    most: int, tmp_path: Path, state: Path
) -> None:
    path, sound = tmp_path / "people.ledger", tmp_path / "sound"
    with Ledger.open(path, cap=CAP) as ledger:
        ledger.declare("adult", ROW)
        for _ in range(SPENT):
            ask(ledger)
    shutil.copytree(state, sound / "state")
    shutil.copy(path, sound / "file")
    draw, refused, edits = random.Random(11), 0, 0
    while edits < most:
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        shutil.copy(sound / "file", path)
        shutil.rmtree(state)
        shutil.copytree(sound / "state", state)
        words = edit(path, draw)
        if words is None:
            continue
        edits += 1
        count = count_grants(path, CAP)
        assert count <= 1, words
        refused += count == 0
    assert refused > most // 5


@pytest.mark.attack("roll back, delete, swap or edit the account")
@pytest.mark.each(3)
@pytest.mark.parametrize("seed", range(8))
def test_no_swapping_deleting_or_restoring_hides_a_charge(tmp_path: Path, seed: int) -> None:
    """Whatever was granted at a path is spent by, or told beside, whichever ledger can be opened there."""
    draw, path, cap = random.Random(seed), tmp_path / "people.ledger", ApproxDP(1000, "1e-3")
    aside: list[Path] = []
    total, deltas = Fraction(0), Fraction(0)
    for turn in range(30):
        act = draw.choice(["ask", "ask", "delete", "aside", "copy", "restore", "restore", "new"])
        if act in ("delete", "aside", "copy") and path.exists():
            kept = tmp_path / f"aside-{turn}"
            if act == "delete":
                path.unlink()
            elif act == "aside":
                path.rename(kept)
                aside.append(kept)
            else:
                shutil.copy(path, kept)
                aside.append(kept)
        elif act == "restore" and aside:
            shutil.copy(draw.choice(aside), path)
        elif act == "new":
            with contextlib.suppress(DeclarationError):
                Ledger.new(path, cap=cap, reason="lost").close()
        elif act == "ask":
            amount = Fraction(draw.randrange(1, 50), 7)
            with contextlib.suppress(LedgerError), Ledger.open(path, cap=cap) as ledger:
                ask(ledger, amount)
                total += amount
        with contextlib.suppress(LedgerError):
            found = Ledger.existing_or_none(path)
            if found is None:
                assert total == 0
                continue
            with found:
                report = found.verify()
            known = report.spent.amounts()["epsilon"] + report.uncounted.get("epsilon", 0)
            assert known == total, (turn, act)
            assert report.spent.amounts()["delta"] == deltas
    assert total > 0
