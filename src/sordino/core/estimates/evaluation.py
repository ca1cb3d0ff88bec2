"""Arithmetic and conditions over columns of released values: the one interpreter of formulas, HAVING, ORDER BY and models.

It may not know any exact answer: what it computes is post-processing, and free. A tree is a list as JSON writes it:
["column", 0], ["number", "1/3"] or [operation, tree, ...]. One that is not stored may hold ["value", v] too, where v is
anything that a column may be:

- an array of doubles, NaN where a value is missing (released numbers, draws of their noise);
- an array of Python objects, None where one is missing: whole numbers and fractions, which stay exact through +, -, *, abs and
  comparisons, text, days and moments;
- a `Truth`.
"""

from __future__ import annotations

import datetime
import functools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

import numpy as np

from sordino.core.loss import parse_fraction
from sordino.core.time_zones import parse_moment


def _unchanged(tree: Any) -> Any:
    return tree


# Stored as it is where a record holds one: it is JSON data already.
Tree = Annotated[Any, _unchanged, _unchanged]

# the relative rounding error of a few steps of arithmetic in doubles
_LAST_PLACES = 2.0**-50
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_ARITHMETIC = ("+", "-", "*")


class Truth(NamedTuple):
    """Where a condition is true and where it is false, each a share from 0 to 1; neither where it is unknown, as in SQL."""

    true: Any
    false: Any


def evaluate(
    tree: Tree, columns: Sequence[Any] = (), reject: Callable[[Any], None] = lambda _: None, *, zeros: bool = False
) -> Any:
    """Evaluate an expression of columns to an array of doubles, NaN where it has no value, or of objects.

    `reject` is called with each divisor. With `zeros`, a part that is below 0 in some draws and above it in others is set to
    0 in one of them before `abs` or a product, whose turning point lies there.

    >>> float(evaluate(["/", ["column", 0], ["number", "4"]], [np.array(10.0)]))
    2.5
    """
    value = _interpret(tree, columns, reject, zeros=zeros)
    return _numbers(value) if isinstance(value, Truth) else value


def evaluate_truth(tree: Tree, columns: Sequence[Any] = ()) -> Truth:
    """Return where a condition over columns is true, and where it is false.

    >>> truth = evaluate_truth(["<", ["column", 0], ["number", "2"]], [np.array([1.0, 3.0, np.nan])])
    >>> truth.true.tolist(), truth.false.tolist()
    ([True, False, False], [False, True, False])
    """
    return _truth(_interpret(tree, columns))


def _interpret(
    tree: Tree, columns: Sequence[Any], reject: Callable[[Any], None] = lambda _: None, *, zeros: bool = False
) -> Any:
    kind, *rest = tree
    if kind == "column":
        return columns[int(rest[0])]
    if kind == "number":
        return np.float64(_as_float(parse_fraction(rest[0])))
    if kind == "value":
        return rest[0]
    parts = [_interpret(part, columns, reject, zeros=zeros) for part in rest]
    with np.errstate(all="ignore"):
        if kind in _CONDITIONS:
            return _CONDITIONS[kind](*parts)
        if kind in OPERATORS and kind not in _ARITHMETIC:
            return _compare(kind, *parts)
        if kind in (*_ARITHMETIC, "abs") and any(_holds_objects(part) for part in parts):
            return _each(abs, parts[0]) if kind == "abs" else _each_two(kind, *parts)
        numbers = [_numbers(part) for part in parts]
        if zeros and kind in ("abs", "*"):
            numbers = [_with_zero(part) for part in numbers]
        if kind == "/" and np.ndim(numbers[1]):
            reject(numbers[1])
        result = _FUNCTIONS[kind](*numbers)
        return np.where(np.isfinite(result), result, math.nan)


# ---- What a part is, as a number and as a condition


def _holds_objects(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == object


def _numbers(part: Any) -> Any:
    if isinstance(part, Truth):
        return np.where(part.true + part.false == 0, math.nan, part.true)
    return _each(_as_float, part).astype(float) if _holds_objects(part) else part


def _truth(part: Any) -> Truth:
    if isinstance(part, Truth):
        return part
    numbers = _numbers(part)
    return Truth((numbers != 0) & ~np.isnan(numbers), numbers == 0)


# ---- Conditions, of three values: what is unknown is neither true nor false


def _both(one: Any, other: Any) -> Truth:
    true, false = _truth(one)
    also_true, also_false = _truth(other)
    return Truth(true * also_true, 1.0 - (1.0 - false) * (1.0 - also_false))


def _either(one: Any, other: Any) -> Truth:
    true, false = _truth(one)
    also_true, also_false = _truth(other)
    return Truth(1.0 - (1.0 - true) * (1.0 - also_true), false * also_false)


def _negate(part: Any) -> Truth:
    true, false = _truth(part)
    return Truth(false, true)


def _choose(condition: Any, one: Any, other: Any) -> Any:
    branches = [part if _holds_objects(part) else _numbers(part) for part in (one, other)]
    return np.where(_truth(condition).true, *branches)


def _missing(part: Any) -> Truth:
    absent = np.vectorize(_is_missing, otypes=[bool])(part) if _holds_objects(part) else np.isnan(_numbers(part))
    return Truth(absent, ~absent)


def _compare(op: str, left: Any, right: Any) -> Truth:
    if _holds_objects(left) or _holds_objects(right):
        return _truth(_each_two(op, left, right))
    a = _numbers(left)
    b = _numbers(right)
    present = ~(np.isnan(a) | np.isnan(b))
    holds = OPERATORS[op](a, b)
    return Truth(holds & present, ~holds & present)


_CONDITIONS: dict[str, Callable[..., Any]] = {
    "and": _both,
    "or": _either,
    "not": _negate,
    "missing": _missing,
    "if": _choose,
}


# ---- Objects, one by one


def _each(function: Callable[[Any], Any], part: Any) -> Any:
    """Apply a function to each object that is a number; other objects become missing."""
    of_one = np.frompyfunc(lambda value: function(value) if isinstance(value, int | float | Fraction) else None, 1, 1)
    return np.asarray(of_one(part), dtype=object)


def _each_two(op: str, left: Any, right: Any) -> Any:
    pair = [_numbers(part) if isinstance(part, Truth) else part for part in (left, right)]
    return np.asarray(np.frompyfunc(functools.partial(_of_two, op), 2, 1)(*pair), dtype=object)


def _of_two(op: str, left: Any, right: Any) -> Any:
    """Return left op right; None where one is missing, or where text meets a number."""
    # Most cells are counts, which meet whole constants.
    if type(left) is int and type(right) is int:
        return OPERATORS[op](left, right)
    if _is_missing(left) or _is_missing(right):
        return None
    left = _as_time(left, right)
    right = _as_time(right, left)
    if isinstance(left, datetime.date) != isinstance(right, datetime.date):
        return None
    if left is None or right is None or isinstance(left, str) != isinstance(right, str):
        return None
    if op in _ARITHMETIC and isinstance(left, str):
        return None
    if op in _ARITHMETIC and isinstance(left, datetime.date):
        is_days = op == "-" and not isinstance(left, datetime.datetime)
        return (left - right).days if is_days else None
    if isinstance(left, float) or isinstance(right, float):
        left = _as_float(left)
        right = _as_float(right)
    return OPERATORS[op](left, right)


def _is_missing(value: Any) -> bool:
    return value is None or bool(value != value)


def _as_float(value: float | Fraction) -> float:
    # A constant beyond the largest float is beyond every number of the answer.
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _as_time(value: Any, beside: Any) -> Any:
    """Convert text beside a day or a moment to the same type, and a day beside a moment to its midnight; None for other text."""
    if not isinstance(beside, datetime.date) or not isinstance(value, (str, datetime.date)):
        return value
    try:
        moment = parse_moment(value) if isinstance(value, str) else value
    except ValueError:
        return None
    if not isinstance(beside, datetime.datetime):
        return moment.date() if isinstance(value, str) and isinstance(moment, datetime.datetime) else moment
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    return moment if moment.utcoffset() is not None else moment.replace(tzinfo=beside.tzinfo)


# ---- Numbers


def _with_zero(draws: Any) -> Any:
    """Return draws with the one nearest to 0 as 0, in the rows that have draws on both sides."""
    if np.ndim(draws) < 2:
        return draws
    size = np.where(np.isnan(draws), np.inf, np.abs(draws))
    crosses = (draws < 0).any(axis=-1, keepdims=True) & (draws > 0).any(axis=-1, keepdims=True)
    nearest = np.arange(draws.shape[-1]) == np.argmin(size, axis=-1)[:, None]
    return np.where(crosses & nearest, 0.0, draws)


def _round(value: Any, digits: Any = 0.0) -> Any:
    scale = 10.0**digits
    scaled = np.abs(value) * scale
    # 120 * 0.5125 is 61.5 in decimals, and in doubles a few last places less
    return np.sign(value) * np.floor(scaled + 0.5 + scaled * _LAST_PLACES) / scale


OF_ONE: dict[str, Callable[..., Any]] = {
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "truncate": np.trunc,
    "round": _round,
    "half_even": np.rint,
    "sqrt": np.sqrt,
    "ln": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "exp": np.exp,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = OF_ONE | {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda a, b: np.divide(a, np.where(b == 0, math.nan, b)),
    "remainder": np.fmod,
    "modulo": np.mod,
    "abs": np.abs,
    "least": np.minimum,
    "greatest": np.maximum,
    "nothing": lambda: np.float64(math.nan),
}
