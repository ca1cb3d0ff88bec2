"""Distinct: how many different values a column has among the rows, or how many units there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.queries.aggregates.sums import require_bounds
from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.compile import bind_number, presence
from sordino.ask.queries.expressions.nodes import Arithmetic, Bin, Constant, Name, Node, When, describe, plain
from sordino.ask.queries.query import ExpectedNoise, SqlAggregate, Vector, share_noise, vector_error
from sordino.ask.queries.sensitivity_rules import distinct_sensitivity, sum_sensitivity
from sordino.core.domain import Boolean, Category, Domain, Identifier
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.estimate import ColumnEstimate
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import SharedNoise
from sordino.core.neighbors import Neighbors, Sensitivity


@dataclass(frozen=True, slots=True)
class Distinct:
    """The number of different values of a column, as declared: clipped, on their grid, missing cells left out.

    With `others` the different combinations; a row in which any of them is missing has none, unless `missing`. A row has one
    combination, as it has one value, so the sensitivity is that of values, of which as many are possible as the columns' own
    multiply to.
    """

    of: Node
    alias: str
    others: tuple[Node, ...] = ()
    # whether a missing part is a value of a combination
    missing: bool = False

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the one vector of counts."""
        cells, counts = zip(*(distinct_cell(node, domain) for node in (self.of, *self.others)), strict=True)
        # A column that is named twice has one value in a row.
        different = dict(zip((self.of, *self.others), zip(counts, cells, strict=True), strict=True)).values()
        sizes = [n + (self.missing and c.missable) for n, c in different if n is not None]
        values = math.prod(sizes) if len(sizes) == len(different) else None
        counted = _counted_column(self.of)
        column = counted.name if isinstance(counted, Name) and not self.others else None
        term = SqlAggregate("combinations" if self.missing else "distinct", cells[0], others=cells[1:])
        missable = any(cell.missable for cell in cells)
        return (Vector("count", ((1, term),), Fraction(1), None, missable, _OfValues(values, column)),)

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the noisy count; the true one is at least 0, at most the number of declared values."""
        rule = parts[0].rule
        assert isinstance(rule, _OfValues)
        if shared is not None:
            return share_noise(parts[0], noisy, shared, least=0, most=rule.values)
        return Noisy(noisy[0].steps, noisy[0].unit, noisy[0].law, least=0, most=rule.values)

    def error(self, parts: Sequence[Vector], expected: ExpectedNoise) -> float:
        """Return the quantile of the noise."""
        del parts
        return expected.laws[0].error(expected.confidence)

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["combinations" if self.missing else "distinct", plain(self.of), *map(plain, self.others)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        if self.others:
            listed = ", ".join(describe(node) for node in (self.of, *self.others))
            missing = ", missing ones too" if self.missing else ""
            return f"the number of different combinations of {listed}{missing}"
        return f"the number of different values of {describe(self.of)}"


@dataclass(frozen=True, slots=True)
class _OfValues:
    """The sensitivity of a count of different values: how many are possible, and of which column."""

    values: int | None
    column: str | None

    def sensitivity(self, neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
        """Return how far one unit moves the vector."""
        # it plays no part: another row may bring another value, whether or not rows can drop out
        del droppable
        return distinct_sensitivity(neighbors, cells=cells, values=self.values, column=self.column)


# in steps: every engine's 64 bits hold the sum of all declared values
_MOST_DISTINCT_SUM = 2**62


# what SQL's VARIANCE(DISTINCT x) is made of, by power
DISTANCES = {"distances": 1, "squares": 2}


@dataclass(frozen=True, slots=True)
class DistinctSum:
    """The sum of the different values of a bounded number, each once; missing cells are left out.

    With a `power` of 1 or 2 of their distances from the lower bound, or of the squares of these: no two values have the same.
    """

    of: Node
    alias: str
    power: int = 0

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the one vector of sums; raises QuestionRefused where the number has no bounds, or too many values."""
        number, low, high = require_bounds(self.of, domain, "sum")
        many = high - low + 1
        if self.power:
            away = self.of if low == 0 else Arithmetic("-", self.of, Constant(low * number.unit))
            number, low, high = require_bounds(away if self.power == 1 else Arithmetic("*", away, away), domain, "sum")
            low = max(low, 0)
        largest = number.stored.largest
        if largest is None or max(largest, Fraction(abs(low)), Fraction(abs(high))) * many >= _MOST_DISTINCT_SUM:
            raise QuestionRefused(
                f"the different values of {describe(self.of)} could add up to more than 64 bits hold: declare a coarser "
                "resolution or tighter bounds"
            )
        rule = _OfDistinctSums(low * number.unit, high * number.unit)
        term = SqlAggregate("distinct_sum", number)
        return (Vector("sum", ((1, term),), number.unit, (low, high), number.missable, rule),)

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the noisy sum; the true one lies between the sums of all negative and of all positive values."""
        low, high = parts[0].ends
        least = _sum_of_range(low, min(high, 0))
        most = _sum_of_range(max(low, 0), high)
        if shared is not None:
            return share_noise(parts[0], noisy, shared, least=least, most=most)
        return Noisy(noisy[0].steps, noisy[0].unit, noisy[0].law, least=least, most=most)

    def error(self, parts: Sequence[Vector], expected: ExpectedNoise) -> float:
        """Return the quantile of the noise."""
        return vector_error(parts[0], expected)

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["distinct_sum", plain(self.of), *([self.power] if self.power else [])]

    def describe(self) -> str:
        """Return the aggregate in words."""
        if self.power:
            squares = "squares of the " if self.power == 2 else ""
            return (
                f"the sum of the {squares}distances of the different values of {describe(self.of)} from its lower bound"
            )
        return f"the sum of the different values of {describe(self.of)}"


def _sum_of_range(first: int, last: int) -> int:
    """Return the sum of the whole numbers from first to last; 0 where there are none."""
    return 0 if first > last else (first + last) * (last - first + 1) // 2


@dataclass(frozen=True, slots=True)
class _OfDistinctSums:
    """The sensitivity of a sum of different values.

    Theorem: it is at most that of the sum of as many rows that can drop out. Proof: r rows that go take at most r values out
    of the set of their group, a rows that come put at most a in, each within the bounds; a row may also change nothing, since
    another has its value.
    """

    lower: Fraction
    upper: Fraction

    def sensitivity(self, neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
        """Return how far one unit moves the vector."""
        del droppable
        return sum_sensitivity(neighbors, lower=self.lower, upper=self.upper, cells=cells, droppable=True)


def _counted_column(of: Node) -> Node:
    """Return the expression counted where a condition holds: x of CASE WHEN c THEN x END."""
    while isinstance(of, When) and of.right is None:
        of = of.left
    return of


def distinct_cell(of: Node, domain: Domain) -> tuple[BoundNumber, int | None]:
    """Return the expression counted, and its number of possible values, None where these are not declared."""
    if isinstance(of, Bin):
        raise QuestionRefused(f"different {describe(of)} cannot be counted: group by it, or count different values")
    counted = _counted_column(of)
    column = domain[counted.name] if isinstance(counted, Name) else None
    if isinstance(counted, When):
        # refuses a choice between values of several columns
        bind_number(counted, domain)
    cell = presence(of, domain)
    if isinstance(column, Category):
        return cell, len(column.values)
    if isinstance(column, Boolean):
        return cell, 2
    low, high = cell.interval.lower, cell.interval.upper
    if isinstance(column, Identifier) or low is None or high is None:
        return cell, None
    return cell, int(high - low) + 1
