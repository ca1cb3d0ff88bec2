"""Variance, deviation, covariance and correlation of bounded numbers, each from noisy sums and a noisy count.

With m the public middle of x and M half its range, x - m lies in [-M, M] and its square, less M^2 / 2, in
[-M^2 / 2, M^2 / 2]: centring halves both sensitivities under add_remove. Each vector is released by itself, so by
sequential composition their costs add; the plan shows each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.domain import Domain
from sordino.estimates.estimate import ColumnEstimate
from sordino.estimates.noisy import Law, Noisy
from sordino.estimates.second_moments import SecondMoments, sum_margin
from sordino.primitives import Primitives
from sordino.queries.aggregates.count import count_part
from sordino.queries.aggregates.sums import require_bounds
from sordino.queries.expressions.bound_number import BoundNumber
from sordino.queries.expressions.nodes import Arithmetic, Constant, Node, describe, plain
from sordino.queries.query import SqlAggregate, Vector

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Correlation", "Covariance", "Deviation", "Variance"]

_WORDS = {0: "population", 1: "sample"}


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a number over the rows that have it: three vectors (sum, sum of squares, count).

    The count less `ddof` divides: 0 for the rows as a population, 1 for a sample.
    """

    of: Node
    ddof: int
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the three vectors; raises QuestionRefused where the number has no bounds."""
        return _parts([self.of], domain, "variance")

    def estimate(self, domain: Domain, noisy: Sequence[Noisy]) -> ColumnEstimate:
        """Return the variance, clamped to what is possible: at most (upper - lower)^2 / 4 for a population."""
        return _estimate("variance", self.parts(domain), noisy, self.ddof)

    def error(
        self, domain: Domain, laws: Sequence[Law], confidence: float, rows: int | None, mean: float | None
    ) -> float:
        """Return the error for the worst spread, at that mean or the worst; times the rows where not given."""
        shape = _Shape.of([self.of], domain, "variance")
        error = shape.worst_variance(laws, confidence, shape.means(mean)) * shape.unit
        return _for_rows(error, rows, shape.most(self.ddof) * shape.unit)

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["variance", self.ddof, plain(self.of)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        return f"the {_WORDS[self.ddof]} variance of {describe(self.of)}"


@dataclass(frozen=True, slots=True)
class Deviation:
    """The standard deviation of a number over the rows that have it: the root of its variance, at the same cost."""

    of: Node
    ddof: int
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the three vectors; raises QuestionRefused where the number has no bounds."""
        return _parts([self.of], domain, "standard deviation")

    def estimate(self, domain: Domain, noisy: Sequence[Noisy]) -> ColumnEstimate:
        """Return the deviation, clamped to what is possible: at most (upper - lower) / 2 for a population."""
        return _estimate("deviation", self.parts(domain), noisy, self.ddof)

    def error(
        self, domain: Domain, laws: Sequence[Law], confidence: float, rows: int | None, mean: float | None
    ) -> float:
        """Return the error where the deviation is a quarter of the range (less where that mean allows no more).

        It has no useful worst case: near 0 the root of a small error is large. Times the rows where not given.
        """
        shape = _Shape.of([self.of], domain, "standard deviation")
        error = shape.deviation(laws, confidence, [0.0] if mean is None else shape.means(mean)) * math.sqrt(shape.unit)
        return _for_rows(error, rows, math.sqrt(shape.most(self.ddof) * shape.unit))

    @property
    def assumes(self) -> str:
        """What the expected error supposes, in words."""
        return "if the deviation is a quarter of the range"

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["deviation", self.ddof, plain(self.of)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        return f"the {_WORDS[self.ddof]} standard deviation of {describe(self.of)}"


@dataclass(frozen=True, slots=True)
class Covariance:
    """The covariance of two numbers over the rows that have both: four vectors (two sums, sum of products, count)."""

    of: Node
    other: Node
    ddof: int
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the four vectors; raises QuestionRefused where a number has no bounds."""
        return _parts([self.of, self.other], domain, "covariance")

    def estimate(self, domain: Domain, noisy: Sequence[Noisy]) -> ColumnEstimate:
        """Return the covariance, clamped to what is possible."""
        return _estimate("covariance", self.parts(domain), noisy, self.ddof)

    def error(
        self, domain: Domain, laws: Sequence[Law], confidence: float, rows: int | None, mean: float | None
    ) -> float:
        """Return the error for the worst means and covariance; times the rows where not given."""
        del mean
        shape = _Shape.of([self.of, self.other], domain, "covariance")
        return _for_rows(
            shape.worst_covariance(laws, confidence) * shape.unit, rows, 2 * shape.most(self.ddof) * shape.unit
        )

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["covariance", self.ddof, plain(self.of), plain(self.other)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        return f"the {_WORDS[self.ddof]} covariance of {describe(self.of)} and {describe(self.other)}"


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's correlation of two numbers over the rows that have both, by six vectors.

    They are two sums, two sums of squares, the sum of products, and the count.
    """

    of: Node
    other: Node
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the six vectors; raises QuestionRefused where a number has no bounds."""
        return _parts([self.of, self.other], domain, "correlation")

    def estimate(self, domain: Domain, noisy: Sequence[Noisy]) -> ColumnEstimate:
        """Return the correlation, clamped to [-1, 1]; 0 where a noisy variance is not above 0."""
        return _estimate("correlation", self.parts(domain), noisy, 0)

    def error(
        self, domain: Domain, laws: Sequence[Law], confidence: float, rows: int | None, mean: float | None
    ) -> float:
        """Return the error where each deviation is a quarter of its range and there is no correlation.

        It has no useful worst case: a column that does not vary has none. Times the rows where not given.
        """
        del mean
        shape = _Shape.of([self.of, self.other], domain, "correlation")
        return _for_rows(shape.correlation(laws, confidence), rows, 2.0)

    @property
    def assumes(self) -> str:
        """What the expected error supposes, in words."""
        return "if each deviation is a quarter of its range and the correlation near 0"

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["correlation", plain(self.of), plain(self.other)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        return f"the correlation of {describe(self.of)} and {describe(self.other)}"


# ---- vectors


@dataclass(frozen=True, slots=True)
class _Centred:
    """A number less its public middle, in steps: the node, its measure and its bounds."""

    node: Node
    found: BoundNumber
    middle: int
    low: int
    high: int


def _center(of: Node, domain: Domain, what: str) -> _Centred:
    found, low, high = require_bounds(of, domain, what)
    middle = (low + high) // 2
    node = of if middle == 0 else Arithmetic("-", of, Constant(middle * found.unit))
    return _Centred(node, found, middle, low - middle, high - middle)


def _parts(of: Sequence[Node], domain: Domain, what: str) -> tuple[Vector, ...]:
    """Return the vectors: sums, squares (of each column where it is a correlation), product, count."""
    columns = [_center(node, domain, what) for node in of]
    pairs = [(0, 0), (1, 1), (0, 1)] if what == "correlation" else [(0, len(columns) - 1)]
    products = [_product(columns[i], columns[j], domain, what) for i, j in pairs]
    every = products[-1][0]  # missing where any column is
    rows = every if every.missable else None
    count = SqlAggregate("rows" if rows is None else "count", rows)
    made = []
    for column in columns:
        value = _where(column.found, every)
        terms = ((1, SqlAggregate("sum", value)), (-column.middle, count))
        made.append(Vector("sum", terms, value.unit, (column.low, column.high), every.missable))
    for (i, j), (square, low, high) in zip(pairs, products, strict=True):
        middle = (low + high) // 2
        terms = ((1, SqlAggregate("sum", _where(square, every))), (-middle, count))
        role = "sum of squares" if i == j else "sum of products"
        made.append(Vector(role, terms, square.unit, (low - middle, high - middle), every.missable))
    return (*made, count_part(rows))


def _product(one: _Centred, other: _Centred, domain: Domain, what: str) -> tuple[BoundNumber, int, int]:
    return require_bounds(Arithmetic("*", one.node, other.node), domain, what)


def _where(of: BoundNumber, present: BoundNumber) -> BoundNumber:
    """Return the measure in the rows where `present` has a value too; missing in the others."""
    if of is present or not present.missable:
        return of

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        absent = exp.Is(this=exp.paren(present.build(on)), expression=exp.Null())
        return exp.Case(ifs=[exp.If(this=absent, true=exp.Null())], default=of.build(on))

    return BoundNumber(of.unit, of.interval, of.stored, True, build)


def _estimate(statistic: str, parts: Sequence[Vector], noisy: Sequence[Noisy], ddof: int) -> SecondMoments:
    sides = 1 if statistic in ("variance", "deviation") else 2
    lifts = tuple(-p.terms[1][0] for p in parts[sides:-1])
    spans = tuple(p.bounds or (0, 0) for p in parts[:sides])
    return SecondMoments(statistic, tuple(noisy), lifts, spans, ddof)


# ---- expected errors


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the expected error follows from, in steps: the columns, centred, and what was taken off their products."""

    columns: tuple[_Centred, ...]
    lifts: tuple[int, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node], domain: Domain, what: str) -> _Shape:
        """Return the shape of a question."""
        columns = tuple(_center(node, domain, what) for node in nodes)
        parts = _parts(nodes, domain, what)
        return cls(columns, tuple(-p.terms[1][0] for p in parts[len(columns) : -1]))

    @property
    def unit(self) -> float:
        """The unit of a product of the columns."""
        return float(self.columns[0].found.unit * self.columns[-1].found.unit)

    def most(self, ddof: int) -> float:
        """Return the largest variance or covariance, in steps squared; a sample's is twice that at most."""
        widths = [float(c.high - c.low) for c in self.columns]
        return widths[0] * widths[-1] / 4 * (1 + ddof)

    def means(self, mean: float | None) -> list[float]:
        """Return the centred means to think of: the one assumed, or many over the range."""
        return _grid(self.columns[0]) if mean is None else [self._inside(mean)]

    def worst_variance(self, laws: Sequence[Law], confidence: float, means: Sequence[float]) -> float:
        """Return the largest margin of the variance over those means and all variances that they allow."""
        spreads = [(a, v) for a in means for v in (0.0, _largest(self.columns[0], a))]
        return max(self._variance(laws, confidence, a, v) for a, v in spreads)

    def deviation(self, laws: Sequence[Law], confidence: float, means: Sequence[float]) -> float:
        """Return the largest margin of the deviation over those means, where it is a quarter of the range or all."""
        quarter, found = _quarter(self.columns[0]), 0.0
        for a in means:
            spread = min(quarter, math.sqrt(_largest(self.columns[0], a)))
            if spread > 0:
                found = max(found, self._variance(laws, confidence, a, spread**2) / (2 * spread))
        return found

    def worst_covariance(self, laws: Sequence[Law], confidence: float) -> float:
        """Return the largest margin of the covariance over all means and covariances."""
        found = []
        for a, b in itertools.product(*(_grid(c) for c in self.columns)):
            most = math.sqrt(_largest(self.columns[0], a) * _largest(self.columns[1], b))
            found += [sum_margin(laws, [-b, -a, 1.0, self.lifts[0] + a * b - c], confidence) for c in (-most, most)]
        return max(found)

    def correlation(self, laws: Sequence[Law], confidence: float) -> float:
        """Return the margin of the correlation at none, means in the middle, deviations a quarter of the ranges."""
        both = _quarter(self.columns[0]) * _quarter(self.columns[1])
        if not both:
            return 0.0
        return sum_margin(laws, [0.0, 0.0, 0.0, 0.0, 1.0, float(self.lifts[2])], confidence) / both

    def _variance(self, laws: Sequence[Law], confidence: float, a: float, v: float) -> float:
        return sum_margin(laws, [-2 * a, 1.0, self.lifts[0] + a * a - v], confidence)

    def _inside(self, mean: float) -> float:
        column = self.columns[0]
        return min(float(column.high), max(float(column.low), mean / float(column.found.unit) - column.middle))


def _grid(of: _Centred) -> list[float]:
    return [of.low + (of.high - of.low) * i / 8 for i in range(9)]


def _largest(of: _Centred, mean: float) -> float:
    """Return the largest variance with that mean (Bhatia, Davis 2000)."""
    return max(0.0, (of.high - mean) * (mean - of.low))


def _quarter(of: _Centred) -> float:
    return (of.high - of.low) / 4


def _for_rows(error: float, rows: int | None, most: float) -> float:
    return error if rows is None else min(error / rows, most)
