"""Interval arithmetic: the examples of the reference, and that no value of a random expression leaves its interval."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from ask.queries.reference import value
from planning import allocation_of
from protecting import protect
from sordino import col
from sordino.ask.queries.expressions.bound_number import Interval
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.expr import Expr
from sordino.errors import QuestionRefused

X = col("x")


def span(of: Expr, lower: int | None, upper: int | None) -> str:
    return str(bind_number(of.node, sd.Domain({"x": sd.Integer(lower, upper)})).values)


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (X + X, "[-6, 4]"),
        (5 * X, "[-15, 10]"),
        (-2 * X, "[-4, 6]"),
        (X * X, "[0, 9]"),
        (X * (X + 0), "[-6, 9]"),
        (X - X, "[-5, 5]"),
        (abs(X), "[0, 3]"),
        (X.clip(-1, None), "[-1, 2]"),
        (X.clip(7, 9), "[7, 7]"),
        (X * Fraction(1, 3), "[-1, 2/3]"),
        (0 * X, "[0, 0]"),
        (3 - X, "[1, 6]"),
    ],
)
def test_examples_on_minus_3_to_2(of: Expr, found: str) -> None:
    assert span(of, -3, 2) == found


@pytest.mark.parametrize("of", [X, X + X, 5 * X, X * X, abs(X), X - X, X.clip(0, None), X * X + 1])
def test_an_unbounded_column_leaves_each_unbounded_and_its_sum_refused_with_the_way_to_clip(of: Expr) -> None:
    domain = sd.Domain({"x": sd.Integer()})
    if "x * x" not in str(of):  # too large to compute before it is clipped
        assert not bind_number(of.node, domain).interval.bounded
    curator = protect(pa.table({"x": [1]}), domain, budget=sd.PureDP(1))
    with pytest.raises(
        QuestionRefused, match=r"(no bounded sensitivity, because .* lies in|37 digits).*clip"
    ) as refusal:
        curator.plan(sd.sum(of), epsilon=1)
    assert "\n" not in str(refusal.value)
    if "x * x" not in str(of):  # too large to compute before it is clipped
        found = allocation_of(curator.plan(sd.sum(of.clip(0, 10)), epsilon=1))
        assert found.vectors[0][0].sensitivity.l1 == 10


def test_infinite_corners() -> None:
    half = Interval(Fraction(0), None)
    assert str(half.times(Interval(Fraction(-1), Fraction(2)))) == "[-inf, inf]"
    assert str(half.times(Interval.point(Fraction(0)))) == "[0, 0]"
    assert str(half.times(half)) == "[0, inf]"
    assert str(Interval(None, Fraction(-1)).absolute()) == "[1, inf]"
    assert str(Interval(None, None).clip(Fraction(1), Fraction(2))) == "[1, 2]"


bounds = st.tuples(st.integers(-8, 8), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1]))
constants = st.fractions(-4, 4, max_denominator=6)


def trees() -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from([col("a"), col("b")])

    def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        clips = st.tuples(inner, st.integers(-9, 9), st.integers(0, 9))
        return st.one_of(
            st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
            st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
            inner.map(lambda e: e * e),
            inner.map(abs),
            st.tuples(inner, constants).map(lambda p: p[0] * p[1]),
            st.tuples(inner, constants).map(lambda p: p[1] - p[0]),
            clips.map(lambda p: p[0].clip(p[1], p[1] + p[2])),
        )

    return st.recursive(leaves, grown, max_leaves=6)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(trees(), bounds, bounds, st.data())
def test_no_value_leaves_its_interval(of: Expr, a: tuple[int, int], b: tuple[int, int], data: st.DataObject) -> None:
    domain = sd.Domain({"a": sd.Integer(*a), "b": sd.Integer(*b)})
    found = bind_number(of.node, domain)
    low, high = found.values.lower, found.values.upper
    assert low is not None
    assert high is not None
    for _ in range(4):
        row = {"a": data.draw(st.integers(*a)), "b": data.draw(st.integers(*b))}
        exact = value(of.node, row, domain)
        slack = found.unit if "clip" in str(of) else 0  # clips move outward to the grid
        assert low - slack <= exact <= high + slack
        assert (exact / found.unit).denominator == 1 or "clip" in str(of)
