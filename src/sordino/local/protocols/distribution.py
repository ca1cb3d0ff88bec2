"""The distribution of a number: a square wave around the answer's bin, and expectation-maximisation with smoothing.

It may not know collectors, tasks or devices. Answers are read as floats, but every probability is a whole threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number
from sordino.core.noise.rng import Rng
from sordino.local.draws import bernoulli, uniform_int
from sordino.local.estimates.binomial import quantile
from sordino.local.estimates.cumulative import SquareWaveCounts
from sordino.local.protocols.numeric import NumberProtocol, check_range, scale
from sordino.local.reports import (
    Parameters,
    Reports,
    Rows,
    SupportCounts,
    check_numbers,
    count_support,
    own_numbers,
    rows_of,
)
from sordino.local.thresholds import FULL, check_epsilon, exp_over, floor_share

if TYPE_CHECKING:
    import pyarrow as pa

Floats = np.ndarray[Any, np.dtype[np.float64]]

_MOST_ROUNDS = 10_000
# The change of the log-likelihood below which the smoothed iteration stops (Li et al. 2020, section 5.3).
_STILL = 1e-3


@dataclass(frozen=True, slots=True, repr=False)
class DistributionEstimate:
    """Hold estimated shares of equal bins: `.table`, `.mean`, `.quantile(0.5)`, `.frequencies`, and intervals.

    Maximum likelihood with smoothing is not linear in the reports: it is biased where the density bends, so a single
    bin's share has no interval. `mean_interval`, `quantile_interval` and `below_interval` come from unbiased sums of the
    same reports instead, and cover whatever the distribution is; by chance a smoothed number may lie outside of them.
    """

    lower: float
    upper: float
    shares: tuple[float, ...]
    rounds: int
    cells: SquareWaveCounts

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.cells.n

    @property
    def frequencies(self) -> Floats:
        """The share of each bin; they are not negative and sum to 1."""
        return np.array(self.shares)

    @property
    def edges(self) -> Floats:
        """The edges of the bins, one more than bins."""
        return np.linspace(self.lower, self.upper, len(self.shares) + 1)

    @property
    def table(self) -> pa.Table:
        """An Arrow table: lower, upper, frequency of each bin."""
        import pyarrow as pa

        return pa.table({"lower": self.edges[:-1], "upper": self.edges[1:], "frequency": self.frequencies})

    @property
    def mean(self) -> float:
        """The mean, each bin counted at its middle."""
        return float(self.frequencies @ (self.edges[:-1] + self.edges[1:]) / 2)

    def quantile(self, rank: float) -> float:
        """Return the number below which a share `rank` lies, bins taken as level; raises DeclarationError outside [0, 1]."""
        if not 0 <= rank <= 1:
            raise DeclarationError("the rank of a quantile lies between 0 and 1, such as 0.5")
        return float(np.interp(rank, np.append(0.0, np.cumsum(self.frequencies)), self.edges))

    def mean_interval(
        self, confidence: float, *, about: str = "respondents", malicious: float = 0.0
    ) -> tuple[float, float]:
        """Return an interval for the mean of the answers: half a bin wider than that of their bins' middles.

        The middles cannot lie off to both sides at once, so noise misses on one side only where half a bin is large beside it:
        Phi(z) - Phi(-z - 2 h) = confidence, h half a bin in deviations, gives z (Imbens, Manski 2004). `about` as for
        `Mean`; `malicious` widens it by what this share of the respondents could do together.
        """
        half = (self.upper - self.lower) / len(self.shares) / 2
        middles = self.cells.mean(self.lower, self.upper)
        inner = _one_sided_confidence(
            confidence, half / (middles.error(confidence, about=about) / quantile(confidence))
        )
        low, high = middles.adversarial(inner, about=about, malicious=malicious)
        return max(self.lower, low - half), min(self.upper, high + half)

    def quantile_interval(self, rank: float, confidence: float, *, malicious: float = 0.0) -> tuple[float, float]:
        """Return an interval for the number below which a share `rank` of the answers (or of their population) lies.

        Raises DeclarationError for a rank outside [0, 1], a confidence outside (0, 1), or malicious outside [0, 1).
        """
        if not 0 <= rank <= 1:
            raise DeclarationError("the rank of a quantile lies between 0 and 1, such as 0.5")
        first, last = self.cells.between(rank, confidence, malicious=malicious)
        return float(self.edges[first]), float(self.edges[last])

    def below_interval(self, number: float, confidence: float, *, malicious: float = 0.0) -> tuple[float, float]:
        """Return an interval for the share of answers below a number between the bounds."""
        place = (number - self.lower) / (self.upper - self.lower) * len(self.shares)
        if not 0 <= place <= len(self.shares):
            raise DeclarationError(f"the number must lie between the bounds, {self.lower:g} and {self.upper:g}")
        low, high = self.cells.below(confidence, malicious=malicious)
        return float(low[math.floor(place)]), float(high[math.ceil(place)])

    def __repr__(self) -> str:
        low, high = self.mean_interval(0.95)
        least, most = self.quantile_interval(0.5, 0.95)
        return (
            f"<Distribution over {len(self.shares)} bins of {self.lower:g} to {self.upper:g} from {self.n:,} reports: "
            f"mean about {self.mean:.4g} ({low:.4g} to {high:.4g} at 95%), "
            f"median about {self.quantile(0.5):.4g} ({least:.4g} to {most:.4g})>"
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Distribution(NumberProtocol):
    """Randomise a number by the square wave: its own bin's neighborhood with probability P, else anywhere outside it.

    The range has d equal bins; a report is one of d + 2 B cells, uniform in the window i .. i + 2 B of bin i with
    probability P = T / 2^32, T = floor(2^32 E W / (E W + d - 1)), W = 2 B + 1, else uniform in the other d - 1 cells.

    Theorem: two bins change a cell's probability by (P / W) / ((1 - P) / (d - 1)) <= E at most. B = floor(b d), where
    b = (epsilon E - E + 1) / (2 E (E - 1 - epsilon)) has the most mutual information between answer and report.

    Each round smooths over neighboring bins, so many narrow bins blur less of the range than few wide ones: on three
    test shapes 512 bins erred half as much as 128, and a tenth to a third as much as 32, at epsilon .5 to 2.

    Raises DeclarationError unless lower < upper, epsilon > 0 and there are 2 to 1,024 bins.

    Paper: Li, Wang, Lopuhaa-Zwakenberg, Li, Skoric 2020, sections 4 and 5 (EMS).

    >>> Distribution(0, 100, 1, bins=64).cells
    96
    """

    bins: int
    reach: int
    inside: int

    def __init__(self, lower: Number, upper: Number, epsilon: Number, *, bins: int = 512) -> None:
        low, high = check_range(lower, upper)
        claim = check_epsilon(epsilon)
        if isinstance(bins, bool) or not isinstance(bins, int) or not 2 <= bins <= 1024:
            raise DeclarationError("bins must be a whole number from 2 to 1,024")
        reach = math.floor(_half_width(float(claim)) * bins)
        inside = floor_share(claim, Fraction(bins - 1, 2 * reach + 1))
        self._set(lower=low, upper=high, claim=claim, bins=bins, reach=reach, inside=inside)
        if self.inside * (bins - 1) <= (FULL - self.inside) * (2 * reach + 1):
            raise DeclarationError("epsilon is too small for thresholds of 32 bits; 1e-6 and more work")

    kind = "distribution"
    number = 8

    @property
    def cells(self) -> int:
        """How many different reports there are."""
        return self.bins + 2 * self.reach

    def thresholds(self) -> Parameters:
        """Return the fields of `parameters` that are this protocol's own: "p" is the threshold of the window."""
        return {"bins": self.bins, "reach": self.reach, "p": self.inside}

    def perturb(self, answers: Any, rng: Rng) -> Reports:
        """Return a batch of reports, one an answer (numbers as a list, NumPy or Arrow array), clipped to the bounds.

        Raises DeclarationError where an answer is missing or no number.
        """
        share = scale(answers, self.lower, self.upper)
        own_bin = np.minimum((share * self.bins).astype(np.uint32), np.uint32(self.bins - 1))
        window = 2 * self.reach + 1
        inner = own_bin + uniform_int(window, own_bin.size, rng)
        outer = uniform_int(self.bins - 1, own_bin.size, rng)
        outer = outer + (outer >= own_bin) * np.uint32(window)
        cells = np.where(bernoulli(self.inside, own_bin.size, rng), inner, outer)
        return Reports.of(self, rows_of(cells, self.width))

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a cell does not exist."""
        check_numbers(rows, self.cells, width=self.width, what="cell")

    def count(self, reports: Reports) -> SupportCounts:
        """Return how many reports fell into each cell."""
        return count_support(reports, np.bincount(own_numbers(reports, self), minlength=self.cells))

    def estimate(self, counts: SupportCounts) -> DistributionEstimate:
        """Return the shares of the bins by expectation-maximisation with smoothing.

        Raises DeclarationError for another task's counts, or for none.
        """
        self._check_counts(counts, differ="bounds, bins or epsilon")
        shares, rounds = _smooth(self.matrix(), np.array(counts.supports, dtype=np.float64))
        return DistributionEstimate(
            float(self.lower), float(self.upper), tuple(map(float, shares)), rounds, self.cells_of(counts)
        )

    def cells_of(self, counts: SupportCounts) -> SquareWaveCounts:
        """Return the counts beside the law of the cells: what intervals are made of."""
        inner, outer = self._heights
        return SquareWaveCounts(self.bins, 2 * self.reach + 1, inner, outer, counts.supports)

    def matrix(self) -> Floats:
        """Return P(cell | bin) as floats, one row a cell."""
        window = 2 * self.reach + 1
        offset = np.arange(self.cells)[:, None] - np.arange(self.bins)[None, :]
        inner, outer = self._heights
        return np.where((offset >= 0) & (offset < window), inner, outer)

    @property
    def _heights(self) -> tuple[float, float]:
        """The probability of a cell inside the window and of one outside it."""
        return self.inside / FULL / (2 * self.reach + 1), (FULL - self.inside) / FULL / (self.bins - 1)

    def inputs(self) -> Sequence[int | None]:
        """Return bins that stand for every pair: the two ends and their neighbors."""
        return tuple(sorted({0, 1, self.bins - 2, self.bins - 1}))

    def channel(self, value: int | None) -> Sequence[tuple[Fraction, ...]]:
        """Return the law of a report of bin `value`: the probability of each cell."""
        value = self._number(value)
        window = 2 * self.reach + 1
        inner = Fraction(self.inside, FULL * window)
        outer = Fraction(FULL - self.inside, FULL * (self.bins - 1))
        return [tuple(inner if value <= cell < value + window else outer for cell in range(self.cells))]

    def __repr__(self) -> str:
        return (
            f"<Distribution between {format_number(self.lower)} and {format_number(self.upper)} in {self.bins} bins, "
            f"epsilon {format_number(self.claim)}>"
        )


def _one_sided_confidence(confidence: float, off: float) -> float:
    """Return the confidence whose interval, `off` deviations wider on both sides, covers what is up to `off` away."""
    normal = NormalDist()
    low = max(0.0, normal.inv_cdf(confidence))
    high = quantile(confidence)
    for _ in range(60):
        z = (low + high) / 2
        low, high = (low, z) if normal.cdf(z) - normal.cdf(-z - 2 * off) >= confidence else (z, high)
    return max(1e-9, 2 * normal.cdf(high) - 1)


def _half_width(epsilon: float) -> float:
    """Return b, the half width of the wave as a share of the range; 1/2 in the limit of epsilon 0."""
    # The formula loses its figures here; its expansion does not.
    if epsilon < 1e-3:
        return 0.5 - epsilon / 6
    grown = exp_over(Fraction(epsilon))
    return (epsilon * grown - grown + 1) / (2 * grown * (grown - 1 - epsilon))


def _smooth(law: Floats, found: Floats) -> tuple[Floats, int]:
    """Return the shares that the smoothed iteration comes to, and after how many rounds."""
    shares = np.full(law.shape[1], 1.0 / law.shape[1])
    before = -math.inf
    for done in range(1, _MOST_ROUNDS + 1):
        expected = law @ shares
        likelihood = float(found @ np.log(expected))
        shares = shares * (law.T @ (found / expected))
        padded = np.concatenate([shares[:1], shares, shares[-1:]])
        shares = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
        shares /= shares.sum()
        if abs(likelihood - before) < _STILL:
            return shares, done
        before = likelihood
    return shares, _MOST_ROUNDS
