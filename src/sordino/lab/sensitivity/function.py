"""Sensitivity of a function of one number: how far f(x) moves when x moves by at most 1. It knows no table.

An expression is parsed to a tree of a few known kinds, never evaluated as code.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from fractions import Fraction

from sordino.ask.queries.expressions.bound_number import Interval
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import Number, format_number, to_fraction

# Characters of an expression.
_LONGEST = 1000
# Levels of an expression.
_DEEPEST = 60
_ZERO = Fraction(0)
_ONE = Fraction(1)
_ARGUMENTS = {"abs": 1, "clip": 3, "min": 2, "max": 2}
_RULE = "use x, numbers, + - *, abs(e), clip(e, a, b), min(e, a), max(e, a)"
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


def function_sensitivity(text: str, *, lower: Number | None, upper: Number | None) -> FunctionSensitivity:
    """Return how far f(x) can move when x, in [lower, upper], moves by at most 1.

    f is written with x, numbers, + - *, abs(e), clip(e, a, b), min(e, a) and max(e, a). None is no bound on that side.
    Interval arithmetic in exact fractions bounds f' and the range of f (both for generalised derivatives); the value is
    the smaller of max |f'| min(1, u - l) and the width of the range. It is the least bound, `exact`, where f is linear;
    where f is convex or concave (by the sign of f'') and monotone over the unit at both ends, a difference of two values
    of f; and where a pair of points tried (by the ends and constants) attains it. Elsewhere it is an upper bound, and
    infinity there means that none was found; a polynomial of degree 2 or more on an unbounded x has none. Units of f.

    Raises QuestionRefused for text that is not such an expression, DeclarationError for bounds that are no numbers.

    >>> function_sensitivity("x + x", lower=None, upper=None).value
    2.0
    >>> function_sensitivity("x * x", lower=None, upper=None)
    FunctionSensitivity(value=inf, exact=True, because='the slope of x * x has no bound for x in [-inf, inf]: clip x')
    >>> function_sensitivity("x * x", lower=-3, upper=2).value
    5.0

    Dwork, McSherry, Nissim, Smith (2006), section 2, with the table a single number; Moore, Kearfott, Cloud,
    "Introduction to Interval Analysis" (2009), chapters 5 and 6.
    """
    low = None if lower is None else to_fraction(lower, name="lower")
    high = None if upper is None else to_fraction(upper, name="upper")
    if low is not None and high is not None and low > high:
        raise DeclarationError(
            f"lower must not be above upper, not {format_number(low)} and {format_number(high)}; swap them"
        )
    node = _parse(text)
    within = Interval(low, high)
    jet = _jet(node, within)
    words = ast.unparse(node)
    step = _ONE if low is None or high is None else min(_ONE, high - low)
    steepest = jet.slope.largest
    width = _width(jet.value)
    powers = _polynomial(node)
    if powers is not None and max(powers, default=0) < 2:
        slope = powers.get(1, _ZERO)
        short = "" if step == 1 else f", and x moves by at most {format_number(step)}"
        return _result(abs(slope) * step, True, f"{words} has the slope {format_number(slope)} everywhere{short}")
    ends = _from_ends(node, within, jet)
    if ends is not None:
        return _result(ends, True, f"{words} is steepest at an end of {within}, where a step of 1 moves it so far")
    bounds = [b for b in (None if steepest is None else steepest * step, width) if b is not None]
    if not bounds:
        because = f"the slope of {words} has no bound for x in {within}: clip x"
        return FunctionSensitivity(math.inf, powers is not None, because)
    least = _is_attained(node, within, step, min(bounds))
    if width is not None and min(bounds) == width:
        return _result(width, least, f"{words} lies in {jet.value} for x in {within}, so it moves by its width at most")
    return _result(min(bounds), least, f"{words} has a slope in {jet.slope} for x in {within}")


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
        right = _negate(right) if isinstance(node.op, ast.Sub) else right
        return _Jet(
            left.value.plus(right.value),
            left.slope.plus(right.slope),
            left.curve.plus(right.curve),
            left.smooth and right.smooth,
        )
    assert isinstance(node, ast.Call)
    return _at_kink(node, x)


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
    """Return the largest move of a convex or concave f, which is over the unit at an end, where f is monotone there."""
    if x.lower is None or x.upper is None or not jet.smooth or _sign(jet.curve) == 0:
        return None
    step = min(_ONE, x.upper - x.lower)
    moves = []
    for piece in (Interval(x.lower, x.lower + step), Interval(x.upper - step, x.upper)):
        if _sign(_jet(node, piece).slope) == 0:
            return None
        moves.append(abs(_at(node, piece.upper) - _at(node, piece.lower)))
    return max(moves)


def _sign(of: Interval) -> int:
    if of.lower is not None and of.lower >= 0:
        return 1
    return -1 if of.upper is not None and of.upper <= 0 else 0


def _at(node: ast.expr, x: Fraction | None) -> Fraction:
    value = _jet(node, Interval(x, x)).value.lower
    # The interval is a point.
    assert value is not None
    return value


def _is_attained(node: ast.expr, x: Interval, step: Fraction, bound: Fraction) -> bool:
    """Whether f moves by `bound` between two points `step` apart: at an end, or beside a number of the expression."""
    starts = {_ZERO, *(sign * _number(c) for c in ast.walk(node) if isinstance(c, ast.Constant) for sign in (1, -1))}
    starts |= {end for end in (x.lower, x.upper) if end is not None}
    for start in sorted({t - back for t in starts for back in (_ZERO, step)}):
        inside = (x.lower is None or x.lower <= start) and (x.upper is None or start + step <= x.upper)
        if inside and abs(_at(node, start + step) - _at(node, start)) == bound:
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
    right = _powers(node.right)
    if left is None or right is None:
        return None
    product: dict[int, Fraction] = {}
    if isinstance(node.op, ast.Mult):
        for p, a in left.items():
            for q, b in right.items():
                product[p + q] = product.get(p + q, _ZERO) + a * b
        return product
    sign = 1 if isinstance(node.op, ast.Add) else -1
    return {p: left.get(p, _ZERO) + sign * right.get(p, _ZERO) for p in {*left, *right}}


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
        raise QuestionRefused('a function is text, such as "5 * x"')
    if len(text) > _LONGEST:
        raise QuestionRefused(f"a function may have {_LONGEST} characters, not {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise QuestionRefused(f"{text[:60]!r} is not an expression; {_RULE}") from None
    level: list[ast.expr] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in _operands(node)]
        if not level:
            return tree
    raise QuestionRefused(f"a function may be nested {_DEEPEST} deep")


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Name) and node.id == "x":
        return []
    if isinstance(node, ast.Constant):
        _number(node)
        return []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        return [node.operand]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        return [node.left, node.right]
    if isinstance(node, ast.Call) and not node.keywords and _function_name(node) in _ARGUMENTS:
        if len(node.args) != _ARGUMENTS[_function_name(node)]:
            raise QuestionRefused(
                f"{_function_name(node)} takes {_ARGUMENTS[_function_name(node)]} argument(s), not {len(node.args)}"
            )
        _limits(node)
        return node.args[:1]
    raise QuestionRefused(f"{ast.unparse(node)[:60]!r} is not understood; {_RULE}")


def _function_name(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


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


def _read_sign(node: ast.expr) -> Fraction:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        return _read_sign(node.operand) * (1 if isinstance(node.op, ast.UAdd) else -1)
    if isinstance(node, ast.Constant):
        return _number(node)
    raise QuestionRefused(f"{ast.unparse(node)[:60]!r} must be a number: limits come after the first argument")


def _number(node: ast.Constant) -> Fraction:
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        raise QuestionRefused(f"{ast.unparse(node)[:60]!r} is not a number; {_RULE}")
    return to_fraction(node.value, name="a number")
