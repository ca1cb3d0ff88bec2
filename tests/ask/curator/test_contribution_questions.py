"""Contribution bounds as a person states them: per table and per question, in Python, SQL and as a promise; what answers say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from sordino import col
from sordino.core.ledger.records import accept_amended
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.errors import DeclarationError, QuestionRefused

ROWS = [(f"u{u}", "abc"[i % 3], i % 10) for u in range(40) for i in range(30)]
TABLE = pa.table({"id": [r[0] for r in ROWS], "c": [r[1] for r in ROWS], "x": [r[2] for r in ROWS]})
DOMAIN = sd.Domain({"id": sd.Identifier(), "c": sd.Category(["a", "b", "c"]), "x": sd.Integer(0, 9)})
SURE: dict[str, Any] = {"epsilon": 10**6}


def visits(unit: PrivacyUnit, *, budget: Any = None, relation: str = "add_remove") -> Any:
    return sd.protect(
        TABLE,
        domain=DOMAIN,
        neighbors=relation,
        privacy_unit=unit,
        budget=budget or sd.PureDP(10**9),
        ledger=None,
        rng=sd.Rng.seeded(5),
    )


def answer(curator: Any, question: Any) -> list[Any]:
    return [tuple(r.values()) for r in curator.ask(question, **SURE).rows]


def test_a_rare_condition_is_counted_as_far_as_its_rows_allow() -> None:
    """F1: 40 units of 30 rows, 3 of which meet the condition: all are counted, not one in six of them."""
    one = visits(PrivacyUnit("id", max_rows=5))
    assert answer(one, one.where(col("x") == 4).agg(sd.count())) == [(120,)]
    assert answer(one, one.agg(sd.count())) == [(200,)]
    assert answer(one, sd.sql("SELECT COUNT(*) AS n FROM data WHERE x = 4")) == [(120,)]


def test_aggregates_with_conditions_of_their_own_share_the_rows_of_the_question() -> None:
    one = visits(PrivacyUnit("id", max_rows=5))
    ((every, some, others),) = answer(
        one,
        sd.sql(
            "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE x < 5) AS a, COUNT(*) FILTER (WHERE x >= 5) AS b FROM data"
        ),
    )
    assert (every, some + others) == (200, 200)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("bounds", "hint", "counts"),
    [
        ({"max_rows_per_group": 2}, "MAX_ROWS_PER_GROUP(2)", [80, 80, 80]),
        ({"max_groups": 3, "max_rows_per_group": 1}, "MAX_GROUPS(3), MAX_ROWS_PER_GROUP(1)", [40, 40, 40]),
    ],
)
def test_python_and_sql_state_the_same_bounds(bounds: dict[str, int], hint: str, counts: list[int]) -> None:
    one = visits(PrivacyUnit("id", max_rows=20))
    in_python = one.group_by("c").agg(sd.count().alias("n")).bound_contributions(**bounds)
    in_sql = sd.sql(f"SELECT /*+ {hint} */ c, COUNT(*) AS n FROM data GROUP BY c")
    beside = sd.sql("SELECT c, COUNT(*) AS n FROM data GROUP BY c").bound_contributions(**bounds)
    assert answer(one, in_python) == answer(one, in_sql) == answer(one, beside)
    assert [n for _, n in answer(one, in_sql)] == counts
    plans = [one.plan(q, epsilon=1) for q in (in_python, in_sql, beside)]
    assert len({p.sentence() for p in plans}) == 1
    loose = one.plan(one.group_by("c").agg(sd.count().alias("n")), epsilon=1)
    assert plans[0].error(0.95) == plans[1].error(0.95) < loose.error(0.95)


def test_one_group_a_unit() -> None:
    one = visits(PrivacyUnit("id", max_rows=20))
    counts = answer(one, one.group_by("c").bound_contributions(max_groups=1).agg(sd.count(), sd.count_distinct("id")))
    assert sum(n for _, n, _ in counts) == 400
    assert sum(u for _, _, u in counts) == 40
    assert all(u > 3 for _, _, u in counts)  # each unit orders the groups in its own way


def test_a_declaration_without_max_rows() -> None:
    one = visits(PrivacyUnit("id", max_groups=2, max_rows_per_group=3))
    assert answer(one, sd.count()) == [(240,)]
    assert sum(n for _, n in answer(one, sd.histogram("c"))) == 240
    assert one.plan(sd.histogram("c"), **SURE).notes == (
        "at most 6 rows of one id count; rows beyond are not counted",
        "at most 2 keys of one id count; its rows under other keys are not counted",
        "at most 3 rows of one id count under one key",
        "rows whose id is missing are left out",
        "rows whose c is missing are left out",
    )


def test_quantiles_and_choices_count_the_same_rows() -> None:
    one = visits(PrivacyUnit("id", max_rows=20))
    few = one.group_by("c").agg(sd.quantile("x", 0.9), sd.count()).bound_contributions(max_rows_per_group=1)
    assert [n for _, _, n in answer(one, few)] == [40, 40, 40]
    assert one.ask(sd.most_common("c").bound_contributions(max_rows_per_group=1), epsilon=1).value in "abc"
    loose, tight = (
        one.plan(q, epsilon=1) for q in (sd.most_common("c"), sd.most_common("c").bound_contributions(max_rows=1))
    )
    assert tight.error(0.95) < loose.error(0.95) / 10
    assert one.plan(sd.sql("SELECT /*+ MAX_ROWS(1) */ MODE(c) FROM data"), epsilon=1).error(0.95) == tight.error(0.95)


def test_private_keys_count_one_row_a_unit() -> None:
    domain = sd.Domain({"id": sd.Identifier(), "c": sd.Identifier()})
    one = sd.protect(
        TABLE,
        domain=domain,
        neighbors="add_remove",
        privacy_unit=PrivacyUnit("id", max_rows=20),
        budget=sd.ApproxDP(1000, 1e-3),
        ledger=None,
        rng=sd.Rng.seeded(5),
    )
    asked = one.group_by("c").agg(sd.count()).bound_contributions(max_groups=3, max_rows_per_group=1)
    assert [tuple(r.values()) for r in one.ask(asked, epsilon=200, delta=1e-6).rows] == [
        ("a", 40),
        ("b", 40),
        ("c", 40),
    ]
    wide, tight = (one.plan(q, epsilon=1, delta=1e-6).error(0.95) for q in (one.group_by("c").agg(sd.count()), asked))
    assert tight < wide / 5


def test_totals_of_units_are_described_and_bounded() -> None:
    one = visits(PrivacyUnit("id", max_rows=2))
    total = sd.sql("SELECT SUM(CLIP_UNIT(x, 0, 100)) AS t FROM data")
    assert answer(one, total) == [(40 * 100,)]
    plan = one.plan(total, epsilon=1)
    assert plan.notes == (
        "rows whose id is missing are left out",
        "a total of one id is of all its rows, whatever their number",
    )
    assert plan.error(0.95) == one.plan(sd.sum("x", per_unit=(0, 100)), epsilon=1).error(0.95)
    mixed = one.plan(one.group_by("c").agg(sd.sum("x", per_unit=(0, 50)), sd.count()), epsilon=1).notes
    assert mixed[-2] == "a total of one id is of all its rows under up to 2 keys, whatever their number"
    for text, says in (
        ("SUM(CLIP_UNIT(x))", "takes a number and two bounds"),
        ("AVG(CLIP_UNIT(x, 0, 1))", "alone in a sum"),
    ):
        with pytest.raises(QuestionRefused, match=says):
            one.plan(sd.sql(f"SELECT {text} FROM data"), epsilon=1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT /*+ MAX_GROUP(3) */ COUNT(*) FROM data", "hints are MAX_ROWS.*did you mean 'max_groups'"),
        ("SELECT /*+ BROADCAST(data) */ COUNT(*) FROM data", "hints are MAX_ROWS"),
        ("SELECT /*+ MAX_ROWS(x) */ COUNT(*) FROM data", "hints are MAX_ROWS"),
        ("SELECT /*+ MAX_ROWS(7) */ COUNT(*) FROM data", "above the 5"),
        ("SELECT /*+ MAX_ROWS_PER_GROUP(1) */ COUNT(*) FROM data", "has none: use max_rows"),
        ("SELECT COUNT(*) FROM (SELECT /*+ MAX_ROWS(1) */ x FROM data)", "after the outer SELECT"),
    ],
)
def test_hints_that_say_nothing_are_refused(text: str, says: str) -> None:
    with pytest.raises((QuestionRefused, DeclarationError), match=says):
        visits(PrivacyUnit("id", max_rows=5)).plan(sd.sql(text), epsilon=1)


# ---- a promise


@pytest.mark.parametrize(("relation", "by_key"), [("add_remove", 3), ("replace", 6)])
def test_a_promise_is_enough_for_counts_and_says_so(relation: str, by_key: int) -> None:
    one = visits(PrivacyUnit(None, max_rows=3), relation=relation)
    assert answer(one, sd.count()) == [(1200,)]  # nothing is capped
    plan = one.plan(sd.histogram("c"), epsilon=1)
    assert plan.notes == (
        "that each unit has at most 3 rows is a promise of the declaration: nothing enforces it",
        "rows whose c is missing are left out",
    )
    assert sd.histogram("c").sensitivity(DOMAIN, Neighbors(plan.neighbors.relation, PrivacyUnit(None, 3))).l1 == by_key
    assert "nothing enforces it" in str(one.ask(sd.count(), epsilon=1).notes)
    assert one.find_bounds("x", epsilon=1).notes[-1] == plan.notes[0]
    assert answer(one, sd.count_distinct("id")) == [(40,)]
    assert (
        sd.count_distinct("id").aggregate.parts(DOMAIN)[0].sensitivity(plan.neighbors, cells=1, droppable=True).l1 == 3
    )


@pytest.mark.parametrize(
    "ask",
    [
        lambda one: one.plan(one.sample("0.1").agg(sd.count()), epsilon=1),
        lambda one: one.plan(one.group_by("id").agg(sd.count()), epsilon=1, delta=1e-6),
        lambda one: one.plan(sd.sum("x", per_unit=(0, 5)), epsilon=1),
        lambda one: one.plan(one.agg(sd.count()).bound_contributions(max_rows=1), epsilon=1),
        lambda one: one.plan(sd.sample_and_aggregate("mean", "x", chunks=5, default=1), epsilon=1),
        lambda one: one.find_contribution_bounds(epsilon=1),
    ],
)
def test_what_needs_ids_is_refused_where_rows_are_only_promised(ask: Any) -> None:
    with pytest.raises(QuestionRefused, match=r"column|named by no"):
        ask(visits(PrivacyUnit(None, max_rows=3), budget=sd.ApproxDP(10, 1e-3)))


def test_a_promise_and_a_column_are_different_units_to_a_ledger() -> None:
    promised, named, row = (
        Neighbors("replace", u).to_dict() for u in (PrivacyUnit(None, 3), PrivacyUnit("id", 3), None)
    )
    accept_amended("t", promised, Neighbors("replace", PrivacyUnit(None, 9)).to_dict())
    for other in (named, row):
        with pytest.raises(DeclarationError, match="cannot be amended"):
            accept_amended("t", promised, other)
