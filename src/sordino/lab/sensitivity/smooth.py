"""Smooth sensitivity, and distances to instability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino.core.errors import DeclarationError, QuestionRefused, nearest
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.neighbors import neighbors_from

# ---- A_k: the largest local sensitivity within k moves of a table of bounded numbers, and the distance at which it
# grows
#
# What is computed here depends on the data and is not private: a release may use it only through a mechanism. This file
# knows no noise, no budget and no columns.
#
# With x sorted and clipped to [l, u], W = u - l, x_j = l below the first and u above the last, h = q (n - 1) = i + g with
# 0 <= g < 1, w = max(q, 1 - q), d = max(u - mean, mean - l), and P_j the sum of the j smallest of x - l:
#
#     quantile, replace     A_k = max over p <= i <= r, r - p = k + 1, of (1-g)(x_r - x_p) + g (x_{r+1} - x_r)    exact
#                           for g <= 1/2, and its mirror image for g > 1/2
#     median, add_remove    half the widest gap that k removals leave at the middle                               exact
#     quantile, add_remove  w (x[ceil(h + w(k+1))] - x[floor(h - w(k+1))])                                        bound
#     mean, replace         max(u - x_min, x_max - l)/n at k = 0, W/n from k = 1                                  exact
#     mean, add_remove      min(W/m, d n/m/(m-1)), m = n - k; W/2 where m < 2                                     bound
#     var, replace          (n-1)/n^2 max(u - lowest, highest - l)^2, the means of n - 1 records after k moves    bound
#     var, add_remove       min(W^2 (m-1)/m^2, (d n/m)^2/(m-1)), m = n - k; W^2/4 where m < 2                     bound
#
# Every bound B_k is at least A_k, never falls with k, and B_k(D) <= B_{k+1}(D') for neighbors D and D', which is all that
# smooth sensitivity and propose-test-release need. An empty table has the quantiles and mean (l + u)/2 and variance 0.

Array = npt.NDArray[np.float64]

# The largest denominator of a quantile keeps positions exact in 64 bits.
_FINEST = 10**9


@dataclass(frozen=True, slots=True)
class DistanceCurve:
    """A_0, A_1, ... as an array, constant from its last on."""

    values: Array
    exact: bool
    because: str

    def at(self, distance: int) -> float:
        """Return A_k."""
        return float(self.values[min(distance, len(self.values) - 1)])


@dataclass(frozen=True, slots=True)
class Windows:
    """A_k of a quantile under replace: windows of k + 2 records around position `at_or_before`, weighed by `weight`."""

    # l, x_0, ..., x_{n-1}, u, u: the record x_j is padded[j + 1].
    padded: Array
    # The i of the paper.
    at_or_before: int
    # The weight g, at most 1/2.
    weight: float
    because: str

    def gaps(self, left: Any, right: Any) -> Array:
        """Return (1-g)(x_r - x_p) + g(x_{r+1} - x_r) for indices p in -1..n and r in -1..n."""
        x = self.padded
        g = self.weight
        ends = x[np.asarray(right) + 1]
        gap: Array = (1 - g) * (ends - x[np.asarray(left) + 1])
        return gap if g == 0 else gap + g * (x[np.asarray(right) + 2] - ends)

    def at(self, distance: int) -> float:
        """Return A_k, by the k + 2 windows."""
        size = len(self.padded) - 3
        i = self.at_or_before
        if distance > size:
            return self.at(size)
        left = np.arange(max(i - 1 - distance, -1), i + 1)
        return float(self.gaps(left, np.minimum(left + distance + 1, size)).max())


def local_at_distance(
    query: str, data: npt.ArrayLike, *, lower: Number, upper: Number, neighbors: str, most: int
) -> Array:
    """Return A_0, ..., A_most: how far one move can take the query, from any table within k moves of the data.

    Moves add, remove or replace (by the relation) a record with any number of [lower, upper]; one more move is then
    measured. Exact for quantiles and the mean under replace and for the median under add_remove; for the other cells an
    upper bound B_k, with B_k(D) <= B_(k+1)(D') for neighbors. In units of the data (squared for "var"). Takes
    O(most * min(most, n)) for a quantile under replace, else O(n log n).

    Not private. Raises DeclarationError for bounds or data that are no numbers, QuestionRefused for an unknown query.

    >>> local_at_distance("median", [1, 2, 3, 10, 11], lower=0, upper=20, neighbors="replace", most=3).tolist()
    [7.0, 8.0, 17.0, 18.0]
    >>> local_at_distance("median", [1, 2, 3, 10, 11], lower=0, upper=20, neighbors="add_remove", most=3).tolist()
    [3.5, 4.0, 4.5, 5.0]

    Nissim, Raskhodnikova, Smith, "Smooth Sensitivity and Sampling in Private Data Analysis" (2007), section 3.1.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise DeclarationError(f"most must be a whole number of moves from 0, not {most!r}")
    curve = profile(query, data, lower=lower, upper=upper, neighbors=neighbors)
    return np.array([curve.at(k) for k in range(most + 1)])


def distance_above(
    query: str, data: npt.ArrayLike, *, lower: Number, upper: Number, neighbors: str, bound: Number
) -> int | float:
    """Return the least k with A_k > bound, the distance to instability, or infinity where there is none.

    It changes by at most 1 between neighbors, so it can be released with noise of scale 1/epsilon. Where A_k is an upper
    bound (see `local_at_distance`) the distance is at most the true one, and changes by at most 1 all the same.

    Not private. Raises as `local_at_distance` does, and DeclarationError for a bound below 0.

    >>> distance_above("median", [1, 2, 3, 10, 11], lower=0, upper=20, neighbors="replace", bound=8)
    2
    >>> distance_above("median", [1, 2, 3, 10, 11], lower=0, upper=20, neighbors="replace", bound=20)
    inf

    Dwork, Lei, "Differential Privacy and Robust Statistics" (2009); Dwork, Roth (2014), section 7.3.
    """
    ceiling = to_fraction(bound, name="bound")
    if ceiling < 0:
        raise DeclarationError(f"bound must not be negative, not {format_number(ceiling)}")
    limit = float(ceiling)
    curve = profile(query, data, lower=lower, upper=upper, neighbors=neighbors)
    last = len(curve.values) - 1 if isinstance(curve, DistanceCurve) else len(curve.padded) - 3
    if curve.at(last) <= limit:
        return math.inf
    # A_below <= limit < A_above all the way, since A_k never falls.
    below = -1
    above = last
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if curve.at(middle) > limit else (middle, above)
    return above


def profile(
    query: str, data: npt.ArrayLike, *, lower: Number, upper: Number, neighbors: str
) -> DistanceCurve | Windows:
    """Return A_k of a query at a table, for both relations."""
    relation = neighbors_from(neighbors=neighbors, privacy_unit="row").relation
    kind, at = parse_query(query)
    ends = [to_fraction(bound, name=name) for bound, name in ((lower, "lower"), (upper, "upper"))]
    low, high = (float(end) for end in ends)
    # past 2^53 a float rounds whole numbers, and gaps that are lost would make the bound too small
    whole = any(end.denominator == 1 and end != Fraction(float(end)) for end in ends)
    if max(abs(low), abs(high)) > 2**53 and (whole or np.asarray(data).dtype.kind != "f"):
        raise DeclarationError(
            "data and bounds must be floats, or whole numbers up to 2^53: subtract lower from the data and from both bounds"
        )
    if low > high:
        raise DeclarationError(f"lower must not be above upper, not {low} and {high}; swap them")
    x = clip_and_sort(data, low, high)
    if relation == "replace" and len(x) == 0:
        return DistanceCurve(np.zeros(1), True, "an empty table has no neighbor under replace")
    if kind == "quantile":
        if relation == "replace":
            return _quantile_replace(x, low, high, at)
        return _median_add_remove(x, low, high) if at == Fraction(1, 2) else _quantile_add_remove(x, low, high, at)
    if relation == "replace":
        return _mean_replace(x, low, high) if kind == "mean" else _var_replace(x, low, high)
    return _mean_add_remove(x, low, high) if kind == "mean" else _var_add_remove(x, low, high)


def parse_query(query: object) -> tuple[str, Fraction]:
    """Return "quantile" with its q, or "mean" or "var"; raises QuestionRefused for what has no smooth sensitivity here."""
    if query == "median":
        return "quantile", Fraction(1, 2)
    if isinstance(query, str) and query.startswith("quantile:"):
        at = to_fraction(query.removeprefix("quantile:"), name="quantile")
        if not 0 <= at <= 1 or at.denominator > _FINEST:
            raise DeclarationError("quantile must lie within 0 and 1, with 9 decimals at most")
        return "quantile", at
    if query in ("mean", "var"):
        return str(query), Fraction(0)
    if query in ("count", "sum"):
        raise QuestionRefused(f"a {query} is as sensitive at every table: use worst_case_sensitivity")
    if not isinstance(query, str):
        raise QuestionRefused(f"query must be the name of a statistic, not a {type(query).__name__}")
    raise QuestionRefused(f"query {query[:40]!r} is not known; {nearest(query[:40], _KNOWN)}")


def clip_and_sort(data: npt.ArrayLike, low: float, high: float) -> Array:
    """Return the data clipped and sorted."""
    try:
        x = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        raise DeclarationError("data must be a list of numbers") from None
    if x.ndim != 1:
        raise DeclarationError(f"data must have one dimension, not {x.ndim}")
    if np.isnan(x).any():
        raise DeclarationError("data must not hold nan: drop or fill missing values first")
    return np.sort(np.clip(x, low, high))


_KNOWN = ("median", "quantile:0.9", "mean", "var")


def _quantile_replace(x: Array, low: float, high: float, at: Fraction) -> Windows:
    because = "k replaced records can be taken out of any window around the quantile: its ends are k + 2 records apart"
    position = at * (len(x) - 1)
    i = math.floor(position)
    if position - i <= Fraction(1, 2):
        return Windows(np.concatenate(([low], x, [high, high])), i, float(position - i), because)
    mirror = np.concatenate(([-high], -x[::-1], [-low, -low]))
    return Windows(mirror, len(x) - 2 - i, float(i + 1 - position), because)


def _median_add_remove(x: Array, low: float, high: float) -> DistanceCurve:
    """Half of the gap between the two middle records, or of the wider one of the two gaps beside the middle record."""
    n = len(x)
    padded = np.concatenate(([low], x, [high]))
    k = np.arange(n + 1)
    # The record at or before the middle of the n - k left, where the k above it are removed.
    left = (n - k - 1) // 2
    here = padded[np.minimum(left + k + 1, n) + 1] - padded[left + 1]
    odd = (n - k) % 2 == 1
    shifted = padded[np.minimum(left + k, n) + 1] - padded[np.maximum(left - 1, -1) + 1]
    values = np.where(odd, np.maximum(here, shifted), here) / 2
    return DistanceCurve(
        values, True, "k removed records open the gap at the middle, and one more moves the median by half"
    )


def _quantile_add_remove(x: Array, low: float, high: float, at: Fraction) -> DistanceCurve:
    """A move takes the position by at most w records up or down, so k + 1 moves stay within w(k + 1) of it."""
    n = len(x)
    top = at.numerator
    bottom = at.denominator
    step = max(top, bottom - top)
    padded = np.concatenate(([low], x, [high]))
    reach = step * np.arange(1, -(-(n + 1) * bottom // step) + 2, dtype=np.int64)
    upper = np.clip(-((-top * (n - 1) - reach) // bottom), -1, n)
    lower = np.clip((top * (n - 1) - reach) // bottom, -1, n)
    because = "k + 1 moves take the quantile's position at most max(q, 1 - q)(k + 1) records up or down"
    return DistanceCurve((padded[upper + 1] - padded[lower + 1]) * (step / bottom), False, because)


def _mean_replace(x: Array, low: float, high: float) -> DistanceCurve:
    now = max(high - float(x[0]), float(x[-1]) - low) / len(x)
    because = "one record moves the mean by its distance to the farther bound over n; after a move, by the width over n"
    return DistanceCurve(np.array([now, (high - low) / len(x)]), True, because)


def _mean_add_remove(x: Array, low: float, high: float) -> DistanceCurve:
    """With m records and deviation d, a move changes the mean by at most min(W/m, d/(m-1)), and d to at most dm/(m-1)."""
    width = high - low
    m, deviation = _deviations(x, low, high)
    values = np.append(np.minimum(width / m, deviation / (m - 1)), width / 2)
    because = "one record moves a mean of m by at most min(width, deviation m/(m-1))/m, and k removals leave m = n - k"
    return DistanceCurve(values, False, because)


def _var_replace(x: Array, low: float, high: float) -> DistanceCurve:
    """With the other n - 1 at mean v, var is constant + (n-1)/n^2 (t - v)^2 in the record t; k moves push v to a bound."""
    n = len(x)
    if n == 1:
        return DistanceCurve(np.zeros(1), True, "one record alone has variance 0")
    k = np.arange(n)
    sums = np.concatenate(([0.0], np.cumsum(x - low)))
    tops = np.concatenate(([0.0], np.cumsum(high - x[::-1])))
    width = high - low
    farthest = width - np.minimum(sums[n - 1 - k], tops[n - 1 - k]) / (n - 1)
    values = np.maximum.accumulate(np.minimum(farthest, width) ** 2 * ((n - 1) / n**2))
    because = "a record moves var by at most (n-1)/n^2 times its squared distance to the mean of the others"
    return DistanceCurve(values, False, because)


def _var_add_remove(x: Array, low: float, high: float) -> DistanceCurve:
    """With m records and deviation d, a move changes var by at most min(W^2 (m-1)/m^2, d^2/(m-1))."""
    width = high - low
    m, deviation = _deviations(x, low, high)
    values = np.append(np.minimum(width**2 * ((m - 1) / m**2), deviation**2 / (m - 1)), width**2 / 4)
    because = "one record moves var of m by at most min(width^2 (m-1)/m^2, deviation^2/(m-1)); k removals leave n - k"
    return DistanceCurve(values, False, because)


def _deviations(x: Array, low: float, high: float) -> tuple[Array, Array]:
    """Return m = n, n - 1, ..., 2 and the largest distance of a mean of m records within n - m moves to a bound."""
    n = len(x)
    m = np.arange(n, 1, -1, dtype=np.float64)
    middle = float(x.mean()) if n else low
    far = max(high - middle, middle - low)
    return m, np.minimum(high - low, far * (n / m))


# ---- Smooth sensitivity of quantiles, mean and variance of bounded numbers: what may scale the noise in place of GS
#
# The figure depends on the data and is itself private; only noise scaled by it may leave. This file knows no noise.

Indices = npt.NDArray[np.int64]

# Relative; every step below errs by less.
_HAIR = 1e-12
# Times the width, it is more than any term whose exponential is lost to underflow.
_SPECK = 1e-300


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
    in `sordino.lab.sensitivity.smooth`). An empty table has the middle of the bounds as its quantiles and mean, and the
    variance 0. Units: those of the data, squared for "var". Time O(n log n).

    Not private: S depends on the data. Raises DeclarationError for bounds, data or a beta that are no numbers,
    QuestionRefused for an unknown query.

    >>> found = smooth_sensitivity("median", [1, 2, 3, 10, 11], lower=0, upper=20, neighbors="replace", beta=0.05)
    >>> round(found.value, 3), found.distance, found.exact
    (15.576, 5, True)

    Nissim, Raskhodnikova, Smith, "Smooth Sensitivity and Sampling in Private Data Analysis" (2007), sections 2 and 3.
    """
    decay = _positive(beta)
    curve = profile(query, data, lower=lower, upper=upper, neighbors=neighbors)
    if isinstance(curve, DistanceCurve):
        terms = curve.values * np.exp(-decay * np.arange(len(curve.values)))
        distance = int(terms.argmax())
        best = float(terms[distance])
        widest = float(curve.values[-1])
    else:
        best, distance = _widest(curve, decay)
        widest = float(curve.padded[-1] - curve.padded[0])
    value = best * (1 + _HAIR) + widest * _SPECK
    return SmoothSensitivity(value, distance, curve.exact if isinstance(curve, DistanceCurve) else True, curve.because)


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
    size = len(windows.padded) - 3
    i = windows.at_or_before
    best, distance = max((windows.at(k) * math.exp(-decay * k), k) for k in {0, min(1, size), size // 2, size})
    width = float(windows.padded[-1] - windows.padded[0])
    if width == 0:
        return 0.0, 0
    reach = size + 1 if best == 0 else min(size + 1, math.floor((math.log(width) - math.log(best)) / decay) + 1)
    rows = np.arange(max(-1, i - reach - 1), i + 1)
    columns = np.arange(i + 1, min(size, i + reach + 1) + 1)
    fade = np.exp(-decay * (columns - (i + 1)))

    def value(row: Any, column: Any) -> Array:
        faded: Array = fade[column] * windows.gaps(rows[row], columns[column])
        return faded

    best_columns = _monotone_argmax(len(rows), len(columns), value)
    terms = value(np.arange(len(rows)), best_columns) * np.exp(-decay * (i - rows))
    at = int(terms.argmax())
    best, distance = max((best, distance), (float(terms[at]), int(columns[best_columns[at]] - rows[at] - 1)))
    # Windows that end at i itself.
    if len(rows) > 1:
        ends = windows.gaps(rows[:-1], np.full(len(rows) - 1, i)) * np.exp(-decay * (i - 1 - rows[:-1]))
        at = int(ends.argmax())
        best, distance = max((best, distance), (float(ends[at]), int(i - 1 - rows[at])))
    return best, distance


def _monotone_argmax(rows: int, columns: int, value: Any) -> Indices:
    """Return the column of the largest value of each row, where that column never falls from row to row."""
    best = np.zeros(rows, dtype=np.int64)
    stride = 1 << max(rows - 1, 0).bit_length()
    solved = np.zeros(0, dtype=np.int64)
    while stride >= 1:
        fresh = np.arange(0, rows, stride)
        fresh = fresh[(fresh // stride) % 2 == 1] if len(solved) else fresh
        if len(fresh):
            first = best[fresh - stride] if len(solved) else np.zeros(len(fresh), dtype=np.int64)
            after = fresh + stride
            last = np.where(after < rows, best[np.minimum(after, rows - 1)], columns - 1)
            last = last if len(solved) else np.full(len(fresh), columns - 1)
            best[fresh] = _segment_argmax(fresh, first, last, value)
        solved = fresh if len(fresh) else solved
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
    best: Indices = column[hits[np.searchsorted(segment[hits], np.arange(len(rows)))]]
    return best
