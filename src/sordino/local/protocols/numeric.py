"""The mean of a number: Duchi's one bit, the piecewise mechanism on a grid, and the hybrid of both.

It may not know collectors, tasks or devices. Answers are read as floats, but every probability is a whole threshold. An error
never shows one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sordino.core.errors import DeclarationError, nearest
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.noise.bernoulli import CertifiedProbability
from sordino.core.noise.rng import Rng
from sordino.local.draws import bernoulli, uniform_int
from sordino.local.estimates.mean import MeanEstimate, ReportMoments
from sordino.local.protocols.randomizer import LocalProtocol
from sordino.local.reports import (
    Parameters,
    Reports,
    Rows,
    SupportCounts,
    count_support,
    numbers_of,
    own_numbers,
    rows_of,
)
from sordino.local.thresholds import BITS, FULL, check_epsilon, exp_over, floor_share


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NumberProtocol(LocalProtocol):
    """A protocol for a number between two bounds, whose reports are numbers of 2 bytes."""

    lower: Fraction
    upper: Fraction
    claim: Fraction

    width: ClassVar[int] = 2

    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""
        return {
            "kind": self.kind,
            "lower": format_number(self.lower),
            "upper": format_number(self.upper),
            "bits": BITS,
            **self.thresholds(),
            "epsilon": format_number(self.claim),
        }

    @abstractmethod
    def thresholds(self) -> Parameters:
        """Return the fields of `parameters` that are the protocol's own."""

    def _number(self, value: int | None) -> int:
        if value is None:
            raise DeclarationError(f"a {self.kind} has no report for a missing answer")
        return value


def check_range(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Return two bounds as fractions; raises DeclarationError unless lower < upper."""
    low = to_fraction(lower, name="lower")
    high = to_fraction(upper, name="upper")
    if low >= high:
        raise DeclarationError(f"lower must be below upper, not {format_number(low)} and {format_number(high)}")
    return low, high


def scale(answers: Any, lower: Fraction, upper: Fraction) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return where answers lie between the bounds, 0 to 1; those outside count as the nearer bound.

    Raises DeclarationError where an answer is missing (nan, None) or no number.
    """
    cells = answers.to_numpy(zero_copy_only=False) if hasattr(answers, "to_pylist") else answers
    try:
        numbers = np.asarray(cells, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DeclarationError("answers must be numbers, none of them missing") from None
    missing = np.flatnonzero(np.isnan(numbers))
    if missing.size:
        raise DeclarationError(f"answer number {int(missing[0])} is missing: ask again, or leave the respondent out")
    low = float(lower)
    high = float(upper)
    inside = np.clip(numbers, low, high)
    return np.clip((inside - low) / (high - low), 0.0, 1.0)


METHODS = ("duchi", "piecewise", "hybrid")
# Positions of the piecewise grid.
STEPS = 1 << 14
# The epsilon from which the hybrid uses the piecewise mechanism.
_HYBRID_FROM = Fraction(61, 100)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Mean(NumberProtocol):
    """Randomise a number between two bounds, so that the mean of the reports is unbiased for the mean of the answers.

    With t in [-1, 1] the answer on the scale of the bounds (answers outside are clipped to them):

    - "duchi": one bit, 1 with probability T(t) / 2^32, T(t) going from 2^32 - T to T = floor(2^32 E / (E + 1)). Two
      answers change its probability by a factor T / (2^32 - T) <= E at most.
    - "piecewise": t is rounded at random, without bias, to one of M + 1 positions a; the report is a cell of M + L,
      uniform in the window a .. a + L - 1 with probability P = floor(2^32 E L / (E L + M)) / 2^32, else uniform outside
      it, L = ceil(M / e^(epsilon/2)). Two positions change a cell's probability by (P / L) / ((1 - P) / M) <= E.
    - "hybrid": from epsilon .61 on piecewise with probability 1 - e^(-epsilon/2), else Duchi; the choice is public.

    Variances at t of one report: Duchi ((E+1)/(E-1))^2 - t^2; piecewise t^2/(s-1) + (s+3)/(3 (s-1)^2), s = e^(epsilon/2),
    to the width of a grid cell; hybrid their mixture.

    Raises DeclarationError unless lower < upper, epsilon > 0 and the method is one of these.

    Paper: Duchi, Jordan, Wainwright 2018; Wang, Xiao, Yang et al. 2019, sections III-B and III-C.

    >>> Mean(0, 100, 1).method
    'hybrid'
    """

    method: str
    top: int
    window: int
    inside: int
    piecewise: int

    def __init__(self, lower: Number, upper: Number, epsilon: Number, *, method: str = "hybrid") -> None:
        low, high = check_range(lower, upper)
        claim = check_epsilon(epsilon)
        if method not in METHODS:
            raise DeclarationError(f"{method!r} is not a method for a mean; {nearest(str(method), METHODS)}")
        self._set(lower=low, upper=high, claim=claim, method=method)
        window = max(1, math.ceil(STEPS / math.sqrt(exp_over(claim))))
        self._set(top=floor_share(claim, 1), window=window, inside=floor_share(claim, Fraction(STEPS, window)))
        mixed = FULL - 1 - CertifiedProbability.exp_minus(claim / 2).digits(BITS)
        share = {"duchi": 0, "piecewise": FULL, "hybrid": mixed if claim > _HYBRID_FROM else 0}[method]
        self._set(piecewise=share)
        if 2 * self.top <= FULL or self._slope <= 0:
            raise DeclarationError("epsilon is too small for thresholds of 32 bits; 1e-6 and more work")

    kind = "mean"
    number = 7

    def thresholds(self) -> Parameters:
        """Return the fields of `parameters` that are this protocol's own: sizes, and the thresholds of its three coins."""
        sizes: Parameters = {"method": self.method, "steps": STEPS, "window": self.window}
        return sizes | {"p": self.top, "inside": self.inside, "piecewise": self.piecewise}

    def perturb(self, answers: Any, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer (numbers as a list, NumPy or Arrow array), clipped to the bounds.

        A report is the number 0 or 1 of Duchi's bit, or 2 + cell. Raises DeclarationError where an answer is missing or no
        number.
        """
        share = scale(answers, self.lower, self.upper)
        n = share.size
        if self.piecewise == 0:
            by_grid = np.zeros(n, dtype=np.bool_)
        else:
            by_grid = np.ones(n, dtype=np.bool_) if self.piecewise == FULL else bernoulli(self.piecewise, n, rng)
        numbers = np.empty(n, dtype=np.uint32)
        bits = np.flatnonzero(~by_grid)
        cells = np.flatnonzero(by_grid)
        numbers[bits] = self._bits(share[bits], rng)
        numbers[cells] = self._cells(share[cells], rng) + np.uint32(2)
        return Reports.of(self, rows_of(numbers, self.width))

    def _bits(self, share: np.ndarray[Any, Any], rng: Rng) -> np.ndarray[Any, Any]:
        least = FULL - self.top
        threshold = np.clip(least + np.rint(share * (self.top - least)), least, self.top).astype(np.uint64)
        bits: np.ndarray[Any, Any] = rng.words(share.size, np.uint32) < threshold
        return bits

    def _cells(self, share: np.ndarray[Any, Any], rng: Rng) -> np.ndarray[Any, Any]:
        place = share * STEPS
        start = np.minimum(np.floor(place), STEPS)
        rounded = rng.words(share.size, np.uint32) < ((place - start) * FULL).astype(np.uint64)
        start = np.minimum(start.astype(np.uint32) + rounded, np.uint32(STEPS))
        within = bernoulli(self.inside, share.size, rng)
        inner = start + uniform_int(self.window, share.size, rng)
        outer = uniform_int(STEPS, share.size, rng)
        cells: np.ndarray[Any, Any] = np.where(within, inner, outer + (outer >= start) * np.uint32(self.window))
        return cells

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row is neither a bit nor a cell that the method can send."""
        numbers = numbers_of(rows, self.width)
        last = 1 if self.piecewise == 0 else 1 + STEPS + self.window
        if rows.size and (int(numbers.max()) > last or (self.piecewise == FULL and int(numbers.min()) < 2)):
            raise DeclarationError("a report holds a number that this method never sends")

    def count(self, reports: Reports) -> SupportCounts:
        """Return what adds up: bits of 0, bits of 1, cells, and the sums of twice the cells' distance and its square."""
        numbers = own_numbers(reports, self).astype(np.int64)
        zeros = int((numbers == 0).sum())
        ones = int((numbers == 1).sum())
        # Twice the distance from the middle.
        off = 2 * (numbers[numbers >= 2] - 2) - (STEPS + self.window - 1)
        return count_support(reports, (zeros, ones, off.size, off.sum(), np.square(off).sum()))

    def estimate(self, counts: SupportCounts) -> MeanEstimate:
        """Return the unbiased estimate of the mean; raises DeclarationError for another task's counts, or for none."""
        self._check_counts(counts, differ="bounds, method or epsilon")
        zeros, ones, _, total, squares = counts.supports
        bit = self._bit_size
        cell = 1 / (self._slope * STEPS)
        first = (bit * (ones - zeros) + cell * total) / counts.n
        second = (bit**2 * (ones + zeros) + cell**2 * squares) / counts.n
        base, slope = self.moments()
        most = max(bit if self.piecewise < FULL else 0.0, cell * (STEPS + self.window) if self.piecewise else 0.0)
        return MeanEstimate(
            float(self.lower), float(self.upper), ReportMoments(counts.n, first, second, base, slope, most)
        )

    def variance(self, t: float) -> float:
        """Return the exact variance of one report's estimate of t in [-1, 1], on that scale."""
        base, slope = self.moments()
        return base + (slope - 1) * t * t

    def moments(self) -> tuple[float, float]:
        """Return (b, c): the second moment of one report's estimate of t is b + c t^2, on the scale of [-1, 1]."""
        share = self.piecewise / FULL
        p = self.inside / FULL
        a = self._slope
        wide = STEPS + self.window
        spread = a * (self.window**2 - 1) / 12 + (1 - p) / STEPS * wide * (wide**2 - 1) / 12
        base = share * 4 * spread / (STEPS * a) ** 2 + (1 - share) * self._bit_size**2
        return base, share / a

    @property
    def _bit_size(self) -> float:
        return FULL / (2 * self.top - FULL)

    @property
    def _slope(self) -> float:
        """How far a cell moves on average where the window moves by one."""
        return (self.inside - (FULL - self.inside) * self.window / STEPS) / FULL

    def inputs(self) -> Sequence[int | None]:
        """Return positions that stand for every pair: two ends, whose windows are apart or overlap the least."""
        return (0, STEPS)

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of grid position `value`: Duchi's 0 and 1, then every cell."""
        value = self._number(value)
        grid = Fraction(self.piecewise, FULL)
        ones = FULL - self.top + Fraction(value * (2 * self.top - FULL), STEPS)
        bit = (1 - grid) * ones / FULL
        inner = grid * Fraction(self.inside, FULL * self.window)
        outer = grid * Fraction(FULL - self.inside, FULL * STEPS)
        cells = [outer] * value + [inner] * self.window + [outer] * (STEPS - value)
        return [((1 - grid) - bit, bit, *cells)]

    def __repr__(self) -> str:
        lower, upper, claim = (format_number(n) for n in (self.lower, self.upper, self.claim))
        return f"<Mean between {lower} and {upper} by {self.method}, epsilon {claim}>"
