"""Flat and hierarchical histograms: what to count, how to combine the counts, and which is cheaper for ranges. Public only.

A hierarchical histogram counts runs of b^0, b^1, ... keys as well, each level with its part of the loss; the best linear
unbiased combination of all levels (Hay, Rastogi, Miklau, Suciu 2010) makes long ranges cheap and short ones dearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sordino.core.noise.laws import NoiseLaw
from sordino.synth.arrays import Codes, Floats

BRANCHES = (2, 4, 8, 16)
_NEGLIGIBLE = 1e-14


@dataclass(frozen=True, slots=True)
class Layout:
    """The widths, in keys, of the runs that are counted: (1,) is a flat histogram."""

    size: int
    widths: tuple[int, ...]

    @property
    def flat(self) -> bool:
        """Whether only single keys are counted."""
        return self.widths == (1,)

    def codes(self, width: int) -> Codes:
        """Return the run of each key."""
        return np.arange(self.size) // width


def layout_of(size: int, branch: int | None) -> Layout:
    """Return the levels of a hierarchy that branches by `branch`, flat for None; its top run is never all keys."""
    if branch is None:
        return Layout(size, (1,))
    widths = [1]
    while widths[-1] * branch < size:
        widths.append(widths[-1] * branch)
    return Layout(size, tuple(widths))


def best_layout(size: int, ranges: Sequence[tuple[int, int]], *, pure: bool) -> Layout:
    """Return the layout with the least total variance over ranges of keys [a, b): by public parameters alone."""
    layouts = [layout_of(size, b) for b in (None, *BRANCHES) if b is None or b < size]
    return min(layouts, key=lambda made: float(range_variances(made, ranges, pure=pure).sum()))


def range_variances(layout: Layout, ranges: Sequence[tuple[int, int]], *, pure: bool) -> Floats:
    """Return the variance of each range, in units of that of a flat histogram's cell at the same loss.

    With k levels a level's noise has k^2 times the variance for a pure loss, k times for rho.
    """
    level = float(len(layout.widths)) ** (2 if pure else 1)
    chosen = np.zeros((len(ranges), layout.size))
    for row, (low, high) in enumerate(ranges):
        chosen[row, low:high] = 1.0
    found: Floats = level * ((chosen @ _spread(layout)) * chosen).sum(axis=1)
    return found


def combine_levels(layout: Layout, levels: Sequence[Floats]) -> Floats:
    """Return the best linear unbiased counts of single keys from the noisy counts of every level, equally noisy."""
    gathered = np.zeros(layout.size)
    for width, counts in zip(layout.widths, levels, strict=True):
        gathered += counts[layout.codes(width)]
    made: Floats = _spread(layout) @ gathered
    return made


@lru_cache(maxsize=16)
def _spread(layout: Layout) -> Floats:
    """Return the covariance of the combined counts in units of a level's variance: the inverse of A'A."""
    square = np.zeros((layout.size, layout.size))
    for width in layout.widths:
        run = layout.codes(width)
        square += run[:, None] == run[None, :]
    made: Floats = np.asarray(np.linalg.inv(square), dtype=np.float64)
    return made


def weights_of(layout: Layout, low: int, high: int) -> list[Floats]:
    """Return how much each level's counts weigh in the estimate of a range."""
    chosen = np.zeros(layout.size)
    chosen[low:high] = 1.0
    spread = _spread(layout) @ chosen
    codes = [layout.codes(w) for w in layout.widths]
    found: list[Floats] = [np.asarray(np.bincount(c, weights=spread), dtype=np.float64) for c in codes]
    return found


def sum_quantile(law: NoiseLaw, count: int, confidence: float) -> int:
    """Return the least whole t with P(|X1 + ... + Xn| > t) <= 1 - confidence for n draws of a law: by its exact convolution.

    >>> from fractions import Fraction
    >>> from sordino.core.noise.laws import DiscreteLaplace
    >>> sum_quantile(DiscreteLaplace(Fraction(2)), 1, 0.95) == DiscreteLaplace(Fraction(2)).error(0.95)
    True
    """
    tails = [1.0]
    while tails[-1] > _NEGLIGIBLE:
        tails.append(law.tail(len(tails) - 1))
    sides = -np.diff(tails)  # P(|X| = 0), P(|X| = 1), ...
    one = np.concatenate([sides[:0:-1] / 2.0, sides[:1], sides[1:] / 2.0])
    width = (len(one) - 1) * count + 1
    law_of_sum = np.fft.irfft(np.fft.rfft(one, 2 * width) ** count, 2 * width)[:width]
    middle = width // 2
    held = np.cumsum(np.concatenate([law_of_sum[middle : middle + 1], 2.0 * law_of_sum[middle + 1 :]]))
    return int(np.searchsorted(held, min(confidence + 1e-10, held[-1])))


def quantile(confidence: float, excess: float) -> float:
    """Return the quantile of |X| / deviation for a sum of that excess kurtosis (Cornish & Fisher 1938), at least normal.

    >>> 2.1 < quantile(0.95, 3.0) < 2.2
    True
    """
    from statistics import NormalDist

    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    return max(z + (z**3 - 3.0 * z) * excess / 24.0, z) if z < 3.5 else z * (1.0 + math.log1p(excess))
