"""Figures that a person states: checked at the door, and the walk to the feasible side of a bound. Knows no reading."""

from __future__ import annotations

import math
from collections.abc import Callable

from sordino.errors import DeclarationError
from sordino.loss import Number, to_fraction

__all__ = ["amount", "between", "chance", "largest", "least", "whole"]


def chance(value: Number, *, name: str, zero: bool = False, one: bool = False) -> float:
    """Return a probability in (0, 1) as a float; `zero` and `one` say which ends are allowed too."""
    found = to_fraction(value, name=name)
    if not ((0 < found < 1) or (zero and found == 0) or (one and found == 1)):
        start, end = "[" if zero else "(", "]" if one else ")"
        near = "0" if zero and found <= 0 else "1" if one and found >= 1 else "1e-9" if found <= 0 else "0.999"
        hint = f"did you mean {float(found / 100):g}?" if 2 <= found < 100 else f"the nearest that works: {near}"
        raise DeclarationError(f"{name} must lie in {start}0, 1{end}, not {float(found):g}; {hint}")
    return float(found)


def amount(value: Number, *, name: str, zero: bool = False) -> float:
    """Return a finite number above 0 (or from 0 on) as a float."""
    found = to_fraction(value, name=name)
    if found < 0 or (found == 0 and not zero):
        raise DeclarationError(f"{name} must be {'at least' if zero else 'above'} 0, not {float(found):g}")
    try:
        made = float(found)
    except OverflowError:
        raise DeclarationError(f"{name} must be at most 1e308") from None
    if made == 0 and found > 0:
        raise DeclarationError(f"{name} must be at least 1e-307")
    return made


def between(value: float, low: float, *, name: str, because: str) -> None:
    """Refuse a limit that is not above what holds at epsilon 0, and say what the least one is."""
    if value <= low:
        raise DeclarationError(
            f"{name} of {value:g} cannot be had: {because} is {low:.12g} even at epsilon 0; the nearest that works is "
            f"anything above {low:.12g}"
        )


def whole(value: object, *, name: str, least: int) -> int:
    """Return a whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DeclarationError(f"{name} must be a whole number, {least} or more, not {value!r}")
    return value


def largest(start: float, holds: Callable[[float], bool]) -> float:
    """Return `start`, or the nearest float below it (in doubling steps of its last place) at which a bound holds."""
    found, step = start, math.ulp(start)
    while found > 0 and not holds(found):
        found, step = found - step, 2 * step
    return max(found, 0.0)


def least(start: float, holds: Callable[[float], bool]) -> float:
    """Return `start`, or the nearest float above it (in doubling steps of its last place) at which a bound holds."""
    found, step = start, math.ulp(start)
    while not holds(found):
        found, step = found + step, 2 * step
    return found
