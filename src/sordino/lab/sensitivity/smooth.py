"""Smooth sensitivity of quantiles, mean and variance of bounded numbers: what may scale the noise in place of GS.

The figure depends on the data and is itself private; only noise scaled by it may leave. This file knows no noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.lab.sensitivity.stability import Array, DistanceCurve, Windows, profile

Indices = npt.NDArray[np.int64]

_HAIR = 1e-12  # relative; every step below errs by less
_SPECK = 1e-300  # times the width: more than any term whose exponential is lost to underflow


@dataclass(frozen=True, slots=True)
class SmoothSensitivity:
    """Hold S = max over k of exp(-beta k) A_k: `value`, rounded up, the `distance` k that attains it, and why.

    `exact` says whether A_k is the largest local sensitivity within k moves, or a smooth upper bound on it.
    """

    value: float
    distance: int
    exact: bool
    because: str


def smooth_sensitivity(
    query: str, data: npt.ArrayLike, *, lower: Number, upper: Number, neighbors: str, beta: Number
) -> SmoothSensitivity:
    """Return a beta-smooth bound on the local sensitivity of a query at a table of numbers clipped to [lower, upper].

    S(D) = max over k >= 0 of exp(-beta k) A_k(D), A_k the largest local sensitivity within k moves. S(D) is at least
    the local sensitivity at D, and S(D) <= exp(beta) S(D') for neighbors; so f(D) + (2 S / epsilon) Laplace is
    (epsilon, delta)-private for beta = epsilon / (2 ln(2/delta)), the Laplace being one answer.

    `query` is "median", "quantile:q" (linear interpolation, as numpy), "mean" or "var" (of n, not n - 1). `neighbors`
    is "add_remove", where n is private too, or "replace". S is the least such bound for a quantile and the mean under
    replace and for the median under add_remove, an upper bound on it elsewhere, with `exact` False (the formulas stand
    in `sordino.lab.sensitivity.stability`). An empty table has the middle of the bounds as its quantiles and mean, and the
    variance 0. Units: those of the data, squared for "var". Time O(n log n).

    Not private: S depends on the data. Raises DeclarationError for bounds, data or a beta that are no numbers,
    QuestionRefused for an unknown query.

    >>> found = smooth_sensitivity("median", [1, 2, 3, 10, 11], lower=0, upper=20, neighbors="replace", beta=0.05)
    >>> round(found.value, 3), found.distance, found.exact
    (15.576, 5, True)

    Nissim, Raskhodnikova, Smith, "Smooth Sensitivity and Sampling in Private Data Analysis" (2007), sections 2 and 3.
    """
    decay = _positive(beta)
    found = profile(query, data, lower=lower, upper=upper, neighbors=neighbors)
    if isinstance(found, DistanceCurve):
        terms = found.values * np.exp(-decay * np.arange(len(found.values)))
        distance = int(terms.argmax())
        best, widest = float(terms[distance]), float(found.values[-1])
    else:
        best, distance = _widest(found, decay)
        widest = float(found.padded[-1] - found.padded[0])
    value = best * (1 + _HAIR) + widest * _SPECK
    return SmoothSensitivity(value, distance, found.exact if isinstance(found, DistanceCurve) else True, found.because)


def _positive(beta: Number) -> float:
    """Return beta as a float, rounded down."""
    decay = to_fraction(beta, name="beta")
    nearest = float(decay)
    rounded = nearest if Fraction(nearest) <= decay else math.nextafter(nearest, 0.0)
    if rounded <= 0:
        raise DeclarationError(f"beta must be above 0, such as epsilon / (2 ln(2/delta)), not {format_number(decay)}")
    return rounded


def _widest(windows: Windows, decay: float) -> tuple[float, int]:
    """Return the largest exp(-beta k) gap(p, p + k + 1) over windows with p <= i <= p + k + 1, and its k.

    For every p the best right end r maximises exp(-beta r)(R(r) - X(p)), lines in X(p) of falling steepness, so it
    rises with p: every second row's best is found between those of its neighbors, in O(n) a level.
    """
    size, i = len(windows.padded) - 3, windows.at_or_before
    best, distance = max((windows.at(k) * math.exp(-decay * k), k) for k in {0, min(1, size), size // 2, size})
    width = float(windows.padded[-1] - windows.padded[0])
    if width == 0:
        return 0.0, 0
    reach = size + 1 if best == 0 else min(size + 1, math.floor((math.log(width) - math.log(best)) / decay) + 1)
    rows = np.arange(max(-1, i - reach - 1), i + 1)
    columns = np.arange(i + 1, min(size, i + reach + 1) + 1)
    fade = np.exp(-decay * (columns - (i + 1)))

    def value(row: Any, column: Any) -> Array:
        made: Array = fade[column] * windows.gaps(rows[row], columns[column])
        return made

    chosen = _monotone_argmax(len(rows), len(columns), value)
    terms = value(np.arange(len(rows)), chosen) * np.exp(-decay * (i - rows))
    at = int(terms.argmax())
    best, distance = max((best, distance), (float(terms[at]), int(columns[chosen[at]] - rows[at] - 1)))
    if len(rows) > 1:  # windows that end at i itself
        ends = windows.gaps(rows[:-1], np.full(len(rows) - 1, i)) * np.exp(-decay * (i - 1 - rows[:-1]))
        at = int(ends.argmax())
        best, distance = max((best, distance), (float(ends[at]), int(i - 1 - rows[at])))
    return best, distance


def _monotone_argmax(rows: int, columns: int, value: Any) -> Indices:
    """Return the column of the largest value of each row, where that column never falls from row to row."""
    best = np.zeros(rows, dtype=np.int64)
    stride = 1 << max(rows - 1, 0).bit_length()
    known = np.zeros(0, dtype=np.int64)
    while stride >= 1:
        fresh = np.arange(0, rows, stride)
        fresh = fresh[(fresh // stride) % 2 == 1] if len(known) else fresh
        if len(fresh):
            first = best[fresh - stride] if len(known) else np.zeros(len(fresh), dtype=np.int64)
            after = fresh + stride
            last = np.where(after < rows, best[np.minimum(after, rows - 1)], columns - 1)
            last = last if len(known) else np.full(len(fresh), columns - 1)
            best[fresh] = _segment_argmax(fresh, first, last, value)
        known = fresh if len(fresh) else known
        stride //= 2
    return best


def _segment_argmax(rows: Indices, first: Indices, last: Indices, value: Any) -> Indices:
    """Return for each row the column in first..last with the largest value, the first such one."""
    lengths = last - first + 1
    starts = np.cumsum(lengths) - lengths
    segment = np.repeat(np.arange(len(rows)), lengths)
    column = np.arange(int(lengths.sum())) - (starts - first)[segment]
    values = value(rows[segment], column)
    top = np.maximum.reduceat(values, starts)
    hits = np.flatnonzero(values == top[segment])
    found: Indices = column[hits[np.searchsorted(segment[hits], np.arange(len(rows)))]]
    return found
