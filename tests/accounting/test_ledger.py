"""The ledger within one process: exact sums, request ids, declarations, amendments, tampering and rollback."""

import hashlib
import os
import random
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from sordino.accounting.events import Composed, GaussianEvent, LaplaceEvent
from sordino.accounting.ledger import Charge, Ledger, Recalled
from sordino.errors import (
    BudgetExhausted,
    ChargedError,
    DeclarationChanged,
    DeclarationError,
    InDoubt,
    LedgerError,
    QuestionRefused,
    UnknownName,
)
from sordino.loss import ZCDP, ApproxDP, Loss, PureDP

ROW = {"neighbors": "add_remove", "privacy_unit": "row", "columns": {"age": {"type": "integer", "upper": 99}}}


@pytest.fixture(params=["disk", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "a.ledger" if request.param == "disk" else None, cap=PureDP(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


def ask(ledger: Ledger, epsilon: object, question: str = "q") -> Charge:
    return ledger.charge(LaplaceEvent(epsilon), note="a question", question=question)


@pytest.mark.parametrize(("each", "times"), [(0.1, 10), (0.01, 100), ("1/3", 3), ("1/7", 7)])
def test_budget_of_one_is_filled_exactly(ledger: Ledger, each: object, times: int) -> None:
    for _ in range(times):
        ask(ledger, each)
    assert ledger.spent() == PureDP(1)
    assert ledger.remaining() == PureDP(0)
    with pytest.raises(BudgetExhausted, match="nothing was charged") as refusal:
        ask(ledger, "1e-12")
    assert (refusal.value.asked, refusal.value.left) == (PureDP("1e-12"), PureDP(0))
    assert ask(ledger, 0).amounts == {"epsilon": 0}
    assert ledger.verify().in_doubt == times + 1


def test_refusal_names_what_was_asked_and_what_is_left(ledger: Ledger) -> None:
    ask(ledger, 0.8)
    with pytest.raises(BudgetExhausted, match=r"asked epsilon 0\.5, left epsilon 0\.2 of epsilon 1"):
        ask(ledger, 0.5)
    assert ledger.spent() == PureDP(0.8)


@pytest.mark.parametrize(
    ("cap", "event", "spent"),
    [
        (ApproxDP(1, 1e-6), GaussianEvent(0.01, (Fraction(1, 2), Fraction(1, 10**6))), ApproxDP(0.5, 1e-6)),
        (ApproxDP(1, 0), LaplaceEvent("1/3"), ApproxDP("1/3", 0)),
        (ZCDP(1, 1e-6), GaussianEvent(0.25), ZCDP(0.25, 1e-6)),
        (ZCDP(1), LaplaceEvent(1), ZCDP(0.5)),
        (PureDP(10**9), LaplaceEvent(10**8), PureDP(10**8)),
    ],
)
def test_each_kind_of_cap_counts_its_own(path: Path, cap: Loss, event: LaplaceEvent, spent: Loss) -> None:
    with Ledger.open(path, cap=cap) as ledger:
        ledger.charge(event, note="", question="q")
        assert ledger.spent() == spent
        assert ledger.verify().cap == cap
    assert Ledger.open(path, cap=cap).spent() == spent


def test_delta_is_a_cap_of_its_own(path: Path) -> None:
    ledger = Ledger.open(path, cap=ApproxDP(10, 1e-6))
    event = GaussianEvent(0.01, (Fraction(1, 2), Fraction(6, 10**7)))
    ledger.charge(event, note="", question="q")
    with pytest.raises(BudgetExhausted, match="delta"):
        ledger.charge(event, note="", question="q")


def test_event_without_the_bound_the_cap_counts_is_refused_uncharged(ledger: Ledger) -> None:
    with pytest.raises(DeclarationError, match="ask with epsilon="):
        ledger.charge(GaussianEvent(0.1), note="", question="q")
    assert ledger.spent() == PureDP(0)


def test_sums_of_strange_fractions_stay_short_and_never_below(path: Path) -> None:
    ledger, draw = Ledger.open(path, cap=PureDP(1000)), random.Random(5)
    true = Fraction(0)
    for _ in range(60):
        event = LaplaceEvent(Fraction(draw.randrange(1, 10**50), draw.randrange(10**50, 10**51)))
        true += event.epsilon
        ledger.charge(event, note="", question="q")
    spent = ledger.spent().amounts()["epsilon"]
    assert true <= spent <= true + Fraction(60, 10**60)
    assert spent.denominator <= 10**60
    ledger.verify()


def test_answer_is_stored_and_found_again(ledger: Ledger) -> None:
    charge = ask(ledger, 0.1, "count")
    assert (charge.id, charge.state, charge.question) == ("c-0001", "reserved", hashlib.sha256(b"count").hexdigest())
    with pytest.raises(InDoubt):
        ledger.answer("c-0001")
    ledger.commit(charge, '{"value": 17}')
    assert ledger.answer("c-0001") == '{"value": 17}'
    assert [c.id for c in ledger.earlier("count")] == ["c-0001"]
    assert ledger.earlier("other") == []
    assert ledger.charges()[0].loss == PureDP(0.1)
    for again in (lambda: ledger.commit(charge, "1"), lambda: ledger.fail(charge, "late")):
        with pytest.raises(LedgerError, match="committed already"):
            again()
    for unknown in ("c-0002", "c-", "0001", "c-²"):
        with pytest.raises(UnknownName):
            ledger.answer(unknown)


def test_failure_stays_charged(ledger: Ledger) -> None:
    charge = ask(ledger, 0.1)
    ledger.fail(charge, "the engine stopped")
    assert ledger.spent() == PureDP(0.1)
    assert (ledger.charges()[0].state, ledger.charges()[0].reason) == ("failed", "the engine stopped")
    with pytest.raises(ChargedError, match="the engine stopped") as failure:
        ledger.answer(charge.id)
    assert failure.value.charge == charge.id


def test_request_id_is_charged_once(ledger: Ledger) -> None:
    def again(question: str = "count") -> Charge | Recalled:
        return ledger.charge(LaplaceEvent(0.6), note="", question=question, request="r-1")

    assert ledger.recall("r-1", "count") is None
    charge = again()
    assert isinstance(charge, Charge)
    for doubt in (again, lambda: ledger.recall("r-1", "count")):
        with pytest.raises(InDoubt, match="being answered now, or its process stopped"):
            doubt()
    ledger.commit(charge, "5")
    for recalled in (again(), ledger.recall("r-1", "count")):
        assert isinstance(recalled, Recalled)
        assert (recalled.answer, recalled.charge.id) == ("5", charge.id)
    for other in (lambda: again("sum"), lambda: ledger.recall("r-1", "sum")):
        with pytest.raises(QuestionRefused, match="another question"):
            other()
    assert ledger.spent() == PureDP(0.6)


def test_request_that_failed_says_so(ledger: Ledger) -> None:
    charge = ledger.charge(LaplaceEvent(0.1), note="", question="q", request="r")
    assert isinstance(charge, Charge)
    ledger.fail(charge, "no disk")
    with pytest.raises(ChargedError, match="no disk"):
        ledger.charge(LaplaceEvent(0.1), note="", question="q", request="r")


def test_declaration_is_held_to(ledger: Ledger) -> None:
    ledger.declare("adult", ROW)
    ledger.declare("adult", dict(reversed(ROW.items())))
    assert ledger.verify().entries == 2
    with pytest.raises(DeclarationChanged, match=r"columns\.age\.upper changed.*ledger amend --reason"):
        ledger.declare("adult", ROW | {"columns": {"age": {"type": "integer", "upper": 125}}})
    assert ledger.declarations() == {"adult": ROW}


@pytest.mark.parametrize(
    "other",
    [
        ROW | {"neighbors": "replace"},
        ROW | {"privacy_unit": {"column": "user", "max_rows": 3}},
        {"columns": {}},
        ROW | {"privacy_unit": "household"},
    ],
)
def test_tables_of_one_ledger_share_relation_and_unit(ledger: Ledger, other: dict[str, object]) -> None:
    ledger.declare("adult", ROW)
    with pytest.raises(DeclarationError):
        ledger.declare("other", other)
    ledger.declare("second", ROW)


def test_amendments(path: Path) -> None:
    ledger = Ledger.open(path, cap=PureDP(1))
    ledger.declare("adult", ROW)
    ask(ledger, 0.5)
    wider = ROW | {"columns": {"age": {"type": "integer", "upper": 125}, "sex": {"type": "boolean"}}}
    ledger.amend(reason="older people", declarations={"people": wider}, renamed={"adult": "people"}, cap=PureDP(2))
    assert ledger.declarations() == {"people": wider}
    assert (ledger.cap, ledger.spent()) == (PureDP(2), PureDP(0.5))
    ledger.declare("people", wider)
    entry = ledger.entries()[-1]
    assert entry.kind == "amend"
    assert entry.payload["changed"]["people"]["columns.age.upper"] == [99, 125]
    report = ledger.verify()
    assert (report.caps, report.amendments) == ((PureDP(1), PureDP(2)), 1)
    assert "amended" in report.describe()
    with pytest.raises(DeclarationChanged, match="cap of epsilon 2, not epsilon 1"):
        Ledger.open(path, cap=PureDP(1))
    ledger.amend(reason="less", cap=PureDP(0.5))
    with pytest.raises(BudgetExhausted):
        ask(ledger, "1e-9")
    before = ledger.entries()
    for refused in (
        {"reason": "", "cap": PureDP(3)},
        {"reason": "  ", "cap": PureDP(3)},
        {"reason": "x", "cap": PureDP(0.4)},
        {"reason": "x", "cap": ApproxDP(3, 0)},
        {"reason": "x", "cap": PureDP(0.5)},
        {"reason": "x", "declarations": {"people": wider | {"neighbors": "replace"}}},
        {"reason": "x", "declarations": {"people": wider | {"privacy_unit": {"column": "id", "max_rows": 1}}}},
        {"reason": "x", "declarations": {"adult": wider}},
        {"reason": "x", "renamed": {"adult": "b"}},
        {"reason": "x"},
    ):
        with pytest.raises(DeclarationError):
            ledger.amend(**refused)
    assert ledger.entries() == before


def test_ledger_outlives_its_process_and_says_what_it_holds(path: Path) -> None:
    with Ledger.open(path, cap=PureDP(1)) as first:
        ask(first, 0.25)
    again = Ledger.open(path, cap=PureDP(1))
    assert again.spent() == PureDP(0.25)
    assert repr(again) == f"Ledger({path}; spent epsilon 0.25 of 1)"
    assert "forgotten" in repr(Ledger.open(None, cap=PureDP(1)))
    again.close()
    with pytest.raises(LedgerError, match="closed"):
        ask(again, 0.1)
    assert repr(again).endswith("closed or damaged)")


def test_existing_needs_a_ledger(path: Path) -> None:
    with pytest.raises(LedgerError, match="missing"):
        Ledger.existing(path)
    with pytest.raises(LedgerError, match="directory"):
        Ledger.open(path / "deeper" / "a.ledger", cap=PureDP(1))
    assert not path.exists()


def filled(path: Path, charges: int = 5) -> None:
    with Ledger.open(path, cap=PureDP(100)) as ledger:
        ledger.declare("adult", ROW)
        for _ in range(charges):
            ledger.commit(ask(ledger, 1), '"SECRET"')


def altered(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for name in ("entries_stay", "entries_last", "entries_follow"):
        sql = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
        db.execute(f"DROP TRIGGER {name}")
        statements = (*statements, sql)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


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
    filled(path)
    if "TRIGGER" in statement:
        db = sqlite3.connect(path)
        db.execute(statement)
        db.commit()
        db.close()
    else:
        altered(path, statement)
    with pytest.raises(LedgerError, match=entry) as refusal:
        Ledger.existing(path).verify()
    assert "SECRET" not in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_last_entry_or_head_that_was_altered_is_noticed_at_open(path: Path) -> None:
    filled(path)
    altered(path, "DELETE FROM entries WHERE seq = 12")
    with pytest.raises(LedgerError, match="entry 12"):
        Ledger.existing(path)


def test_entries_can_only_be_appended(path: Path) -> None:
    filled(path)
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


@pytest.mark.parametrize("damage", ["garbage", "empty", "truncated", "other database", "zeros", "half"])
def test_damaged_file_is_one_plain_error(path: Path, damage: str) -> None:
    filled(path, 100)
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
        with Ledger.open(path, cap=PureDP(100)) as ledger:
            for _ in range(3):
                ask(ledger, 1)
            ledger.verify()


def test_older_copy_put_back_is_noticed(path: Path, tmp_path: Path) -> None:
    filled(path)
    shutil.copy(path, tmp_path / "backup")
    with Ledger.existing(path) as ledger:
        ask(ledger, 1)
    shutil.copy(tmp_path / "backup", path)
    with pytest.raises(LedgerError, match="rolled back: it has 12 entries, 13 were seen"):
        Ledger.existing(path)
    with pytest.raises(LedgerError, match="rolled back"):
        Ledger.open(path, cap=PureDP(100))


def test_copy_that_went_its_own_way_is_noticed(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    shutil.copy(path, tmp_path / "copy.ledger")
    with Ledger.existing(path) as ledger:
        ask(ledger, 1)
    with pytest.raises(LedgerError, match="rolled back"):
        Ledger.existing(tmp_path / "copy.ledger")
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "elsewhere"))
    with Ledger.open(tmp_path / "copy.ledger", cap=PureDP(100)) as other:
        ask(other, 2)
        ask(other, 2)
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    with pytest.raises(LedgerError, match="entry 13 is not the one that was seen"):
        Ledger.existing(tmp_path / "copy.ledger")


def test_rollback_under_an_open_ledger_is_noticed(path: Path, tmp_path: Path) -> None:
    filled(path)
    shutil.copy(path, tmp_path / "backup")
    ledger = Ledger.existing(path)
    ask(ledger, 1)
    os.replace(tmp_path / "backup", path)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"replaced|rolled back|damaged"):
            ask(ledger, 1)


def test_missing_mark_is_accepted_and_told(path: Path, state: Path) -> None:
    filled(path)
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
    with pytest.raises(LedgerError, match="mark .* is damaged"):
        Ledger.existing(path, mark=mark)


def test_state_directory_that_cannot_be_written_is_named(path: Path, state: Path) -> None:
    state.write_text("a file, not a directory")
    with pytest.raises(LedgerError, match="SORDINO_STATE"):
        Ledger.open(path, cap=PureDP(1))
    assert not path.exists()


def test_ledger_deleted_and_begun_anew_names_its_predecessor(path: Path) -> None:
    filled(path)
    first = Ledger.existing(path).id
    path.unlink()
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        assert ledger.verify().predecessor == (first, 12)
        assert "12 entries" in ledger.verify().describe()


def test_leftover_log_without_its_ledger_is_refused(path: Path) -> None:
    ledger = Ledger.open(path, cap=PureDP(1))
    ask(ledger, 0.5)
    path.unlink()
    with pytest.raises(LedgerError, match="write-ahead log"):
        Ledger.open(path, cap=PureDP(1))


def test_moved_ledger_keeps_its_mark(path: Path, tmp_path: Path) -> None:
    filled(path)
    moved = tmp_path / "moved.ledger"
    os.rename(path, moved)
    with Ledger.open(moved, cap=PureDP(100)) as ledger:
        ask(ledger, 1)
        assert ledger.verify().mark == "agrees"
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        assert ledger.verify().predecessor is None


@pytest.mark.parametrize(
    "call",
    [
        lambda ledger, charge: ledger.charge(LaplaceEvent(0.1), note="x" * 2001, question="q"),
        lambda ledger, charge: ledger.charge(LaplaceEvent(0.1), note="", question="q", request=""),
        lambda ledger, charge: ledger.commit(charge, "no json"),
        lambda ledger, charge: ledger.fail(charge, ""),
        lambda ledger, charge: Ledger.open(None, cap=1.0),
    ],
)
def test_what_is_not_an_entry_is_refused(ledger: Ledger, call: object) -> None:
    charge = ask(ledger, 0.1)
    with pytest.raises(DeclarationError):
        call(ledger, charge)
    assert ledger.verify().in_doubt == 1


def test_composed_event_is_charged_as_a_whole(ledger: Ledger) -> None:
    charge = ledger.charge(Composed((LaplaceEvent("1/3"), LaplaceEvent("2/3"))), note="", question="q")
    assert charge.loss == PureDP(1)
    assert ledger.remaining() == PureDP(0)
