"""Numbers with their grids and bounds, and the codes by which columns are stored."""

from __future__ import annotations

import bisect
import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.nodes import Value
from sordino.ask.queries.expressions.sql_trees import Build, comparison, plus, trees, whole
from sordino.core.domain import STORED, Boolean, Category, Column, Date, DateTime, Fill, Identifier, Integer, Real
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.loss import format_number
from sordino.core.noise.lattice import outward, to_lattice
from sordino.core.primitives import NARROW, Primitives, check_range
from sordino.core.time_zones import EPOCH, seconds_since

if TYPE_CHECKING:
    from sqlglot import exp


# ---- Numbers of a row in whole steps: the grid, the exact interval and the SQL of columns and of what is made of them
#
# Numbers live on a public lattice: a value is a whole number of steps of `unit`, an exact fraction. Reals move to the
# nearest multiple of their resolution; sums and products of lattice numbers are lattice numbers, so no
# float is ever added to another (the trap of Casacuberta, Shoemate, Vadhan, Wagaman 2022).


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `lower` to `upper`; None means no bound on that side.

    >>> x = Interval(Fraction(-3), Fraction(2))
    >>> str(x.plus(x)), str(x.times(x)), str(x.square())
    ('[-6, 4]', '[-6, 9]', '[0, 9]')
    """

    lower: Fraction | None
    upper: Fraction | None

    @classmethod
    def point(cls, value: Fraction) -> Interval:
        """Return the interval of one number."""
        return cls(value, value)

    @property
    def bounded(self) -> bool:
        """Whether both sides have a bound."""
        return self.lower is not None and self.upper is not None

    @property
    def largest(self) -> Fraction | None:
        """The largest absolute value, None if there is none."""
        if self.lower is None or self.upper is None:
            return None
        return max(abs(self.lower), abs(self.upper))

    def plus(self, other: Interval) -> Interval:
        """Return where x + y lies."""
        low = None if self.lower is None or other.lower is None else self.lower + other.lower
        high = None if self.upper is None or other.upper is None else self.upper + other.upper
        return Interval(low, high)

    def hull(self, other: Interval) -> Interval:
        """Return the least interval that holds both."""
        low = None if self.lower is None or other.lower is None else min(self.lower, other.lower)
        high = None if self.upper is None or other.upper is None else max(self.upper, other.upper)
        return Interval(low, high)

    def negate(self) -> Interval:
        """Return where -x lies."""
        return Interval(None if self.upper is None else -self.upper, None if self.lower is None else -self.lower)

    def times(self, other: Interval) -> Interval:
        """Return where x * y lies: by the four corners, a zero against no bound being zero."""
        if Interval.point(Fraction(0)) in (self, other):
            return Interval.point(Fraction(0))
        corners = [_corner(a, b) for a in self._ends() for b in other._ends()]
        lows = any(v is None and s < 0 for v, s in corners)
        highs = any(v is None and s > 0 for v, s in corners)
        finite = [v for v, _ in corners if v is not None]
        return Interval(None if lows else min(finite), None if highs else max(finite))

    def square(self) -> Interval:
        """Return where x * x lies, the two factors being the same."""
        magnitude = self.absolute()
        low = Fraction(0) if magnitude.lower is None else magnitude.lower**2
        return Interval(low, None if magnitude.upper is None else magnitude.upper**2)

    def absolute(self) -> Interval:
        """Return where abs(x) lies."""
        if self.lower is not None and self.lower >= 0:
            return self
        if self.upper is not None and self.upper <= 0:
            return self.negate()
        return Interval(Fraction(0), self.largest)

    def clip(self, lower: Fraction | None, upper: Fraction | None) -> Interval:
        """Return where min(max(x, lower), upper) lies."""
        low, high = self.lower, self.upper
        if lower is not None:
            low = lower if low is None else max(low, lower)
            high = high if high is None else max(high, lower)
        if upper is not None:
            high = upper if high is None else min(high, upper)
            low = low if low is None else min(low, upper)
        return Interval(low, high)

    def scale(self, factor: Fraction) -> Interval:
        """Return where factor * x lies."""
        return self.times(Interval.point(factor))

    def _ends(self) -> tuple[tuple[Fraction | None, int], tuple[Fraction | None, int]]:
        return (self.lower, -1), (self.upper, 1)

    def __str__(self) -> str:
        low = "-inf" if self.lower is None else format_number(self.lower)
        high = "inf" if self.upper is None else format_number(self.upper)
        return f"[{low}, {high}]"


def _corner(a: tuple[Fraction | None, int], b: tuple[Fraction | None, int]) -> tuple[Fraction | None, int]:
    """Return the product of two ends; (None, sign) where it is infinite, 0 where a zero meets an infinity."""
    (x, x_end), (y, y_end) = a, b
    if x is not None and y is not None:
        return x * y, 0
    x_sign = x_end if x is None else (x > 0) - (x < 0)
    y_sign = y_end if y is None else (y > 0) - (y < 0)
    sign = x_sign * y_sign
    return (Fraction(0), 0) if sign == 0 else (None, sign)


@dataclass(frozen=True, slots=True)
class BoundNumber:
    """A number in each row: whole steps of `unit`, in `interval` as declared and `stored` as the engine has it, in steps.

    `kind` is "number", "date" (days since 1970) or "datetime" (seconds since 1970 in UTC, read by the clock of `zone`);
    of a number that is a length of time, `seconds` says how many its unit of 1 stands for. `missable` says whether a row
    may lack the value. Raises QuestionRefused where what is held may pass the range of primitives, so that no number
    reaches one for which it is not total. Equal numbers have equal SQL, as `meaning` is the expression, or one of a kind.
    """

    # What it means says enough to look it up by: each of these fractions takes as long to hash as all the rest.
    unit: Fraction = field(hash=False)
    interval: Interval = field(hash=False)
    stored: Interval = field(hash=False)
    missable: bool
    build: Build = field(compare=False)
    kind: str = "number"
    zone: str = ""
    seconds: int = 0
    # the same for numbers of one domain that are written alike
    meaning: object = field(default_factory=object)

    def __post_init__(self) -> None:
        low, high = self.stored.lower, self.stored.upper
        # constants are cut to one step beyond the ends
        check_range(None if low is None else low - 1, None if high is None else high + 1)

    @property
    def values(self) -> Interval:
        """The interval in the question's own units."""
        return self.interval.scale(self.unit)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest step that is stored."""
        low = self.stored.lower
        high = self.stored.upper
        # every stored interval has both ends
        assert low is not None
        assert high is not None
        return int(low), int(high)


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
    values = list(getattr(column, "values", ()))
    value = values[0] if values and isinstance(column, Category) else None
    meets = f"{name} = {value!r}" if value is not None else name
    # of a truth or of one value, a mean is a share
    share = f"; a share is COUNT(*) FILTER (WHERE {meets}) / COUNT(*)" if not isinstance(column, Identifier) else ""
    raise QuestionRefused(
        f"column {name!r} is declared as {kind}, so it has no numbers to compute or compare with{share}"
    )


def integer_cell(name: str, column: Integer) -> BoundNumber:
    low, high = column.lower, column.upper
    bounds = (-STORED if low is None else low, STORED if high is None else high)
    build = _fill(lambda on: on.integer(name, *bounds), column.missing, 1, bounds)
    interval = Interval(_maybe(low), _maybe(high))
    return BoundNumber(Fraction(1), interval, _steps(*bounds), column.missing in ("drop", "keep"), build)


def _real(name: str, column: Real) -> BoundNumber:
    unit = column.step
    if unit is None:
        raise QuestionRefused(
            f"column {name!r} has no declared resolution, and no two bounds to take one from: declare the smallest "
            f"difference that counts, such as resolution = 0.01"
        )
    low = None if column.lower is None else outward(column.lower, column.lower, unit)[0]
    high = None if column.upper is None else outward(column.upper, column.upper, unit)[1]
    bounds = (-STORED if low is None else low, STORED if high is None else high)
    build = _fill(lambda on: on.lattice(name, unit, *bounds), column.missing, unit, bounds)
    interval = Interval(_maybe(low), _maybe(high))
    return BoundNumber(unit, interval, _steps(*bounds), column.missing in ("drop", "keep"), build)


def _date(name: str, column: Date) -> BoundNumber:
    low, high = ((d - EPOCH).days for d in (column.lower, column.upper))
    build = _fill(lambda on: on.days(name, column.lower, column.upper), column.missing, 1, (low, high))
    return BoundNumber(
        Fraction(1), _steps(low, high), _steps(low, high), column.missing in ("drop", "keep"), build, "date"
    )


def _datetime(name: str, column: DateTime) -> BoundNumber:
    ends = column.steps
    zone = column.zone
    unit = column.resolution
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
    """Clip on the lattice, the bounds rounded outward to whole steps; a bound that no stored value can pass is left out."""
    low = None if lower is None else math.floor(lower / of.unit)
    high = None if upper is None else math.ceil(upper / of.unit)
    bounds = (_maybe(low), _maybe(high))
    interval = of.interval.clip(*bounds)
    stored = of.stored.clip(*bounds)
    least, most = of.ends
    below = low if low is not None and low > least else None
    above = high if high is not None and high < most else None
    # the clip can change no value: only the declared interval narrows
    if below is None and above is None:
        return replace(of, interval=interval, stored=stored)
    return replace(of, interval=interval, stored=stored, build=lambda on: on.clip(of.build(on), below, above))


def bin_index(of: BoundNumber, edges: Sequence[int]) -> Build:
    """Return the bin, from 0, among ascending edges in steps, NULL outside; the last one is closed.

    Bins that no stored value can reach are left out, and edges beyond the stored range move to one step outside it: each
    value stays in its bin, and no constant is larger than the stored range.
    """
    low, high = of.ends
    count = len(edges) - 1
    first = max(0, bisect.bisect_right(edges, low, 0, count) - 1)
    end = max(first + 1, bisect.bisect_right(edges, high, 0, count))
    cut = [_cut(of, edge) for edge in edges[first : end + 1]]
    return lambda on: plus(on.bin(of.build(on), cut), first)


def compare_steps(of: BoundNumber, op: str, steps: int) -> Build:
    """Compare with a number of steps; one beyond the stored range moves to one step outside it, which is equivalent."""
    bound = _cut(of, steps)
    return comparison(lambda on: on.unclip(of.build(on), op, bound), op, lambda _: whole(bound))


def is_one_of(of: BoundNumber, values: Iterable[Fraction]) -> Build:
    """Return whether a number is one of several constants, in its units; missing where it is missing.

    The number is written and computed once, however many they are.
    """
    low, high = of.ends
    inside = {int(s) for s in (value / of.unit for value in values) if s.denominator == 1 and low <= s <= high}
    if not inside:
        return comparison(of.build, "!=", of.build)
    steps = sorted(inside)

    def build(on: Primitives) -> exp.Expression:
        value = of.build(on)
        least, largest = (on.unclip(value, "=", end) for end in (steps[0], steps[-1]))
        # Where a cell need not be clipped for either end, it need not be for what lies between them.
        return on.is_code(least if least == largest else value, steps)

    return build


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
    largest = max(abs(end) for of in (left, right) for end in of.ends)
    wide = largest >= NARROW or stored.largest is None or stored.largest >= NARROW

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        kinds: dict[str, Any] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}
        a = left.build(on)
        b = right.build(on)
        if wide:
            a = on.wide(a)
            b = on.wide(b)
        result: exp.Expression = kinds[op](this=exp.Paren(this=a), expression=exp.Paren(this=b))
        # not exp.paren, which would copy its operand at every level
        return exp.Paren(this=result)

    return build


def common_unit(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest unit of which both are whole multiples."""
    top = math.gcd(a.numerator * b.denominator, b.numerator * a.denominator)
    return Fraction(top, a.denominator * b.denominator)


def _cut(of: BoundNumber, steps: int) -> int:
    low, high = of.ends
    return max(low - 1, min(high + 1, steps))


def _fill(build: Build, missing: object, unit: int | Fraction, bounds: tuple[int, int]) -> Build:
    if not isinstance(missing, Fill):
        return build
    value = missing.value
    steps = (value - EPOCH).days if isinstance(value, datetime.date) else to_lattice(Fraction(value), unit)
    # a fill is clipped as a cell is
    return _coalesce(build, max(bounds[0], min(bounds[1], steps)))


def _coalesce(build: Build, steps: int) -> Build:
    return lambda on: trees().Coalesce(this=build(on), expressions=[whole(steps)])


def _maybe(value: int | None) -> Fraction | None:
    return None if value is None else Fraction(value)


def _steps(lower: int, upper: int) -> Interval:
    return Interval(Fraction(lower), Fraction(upper))


# ---- Cells that are not numbers, in an engine's words: categories as codes, truths, identifiers


def code_cell(name: str, column: Category | Boolean | Identifier) -> Build:
    """Return the cell of a column that holds no number: a code, a truth or text."""
    if isinstance(column, Category):
        return category_code(name, column)
    if isinstance(column, Boolean):
        return truth(name, column)
    return lambda on: on.text(name)


def truth(name: str, column: Boolean) -> Build:
    """Return the truth of a cell, missing ones filled where that is declared."""
    missing = column.missing

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        if not isinstance(missing, Fill):
            return on.truth(name)
        return exp.Coalesce(this=on.truth(name), expressions=[exp.true() if missing.value else exp.false()])

    return build


def code_of(name: str, column: Category, value: Value) -> int:
    wanted = int(value) if isinstance(value, Fraction) and value.denominator == 1 else value
    places: dict[Any, int] = {v: i for i, v in enumerate(column.values)}
    if isinstance(wanted, bool) or wanted not in places:
        text = wanted if isinstance(wanted, str) else str(wanted)
        raise UnknownName(f"{text!r} is not a declared value of {name!r}; {nearest(text, map(str, column.values))}")
    return places[wanted]


def category_code(name: str, column: Category) -> Build:
    """Return the code of a category's cell: its place among the declared values.

    Its text is as long as the list of values: two hundred comparisons of two such columns of two thousand took 3 GB.
    """
    encode = encode_category(column)
    return lambda on: on.name_again(
        (name, column), lambda rows: encode(rows, rows.category_cell(name, whole=whole_values(column)))
    )


def encode_category(column: Category) -> Callable[[Primitives, exp.Expression], exp.Expression]:
    """Encode a stored cell, with missing cells filled where that is declared."""
    places = {v: i for i, v in enumerate(column.values)}
    other = None if column.other is None else places[column.other]

    def build(on: Primitives, cell: exp.Expression) -> exp.Expression:
        from sqlglot import exp

        code = on.code_of(cell, column.values, other)
        if isinstance(column.missing, Fill):
            return exp.Coalesce(this=code, expressions=[exp.Literal.number(places[column.missing.value])])
        return code

    return build


def whole_values(column: Category) -> bool:
    """Return whether a category's values are whole numbers rather than text."""
    return isinstance(column.values[0], int)


def truth_code(name: str, column: Boolean) -> Build:
    cell = truth(name, column)

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        return exp.Case(
            ifs=[
                exp.If(this=cell(on), true=whole(1)),
                exp.If(this=exp.Not(this=exp.paren(cell(on))), true=whole(0)),
            ]
        )

    return build
