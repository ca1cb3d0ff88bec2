"""What the tests of questions share: a small domain with every kind of column, random rows and random questions."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

import sordino as sd
from sordino import col
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Selection, correlation, count_distinct, covariance, std, variance
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Apply, Constant
from sordino.core.neighbors import PrivacyUnit

DOMAIN = sd.Domain(
    {
        "i": sd.Integer(-3, 2),
        "j": sd.Integer(0, 4, missing=sd.Fill(1)),
        "k": sd.Integer(2, 4, missing="keep"),
        "free": sd.Integer(),
        "r": sd.Real(-1, 2, resolution=0.5),
        "s": sd.Real(0, 1, resolution=0.3, missing=sd.Fill("0.5")),
        "c": sd.Category(["a", "b"], missing="keep"),
        "e": sd.Category(["x", "y"], other="z"),
        "t": sd.Boolean(),
        "d": sd.Date("1999-12-30", "2000-01-05"),
    }
)
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("j", pa.int8()),
        ("k", pa.float64()),
        ("free", pa.int64()),
        ("r", pa.float64()),
        ("s", pa.float32()),
        ("c", pa.string()),
        ("e", pa.string()),
        ("t", pa.bool_()),
        ("d", pa.date32()),
    ]
)
POOL: dict[str, list[Any]] = {
    "i": [None, -9, -3, -1, 0, 1, 2, 100],
    "j": [None, -1, 0, 2, 4, 99],
    "k": [None, float("nan"), 2.5, 1.0, 2.0, 3.0, 4.0, 7.0],
    "free": [None, -(2**63) + 1, -5, 0, 3, 2**62],
    "r": [None, float("nan"), float("inf"), -float("inf"), -1.0, -0.3, -0.25, 0.2, 0.25, 0.75, 1.9, 1e300],
    "s": [None, float("nan"), -1.0, 0.0, 0.125, 0.25, 0.5, 0.9, 2.0],
    "c": [None, "a", "b", "q", ""],
    "e": [None, "x", "y", "w"],
    "t": [None, True, False],
    "d": [None, *(datetime.date(1999, 12, 25) + datetime.timedelta(days=n) for n in range(0, 20, 3))],
}


def rows(count: int, rng: random.Random) -> list[dict[str, Any]]:
    """Return random rows with every odd cell of the pool."""
    return [{name: rng.choice(pool) for name, pool in POOL.items()} for _ in range(count)]


def arrow(table: Sequence[dict[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table, also where there are none."""
    return pa.Table.from_pylist(list(table), schema=SCHEMA)


def duckdb_exact(
    question: Aggregation, table: pa.Table, domain: sd.Domain = DOMAIN, unit: PrivacyUnit | None = None
) -> list[list[Fraction]]:
    """Return the exact parts that DuckDB computes, in the question's own units; sums of means are centred."""
    engine = DuckDBEngine(table, domain=domain, unit=unit)
    try:
        found = compile_query(question, domain)
        flat = [p for several in found.parts for p in several]
        vectors = exact_vectors(engine.run(found.select(engine.primitives)), found)
        return [[x * p.unit for x in v] for p, v in zip(flat, vectors, strict=True)]
    finally:
        engine.close()


def number(rng: random.Random, depth: int) -> Expr:
    """Return a random bounded number over the domain."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(
            [col("i"), col("j"), col("k"), col("r"), col("s"), col("free").clip(-3, 5), col("r").clip(-0.5, 1)]
        )
    left = number(rng, depth - 1)
    what = rng.randrange(12)
    if what == 9:
        return rng.choice(
            [_half_even(left), left.floor(), left.ceil(), left.truncate(), left.sign(), left.round(), left.round(1)]
        )
    if what == 10:
        return rng.choice([left / 3, left / -2, left % 2, left % -3, left // 2, round(left, -1)])
    if what == 11:
        return rng.choice([col("c").length(), Expr(Apply("remainder", left.node, Constant(Fraction(2)))), left**3])
    if what == 7:
        other = rng.choice([number(rng, depth - 1), Fraction(1, 2), None])
        return when(condition(rng, 0), left).otherwise(other)
    if what == 8:
        day = col("d")
        return rng.choice([day.year(), day.quarter(), day.month(), day.day(), day.day_of_week()])
    if what == 0:
        return left + number(rng, depth - 1)
    if what == 1:
        return left - number(rng, depth - 1)
    if what == 2:
        return left * number(rng, depth - 1)
    if what == 3:
        return abs(left)
    if what == 4:
        return left * rng.choice([0, 3, -2, Fraction(1, 3), 0.1])
    if what == 5:
        return rng.choice([1, -2, Fraction(2, 7)]) - left
    return left * left


def _half_even(of: Expr) -> Expr:
    return Expr(Apply("half_even", of.node))


def condition(rng: random.Random, depth: int) -> Expr:
    """Return a random condition over the domain."""
    if depth == 0 or rng.random() < 0.3:
        x, y = number(rng, 1), number(rng, 1)
        return rng.choice(
            [
                x > y,
                x <= Fraction(1, 3),
                x != 1,
                x == 0,
                x.is_in([0, 1, -2]),
                x.is_between(-1, 2),
                x.is_null(),
                col("free") >= 3,
                col("c") == "a",
                col("c") != "b",
                col("e").is_in(["x", "z"]),
                col("c").is_null(),
                col("c").upper() == "A",
                col("e").upper().is_in(["X", "Q"]),
                col("c").concat(col("e")) != "ax",
                col("e").like("_"),
                col("c").matches("^[bc]"),
                x.floor() > y,
                col("t"),
                col("t") != True,  # noqa: E712  # a comparison builds a tree
                col("d") < datetime.date(2000, 1, 1),
                col("d") >= "2000-01-02",
            ]
        )
    left = condition(rng, depth - 1)
    what = rng.randrange(3)
    if what == 0:
        return ~left
    right = condition(rng, depth - 1)
    return left & right if what == 1 else left | right


def question(rng: random.Random) -> Aggregation:
    """Return a random question: a condition or none, no to two groups, one to three aggregates."""
    asked = Selection()
    if rng.random() < 0.6:
        asked = asked.where(condition(rng, rng.randrange(3)))
    groups = [col("c"), col("e"), col("t"), col("i"), col("k"), col("r").bin([-1, 0, 1, 2]), col("i").bin([-3, -1, 2])]
    groups += [
        col("d").year(),
        col("d").day_of_week(),
        when(condition(rng, 1), "one").when(col("t"), "two").otherwise("one"),
        when(col("i") > 0, 7).otherwise(None),
        col("c").upper(),
        col("i") > 0,
        col("e").like("x%"),
        col("j") % 3,
    ]
    for chosen in rng.sample(groups, rng.choice([0, 0, 1, 2])):
        if str(chosen) not in {str(g.of) for g in asked.groups}:
            asked = asked.group_by(chosen)
    taken = {g.alias for g in asked.groups}
    if len(taken) < len(asked.groups):
        asked = Selection(asked.condition, asked.groups[:1])
    made = []
    for place in range(rng.choice([1, 1, 2, 3])):
        x, y = number(rng, rng.randrange(3)), number(rng, 1)
        named = col(rng.choice(["c", "e", "t", "i", "k", "s"]))
        chosen_ = [sd.count(), sd.count(x), sd.sum(x), sd.mean(x), count_distinct(x), count_distinct(named)]
        chosen_ += [variance(x), std(x, ddof=1), covariance(x, y), correlation(x, y)]
        made.append(rng.choice(chosen_).alias(f"out{place}"))
    return asked.agg(*made)
