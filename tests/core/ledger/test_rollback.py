"""The ledger's file: tampering, damage, rollback, copies, and the high-water mark outside it."""

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge, canonical, entry_hash
from sordino.core.loss import ZCDP, Number, PureDP
from sordino.errors import BudgetExhausted, DeclarationError, LedgerError

ROW = {"neighbors": "add_remove", "privacy_unit": "row", "columns": {"age": {"type": "integer", "upper": 99}}}


def ask(ledger: Ledger, epsilon: Number) -> Charge:
    return ledger.charge(LaplaceEvent(epsilon), note="a question", question="q")


def fill(path: Path, charges: int = 5) -> None:
    with Ledger.open(path, cap=PureDP(100)) as ledger:
        ledger.declare("adult", ROW)
        for _ in range(charges):
            ledger.commit(ask(ledger, 1), '"SECRET"')


def alter(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for name in ("entries_stay", "entries_last", "entries_follow"):
        sql = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        db.execute(f"DROP TRIGGER {name}")
        statements = (*statements, sql)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.attack("roll back, delete, swap or edit the account")
@pytest.mark.parametrize(
    ("statement", "entry"),
    [
        ("UPDATE entries SET payload = replace(payload, '\"1\"', '\"0\"') WHERE seq = 5", "entry 5 "),
        ("UPDATE entries SET time = '1999' WHERE seq = 2", "entry 2 "),
        ("UPDATE entries SET kind = 'fail' WHERE seq = 6", "entry 6 "),
        ("DELETE FROM entries WHERE seq = 4", "entry 4 is missing"),
        ("UPDATE budget SET spent = '1', spent_units = 1", "the sums"),
        ("UPDATE charges SET state = 'failed' WHERE number = 2", "charge c-0002"),
        ("DELETE FROM charges WHERE number = 5", "charge c-0005"),
        ("UPDATE declarations SET declaration = '{}'", "the sums"),
        ("DROP TRIGGER entries_stay", "triggers"),
    ],
)
def test_tampering_is_named_and_no_answer_shown(path: Path, statement: str, entry: str) -> None:
    fill(path)
    if "TRIGGER" in statement:
        db = sqlite3.connect(path)
        db.execute(statement)
        db.commit()
        db.close()
    else:
        alter(path, statement)
    with pytest.raises(LedgerError, match=entry) as refusal:
        Ledger.existing(path).verify()
    assert "SECRET" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_entry_that_was_made_anew_does_not_fit_the_next(path: Path) -> None:
    """Its own hash is right and all sums are; the entry after it names the one that stood there before."""
    fill(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        row = db.execute("SELECT seq, kind, time, payload, prev FROM entries WHERE seq = 5").fetchone()
    made = (*row[:3], row[3].replace("a question", "another one"), row[4])
    assert made != row
    text = made[3].replace("'", "''")
    alter(path, f"UPDATE entries SET payload = '{text}', hash = '{entry_hash(*made)}' WHERE seq = 5")
    with pytest.raises(LedgerError, match="entry 6 is not what was written"):
        Ledger.existing(path).verify()


def test_last_entry_or_head_that_was_altered_is_noticed_at_open(path: Path) -> None:
    fill(path)
    alter(path, "DELETE FROM entries WHERE seq = 12")
    with pytest.raises(LedgerError, match="entry 12"):
        Ledger.existing(path)


def test_entries_can_only_be_appended(path: Path) -> None:
    fill(path)
    db = sqlite3.connect(path)
    for statement in (
        "DELETE FROM entries",
        "UPDATE entries SET kind = 'x'",
        "INSERT OR REPLACE INTO entries VALUES (2, 'x', '', '', '', '')",
        "INSERT INTO entries VALUES (99, 'x', '', '', '', '')",
        "UPDATE budget SET spent_units = cap_units + 1",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            db.execute(statement)
    db.close()


def open_ask_and_verify(path: Path) -> None:
    with Ledger.open(path, cap=PureDP(100)) as ledger:
        for _ in range(3):
            ask(ledger, 1)
        ledger.verify()


@pytest.mark.parametrize("damage", ["garbage", "empty", "truncated", "other database", "zeros", "half"])
def test_damaged_file_is_one_plain_error(path: Path, damage: str) -> None:
    fill(path, 30)
    whole = path.read_bytes()
    if damage == "other database":
        path.unlink()
        sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    else:
        torn = {
            "garbage": b"not a database at all" * 100,
            "empty": b"",
            "truncated": whole[:4096],
            "zeros": whole[:4096] + bytes(len(whole) - 4096),
            "half": whole[: len(whole) // 2],
        }
        path.write_bytes(torn[damage])
    with pytest.raises(LedgerError) as refusal:
        Ledger.existing(path).verify()
    assert "\n" not in str(refusal.value)
    assert "sqlite" not in str(refusal.value).lower()
    assert refusal.value.__context__ is None
    with pytest.raises(LedgerError):
        open_ask_and_verify(path)


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_older_copy_put_back_is_noticed(path: Path, tmp_path: Path) -> None:
    fill(path)
    shutil.copy(path, tmp_path / "backup")
    with Ledger.existing(path) as ledger:
        ask(ledger, 1)
    shutil.copy(tmp_path / "backup", path)
    with pytest.raises(LedgerError, match="rolled back: it has 12 entries, 13 were seen"):
        Ledger.existing(path)
    with pytest.raises(LedgerError, match="rolled back"):
        Ledger.open(path, cap=PureDP(100))


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_copy_that_went_its_own_way_is_noticed(
    path: Path, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path)
    shutil.copy(path, tmp_path / "copy.ledger")
    with Ledger.existing(path) as ledger:
        ask(ledger, 1)
    with pytest.raises(LedgerError, match="rolled back"):
        Ledger.existing(tmp_path / "copy.ledger")
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "elsewhere"))
    with Ledger.open(tmp_path / "copy.ledger", cap=PureDP(100)) as other:
        ask(other, 2)
        ask(other, 2)
    monkeypatch.setenv("SORDINO_STATE", str(state))
    with pytest.raises(LedgerError, match="entry 13 is not the one that was seen"):
        Ledger.existing(tmp_path / "copy.ledger")


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_rollback_under_an_open_ledger_is_noticed(path: Path, tmp_path: Path) -> None:
    fill(path)
    shutil.copy(path, tmp_path / "backup")
    ledger = Ledger.existing(path)
    ask(ledger, 1)
    os.replace(tmp_path / "backup", path)
    with pytest.raises(LedgerError, match="replaced"):
        ask(ledger, 1)
    with contextlib.suppress(LedgerError):  # SQLite may heal the older file from its write-ahead log
        ask(ledger, 1)
        assert ledger.verify().spent == PureDP(7)


def test_an_older_state_written_into_the_open_file_is_noticed(path: Path, tmp_path: Path) -> None:
    """The same file, page by page: neither its place nor its format tells, but the mark does."""
    fill(path)
    with contextlib.closing(sqlite3.connect(tmp_path / "older")) as older, Ledger.existing(path) as ledger:
        with contextlib.closing(sqlite3.connect(path)) as now:
            now.backup(older)
            ask(ledger, 1)
            older.backup(now)
        with pytest.raises(LedgerError, match="rolled back"):
            ask(ledger, 1)


def test_a_missing_mark_is_accepted_and_reported(path: Path, state: Path) -> None:
    fill(path)
    shutil.rmtree(state)
    ledger = Ledger.existing(path)
    report = ledger.verify()
    assert report.mark == "missing"
    assert "no high-water mark" in report.describe()
    ask(ledger, 1)
    report = ledger.verify()
    assert (report.mark, report.unmarked) == ("agrees", 1)


def test_mark_in_a_place_of_its_own(path: Path, tmp_path: Path, state: Path) -> None:
    mark = tmp_path / "safe" / "mark"
    with Ledger.open(path, cap=PureDP(1), mark=mark) as ledger:
        ask(ledger, 0.5)
        assert ledger.verify().mark == "agrees"
    assert mark.stat().st_size == 4608
    assert not state.exists()
    with pytest.raises(LedgerError, match="belongs to the ledger"):
        Ledger.open(tmp_path / "other.ledger", cap=PureDP(1), mark=mark)
    Ledger.open(tmp_path / "third.ledger", cap=PureDP(1)).close()
    with pytest.raises(LedgerError, match="another ledger"):
        Ledger.existing(tmp_path / "third.ledger", mark=mark)
    mark.write_text("garbage")
    with pytest.raises(LedgerError, match=r"mark .* is damaged"):
        Ledger.existing(path, mark=mark)


def test_state_directory_that_cannot_be_written_is_named(path: Path, state: Path) -> None:
    state.write_text("a file, not a directory")
    with pytest.raises(LedgerError, match="SORDINO_STATE"):
        Ledger.open(path, cap=PureDP(1))
    assert not path.exists()


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_a_ledger_that_is_gone_is_no_fresh_budget(path: Path) -> None:
    fill(path)
    first = Ledger.existing(path).id
    path.unlink()
    attempts: list[Callable[[], object]] = [
        lambda: Ledger.open(path, cap=PureDP(100)),
        lambda: Ledger.existing_or_none(path),
    ]
    for attempt in attempts:
        with pytest.raises(LedgerError, match=r"12 entries, epsilon 5 spent.*ledger new --reason"):
            attempt()
    assert not path.exists()
    with pytest.raises(DeclarationError, match="above this cap"):
        Ledger.new(path, cap=PureDP(4), reason="lost")
    with pytest.raises(DeclarationError, match="is of another kind"):
        Ledger.new(path, cap=ZCDP(4), reason="lost")
    with pytest.raises(DeclarationError, match="reason"):
        Ledger.new(path, cap=PureDP(100), reason=" ")
    with Ledger.new(path, cap=PureDP(6), reason="the disk broke") as ledger:
        assert ledger.spent() == PureDP(5)
        ask(ledger, 1)
        with pytest.raises(BudgetExhausted):
            ask(ledger, "1e-9")
        report = ledger.verify()
        assert report.predecessor == (first, 12)
        assert report.uncounted == {}
        assert "epsilon 5 carried over" in report.describe()
        with pytest.raises(DeclarationError, match="below what was spent"):  # by the ledger before it too
            ledger.amend(reason="save", cap=PureDP(3))
        assert ledger.entries()[0].payload["reason"] == "the disk broke"
    path.unlink()
    assert Ledger.new(path, cap=PureDP(7), reason="again").spent() == PureDP(6)
    with pytest.raises(DeclarationError, match="exists: ask through it"):
        Ledger.new(path, cap=PureDP(7), reason="again")


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_a_file_put_back_shows_what_was_charged_in_between(path: Path, tmp_path: Path) -> None:
    fill(path)
    os.rename(path, tmp_path / "aside")
    with Ledger.new(path, cap=PureDP(100), reason="a try") as between:
        ask(between, 2)
    os.replace(tmp_path / "aside", path)
    with Ledger.open(path, cap=PureDP(100)) as ledger:
        report = ledger.verify()
        assert report.uncounted == {"epsilon": 2}
        assert "epsilon 2 was spent in another file that lay at this path" in report.describe()


@pytest.mark.attack("roll back, delete, swap or edit the account")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE budget SET spent = '0', spent_units = 0",
        "DELETE FROM budget",
        'UPDATE state SET cap = \'{"epsilon":"1000","kind":"pure"}\'',
        "UPDATE state SET charges = 0",
        "UPDATE state SET ledger = 'another'",
        "UPDATE declarations SET declaration = '{}'",
        "DELETE FROM declarations",
    ],
)
def test_an_edited_sum_cap_or_declaration_is_refused_at_the_next_charge(path: Path, statement: str) -> None:
    fill(path)
    ledger = Ledger.existing(path)
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()
    for attempt in (lambda: ask(ledger, 1), ledger.spent, lambda: Ledger.open(path, cap=PureDP(100))):
        with pytest.raises(LedgerError, match="restore a sound copy"):
            attempt()


@pytest.mark.attack("roll back, delete, swap or edit the account")
def test_an_entry_forged_beyond_the_mark_is_refused(path: Path) -> None:
    """Whoever computes hashes can append a sound link, but the mark is behind it: all entries are seen anew."""
    fill(path)
    db = sqlite3.connect(path)
    seq, digest = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    after = json.loads(db.execute("SELECT payload FROM entries WHERE seq = ?", (seq,)).fetchone()[0])["after"]
    after["spent"] = {"epsilon": "0"}
    text = canonical({"mark": "missing", "after": after})
    forged = entry_hash(seq + 1, "open", "now", text, digest)
    db.execute("INSERT INTO entries VALUES (?, 'open', 'now', ?, ?, ?)", (seq + 1, text, digest, forged))
    db.execute("UPDATE state SET head = ?, hash = ?", (seq + 1, forged))
    db.execute("UPDATE budget SET spent = '0', spent_units = 0")
    db.commit()
    db.close()
    ledger = Ledger.existing(path)
    with pytest.raises(LedgerError, match="its sums do not follow from the entries before it"):
        ask(ledger, 1)
    assert ledger.entries()[-1].seq == seq + 1


def test_a_mark_that_lags_after_a_crash_is_made_good(path: Path, state: Path) -> None:
    fill(path)
    (mark,) = (state / "marks").iterdir()
    before = mark.read_bytes()
    with Ledger.existing(path) as ledger:
        ask(ledger, 1)
        mark.write_bytes(before)
        ask(ledger, 1)
        assert ledger.verify().spent == PureDP(7)
        assert mark.read_bytes() != before


def test_a_ledger_of_the_former_format_is_refused_in_words(path: Path) -> None:
    fill(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 1")
    db.close()
    with pytest.raises(LedgerError, match="of format 1, and this Sordino reads format 2: keep it as a record"):
        Ledger.open(path, cap=PureDP(100))


def test_leftover_log_without_its_ledger_is_refused(path: Path) -> None:
    ledger = Ledger.open(path, cap=PureDP(1))
    ask(ledger, 0.5)
    path.unlink()
    with pytest.raises(LedgerError, match="is gone"):
        Ledger.open(path, cap=PureDP(1))
    with pytest.raises(LedgerError, match="write-ahead log"):
        Ledger.new(path, cap=PureDP(1), reason="lost")


def test_moved_ledger_keeps_its_mark(path: Path, tmp_path: Path) -> None:
    fill(path)
    moved = tmp_path / "moved.ledger"
    os.rename(path, moved)
    with Ledger.open(moved, cap=PureDP(100)) as ledger:
        ask(ledger, 1)
        assert ledger.verify().mark == "agrees"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        assert ledger.verify().predecessor is None
