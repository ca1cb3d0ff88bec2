"""Ratios of a noisy sum to a noisy count, such as means: their intervals hold whatever the count."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sordino.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.estimates.noisy import Law, Noisy
from sordino.noise.laws import DiscreteLaplace, two_laplace_tail

__all__ = ["Ratio", "ratio_margin"]

_LUMPY = 12  # below this deviation of a count's noise, its whole steps show in a ratio's interval
_MOST_EXACT = 300_000  # terms up to which they are summed exactly


@ESTIMATES.register("ratio")
@dataclass(frozen=True, slots=True)
class Ratio:
    """A mean: center + (noisy centred sum) / (noisy count), clamped to [lower, upper], in steps of the sum's unit.

    The interval inverts the test that the mean is m: under it, sum - m * count is noise alone, Z_s - m Z_n, whose law is
    known (Fieller 1954). It holds whatever the count, so an empty group gets the whole range. Where noise carried the ratio
    so far past a bound that every mean is rejected, it is the interval of the bound itself, not a point.
    """

    numerator: Noisy
    denominator: Noisy
    center: BigInt
    lower: BigInt
    upper: BigInt

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
        alpha, unit = 1.0 - confidence, float(self.numerator.unit)
        total = np.array([float(s) for s in self.numerator.steps])
        count = np.array([float(s) for s in self.denominator.steps])
        low, high = float(self.lower - self.center), float(self.upper - self.center)
        start = np.array([float(self._ratio(i)) for i in range(len(total))])
        tail = _tails(self.numerator.law, self.denominator.law, cells=len(total))
        beyond = tail(start, total - start * count) < alpha
        total = np.where(beyond, start * count, total)
        far = np.array([[low], [high]])
        edges = _edges(lambda mean: tail(mean, total - mean * count) >= alpha, start, far)
        lower, upper = np.where(count < 1.0, far, edges) + self.center
        rows = zip(lower * unit, upper * unit, self.values(), strict=True)
        return [(min(float(a), v), max(float(b), v)) for a, b, v in rows]  # by an ulp, where they meet

    to_dict = estimate_to_dict

    def _ratio(self, i: int) -> Fraction:
        raw = Fraction(self.numerator.steps[i], max(1, self.denominator.steps[i]))
        return max(Fraction(self.lower - self.center), min(Fraction(self.upper - self.center), raw))


@functools.lru_cache(maxsize=8)
def _fieller(ratio: Ratio, confidence: float) -> tuple[tuple[Number, Number], ...]:
    """Return the intervals of a ratio; cached, since a release reports them more than once."""
    return tuple(ratio._ends(confidence))


def ratio_margin(numerator: Law, denominator: Law, mean: float, confidence: float) -> float:
    """Return the error of a ratio times its count, in steps, not exceeded with probability `confidence`.

    `mean` is the centred mean in steps.
    """
    alpha, high = 1.0 - confidence, 1.0
    tail, at = _tails(numerator, denominator, cells=1), np.array([mean])
    while float(tail(at, np.array([high]))[0]) > alpha:
        high *= 2.0
    low = 0.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if float(tail(at, np.array([middle]))[0]) > alpha else (low, middle)
    return high


def _edges(inside: Callable[[Any], Any], start: Any, far: Any) -> Any:
    """Return, for each end in `far`, the last mean from `start` towards it that the test does not reject, by bisection.

    On that way |sum - m count| minus the (convex) critical value is concave, so it changes sign at most once.
    """
    outside = np.broadcast_to(far, (len(far), len(start)))
    within, whole = np.broadcast_to(start, outside.shape), inside(outside)
    for _ in range(42):
        middle = (within + outside) / 2
        holds = inside(middle)
        within, outside = np.where(holds, middle, within), np.where(holds, outside, middle)
    return np.where(whole, far, outside)


def _tails(numerator: Law, denominator: Law, *, cells: int) -> Callable[[Any, Any], Any]:
    """Return P(|Z_s - mean Z_n| >= |distance|) as a function of arrays of means and distances, in steps, of `cells` rows.

    Where the count's noise is small its whole steps show, and the sum over its values is taken exactly; else continuous
    laws stand in for the discrete ones.
    """
    variance = denominator.variance()
    if variance < _LUMPY**2:
        reach = denominator.error(1 - 1e-9)
        if cells * (reach + 1) <= _MOST_EXACT:
            return _mixture(numerator, denominator, reach)
    if isinstance(numerator, DiscreteLaplace) and isinstance(denominator, DiscreteLaplace):
        top, bottom = float(numerator.scale), float(denominator.scale)
        return lambda mean, distance: two_laplace_tail(top, bottom * np.abs(mean), np.abs(distance))
    own = numerator.variance()

    def gaussian(mean: Any, distance: Any) -> Any:
        size, spread = np.abs(distance), np.sqrt(own + variance * np.square(mean))
        ratio = np.divide(size, spread * math.sqrt(2.0), out=np.where(size > 0, np.inf, 0.0), where=spread > 0)
        return np.vectorize(math.erfc, otypes=[float])(ratio)

    return gaussian


def _mixture(numerator: Law, denominator: Law, reach: int) -> Callable[[Any, Any], Any]:
    """Return the same tail as a sum over the values of Z_n, each with the discrete tail of Z_s on both sides."""
    steps = np.arange(-reach, reach + 1)
    upper = _at_least(denominator)(steps)
    mass = upper - np.append(upper[1:], 0.0)
    beyond = denominator.tail(reach)  # of the values of Z_n left out: counted as reaching any distance
    at_least = _at_least(numerator)

    def mixture_tail(mean: Any, distance: Any) -> Any:
        size, shift = np.abs(distance), mean[..., None] * steps
        both = at_least(np.ceil(size[..., None] + shift)) + at_least(np.ceil(size[..., None] - shift))
        return np.minimum(np.where(size > 0, np.minimum(both, 1.0) @ mass + beyond, 1.0), 1.0)

    return mixture_tail


def _at_least(law: Law) -> Callable[[Any], Any]:
    """Return P(Z >= step) as a function of arrays of whole steps, in floats."""
    if isinstance(law, DiscreteLaplace):
        if law.scale == 0:
            return lambda steps: np.where(steps <= 0, 1.0, 0.0)
        scale = float(law.scale)
        ratio = math.exp(-1.0 / scale)

        def laplace(steps: Any) -> Any:
            tail = np.exp(-np.where(steps > 0, steps, 1 - steps) / scale) / (1.0 + ratio)
            return np.where(steps > 0, tail, 1.0 - tail)

        return laplace
    sigma = math.sqrt(float(law.sigma_squared))
    if sigma >= _LUMPY:
        return lambda steps: 0.5 * np.vectorize(math.erfc, otypes=[float])((steps - 0.5) / (sigma * math.sqrt(2.0)))
    reach = math.ceil(10 * sigma) + 2
    weights = np.exp(-np.square(np.arange(-reach, reach + 1)) / (2 * float(law.sigma_squared) or 1.0))
    tails = np.append(np.cumsum(weights[::-1])[::-1] / weights.sum(), 0.0)
    return lambda steps: tails[np.clip(steps + reach, 0, 2 * reach + 1).astype(np.int64)]
