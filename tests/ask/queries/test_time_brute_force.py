"""Questions of dates and moments: no neighbor moves a part further than declared, over all small tables of hostile cells."""

from __future__ import annotations

import datetime
import functools
import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import BoundQuestions, engine_of
from sordino import col
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation, Sensitivity

S = Selection()
T, D = col("t"), col("d")
POOL = [
    ("1969-12-31 23:59:59.9", datetime.date(1970, 1, 31)),
    ("1970-05-31 00:30", datetime.date(1, 1, 1)),  # skipped by the clock
    ("9999-12-31", None),
    ("not a date", datetime.date(9999, 12, 31)),
]
DOMAIN = sd.Domain(
    {
        "t": sd.DateTime("1969-12-30", "1970-10-05", zone="Europe/Rome", resolution="minute", missing="keep"),
        "d": sd.Date("1969-12-30", "1970-03-02", missing=sd.Fill("1970-02-28")),
        "u": sd.Identifier(),
    }
)
QUESTIONS: list[Aggregation] = [
    as_aggregation(q)
    for q in [
        sd.mean("t"),
        sd.mean("d"),
        sd.sum((T - D).hours()),
        sd.mean((D.shift(months=1) - D).days()),
        sd.count_distinct(T.date()),
        S.where(T < "1970-01-01").group_by(D.truncate("month")).agg(sd.count(), sd.mean("t")),
        S.group_by(T.truncate("week")).agg(sd.count()),
        S.group_by(T.hour(), D.strftime("%b")).agg(sd.count()),
        S.group_by(D).agg(sd.count()),
    ]
]


def answers_of(rows: tuple[tuple[Any, Any], ...], unit: PrivacyUnit | None) -> list[list[list[Fraction]]]:
    """Return the exact parts of each question over one table; where there is a unit, all rows but the last are one's."""
    owners = ["one"] * (len(rows) - 1) + ["other"] if rows else []
    table = pa.table(
        {
            "t": pa.array([t for t, _ in rows], pa.string()),
            "d": pa.array([d for _, d in rows], pa.date32()),
            "u": pa.array(owners, pa.string()),
        }
    )
    return bound_questions(unit).ask(source=table)


@functools.cache
def bound_questions(unit: PrivacyUnit | None) -> BoundQuestions:
    """Bind each question once for all tables, which hold their cells alike."""
    empty = pa.table({"t": pa.array([], pa.string()), "d": pa.array([], pa.date32()), "u": pa.array([], pa.string())})
    return BoundQuestions(engine_of(empty, DOMAIN, unit=unit), DOMAIN, QUESTIONS, source=empty)


@functools.cache
def bounds_of(neighbors: Neighbors) -> list[list[Sensitivity]]:
    """Return, for each question, the sensitivity of each of its parts."""
    of_questions = [compile_query(asked, DOMAIN).bound(neighbors).sensitivities for asked in QUESTIONS]
    return [[s for several in parts for s in several] for parts in of_questions]


def check(neighbors: Neighbors, pairs: list[tuple[Any, Any]]) -> Counter[int]:
    """Hold each pair's distance against each part's sensitivity; count the pairs that reach it."""
    reached: Counter[int] = Counter()
    for one, other in pairs:
        for place, (asked, bounds) in enumerate(zip(QUESTIONS, bounds_of(neighbors), strict=True)):
            for bound, a, b in zip(bounds, one[place], other[place], strict=True):
                moved = sum((abs(x - y) for x, y in zip(a, b, strict=True)), Fraction(0))
                assert moved <= bound.l1, (asked.describe(), neighbors.relation)
                reached[place] += moved == bound.l1
    return reached


@pytest.fixture(scope="module")
def tables() -> dict[tuple[Any, ...], Any]:
    sizes = [*(itertools.product(POOL, repeat=n) for n in (0, 1)), itertools.product(POOL[:2], POOL)]
    return {rows: answers_of(rows, None) for rows in itertools.chain(*sizes)}


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_all_neighbors_of_small_tables(tables: dict[tuple[Any, ...], Any], relation: Relation) -> None:
    if relation == "add_remove":
        pairs = [(tables[rows], tables[rows[:-1]]) for rows in tables if rows]
    else:
        pairs = [
            (tables[(*rows[:-1], x)], tables[rows])
            for rows in tables
            if rows
            for x in POOL
            if (*rows[:-1], x) in tables
        ]
    reached = check(Neighbors(relation, None), pairs)
    assert all(reached[place] for place in (0, 1, 6, 7, 8)), reached  # the bound is no larger than needed


def test_units_with_several_rows() -> None:
    """A unit of two rows comes or goes: at most two rows' worth."""
    unit = PrivacyUnit("u", max_rows=2)
    last = POOL[-1]
    alone = answers_of((last,), unit)
    pairs = [(answers_of((*both, last), unit), alone) for both in itertools.combinations(POOL[:3], 2)]
    check(Neighbors("add_remove", unit), pairs)
