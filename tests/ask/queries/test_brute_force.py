"""Brute force over neighboring tables never beats the declared sensitivity: by plain Python, and through DuckDB.

Answers are sums over rows, so the largest change over all tables is reached on tables of one row or two; larger tables
are drawn as well, in case that is ever untrue. Capped units are not sums over rows: they are in engines/.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

import sordino as sd
from ask.queries import reference
from ask.queries.support import DOMAIN, POOL, arrow, duckdb_exact, question, rows
from sordino import col
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import (
    Selection,
    as_aggregation,
    correlation,
    count_distinct,
    covariance,
    std,
    sum_distinct,
    variance,
)
from sordino.ask.queries.expressions.cases import when
from sordino.core.neighbors import Neighbors, Relation

S = Selection()
FIXED: list[Aggregation] = [
    as_aggregation(q)
    for q in [
        sd.count(),
        sd.count("i"),
        sd.count("j"),
        sd.sum("i"),
        sd.sum("j"),
        sd.mean("i"),
        sd.mean("j"),
        sd.sum("r"),
        sd.mean("s"),
        sd.sum(col("i") * col("i")),
        sd.sum(col("free").clip(2, 5)),
        S.where(col("i") > 0).agg(sd.count(), sd.sum("j")),
        S.where(col("t")).agg(sd.sum(col("j") + 10)),
        S.group_by("c").agg(sd.count(), sd.sum("i")),
        S.group_by("e").agg(sd.sum("j"), sd.mean("i")),
        S.group_by("k", "t").agg(sd.count()),
        S.group_by(col("r").bin([-1, 0, 2])).agg(sd.sum(col("j") - 2)),
        S.where(col("c") == "a").group_by("t").agg(sd.mean(col("j") - 2)),
        variance("i"),
        variance("j", ddof=1),
        std(col("r") * 2 + 1),
        covariance("i", "j"),
        correlation("i", "r"),
        S.group_by("t").agg(variance("i"), covariance("j", "i")),
        count_distinct("i"),
        count_distinct("c"),
        count_distinct("t"),
        S.group_by("e").agg(count_distinct("i")),
        sum_distinct("i"),
        sum_distinct("j"),
        sum_distinct(col("r") * 2),
        S.group_by("t").agg(sum_distinct("i"), sd.sum("i")),
        S.group_by("c", "t").agg(count_distinct("j")),
        count_distinct("c", "t"),
        S.group_by("t").agg(count_distinct("e", "i")),
        sd.sum(col("d").year() - 1999),
        sd.sum(when(col("i") > 0, col("j")).otherwise(-2)),
        sd.mean(when(col("c") == "a", 3).otherwise(None)),
        S.group_by(col("d").month()).agg(sd.count()),
        sd.sum(col("r").round()),
        sd.sum(col("i") / 3),
        sd.mean((col("r") * 2 + 1).ceil()),
        sd.sum(col("i") % 2),
        sd.sum(col("c").length()),
        S.where(col("e").upper() == "X").agg(sd.sum(col("i").sign())),
        S.group_by(col("c").upper()).agg(sd.count()),
        S.group_by(col("i") > 0).agg(sd.count(), sd.sum("j")),
        S.group_by(col("j") % 3).agg(sd.count()),
        S.group_by(when(col("i") > 0, "up").otherwise("down")).agg(sd.sum("i")),
        S.group_by("c", "t", keys=[("b", True), (None, False), ("a", True)]).agg(sd.count(), sd.sum("i")),
        S.group_by("free", keys=[3, -5]).agg(sd.count(), sd.mean("j")),
        S.group_by("c", keys=["a"]).agg(sd.count(), sd.sum("j")),
        S.group_by("e", "free", keys=[("z", 0), ("x", 3)]).agg(count_distinct("i")),
        S.group_by(when(col("i") > 0, col("e")).otherwise("down")).agg(sd.sum("i")),
        S.group_by(when(col("t"), col("c")).otherwise(None)).agg(sd.count()),
        S.group_by(when(col("i") > 0, "up").otherwise(None)).agg(sd.count(), sd.sum("i")),
        S.group_by(when(col("j") > 2, when(col("i") > 0, "up").otherwise(col("e"))).otherwise("x")).agg(sd.count()),
        S.group_by(col("r")).agg(sd.count()),
        sd.sum(col("i") > 0),
        sd.mean("t"),
        sd.sum((col("c") == "a") * col("j")),
        sd.sum(col("i").is_null()),
        sd.count(when(col("i") > 0, col("c")).otherwise(None)),
        sd.count(when(col("i") > 0, col("c")).otherwise(col("t"))),
        S.group_by("t").agg(count_distinct(when(col("i") > 0, col("e")).otherwise(None))),
    ]
]
Exact = Callable[[Aggregation, Sequence[dict[str, Any]]], list[list[Fraction]]]


def by_python(asked: Aggregation, table: Sequence[dict[str, Any]]) -> list[list[Fraction]]:
    """Return the oracle's parts, with the sums of means centred: what is released."""
    from ask.queries.test_engine_agrees import center

    return center(asked, list(table))


def by_duckdb(asked: Aggregation, table: Sequence[dict[str, Any]]) -> list[list[Fraction]]:
    return duckdb_exact(asked, arrow(table))


def check(asked: Aggregation, relation: Relation, exact: Exact, pairs: list[tuple[Any, Any]]) -> list[Fraction]:
    """Hold each pair's distance against each part's sensitivity; return the largest l1 distance of each part."""
    found = compile_query(asked, DOMAIN)
    bounds = [s for several in found.bound(Neighbors(relation, None)).sensitivities for s in several]
    largest = [Fraction(0)] * len(bounds)
    # a table is in many pairs
    tables = {id(table): table for pair in pairs for table in pair}
    exact_parts = {key: exact(asked, table) for key, table in tables.items()}
    for one, other in pairs:
        for i, (a, b) in enumerate(zip(exact_parts[id(one)], exact_parts[id(other)], strict=True)):
            moved = [abs(x - y) for x, y in zip(a, b, strict=True)]
            words = (asked.describe(), relation, bounds[i], one, other)
            assert sum(moved) <= bounds[i].l1, words
            assert sum(m * m for m in moved) <= bounds[i].l2_squared, words
            assert max(moved) <= bounds[i].linf, words
            assert sum(1 for m in moved if m) <= bounds[i].l0, words
            largest[i] = max(largest[i], sum(moved, Fraction(0)))
    return largest


def used(asked: Aggregation) -> list[dict[str, Any]]:
    """Return all rows that differ in a column the question reads, over the whole pool of odd cells."""
    text = asked.identity()
    names = [n for n in POOL if f'["Name","{n}"]' in text]
    base = {n: POOL[n][0] for n in POOL}
    return [{**base, **dict(zip(names, cells, strict=True))} for cells in itertools.product(*(POOL[n] for n in names))]


@pytest.mark.each(3)
@pytest.mark.parametrize("asked", FIXED, ids=lambda q: q.describe()[:60])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_all_neighbors_over_a_tiny_domain(asked: Aggregation, relation: Relation) -> None:
    rng = random.Random(7)
    one_row = used(asked)
    nothing: list[dict[str, Any]] = []
    if relation == "add_remove":
        pairs: list[tuple[Any, Any]] = [(nothing, [r]) for r in one_row]
        pairs += [
            ([a], [a, b]) for a, b in rng.sample(list(itertools.product(one_row, one_row)), min(40, len(one_row)))
        ]
    else:
        both = list(itertools.combinations([[r] for r in one_row], 2))
        pairs = rng.sample(both, min(len(both), 300))
    check(asked, relation, by_python, pairs)


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("seed", range(11, 15))
def test_random_questions_and_tables(seed: int, relation: Relation) -> None:
    rng = random.Random(seed)
    for _ in range(9):
        asked, table = question(rng), rows(5, rng)
        more = rows(30, rng)
        pairs = [(table, [*table, r] if relation == "add_remove" else [*table[1:], r]) for r in more]
        check(asked, relation, by_python, pairs)


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("sixth", range(6))
def test_through_duckdb(sixth: int, relation: Relation) -> None:
    rng = random.Random(13)
    for asked in FIXED[sixth::6]:
        table = rows(4, rng)
        pairs = [(table, [*table, r] if relation == "add_remove" else [*table[1:], r]) for r in rows(1, rng)]
        check(asked, relation, by_duckdb, pairs)


@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("asked", "relation", "reached"),
    [
        (sd.count(), "add_remove", 1),
        (sd.sum("i"), "add_remove", 3),
        (sd.sum("i"), "replace", 5),
        (sd.sum("j"), "replace", 4),
        (S.group_by("c").agg(sd.count()), "replace", 2),
        (S.group_by("t").agg(sd.sum("i")), "replace", 6),
        (count_distinct("i"), "add_remove", 1),
        (count_distinct("i"), "replace", 1),
        (S.group_by("t").agg(count_distinct("i")), "add_remove", 1),
        (S.group_by("t").agg(count_distinct("i")), "replace", 2),
        (sum_distinct("i"), "add_remove", 3),
        (sum_distinct("i"), "replace", 5),
        (S.group_by("t").agg(sum_distinct("i")), "replace", 6),
        (count_distinct("c", "t"), "replace", 1),
        (S.group_by("t").agg(count_distinct("c", "i")), "replace", 2),
        (S.group_by("c", keys=["a"]).agg(sd.count()), "replace", 1),
        (S.group_by("c", "t", keys=[("b", True), ("a", True)]).agg(sd.count()), "replace", 2),
        (sd.sum(when(col("i") > 0, 7).otherwise(-2)), "replace", 9),
    ],
)
def test_the_bound_is_reached_so_that_it_is_no_larger_than_needed(asked: Any, relation: Relation, reached: int) -> None:
    question_ = as_aggregation(asked)
    nothing: list[dict[str, Any]] = []
    some = [[r] for r in used(question_)]
    pairs: list[tuple[Any, Any]] = (
        [(nothing, a) for a in some] if relation == "add_remove" else list(itertools.product(some, some))
    )
    assert check(question_, relation, by_python, pairs)[0] == reached


def test_the_oracle_can_fail() -> None:
    """A sensitivity one too small is caught: the check is not vacuous."""
    asked = as_aggregation(sd.sum("i"))
    assert max(abs(sum(p[0], Fraction(0))) for p in (reference.exact(asked, [r], DOMAIN) for r in used(asked))) == 3
