"""Outward rounding of exact fractions to floats, and bisection for the point from which a condition holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction


def float_up(value: Fraction) -> float:
    """Return the least float at or above `value`; infinity beyond all floats.

    >>> Fraction(float_up(Fraction(1, 10))) >= Fraction(1, 10), float_up(Fraction(10) ** 400)
    (True, inf)
    """
    try:
        near = value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.nextafter(math.inf, 0.0)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def float_down(value: Fraction) -> float:
    """Return the greatest float at or below `value`; minus infinity below all floats."""
    return -float_up(-value)


def bisect(holds: Callable[[float], bool], low: float, high: float, *, relative: float = 0.0) -> tuple[float, float]:
    """Return a bracket of the point from which `holds` is true; it is false at `low`, true at `high`.

    It is halved until its width is `relative` times its upper end, or no float is between. So the upper end is safe where the
    condition must hold, the lower one where it must not.

    >>> bisect(lambda x: x * x >= 2, 0.0, 2.0)
    (1.414213562373095, 1.4142135623730951)
    """
    while high - low > relative * abs(high):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def bisect_whole(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least whole number above `low` at which `holds` is true; it is false at `low`, true at `high`, and rises.

    >>> bisect_whole(lambda n: n * n >= 200, 0, 200)
    15
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
