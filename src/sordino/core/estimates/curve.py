"""Curve: sums of many noisy numbers, one a point, each with the deviation of its noise. Knows no exact answer."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

from sordino.core.estimates.estimate import ESTIMATES, estimate_to_dict


@ESTIMATES.register("curve")
@dataclass(frozen=True, slots=True)
class NoisyCurve:
    """Values that are weighted sums of independent noisy numbers, and the standard deviation of each one's noise.

    Errors are the larger of the normal law's quantile and the Laplace law's of that deviation: sums that one number
    dominates are near the second, sums that many share near the first.
    """

    points: tuple[float, ...]
    deviations: tuple[float, ...]

    per_row: ClassVar[tuple[str, ...]] = ("points", "deviations")

    def values(self) -> list[float]:
        """Return the point estimates."""
        return list(self.points)

    def errors(self, confidence: float) -> list[float]:
        """Return the error of each that is not exceeded with probability `confidence` or more."""
        # quantiles of the two laws at deviation 1
        laplace = -math.log1p(-confidence) / math.sqrt(2)
        widest = max(laplace, normal_quantile(confidence))
        return [widest * d for d in self.deviations]

    def intervals(self, confidence: float) -> list[tuple[float, float]]:
        """Return the confidence interval of each by itself."""
        return [(v - e, v + e) for v, e in zip(self.points, self.errors(confidence), strict=True)]

    to_dict = estimate_to_dict


@functools.lru_cache(maxsize=64)
def normal_quantile(confidence: float) -> float:
    """Return z with P(|N| <= z) = confidence.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    from statistics import NormalDist

    below = (1 + confidence) / 2
    # Within 2e-16 of 1 it rounds to 1, where the other tail still has digits.
    return NormalDist().inv_cdf(below) if below < 1 else -NormalDist().inv_cdf((1 - confidence) / 2)
