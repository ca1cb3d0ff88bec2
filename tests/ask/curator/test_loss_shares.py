"""How a loss is split among the aggregates of a question and the questions of a batch: exactly, and for the least error."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sordino as sd
from ask.curator.support import S, curator
from mistyping import mistype
from protecting import protect
from sordino.ask.curator.curator import Curator
from sordino.errors import DeclarationError, QuestionRefused, UnknownName
from trying import examples

PEOPLE = sd.Domain({"age": sd.Integer(0, 100), "income": sd.Integer(0, 500_000), "job": sd.Category(["a", "b"])})
SELECT = "SELECT COUNT(*) AS n, AVG(age) AS age, SUM(income) AS total FROM pums"
THREE = "SELECT COUNT(*) AS n FROM pums; SELECT AVG(age) AS age FROM pums; SELECT SUM(income) AS total FROM pums"


def _people(budget: Any = None) -> Curator:
    rows = pa.table({"age": [30, 40, 50] * 100, "income": [1, 2, 30_000] * 100, "job": ["a", "b", "b"] * 100})
    return protect(rows, PEOPLE, budget=budget or sd.PureDP(1000), name="pums")


def _shares(plan: Any) -> list[Fraction]:
    """Return each share of the loss, of the aggregates of a question or of the questions of a batch."""
    if isinstance(plan, sd.Batch):
        costs = [next(iter(p.cost.amounts().values())) for p in plan.plans]
        return [c / sum(costs) for c in costs]
    return list(plan.procedure.allocation.shares)


@pytest.mark.each(3)
@pytest.mark.parametrize("text", [SELECT, THREE], ids=["one question", "batch"])
@pytest.mark.parametrize("loss", [{"epsilon": 1}, {"rho": "1/2"}, {"epsilon": 1, "delta": "1e-6"}], ids=str)
def test_shares_are_equal_or_by_weight_and_sum_to_the_loss(text: str, loss: dict[str, Any]) -> None:
    budget = sd.ZCDP(9) if "rho" in loss else sd.ApproxDP(9, "1e-3") if "delta" in loss else sd.PureDP(9)
    people = _people(budget)
    for weights, wanted in (
        (None, ["1/3", "1/3", "1/3"]),
        ([1, 1, 1], ["1/3", "1/3", "1/3"]),
        ({"n": 1, "total": 3}, ["1/5", "1/5", "3/5"]),
        (["0.5", 1, "1/2"], ["1/4", "1/2", "1/4"]),
    ):
        plan = people.plan(sd.sql(text), weights=mistype(weights), **loss)
        assert _shares(plan) == [Fraction(w) for w in wanted]
        for name, amount in plan.cost.amounts().items():
            assert amount <= Fraction(str(loss.get(name, amount)))
            assert name == "delta" or amount == Fraction(str(loss[name]))
    assert people.spent.amounts().keys() == budget.amounts().keys()


@pytest.mark.deep
@pytest.mark.parametrize("text", [SELECT, THREE], ids=["one question", "batch"])
def test_relative_shares_starve_nobody_where_shares_by_error_do(text: str) -> None:
    people = _people()
    by_error = people.plan(sd.sql(text), epsilon=1, share="error", assume_rows=1000)
    assert _shares(by_error)[2] > Fraction(99, 100)  # dollars beside years: the mean of age is lost
    relative = people.plan(sd.sql(text), epsilon=1, share="relative", assume_rows=1000)
    shares = _shares(relative)
    assert sum(shares) == 1
    assert min(shares) > Fraction(1, 5)
    count, age, total = relative.errors() if isinstance(relative, sd.Batch) else relative.error(0.95).values()
    assert (count < 15, age < 2, total < 7e6) == (True, True, True)


def _weighted(people: Curator, shares: Any, sizes: Any) -> float:
    plan = people.plan(sd.sql(SELECT), epsilon=1, weights=list(shares), assume_rows=1000)
    return float(sum(error / size for error, size in zip(plan.error(0.95).values(), sizes, strict=True)))


@pytest.mark.deep
@pytest.mark.parametrize(
    ("scale", "sizes"),
    [
        ({}, (1000, 100, 1000 * 500_000)),
        ({"income": 50_000}, (1000, 100, 1000 * 50_000)),
        ({"n": 100, "age": 10, "total": 10**6}, (100, 10, 10**6)),
    ],
    ids=["declared", "a column", "answers"],
)
def test_no_split_of_a_grid_has_a_smaller_sum_of_relative_errors(scale: Any, sizes: Any) -> None:
    people = _people()
    plan = people.plan(sd.sql(SELECT), epsilon=1, share="relative", scale=scale, assume_rows=1000)
    found = sum(error / size for error, size in zip(plan.error(0.95).values(), sizes, strict=True))
    grid = [s for s in itertools.product(range(1, 7), repeat=3) if sum(s) == 8]
    assert found <= 1.05 * min(_weighted(people, shares, sizes) for shares in grid)


def test_a_plan_with_shares_is_asked_as_it_is_and_an_altered_one_is_not() -> None:
    people = _people()
    plan = people.plan(sd.sql(SELECT), epsilon=1, share="relative", assume_rows=1000)
    release = people.ask(plan)
    assert release.cost == sd.PureDP(1) == people.spent
    assert [o.mechanism for o in release.outputs] == [
        "; ".join(dict.fromkeys(v["mechanism"] for v in c["parts"])) for c in plan.to_dict()["columns"]
    ]
    for wrong in ((Fraction(2), Fraction(-1), Fraction(1)), (Fraction(1), Fraction(1))):
        object.__setattr__(plan.procedure, "weights", wrong)
        with pytest.raises(DeclarationError):
            people.ask(plan)
    object.__setattr__(plan.procedure, "weights", (Fraction(1), Fraction(1), Fraction(5)))
    with pytest.raises(DeclarationError, match="plan again"):
        people.ask(plan)
    assert people.spent == sd.PureDP(1)


@examples(6, 8, weights=st.lists(st.fractions(min_value=Fraction(1, 50), max_value=50), min_size=4, max_size=4))
def test_any_weights_sum_to_the_loss_with_quantiles_and_private_keys(weights: list[Fraction]) -> None:
    held = curator(budget=sd.ApproxDP(100, "1e-3"))
    asked = S.agg(sd.count(), sd.mean("age"), sd.median("age"), sd.std("gain"))
    plan = held.plan(asked, epsilon="0.7", weights=weights)
    assert _shares(plan) == [w / sum(weights) for w in weights]
    assert plan.cost == sd.ApproxDP("0.7", 0)
    keys = S.group_by("id").agg(sd.sum("age"), sd.mean("age"))
    rows = curator(budget=sd.ApproxDP(100, "1e-3"), unit="row").plan(keys, epsilon=1, delta="1e-6", weights=weights[:2])
    assert sum(_shares(rows)) == Fraction(2, 3)  # the keys take an equal share, whatever the weights
    counted = curator(budget=sd.ApproxDP(100, "1e-3"), unit="row").plan(
        S.group_by("id").agg(sd.count(), sd.mean("age")), epsilon=1, delta="1e-6", weights=weights[:2]
    )
    assert _shares(counted) == [Fraction(1, 2), Fraction(1, 2)]  # their selection counts, for both
    assert rows.cost.amounts()["epsilon"] <= 1


def test_the_weight_of_a_formula_is_that_of_what_it_is_computed_from() -> None:
    people = _people()
    plan = people.plan(
        sd.sql("SELECT SUM(income) / SUM(age) AS ratio, COUNT(*) AS n FROM pums"), epsilon=1, weights={"ratio": 2}
    )
    by_name = dict(zip([a.describe() for a in mistype(plan.question).aggregates], _shares(plan), strict=True))
    assert by_name["the number of rows"] == Fraction(1, 5)
    assert by_name["the sum of income"] == by_name["the sum of age"] == Fraction(2, 5)
    ordered = people.plan(sd.sql("SELECT COUNT(*) AS n, AVG(age) AS a FROM pums"), epsilon=1, weights=[3, 1])
    turned = people.plan(sd.sql("SELECT AVG(age) AS a, COUNT(*) AS n FROM pums"), epsilon=1, weights=[1, 3])
    assert ordered.error_times_rows(0.95) == turned.error_times_rows(0.95)


def test_what_no_unit_moves_gets_no_share() -> None:
    held = curator(neighbors="replace")
    plan = held.plan([sd.count(), sd.sum("age"), sd.sum("sure")], epsilon=1, weights=[100, 1, 3])
    assert _shares(plan) == [0, Fraction(1, 4), Fraction(3, 4)]
    assert "share: 75% of the loss" in str(plan)
    assert [c["share"] for c in plan.to_dict()["columns"]] == [None, "1/4", "3/4"]


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"weights": [1, 2]}, DeclarationError, "weights are 3 numbers"),
        ({"weights": [1, 2, 0]}, DeclarationError, "above 0"),
        ({"weights": {"m": 2}}, UnknownName, "not a column of the answer; known: 'n', 'age', 'total'"),
        ({"weights": "n=1"}, DeclarationError, "by name"),
        ({"weights": {"n": "many"}}, DeclarationError, "a number"),
        ({"share": "fair"}, DeclarationError, "equal"),
        ({"scale": {"n": 1}}, DeclarationError, "goes with"),
        ({"share": "relative"}, QuestionRefused, "assume_rows"),
        ({"share": "error"}, QuestionRefused, "assume_rows"),
        ({"share": "relative", "assume_rows": 9, "scale": {"incom": 1}}, UnknownName, "did you mean 'income'"),
        ({"share": "relative", "assume_rows": 9, "scale": {"age": -1}}, DeclarationError, "above 0"),
    ],
    ids=str,
)
@pytest.mark.parametrize("text", [SELECT, THREE], ids=["one question", "batch"])
def test_what_makes_no_sense_is_refused(text: str, words: dict[str, Any], error: type[Exception], message: str) -> None:
    people = _people()
    with pytest.raises(error, match=message):
        people.plan(sd.sql(text), epsilon=1, **words)
    with pytest.raises(DeclarationError, match="one answer"):
        people.plan(sd.most_common("job"), epsilon=1, share="error")


def test_one_name_in_two_questions_is_no_name_for_a_weight() -> None:
    twice = "SELECT COUNT(*) AS n FROM pums; SELECT COUNT(*) AS n FROM pums WHERE age > 3"
    with pytest.raises(DeclarationError, match="in order"):
        _people().plan(sd.sql(twice), epsilon=1, weights={"n": 2})


def test_a_choice_in_a_batch_is_relative_to_the_rows() -> None:
    people = _people()
    asked: list[Any] = [sd.sql("SELECT COUNT(*) AS n FROM pums"), sd.most_common("job")]
    few, many = (people.plan(asked, epsilon=1, share="relative", scale={"n": n}, assume_rows=1000) for n in (10, 10**5))
    assert _shares(few)[0] > Fraction(1, 2) > _shares(many)[0]


def test_a_question_is_asked_with_its_shares_and_confirmed_before_the_charge() -> None:
    people = _people()
    seen: list[sd.Plan] = []

    def stop(plan: sd.Plan) -> None:
        raise KeyError(plan.words)

    release = people.ask(sd.sql(SELECT), epsilon=1, weights={"n": 1, "total": 3}, confirm=seen.append)
    assert _shares(seen[0]) == [Fraction(w) for w in ("1/5", "1/5", "3/5")]
    assert release.outputs[0].mechanism == seen[0].to_dict()["columns"][0]["parts"][0]["mechanism"]
    with pytest.raises(KeyError):
        people.ask(sd.sql(SELECT), epsilon=1, confirm=stop)
    assert people.spent == sd.PureDP(1)

    def alter(plan: sd.Plan) -> None:  # what is shown is not what runs
        object.__setattr__(plan, "cost", sd.PureDP("1/100"))
        object.__setattr__(plan, "event", None)

    assert people.ask(sd.sql(SELECT), epsilon=1, confirm=alter).cost == sd.PureDP(1)
    assert people.spent == sd.PureDP(2)
    for wrong in ({"weights": [1, 1, 1]}, {"share": "error"}, {"assume_rows": 5}, {"epsilon": 1}):
        with pytest.raises(DeclarationError, match="a plan states its loss already"):
            people.ask(seen[0], **mistype(wrong))
    batch = mistype(people.plan(sd.sql(THREE), epsilon=1))
    with pytest.raises(DeclarationError, match="alone"):
        people.ask(batch, weights=[1, 1, 1])
    with pytest.raises(DeclarationError, match="alone"):
        people.ask(batch, confirm=stop)


@pytest.mark.deep
@pytest.mark.parametrize("text", [SELECT, THREE], ids=["one question", "batch"])
@pytest.mark.parametrize("share", ["relative", "error"])
def test_an_answer_that_is_exact_at_equal_shares_is_not_starved(text: str, share: Any) -> None:
    people = _people(sd.PureDP(10**6))
    plan = people.plan(sd.sql(text), epsilon=10_000, share=share, assume_rows=1000)
    count, age, total = plan.errors() if isinstance(plan, sd.Batch) else plan.error(0.95).values()
    shares = _shares(plan)
    assert sum(shares) == 1
    assert (count <= 1, age < 0.2, total < 10_000) == (True, True, True)
    if share == "relative":
        assert min(shares) > Fraction(1, 10)
