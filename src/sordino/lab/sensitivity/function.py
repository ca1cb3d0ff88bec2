"""Sensitivity of a function of one number: how far f(x) moves when x moves by at most 1. It knows no table.

An expression is parsed to a tree of a few known kinds, never evaluated as code. A Python function is called once, with an x
that writes down what is done to it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.expressions.bound_number import Interval
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import Number, format_number, to_fraction

# Characters of an expression.
_LONGEST = 1000
# Levels of an expression.
_DEEPEST = 60
_ZERO = Fraction(0)
_ONE = Fraction(1)
_ARGUMENTS = {"abs": 1, "clip": 3, "min": 2, "max": 2, "sqrt": 1, "exp": 1, "log": 1}
_LARGEST_POWER = 64
_RULE = "use x, numbers, + - * /, e ** n, sqrt(e), exp(e), log(e), abs(e), clip(e, a, b), min(e, a), max(e, a)"
# Roots, powers of e and logarithms are kept between two decimals so near that no float lies between them.
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)
_UP = Context(prec=60, rounding=ROUND_CEILING)
_STEPS = 10**55
# A figure that two such decimals enclose is exact.
_NEAR = Fraction(1, 10**30)
_REAL = Interval(None, None)
_FLAT = Interval.point(_ZERO)


@dataclass(frozen=True, slots=True)
class FunctionSensitivity:
    """Bound |f(x) - f(x')| over |x - x'| <= 1: `value`, rounded up (infinity where there is no bound), and why.

    `exact` says that no smaller bound holds.
    """

    value: float
    exact: bool
    because: str


def function_sensitivity(
    function: str | Callable[[Any], Any], *, lower: Number | None, upper: Number | None
) -> FunctionSensitivity:
    """Return how far f(x) can move when x, in [lower, upper], moves by at most 1.

    f is text, written with x, numbers, + - * /, e ** n (n a whole number, or 0.5), sqrt(e), exp(e), log(e) (the natural
    logarithm), abs(e), clip(e, a, b), min(e, a) and max(e, a); or a Python function of x that computes with these and with
    numpy's functions of the same names. None is no bound on that side. Interval arithmetic in exact fractions (in decimals
    of 60 digits, rounded outward, for roots, exp and log) bounds f' and the range of f, for generalised derivatives; the value
    is the smaller of max |f'| min(1, u - l) and the width of the range. It is the least bound, `exact`, where f is linear;
    where f is convex or concave (by the sign of f'') and monotone over the unit at both ends, a difference of two values
    of f; and where a pair of points tried (by the ends and constants) attains it. Elsewhere it is an upper bound, and
    infinity there means that none was found; a polynomial of degree 2 or more on an unbounded x has none. Units of f.

    Raises QuestionRefused for what is not such an expression, or has no value somewhere in [lower, upper], DeclarationError
    for bounds that are no numbers.

    >>> function_sensitivity("x + x", lower=None, upper=None).value
    2.0
    >>> function_sensitivity("x * x", lower=None, upper=None)
    FunctionSensitivity(value=inf, exact=True, because='the slope of x * x has no bound for x in [-inf, inf]: clip x')
    >>> function_sensitivity(lambda x: x**2, lower=-3, upper=2).value
    5.0
    >>> function_sensitivity("log(x)", lower=1, upper=None).value
    0.6931471805599454

    Dwork, McSherry, Nissim, Smith (2006), section 2, with the table a single number; Moore, Kearfott, Cloud,
    "Introduction to Interval Analysis" (2009), chapters 5 and 6.
    """
    low = None if lower is None else to_fraction(lower, name="lower")
    high = None if upper is None else to_fraction(upper, name="upper")
    if low is not None and high is not None and low > high:
        raise DeclarationError(
            f"lower must not be above upper, not {format_number(low)} and {format_number(high)}; swap them"
        )
    node = _parse(function if isinstance(function, str) else _write_down(function))
    within = Interval(low, high)
    jet = _jet(node, within)
    words = _shorten(ast.unparse(node))
    step = _ONE if low is None or high is None else min(_ONE, high - low)
    steepest = jet.slope.largest
    width = _width(jet.value)
    powers = _polynomial(node)
    if powers is not None and max(powers, default=0) < 2:
        slope = powers.get(1, _ZERO)
        short = "" if step == 1 else f", and x moves by at most {_say(step)}"
        return _result(abs(slope) * step, True, f"{words} has the slope {_say(slope)} everywhere{short}")
    ends = _from_ends(node, within, jet)
    if ends is not None:
        return _result(ends, True, f"{words} is steepest at an end of {within}, where a step of 1 moves it so far")
    bounds = [b for b in (None if steepest is None else steepest * step, width) if b is not None]
    if not bounds:
        because = f"the slope of {words} has no bound for x in {within}: clip x"
        return FunctionSensitivity(math.inf, powers is not None, because)
    least = _is_attained(node, within, step, min(bounds))
    if width is not None and min(bounds) == width:
        return _result(
            width, least, f"{words} lies in {_span(jet.value)} for x in {within}, so it moves by its width at most"
        )
    return _result(min(bounds), least, f"{words} has a slope in {_span(jet.slope)} for x in {within}")


@dataclass(frozen=True, slots=True)
class _Jet:
    """Where f, f' and f'' lie over an interval; `smooth` says that f' and f'' exist throughout (no abs or clip)."""

    value: Interval
    slope: Interval
    curve: Interval
    smooth: bool


def _jet(node: ast.expr, x: Interval) -> _Jet:
    if isinstance(node, ast.Name):
        return _Jet(x, Interval.point(_ONE), _FLAT, True)
    if isinstance(node, ast.Constant):
        return _Jet(Interval.point(_number(node)), _FLAT, _FLAT, True)
    if isinstance(node, ast.UnaryOp):
        of = _jet(node.operand, x)
        return of if isinstance(node.op, ast.UAdd) else _negate(of)
    if isinstance(node, ast.BinOp):
        left = _jet(node.left, x)
        right = _jet(node.right, x)
        if isinstance(node.op, ast.Mult):
            return _product(left, right, same=ast.dump(node.left) == ast.dump(node.right))
        if isinstance(node.op, ast.Div):
            return _product(left, _reciprocal(right, node.right), same=False)
        if isinstance(node.op, ast.Pow):
            return _power(left, _number_of(node.right), node)
        right = _negate(right) if isinstance(node.op, ast.Sub) else right
        return _Jet(
            left.value.plus(right.value),
            left.slope.plus(right.slope),
            left.curve.plus(right.curve),
            left.smooth and right.smooth,
        )
    assert isinstance(node, ast.Call)
    name = _function_name(node)
    return _CURVES[name](_jet(node.args[0], x), node.args[0]) if name in _CURVES else _at_kink(node, x)


def _negate(of: _Jet) -> _Jet:
    return _Jet(of.value.negate(), of.slope.negate(), of.curve.negate(), of.smooth)


def _product(left: _Jet, right: _Jet, *, same: bool) -> _Jet:
    """Apply (fg)' = f'g + fg' and (fg)'' = f''g + 2f'g' + fg''."""
    two = Fraction(2)
    if same:
        slope = left.value.times(left.slope).scale(two)
        curve = left.slope.square().plus(left.value.times(left.curve)).scale(two)
        return _Jet(left.value.square(), slope, curve, left.smooth)
    slope = left.slope.times(right.value).plus(left.value.times(right.slope))
    curve = left.curve.times(right.value).plus(left.slope.times(right.slope).scale(two))
    curve = curve.plus(left.value.times(right.curve))
    return _Jet(left.value.times(right.value), slope, curve, left.smooth and right.smooth)


def _reciprocal(of: _Jet, node: ast.expr) -> _Jet:
    """Apply (1/f)' = -f'/f^2 and (1/f)'' = (2 f'^2 / f - f'') / f^2."""
    inverse = _invert(of.value)
    if inverse is None:
        raise QuestionRefused(
            f"{ast.unparse(node)} may be 0 for such an x, and is divided by: state bounds that keep it from 0"
        )
    squares = inverse.square()
    curve = of.slope.square().times(inverse).scale(Fraction(2)).plus(of.curve.negate()).times(squares)
    return _Jet(inverse, of.slope.times(squares).negate(), curve, of.smooth)


def _invert(of: Interval) -> Interval | None:
    """Return where 1/x lies; None where x may be 0, or anything near it."""
    if of.lower is not None and of.lower > 0:
        return Interval(_ZERO if of.upper is None else 1 / of.upper, 1 / of.lower)
    if of.upper is not None and of.upper < 0:
        return Interval(1 / of.upper, _ZERO if of.lower is None else 1 / of.lower)
    return None


def _power(of: _Jet, power: Fraction, node: ast.expr) -> _Jet:
    """Apply (f^n)' = n f^(n-1) f' and (f^n)'' = n (n-1) f^(n-2) f'^2 + n f^(n-1) f''."""
    if power == Fraction(1, 2):
        return _root(of, node)
    if power.denominator != 1 or abs(power) > _LARGEST_POWER:
        raise QuestionRefused(
            f"the power {_say(power)} is not understood: a whole number from -{_LARGEST_POWER} to {_LARGEST_POWER}, or 0.5"
        )
    n = int(power)
    if n < 0 and _invert(of.value) is None:
        raise QuestionRefused(
            f"{ast.unparse(node)} divides by what may be 0 for such an x: state bounds that keep it from 0"
        )
    if n in (0, 1):
        return of if n else _Jet(Interval.point(_ONE), _FLAT, _FLAT, of.smooth)
    slope = _raise(of.value, n - 1).scale(power)
    bend = _raise(of.value, n - 2).scale(power * (power - 1))
    curve = bend.times(of.slope.square()).plus(slope.times(of.curve))
    return _Jet(_raise(of.value, n), slope.times(of.slope), curve, of.smooth)


def _raise(of: Interval, n: int) -> Interval:
    """Return where x ** n lies; x is never 0 where n is below 0."""
    if n < 0:
        return _invert(_raise(of, -n)) or _REAL
    if n % 2 == 0:
        of = of.absolute()
    return Interval(None if of.lower is None else of.lower**n, None if of.upper is None else of.upper**n)


def _root(of: _Jet, node: ast.expr) -> _Jet:
    """Apply sqrt(f)' = f' / (2 sqrt(f)) and sqrt(f)'' = f'' / (2 sqrt(f)) - f'^2 / (4 f^(3/2))."""
    if of.value.lower is None or of.value.lower < 0:
        raise QuestionRefused(
            f"{ast.unparse(node)} may be below 0 for such an x, and has no root there: state bounds, or clip it"
        )
    value = _between(of.value, Context.sqrt)
    # at 0 it is as steep as one likes
    inverse = _invert(value) or Interval(1 / value.upper if value.upper else _ZERO, None)
    half = inverse.scale(Fraction(1, 2))
    bend = of.slope.square().times(half).times(inverse.square()).scale(Fraction(1, 2))
    return _Jet(value, half.times(of.slope), half.times(of.curve).plus(bend.negate()), of.smooth)


def _exponential(of: _Jet, node: ast.expr) -> _Jet:
    """Apply exp(f)' = exp(f) f' and exp(f)'' = exp(f) (f'^2 + f'')."""
    if of.value.upper is not None and of.value.upper > 100_000:
        raise QuestionRefused(f"exp({ast.unparse(node)}) is beyond all floats for such an x: state bounds, or clip it")
    value = _between(of.value, Context.exp)
    value = Interval(_ZERO if value.lower is None else value.lower, value.upper)
    return _Jet(value, value.times(of.slope), value.times(of.slope.square().plus(of.curve)), of.smooth)


def _logarithm(of: _Jet, node: ast.expr) -> _Jet:
    """Apply log(f)' = f'/f and log(f)'' = f''/f - (f'/f)^2."""
    inverse = _invert(of.value)
    if inverse is None or of.value.lower is None:
        raise QuestionRefused(
            f"{ast.unparse(node)} may be 0 or below for such an x, and has no logarithm there: state bounds"
        )
    slope = of.slope.times(inverse)
    curve = of.curve.times(inverse).plus(slope.square().negate())
    return _Jet(_between(of.value, Context.ln), slope, curve, of.smooth)


_CURVES: dict[str, Callable[[_Jet, ast.expr], _Jet]] = {"sqrt": _root, "exp": _exponential, "log": _logarithm}


def _between(of: Interval, rise: Callable[[Context, Decimal], Decimal]) -> Interval:
    """Return decimals that enclose the values of a rising function, which decimal rounds to the nearest."""
    ends: list[Fraction | None] = []
    for end, context in ((of.lower, _DOWN), (of.upper, _UP)):
        if end is None:
            ends.append(None)
            continue
        value = Fraction(rise(context, context.divide(Decimal(end.numerator), Decimal(end.denominator))))
        # roots of squares are themselves
        exact = rise is Context.sqrt and value**2 == end
        # in whole steps of 10^-55, two of them outward: far wider than what decimal rounds, in few digits
        steps = math.floor(value * _STEPS) - 2 if context is _DOWN else math.ceil(value * _STEPS) + 2
        ends.append(value if exact else Fraction(steps, _STEPS))
    return Interval(*ends)


def _at_kink(node: ast.Call, x: Interval) -> _Jet:
    """Take abs, or a clip: where it can bind, the slope may also be that of the other side."""
    of = _jet(node.args[0], x)
    if _function_name(node) == "abs":
        value = of.value.absolute()
        if value == of.value:
            return of
        if value == of.value.negate():
            return _negate(of)
        return _Jet(value, _hull(of.slope, of.slope.negate()), _REAL, False)
    low, high = _limits(node)
    value = of.value.clip(low, high)
    if value == of.value:
        return of
    if value.lower is not None and value.lower == value.upper:
        return _Jet(value, _FLAT, _FLAT, True)
    return _Jet(value, _hull(of.slope, _FLAT), _REAL, False)


def _hull(a: Interval, b: Interval) -> Interval:
    low = None if a.lower is None or b.lower is None else min(a.lower, b.lower)
    return Interval(low, None if a.upper is None or b.upper is None else max(a.upper, b.upper))


def _from_ends(node: ast.expr, x: Interval, jet: _Jet) -> Fraction | None:
    """Return the largest move of a convex or concave f, which is over the unit at an end, where f is monotone there.

    Where an end has no bound, f must be monotone everywhere and flatter towards it.
    """
    bend = _sign(jet.curve)
    if not jet.smooth or bend == 0 or (x.lower is None and x.upper is None):
        return None
    step = _ONE if x.lower is None or x.upper is None else min(_ONE, x.upper - x.lower)
    if not x.bounded and _sign(jet.slope) * bend != (-1 if x.upper is None else 1):
        return None
    pieces = [] if x.lower is None else [Interval(x.lower, x.lower + step)]
    pieces += [] if x.upper is None else [Interval(x.upper - step, x.upper)]
    moves = []
    for piece in pieces:
        if _sign(_jet(node, piece).slope) == 0:
            return None
        before, after = (_value_at(node, end) for end in (piece.lower, piece.upper))
        moves.append(_width(after.plus(before.negate()).absolute().hull(_FLAT)))
    return max(move for move in moves if move is not None)


def _sign(of: Interval) -> int:
    if of.lower is not None and of.lower >= 0:
        return 1
    return -1 if of.upper is not None and of.upper <= 0 else 0


def _value_at(node: ast.expr, x: Fraction | None) -> Interval:
    """Return f at a point: that number, or two decimals on its sides."""
    return _jet(node, Interval(x, x)).value


def _is_attained(node: ast.expr, x: Interval, step: Fraction, bound: Fraction) -> bool:
    """Whether f moves by `bound` between two points `step` apart: at an end, or beside a number of the expression."""
    starts = {_ZERO, *(sign * _number(c) for c in ast.walk(node) if isinstance(c, ast.Constant) for sign in (1, -1))}
    starts |= {end for end in (x.lower, x.upper) if end is not None}
    for start in sorted({t - back for t in starts for back in (_ZERO, step)}):
        inside = (x.lower is None or x.lower <= start) and (x.upper is None or start + step <= x.upper)
        if not inside:
            continue
        move = _value_at(node, start + step).plus(_value_at(node, start).negate()).absolute()
        if move.lower is not None and move.lower >= bound * (1 - _NEAR):
            return True
    return False


def _polynomial(node: ast.expr) -> dict[int, Fraction] | None:
    """Return the coefficients of f that are not 0, by power; None where f holds abs or a clip."""
    coefficients = _powers(node)
    return None if coefficients is None else {p: c for p, c in coefficients.items() if c}


def _powers(node: ast.expr) -> dict[int, Fraction] | None:
    if isinstance(node, ast.Name):
        return {1: _ONE}
    if isinstance(node, ast.Constant):
        return {0: _number(node)}
    if isinstance(node, ast.UnaryOp):
        of = _powers(node.operand)
        sign = 1 if isinstance(node.op, ast.UAdd) else -1
        return None if of is None else {p: sign * c for p, c in of.items()}
    if not isinstance(node, ast.BinOp):
        return None
    left = _powers(node.left)
    if isinstance(node.op, ast.Pow):
        power = _number_of(node.right)
        if left is None or power.denominator != 1 or not 0 <= power <= _LARGEST_POWER:
            return None
        raised: dict[int, Fraction] = {0: _ONE}
        for _ in range(int(power)):
            raised = _multiply(raised, left)
        return raised
    right = _powers(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Div):
        by = right.get(0, _ZERO)
        return None if set(right) - {0} or not by else {p: a / by for p, a in left.items()}
    if isinstance(node.op, ast.Mult):
        return _multiply(left, right)
    sign = 1 if isinstance(node.op, ast.Add) else -1
    return {p: left.get(p, _ZERO) + sign * right.get(p, _ZERO) for p in {*left, *right}}


def _multiply(left: dict[int, Fraction], right: dict[int, Fraction]) -> dict[int, Fraction]:
    product: dict[int, Fraction] = {}
    for p, a in left.items():
        for q, b in right.items():
            product[p + q] = product.get(p + q, _ZERO) + a * b
    return product


def _width(of: Interval) -> Fraction | None:
    return None if of.lower is None or of.upper is None else of.upper - of.lower


def _result(move: Fraction, least: bool, because: str) -> FunctionSensitivity:
    try:
        value = move.numerator / move.denominator
    except OverflowError:
        return FunctionSensitivity(math.inf, False, f"{because}, beyond the largest float")
    value = value if Fraction(value) >= move else math.nextafter(value, math.inf)
    return FunctionSensitivity(value, least, because)


def _parse(text: object) -> ast.expr:
    """Return the tree of an expression of known kinds; raises QuestionRefused for any other."""
    if not isinstance(text, str) or not text.strip():
        raise QuestionRefused('a function is text, such as "5 * x", or a Python function of x')
    if len(text) > _LONGEST:
        raise QuestionRefused(f"a function may have {_LONGEST} characters, not {len(text)}")
    # as they are written by hand: 2x, and x^2
    source = re.sub(r"(?<![\w.])(\d+\.?\d*|\.\d+)\s*(?=x\b|\()", r"\1*", text.strip()).replace("^", "**")
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise QuestionRefused(f"{text[:60]!r} is not an expression; {_RULE}") from None
    for number in ast.walk(tree):
        # a float would make nothing of 1e-400
        if isinstance(number, ast.Constant) and type(number.value) is float:
            number.exact = _read_float(number.value, ast.get_source_segment(source, number))  # type: ignore[attr-defined]
    level: list[ast.expr] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in _operands(node)]
        if not level:
            return tree
    raise QuestionRefused(f"a function may be nested {_DEEPEST} deep")


def _read_float(value: float, written: str | None) -> Fraction:
    try:
        return to_fraction(written or value, name="a number")
    except DeclarationError:
        # its digits would fill the memory, unless a float holds it
        if value == 0:
            raise
        return to_fraction(value, name="a number")


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Name) and node.id == "x":
        return []
    if isinstance(node, ast.Constant):
        _number(node)
        return []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        return [node.operand]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        return [node.left, node.right]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        _number_of(node.right)
        return [node.left]
    if isinstance(node, ast.Call) and not node.keywords and _function_name(node) in _ARGUMENTS:
        if len(node.args) != _ARGUMENTS[_function_name(node)]:
            raise QuestionRefused(
                f"{_function_name(node)} takes {_ARGUMENTS[_function_name(node)]} argument(s), not {len(node.args)}"
            )
        _limits(node)
        return node.args[:1]
    raise QuestionRefused(f"{ast.unparse(node)[:60]!r} is not understood; {_RULE}")


def _function_name(node: ast.Call) -> str:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return "log" if name == "ln" else name


def _limits(node: ast.Call) -> tuple[Fraction | None, Fraction | None]:
    """Return the lower and the upper limit that a clip, a min or a max puts on its first argument."""
    limits = [_read_sign(a) for a in node.args[1:]]
    if _function_name(node) == "min":
        return None, limits[0]
    if _function_name(node) == "max":
        return limits[0], None
    if limits and limits[0] > limits[1]:
        raise QuestionRefused(
            f"clip takes its lower limit first, not {format_number(limits[0])} and {format_number(limits[1])}"
        )
    return (limits[0], limits[1]) if limits else (None, None)


def _number_of(node: ast.expr) -> Fraction:
    """Return the number that a power is, a fraction of two numbers too."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        by = _read_sign(node.right)
        return _read_sign(node.left) / by if by else _read_sign(node.right)
    return _read_sign(node)


def _read_sign(node: ast.expr) -> Fraction:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        return _read_sign(node.operand) * (1 if isinstance(node.op, ast.UAdd) else -1)
    if isinstance(node, ast.Constant):
        return _number(node)
    raise QuestionRefused(f"{ast.unparse(node)[:60]!r} must be a number: a power and the limits are numbers")


def _number(node: ast.Constant) -> Fraction:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        raise QuestionRefused(f"{ast.unparse(node)[:60]!r} is not a number; {_RULE}")
    exact = getattr(node, "exact", None)
    return to_fraction(node.value, name="a number") if exact is None else exact


def _say(value: Fraction) -> str:
    """Return a number for reading, a long one to six digits."""
    words = format_number(value)
    return words if len(words) <= 24 else f"{Decimal(value.numerator) / Decimal(value.denominator):.6g}"


def _span(of: Interval) -> str:
    low = "-inf" if of.lower is None else _say(of.lower)
    return f"[{low}, {'inf' if of.upper is None else _say(of.upper)}]"


def _shorten(words: str) -> str:
    return words if len(words) <= 200 else f"{words[:197]}..."


# ---- A Python function is called once, with an x that writes down what is done to it


def _write_down(function: Any) -> str:
    """Return the expression that a function of x computes. Raises QuestionRefused where it decides by the value of x."""
    if not callable(function):
        raise QuestionRefused('a function is text, such as "5 * x", or a Python function of x')
    try:
        result = _with_numpy(function)(_Written("x"))
    except QuestionRefused:
        raise
    except Exception as error:
        raise QuestionRefused(
            f"the function cannot be read as an expression ({type(error).__name__}); {_RULE}"
        ) from error
    return _text(result)


def _with_numpy(function: Any) -> Any:
    """Return a function in which those of `math` are numpy's of the same name: they take what stands for x, too."""
    import types

    def replace(value: Any) -> Any:
        if value is math:
            return np
        name = getattr(value, "__name__", "")
        return getattr(np, name) if value is getattr(math, name, None) and hasattr(np, name) else value

    if not isinstance(function, types.FunctionType):
        return replace(function)
    used = {
        name: replace(function.__globals__[name]) for name in function.__code__.co_names if name in function.__globals__
    }
    copied = types.FunctionType(
        function.__code__,
        {**function.__globals__, **used},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _text(value: Any) -> str:
    if isinstance(value, _Written):
        return value.text
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Fraction):
        return f"({value.numerator} / {value.denominator})"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise QuestionRefused(f"a function of x computes with x and numbers, not with {type(value).__name__}; {_RULE}")
    return f"({format_number(to_fraction(value, name='a number'))})"


class _Written:
    """Stands for x, or for what was made of it, as text."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise QuestionRefused(f"a function may have {_LONGEST} characters once it is written down")
        self.text = text

    def _joined(self, sign: str, other: Any, *, turned: bool = False) -> _Written:
        sides = (_text(other), self.text) if turned else (self.text, _text(other))
        return _Written(f"({sides[0]} {sign} {sides[1]})")

    def __add__(self, other: Any) -> _Written:
        return self._joined("+", other)

    def __radd__(self, other: Any) -> _Written:
        return self._joined("+", other, turned=True)

    def __sub__(self, other: Any) -> _Written:
        return self._joined("-", other)

    def __rsub__(self, other: Any) -> _Written:
        return self._joined("-", other, turned=True)

    def __mul__(self, other: Any) -> _Written:
        return self._joined("*", other)

    def __rmul__(self, other: Any) -> _Written:
        return self._joined("*", other, turned=True)

    def __truediv__(self, other: Any) -> _Written:
        return self._joined("/", other)

    def __rtruediv__(self, other: Any) -> _Written:
        return self._joined("/", other, turned=True)

    def __pow__(self, other: Any) -> _Written:
        return self._joined("**", other)

    def __neg__(self) -> _Written:
        return _Written(f"(-{self.text})")

    def __pos__(self) -> _Written:
        return self

    def __abs__(self) -> _Written:
        return _Written(f"abs({self.text})")

    def clip(self, lower: Any, upper: Any, **_: Any) -> _Written:
        """Return what numpy.clip makes of it."""
        return _Written(f"clip({self.text}, {_text(lower).strip('()')}, {_text(upper).strip('()')})")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """Write numpy's function of it."""
        name = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or name is None:
            raise QuestionRefused(f"numpy.{ufunc.__name__} is not understood; {_RULE}")
        first, *others = inputs
        if not isinstance(first, _Written):
            if name in ("min", "max"):
                first, others = others[0], [first]
            else:
                first = _Written(_text(first))
        if len(name) < 3:
            return first._joined(name, others[0])
        limits = "".join(f", {_text(limit).strip('()')}" for limit in others)
        return _Written(f"{name}({first.text}{limits})")

    def __float__(self) -> float:
        raise QuestionRefused(
            "a function of math takes no x: use that of numpy, as numpy.sqrt(x), or write text, as 'sqrt(x)'"
        )

    def __bool__(self) -> bool:
        raise QuestionRefused(
            'a function that decides by the value of x cannot be read: write it as text, as "min(x, 10)", or with numpy.minimum '
            "and numpy.clip"
        )

    def _compare(self, _: object) -> _Written:
        return self

    __lt__ = __le__ = __gt__ = __ge__ = _compare


_UFUNCS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "power": "**",
    "float_power": "**",
    "absolute": "abs",
    "fabs": "abs",
    "minimum": "min",
    "maximum": "max",
    "sqrt": "sqrt",
    "exp": "exp",
    "log": "log",
}
