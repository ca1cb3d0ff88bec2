"""The estimate of shares from sums of noisy numbers, 1 for a respondent's label and 0 for others: errors and intervals.

It sees sums, n and the law of the noise: it may not know how reports are made. Everything here is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sordino.local.estimates.binomial import check_confidence, quantile
from sordino.local.estimates.frequency import Floats, FrequencyEstimate, check_about, check_share

# Points of a law that is summed; wider laws, of thousands of noises, are nearly normal.
_LARGEST = 1 << 20


def sum_variance(ratio: float, n: int) -> float:
    """Return the variance of n discrete Laplace noises: 2 n r / (1 - r)^2.

    >>> round(sum_variance(math.exp(-0.5), 1), 6)
    7.835396
    """
    return 2 * n * ratio / (1 - ratio) ** 2


@lru_cache(maxsize=1024)
def sum_reach(ratio: float, n: int, confidence: float) -> int:
    """Return the least t with P(|Z_1 + .. + Z_n| > t) <= 1 - confidence, Z_i discrete Laplace of this ratio.

    The characteristic function of a sum is ((1 - r)^2 / (1 - 2 r cos u + r^2))^n; its transform is the law, on points that
    reach past nine deviations and 30 steps of e. Where those are too many, n is in the thousands, and the normal quantile
    is corrected by the fourth moment (Cornish & Fisher 1938).

    >>> from sordino.core.noise.laws import DiscreteLaplace
    >>> sum_reach(math.exp(-0.5), 1, 0.95) == DiscreteLaplace(2).error(0.95)
    True
    """
    deviation = math.sqrt(sum_variance(ratio, n))
    reach = math.ceil(9 * deviation - 30 / math.log(ratio)) + 2
    size = 1 << (2 * reach).bit_length()
    if size > _LARGEST or confidence > 1 - 1e-10:
        z = quantile(confidence)
        # The excess kurtosis of Laplace noise is 3.
        return math.ceil(deviation * (z + (z**3 - 3 * z) / (8 * n)))
    angles = 2 * math.pi * np.arange(size // 2 + 1) / size
    law = np.fft.irfft(((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angles) + ratio**2)) ** n, size)
    within = law[0] + np.concatenate([[0.0], 2 * np.cumsum(law[1 : reach + 1])])
    return int(np.argmax(within >= confidence))


@dataclass(frozen=True, slots=True, repr=False)
class NoisySumEstimate(FrequencyEstimate):
    """Hold what n reports of noisy numbers say about the share of each label; `supports` are the sums of the numbers."""

    ratio: float
    limit: int

    def errors(self, confidence: float, *, about: str = "respondents") -> Floats:
        """Return the error of each frequency: of these respondents that of the noise's sum, exactly, alike for all labels.

        For a population, at the estimated share (cut to [0, 1]), that of the respondents' drawing is added as variances are.
        """
        shares = np.clip(self.frequencies, 0.0, 1.0)
        errors: Floats = np.sqrt(self._noise(confidence) ** 2 + self._drawn(confidence, about) * shares * (1 - shares))
        return errors

    def shift(self, malicious: float) -> tuple[float, float]:
        """Return what malicious clients can add to a frequency, and take from it: each its share times the limit."""
        moved = check_share(malicious, name="malicious") * self.limit
        return moved, moved

    def _noise(self, confidence: float) -> float:
        return sum_reach(self.ratio, self.n, check_confidence(confidence)) / self.n

    def _drawn(self, confidence: float, about: str) -> float:
        """Return z^2 / n where respondents are draws of a population, else 0."""
        return quantile(confidence) ** 2 / self.n if check_about(about) == "population" else 0.0

    def _ends(self, confidence: float, about: str) -> tuple[Floats, Floats]:
        """Return the shares s with |f - s| <= step + sqrt(noise^2 + z^2 s (1 - s) / n), cut to [0, 1].

        The step is half a respondent where respondents are drawn: a correction for whole numbers (Wilson 1927's idea).
        """
        of_respondents = self._drawn(confidence, about)
        noise = self._noise(confidence)
        step = 0.5 / self.n if of_respondents else 0.0

        def end(sign: int) -> Floats:
            # No share fits beyond the noise.
            shares = np.clip(self.frequencies + sign * step, -noise, 1.0 + noise)
            middle = (shares + of_respondents / 2) / (1 + of_respondents)
            half = np.sqrt(np.maximum(middle**2 - (shares**2 - noise**2) / (1 + of_respondents), 0.0))
            limit: Floats = np.clip(middle + sign * half, 0.0, 1.0)
            return limit

        return end(-1), end(1)
