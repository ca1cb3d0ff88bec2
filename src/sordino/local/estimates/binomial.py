"""Intervals for a share behind two known coins: how many of n respondents hold a label, from the number of supports.

It may not know protocols or labels: it sees a number of supports, n, p and q. Everything here is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.rounding import bisect, bisect_whole

Floats = np.ndarray[Any, np.dtype[np.float64]]

# Below this variance of the supports, their exact law is inverted.
_LUMPY = 16.0
# Above this variance, sums over the exact law would be long.
_MOST = 1000.0


def check_confidence(confidence: float) -> float:
    """Return a confidence; raises DeclarationError unless it lies between 0 and 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise DeclarationError("confidence must lie between 0 and 1, such as 0.95")
    return float(confidence)


def simultaneous_confidence(confidence: float, count: int) -> float:
    """Return the confidence of each of `count` intervals that makes all hold at once with `confidence` (Bonferroni).

    >>> round(simultaneous_confidence(0.95, 10), 12)
    0.995
    """
    return 1 - (1 - check_confidence(confidence)) / max(1, count)


def quantile(confidence: float) -> float:
    """Return how many deviations hold a normal variable with this probability, on both sides together.

    >>> round(quantile(0.95), 3)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + check_confidence(confidence) / 2)


def respondents_interval(
    supports: tuple[int, ...], *, n: int, p: float, q: float, confidence: float
) -> tuple[Floats, Floats]:
    """Return lower and upper ends of the shares of labels among these n respondents, each by itself, in [0, 1].

    The supports of a label that m respondents hold are Binomial(m, p) + Binomial(n - m, q). Where their variance is
    small the exact tails are inverted; else the score test, with a correction for whole steps (Wilson 1927's idea).
    """

    def ends(z: float, alpha: float) -> tuple[Floats, Floats]:
        if _exact(n, p, q):
            intervals = {c: _invert(c, n, p, q, alpha) for c in set(supports)}
            return np.array([intervals[c][0] for c in supports]) / n, np.array([intervals[c][1] for c in supports]) / n
        return _score_ends(np.array(supports, dtype=np.float64), n, p, q, z)

    return _beside_bounds(ends, n=n, p=p, q=q, confidence=confidence)


def population_interval(
    supports: tuple[int, ...], *, n: int, p: float, q: float, confidence: float
) -> tuple[Floats, Floats]:
    """Return the same for the population that the n respondents are independent draws of: supports are Binomial(n, s).

    s = f p + (1 - f) q. Exact tails (Clopper & Pearson 1934) where the variance is small, else Wilson 1927 with a
    correction for whole steps.
    """

    def ends(z: float, alpha: float) -> tuple[Floats, Floats]:
        if _exact(n, p, q):
            intervals = {c: _clopper(c, n, alpha) for c in set(supports)}
            low = np.array([intervals[c][0] for c in supports])
            high = np.array([intervals[c][1] for c in supports])
        else:
            low, high = _wilson_ends(np.array(supports, dtype=np.float64), n, z)
        return np.clip((low - q) / (p - q), 0.0, 1.0), np.clip((high - q) / (p - q), 0.0, 1.0)

    return _beside_bounds(ends, n=n, p=p, q=q, confidence=confidence)


def _beside_bounds(
    ends: Callable[[float, float], tuple[Floats, Floats]], *, n: int, p: float, q: float, confidence: float
) -> tuple[Floats, Floats]:
    """Return the ends of tests of either side at a half of the miss, but beside 0 and 1 of one side at the whole of it.

    Theorem: a share s near 0 is rejected for many supports alone, one near 1 for few alone, the others for both. Which is
    near follows from public numbers, so every share is rejected with the miss at most; beside a bound, where the other
    side is cut off, it is about the miss itself, not half of it.
    """
    alpha = 1.0 - check_confidence(confidence)
    z = quantile(confidence)
    one_sided = NormalDist().inv_cdf(max(1 - alpha, 0.5))
    near, far = ((z - one_sided) * math.sqrt(r * (1 - r) / n) / (p - q) for r in (q, p))
    low, high = ends(z, alpha / 2)
    if near + far >= 1:
        return low, high
    lower, upper = ends(one_sided, min(alpha, 0.5))
    least = np.where(lower <= near, lower, np.maximum(low, near))
    most = np.where(upper >= 1 - far, upper, np.minimum(high, 1 - far))
    return np.minimum(least, 1 - far), np.maximum(most, near)


def _score_ends(counts: Floats, n: int, p: float, q: float, z: float) -> tuple[Floats, Floats]:
    """Return the least and the greatest share whose score test does not reject beyond z deviations, whole steps allowed for."""
    d = p - q
    base = q * (1 - q)
    slope = d * (1 - p - q)
    limits = []
    for step, sign in ((-0.5, -1.0), (0.5, 1.0)):
        y = (counts + step) / n - q
        middle = 2 * n * y * d + z * z * slope
        root = np.maximum(middle**2 - 4 * n * d * d * (n * y**2 - z * z * base), 0.0)
        limits.append(np.clip((middle + sign * np.sqrt(root)) / (2 * n * d * d), 0.0, 1.0))
    return limits[0], limits[1]


def _wilson_ends(counts: Floats, n: int, z: float) -> tuple[Floats, Floats]:
    """Return Wilson's ends of a binomial's share, whole steps allowed for."""
    limits = []
    for step, sign in ((-0.5, -1.0), (0.5, 1.0)):
        s = np.clip((counts + step) / n, 0.0, 1.0)
        spread = z * np.sqrt(s * (1 - s) / n + z * z / (4 * n * n))
        limits.append((s + z * z / (2 * n) + sign * spread) / (1 + z * z / n))
    return limits[0], limits[1]


@lru_cache(maxsize=4096)
def tail(least: int, m: int, n: int, p: float, q: float) -> float:
    """Return P(Binomial(m, p) + Binomial(n - m, q) >= least).

    >>> round(tail(1, 1, 2, 0.5, 0.25), 6)
    0.625
    """
    first, mass = binomial_law(m, p)
    second, more = binomial_law(n - m, q)
    both = np.convolve(mass, more)
    cut = min(max(least - first - second, 0), both.size)
    return float(both[cut:].sum())


def _exact(n: int, p: float, q: float) -> bool:
    variances = (n * p * (1 - p), n * q * (1 - q))
    return min(variances) < _LUMPY and max(variances) < _MOST


def _invert(count: int, n: int, p: float, q: float, alpha: float) -> tuple[int, int]:
    """Return the least and the greatest m that a test of level alpha on either side does not reject."""
    low = bisect_whole(lambda m: tail(count, m, n, p, q) > alpha, -1, n)
    high = bisect_whole(lambda m: 1.0 - tail(count + 1, m, n, p, q) <= alpha, -1, n + 1) - 1
    return min(low, n), max(high, 0)


@lru_cache(maxsize=4096)
def _clopper(count: int, n: int, alpha: float) -> tuple[float, float]:
    """Return Clopper and Pearson's ends for a count of n, by bisection."""

    def chance(least: int, share: float) -> float:
        first, law = binomial_law(n, share)
        return float(law[max(least - first, 0) :].sum())

    low = 0.0
    high = 1.0
    # No share is too small for no support, none too large for n of them: bisection would halve down to the least float.
    if count > 0:
        low, _ = bisect(lambda share: chance(count, share) > alpha, 0.0, 1.0, relative=1e-15)
    if count < n:
        _, high = bisect(lambda share: 1.0 - chance(count + 1, share) <= alpha, 0.0, 1.0, relative=1e-15)
    return low, high


def binomial_law(n: int, p: float) -> tuple[int, Floats]:
    """Return the law of Binomial(n, p) around its mean: the first number of the window, and the probabilities from there.

    The window reaches 9 deviations and 12 steps to both sides; what lies beyond is less than a float can add.
    """
    if n == 0 or p <= 0.0:
        return 0, np.ones(1)
    if p >= 1.0:
        return n, np.ones(1)
    reach = 9.0 * math.sqrt(n * p * (1 - p)) + 12.0
    first = max(0, math.floor(n * p - reach))
    last = min(n, math.ceil(n * p + reach))
    steps = np.arange(first, last, dtype=np.float64)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - steps) / (steps + 1)) + math.log(p / (1 - p)))])
    weights = np.exp(logs - logs.max())
    return first, weights / weights.sum()
