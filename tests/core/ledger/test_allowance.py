"""Allowances: nothing passes what a period may spend, whatever the clock, the process or the order, and verify says so."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import sordino as sd
from mistyping import mistype
from postgres_server import Server
from sordino.core.accounting.events import GaussianEvent, LaplaceEvent
from sordino.core.ledger.allowance import AllowanceSums, describe_years, months_of, shift_month
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.restoration import move_ledger, restore_ledger
from sordino.errors import BudgetExhausted, DeclarationChanged, DeclarationError, LedgerError
from trying import examples

FORK = multiprocessing.get_context("fork")
YEAR = sd.Allowance("year", epsilon=1)


class Clock:
    """A clock that a test sets."""

    def __init__(self, time: str = "2026-03-15") -> None:
        self.day = time

    def __call__(self) -> str:
        return f"{self.day}T12:00:00.000Z"


def open_ledger(clock: Callable[[], str], allowance: sd.Allowance = YEAR, *, path: Any = None, cap: int = 5) -> Ledger:
    ledger = Ledger.open(path, cap=sd.PureDP(cap), clock=clock)
    ledger.declare_allowance(allowance)
    return ledger


def spend(ledger: Ledger, epsilon: str) -> None:
    ledger.charge(LaplaceEvent(Fraction(epsilon)), note="", question=f"{epsilon} {os.urandom(4).hex()}")


def test_a_year_spends_its_allowance_and_the_next_one_its_own() -> None:
    clock = Clock()
    ledger = open_ledger(clock)
    spend(ledger, "0.7")
    with pytest.raises(BudgetExhausted) as refused:
        spend(ledger, "0.4")
    assert str(refused.value) == (
        "the allowance does not cover this: it asks for epsilon 0.4, and epsilon 0.3 of epsilon 1 a year is left in 2026; "
        "nothing was charged; more may be spent from 2027-01 on"
    )
    assert ledger.remaining() == sd.PureDP("0.3")
    spend(ledger, "0.3")
    clock.day = "2027-01-01"
    assert ledger.remaining() == sd.PureDP(1)
    spend(ledger, "1")
    assert ledger.spent() == sd.PureDP(2)
    assert ledger.verify().allowance == ledger.allowance()


def test_what_a_year_did_not_spend_is_no_later_years() -> None:
    clock = Clock()
    ledger = open_ledger(clock)
    spend(ledger, "0.1")
    clock.day = "2029-06-01"
    spend(ledger, "1")
    with pytest.raises(BudgetExhausted):
        spend(ledger, "0.1")


def test_a_rolling_year_is_that_of_any_twelve_months() -> None:
    clock = Clock("2026-11-30")
    ledger = open_ledger(clock, sd.Allowance("year", epsilon=1, rolling=True))
    spend(ledger, "0.6")
    clock.day = "2027-03-01"
    spend(ledger, "0.4")
    for day in ("2027-03-31", "2027-10-31"):
        clock.day = day
        with pytest.raises(BudgetExhausted, match="more may be spent from 2027-11 on"):
            spend(ledger, "0.1")
    clock.day = "2027-11-01"
    spend(ledger, "0.6")
    with pytest.raises(BudgetExhausted, match="is left in the 12 months to 2027-11"):
        spend(ledger, "0.1")
    ledger.verify()


def test_a_clock_set_back_or_forward_refills_nothing() -> None:
    clock = Clock("2026-12-31")
    ledger = open_ledger(clock)
    spend(ledger, "1")
    clock.day = "2025-06-01"
    with pytest.raises(BudgetExhausted):
        spend(ledger, "0.1")
    clock.day = "2027-01-01"
    spend(ledger, "1")
    clock.day = "2026-12-31"
    with pytest.raises(BudgetExhausted, match="left in 2027"):
        spend(ledger, "0.1")
    ledger.verify()


@examples(
    6,
    30,
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["0.1", "0.3", "0.5", "1"])), min_size=1, max_size=25),
    st.sampled_from(["month", "quarter", "year"]),
    st.booleans(),
)
def test_no_window_of_months_ever_passes_its_allowance(steps: list[tuple[int, str]], every: Any, rolling: bool) -> None:
    clock = Clock("2026-03-15")
    ledger = open_ledger(clock, sd.Allowance(every, epsilon=1, rolling=rolling), cap=1000)
    spent: dict[str, Fraction] = {}
    month = "2026-03"
    size = {"month": 1, "quarter": 3, "year": 12}[every]
    for skip, epsilon in steps:
        # small numbers are more likely: several charges a month
        month = shift_month(month, skip % 7 if skip < 28 else 0)
        clock.day = f"{month}-15"
        first = shift_month(month, 1 - size) if rolling else shift_month(month, -((int(month[5:]) - 1) % size))
        in_window = sum((a for m, a in spent.items() if first <= m <= month), Fraction(0))
        if in_window + Fraction(epsilon) > 1:
            with pytest.raises(BudgetExhausted):
                spend(ledger, epsilon)
        else:
            spend(ledger, epsilon)
            spent[month] = spent.get(month, Fraction(0)) + Fraction(epsilon)
    for first in {shift_month(m, -i) for m in spent for i in range(size)}:
        if rolling or (int(first[5:]) - 1) % size == 0:
            assert sum(spent.get(shift_month(first, i), Fraction(0)) for i in range(size)) <= 1
    report = ledger.verify()
    assert report.allowance == ledger.allowance()


def test_what_was_spent_before_it_was_stated_counts() -> None:
    clock = Clock()
    ledger = Ledger.open(None, cap=sd.PureDP(5), clock=clock)
    spend(ledger, "0.9")
    ledger.declare_allowance(YEAR)
    with pytest.raises(BudgetExhausted):
        spend(ledger, "0.2")
    ledger.verify()


def test_another_allowance_holds_from_the_next_period_on() -> None:
    clock = Clock()
    ledger = open_ledger(clock)
    spend(ledger, "1")
    larger = sd.Allowance("year", epsilon=2)
    with pytest.raises(
        DeclarationChanged, match="holds an allowance of epsilon 1 a year, and epsilon 2 a year is stated"
    ):
        ledger.declare_allowance(larger)
    with pytest.raises(DeclarationChanged, match="and none is stated now; put it back"):
        ledger.declare_allowance(None)
    ledger.amend(reason="more questions", allowance=larger)
    ledger.declare_allowance(larger)
    with pytest.raises(BudgetExhausted):
        spend(ledger, "0.1")
    clock.day = "2027-02-01"
    spend(ledger, "2")
    ledger.amend(reason="fewer", allowance=sd.Allowance("month", epsilon="0.1"))
    clock.day = "2027-12-31"
    with pytest.raises(BudgetExhausted, match="left in 2027;"):
        spend(ledger, "0.1")
    clock.day = "2028-01-01"
    spend(ledger, "0.1")
    with pytest.raises(BudgetExhausted, match=r"of epsilon 0\.1 a month is left in 2028-01; nothing was charged"):
        spend(ledger, "0.1")
    ledger.verify()


REFUSED: list[tuple[Callable[[], sd.Allowance], str]] = [
    (lambda: sd.Allowance(mistype("decade"), epsilon=1), "month, quarter or year"),
    (lambda: sd.Allowance("year"), "epsilon"),
    (lambda: sd.Allowance("year", epsilon=6), "an allowance of epsilon 6 is above the cap of 5"),
    (lambda: sd.Allowance("year", rho=1), "an allowance is of its cap's kind: state epsilon"),
    (lambda: sd.Allowance("year", epsilon=0), "epsilon|above 0"),
    (lambda: sd.Allowance("year", epsilon=1, rolling=mistype("yes")), "true or false"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words[:30] for _, words in REFUSED])
def test_what_no_allowance_is(make: Callable[[], sd.Allowance], words: str) -> None:
    ledger = Ledger.open(None, cap=sd.PureDP(5))
    with pytest.raises(DeclarationError, match=words):
        ledger.declare_allowance(make())
    assert ledger.allowance() is None


# ---- on disk


def test_on_disk_the_sums_are_those_of_the_entries(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    clock = Clock()
    with open_ledger(clock, path=path) as ledger:
        spend(ledger, "0.7")
    with Ledger.existing(path, clock=clock) as ledger:
        assert ledger.allowance() == AllowanceSums(YEAR, {"2026-03": {"epsilon": Fraction("0.7")}})
        with pytest.raises(BudgetExhausted):
            spend(ledger, "0.4")
        ledger.verify()
        entries = [(one.kind, one.time, one.payload) for one in ledger.entries()]
        assert months_of(entries) == {"2026-03": {"epsilon": Fraction("0.7")}}
    # an entry that says less than was spent does not fit
    db = sqlite3.connect(path)
    (text,) = db.execute("SELECT payload FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    assert json.loads(text)["after"]["allowance"]["months"] == {"2026-03": {"epsilon": "7/10"}}
    for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {trigger}")
    db.execute("UPDATE entries SET payload = ? WHERE payload = ?", (text.replace("7/10", "1/10"), text))
    db.commit()
    db.close()
    with pytest.raises(LedgerError):
        Ledger.existing(path, clock=clock)


def test_a_charge_that_passes_an_allowance_does_not_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.ledger"
    with open_ledger(Clock(), path=path) as ledger:
        spend(ledger, "0.7")
        monkeypatch.setattr(AllowanceSums, "charge", AllowanceSums.add)
        spend(ledger, "0.4")
        monkeypatch.undo()
        with pytest.raises(LedgerError, match="it passes the allowance"):
            ledger.verify()


def test_what_a_restored_copy_lost_counts_in_the_month_of_its_restoration(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    with open_ledger(Clock(), path=path) as ledger:
        spend(ledger, "0.5")
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    with Ledger.existing(path, clock=Clock()) as ledger:
        spend(ledger, "0.4")
    for file in tmp_path.glob("people.ledger*"):
        file.unlink()
    shutil.copyfile(copy, path)
    with restore_ledger(path, reason="the disk was lost") as ledger:
        allowance = ledger.allowance()
        assert allowance is not None
        lost = [spent["epsilon"] for month, spent in allowance.months.items() if month != "2026-03"]
        assert lost == [Fraction("0.4")]
        ledger.verify()


def _spend_many(place: Path | str, barrier: Any) -> None:
    with Ledger.existing(place) as ledger:
        barrier.wait()
        for _ in range(12):
            try:
                spend(ledger, "0.05")
            except BudgetExhausted:
                return


def _spend_together(place: Path | str) -> None:
    """Three processes spend more than there is, all at once: they spend exactly the allowance."""
    barrier = FORK.Barrier(3)
    processes = [FORK.Process(target=_spend_many, args=(place, barrier)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with Ledger.existing(place) as ledger:
        assert ledger.spent() == sd.PureDP(1)
        ledger.verify()


def test_processes_together_spend_no_more_than_the_allowance(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    # of any twelve months, so that a year that ends meanwhile changes nothing
    rolling = sd.Allowance("year", epsilon=1, rolling=True)
    ledger = Ledger.open(path, cap=sd.PureDP(5))
    ledger.declare_allowance(rolling)
    ledger.close()
    _spend_together(path)


@pytest.fixture(scope="module")
def database(postgres_server: Server) -> str:
    postgres_server.execute("CREATE DATABASE allowance_ledgers ENCODING 'UTF8' TEMPLATE template0")
    return f"{postgres_server.url}/allowance_ledgers"


@pytest.mark.deep
def test_an_allowance_on_a_server(database: str) -> None:
    address = f"{database}#one"
    ledger = Ledger.open(address, cap=sd.PureDP(5))
    ledger.declare_allowance(sd.Allowance("year", epsilon=1, rolling=True))
    ledger.close()
    _spend_together(address)


@pytest.mark.deep
def test_a_ledger_moves_to_a_server_with_its_allowance(tmp_path: Path, database: str) -> None:
    ledger = open_ledger(Clock(), path=tmp_path / "people.ledger")
    spend(ledger, "0.7")
    before = ledger.allowance()
    address = f"{database}#moved"
    move_ledger(ledger, address).close()
    with Ledger.existing(address, clock=Clock()) as moved:
        assert moved.allowance() == before
        with pytest.raises(BudgetExhausted):
            spend(moved, "0.4")
        moved.verify()


# ---- of zCDP, through a curator, and in the words of pages


def test_a_curator_refuses_a_question_beyond_its_years_allowance() -> None:
    people = sd.protect(
        [{"x": 1}] * 50,
        domain=sd.Domain({"x": sd.Integer(0, 9)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ZCDP(2, "1e-6"),
        ledger=None,
        rng=sd.Rng.seeded(1),
        allowance=sd.Allowance("year", rho="0.5", rolling=True),
    )
    people.ask(sd.count(), rho="0.4")
    with pytest.raises(BudgetExhausted, match=r"it asks for rho 0\.2, and rho 0\.1 of"):
        people.ask(sd.count(), rho="0.2")
    assert people.remaining == sd.ZCDP("0.1", "1e-6")
    with pytest.raises(DeclarationError, match="must be an allowance, such as"):
        sd.protect(
            [{"x": 1}],
            domain=sd.Domain({"x": sd.Integer(0, 9)}),
            neighbors="add_remove",
            privacy_unit="row",
            budget=sd.ZCDP(2),
            ledger=None,
            allowance=mistype(sd.ZCDP(1)),
        )


def test_the_path_of_a_budget_under_its_allowance() -> None:
    clock = Clock()
    ledger = open_ledger(clock)
    with pytest.raises(DeclarationError, match="nothing was charged to this budget so far"):
        sd.plot(ledger)
    for day, epsilon in (("2026-03-15", "0.7"), ("2026-06-01", "0.3"), ("2027-05-01", "0.5")):
        clock.day = day
        spend(ledger, epsilon)
    clock.day = "2027-06-01"
    path, cap, ceiling = sd.plot(ledger).chart.to_dict()["layer"]
    assert [row["spent"] for row in path["data"]["values"]] == [0, 0.7, 1, 1.5, 1.5]
    assert [row["spent"] for row in cap["data"]["values"]] == [5]
    # a year's ceiling is what was spent before it, and its allowance
    assert [row["spent"] for row in ceiling["data"]["values"]] == [1, 2, 2]
    assert ceiling["data"]["values"][1]["time"] == "2027-01-01T00:00:00.000Z"


def test_the_sentence_on_ten_years_is_true() -> None:
    """No span of ten years of months spends more than it says, at full allowances, wherever the span begins."""
    cases: list[tuple[Any, bool]] = [("year", False), ("year", True), ("quarter", False), ("month", True)]
    for every, rolling in cases:
        allowance = sd.Allowance(every, epsilon=1, rolling=rolling)
        words = describe_years(allowance, sd.PureDP(10_000))
        size = {"month": 1, "quarter": 3, "year": 12}[every]
        assert f"loses at most epsilon {120 // size + 1} in that time" in words
        sums = AllowanceSums(allowance, {})
        spent: dict[str, int] = {}
        for month in (shift_month("2026-06", i) for i in range(160)):
            if sums.left(month)["epsilon"] == 1:
                sums = sums.charge({"epsilon": Fraction(1)}, month)
                spent[month] = 1
        for start in (shift_month("2026-06", i) for i in range(30)):
            # ten years from the middle of a month touch 121 months
            assert sum(spent.get(shift_month(start, i), 0) for i in range(121)) <= 120 // size + 1
    assert "epsilon 5 in that time: all that the cap allows" in describe_years(YEAR, sd.PureDP(5))


def test_events_of_gauss_take_rho() -> None:
    ledger = Ledger.open(None, cap=sd.ZCDP(2, "1e-6"))
    ledger.declare_allowance(sd.Allowance("year", rho="0.5", rolling=True))
    ledger.charge(GaussianEvent(Fraction("0.5")), note="", question="a")
    with pytest.raises(BudgetExhausted):
        ledger.charge(GaussianEvent(Fraction("0.1")), note="", question="b")
