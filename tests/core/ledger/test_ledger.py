"""The ledger within one process: exact sums, request ids, declarations, amendments, tampering and rollback."""

import contextlib
import hashlib
import random
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from mistyping import mistype
from sordino.core.accounting.events import Composed, GaussianEvent, LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge, StoredAnswer
from sordino.core.loss import ZCDP, ApproxDP, Loss, Number, PureDP
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

ROW = {"neighbors": "add_remove", "privacy_unit": "row", "columns": {"age": {"type": "integer", "upper": 99}}}


@pytest.fixture(params=["disk", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "a.ledger" if request.param == "disk" else None, cap=PureDP(1))


def ask(ledger: Ledger, epsilon: Number, question: str = "q") -> Charge:
    return ledger.charge(LaplaceEvent(epsilon), note="a question", question=question)


@pytest.mark.parametrize(("each", "times"), [(0.1, 10), (0.01, 100), ("1/3", 3), ("1/7", 7)])
def test_budget_of_one_is_filled_exactly(ledger: Ledger, each: Number, times: int) -> None:
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
    with pytest.raises(BudgetExhausted, match=r"asks for epsilon 0\.5, and epsilon 0\.2 of epsilon 1 is left"):
        ask(ledger, 0.5)
    assert ledger.spent() == PureDP(0.8)


@pytest.mark.parametrize(
    ("cap", "event", "spent"),
    [
        (ApproxDP(1, 1e-6), GaussianEvent(0.01, (Fraction(1, 2), Fraction(1, 10**6))), ApproxDP(0.5, 1e-6)),
        (ApproxDP(1, 0), LaplaceEvent("1/3"), ApproxDP("1/3", 0)),
        (ZCDP(1, 1e-6), GaussianEvent(0.25), ZCDP(0.25, 1e-6)),
        (ZCDP(1), LaplaceEvent(1), ZCDP("0.462117157261")),
        (PureDP(10**9), LaplaceEvent(10**8), PureDP(10**8)),
    ],
)
def test_each_kind_of_cap_counts_its_own(path: Path, cap: Loss, event: LaplaceEvent, spent: Loss) -> None:
    with Ledger.open(path, cap=cap) as ledger:
        ledger.charge(event, note="", question="q")
        assert ledger.spent() == spent
        assert ledger.verify().cap == cap
    assert Ledger.open(path, cap=cap).spent() == spent


def test_the_file_has_a_guard_of_its_own_under_the_sums(path: Path) -> None:
    """A second sum in whole numbers, which SQLite holds below the cap whatever program writes."""
    with Ledger.open(path, cap=PureDP("1/3")) as ledger:
        for _ in range(2):
            ask(ledger, "1/8")
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT spent_units, cap_units FROM budget").fetchall() == [(25 * 10**13, 10**15 // 3)]
        with pytest.raises(sqlite3.IntegrityError):
            db.execute("UPDATE budget SET spent_units = spent_units + 10 * ?", (10**13,))


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
    agains: list[Callable[[], object]] = [lambda: ledger.commit(charge, "1"), lambda: ledger.fail(charge, "late")]
    for again in agains:
        with pytest.raises(LedgerError, match="committed already"):
            again()
    ledger.commit(ask(ledger, 0.1, "sum"), '{"value": 18}')
    assert [ledger.answer(name) for name in ("c-0001", "c-0002")] == ['{"value": 17}', '{"value": 18}']
    for unknown in ("c-0003", "c-", "0001", "c-²"):
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
    with pytest.raises(LedgerError, match="failed already, and that is final"):
        ledger.commit(charge, '"an answer after all"')


def test_request_id_is_charged_once(ledger: Ledger) -> None:
    def again(question: str = "count") -> Charge | StoredAnswer:
        return ledger.charge(LaplaceEvent(0.6), note="", question=question, request="r-1")

    assert ledger.recall("r-1", "count") is None
    charge = again()
    assert isinstance(charge, Charge)
    for doubt in (again, lambda: ledger.recall("r-1", "count")):
        with pytest.raises(InDoubt, match="being answered now, or its process stopped"):
            doubt()
    ledger.commit(charge, "5")
    for recalled in (again(), ledger.recall("r-1", "count")):
        assert isinstance(recalled, StoredAnswer)
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


def test_a_changed_declaration_is_refused(ledger: Ledger) -> None:
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


def test_tables_of_the_same_people_share_a_ledger_whatever_their_columns(ledger: Ledger) -> None:
    def unit(column: str, **of: str) -> dict[str, object]:
        declared: dict[str, object] = {"column": column, "max_rows": 3, **of}
        return {**ROW, "privacy_unit": declared}

    ledger.declare("person", unit("person_id", of="person"))
    ledger.declare("visits", unit("member_id", of="person"))
    ledger.declare("names", unit("person"))
    for other in (unit("person_id"), unit("member_id", of="member"), ROW):
        with pytest.raises(DeclarationError, match="cannot share a ledger"):
            ledger.declare("other", other)
    with pytest.raises(DeclarationError, match="cannot be amended"):
        ledger.amend(reason="another column", declarations={"visits": unit("host_id", of="person")})


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


@pytest.mark.parametrize(
    "call",
    [
        lambda ledger, _: ledger.charge(LaplaceEvent(0.1), note="x" * 2001, question="q"),
        lambda ledger, _: ledger.charge(LaplaceEvent(0.1), note="", question="q", request=""),
        lambda ledger, charge: ledger.commit(charge, "no json"),
        lambda ledger, charge: ledger.fail(charge, ""),
        lambda *_: Ledger.open(None, cap=mistype(1.0)),
    ],
)
def test_what_is_not_an_entry_is_refused(ledger: Ledger, call: Callable[[Ledger, Charge], object]) -> None:
    charge = ask(ledger, 0.1)
    with pytest.raises(DeclarationError):
        call(ledger, charge)
    assert ledger.verify().in_doubt == 1


def test_composed_event_is_charged_as_a_whole(ledger: Ledger) -> None:
    charge = ledger.charge(Composed((LaplaceEvent("1/3"), LaplaceEvent("2/3"))), note="", question="q")
    assert charge.loss == PureDP(1)
    assert ledger.remaining() == PureDP(0)


def test_an_old_ledger_keeps_the_rho_it_was_charged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the exact rho of pure events, epsilon 1 was charged as 1/2: replay sums what is recorded, never anew."""
    with monkeypatch.context() as before:
        before.setattr("sordino.core.ledger.ledger.charge_amounts", lambda event, _: {"rho": event.pure() ** 2 / 2})
        with Ledger.open(path, cap=ZCDP(1)) as ledger:
            ledger.commit(ask(ledger, 1), "1")
    with Ledger.open(path, cap=ZCDP(1)) as ledger:
        assert ledger.spent() == ledger.verify().spent == ZCDP("1/2")
        assert ledger.charges()[0].amounts == {"rho": Fraction(1, 2)}
        after = ask(ledger, 1, "another")
        assert after.amounts["rho"] == LaplaceEvent(1).rho() < Fraction(1, 2)
        assert ledger.verify().spent == ZCDP(Fraction(1, 2) + after.amounts["rho"])


def test_a_new_ledger_is_its_owners_alone(path: Path) -> None:
    with Ledger.open(path, cap=PureDP(1)) as ledger:
        ledger.charge(LaplaceEvent("0.1"), note="", question="q")
        modes = {
            file.name: file.stat().st_mode & 0o777
            for file in path.parent.glob("people.ledger*")
            if file.suffix == ".ledger" or "wal" in file.name
        }
    assert modes == {"people.ledger": 0o600, "people.ledger-wal": 0o600}
