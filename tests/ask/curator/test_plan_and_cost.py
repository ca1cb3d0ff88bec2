"""A plan uses no data and states the whole cost; the ledger moves by exactly that, in whatever it counts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.curator.support import QUESTIONS, TABLE, S, curator
from mistyping import mistype
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.errors import BudgetExhausted, DeclarationError, QuestionRefused, SordinoError, UnknownName

LOSSES: list[tuple[Any, dict[str, Any]]] = [
    (sd.PureDP(10), {"epsilon": 0.3}),
    (sd.PureDP(10), {"epsilon": "1/3"}),
    (sd.ApproxDP(10, 1e-3), {"epsilon": 0.3}),
    (sd.ApproxDP(10, 1e-3), {"epsilon": 0.3, "delta": 1e-6}),
    (sd.ApproxDP(10, 1e-3), {"epsilon": 0.9, "delta": 1e-4}),
    (sd.ZCDP(10, 1e-6), {"rho": 0.05}),
    (sd.ZCDP(10), {"epsilon": 0.3}),
]


@pytest.mark.each(20)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize(("budget", "asked"), LOSSES, ids=str)
def test_the_ledger_moves_by_exactly_what_the_plan_says(budget: Any, asked: dict[str, Any], neighbors: str) -> None:
    for unit in ("row", sd.PrivacyUnit("id", max_rows=3)):
        people = curator(budget=budget, neighbors=neighbors, unit=unit)
        for name, question in QUESTIONS.items():
            plan, before = people.plan(question, **asked), people.spent.amounts()
            answer = people.ask(plan)
            moved = {n: a - before[n] for n, a in people.spent.amounts().items()}
            assert moved == plan.cost.amounts() == answer.cost.amounts(), name
            assert all(a <= Fraction(str(asked.get(n, 1))) for n, a in moved.items() if n in asked), name
            assert answer.spent == people.spent
            assert answer.remaining == people.remaining


def test_a_whole_share_is_used() -> None:
    people = curator()
    for name, question in QUESTIONS.items():
        assert people.plan(question, epsilon="1/3").cost == sd.PureDP("1/3"), name


def test_a_public_count_under_replace_costs_nothing_and_is_exact() -> None:
    people = curator(budget=sd.PureDP(1), neighbors="replace")
    assert people.plan(sd.count(), epsilon=0.5).cost == sd.PureDP(0)
    answer = people.ask(sd.count(), epsilon=0.5)
    assert (answer.value, answer.error(0.95), answer.cost, people.spent) == (600, 0, sd.PureDP(0), sd.PureDP(0))
    assert people.ask(sd.mean("sure"), epsilon=0.5).cost == sd.PureDP(0.5)
    assert people.plan(S.where(col("age") > 0).agg(sd.count()), epsilon=0.5).cost == sd.PureDP(0.5)


def test_plan_uses_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(TABLE.append_column("sure", TABLE.column("age")), path)
    people = curator(source=path)
    plans = {n: people.plan(q, epsilon=0.5, assume_rows=600).to_dict() for n, q in QUESTIONS.items()}
    path.unlink()
    calls: list[object] = []
    monkeypatch.setattr(DuckDBEngine, "run", lambda *given: calls.append(given))
    assert {n: people.plan(q, epsilon=0.5, assume_rows=600).to_dict() for n, q in QUESTIONS.items()} == plans
    assert not calls
    assert people.spent == sd.PureDP(0)


def test_plan_says_cost_mechanism_sensitivity_reason_and_error() -> None:
    people = curator()
    plan = people.plan(QUESTIONS["several"], epsilon=0.3, assume_rows=600, assume_mean=16.0)
    words = plan.describe()
    assert "epsilon 0.3" in words
    assert words.count("discrete Laplace, scale") == 4  # two of each number, and the rows without gain
    assert "moves these 3 vectors together by 5,000 steps" in words
    assert set(plan.error(0.95)) == {"count", "sum_age", "mean_gain"}
    assert people.plan(sd.mean("age"), epsilon=0.3).error(0.95) is None
    assert {n: float(v) for n, v in plan.to_dict()["cost"].items()} == {"epsilon": 0.3}
    assert "<pre" in plan._repr_html_()


REFUSED: list[tuple[Any, dict[str, Any], type[Exception], int]] = [
    (sd.sql("SELECT age FROM data"), {"epsilon": 1}, QuestionRefused, 3),
    (sd.sum("nope"), {"epsilon": 1}, UnknownName, 3),
    (sd.sql("SELECT COUNT(*) FROM other"), {"epsilon": 1}, UnknownName, 3),
    (sd.sum(col("age") * col("occ")), {"epsilon": 1}, QuestionRefused, 3),
    (sd.count(), {"epsilon": 0}, DeclarationError, 2),
    (sd.count(), {"epsilon": -1}, DeclarationError, 2),
    (sd.count(), {"epsilon": float("nan")}, DeclarationError, 2),
    (sd.count(), {"epsilon": float("inf")}, DeclarationError, 2),
    (sd.count(), {"epsilon": True}, DeclarationError, 2),
    (sd.count(), {"epsilon": "x"}, DeclarationError, 2),
    (sd.count(), {"epsilon": 1, "delta": 0}, DeclarationError, 2),
    (sd.count(), {"epsilon": 1, "delta": 1}, DeclarationError, 2),
    (sd.count(), {"rho": 0.1}, DeclarationError, 2),
    (sd.count(), {"rho": 0.1, "epsilon": 1}, DeclarationError, 2),
    (sd.count(), {}, DeclarationError, 2),
]


@pytest.mark.parametrize(("question", "asked", "kind", "code"), REFUSED, ids=lambda v: str(v)[:40])
def test_refusals_come_before_the_budget(
    question: Any, asked: dict[str, Any], kind: type[SordinoError], code: int
) -> None:
    people = curator(budget=sd.PureDP(0.1))
    people.ask(sd.count(), epsilon=0.1)
    with pytest.raises(BudgetExhausted) as empty:
        people.ask(sd.count(), epsilon=1)
    assert empty.value.exit_code == 4
    with pytest.raises(kind) as refusal:
        people.ask(question, **asked)
    assert refusal.value.exit_code == code
    assert "\n" not in str(refusal.value)
    assert people.spent == sd.PureDP(0.1)


def test_a_plan_belongs_to_its_table_and_states_its_loss() -> None:
    people, others = curator(), curator(neighbors="replace")
    plan = people.plan(sd.count(), epsilon=0.1)
    with pytest.raises(DeclarationError, match="plan again"):
        others.ask(plan)
    with pytest.raises(DeclarationError, match="states its loss"):
        people.ask(plan, epsilon=0.1)
    for rows in (0, -1, 1.5, True):
        with pytest.raises(DeclarationError, match="assume_rows"):
            people.plan(sd.mean("age"), epsilon=1, assume_rows=mistype(rows))


def test_sql_and_python_have_one_plan() -> None:
    people = curator()
    python = S.where(col("gain") < 20).group_by("occ").agg(sd.count().alias("n"), sd.mean("age").alias("age"))
    assert people.plan(QUESTIONS["sql"], epsilon=1).identity() == people.plan(python, epsilon=1).identity()
    assert people.plan(QUESTIONS["sql"], epsilon=1).to_dict() == people.plan(python, epsilon=1).to_dict()
