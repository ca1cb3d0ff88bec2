"""Numbers of a row in whole steps: the grid, the exact interval and the SQL of columns and of what is made of them.

Numbers live on a public lattice: a value is a whole number of steps of `unit`, an exact fraction. Reals move to the
nearest multiple of their resolution; sums and products of lattice numbers are lattice numbers, so no
float is ever added to another (the trap of Casacuberta, Shoemate, Vadhan, Wagaman 2022).
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.domain import STORED, Column, Date, Fill, Integer, Real
from sordino.errors import QuestionRefused
from sordino.noise.lattice import outward, to_lattice
from sordino.primitives import Primitives
from sordino.queries.intervals import Interval
from sordino.queries.nodes import Value
from sordino.queries.words import Build, sql, whole

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = [
    "EPOCH",
    "WIDEST",
    "Measure",
    "absolute",
    "binary",
    "cell",
    "clipped",
    "common",
    "constant",
    "fixed",
    "integer_cell",
    "negated",
    "reach",
    "rescaled",
]

WIDEST = 10**37  # every whole number that a query computes stays below this, so 38 decimal digits never overflow
EPOCH = datetime.date(1970, 1, 1)
_NARROW = 2**62


@dataclass(frozen=True, slots=True)
class Measure:
    """A number a row: whole steps of `unit`; `interval` as declared and `stored` as held, both in steps.

    `kind` is "number" or "date" (days); `missable` says whether a row may lack the value.
    """

    unit: Fraction
    interval: Interval
    stored: Interval
    missable: bool
    build: Build
    kind: str = "number"

    @property
    def values(self) -> Interval:
        """The interval in the question's own units."""
        return self.interval.scaled(self.unit)


def cell(name: str, column: Column) -> Measure:
    if isinstance(column, Integer):
        return integer_cell(name, column)
    if isinstance(column, Real):
        return _real(name, column)
    if isinstance(column, Date):
        return _date(name, column)
    kind = type(column).__name__.lower()
    raise QuestionRefused(f"column {name!r} is declared as {kind}: it has no number to compute or compare with")


def integer_cell(name: str, column: Integer) -> Measure:
    low, high = column.lower, column.upper
    held = (-STORED if low is None else low, STORED if high is None else high)
    build = _filled(lambda on: on.integer(name, *held), column.missing, 1)
    interval = Interval(_maybe(low), _maybe(high))
    return Measure(Fraction(1), interval, _steps(*held), column.missing in ("drop", "keep"), build)


def _real(name: str, column: Real) -> Measure:
    unit = column.step
    if unit is None:
        raise QuestionRefused(
            f"column {name!r} has no declared resolution, and no two bounds to take one from: declare the smallest "
            f"difference that counts, such as resolution = 0.01"
        )
    low = None if column.lower is None else outward(column.lower, column.lower, unit)[0]
    high = None if column.upper is None else outward(column.upper, column.upper, unit)[1]
    held = (-STORED if low is None else low, STORED if high is None else high)
    build = _filled(lambda on: on.lattice(name, unit, *held), column.missing, unit)
    interval = Interval(_maybe(low), _maybe(high))
    return Measure(unit, interval, _steps(*held), column.missing in ("drop", "keep"), build)


def _date(name: str, column: Date) -> Measure:
    low, high = ((d - EPOCH).days for d in (column.lower, column.upper))
    build = _filled(lambda on: on.days(name, column.lower, column.upper), column.missing, 1)
    return Measure(Fraction(1), _steps(low, high), _steps(low, high), column.missing in ("drop", "keep"), build, "date")


def constant(value: Value) -> Measure:
    if isinstance(value, datetime.date):
        return fixed(Fraction((value - EPOCH).days), Fraction(1), "date")
    if isinstance(value, (str, bool)):
        raise QuestionRefused(f"a number is needed, not {value!r}")
    return fixed(value, abs(value) or Fraction(1), "number")


def fixed(value: Fraction, unit: Fraction, kind: str) -> Measure:
    steps = value / unit
    return Measure(unit, Interval.point(steps), Interval.point(steps), False, lambda _: whole(int(steps)), kind)


def absolute(of: Measure) -> Measure:
    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        return exp.Abs(this=of.build(on))

    return Measure(of.unit, of.interval.absolute(), of.stored.absolute(), of.missable, build)


def clipped(of: Measure, lower: Fraction | None, upper: Fraction | None) -> Measure:
    """Clip on the lattice, the bounds rounded outward to whole steps."""
    low = None if lower is None else math.floor(lower / of.unit)
    high = None if upper is None else math.ceil(upper / of.unit)
    bounds = (_maybe(low), _maybe(high))
    stored = of.stored.clipped(*bounds)
    if stored == of.stored:  # the clip can change no value: only the declared interval narrows
        return Measure(of.unit, of.interval.clipped(*bounds), stored, of.missable, of.build)
    return Measure(
        of.unit, of.interval.clipped(*bounds), stored, of.missable, lambda on: on.clip(of.build(on), low, high)
    )


def rescaled(of: Measure, unit: Fraction) -> Measure:
    factor = of.unit / unit
    if factor == 1:
        return of
    scale = fixed(factor, Fraction(1), "number")
    stored = of.stored.scaled(factor)
    return Measure(unit, of.interval.scaled(factor), stored, of.missable, binary("*", of, scale, stored))


def negated(of: Measure) -> Measure:
    return Measure(of.unit, of.interval.negated(), of.stored.negated(), of.missable, of.build)


def binary(op: str, left: Measure, right: Measure, stored: Interval) -> Build:
    """Return the SQL of left op right, in wide numbers where 64 bits might not hold it."""
    largest = max(reach(left.stored), reach(right.stored), reach(stored))

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        kinds: dict[str, Any] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}
        a, b = left.build(on), right.build(on)
        if largest >= _NARROW:
            a, b = on.wide(a), on.wide(b)
        made: exp.Expression = kinds[op](this=exp.paren(a), expression=exp.paren(b))
        return exp.paren(made)

    return build


def common(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest unit of which both are whole multiples."""
    top = math.gcd(a.numerator * b.denominator, b.numerator * a.denominator)
    return Fraction(top, a.denominator * b.denominator)


def _filled(build: Build, missing: object, unit: int | Fraction) -> Build:
    if not isinstance(missing, Fill):
        return build
    value = missing.value
    steps = (value - EPOCH).days if isinstance(value, datetime.date) else to_lattice(Fraction(value), unit)
    return lambda on: sql().Coalesce(this=build(on), expressions=[whole(steps)])


def _maybe(value: int | None) -> Fraction | None:
    return None if value is None else Fraction(value)


def _steps(lower: int, upper: int) -> Interval:
    return Interval(Fraction(lower), Fraction(upper))


def reach(interval: Interval) -> Fraction:
    return Fraction(WIDEST) if interval.largest is None else interval.largest
