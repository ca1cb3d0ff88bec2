"""Fewer codes for a column: neighboring or rare values that the noise hides are merged. Knows released numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.synth.projection import Floats, project, shrunken
from sordino.synth.sampler import Codes

__all__ = ["DomainCompression", "compress_domain", "within"]

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


def compress_domain(
    counts: Floats, deviation: float, *, ordered: bool, missing: bool, dropped: bool = False, most: int = _MOST_BINS
) -> DomainCompression:
    """Return codes for the keys of a column from its projected noisy counts.

    Ordered columns are cut into runs of keys, each with a mass above the noise of its sum; of others the keys with counts
    below two deviations share one code. `missing` says that the last key is a missing value, which keeps its own code; one
    that the declaration drops (`dropped`) does so only where its count is above three, see `within`.
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


def within(codes: Codes, noisy: Floats, variance: float, totals: Floats, *, missing: bool) -> Floats:
    """Return for each key its share of its code's count: noisy counts shrunken to their mean, then projected.

    A missing value, the last key, that shares a code does not show above the noise: it has no share of it.
    """
    shares = np.ones(len(codes), dtype=np.float64)
    for code in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == code)
        if len(members) == 1:
            continue
        if missing and members[-1] == len(codes) - 1:
            shares[members[-1]], members = 0.0, members[:-1]
            if len(members) == 1:
                continue
        goal = max(float(totals[code]), 1e-9)
        inside = project(shrunken(noisy[members], variance), goal) / goal
        shares[members] = inside
    return shares


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
