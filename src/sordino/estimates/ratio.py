"""Ratios of a noisy sum to a noisy count, such as means: their intervals hold whatever the count."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sordino.errors import DeclarationError
from sordino.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.estimates.noisy import Law, Noisy
from sordino.estimates.weighted_sum import Mix, mix_steps
from sordino.noise.laws import DiscreteLaplace
from sordino.noise.sums import at_least

__all__ = ["Ratio", "ratio_margin", "two_laplace_tail"]

_LUMPY = 12  # below this deviation of a noise, its whole steps show in a ratio's interval
_MOST_EXACT = 300_000  # terms up to which they are summed exactly
_PLAIN: Mix = ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))

Weights = Sequence[Any]  # of each noise, as arrays


@ESTIMATES.register("ratio")
@dataclass(frozen=True, slots=True)
class Ratio:
    """A mean: center + (noisy centred sum) / (noisy count), clamped to [lower, upper], in steps of the sum's unit.

    Sum and count are `numerator` and `denominator`, or follow from these and `rest`, noisy vectors all, by the two rows of
    `mix`; `vectors` says which of the answer's they are. The interval inverts the test that the mean is m: under it,
    sum - m count is noise alone, a weighted sum of independent noises whose law is known (Fieller 1954). It holds whatever
    the count, so a group that noise may have made gets the whole range or most of it. Where noise carried the ratio so far
    past a bound that every mean is rejected, it is the interval of the bound itself, not a point.
    """

    numerator: Noisy
    denominator: Noisy
    center: BigInt
    lower: BigInt
    upper: BigInt
    rest: tuple[Noisy, ...] = ()
    mix: Mix = _PLAIN
    vectors: tuple[int, ...] = ()

    per_row: ClassVar[tuple[str, ...]] = ("numerator", "denominator", "rest")

    @property
    def of(self) -> tuple[Noisy, ...]:
        """The noisy vectors that it follows from."""
        return (self.numerator, self.denominator, *self.rest)

    def values(self) -> list[Number]:
        """Return the clamped ratios; the noisy count is at least 1."""
        unit = self.numerator.unit
        return [float((self.center + ratio) * unit) for ratio in self._ratios()]

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
        total, count = (np.array([float(s) for s in steps]) for steps in mix_steps(self.mix, self.of))
        low, high = float(self.lower - self.center), float(self.upper - self.center)
        start = np.array([float(ratio) for ratio in self._ratios()])
        top, bottom = ([float(w) for w in row] for row in self.mix)
        accepts = _acceptance([o.law for o in self.of], alpha, cells=len(total))

        def inside(mean: Any, total: Any) -> Any:
            return accepts([a - mean * b for a, b in zip(top, bottom, strict=True)], total - mean * count)

        far = np.array([[low], [high]])
        root = np.divide(total, count, out=start.copy(), where=count != 0)
        start = np.clip(root, low, high)
        ends, found = inside(far, total), inside(start, total)
        total = np.where(found | ends.any(axis=0), total, start * count)
        start = np.where(found | ~ends.any(axis=0), start, np.where(ends[0], low, high))
        lower, upper = _edges(lambda mean: inside(mean, total), start, far) + self.center
        rows = zip(lower * unit, upper * unit, self.values(), strict=True)
        return [(min(float(a), v), max(float(b), v)) for a, b, v in rows]  # by an ulp, where they meet

    to_dict = estimate_to_dict

    def _ratios(self) -> list[Fraction]:
        low, high = Fraction(self.lower - self.center), Fraction(self.upper - self.center)
        rows = zip(*mix_steps(self.mix, self.of), strict=True)
        return [max(low, min(high, total / max(Fraction(1), count))) for total, count in rows]


@functools.lru_cache(maxsize=8)
def _fieller(ratio: Ratio, confidence: float) -> tuple[tuple[Number, Number], ...]:
    """Return the intervals of a ratio; cached, since a release reports them more than once."""
    return tuple(ratio._ends(confidence))


def ratio_margin(laws: Sequence[Law], mean: float, confidence: float, mix: Mix = ()) -> float:
    """Return the error of a ratio times its count, in steps, not exceeded with probability `confidence`.

    `mean` is the centred mean in steps; sum and count follow from noisy vectors of these laws by the rows of `mix`.
    """
    low, high = 0.0, 1.0
    weights = [np.array([float(a) - mean * float(b)]) for a, b in zip(*(mix or _PLAIN), strict=True)]
    accepts = _acceptance(laws, 1.0 - confidence, cells=1)
    while accepts(weights, np.array([high]))[0]:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if accepts(weights, np.array([middle]))[0] else (low, middle)
    return high


def _edges(inside: Callable[[Any], Any], start: Any, far: Any) -> Any:
    """Return, for each end in `far`, the last mean from `start` towards it that the test does not reject, by bisection.

    On that way |sum - m count| minus the (convex) critical value is concave, so it changes sign at most once where the end
    is rejected.
    """
    outside = np.broadcast_to(far, (len(far), len(start)))
    within, whole = np.broadcast_to(start, outside.shape), inside(outside)
    for _ in range(42):
        middle = (within + outside) / 2
        holds = inside(middle)
        within, outside = np.where(holds, middle, within), np.where(holds, outside, middle)
    return np.where(whole, far, outside)


def _acceptance(laws: Sequence[Law], alpha: float, *, cells: int) -> Callable[[Weights, Any], Any]:
    """Return whether P(|sum of weight times Z| >= |distance|) >= alpha, of arrays of weights and distances, of `cells` rows.

    Beyond two noises the law of their sum is characterised by its variance and fourth moment.
    """
    if len(laws) > 2:
        from sordino.estimates.second_moments import noise_margin

        return lambda weights, distance: np.abs(distance) <= noise_margin(laws, weights, alpha)
    tail = _tails(laws[0], laws[1], cells=cells)
    return lambda weights, distance: tail(weights, distance) >= alpha


def _tails(first: Law, second: Law, *, cells: int) -> Callable[[Weights, Any], Any]:
    """Return P(|sum of weight times Z| >= |distance|) of two noises, as a function of arrays of weights and distances.

    Where the second noise is small its whole steps show, and the sum over its values is taken exactly; else continuous
    laws stand in for the discrete ones.
    """
    if second.variance() < _LUMPY**2:
        reach = second.error(1 - 1e-9)
        if cells * (reach + 1) <= _MOST_EXACT:
            return _mixture(first, second, reach)
    if isinstance(first, DiscreteLaplace) and isinstance(second, DiscreteLaplace):
        top, bottom = float(first.scale), float(second.scale)
        return lambda weights, distance: two_laplace_tail(
            top * np.abs(weights[0]), bottom * np.abs(weights[1]), np.abs(distance)
        )
    variances = first.variance(), second.variance()

    def gaussian(weights: Weights, distance: Any) -> Any:
        size = np.abs(distance)
        spread = np.sqrt(sum(v * np.square(w) for v, w in zip(variances, weights, strict=True)))
        ratio = np.divide(size, spread * math.sqrt(2.0), out=np.where(size > 0, np.inf, 0.0), where=spread > 0)
        return np.vectorize(math.erfc, otypes=[float])(ratio)

    return gaussian


def two_laplace_tail(a: Any, b: Any, t: Any) -> Any:
    """Return P(|a L1 + b L2| > t) for independent continuous Laplace L1, L2 of scale 1; arrays broadcast.

    Theorem: for a > b > 0 it is (a^2 e^(-t/a) - b^2 e^(-t/b)) / (a^2 - b^2) =
    e^(-t/a) (1 + b t / (a (a + b)) phi(z)), z = t (a - b) / (a b), phi(z) = (1 - e^-z) / z; phi(0) = 1 gives the limit
    e^(-t/a) (1 + t / (2a)) at a = b, and b = 0 leaves e^(-t/a). The second form has no cancellation.

    Scales a, b >= 0 (DeclarationError otherwise; NaN too), t in the same unit; 1 for t < 0. Kotz, Kozubowski,
    Podgorski 2001, The Laplace distribution and generalizations, chapter 2.

    >>> float(two_laplace_tail(1.0, 0.0, 0.0)), round(float(two_laplace_tail(2.0, 2.0, 4.0)), 6)
    (1.0, 0.270671)
    """
    first, second, bound = (np.asarray(v, dtype=np.float64) for v in (a, b, t))
    if not (np.all(first >= 0) and np.all(second >= 0) and not np.any(np.isnan(bound))):
        raise DeclarationError("a and b must be numbers of at least 0, and t must not be NaN")
    large, small, bound = np.broadcast_arrays(np.maximum(first, second), np.minimum(first, second), bound)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = bound / small * ((large - small) / large)
        phi = np.where(z > 0, -np.expm1(-z) / z, 1.0)
        depth = bound / large
        tail = np.exp(-depth) * (1 + np.where(small > 0, small / (large + small) * depth * phi, 0.0))
    tail = np.where((large > 0) & (depth < math.inf), tail, 0.0)
    return np.where(bound < 0, 1.0, np.minimum(tail, 1.0))[()]


def _mixture(first: Law, second: Law, reach: int) -> Callable[[Weights, Any], Any]:
    """Return the same tail as a sum over the values of the second noise, each with the tail of the first on both sides."""
    steps = np.arange(-reach, reach + 1)
    upper = at_least(second)(steps)
    mass = upper - np.append(upper[1:], 0.0)
    beyond = second.tail(reach)  # of the values left out: counted as reaching any distance
    reaches = at_least(first)

    def chance(weight: Any, rest: Any) -> Any:
        """Return P(weight Z >= rest); a weight of 0 moves nothing."""
        whole = np.divide(rest, weight, out=np.where(rest > 0, np.inf, -np.inf), where=weight > 0)
        return reaches(np.ceil(whole - 1e-9))  # what rounding moved past a step has not passed it

    def mixture_tail(weights: Weights, distance: Any) -> Any:
        size, weight = np.abs(distance), np.abs(np.asarray(weights[0]))[..., None]
        shift = np.asarray(weights[1])[..., None] * steps
        over, under = size[..., None] - shift, size[..., None] + shift
        weight = np.broadcast_to(weight, np.broadcast_shapes(weight.shape, over.shape))
        both = chance(weight, over) + chance(weight, under)
        return np.minimum(np.where(size > 0, np.minimum(both, 1.0) @ mass + beyond, 1.0), 1.0)

    return mixture_tail
