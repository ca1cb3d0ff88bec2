"""Functions of a row: the engine against exact arithmetic, on tables of odd cells; no cell can fail or pass the interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sordino as sd
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.expressions.bound_number import Interval
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Apply, Constant
from sordino.errors import QuestionRefused
from trying import examples

DOMAIN = sd.Domain(
    {
        "x": sd.Integer(-50, 50),
        "y": sd.Integer(-3, 4),
        "p": sd.Integer(1, 40),
        "r": sd.Real(-4, 4, resolution="0.25"),
        "wide": sd.Integer(),
        "c": sd.Category(["10", "2.5", "none", " 7 "]),
    }
)


def steps(of: Expr, cells: dict[str, list[Any]]) -> list[int | None]:
    """Return what the engine computes for each row, in steps of the expression's grid."""
    from sqlglot import exp

    types = {"r": pa.float64(), "c": pa.string()}
    height = len(next(iter(cells.values())))
    columns = {n: cells.get(n, [None] * height) for n in DOMAIN}
    table = pa.table({n: pa.array(v, types.get(n, pa.int64())) for n, v in columns.items()})
    engine = DuckDBEngine(table, domain=DOMAIN, unit=None)
    try:
        on = engine.primitives
        made = bind_number(of.node, DOMAIN).build(on)
        found = engine.run(exp.Select(expressions=[exp.alias_(made, "v")]).from_(on.source()))
    finally:
        engine.close()
    return [None if v is None else int(v) for v in found["v"].to_pylist()]


def holds(interval: Interval, value: int | None) -> bool:
    """Return whether a value lies in an interval; a missing one does."""
    if value is None:
        return True
    return (interval.lower is None or interval.lower <= value) and (interval.upper is None or value <= interval.upper)


@examples(
    2,
    6,
    st.lists(st.tuples(st.integers(-50, 50), st.integers(-3, 4), st.integers(-16, 16)), min_size=1, max_size=30),
    st.fractions(-7, 7, max_denominator=12).filter(bool),
)
def test_division_and_remainders_are_exact(rows: list[tuple[int, int, int]], by: Fraction) -> None:
    cells: dict[str, list[Any]] = {"x": [x for x, _, _ in rows], "r": [r / 4 for _, _, r in rows]}
    for name, values in cells.items():
        exact = [Fraction(v) for v in values]
        expected: dict[str, tuple[Expr, Callable[[Fraction], Fraction]]] = {
            "divide": (col(name) / by, lambda v: v / by),
            "modulo": (col(name) % by, lambda v: v - by * math.floor(v / by)),
            "floor": ((col(name) / by).floor(), lambda v: Fraction(math.floor(v / by))),
            "ceil": ((col(name) / by).ceil(), lambda v: Fraction(math.ceil(v / by))),
            "truncate": ((col(name) / by).truncate(), lambda v: Fraction(math.trunc(v / by))),
            "round": ((col(name) / by).round(1), lambda v: _half_away(v / by * 10) / 10),
        }
        for what, (made, value) in expected.items():
            bound = bind_number(made.node, DOMAIN)
            found = steps(made, {name: values})
            assert [None if n is None else n * bound.unit for n in found] == [value(v) for v in exact], what
            assert all(holds(bound.interval, n) for n in found), what


@examples(6, 12, st.lists(st.tuples(st.integers(-60, 60), st.integers(-4, 5)), min_size=1, max_size=30))
def test_a_quotient_of_columns_is_the_nearest_step_and_missing_at_zero(rows: list[tuple[int, int]]) -> None:
    cells = {"x": [x for x, _ in rows], "y": [y for _, y in rows], "p": [abs(y) + 1 for _, y in rows]}
    for top, bottom, least in (("x", "y", 0), ("x", "p", 1)):
        bound = bind_number((col(top) / col(bottom)).node, DOMAIN)
        clipped = [
            (max(-50, min(50, x)), max(least or -3, min(40 if least else 4, y)))
            for x, y in zip(cells[top], cells[bottom], strict=True)
        ]
        expected = [None if y == 0 else _half_away(Fraction(x, y) / bound.unit) for x, y in clipped]
        found = steps(col(top) / col(bottom), cells)
        assert found == expected
        assert all(holds(bound.interval, n) for n in found)


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (col("x").sqrt(), math.sqrt),
        (col("x").ln(), math.log),
        (col("x").log2(), math.log2),
        (col("x").log10(), math.log10),
        (col("r").exp(), math.exp),
    ],
    ids=str,
)
def test_roots_and_logarithms_are_within_a_step_and_missing_where_undefined(
    of: Expr, value: Callable[[float], float]
) -> None:
    bound = bind_number(of.node, DOMAIN)
    cells: dict[str, list[Any]] = {"x": [*range(-60, 61), None]}
    cells["r"] = [n / 16 for n in range(-60, 61)] + [math.nan]
    for found, x, r in zip(steps(of, cells), cells["x"], cells["r"], strict=True):
        cell = None if x is None else float(max(-50, min(50, x)))
        if "exp" in str(of):
            cell = None if math.isnan(r) else max(-4.0, min(4.0, math.floor(r * 4 + 0.5) / 4))
        try:
            wanted = None if cell is None else value(cell)
        except ValueError:
            wanted = None
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert abs(found - wanted / float(bound.unit)) <= 1
            assert holds(bound.interval, found)


def test_a_cast_reads_the_declared_values_that_are_numbers() -> None:
    number = Expr(sd.col("c").length().node)
    assert steps(number, {"c": ["10", "none", None, "else", " 7 "]}) == [2, 4, None, None, 3]


HOSTILE: dict[str, list[Any]] = {
    "x": [None, -(2**63), 2**63 - 1, 0, 1, -1],
    "y": [0, 0, 2**63 - 1, -(2**63), None, 1],
    "wide": [-(2**63), 2**63 - 1, 0, None, 1, -1],
    "r": [math.nan, math.inf, -math.inf, 1e308, -0.0, 5e-324],
    "c": [None, "10", "\ufffd", "", "' OR 1", "2.5"],
}


@pytest.mark.parametrize(
    "of",
    [
        col("wide").clip(-(10**18), 10**18) / col("y"),
        col("x") / col("wide"),
        col("r") / col("y"),
        (col("wide") / 7).floor(),
        col("wide") % 7,
        col("wide") % -3,
        (col("wide") / 3).round(-2),
        col("wide").sign(),
        col("wide").clip(-5, 10**9).sqrt(),
        col("r").ln(),
        (col("r") * 10).exp(),
        col("x") ** 8,
        col("c").length(),
    ],
    ids=str,
)
def test_no_stored_value_makes_a_function_fail_or_leave_its_interval(of: Expr) -> None:
    bound = bind_number(of.node, DOMAIN)
    for cell in steps(of, HOSTILE):
        assert holds(bound.stored, cell)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (col("wide").sqrt(), "needs bounds"),
        ((col("x") - 60).ln(), "never defined"),
        ((col("x") * 10).exp(), "37 digits"),
        (col("x") % 0, "a divisor other than 0"),
        (col("x") / 0, "division by 0"),
        (Expr(Apply("round", col("x").node, Constant(Fraction(1, 2)))), "whole number"),
        (col("wide").upper(), "more than 100000 values"),
    ],
    ids=str,
)
def test_what_has_no_bounded_meaning_is_refused(of: Expr, words: str) -> None:
    with pytest.raises(QuestionRefused, match=words):
        compile_query(as_aggregation(sd.count(of)), DOMAIN)


def test_a_group_by_of_a_condition_of_text_and_of_a_number_has_public_keys() -> None:
    from sordino.ask.queries.build import Selection

    def labels(of: Expr) -> tuple[Any, ...]:
        return compile_query(Selection().group_by(of).agg(sd.count()), DOMAIN).keys[0].labels

    assert labels(col("x") > 3) == (False, True)
    assert labels(col("p") % 4) == (0, 1, 2, 3)
    assert labels((col("p") / 10).floor()) == (0, 1, 2, 3, 4)
    assert labels(col("c").substr(1, 1)) == ("1", "2", "n", " ")
    with pytest.raises(QuestionRefused, match="no bounds"):
        labels(col("wide") + 1)


def _half_away(value: Fraction) -> Fraction:
    return Fraction(math.floor(abs(value) + Fraction(1, 2)) * (-1 if value < 0 else 1))
