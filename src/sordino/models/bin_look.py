"""Where numbers lie and how far they spread, by noisy counts of bins: more than sums and squares say at a small pure epsilon."""

from __future__ import annotations

import functools
import math

import numpy as np

from sordino.ask.queries.bin_counts import bins_of, values_of
from sordino.ask.queries.moment_matrix import CompiledMoments
from sordino.models.columns import Floats

# Few bins are told from their noise sooner, many cut a narrow column finer.
LEAST_BINS = 8
MOST_BINS = 32
# Measured on three tables at a pure .1.
SURE_BINS = 36.0
# A column spreads by half a bin at least, and by so much of half of its range at most.
_WIDEST = 0.75


def choose_bins(rows: float, noise: float, sure: float) -> int:
    """Return into how many bins to cut each number, of about so many rows, where a count has noise of this deviation.

    A power of two at which rows that are spread over all bins are the root of `sure` deviations above the noise together.
    """
    bins = (rows / noise) ** 2 / sure
    return int(2 ** math.floor(math.log2(min(max(bins, LEAST_BINS), MOST_BINS))))


def find_spreads(
    counts: Floats, compiled: CompiledMoments, bins: int, rows: float, noise: float
) -> tuple[Floats, Floats]:
    """Return the mean and the spread of each number, in halves of its declared range, from noisy counts of its bins.

    Both are means over normal shapes, each as likely as the counts are under it: a column that the noise hides is thought to
    lie anywhere. `counts` are those of all numbers, one after the other; `noise` is the deviation of each.
    """
    means = []
    spreads = []
    at = 0
    for number in compiled.numbers:
        size = bins_of(number, bins)
        masses, places, widths = _shapes(size, values_of(number))
        misses = ((counts[at : at + size] - rows * masses) ** 2).sum(axis=1) / (2 * noise**2)
        likely = np.exp(misses.min() - misses)
        likely /= likely.sum()
        means.append(float(likely @ places))
        spreads.append(math.exp(float(likely @ np.log(widths))))
        at += size
    return np.array(means), np.array(spreads)


@functools.lru_cache(maxsize=16)
def _shapes(bins: int, values: int) -> tuple[Floats, Floats, Floats]:
    """Return what part of the rows each bin has, of normal shapes (shapes, bins), and where each lies and how far it spreads.

    A bin holds the values v, of 0 to `values` - 1, with v bins // values = its number.
    """
    from scipy.special import ndtr

    first = np.ceil(np.arange(1, bins) * values / bins)
    edges = np.concatenate([[-np.inf], 2 * (first - 0.5) / max(values - 1, 1) - 1, [np.inf]])
    least = 1.0 / bins
    widths = least * math.sqrt(2.0) ** np.arange(1 + math.floor(2 * math.log2(max(_WIDEST / least, 1.0))))
    places = np.linspace(-1, 1, 2 * bins + 1)
    wide, place = (grid.ravel() for grid in np.meshgrid(widths, places, indexing="ij"))
    masses: Floats = np.diff(ndtr((edges - place[:, None]) / wide[:, None]), axis=1)
    return masses, place, wide
