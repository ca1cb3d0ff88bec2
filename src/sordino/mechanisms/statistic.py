"""The statistics that robust mechanisms release: exact, from sorted whole steps. Used by the curator alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from sordino.queries.aggregates.robust import level_of

__all__ = ["FINE", "exact_statistic", "fine_steps"]

FINE = 1024  # parts of a step in which statistics are told: a mean or a quantile lies between steps


def exact_statistic(statistic: str, values: Any, *, lower: int, upper: int) -> Fraction:
    """Return the mean, median, quantile:q (linear interpolation) or var of sorted whole numbers, exactly.

    Of no values the mean and quantiles are the midpoint of the bounds, the variance 0. `values` is a sorted int64 array.
    """
    size, level = len(values), level_of(statistic)
    if size == 0:
        return Fraction(0) if statistic == "var" else Fraction(lower + upper, 2)
    if level is not None:
        place = (size - 1) * level
        below = math.floor(place)
        low, high = int(values[below]), int(values[min(below + 1, size - 1)])
        return low + (place - below) * (high - low)
    total = sum(values.tolist())
    if statistic == "mean":
        return Fraction(total, size)
    squares = sum(v * v for v in values.tolist())
    return Fraction(size * squares - total * total, size * size)


def fine_steps(value: Fraction) -> int:
    """Return a value in parts of a step, to the nearest: this moves two values apart by at most one part more."""
    return math.floor(value * FINE + Fraction(1, 2))
