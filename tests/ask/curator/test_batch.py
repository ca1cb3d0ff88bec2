"""Batches: the least loss for wanted errors, one loss shared or split, and asking all or nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sordino as sd
from ask.curator.support import S, curator
from mistyping import mistype
from protecting import protect
from sordino import col
from sordino.errors import BudgetExhausted, DeclarationError, QuestionRefused
from trying import examples

QUESTIONS: list[Any] = [S.agg(sd.count()), S.agg(sd.sum("age")), S.where(col("age") > 30).agg(sd.mean("gain"))]


@pytest.mark.deep
def test_the_least_loss_reaches_the_wanted_error_and_a_hundredth_less_does_not() -> None:
    held = curator(budget=sd.PureDP(1000))
    wanted = [10, 500, 1]
    batch = held.plan(QUESTIONS, error=wanted, assume_rows=500)
    assert all(found <= want for found, want in zip(batch.errors(), wanted, strict=True))
    for plan, question, want in zip(batch.plans, QUESTIONS, wanted, strict=True):
        less = held.plan(question, epsilon=plan.cost.amounts()["epsilon"] * Fraction(98, 100), assume_rows=500)
        assert less.error(0.95) > want
    assert batch.cost == sd.PureDP(sum((p.cost.amounts()["epsilon"] for p in batch.plans), Fraction(0)))
    assert held.spent == sd.PureDP(0)


@pytest.mark.deep
@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"rho": "0.5"}], ids=["epsilon", "rho"])
def test_a_split_costs_the_whole_and_no_other_split_of_a_grid_errs_less(loss: dict[str, Any]) -> None:
    held = curator(budget=sd.PureDP(1000) if "epsilon" in loss else sd.ZCDP(1000))
    batch = held.plan(QUESTIONS[:2], share="error", **loss)
    name, total = next(iter(loss.items()))
    assert sum(p.cost.amounts()[name] for p in batch.plans) == Fraction(total)

    def error(question: Any, share: Fraction) -> float:
        asked: dict[str, Any] = {name: Fraction(total) * share}
        return float(held.plan(question, **asked).error(0.95))

    first, second = QUESTIONS[:2]
    best = min(error(first, Fraction(i, 20)) + error(second, Fraction(20 - i, 20)) for i in range(1, 20))
    assert sum(batch.errors()) <= best * 1.03


def test_a_loss_is_shared_equally_whatever_the_units_of_the_questions() -> None:
    domain = sd.Domain({"age": sd.Integer(0, 100), "income": sd.Integer(0, 500_000)})
    people = protect(
        pa.table({"age": [30, 40, 50], "income": [1, 2, 3]}), domain, budget=sd.ApproxDP(10, 1e-3), name="pums"
    )
    asked = [sd.sql(f"SELECT {a} FROM pums") for a in ("COUNT(*)", "AVG(age)", "SUM(income)")]
    batch = people.plan(asked, epsilon=1, assume_rows=1000)
    assert [p.cost.amounts()["epsilon"] for p in batch.plans] == [Fraction(1, 3)] * 3
    for plan, one in zip(batch.plans, asked, strict=True):
        alone = people.plan(one, epsilon=Fraction(1, 3), assume_rows=1000)
        assert plan.error(0.95) == alone.error(0.95)
    count, age, income = batch.errors()
    assert (count < 10, age < 2, income < 5e6) == (True, True, True)
    assert len(people.ask(batch)) == 3
    wide = people.agg(
        [sd.sum(col("age").clip(0, 60 + i)).alias(f"s{i}") for i in range(40)]
    )  # Gaussian errs less for so many
    shared = people.plan([wide, wide, wide], epsilon=1, delta=1e-6)
    assert shared.cost == sd.ApproxDP(1, "1e-6")  # deltas add up, so they are shared too


@examples(6, 10, count=st.integers(1, 7), epsilon=st.fractions(min_value=Fraction(1, 100), max_value=10))
def test_equal_shares_sum_to_the_whole(count: int, epsilon: Fraction) -> None:
    held = curator(budget=sd.PureDP(1000))
    batch = held.plan([QUESTIONS[i % 2] for i in range(count)], epsilon=epsilon)
    assert {p.cost.epsilon for p in batch.plans} == {epsilon / count}
    assert batch.cost == sd.PureDP(epsilon)


def test_weights_move_the_loss_to_what_counts() -> None:
    held = curator(budget=sd.PureDP(1000))
    for share in ("equal", "error"):
        even, heavy = (held.plan(QUESTIONS[:2], epsilon=1, weights=w, share=share) for w in ([1, 1], [50, 1]))
        assert heavy.errors()[0] < even.errors()[0]


@pytest.mark.each(6)
@pytest.mark.parametrize("loss", [{"epsilon": 1, "delta": "1e-6"}, {"rho": "0.5"}], ids=["epsilon", "rho"])
@pytest.mark.parametrize(
    "split", [{}, {"weights": [7, 3, 1, 7]}, {"share": "error"}], ids=["equal", "weights", "error"]
)
def test_a_question_that_is_free_leaves_its_share_to_the_others(loss: dict[str, Any], split: dict[str, Any]) -> None:
    """Declared keys and public tables cost nothing, whatever part of the loss they have."""
    domain = sd.Domain({"town": sd.Category(["a", "b"]), "age": sd.Integer(0, 9)})
    columns = sd.Domain({"town": sd.Category(["a", "b"]), "area": sd.Integer(0, 9)})
    towns = sd.public(pa.table({"town": ["a", "b"], "area": [1, 2]}), key="town", columns=columns)
    people: Any = sd.protect(
        {"people": pa.table({"town": ["a"], "age": [3]})},
        domain={"people": domain},
        neighbors="add_remove",
        privacy_unit={"people": "row"},
        budget=sd.ZCDP(100) if "rho" in loss else sd.ApproxDP(100, "1e-3"),
        ledger=None,
        public={"towns": towns},
    )
    paid = ["SELECT COUNT(*) FROM people", "SELECT SUM(age) FROM people"]
    texts = ["SELECT DISTINCT town FROM people", *paid, "SELECT * FROM towns"]
    batch = people.plan(sd.sql("; ".join(texts)), **loss, **split)
    split = {"weights": [3, 1]} if "weights" in split else split
    alone = people.plan(sd.sql("; ".join(paid)), **loss, **split)
    amounts = [plan.cost.amounts() for plan in batch.plans]
    assert not any([*amounts[0].values(), *amounts[3].values()])
    assert [plan.cost for plan in batch.plans[1:3]] == [plan.cost for plan in alone.plans]
    assert batch.cost == alone.cost
    assert batch.errors() == [0, *alone.errors(), 0]
    assert batch.describe().count("no error") == 2
    assert [release.cost for release in people.ask(batch)] == [plan.cost for plan in batch.plans]


def test_a_question_that_is_free_has_the_error_that_is_wanted() -> None:
    people = protect(pa.table({"town": ["a"]}), sd.Domain({"town": sd.Category(["a", "b"])}), name="people")
    batch = people.plan([people.group_by("town").agg([]), people.agg(sd.count())], error=10)
    assert [plan.is_free for plan in batch.plans] == [True, False]
    assert batch.plans[1].cost == people.plan(people.agg(sd.count()), error=10).cost


def test_all_are_asked_or_none() -> None:
    held = curator(budget=sd.PureDP(1))
    batch = held.plan([S.agg(sd.count()), sd.most_common("occ")], epsilon=1)
    releases = held.ask(batch)
    assert [r.question for r in releases] == ["the number of rows", "the most common occ"]
    assert held.spent == sd.PureDP(1)
    with pytest.raises(BudgetExhausted, match="nothing was charged"):
        held.ask(batch)
    assert held.spent == sd.PureDP(1)
    nearly = curator(budget=sd.PureDP("1.75"))
    nearly.ask(batch)
    with pytest.raises(BudgetExhausted, match="nothing was charged"):  # though the first of them would fit
        nearly.ask(batch)
    assert nearly.spent == sd.PureDP(1)


def test_bad_batches_are_refused() -> None:
    held = curator(budget=sd.PureDP(10))
    for wrong, message in (
        ({"error": 10, "epsilon": 1}, "leave out epsilon"),
        ({"error": [1, 2]}, "one per question"),
        ({"error": 0}, "above 0"),
        ({"error": 10, "confidence": 1}, "confidence"),
        ({"epsilon": 1, "weights": [1, 0, 1]}, "weights"),
    ):
        with pytest.raises(DeclarationError, match=message):
            held.plan(QUESTIONS, assume_rows=500, **wrong)
    with pytest.raises(QuestionRefused, match="assume_rows"):
        held.plan(QUESTIONS, error=10)
    with pytest.raises(DeclarationError, match="ask\\(batch\\) alone"):
        held.ask(mistype(held.plan(QUESTIONS[:2], epsilon=1)), epsilon=1)
    other = curator(budget=sd.ZCDP(10)).plan(QUESTIONS[:2], rho=1)
    with pytest.raises(DeclarationError, match="plan again"):
        held.ask(other)
