"""The estimate of a mean: its value, error and interval, from the moments of reports. It may not know how they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sordino.core.errors import DeclarationError
from sordino.core.loss import round_up
from sordino.local.estimates.binomial import population_interval, quantile
from sordino.local.estimates.frequency import USUAL_MALICIOUS, check_share

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReportMoments:
    """Hold n, the mean and mean square of the reports' unbiased values on the scale of [-1, 1], and their law.

    A value's second moment is `base` + `slope` t^2 where the answer is t; no value lies beyond `most`.
    """

    n: int
    first: float
    second: float
    base: float
    slope: float
    most: float


@dataclass(frozen=True, slots=True, repr=False)
class MeanEstimate:
    """Hold an unbiased mean in the bounds' units: `.value`, `.error(0.95)`, `.interval(0.95)`, `.adversarial(0.95)`."""

    lower: float
    upper: float
    moments: ReportMoments

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.moments.n

    @property
    def value(self) -> float:
        """The unbiased estimate of the mean; by chance it may lie outside the bounds."""
        return self._middle + self._half * self.moments.first

    def error(self, confidence: float, *, about: str = "respondents") -> float:
        """Return half the width of the interval before it is cut to the bounds.

        The variance of n reports is (b + (c - 1) a) / n for the mean of these respondents, a the mean square of their
        answers, and at most (b + c a - m^2) / n for a population's; a and m are bounded from the reports themselves, to
        the side that widens. `about` is "respondents" or "population".
        """
        z = quantile(confidence)
        m = self.moments
        spread = self._variance(z, about)
        deviation = math.sqrt(max(spread, 0.0) / m.n)
        if m.slope == 0.0:
            # Half a step of whole bits is added as a correction.
            return self._half * (z * deviation + m.most / m.n)
        return self._half * _heavier(z, m.n) * deviation

    def interval(self, confidence: float, *, about: str = "respondents") -> tuple[float, float]:
        """Return value -+ error, cut to the bounds or to a value beyond them, and of one side beside the bounds.

        A mean within `near` of a bound is rejected for values far off to the other side alone, since it is cut off on its
        own. Raises DeclarationError unless 0 < confidence < 1.

        Reports of one bit each: the test of a binomial's share is inverted instead (`population_interval`). It holds for
        bits of different probabilities too, whose sum is less spread than the binomial of their mean (Hoeffding 1956).
        """
        m = self.moments
        if m.slope == 0.0:
            ones = round(m.n * (1 + m.first / m.most) / 2)
            high = (1 + 1 / m.most) / 2
            ends = population_interval((ones,), n=m.n, p=high, q=1 - high, confidence=confidence)
            low, top = (self.lower + 2 * self._half * float(end[0]) for end in ends)
            return min(low, self.value), max(top, self.value)
        margin = self.error(confidence, about=about)
        near = margin - self.error(max(2 * confidence - 1, 1e-9), about=about)
        if 2 * near >= self.upper - self.lower:
            near = 0.0
        low = max(_lower_end(self.value - self.lower, margin, near), 0.0)
        high = max(_lower_end(self.upper - self.value, margin, near), 0.0)
        least = min(self.lower + low, self.upper - near)
        most = max(self.upper - high, self.lower + near)
        return min(least, self.value), max(most, self.value)

    def shift(self, malicious: float) -> float:
        """Return how far malicious clients can move the mean, up or down, on average: their share (m + 1) half the range.

        A malicious client sends the report of the largest unbiased value, m on the scale of [-1, 1]; its answer was at
        worst the other end of the scale (Cheu, Smith, Ullman 2021). Raises DeclarationError unless 0 <= malicious < 1.
        """
        return check_share(malicious, name="malicious") * (self.moments.most + 1) * self._half

    def adversarial(
        self, confidence: float, *, about: str = "respondents", malicious: float = USUAL_MALICIOUS
    ) -> tuple[float, float]:
        """Return the interval if a share `malicious` of the respondents collude, cut to the bounds or to a value beyond."""
        low, high = self.interval(confidence, about=about)
        moved = self.shift(malicious)
        return min(max(low - moved, self.lower), self.value), max(min(high + moved, self.upper), self.value)

    @property
    def table(self) -> pa.Table:
        """An Arrow table of one row: mean, error, lower, upper (at 95%), both if 1% of the respondents collude, n."""
        import pyarrow as pa

        low, high = self.interval(0.95)
        least, most = self.adversarial(0.95)
        columns = {"mean": self.value, "error": self.error(0.95), "lower": low, "upper": high}
        columns |= {"adversarial_lower": least, "adversarial_upper": most}
        return pa.table({name: [value] for name, value in columns.items()} | {"n": [self.n]})

    def _variance(self, z: float, about: str) -> float:
        if about not in ("respondents", "population"):
            raise DeclarationError(f'about must be "respondents" or "population", not {about!r}')
        m = self.moments
        # The mean's square, at least.
        near = max(0.0, abs(m.first) - z * math.sqrt((m.base + m.slope) / m.n)) ** 2
        if m.slope == 0.0:
            return m.base - near
        loose = z * m.most * math.sqrt(m.second / m.n) / m.slope
        # The mean square, at most.
        square = min(1.0, max(0.0, (m.second - m.base) / m.slope) + loose)
        if about == "population":
            return m.base + m.slope * square - near
        return m.base + ((m.slope - 1) * square if m.slope >= 1 else (m.slope - 1) * near)

    @property
    def _middle(self) -> float:
        return (self.lower + self.upper) / 2

    @property
    def _half(self) -> float:
        return (self.upper - self.lower) / 2

    def __repr__(self) -> str:
        return (
            f"<Mean {self.value:.6g} within {round_up(self.error(0.95), digits=3)} at 95%, from {self.n:,} reports; "
            f"1% malicious clients can move it by {round_up(self.shift(0.01), digits=3)}>"
        )


def _lower_end(above: float, margin: float, near: float) -> float:
    """Return how far above a bound the interval's end beside it lies, for a value `above` it."""
    return above - margin + near if above <= margin else max(near, above - margin)


def _heavier(z: float, n: int) -> float:
    """Return z as Student's t with n degrees has it, about (Cornish & Fisher 1938): few reports are not yet normal."""
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n * n)
