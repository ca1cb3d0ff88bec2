"""The estimate of how many respondents hold each label: unbiased shares, exact variances, intervals, a projection.

It sees support counts, n, p and q: it may not know how reports are made. Everything here is post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import round_up
from sordino.local.estimates.binomial import (
    check_confidence,
    population_interval,
    quantile,
    respondents_interval,
    simultaneous_confidence,
)
from sordino.local.labels import Label

if TYPE_CHECKING:
    import pyarrow as pa

Floats = np.ndarray[Any, np.dtype[np.float64]]

USUAL_MALICIOUS = 0.01
# How much of the distances from equal shares may be kept; norm-sub itself first.
_WEIGHTS = (1.0, 0.75, 0.5, 0.25, 0.0)


def variance(p: Fraction | float, q: Fraction | float, *, share: float, n: int, about: str = "respondents") -> float:
    """Return the variance of the estimated share: of these respondents, or of a population they are drawn of.

    With d = p - q: respondents, q(1-q) / (n d^2) + f (1-p-q) / (n d); population, s(1-s) / (n d^2), s = f p + (1-f) q
    (Wang, Blocki, Li, Jha 2017, equation 6).

    >>> round(variance(0.75, 0.25, share=0.1, n=32_561) ** 0.5 * 32_561, 3)
    156.271
    """
    high = float(p)
    low = float(q)
    difference = high - low
    if check_about(about) == "population":
        s = share * high + (1 - share) * low
        return s * (1 - s) / (n * difference**2)
    return low * (1 - low) / (n * difference**2) + share * (1 - high - low) / (n * difference)


def shift_of(p: Fraction | float, q: Fraction | float, malicious: float) -> tuple[float, float]:
    """Return what malicious clients can add to an estimated share and take from it, on average.

    A share m of them adds m (1-q)/(p-q), or takes m p/(p-q).

    Raises DeclarationError unless 0 <= malicious < 1.
    """
    share = check_share(malicious, name="malicious")
    high = float(p)
    low = float(q)
    return share * (1 - low) / (high - low), share * high / (high - low)


def norm_sub(shares: Floats, *, total: float) -> Floats:
    """Return the nearest shares that are not negative and add up to `total` (Wang et al. 2020, norm-sub).

    The same number is taken from every share and what falls below 0 becomes 0; it is the projection on the simplex.
    """
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, shares.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1]) if (falling > excess).any() else 0
    projected: Floats = np.maximum(shares - excess[last], 0.0)
    return projected


def shrink_shares(shares: Floats, *, total: float, spread: float) -> Floats:
    """Return shares that are not negative and add up to `total`, drawn towards equal ones where noise is most of what differs.

    Of norm-sub after w times the distances from equal shares, w = 1, 3/4, ..., 0, the one of the least estimated risk is
    taken, |x - s|^2 + 2 `spread` div x, `spread` being the variance of each share s. Theorem (Stein 1981, Estimation of the mean
    of a multivariate normal distribution): up to a constant that is unbiased for the squared error, for normal noise; the
    divergence of a projection on the simplex is one less than the number of shares above 0.
    """
    middle = total / shares.size
    best = norm_sub(shares, total=total)
    least = math.inf
    for w in _WEIGHTS:
        candidate = norm_sub(middle + w * (shares - middle), total=total)
        freedom = w * max(0, int(np.count_nonzero(candidate)) - 1)
        risk = float(np.square(candidate - shares).sum()) + 2 * spread * freedom
        if risk < least:
            best = candidate
            least = risk
    return best


class FrequencyTables(ABC):
    """What estimates of shares, one a label, have alike: their tables."""

    __slots__ = ()

    labels: tuple[Label, ...]
    n: int

    # It is a property of one estimate, and a field of the other.
    if TYPE_CHECKING:

        @property
        def frequencies(self) -> Floats:
            """The unbiased shares, one a label."""

    @property
    def counts(self) -> Floats:
        """The estimated numbers of respondents: n times the frequencies."""
        return self.frequencies * self.n

    @abstractmethod
    def errors(self, confidence: float) -> Floats:
        """Return the error of each frequency that is not exceeded with probability `confidence`, about."""

    @abstractmethod
    def shift(self, malicious: float) -> tuple[float, float]:
        """Return how much a share of malicious clients can add to a frequency, and take from one."""

    def projected(self, *, answered: float = 1.0) -> pa.Table:
        """Return an Arrow table label, count, frequency for a histogram: no negative number, summing to `answered`.

        `answered` is the share of respondents who hold a label, below 1 where missing answers were sent. The nearest
        such shares (norm-sub), or where the labels differ by less than noise, shares nearer to equal ones
        (`shrink_shares`). They are biased, so intervals come from the raw ones.
        """
        total = check_share(answered, name="answered", most=1.0)
        shares = shrink_shares(self.frequencies, total=total, spread=self._spread())
        return self._columns(count=shares * self.n, frequency=shares)

    def _spread(self) -> float:
        """Return the variance of the noise of a usual share; 0 where it is not one number."""
        return 0.0

    def _table(self, lower: Floats, upper: Floats) -> pa.Table:
        errors = self.errors(0.95)
        lower, upper = self._reaching(lower, upper)
        return self._columns(count=self.counts, frequency=self.frequencies, error=errors, lower=lower, upper=upper)

    def _interval(self, lower: Floats, upper: Floats, added: Any, taken: Any) -> pa.Table:
        least, most = self._reaching(np.clip(lower - added, 0.0, 1.0), np.clip(upper + taken, 0.0, 1.0))
        lower, upper = self._reaching(lower, upper)
        return self._columns(lower=lower, upper=upper, adversarial_lower=least, adversarial_upper=most)

    def _reaching(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return the ends moved so far that each interval holds its raw share, which noise may carry below 0 or above 1."""
        return np.minimum(lower, self.frequencies), np.maximum(upper, self.frequencies)

    def _columns(self, **columns: Floats) -> pa.Table:
        import pyarrow as pa

        return pa.table({"label": arrow_labels(self.labels), **columns})

    def _describe(self, source: str) -> str:
        points = round_up(100 * float(self.errors(0.95).max()), digits=2)
        added = round_up(100 * self.shift(0.01)[0], digits=2)
        return (
            f"<Estimate of {len(self.labels)} labels from {self.n:,} reports {source}: within {points} points at 95%, "
            f"each by itself; 1% malicious clients can add {added}>"
        )


@dataclass(frozen=True, slots=True, repr=False)
class FrequencyEstimate(FrequencyTables):
    """Hold what n reports say about the share of each label: `.table`, `.interval(0.95)`, `.projected()`.

    Shares are raw and unbiased, so some may be negative; intervals come of them, cut to what a share can be, but never so
    far that they leave out the share itself.
    """

    labels: tuple[Label, ...]
    supports: tuple[int, ...]
    n: int
    p: Fraction
    q: Fraction
    protocol: str

    @property
    def frequencies(self) -> Floats:
        """The unbiased estimates (c / n - q) / (p - q), one a label."""
        p = float(self.p)
        q = float(self.q)
        shares: Floats = (np.array(self.supports, dtype=np.float64) / self.n - q) / (p - q)
        return shares

    @property
    def table(self) -> pa.Table:
        """An Arrow table: label, count, frequency, error (of the frequency, at 95%), lower, upper.

        Its schema's metadata say how far 1% of malicious clients could move a frequency; `interval` has that as columns.
        """
        added, removed = self.shift(USUAL_MALICIOUS)
        metadata = {
            "malicious": f"{USUAL_MALICIOUS:g}",
            "malicious_add": f"{added:.6g}",
            "malicious_take": f"{removed:.6g}",
        }
        return self._table(*self._ends(0.95, "respondents")).replace_schema_metadata(metadata)

    def errors(self, confidence: float, *, about: str = "respondents") -> Floats:
        """Return the error of each frequency that is not exceeded with probability `confidence`, about.

        From the exact variance at the estimated share (cut to [0, 1]); `about` as in `interval`.
        """
        z = quantile(confidence)
        shares = np.clip(self.frequencies, 0.0, 1.0)
        spread = [variance(self.p, self.q, share=float(f), n=self.n, about=about) for f in shares]
        errors: Floats = z * np.sqrt(np.array(spread))
        return errors

    def interval(
        self,
        confidence: float,
        *,
        about: str = "respondents",
        malicious: float = USUAL_MALICIOUS,
        simultaneous: bool = False,
    ) -> pa.Table:
        """Return an Arrow table: label, lower, upper, and what they become if a share of the respondents lie.

        `about` "respondents": the share among those who answered; "population": among those they are random draws of.
        `adversarial_lower` and `adversarial_upper` hold the interval if a share `malicious` of the respondents sends whatever
        moves this label the most, together (Cheu, Smith, Ullman 2021; Cao, Jia, Gong 2021). `simultaneous`: all labels'
        intervals hold at once with that confidence, by Bonferroni; without it, each by itself.
        Raises DeclarationError unless 0 < confidence < 1 and 0 <= malicious < 1.
        """
        if simultaneous:
            confidence = simultaneous_confidence(confidence, len(self.labels))
        return self._interval(*self._ends(confidence, about), *self.shift(malicious))

    def shift(self, malicious: float) -> tuple[float, float]:
        """Return how much a share of malicious clients can add to a frequency, and how much it can take from one, on average.

        A malicious client always supports a label (or never) where an honest report would with probability q (or p):
        the shifts are malicious (1 - q) / (p - q) and malicious p / (p - q).
        """
        return shift_of(self.p, self.q, malicious)

    def _spread(self) -> float:
        return variance(self.p, self.q, share=1 / len(self.labels), n=self.n)

    def _ends(self, confidence: float, about: str) -> tuple[Floats, Floats]:
        how = respondents_interval if check_about(about) == "respondents" else population_interval
        return how(self.supports, n=self.n, p=float(self.p), q=float(self.q), confidence=check_confidence(confidence))

    def __repr__(self) -> str:
        return self._describe(f"by {self.protocol}")


def check_share(value: float, *, name: str, most: float = 0.999999) -> float:
    """Return a share; raises DeclarationError unless it lies in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise DeclarationError(f"{name} must be a share such as 0.01, from 0 to 1")
    return float(value)


def check_about(about: str) -> str:
    """Return whom an interval is about; raises DeclarationError for another word."""
    if about not in ("respondents", "population"):
        raise DeclarationError(f'about must be "respondents" or "population", not {about!r}')
    return about


def arrow_labels(labels: tuple[Label, ...]) -> Any:
    import pyarrow as pa

    kinds = {type(v) for v in labels if v is not None}
    return pa.array(labels if len(kinds) == 1 else ["(missing)" if v is None else str(v) for v in labels])
