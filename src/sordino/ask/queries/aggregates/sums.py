"""Counts, sums and means: of rows, of bounded numbers, and of each unit's total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.bound_number import BoundNumber
from sordino.ask.queries.expressions.compile import bind_number, presence
from sordino.ask.queries.expressions.nodes import Name, Node, describe, plain, sql_name
from sordino.ask.queries.query import ExpectedNoise, SqlAggregate, Vector, share_noise, vector_error
from sordino.ask.queries.sensitivity_rules import unit_total_sensitivity
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.estimate import ColumnEstimate
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.ratio import Ratio, ratio_margin
from sordino.core.estimates.time_values import TimeValues
from sordino.core.estimates.weighted_sum import SharedNoise
from sordino.core.loss import format_number
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.noise.lattice import outward
from sordino.core.primitives import WIDEST


@dataclass(frozen=True, slots=True)
class Count:
    """The number of rows; with `of`, of the rows in which it is not missing."""

    of: Node | None
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the one vector of counts."""
        if self.of is None:
            return (count_part(None),)
        return (count_part(presence(self.of, domain)),)

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the noisy count; the true one is at least 0."""
        if shared is not None:
            return share_noise(parts[0], noisy, shared, least=0)
        return Noisy(noisy[0].steps, noisy[0].unit, noisy[0].law, least=0)

    def error(self, parts: Sequence[Vector], expected: ExpectedNoise) -> float:
        """Return the quantile of the noise."""
        return vector_error(parts[0], expected)

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["count", plain(self.of)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        return "the number of rows" if self.of is None else f"the number of rows with {describe(self.of)}"


def count_part(of: BoundNumber | None) -> Vector:
    """Return the part that counts rows, or rows in which `of` is not missing."""
    return Vector("count", ((1, count_term(of)),), Fraction(1), None, of is not None and of.missable)


def count_term(of: BoundNumber | None) -> SqlAggregate:
    """Return the count of rows, or of those in which `of` is not missing where it may be."""
    return SqlAggregate("rows", None) if of is None or not of.missable else SqlAggregate("count", of)


# the statistics of dates that are dates again
_OF_DATES = frozenset({"mean", "quantile"})
# steps beyond it, times 10^37 and noise, would leave the range of floats
_EXTREME = 2**800


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a number over rows; rows in which it is missing take no part.

    With `per_unit`, each unit's total in a group is clipped to these bounds, and no bound on its rows or their values acts.
    """

    of: Node
    alias: str
    per_unit: tuple[Fraction, Fraction] | None = None

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the one vector of sums; raises QuestionRefused where neither the number nor its totals have bounds."""
        if self.per_unit is not None:
            return (_unit_totals(self.of, self.per_unit, domain),)
        number, low, high = require_bounds(self.of, domain, "sum")
        return (Vector("sum", ((1, SqlAggregate("sum", number)),), number.unit, (low, high), number.missable),)

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the noisy sum; where no value is negative the true one is at least 0, and likewise above."""
        total = noisy[0]
        low, high = parts[0].ends
        least = 0 if low >= 0 else None
        most = 0 if high <= 0 else None
        if shared is not None:
            return share_noise(parts[0], noisy, shared, least=least, most=most)
        return Noisy(total.steps, total.unit, total.law, least=least, most=most)

    def error(self, parts: Sequence[Vector], expected: ExpectedNoise) -> float:
        """Return the quantile of the noise."""
        return vector_error(parts[0], expected)

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["sum", plain(self.of), *(() if self.per_unit is None else ([format_number(b) for b in self.per_unit],))]

    def describe(self) -> str:
        """Return the aggregate in words."""
        if self.per_unit is None:
            return f"the sum of {describe(self.of)}"
        low, high = map(format_number, self.per_unit)
        return f"the sum of each unit's total of {describe(self.of)} clipped to [{low}, {high}]"


@dataclass(frozen=True, slots=True)
class Average:
    """The mean of a number over the rows that have it: center + (sum of value - center) / count, both noisy.

    Where no vectors do better (`queries.strategy`), sum and count get noise of their own: by sequential composition the two
    costs add, split half and half. Centring at (lower + upper) / 2 halves the sum's sensitivity under add_remove.
    """

    of: Node
    alias: str

    def parts(self, domain: Domain) -> Sequence[Vector]:
        """Return the centred sums and the counts; raises QuestionRefused where the number has no bounds."""
        number, low, high = require_bounds(self.of, domain, "mean")
        middle = (low + high) // 2
        terms = ((1, SqlAggregate("sum", number)), (-middle, count_term(number)))
        time = None if number.kind == "number" else (number.kind, number.zone)
        total = Vector("sum", terms, number.unit, (low - middle, high - middle), number.missable, time=time)
        return (total, count_part(number))

    def estimate(
        self, parts: Sequence[Vector], noisy: Sequence[Noisy], shared: SharedNoise | None = None
    ) -> ColumnEstimate:
        """Return the ratio, clamped to the bounds."""
        middle = parts[0].lift
        low, high = parts[0].ends
        # shared vectors may be of squares, in steps of their own
        first = replace(noisy[0], unit=parts[0].unit)
        ratio = Ratio(first, noisy[1], middle, low + middle, high + middle)
        if shared is not None:
            ratio = replace(ratio, rest=tuple(noisy[2:]), mix=shared.mix, vectors=shared.vectors)
        return ratio if parts[0].time is None else TimeValues(ratio, *parts[0].time, parts[0].unit)

    def error(self, parts: Sequence[Vector], expected: ExpectedNoise) -> float:
        """Return the error at `rows` rows with that mean, or the most for any mean; times the rows where not given."""
        unit = float(parts[0].unit)
        mean = expected.mean
        centred = [float(end) for end in parts[0].ends] if mean is None else [mean / unit - parts[0].lift]
        if not expected.mix:
            # Noise is symmetric: where sum and count each have their own, the margin at -m is that at m.
            centred = sorted({abs(at) for at in centred})
        margins = [ratio_margin(expected.laws, at, expected.confidence, expected.mix) for at in centred]
        return max(margins) * unit / (expected.rows or 1)

    def directions(self, parts: Sequence[Vector]) -> list[list[float]]:
        """Return the weights of the parts in what the error follows from: sum - mean count, at the extreme means."""
        return [[1.0, -float(end)] for end in parts[0].ends]

    def plain(self) -> Any:
        """Return the aggregate as canonical JSON data."""
        return ["mean", plain(self.of)]

    def describe(self) -> str:
        """Return the aggregate in words."""
        return f"the mean of {describe(self.of)}"


@dataclass(frozen=True, slots=True)
class _UnitTotals:
    """The sensitivity of a sum of clipped totals, one a unit and group."""

    lower: Fraction
    upper: Fraction

    def sensitivity(self, neighbors: Neighbors, *, cells: int, droppable: bool) -> Sensitivity:
        """Return how far one unit moves the vector."""
        # it plays no part: another unit may have no row anyway
        del droppable
        return unit_total_sensitivity(neighbors, lower=self.lower, upper=self.upper, cells=cells)


def _unit_totals(of: Node, bounds: tuple[Fraction, Fraction], domain: Domain) -> Vector:
    """Return the vector of clipped totals; the rows of a unit need no bounds, as its total has them."""
    number = bind_number(of, domain)
    if number.kind != "number":
        raise QuestionRefused(f"a sum of dates is not supported: {describe(of)} is a date")
    _check_unit(number.unit, "sum", of)
    low, high = outward(*bounds, number.unit)
    stored = number.stored.largest
    if stored is None or max(stored, Fraction(abs(low)), Fraction(abs(high))) * domain.row_ceiling >= WIDEST:
        raise QuestionRefused(
            f"a sum of {describe(of)} could pass 37 digits: clip its rows first, declare tighter bounds or a row_ceiling"
        )
    rule = _UnitTotals(low * number.unit, high * number.unit)
    return Vector("sum", ((1, SqlAggregate("sum", number, (low, high))),), number.unit, (low, high), True, rule)


def _check_unit(unit: Fraction, what: str, of: Node) -> None:
    if not Fraction(1, _EXTREME) <= unit <= _EXTREME:
        raise QuestionRefused(
            f"a {what} of {describe(of)} is in steps of {format_number(unit)}, which no float can represent: scale it"
        )


def require_bounds(of: Node, domain: Domain, what: str) -> tuple[BoundNumber, int, int]:
    """Return a number with its bounds in steps; raises QuestionRefused where it has none, with the way to clip."""
    number = bind_number(of, domain)
    if number.kind != "number" and what not in _OF_DATES:
        words = describe(of)
        rule = f"a {what} of dates is not supported: {words} is a {number.kind}"
        raise QuestionRefused(
            f"{rule}; ask for its mean or a quantile, or for a number of days, ({words} - datetime.date(2000, 1, 1)).days()",
            sql=f"{rule}; ask for AVG or MEDIAN of it, or for a number of days, DATEDIFF('day', DATE '2000-01-01', {words})",
        )
    if number.interval.lower is None or number.interval.upper is None:
        words = describe(of)
        rule = f"a {what} of {words} has no bounded sensitivity, because {words} lies in {number.values}"
        if not isinstance(of, Name):
            fix = "or declare bounds for its columns"
            raise QuestionRefused(
                f"{rule}: clip it, such as (...).clip(0, 100), {fix}", sql=f"{rule}: clip it, CLIP(..., 0, 100), {fix}"
            )
        at = sql_name(of.name)
        if any(of.name in getattr(step, "names", ()) for step in domain.steps):
            fix = "clip the whole value of one unit"
            raise QuestionRefused(
                f'{rule}: {fix}, as in per_unit(sd.sum(...).clip(0, 100).alias("{of.name}"))',
                sql=f"{rule}: {fix}, CLIP({at}, 0, 100) or LEAST({at}, 100)",
            )
        fix = "declare lower and upper for it, clip it"
        shell = at if at == of.name else f"'{of.name}'"
        raise QuestionRefused(
            f'{rule}: {fix}, col("{of.name}").clip(0, 100), or find bounds privately, .find_bounds("{of.name}", ...)'
            + (f'; sd.mean("{of.name}") finds its own' if what == "sum" else ""),
            sql=f"{rule}: {fix}, CLIP({at}, 0, 100), or find bounds privately, sordino bounds {shell}"
            + (f"; AVG({at}) finds its own" if what == "sum" else ""),
        )
    low, high = int(number.interval.lower), int(number.interval.upper)
    _check_unit(number.unit, what, of)
    if max(abs(low), abs(high), high - low) * domain.row_ceiling >= WIDEST:
        raise QuestionRefused(
            f"a {what} of {describe(of)} could pass 37 digits: bounds {number.values} in steps of "
            f"{format_number(number.unit)} times {domain.row_ceiling} rows; declare a coarser resolution, tighter bounds or a "
            "row_ceiling"
        )
    return number, low, high
