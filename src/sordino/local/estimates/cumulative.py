"""Intervals from square-wave reports that smoothing does not bias: the mean, the share below a point, quantiles.

It may not know protocols: it sees how many reports fell into each cell, and the wave. Everything here is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sordino.local.estimates.binomial import quantile
from sordino.local.estimates.frequency import check_share
from sordino.local.estimates.mean import MeanEstimate, ReportMoments

__all__ = ["SquareWaveCounts"]

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class SquareWaveCounts:
    """Hold how many reports fell into each cell, and the law: a window of cells with `inner` each, the others `outer`.

    Theorem: with F(j) the share of answers in bins 0 .. j, W the window and delta = inner - outer, a cell's probability is
    p_j = outer + delta (F(j) - F(j - W)). So F(j) is a sum of (p_j - outer) / delta over every W-th cell to the left, and 1
    less such a sum to the right: unbiased, whatever the distribution. F rises, so its average over h bins up to j is at
    most F(j), and that over h bins from j on at least; the two ends of an interval are such averages, less and plus their
    errors. h is chosen from public numbers alone. A quantile's interval is all points at which F may be its rank.
    """

    bins: int
    window: int
    inner: float
    outer: float
    supports: tuple[int, ...]

    @property
    def n(self) -> int:
        """The number of reports."""
        return sum(self.supports)

    def mean(self, lower: float, upper: float) -> MeanEstimate:
        """Return the unbiased estimate of the mean of the answers, each counted at the middle of its bin."""
        cells, inside = len(self.supports), self.inner * self.window
        slope = inside - self.outer * self.window  # how far a cell moves on average where the bin moves by one
        size = 2 / (self.bins * slope)
        off = np.arange(cells) - (cells - 1) / 2
        shares = np.array(self.supports, dtype=np.float64) / self.n
        spread = slope * (self.window**2 - 1) / 12 + self.outer * cells * (cells**2 - 1) / 12
        moments = ReportMoments(
            n=self.n,
            first=float(size * (shares @ off)),
            second=float(size**2 * (shares @ off**2)),
            base=size**2 * spread,
            slope=1 / slope,
            most=size * (cells - 1) / 2,
        )
        return MeanEstimate(lower, upper, moments)

    def below(self, confidence: float, *, malicious: float = 0.0) -> tuple[Floats, Floats]:
        """Return the ends of intervals for the share below each edge, by itself, malicious clients counted in."""
        lie, z = check_share(malicious, name="malicious"), quantile(confidence)
        rows, constants = _sums(self.bins, self.window, self.inner, self.outer)
        h = _breadth(self.bins, self.window, self.inner, self.outer, self.n, z)
        ends = []
        for first, sign in ((-h, -1), (-1, 1)):
            weights, added = _average(rows, constants, first, h)
            lied = weights.max(axis=1) + added if sign < 0 else 1 - weights.min(axis=1) - added
            value, error = self._linear(weights, z)
            ends.append(np.clip(value + added + sign * (error + lie * np.maximum(lied, 0.0)), 0.0, 1.0))
        for end in ends:
            end[0], end[-1] = 0.0, 1.0
        return ends[0], ends[1]

    def between(self, rank: float, confidence: float, *, malicious: float = 0.0) -> tuple[int, int]:
        """Return the last edge that surely lies below the quantile and the first surely above, at this confidence."""
        low, high = self.below(confidence, malicious=malicious)
        may = np.flatnonzero((low <= rank) & (rank <= high))
        least, most = (int(may[0]), int(may[-1])) if may.size else (0, self.bins)
        return max(0, least - 1), min(self.bins, most + 1)

    def _linear(self, weights: Floats, z: float) -> tuple[Floats, Floats]:
        """Return weighted sums of the cells' shares, a row of weights each, and their errors.

        The variance is at most (sum w^2 p - (sum w p)^2) / n. Both sums are bounded from the shares found, to the side that
        widens; p is at most `inner` in any case. Few reports: half a step and the skewness of a rare event are added.
        """
        shares, n = np.array(self.supports, dtype=np.float64) / self.n, self.n
        squares = np.square(weights)
        found = squares @ shares + z * np.sqrt(self.inner * np.square(squares).sum(axis=1) / n)
        second, first = np.minimum(self.inner * squares.sum(axis=1), found), weights @ shares
        near = np.maximum(0.0, np.abs(first) - z * np.sqrt(second / n)) ** 2
        step = np.abs(weights).max(axis=1) / n
        return first, z * np.sqrt(np.maximum(second - near, 0.0) / n) + step * (0.5 + z * z / 6)


@lru_cache(maxsize=16)
def _sums(bins: int, window: int, inner: float, outer: float) -> tuple[Floats, Floats]:
    """Return weights of cells, a row for each of F(0) .. F(bins - 2), and constants: F is their sum on average.

    Each is summed over the side that has fewer cells.
    """
    rows, constants = np.zeros((bins - 1, bins + window - 1)), np.zeros(bins - 1)
    for j in range(bins - 1):
        left, right = np.arange(j, -1, -window), np.arange(j + window, bins + window - 1, window)
        cells, sign = (left, 1) if left.size <= right.size else (right, -1)
        rows[j, cells] = sign / (inner - outer)
        constants[j] = (sign < 0) - sign * cells.size * outer / (inner - outer)
    return rows, constants


def _average(rows: Floats, constants: Floats, first: int, h: int) -> tuple[Floats, Floats]:
    """Return the averages over the h bins from `first` on, counted from each of the edges 0 .. bins.

    F is 0 before the first bin and 1 from the last on.
    """
    bins = len(rows) + 1
    place = np.arange(bins + 1) + first
    starts, ends = np.clip(place, 0, bins - 1), np.clip(place + h, 0, bins - 1)
    added = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
    more = np.concatenate([[0.0], np.cumsum(constants)])
    beyond = np.clip(place + h - (bins - 1), 0, h)
    return (added[ends] - added[starts]) / h, (more[ends] - more[starts] + beyond) / h


@lru_cache(maxsize=256)
def _breadth(bins: int, window: int, inner: float, outer: float, n: int, z: float) -> int:
    """Return the number of bins to average over that makes the middle interval narrowest, were answers level."""
    rows, constants = _sums(bins, window, inner, outer)
    chance = outer + (inner - outer) * window / (bins + window - 1)

    def width(h: int) -> float:
        weights, _ = _average(rows, constants, -h, h)
        return h / bins + 2 * z * math.sqrt(chance * float(np.square(weights[bins // 2]).sum()) / n)

    return min(sorted({max(1, round(bins * 2 ** (-i / 2))) for i in range(2, 21)}), key=width)
