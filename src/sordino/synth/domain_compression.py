"""Noisy counts of one column made usable: projected to the simplex, and keys that the noise hides merged into one code.

Knows released numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.synth.arrays import Codes, Floats

__all__ = ["DomainCompression", "compress_domain", "project", "shares_within"]

_MOST_BINS = 64
_RARE = 2.0  # deviations of noise below which a value's count is not told apart from none
_ABSENT = 3.0  # the same for missing values that the declaration drops: a table without any should show none


@dataclass(frozen=True, slots=True)
class DomainCompression:
    """Which code each declared key has, and how many codes there are."""

    codes: Codes
    size: int

    @property
    def whole(self) -> bool:
        """Whether each key is a code of its own, in order."""
        return self.size == len(self.codes)

    def sum_by_code(self, counts: Floats) -> Floats:
        """Return counts by code."""
        made: Floats = np.asarray(np.bincount(self.codes, weights=counts, minlength=self.size), dtype=np.float64)
        return made


def project(counts: Floats, total: float) -> Floats:
    """Return the nearest counts, in least squares, that are not negative and sum to `total`.

    Clipping each cell at zero instead adds up to .4 deviations of noise to every empty cell. Sort-based (Held, Wolfe,
    Crowder 1974).

    >>> project(np.array([3.0, -1.0, 2.0]), 4.0).tolist()
    [2.5, 0.0, 1.5]
    """
    flat = np.asarray(counts, dtype=np.float64).ravel()
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - max(float(total), 0.0)) / np.arange(1, len(flat) + 1)
    kept = int(np.count_nonzero(falling > excess))
    made: Floats = np.maximum(flat - excess[max(kept, 1) - 1], 0.0).reshape(np.shape(counts))
    return made


def compress_domain(
    counts: Floats, deviation: float, *, ordered: bool, missing: bool, dropped: bool = False, most: int = _MOST_BINS
) -> DomainCompression:
    """Return codes for the keys of a column from its projected noisy counts.

    Ordered columns are cut into runs of keys, each with a mass above the noise of its sum; of others the keys with counts
    below two deviations share one code. `missing` says that the last key is a missing value, which keeps its own code; one
    that the declaration drops (`dropped`) does so only where its count is above three, see `shares_within`.
    """
    last = len(counts) - 1 if missing else len(counts)
    if last <= 2:
        codes = np.arange(last)
    else:
        codes = _runs(counts[:last], deviation, most) if ordered else _frequent(counts[:last], deviation, most)
    if missing:
        own = last == 0 or not dropped or counts[last] >= _ABSENT * deviation
        codes = np.append(codes, codes[-1] if not own else codes.max() + 1 if last else 0)
    return DomainCompression(codes, int(codes.max()) + 1)


def shares_within(codes: Codes, noisy: Floats, variance: float, totals: Floats, *, missing: bool) -> Floats:
    """Return for each key its share of its code's count: noisy counts shrunken to their mean, then projected.

    A missing value, the last key, that shares a code does not show above the noise: it has no share of it.
    """
    shares = np.ones(len(codes), dtype=np.float64)
    for code in np.flatnonzero(np.bincount(codes) > 1).tolist():
        members = np.flatnonzero(codes == code)
        if missing and members[-1] == len(codes) - 1:
            shares[members[-1]], members = 0.0, members[:-1]
        if len(members) > 1:
            goal = max(float(totals[code]), 1e-9)
            shares[members] = project(_shrink(noisy[members], variance), goal) / goal
    return shares


def _shrink(counts: Floats, variance: float) -> Floats:
    """Return counts drawn towards their mean by as much as their noise explains (James & Stein 1961), same total."""
    mean = counts.mean()
    spread = float(np.square(counts - mean).sum())
    kept = 0.0 if spread <= 0 else max(0.0, 1.0 - max(len(counts) - 3, 1) * variance / spread)
    made: Floats = mean + kept * (counts - mean)
    return made


def _runs(counts: Floats, deviation: float, most: int) -> Codes:
    codes = np.zeros(len(counts), dtype=np.int64)
    left, slots, mass, width, code = float(counts.sum()), most, 0.0, 0, 0
    for i, count in enumerate(counts.tolist()):
        codes[i] = code
        mass, width = mass + count, width + 1
        enough = max(_RARE * deviation * math.sqrt(width), left / max(slots, 1))
        if mass >= enough and i + 1 < len(counts) and code + 1 < most:
            left, slots, mass, width, code = left - mass, slots - 1, 0.0, 0, code + 1
    if code > 0 and mass < _RARE * deviation * math.sqrt(max(width, 1)):  # the tail alone is noise: join it
        codes[codes == code] = code - 1
    return codes


def _frequent(counts: Floats, deviation: float, most: int) -> Codes:
    kept = np.flatnonzero(counts >= _RARE * deviation)
    if len(kept) > most - 1:
        kept = np.sort(kept[np.argsort(-counts[kept], kind="stable")[: most - 1]])
    if len(kept) >= len(counts) - 1 and len(counts) <= most:
        return np.arange(len(counts))
    codes = np.full(len(counts), len(kept), dtype=np.int64)
    codes[kept] = np.arange(len(kept))
    return codes
