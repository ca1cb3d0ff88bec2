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
from typing import TYPE_CHECKING, Any, Literal

from sordino.ask.queries.aggregates.sums import count_part, count_term, require_bounds
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.nodes import Arithmetic, Constant, Node, describe, plain
from sordino.ask.queries.query import ExpectedNoise, SqlAggregate, Vector
from sordino.core.domain import Domain
from sordino.core.estimates.estimate import ColumnEstimate
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.second_moments import SecondMoments, sum_margin
from sordino.core.estimates.weighted_sum import Mix, SharedNoise, mix_weights
from sordino.core.noise.laws import NoiseLaw
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp

Statistic = Literal["variance", "deviation", "covariance", "correlation"]

_WORDS = {
    "variance": "variance",
    "deviation": "standard deviation",
    "covariance": "covariance",
    "correlation": "correlation",
}
_DIVISOR = {0: "population ", 1: "sample "}
_ASSUMES = {
    "deviation": "if the deviation is a quarter of the range",
    "correlation": "if each deviation is a quarter of its range and the correlation near 0",
}


@dataclass(frozen=True, slots=True)
class MomentAggregate:
    """A variance, deviation, covariance or correlation, over the rows that have the number, or both numbers.

    The vectors are the sum of each number, the sum of its square (variance, deviation), of their product (covariance) or
    of all three (correlation), and the count. The count less `ddof` divides: 0 for the rows as a population, 1 for a
    sample; a correlation has 0. `other` is None where there is one number.
    """

    statistic: Statistic
    of: Node
    other: Node | None
    ddof: int
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the vectors; raises QuestionRefused where a number has no bounds."""
        return _parts(self._numbers(), domain, _WORDS[self.statistic])

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the statistic, clamped to what is possible; a correlation is 0 where a noisy variance is not above 0."""
        sides = len(self._numbers())
        lifts = tuple(p.lift for p in parts[sides:-1])
        spans = tuple(p.ends for p in parts[:sides])
        mix = () if shared is None else (shared.mix, shared.vectors)
        return SecondMoments(self.statistic, tuple(noisy), lifts, spans, self.ddof, *mix)

    def error(self, parts: Sequence[Vector], expected: ExpectedNoise) -> float:
        """Return the error for the worst case; times the rows where not given.

        For a variance the worst spread, at that mean or the worst; for a covariance the worst means and covariance. A
        deviation and a correlation have no useful worst case (near 0 the root of a small error is large, and a column
        that does not vary has no correlation): they are taken where `assumes` says, less where the mean allows no more.
        """
        shape = self._shape(parts, expected.mix)
        laws = expected.laws
        confidence = expected.confidence
        mean = expected.mean
        most = shape.most(self.ddof) * shape.unit
        if self.statistic == "variance":
            error = shape.worst_variance(laws, confidence, shape.means(mean)) * shape.unit
        elif self.statistic == "deviation":
            means = [0.0] if mean is None else shape.means(mean)
            error = shape.deviation(laws, confidence, means) * math.sqrt(shape.unit)
            most = math.sqrt(most)
        elif self.statistic == "covariance":
            error = shape.worst_covariance(laws, confidence) * shape.unit
            most = 2 * most
        else:
            error = shape.correlation(laws, confidence)
            most = 2.0
        return error if expected.rows is None else min(error / expected.rows, most)

    def directions(self, parts: Sequence[Vector]) -> list[list[float]]:
        """Return weights of the parts in what the error follows from, at extreme means and spreads."""
        shape = self._shape(parts)
        if self.statistic == "correlation":
            return [[0.0, 0.0, 0.0, 0.0, 1.0, float(shape.lifts[2])]]
        return shape.directions() if self.other is None else shape.joint_directions()

    def _shape(self, parts: Sequence[Vector], mix: Mix = ()) -> _Shape:
        sides = len(self._numbers())
        return _Shape(tuple(parts[:sides]), tuple(p.lift for p in parts[sides:-1]), mix)

    @property
    def unit_kind(self) -> str | None:
        """Which value it is of one person's rows; None for none."""
        if self.statistic != "variance":
            return None
        return "variance" if self.ddof else "variance_pop"

    @property
    def assumes(self) -> str:
        """What the expected error supposes, in words; empty where it is for the worst case."""
        return _ASSUMES.get(self.statistic, "")

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        ddof = [] if self.statistic == "correlation" else [self.ddof]
        return [self.statistic, *ddof, *map(plain, self._numbers())]

    def describe(self) -> str:
        """Return the aggregate in words."""
        divisor = "" if self.statistic == "correlation" else _DIVISOR[self.ddof]
        return f"the {divisor}{_WORDS[self.statistic]} of {' and '.join(map(describe, self._numbers()))}"

    def _numbers(self) -> list[Node]:
        return [self.of] if self.other is None else [self.of, self.other]


# ---- vectors


@dataclass(frozen=True, slots=True)
class _Centred:
    """A number less its public middle, in steps: the node, its measure and its bounds."""

    node: Node
    number: BoundNumber
    middle: int
    low: int
    high: int


def _center(of: Node, domain: Domain, what: str) -> _Centred:
    number, low, high = require_bounds(of, domain, what)
    middle = (low + high) // 2
    node = of if middle == 0 else Arithmetic("-", of, Constant(middle * number.unit))
    return _Centred(node, number, middle, low - middle, high - middle)


def _parts(of: Sequence[Node], domain: Domain, what: str) -> tuple[Vector, ...]:
    """Return the vectors: sums, squares (of each column where it is a correlation), product, count."""
    columns = [_center(node, domain, what) for node in of]
    pairs = [(0, 0), (1, 1), (0, 1)] if what == "correlation" else [(0, len(columns) - 1)]
    products = [require_bounds(Arithmetic("*", columns[i].node, columns[j].node), domain, what) for i, j in pairs]
    # missing where any column is
    every = columns[0].number if len(columns) == 1 else products[-1][0]
    # a square is missing where its number is, so nothing else is
    whole = len(columns) == 1
    count = count_term(every)
    vectors = []
    for column in columns:
        value = column.number if whole else _where(column.number, every)
        terms = ((1, SqlAggregate("sum", value)), (-column.middle, count))
        vectors.append(Vector("sum", terms, value.unit, (column.low, column.high), every.missable))
    for (i, j), (square, low, high) in zip(pairs, products, strict=True):
        middle = (low + high) // 2
        terms = ((1, SqlAggregate("sum", square if whole else _where(square, every))), (-middle, count))
        role = "sum of squares" if i == j else "sum of products"
        vectors.append(Vector(role, terms, square.unit, (low - middle, high - middle), every.missable))
    return (*vectors, count_part(every))


def _where(of: BoundNumber, present: BoundNumber) -> BoundNumber:
    """Return the measure in the rows where `present` has a value too; missing in the others."""
    if of is present or not present.missable:
        return of

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        absent = exp.Is(this=exp.Paren(this=present.build(on)), expression=exp.Null())
        return exp.Case(ifs=[exp.If(this=absent, true=exp.Null())], default=of.build(on))

    return BoundNumber(of.unit, of.interval, of.stored, True, build, meaning=(of.meaning, present.meaning))


# ---- expected errors


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the expected error follows from, in steps: the columns, centred, and what was taken off their products."""

    columns: tuple[Vector, ...]
    lifts: tuple[int, ...]
    mix: Mix = ()

    @property
    def unit(self) -> float:
        """The unit of a product of the columns."""
        return float(self.columns[0].unit * self.columns[-1].unit)

    def most(self, ddof: int) -> float:
        """Return the largest variance or covariance, in steps squared; a sample's is twice that at most."""
        return 4 * _quarter(self.columns[0]) * _quarter(self.columns[-1]) * (1 + ddof)

    def means(self, mean: float | None) -> list[float]:
        """Return the centred means to think of: the one assumed, or many over the range."""
        return _grid(self.columns[0]) if mean is None else [self._inside(mean)]

    def worst_variance(self, laws: Sequence[NoiseLaw], confidence: float, means: Sequence[float]) -> float:
        """Return the largest margin of the variance over those means and all variances that they allow."""
        return max(self._margin(laws, weights, confidence) for weights in self._spreads(means))

    def directions(self) -> list[list[float]]:
        """Return the weights of the parts in the equations of the variance, over means and variances of the range."""
        return self._spreads(_grid(self.columns[0]))

    def deviation(self, laws: Sequence[NoiseLaw], confidence: float, means: Sequence[float]) -> float:
        """Return the largest margin of the deviation over those means, where it is a quarter of the range or all."""
        quarter = _quarter(self.columns[0])
        largest = 0.0
        for a in means:
            spread = min(quarter, math.sqrt(_largest(self.columns[0], a)))
            if spread > 0:
                largest = max(largest, self._margin(laws, self._variance(a, spread**2), confidence) / (2 * spread))
        return largest

    def worst_covariance(self, laws: Sequence[NoiseLaw], confidence: float) -> float:
        """Return the largest margin of the covariance over all means and covariances."""
        return max(self._margin(laws, weights, confidence) for weights in self.joint_directions())

    def joint_directions(self) -> list[list[float]]:
        """Return the weights of the parts in the equations of the covariance, over means and covariances of the ranges."""
        directions = []
        for a, b in itertools.product(*(_grid(c) for c in self.columns)):
            most = math.sqrt(_largest(self.columns[0], a) * _largest(self.columns[1], b))
            directions += [[-b, -a, 1.0, self.lifts[0] + a * b - c] for c in (-most, most)]
        return directions

    def correlation(self, laws: Sequence[NoiseLaw], confidence: float) -> float:
        """Return the margin of the correlation at none, means in the middle, deviations a quarter of the ranges."""
        both = _quarter(self.columns[0]) * _quarter(self.columns[1])
        if not both:
            return 0.0
        return self._margin(laws, [0.0, 0.0, 0.0, 0.0, 1.0, float(self.lifts[2])], confidence) / both

    def _variance(self, a: float, v: float) -> list[float]:
        """Return the weights of the parts in the equation of a variance v at the mean a."""
        return [-2 * a, 1.0, self.lifts[0] + a * a - v]

    def _spreads(self, means: Sequence[float]) -> list[list[float]]:
        return [self._variance(a, v) for a in means for v in (0.0, _largest(self.columns[0], a))]

    def _margin(self, laws: Sequence[NoiseLaw], weights: Sequence[float], confidence: float) -> float:
        return sum_margin(laws, mix_weights(self.mix, weights), confidence)

    def _inside(self, mean: float) -> float:
        column = self.columns[0]
        low, high = column.ends
        return min(float(high), max(float(low), mean / float(column.unit) - column.lift))


def _grid(of: Vector) -> list[float]:
    low, high = of.ends
    return [low + (high - low) * i / 8 for i in range(9)]


def _largest(of: Vector, mean: float) -> float:
    """Return the largest variance with that mean (Bhatia, Davis 2000)."""
    low, high = of.ends
    return max(0.0, (high - mean) * (mean - low))


def _quarter(of: Vector) -> float:
    low, high = of.ends
    return (high - low) / 4
