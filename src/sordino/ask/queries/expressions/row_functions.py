"""Functions of one number of a row - rounding, division, remainder, roots and logarithms - on public grids.

Theorem: each function here is total, and its value lies within the interval that its `BoundNumber` states, whatever the row.
Rounding, division and remainders are whole-number arithmetic, exact on every engine. Roots, logarithms and powers of e
are computed in the engine's floating point, which may differ from another engine's by a step of the grid; their last
step is a clip to the stated interval, so that the sensitivity holds whatever the floating point does.

What has no value, such as x / 0, sqrt(-1) or ln(0), is missing, as a cell that was never given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.ask.queries.expressions.bound_number import BoundNumber, Interval, common_unit, rescale
from sordino.ask.queries.expressions.nodes import (
    Absolute,
    Apply,
    Arithmetic,
    Clip,
    Constant,
    DatePart,
    Name,
    Node,
    TextFunction,
    When,
    describe,
)
from sordino.ask.queries.expressions.sql_trees import Build, whole
from sordino.core.errors import QuestionRefused
from sordino.core.primitives import NARROW, Primitives, check_range

if TYPE_CHECKING:
    from sqlglot import exp

# the most steps of a grid that a function makes: squares of its values still sum exactly
_MOST_STEPS = 10**12
_MOST_DIGITS = 12
# each function, and the least number from which it is defined
_REAL: dict[str, tuple[Callable[[float], float], float | None]] = {
    "sqrt": (math.sqrt, 0.0),
    "ln": (math.log, None),
    "log2": (math.log2, None),
    "log10": (math.log10, None),
    "exp": (math.exp, -math.inf),
}


# functions of decimals that are decimals, or whole numbers
_KEEPS_TYPE = frozenset(("round", "floor", "ceil", "truncate", "to_whole", "remainder", "modulo", "sign"))


def apply_function(node: Apply, bind: Callable[[Node], BoundNumber]) -> BoundNumber:
    """Return what a function of numbers means; `bind` says what its operands mean.

    Raises QuestionRefused where an operand does not fit, such as a negative exponent.
    """
    of = bind(node.of)
    name = node.function
    if name in ("floor", "ceil", "truncate", "half_even"):
        return _round(of, Fraction(1), name)
    if name == "to_whole":
        return _to_whole(node.of, of)
    if name == "round":
        return _round(of, Fraction(10) ** -_digits(node), "round")
    if name == "sign":
        return _sign(of)
    if name in _REAL:
        return _real_function(node, of)
    if name == "divide":
        right = _constant(node.right)
        return _divide(of, bind(_operand(node)), node) if right is None else _divide_constant(of, right, node)
    if name in ("remainder", "modulo"):
        right = _constant(node.right)
        if not right:
            raise QuestionRefused(f"{describe(node)}: a remainder needs a divisor other than 0")
        return _remainder(of, right, floor=name == "modulo")
    raise QuestionRefused(f"{name} is not a function of a row")


def finest_step(largest: Fraction) -> Fraction:
    """Return the finest power of ten of which at most 10^12 steps reach `largest`.

    >>> finest_step(Fraction(4)), finest_step(Fraction(1000))
    (Fraction(1, 100000000000), Fraction(1, 1000000000))
    """
    step = Fraction(1, 10**_MOST_DIGITS)
    while largest > _MOST_STEPS * step:
        step *= 10
    return step


# ---- rounding


def _digits(node: Apply) -> int:
    digits = Fraction(0) if node.right is None else _constant(node.right)
    if digits is None or digits.denominator != 1 or abs(digits) > _MOST_DIGITS:
        raise QuestionRefused(f"{describe(node)}: the number of digits is a whole number from -12 to 12")
    return int(digits)


def _round(of: BoundNumber, step: Fraction, how: str) -> BoundNumber:
    """Return the number moved to a multiple of `step`: floor, ceil, truncate (towards 0), round (halves away from 0)."""
    ratio = of.unit / step
    # every value is a multiple already
    if ratio.denominator == 1:
        return of

    def moved(end: Fraction | None) -> Fraction | None:
        return None if end is None else Fraction(_rounded_steps(end * ratio, how))

    interval, stored = (Interval(moved(i.lower), moved(i.upper)) for i in (of.interval, of.stored))
    return BoundNumber(step, interval, stored, of.missable, _round_sql(of, ratio, how))


def _to_whole(node: Node, of: BoundNumber) -> BoundNumber:
    """Return a number cast to a whole one: halves away from 0 where it is held as decimals, to the even one in a double.

    Which of the two follows from how the engine holds the columns, a public fact; what is proved holds for both.
    """
    even = _round(of, Fraction(1), "half_even")
    names = _decimal_columns(node)
    if names is None:
        return even
    away = _round(of, Fraction(1), "round")

    def build(on: Primitives) -> exp.Expression:
        return (away if all(on.is_decimal(name) for name in names) else even).build(on)

    interval = even.interval.hull(away.interval)
    stored = even.stored.hull(away.stored)
    return BoundNumber(even.unit, interval, stored, of.missable, build)


def _decimal_columns(node: Node) -> frozenset[str] | None:
    """Return the columns whose types decide whether a number is held as decimals; None where it is a double in any case."""
    if isinstance(node, Name):
        return frozenset((node.name,))
    if isinstance(node, Constant | DatePart):
        return frozenset()
    parts: list[Node | None] = []
    if isinstance(node, Arithmetic | When):
        parts = [node.left, node.right]
    elif isinstance(node, Absolute | Clip) or (isinstance(node, TextFunction) and node.function == "number"):
        parts = [node.of]
    elif isinstance(node, TextFunction) and node.function == "length":
        return frozenset()
    elif isinstance(node, Apply) and node.function in _KEEPS_TYPE:
        parts = [node.of]
    else:
        return None
    names_of_parts = [frozenset[str]() if part is None else _decimal_columns(part) for part in parts]
    return (
        None if None in names_of_parts else frozenset().union(*(names for names in names_of_parts if names is not None))
    )


def _rounded_steps(value: Fraction, how: str) -> int:
    if how == "floor" or (how == "truncate" and value >= 0):
        return math.floor(value)
    if how in ("ceil", "truncate"):
        return math.ceil(value)
    if how == "half_even":
        return round(value)
    return math.floor(value + Fraction(1, 2)) if value >= 0 else math.ceil(value - Fraction(1, 2))


def _round_sql(of: BoundNumber, ratio: Fraction, how: str) -> Build:
    """Return the SQL of n * ratio, rounded: whole division of numbers that are never below 0, moved by a whole number."""
    top, bottom = ratio.numerator, ratio.denominator
    if how == "half_even":
        return lambda on: _half_even(on, of, top, bottom)
    if how == "round":
        top *= 2
        bottom *= 2
    low, high = (end * top for end in of.ends)
    # so that (n top + moves bottom) is above 0 for every n
    moves = max(0, -(low // bottom) + 1)

    def build(on: Primitives) -> exp.Expression:
        down = {"floor": 0, "ceil": bottom - 1, "truncate": 0, "round": bottom // 2}[how]
        up = {"floor": 0, "ceil": bottom - 1, "truncate": bottom - 1, "round": bottom // 2 - 1}[how]
        if down == up or low >= 0:
            return _quotient(on, of, (top, down + moves * bottom, bottom, moves), high)
        return _case(
            [(_compare(on, of, "GTE", 0), _quotient(on, of, (top, down + moves * bottom, bottom, moves), high))],
            _quotient(on, of, (top, up + moves * bottom, bottom, moves), high),
        )

    return build


def _half_even(on: Primitives, of: BoundNumber, top: int, bottom: int) -> exp.Expression:
    """Return n top / bottom to the nearest whole number, halves to the even one.

    Halves go up in floor(t / 2b), t = 2 n top + b, b being the bottom. That is one too much where t mod 4b is 2b, and
    floor((t + 2b) / 4b) - floor((t + 2b - 1) / 4b) is 1 just there.
    """
    from sqlglot import exp

    low, high = (end * 2 * top for end in of.ends)

    def floor(plus: int, by: int) -> exp.Expression:
        moves = max(0, -(low // by) + 1)
        return _quotient(on, of, (2 * top, plus + moves * by, by, moves), high)

    odd = exp.Sub(this=floor(3 * bottom, 4 * bottom), expression=floor(3 * bottom - 1, 4 * bottom))
    return exp.Paren(this=exp.Sub(this=floor(bottom, 2 * bottom), expression=exp.Paren(this=odd)))


def _quotient(on: Primitives, of: BoundNumber, numbers: tuple[int, int, int, int], high: int) -> exp.Expression:
    """Return (n top + plus) // bottom - minus; `high` is the largest n top."""
    from sqlglot import exp

    top, plus, bottom, minus = numbers
    check_range(abs(high) + plus, top, bottom)
    wide = max(abs(high) + plus, top, bottom) >= NARROW
    n = on.wide(of.build(on)) if wide else of.build(on)
    scaled = exp.Paren(this=exp.Mul(this=exp.Paren(this=n), expression=_whole(on, top, wide)))
    moved = exp.Paren(this=exp.Add(this=scaled, expression=_whole(on, plus, wide)))
    divided = exp.Paren(this=exp.IntDiv(this=moved, expression=_whole(on, bottom, wide)))
    return exp.Paren(this=exp.Sub(this=divided, expression=_whole(on, minus, wide)))


# ---- division


def _divide_constant(of: BoundNumber, by: Fraction, node: Node) -> BoundNumber:
    """Return x / c exactly: the unit is divided, and the steps stay as they are."""
    if by == 0:
        raise QuestionRefused(f"{describe(node)}: division by 0 has no value")
    divided = replace(of, unit=of.unit / abs(by))
    return divided if by > 0 else _negate(divided)


def _negate(of: BoundNumber) -> BoundNumber:
    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        return exp.Paren(this=exp.Mul(this=exp.Paren(this=of.build(on)), expression=whole(-1)))

    return BoundNumber(of.unit, of.interval.negate(), of.stored.negate(), of.missable, build)


def _divide(of: BoundNumber, by: BoundNumber, node: Apply) -> BoundNumber:
    """Return x / y, missing where y is 0, to the nearest step of a public grid.

    A y that is not 0 is at least one step of its grid, and at least its declared bound where that is above 0: so
    |x / y| <= max|x| / min|y|, whatever the rows. Raises QuestionRefused for an x without bounds: the grid would be too
    coarse for any answer.
    """
    if not of.interval.bounded:
        raise QuestionRefused(f"{describe(node)} needs bounds of {describe(node.of)}: clip it before it is divided")
    stored, interval = (_quotients(of, by, *i) for i in ((of.stored, by.stored), (of.interval, by.interval)))
    step = finest_step(_reach(interval if interval.bounded else stored))
    ratio = of.unit / (by.unit * step)
    check_range(2 * _reach(of.stored) * ratio.numerator + _reach(by.stored) * ratio.denominator)
    check_range(2 * _reach(by.stored) * ratio.denominator)

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        x = exp.Abs(this=on.wide(of.build(on)))
        y = exp.Abs(this=on.wide(by.build(on)))
        twice = exp.Paren(this=exp.Mul(this=x, expression=_whole(on, 2 * ratio.numerator, True)))
        bottom = exp.Paren(this=exp.Mul(this=y, expression=_whole(on, ratio.denominator, True)))
        doubled = exp.Paren(this=exp.Mul(this=bottom.copy(), expression=_whole(on, 2, True)))
        divisor = exp.Nullif(this=doubled, expression=_whole(on, 0, True))
        size = exp.Paren(
            this=exp.IntDiv(this=exp.Paren(this=exp.Add(this=twice, expression=bottom)), expression=divisor)
        )
        opposite = exp.NEQ(this=_compare(on, of, "LT", 0), expression=_compare(on, by, "LT", 0))
        return _case([(opposite, exp.Paren(this=exp.Mul(this=size.copy(), expression=whole(-1))))], size)

    return BoundNumber(step, _outward(interval, step), _outward(stored, step), True, build)


def _quotients(of: BoundNumber, by: BoundNumber, top: Interval, bottom: Interval) -> Interval:
    """Return where x / y lies for x in `top` and y in `bottom`, both in steps, y not 0."""
    if not top.bounded:
        return Interval(None, None)
    above = bottom.lower is not None and bottom.lower > 0
    below = bottom.upper is not None and bottom.upper < 0
    least = Fraction(1)
    if above or below:
        least = min(abs(end) for end in (bottom.lower, bottom.upper) if end is not None)
    scaled = top.scale(of.unit / (by.unit * least))
    if above and scaled.lower is not None and scaled.upper is not None:
        return Interval(min(scaled.lower, Fraction(0)), max(scaled.upper, Fraction(0)))
    reach = scaled.largest or Fraction(0)
    return Interval(-reach, reach)


def _outward(of: Interval, step: Fraction) -> Interval:
    low = None if of.lower is None else Fraction(math.floor(of.lower / step))
    return Interval(low, None if of.upper is None else Fraction(math.ceil(of.upper / step)))


def _remainder(of: BoundNumber, by: Fraction, *, floor: bool) -> BoundNumber:
    """Return what is left of x after division by c: with the sign of x, as in SQL, or of c (`floor`), as in Python."""
    unit = common_unit(of.unit, abs(by))
    of = rescale(of, unit)
    size = int(abs(by) / unit)
    negative = by < 0
    low, high = of.ends
    most = Fraction(size - 1)
    if floor:
        interval = Interval(-most, Fraction(0)) if negative else Interval(Fraction(0), most)
    else:
        interval = Interval(max(-most, Fraction(low)) if low < 0 else Fraction(0), min(most, Fraction(max(high, 0))))
    moves = max(0, -(low // size) + 1)
    flipped = max(0, high // size + 1)
    largest = max(abs(low), abs(high)) + (moves + flipped + 1) * size
    check_range(largest)
    wide = largest >= NARROW

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        n = on.wide(of.build(on)) if wide else of.build(on)
        base = _whole(on, size, wide)
        if floor and not negative:
            moved = exp.Paren(this=exp.Add(this=n, expression=_whole(on, moves * size, wide)))
            return exp.Paren(this=exp.Mod(this=moved, expression=base))
        if floor:
            turned = exp.Paren(this=exp.Sub(this=_whole(on, flipped * size, wide), expression=n))
            return exp.Paren(
                this=exp.Mul(this=exp.Paren(this=exp.Mod(this=turned, expression=base)), expression=whole(-1))
            )
        left = exp.Paren(this=exp.Mod(this=exp.Abs(this=n), expression=base))
        below = exp.Paren(this=exp.Mul(this=left.copy(), expression=whole(-1)))
        return left if low >= 0 else _case([(_compare(on, of, "LT", 0), below)], left)

    return BoundNumber(unit, interval, interval, of.missable, build)


# ---- signs, roots, logarithms


def _sign(of: BoundNumber) -> BoundNumber:
    def end(value: Fraction | None, open_end: int) -> Fraction:
        return Fraction(open_end if value is None else (value > 0) - (value < 0))

    interval = Interval(end(of.interval.lower, -1), end(of.interval.upper, 1))

    def build(on: Primitives) -> exp.Expression:
        return _case(
            [
                (_compare(on, of, "GT", 0), whole(1)),
                (_compare(on, of, "LT", 0), whole(-1)),
                (_compare(on, of, "EQ", 0), whole(0)),
            ],
            None,
        )

    return BoundNumber(Fraction(1), interval, interval, of.missable, build)


def _real_function(node: Apply, of: BoundNumber) -> BoundNumber:
    """Return a root, logarithm or power of e on the finest grid of 10^12 steps, clipped to what the bounds allow."""
    function, least = _REAL[node.function]
    if not of.interval.bounded:
        raise QuestionRefused(f"{describe(node)} needs bounds: clip {describe(node.of)}, or declare its bounds")
    low, high = (float(end * of.unit) for end in _finite(of.interval))
    # the least value on the grid at which it is defined
    smallest = float(of.unit) if least is None else least
    if high < smallest:
        raise QuestionRefused(f"{describe(node)} is never defined: {describe(node.of)} is at most {high:g}")
    if node.function == "exp" and high > 80:
        raise QuestionRefused(f"{describe(node)} may grow past 37 digits: clip {describe(node.of)} first")
    ends = [function(max(low, smallest)), function(high)]
    step = finest_step(Fraction(max(abs(e) for e in ends)))
    bounds = (math.floor(Fraction(ends[0]) / step), math.ceil(Fraction(ends[1]) / step))
    interval = Interval(*(Fraction(b) for b in bounds))

    def build(on: Primitives) -> exp.Expression:
        return on.real_function(node.function, of.build(on), of.unit, step, *bounds)

    return BoundNumber(step, interval, interval, of.missable or low < smallest, build)


# ---- shared


def _operand(node: Apply) -> Node:
    if node.right is None:
        raise QuestionRefused(f"{node.function} takes two numbers")
    return node.right


def _constant(node: Node | None) -> Fraction | None:
    value = node.value if isinstance(node, Constant) else None
    return value if isinstance(value, Fraction) else None


def _finite(of: Interval) -> tuple[Fraction, Fraction]:
    # a stored interval always has both ends
    assert of.lower is not None
    assert of.upper is not None
    return of.lower, of.upper


def _reach(of: Interval) -> Fraction:
    return max(abs(end) for end in _finite(of))


def _whole(on: Primitives, number: int, wide: bool) -> exp.Expression:
    """Return a constant in the type of what it meets: whole division of a wide number by a decimal would not be whole."""
    return on.wide(whole(number)) if wide else whole(number)


def _compare(on: Primitives, of: BoundNumber, kind: str, number: int) -> exp.Expression:
    from sqlglot import exp

    comparison: exp.Expression = getattr(exp, kind)(this=exp.Paren(this=of.build(on)), expression=whole(number))
    return exp.Paren(this=comparison)


def _case(cases: list[tuple[exp.Expression, exp.Expression]], rest: exp.Expression | None) -> exp.Expression:
    from sqlglot import exp

    ifs = [exp.If(this=condition, true=value) for condition, value in cases]
    return exp.Paren(this=exp.Case(ifs=ifs, default=exp.Null() if rest is None else rest))
