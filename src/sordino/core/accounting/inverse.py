"""The epsilon at which a figure that changes with it meets a limit, from the feasible side. It knows no figure."""

from __future__ import annotations

import math
from collections.abc import Callable

from sordino.core.rounding import bisect

_MOST = 2048.0  # beyond it every exponential of an epsilon is 0 or infinite, so that no figure changes


def largest_epsilon(figure: Callable[[float], float], limit: float) -> float:
    """Return the largest epsilon at which a figure that rises with it is within `limit`; math.inf where it always is.

    >>> largest_epsilon(lambda epsilon: epsilon * epsilon, 4.0)
    2.0
    """
    high = 1.0
    while figure(high) <= limit:
        if high > _MOST:
            return math.inf
        high *= 2
    return bisect(lambda epsilon: figure(epsilon) > limit, 0.0, high)[0]


def least_epsilon(figure: Callable[[float], float], limit: float) -> float:
    """Return the least epsilon above 0 at which a figure that falls with it is within `limit`.

    >>> least_epsilon(lambda epsilon: 1 / epsilon, 0.5)
    2.0
    """
    high = 1.0
    while figure(high) > limit:
        high *= 2
    return bisect(lambda epsilon: figure(epsilon) <= limit, 0.0, high)[1]
