"""Numbers of a row in whole steps: the grid, the exact interval and the SQL of columns and of what is made of them.

Numbers live on a public lattice: a value is a whole number of steps of `unit`, an exact fraction. Reals move to the
nearest multiple of their resolution; sums and products of lattice numbers are lattice numbers, so no
float is ever added to another (the trap of Casacuberta, Shoemate, Vadhan, Wagaman 2022).
"""

from __future__ import annotations

import bisect
import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.domain import STORED, Column, Date, DateTime, Fill, Integer, Real
from sordino.errors import QuestionRefused
from sordino.noise.lattice import outward, to_lattice
from sordino.primitives import NARROW, Primitives, check_range
from sordino.queries.expressions.intervals import Interval
from sordino.queries.expressions.nodes import Value
from sordino.queries.expressions.sql_trees import Build, comparison, plus, sql, whole
from sordino.time_zones import EPOCH, seconds_since

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "BoundNumber",
    "absolute",
    "bin_index",
    "binary",
    "clip",
    "common_unit",
    "compare_steps",
    "constant",
    "grid_constant",
    "integer_cell",
    "negate",
    "number_cell",
    "rescale",
]


@dataclass(frozen=True, slots=True)
class BoundNumber:
    """A number a row: whole steps of `unit`; `interval` as declared and `stored` as held, both in steps.

    `kind` is "number", "date" (days since 1970) or "datetime" (seconds since 1970 in UTC, read by the clock of `zone`);
    of a number that is a length of time, `seconds` says how many its unit of 1 stands for. `missable` says whether a row
    may lack the value. Raises QuestionRefused where what is held may pass the range of primitives, so that no number
    reaches one for which it is not total. Equal numbers have equal SQL, as `meaning` is the expression, or one of a kind.
    """

    unit: Fraction
    interval: Interval
    stored: Interval
    missable: bool
    build: Build = field(compare=False)
    kind: str = "number"
    zone: str = ""
    seconds: int = 0
    meaning: object = field(default_factory=object)  # the same for numbers of one domain that are written alike

    def __post_init__(self) -> None:
        low, high = self.stored.lower, self.stored.upper
        check_range(None if low is None else low - 1, None if high is None else high + 1)  # what constants are cut to

    @property
    def values(self) -> Interval:
        """The interval in the question's own units."""
        return self.interval.scale(self.unit)


def number_cell(name: str, column: Column) -> BoundNumber:
    if isinstance(column, Integer):
        return integer_cell(name, column)
    if isinstance(column, Real):
        return _real(name, column)
    if isinstance(column, Date):
        return _date(name, column)
    if isinstance(column, DateTime):
        return _datetime(name, column)
    kind = type(column).__name__.lower()
    raise QuestionRefused(f"column {name!r} is declared as {kind}: it has no number to compute or compare with")


def integer_cell(name: str, column: Integer) -> BoundNumber:
    low, high = column.lower, column.upper
    held = (-STORED if low is None else low, STORED if high is None else high)
    build = _fill(lambda on: on.integer(name, *held), column.missing, 1, held)
    interval = Interval(_maybe(low), _maybe(high))
    return BoundNumber(Fraction(1), interval, _steps(*held), column.missing in ("drop", "keep"), build)


def _real(name: str, column: Real) -> BoundNumber:
    unit = column.step
    if unit is None:
        raise QuestionRefused(
            f"column {name!r} has no declared resolution, and no two bounds to take one from: declare the smallest "
            f"difference that counts, such as resolution = 0.01"
        )
    low = None if column.lower is None else outward(column.lower, column.lower, unit)[0]
    high = None if column.upper is None else outward(column.upper, column.upper, unit)[1]
    held = (-STORED if low is None else low, STORED if high is None else high)
    build = _fill(lambda on: on.lattice(name, unit, *held), column.missing, unit, held)
    interval = Interval(_maybe(low), _maybe(high))
    return BoundNumber(unit, interval, _steps(*held), column.missing in ("drop", "keep"), build)


def _date(name: str, column: Date) -> BoundNumber:
    low, high = ((d - EPOCH).days for d in (column.lower, column.upper))
    build = _fill(lambda on: on.days(name, column.lower, column.upper), column.missing, 1, (low, high))
    return BoundNumber(
        Fraction(1), _steps(low, high), _steps(low, high), column.missing in ("drop", "keep"), build, "date"
    )


def _datetime(name: str, column: DateTime) -> BoundNumber:
    ends, zone, unit = column.steps, column.zone, column.resolution
    fill = column.missing.value if isinstance(column.missing, Fill) else None
    build: Build = lambda on: on.moments(name, zone, unit, *ends)  # noqa: E731
    if isinstance(fill, datetime.datetime):
        build = _coalesce(build, int(seconds_since(fill, zone) // unit))
    interval = _steps(*ends)
    return BoundNumber(unit, interval, interval, column.missing in ("drop", "keep"), build, "datetime", zone)


def constant(value: Value) -> BoundNumber:
    if isinstance(value, datetime.date):
        return grid_constant(Fraction((value - EPOCH).days), Fraction(1), "date")
    if isinstance(value, (str, bool)):
        raise QuestionRefused(f"a number is needed, not {value!r}")
    return grid_constant(value, abs(value) or Fraction(1), "number")


def grid_constant(value: Fraction, unit: Fraction, kind: str) -> BoundNumber:
    steps = value / unit
    return BoundNumber(unit, Interval.point(steps), Interval.point(steps), False, lambda _: whole(int(steps)), kind)


def absolute(of: BoundNumber) -> BoundNumber:
    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        return exp.Abs(this=of.build(on))

    return replace(of, interval=of.interval.absolute(), stored=of.stored.absolute(), build=build)


def clip(of: BoundNumber, lower: Fraction | None, upper: Fraction | None) -> BoundNumber:
    """Clip on the lattice, the bounds rounded outward to whole steps; a bound that no held value can pass is left out."""
    low = None if lower is None else math.floor(lower / of.unit)
    high = None if upper is None else math.ceil(upper / of.unit)
    bounds = (_maybe(low), _maybe(high))
    interval, stored = of.interval.clip(*bounds), of.stored.clip(*bounds)
    least, most = _ends(of)
    below = low if low is not None and low > least else None
    above = high if high is not None and high < most else None
    if below is None and above is None:  # the clip can change no value: only the declared interval narrows
        return replace(of, interval=interval, stored=stored)
    return replace(of, interval=interval, stored=stored, build=lambda on: on.clip(of.build(on), below, above))


def bin_index(of: BoundNumber, edges: Sequence[int]) -> Build:
    """Return the bin, from 0, among ascending edges in steps, NULL outside; the last one is closed.

    Bins that no held value can reach are left out, and edges beyond what is held move to one step outside it: each value
    stays in its bin, and no constant is larger than what is held.
    """
    (low, high), count = _ends(of), len(edges) - 1
    first = max(0, bisect.bisect_right(edges, low, 0, count) - 1)
    end = max(first + 1, bisect.bisect_right(edges, high, 0, count))
    cut = [_cut(of, edge) for edge in edges[first : end + 1]]
    return lambda on: plus(on.bin(of.build(on), cut), first)


def compare_steps(of: BoundNumber, op: str, steps: int) -> Build:
    """Compare with a number of steps; one beyond what is held moves to one step outside it, which says the same."""
    bound = _cut(of, steps)
    return comparison(of.build, op, lambda _: whole(bound))


def rescale(of: BoundNumber, unit: Fraction) -> BoundNumber:
    factor = of.unit / unit
    if factor == 1:
        return of
    scale = grid_constant(factor, Fraction(1), "number")
    stored = of.stored.scale(factor)
    build = binary("*", of, scale, stored)
    return replace(of, unit=unit, interval=of.interval.scale(factor), stored=stored, build=build)


def negate(of: BoundNumber) -> BoundNumber:
    return replace(of, interval=of.interval.negate(), stored=of.stored.negate())


def binary(op: str, left: BoundNumber, right: BoundNumber, stored: Interval) -> Build:
    """Return the SQL of left op right, in wide numbers where 64 bits might not hold it."""
    largest = max(abs(end) for of in (left, right) for end in _ends(of))
    wide = largest >= NARROW or stored.largest is None or stored.largest >= NARROW

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        kinds: dict[str, Any] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}
        a, b = left.build(on), right.build(on)
        if wide:
            a, b = on.wide(a), on.wide(b)
        made: exp.Expression = kinds[op](this=exp.paren(a), expression=exp.paren(b))
        return exp.paren(made)

    return build


def common_unit(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest unit of which both are whole multiples."""
    top = math.gcd(a.numerator * b.denominator, b.numerator * a.denominator)
    return Fraction(top, a.denominator * b.denominator)


def _ends(of: BoundNumber) -> tuple[int, int]:
    low, high = of.stored.lower, of.stored.upper
    assert low is not None  # else it is no BoundNumber
    assert high is not None
    return int(low), int(high)


def _cut(of: BoundNumber, steps: int) -> int:
    low, high = _ends(of)
    return max(low - 1, min(high + 1, steps))


def _fill(build: Build, missing: object, unit: int | Fraction, held: tuple[int, int]) -> Build:
    if not isinstance(missing, Fill):
        return build
    value = missing.value
    steps = (value - EPOCH).days if isinstance(value, datetime.date) else to_lattice(Fraction(value), unit)
    return _coalesce(build, max(held[0], min(held[1], steps)))  # a fill is clipped as a cell is


def _coalesce(build: Build, steps: int) -> Build:
    return lambda on: sql().Coalesce(this=build(on), expressions=[whole(steps)])


def _maybe(value: int | None) -> Fraction | None:
    return None if value is None else Fraction(value)


def _steps(lower: int, upper: int) -> Interval:
    return Interval(Fraction(lower), Fraction(upper))
