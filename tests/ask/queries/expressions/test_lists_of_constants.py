"""x IN (a, b, ...) says what x = a OR x = b OR ... says, of every kind of number, and reads x once, however many there are."""

from __future__ import annotations

import datetime
import random
import sys
from fractions import Fraction
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.queries.support import arrow, duckdb_exact, number, rows
from sordino import col
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import Expr

DAYS = [datetime.date(1999, 12, 20) + datetime.timedelta(days=n) for n in range(30)]
NUMBERS = [Fraction(n, 6) for n in range(-60, 60)] + [Fraction(10) ** 30, -(Fraction(2) ** 62), Fraction(2**62)]


def either(of: Expr, values: list[Any]) -> Expr:
    condition: Expr = of == values[0]
    for value in values[1:]:
        condition = condition | (of == value)
    return condition


@pytest.mark.parametrize(
    ("seed", "sizes"), [(0, (5,)), *(pytest.param(n, (1, 3, 40), marks=pytest.mark.deep) for n in range(8))]
)
def test_a_list_says_what_comparisons_one_by_one_say(seed: int, sizes: tuple[int, ...]) -> None:
    rng = random.Random(seed)
    of = [col("d"), col("d").dt.year(), col("free"), col("i"), col("j"), col("k"), col("r"), col("s"), number(rng, 2)]
    conditions = list[Expr]()
    for one in of:
        pool: list[Any] = DAYS if one is of[0] else NUMBERS
        for size in sizes:
            values = rng.sample(pool, min(size, len(pool)))
            for condition in (one.is_in(values), either(one, values)):
                conditions += [condition, ~condition, condition.is_null()]
    table = arrow(rows(60, rng))
    question = Selection().agg([sd.count(where=c).alias(f"n{i}") for i, c in enumerate(conditions)])
    counts = [int(vector[0]) for vector in duckdb_exact(question, table)]
    for place in range(0, len(counts), 6):
        assert counts[place : place + 3] == counts[place + 3 : place + 6], place


@pytest.mark.deep
@pytest.mark.parametrize(
    ("of", "values"),
    [
        (col("joined"), [datetime.date(2000, 1, 1) + datetime.timedelta(days=n) for n in range(1000)]),
        (col("seen"), [datetime.datetime(2000, 1, 1) + datetime.timedelta(hours=n) for n in range(1000)]),
        (col("n") * 2 + 1, list(range(1000))),
        (col("joined").dt.month(), list(range(1000))),
        (col("x").round(1), [Fraction(n, 10) for n in range(1000)]),
    ],
    ids=["date", "moment", "formula", "part", "real"],
)
def test_a_further_constant_costs_its_own_text_alone(of: Expr, values: list[Any]) -> None:
    domain = sd.Domain(
        {
            "joined": sd.Date("1990-01-01", "2020-01-01"),
            "seen": sd.DateTime("1990-01-01", "2020-01-01", zone="Europe/Berlin"),
            "n": sd.Integer(0, 2000),
            "x": sd.Real(0, 200, resolution="0.01"),
        }
    )
    engine = DuckDBEngine(
        pa.table({"joined": DAYS, "seen": DAYS, "n": [1] * 30, "x": [0.5] * 30}), domain=domain, unit=None
    )

    def work(size: int) -> int:
        """Return how many functions of the engine are called to write a question."""
        calls = 0

        def count(frame: FrameType, event: str, _: Any) -> None:
            nonlocal calls
            calls += event == "call" and "/ask/engines/" in frame.f_code.co_filename

        compiled = compile_query(Selection().where(of.is_in(values[:size])).agg(sd.count()), domain)
        sys.setprofile(count)
        try:
            compiled.select(engine.primitives)
        finally:
            sys.setprofile(None)
        return calls

    try:
        # from 40 on, whole lists are written in one way
        assert work(1000) - work(40) <= 2 * 960
    finally:
        engine.close()


@pytest.mark.each(7)
@pytest.mark.parametrize("size", [3, 33, 100, 1000])
@pytest.mark.parametrize("apart", [1, 30, 1000, 10**6])
def test_the_text_of_a_list_grows_with_its_constants_not_with_what_lies_between(size: int, apart: int) -> None:
    domain = sd.Domain({"n": sd.Integer(0, 2 * 10**9)})
    engine = DuckDBEngine(pa.table({"n": [n * apart for n in range(2 * size)]}), domain=domain, unit=None)
    try:
        question = Selection().where(col("n").is_in([2 * n * apart for n in range(size)])).agg(sd.count())
        compiled = compile_query(question, domain)
        select = compiled.select(engine.primitives)
        assert len(select.sql(dialect="duckdb")) < 1000 + 300 * size
        assert exact_vectors(engine.run(select), compiled)[0][0] == size
    finally:
        engine.close()
