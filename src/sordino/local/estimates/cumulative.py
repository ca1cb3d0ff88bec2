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

Floats = np.ndarray[Any, np.dtype[np.float64]]

# The share of the range that answers are taken to spread over, where breadths are chosen.
_SPREAD = 0.7


@dataclass(frozen=True, slots=True)
class SquareWaveCounts:
    """Hold how many reports fell into each cell, and the law: a window of cells with `inner` each, the others `outer`.

    Theorem: a report of bin i has law A(i): `inner` in the window of i, `outer` elsewhere. With any D > 0, the weights K =
    (A' D A)^-1 A' D have K A = 1, so K times the shares of cells is unbiased for the share of each bin, and its sums for the
    share F(e) of answers below an edge e, whatever the distribution; with D the inverse of a cell's probability under level
    answers their variance is the least there (Gauss, Markov). F rises, so a weighted average over edges up to e is at most
    F(e), and one over edges from e on at least; the ends of an interval are such averages, less and plus their errors. The
    average's weights fall linearly over h edges, and h is chosen from public numbers alone.

    A quantile's interval begins at the last edge up to which every upper end lies below the rank, and ends at the first from
    which every lower end lies above. It misses on one side only if the upper end fails at the first edge where F has
    reached the rank, or the lower one at the last where it has not passed it: one edge each, so as often as at one edge.
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
        cells = len(self.supports)
        inside = self.inner * self.window
        # How far a cell moves on average where the bin moves by one.
        slope = inside - self.outer * self.window
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
        lie = check_share(malicious, name="malicious")
        z = quantile(confidence)
        h = _breadth(self.bins, self.window, self.inner, self.outer, self.n, z)
        ends = []
        for sign in (-1, 1):
            weights = _average(self.bins, self.window, self.inner, self.outer, h, sign)
            lied = weights.max(axis=1) if sign < 0 else 1 - weights.min(axis=1)
            value, error = self._linear(weights, z)
            ends.append(np.clip(value + sign * (error + lie * np.maximum(lied, 0.0)), 0.0, 1.0))
        for end in ends:
            end[0] = 0.0
            end[-1] = 1.0
        return ends[0], ends[1]

    def between(self, rank: float, confidence: float, *, malicious: float = 0.0) -> tuple[int, int]:
        """Return the last edge that surely lies below the quantile and the first surely above, at this confidence."""
        low, high = self.below(confidence, malicious=malicious)
        reached = np.flatnonzero(high >= rank)
        passed = np.flatnonzero(low <= rank)
        return max(0, int(reached[0]) - 1), min(self.bins, int(passed[-1]) + 1)

    def _linear(self, weights: Floats, z: float) -> tuple[Floats, Floats]:
        """Return weighted sums of the cells' shares, a row of weights each, and their errors.

        The variance is at most (sum w^2 p - (sum w p)^2) / n. Both sums are taken from the shares found, a deviation of theirs
        to the side that widens; p is at most `inner` in any case. The skewness of few reports is added.
        """
        shares = np.array(self.supports, dtype=np.float64) / self.n
        n = self.n
        squares = np.square(weights)
        widened = squares @ shares + np.sqrt(self.inner * np.square(squares).sum(axis=1) / n)
        first = weights @ shares
        second = np.minimum(self.inner * squares.sum(axis=1), widened)
        near = np.maximum(0.0, np.abs(first) - np.sqrt(second / n)) ** 2
        step = np.abs(weights).max(axis=1) / n
        return first, z * np.sqrt(np.maximum(second - near, 0.0) / n) + step * z * z / 6


@lru_cache(maxsize=8)
def _sums(bins: int, window: int, inner: float, outer: float) -> Floats:
    """Return weights of cells whose sum is F on average, a row for each of the edges 0 .. bins."""
    cells = bins + window - 1
    offset = np.arange(cells)[:, None] - np.arange(bins)[None, :]
    law = np.where((offset >= 0) & (offset < window), inner, outer)
    inverse = law.T / law.mean(axis=1)
    shares = np.linalg.solve(inverse @ law, inverse)
    rows = np.concatenate([np.zeros((1, cells)), np.cumsum(shares, axis=0)])
    rows[-1] = 1.0
    return rows


@lru_cache(maxsize=16)
def _average(bins: int, window: int, inner: float, outer: float, h: int, sign: int) -> Floats:
    """Return weights of cells, a row for each edge: the average of F over h edges to the left (-1) or right."""
    weights: Floats = _falling(bins, h, sign, np.arange(bins + 1)) @ _sums(bins, window, inner, outer)
    return weights


def _falling(bins: int, h: int, sign: int, edges: np.ndarray[Any, Any]) -> Floats:
    """Return weights of edges, a row for each of some: h, h - 1 .. 1 from it on to the left (-1) or right, summing to 1."""
    out = np.zeros((edges.size, bins + 1))
    for step in range(h):
        out[np.arange(edges.size), np.clip(edges + sign * step, 0, bins)] += (h - step) * 2 / (h * (h + 1))
    return out


@lru_cache(maxsize=256)
def _breadth(bins: int, window: int, inner: float, outer: float, n: int, z: float) -> int:
    """Return the number of edges to average over that makes the middle interval narrowest, were answers level.

    They are taken to lie within 0.7 of the range: where they spread over all of it, that costs a fiftieth of the width, and
    it saves more where they lie closer together.
    """
    rows = _sums(bins, window, inner, outer)
    law = np.full(bins, 1 / bins)
    chance = outer + (inner - outer) * np.convolve(law, np.ones(window))

    def width(h: int) -> float:
        weights = _falling(bins, h, -1, np.array([bins // 2]))[0] @ rows
        spread = float(np.square(weights) @ chance - (weights @ chance) ** 2)
        return 2 * (h - 1) / 3 / bins + _SPREAD * 2 * z * math.sqrt(spread / n)

    return min(sorted({max(1, round(bins * 2 ** (-i / 2))) for i in range(0, 21)}), key=width)
