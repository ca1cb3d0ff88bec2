"""Sparse-vector sessions over a table: one charge, yes or no, halting after the crossings; questions of any scale."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import sordino as sd
from ask.curator.support import S, curator
from sordino import col
from sordino.ask.curator.above_threshold import PARTS
from sordino.core.mechanisms.sparse_vector import SparseSession
from sordino.errors import BudgetExhausted, DeclarationError, QuestionRefused


@pytest.mark.deep
def test_a_session_is_charged_once_and_halts_after_its_crossings() -> None:
    held = curator(budget=sd.PureDP(3))
    with held.above_threshold(count=2, epsilon=2) as session:
        assert held.spent == sd.PureDP(2)
        assert not any(session.above(S.where(col("age") > a).agg(sd.count()), threshold=900) for a in range(20, 60))
        assert session.above(sd.count(), threshold=100)
        assert session.above(sd.sum("age"), threshold=1000)
        assert not session.open
        with pytest.raises(QuestionRefused, match="has had its 2 crossing"):
            session.above(sd.count(), threshold=0)
    assert held.spent == sd.PureDP(2)
    assert [r["above"] for r in session.release.rows] == [0] * 40 + [1, 1]
    assert held.release(session.release.charge) == session.release
    with pytest.raises(QuestionRefused, match="closed"):
        session.above(sd.count(), threshold=0)
    with pytest.raises(BudgetExhausted):
        held.above_threshold(count=1, epsilon=2)


def test_sums_and_counts_are_compared_in_their_own_scales() -> None:
    """At epsilon 40 the noise is below 1 unit's contribution: 600 rows, and a sum of ages of at most 100 each."""
    held = curator(budget=sd.PureDP(1000))
    total = sum(20 + i % 60 for i in range(600))
    with held.above_threshold(count=4, epsilon=160) as session:
        assert not session.above(sd.count(), threshold=602)
        assert session.above(sd.count(), threshold=598)
        assert not session.above(sd.sum("age"), threshold=total + 200)
        assert session.above(sd.sum("age"), threshold=total - 200)


def test_one_row_moves_a_comparison_by_as_many_parts_as_its_noise_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row adds 1 to a count, and at most 100 to a sum of ages: as much as a threshold that is so much lower."""
    steps: list[int] = []

    def compare(session: SparseSession, exact: int) -> bool:
        del session
        steps.append(exact)
        return False

    monkeypatch.setattr(SparseSession, "above", compare)
    with curator(budget=sd.PureDP(1)).above_threshold(count=1, epsilon=1) as session:
        for question, moved in (
            (sd.count(), 1),
            (sd.sum("age"), 100),
            (100 * sd.count() - 7, 100),
            (-sd.count() / 8, -0.125),
        ):
            for threshold in (1000, 1000 - moved):
                session.above(question, threshold=threshold)
    assert steps[1] - steps[0] == PARTS
    assert [steps[i + 1] - steps[i] for i in range(2, 8, 2)] == [PARTS, PARTS, -PARTS]


@pytest.mark.parametrize(
    "question",
    [sd.mean("age"), S.group_by("occ").agg(sd.count()), [sd.count(), sd.sum("age")], sd.median("age")],
    ids=["mean", "groups", "two", "median"],
)
def test_what_is_not_one_number_is_refused_and_the_session_goes_on(question: Any) -> None:
    with curator(budget=sd.PureDP(1)).above_threshold(count=1, epsilon=1) as session:
        with pytest.raises(QuestionRefused, match="one count or sum"):
            session.above(question, threshold=1)
        assert session.open


def test_under_rho_the_session_is_worth_the_root() -> None:
    held = curator(budget=sd.ZCDP(1))
    with held.above_threshold(count=1, rho=0.5):
        pass
    assert 0.4999 < held.spent.amounts()["rho"] <= 0.5


@pytest.mark.parametrize("budget", [sd.ZCDP(1), sd.ApproxDP(5, 1e-6), sd.PureDP(5)], ids=["rho", "delta", "epsilon"])
def test_many_crossings_redraw_the_threshold_where_the_cap_counts_rho(budget: Any) -> None:
    held = curator(budget=budget)
    loss: dict[str, Any] = {"rho": 0.5} if "rho" in budget.amounts() else {"epsilon": 1}
    if "delta" in budget.amounts():
        loss["delta"] = 1e-7
    with held.above_threshold(count=1000, **loss) as session:
        assert session.above(sd.count(), threshold=-(10**7))
    redraws = not isinstance(budget, sd.PureDP)
    assert ("a threshold each" in session.release.outputs[0].mechanism) == redraws
    spent = held.spent.amounts()
    assert spent == session.release.cost.amounts()
    assert all(0.999 * float(loss[name]) < spent[name] <= sd.PureDP(loss[name]).epsilon for name in loss)


def test_a_monotone_session_has_less_noise_and_takes_counts_and_sums_from_0_alone() -> None:
    held = curator(budget=sd.PureDP(100))
    with held.above_threshold(count=2, monotone=True, epsilon=80) as session:
        assert not session.above(sd.count(), threshold=602)
        assert session.above(sd.sum("age"), threshold=1000)
        for question in (sd.sum(col("age") - 60), sd.sum(col("age") * -1)):
            with pytest.raises(QuestionRefused, match="monotone session"):
                session.above(question, threshold=0)
        assert session.open
    assert "monotone sparse vector" in session.release.outputs[0].mechanism
    replaced = curator(budget=sd.PureDP(1), neighbors="replace")
    with pytest.raises(DeclarationError, match="add_remove"):
        replaced.above_threshold(count=1, monotone=True, epsilon=1)
    assert replaced.spent == sd.PureDP(0)


LINEAR = [
    ("-count", -sd.count(), "-COUNT(*)", -600),
    ("a share", sd.count() / 1000, "COUNT(*) / 1000", "0.6"),
    ("a multiple", 100 * sd.count(), "100 * COUNT(*)", 60_000),
    ("a shift", sd.count() + 100, "COUNT(*) + 100", 700),
    ("both sides", 2 * sd.count() - sd.count() / 2 + 3, "2 * COUNT(*) - COUNT(*) / 2 + 3", 903),
    ("a sum", 5 - sd.sum("age") / 4, "5 - SUM(age) / 4", -7420),
    ("itself", sd.count(), "COUNT(*)", 600),
]


@pytest.mark.deep
@pytest.mark.parametrize(("question", "text", "answer"), [row[1:] for row in LINEAR], ids=[row[0] for row in LINEAR])
def test_a_session_compares_the_formula_that_is_asked(question: Any, text: str, answer: Any) -> None:
    """At epsilon 10^4 the noise is far below 1/100 of what a unit moves: both sides of the answer are told apart."""
    held = curator(budget=sd.PureDP(10**6))
    told = Fraction(answer)
    exact = held.ask(question, epsilon=10**5).value
    assert float(exact) == pytest.approx(float(told), abs=0.1)
    gap = abs(told) / 100 if abs(told) > 1 else Fraction(1, 100)
    with held.above_threshold(count=2, epsilon=10**5) as session:
        for asked in (question, sd.sql(f"SELECT {text} FROM data")):
            assert not session.above(asked, threshold=told + gap)
            assert session.above(asked, threshold=told - gap)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (sd.count() * 0, "no unit can move"),
        (sd.count() - sd.count(), "no unit can move"),
        (sd.count().round(-4), "is not linear"),
        (abs(sd.count()), "is not linear"),
        (1000 / sd.count(), "is not linear"),
        (sd.count() * sd.count(), "is not linear"),
        ([sd.count(), sd.count().alias("n") * 2], "one"),
        (sd.most_common("occ"), "one count or sum"),
    ],
)
def test_a_formula_that_has_no_sensitivity_is_refused_by_name(question: Any, words: str) -> None:
    with curator(budget=sd.PureDP(1)).above_threshold(count=1, epsilon=1) as session:
        with pytest.raises(QuestionRefused, match=words):
            session.above(question, threshold=1)
        assert session.open


def test_a_monotone_session_refuses_what_falls() -> None:
    held = curator(budget=sd.PureDP(10))
    with held.above_threshold(count=1, epsilon=1, monotone=True) as session:
        assert session.above(2 * sd.count() + 5, threshold=-1000)
    session = held.above_threshold(count=1, epsilon=1, monotone=True)
    with session, pytest.raises(QuestionRefused, match="neither negated"):
        session.above(5 - sd.count(), threshold=1)
