"""Running sums of sorted numbers and of their squares: those of windows, and of a prefix and a suffix, at once.

It knows numbers; not tables, neighbors or queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from sordino.lab.sensitivity.universe import Floats


class RunningSums:
    """Hold running sums of an array and of its squares; each sum of a run of values is then a difference of two."""

    __slots__ = ("size", "squares", "sums")

    def __init__(self, values: Floats) -> None:
        self.size = values.size
        self.sums = np.append(0.0, np.cumsum(values))
        self.squares = np.append(0.0, np.cumsum(values * values))

    def windows(self, width: int) -> tuple[Floats, Floats]:
        """Return the sums of each window of `width` neighboring values, and of their squares."""
        stop = self.size + 1 - width
        return self.sums[width:] - self.sums[:stop], self.squares[width:] - self.squares[:stop]

    def ends(self, first: Any, last: Any) -> tuple[Any, Any]:
        """Return the sums over [:first] and [last:], and of their squares; both may be arrays."""
        sums = self.sums[first] + self.sums[-1] - self.sums[last]
        return sums, self.squares[first] + self.squares[-1] - self.squares[last]


def exact_running_sums(values: Iterable[float], offset: Fraction) -> list[Fraction]:
    """Return the sums of the first 0, 1, ... of some numbers that each lie `offset` higher, without rounding.

    >>> exact_running_sums([1.0, 2.5], Fraction(10))
    [Fraction(0, 1), Fraction(11, 1), Fraction(47, 2)]
    """
    return list(accumulate((Fraction(value) + offset for value in values), initial=Fraction(0)))
