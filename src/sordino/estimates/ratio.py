"""Ratios of a noisy sum to a noisy count, such as means: their intervals hold whatever the count."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sordino.estimates.estimate import Number
from sordino.estimates.noisy import Law, Noisy, noisy_from_dict
from sordino.noise.laws import DiscreteLaplace, two_laplace_tail

__all__ = ["Ratio", "from_dict", "ratio_margin", "ratio_tail"]

_LUMPY = 12  # below this deviation of a count's noise, its whole steps show in a ratio's interval
_MOST_EXACT = 300_000  # terms up to which they are summed exactly


@dataclass(frozen=True, slots=True)
class Ratio:
    """A mean: center + (noisy centred sum) / (noisy count), clamped to [lower, upper], in steps of the sum's unit.

    The interval inverts the test that the mean is m: under it, sum - m * count is noise alone, Z_s - m Z_n, whose law is
    known (Fieller 1954). It holds whatever the count, so an empty group gets the whole range. Where noise carried the ratio
    so far past a bound that every mean is rejected, it is the interval of the bound itself, not a point.
    """

    numerator: Noisy
    denominator: Noisy
    center: int
    lower: int
    upper: int

    per_row: ClassVar[tuple[str, ...]] = ("numerator", "denominator")

    def values(self) -> list[Number]:
        """Return the clamped ratios; the noisy count is at least 1."""
        unit = self.numerator.unit
        return [float((self.center + self._ratio(i)) * unit) for i in range(len(self.numerator.steps))]

    def errors(self, confidence: float) -> list[Number]:
        """Return the larger distance from each value to an end of its interval."""
        ends = self.intervals(confidence)
        return [max(v - low, high - v) for v, (low, high) in zip(self.values(), ends, strict=True)]

    def intervals(self, confidence: float) -> list[tuple[Number, Number]]:
        """Return the Fieller interval of each, cut to [lower, upper]."""
        return list(_fieller(self, confidence))

    def _ends(self, confidence: float) -> list[tuple[Number, Number]]:
        if not self.numerator.steps:
            return []
        unit = float(self.numerator.unit)
        total = np.array([float(s) for s in self.numerator.steps])
        count = np.array([float(s) for s in self.denominator.steps])
        low, high = float(self.lower - self.center), float(self.upper - self.center)
        start = np.array([float(self._ratio(i)) for i in range(len(self.numerator.steps))])
        beyond = self._tail(start, total - start * count) < 1.0 - confidence
        total = np.where(beyond, start * count, total)
        ends = [self._edge(total, count, start, end, 1.0 - confidence) for end in (low, high)]
        vague = count < 1.0
        lower = np.where(vague, low, ends[0]) + self.center
        upper = np.where(vague, high, ends[1]) + self.center
        rows = zip(lower * unit, upper * unit, self.values(), strict=True)
        return [(min(float(a), v), max(float(b), v)) for a, b, v in rows]  # by an ulp, where they meet

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data."""
        return {
            "kind": "ratio",
            "numerator": self.numerator.to_dict(),
            "denominator": self.denominator.to_dict(),
            "center": str(self.center),
            "lower": str(self.lower),
            "upper": str(self.upper),
        }

    def _ratio(self, i: int) -> Fraction:
        raw = Fraction(self.numerator.steps[i], max(1, self.denominator.steps[i]))
        return max(Fraction(self.lower - self.center), min(Fraction(self.upper - self.center), raw))

    def _edge(self, total: Any, count: Any, start: Any, end: float, alpha: float) -> Any:
        """Return the last mean from `start` towards `end` that the test does not reject, by bisection.

        On that way |sum - m count| minus the (convex) critical value is concave, so it changes sign at most once.
        """
        inside, outside = start.copy(), np.full_like(start, end)
        whole = self._tail(outside, total - outside * count) >= alpha
        for _ in range(42):
            middle = (inside + outside) / 2
            kept = self._tail(middle, total - middle * count) >= alpha
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        return np.where(whole, end, outside)

    def _tail(self, mean: Any, distance: Any) -> Any:
        return ratio_tail(self.numerator.law, self.denominator.law, mean, distance)


@functools.lru_cache(maxsize=8)
def _fieller(ratio: Ratio, confidence: float) -> tuple[tuple[Number, Number], ...]:
    """Return the intervals of a ratio; kept, since a release tells them more than once."""
    return tuple(ratio._ends(confidence))


def ratio_tail(numerator: Law, denominator: Law, mean: Any, distance: Any) -> Any:
    """Return P(|Z_s - mean Z_n| >= |distance|) for arrays of means and distances, in steps.

    Where the count's noise is small its whole steps show, and the sum over its values is taken exactly; else continuous
    laws stand in for the discrete ones.
    """
    size = np.abs(np.asarray(distance, dtype=float))
    means = np.asarray(mean, dtype=float)
    if denominator.variance() < _LUMPY**2 and means.size * (denominator.error(1 - 1e-9) + 1) <= _MOST_EXACT:
        return _mixture(numerator, denominator, means, size)
    if isinstance(numerator, DiscreteLaplace) and isinstance(denominator, DiscreteLaplace):
        return two_laplace_tail(float(numerator.scale), float(denominator.scale) * np.abs(means), size)
    spread = np.sqrt(numerator.variance() + denominator.variance() * np.square(means))
    ratio = np.divide(size, spread * math.sqrt(2.0), out=np.where(size > 0, np.inf, 0.0), where=spread > 0)
    return np.vectorize(math.erfc, otypes=[float])(ratio)


def _mixture(numerator: Law, denominator: Law, mean: Any, size: Any) -> Any:
    """Return the same tail as a sum over the values of Z_n, each with the discrete tail of Z_s on both sides."""
    reach = denominator.error(1 - 1e-9)
    steps = np.arange(-reach, reach + 1)
    upper = _at_least(denominator, steps)
    mass = upper - np.append(upper[1:], 0.0)
    shift = mean[..., None] * steps
    both = _at_least(numerator, np.ceil(size[..., None] + shift)) + _at_least(
        numerator, np.ceil(size[..., None] - shift)
    )
    beyond = denominator.tail(reach)  # of the values of Z_n left out: counted as reaching any distance
    return np.minimum(np.where(size > 0, np.minimum(both, 1.0) @ mass + beyond, 1.0), 1.0)


def _at_least(law: Law, steps: Any) -> Any:
    """Return P(Z >= step) for an array of whole steps, in floats."""
    if isinstance(law, DiscreteLaplace):
        if law.scale == 0:
            return np.where(steps <= 0, 1.0, 0.0)
        ratio = math.exp(-1.0 / float(law.scale))
        tail = np.exp(-np.where(steps > 0, steps, 1 - steps) / float(law.scale)) / (1.0 + ratio)
        return np.where(steps > 0, tail, 1.0 - tail)
    sigma = math.sqrt(float(law.sigma_squared))
    if sigma >= _LUMPY:
        return 0.5 * np.vectorize(math.erfc, otypes=[float])((steps - 0.5) / (sigma * math.sqrt(2.0)))
    reach = math.ceil(10 * sigma) + 2
    weights = np.exp(-np.square(np.arange(-reach, reach + 1)) / (2 * float(law.sigma_squared) or 1.0))
    tails = np.append(np.cumsum(weights[::-1])[::-1] / weights.sum(), 0.0)
    return tails[np.clip(steps + reach, 0, 2 * reach + 1).astype(np.int64)]


def ratio_margin(numerator: Law, denominator: Law, mean: float, confidence: float) -> float:
    """Return the error of a ratio times its count, in steps, not exceeded with probability `confidence`.

    `mean` is the centred mean in steps.
    """
    alpha, high = 1.0 - confidence, 1.0
    at = np.array([mean])
    while float(ratio_tail(numerator, denominator, at, np.array([high]))[0]) > alpha:
        high *= 2.0
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        above = float(ratio_tail(numerator, denominator, at, np.array([middle]))[0]) > alpha
        low, high = (middle, high) if above else (low, middle)
    return high


def from_dict(data: dict[str, Any]) -> Ratio:
    """Return the estimate that `Ratio.to_dict` wrote."""
    top, bottom = noisy_from_dict(data["numerator"]), noisy_from_dict(data["denominator"])
    return Ratio(top, bottom, int(data["center"]), int(data["lower"]), int(data["upper"]))
