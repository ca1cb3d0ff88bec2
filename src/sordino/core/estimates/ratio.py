"""Ratios of a noisy sum to a noisy count, such as means: their intervals hold whatever the count."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sordino.core.estimates.array_bisection import bisect_arrays
from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import Mix, mix_steps
from sordino.core.noise.laws import NoiseLaw

# below this deviation of a noise, its whole steps show in a ratio's interval
_LUMPY = 12
# rounds of the search for where tests become one-sided
_TURNS = 6
# the number of terms up to which a tail is summed exactly
_MOST_EXACT = 300_000
_PLAIN: Mix = ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))

# the weight of each noise, as arrays
Weights = Sequence[Any]


@ESTIMATES.register("ratio")
@dataclass(frozen=True, slots=True)
class Ratio:
    """A mean: center + (noisy centred sum) / (noisy count), clamped to [lower, upper], in steps of the sum's unit.

    Sum and count are `numerator` and `denominator`, or follow from these and `rest`, noisy vectors all, by the two rows of
    `mix`; `vectors` says which of the answer's they are. The interval inverts the test that the mean is m: under it,
    sum - m count is noise alone, a weighted sum of independent noises whose law is known (Fieller 1954). It holds whatever
    the count, so a group that noise may have made gets the whole range or most of it. Beside a bound the test rejects on the
    side away from it alone, as in `Noisy`: at the bound itself the other side is cut off, and (1 + confidence) / 2 would be
    covered. Where noise carried the ratio past a bound so far that every mean is rejected, it is the interval of the bound.
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
        return list(_clamped(self))

    def errors(self, confidence: float) -> list[Number]:
        """Return the larger distance from each value to an end of its interval."""
        ends = self.intervals(confidence)
        return [max(value - low, high - value) for value, (low, high) in zip(self.values(), ends, strict=True)]

    def intervals(self, confidence: float) -> list[tuple[Number, Number]]:
        """Return the Fieller interval of each, cut to [lower, upper]."""
        return list(_fieller(self, confidence))

    def _ends(self, confidence: float) -> list[tuple[Number, Number]]:
        if not self.numerator.steps:
            return []
        mixed = mix_steps(self.mix, self.of)
        total, count = (np.array([float(step / below) for step in steps]) for steps, below in mixed)
        span = float(self.lower - self.center), float(self.upper - self.center)
        test = _Test([o.law for o in self.of], self.mix, span, cells=len(total))
        lower, upper = test.ends(total, count, 1.0 - confidence)
        values = np.array(self.values())
        unit = float(self.numerator.unit)
        # rounding may put an end that meets the value an ulp inside of it
        least = np.minimum((lower + self.center) * unit, values)
        largest = np.maximum((upper + self.center) * unit, values)
        return list(zip(least.tolist(), largest.tolist(), strict=True))

    def _clamp(self) -> list[Number]:
        low = self.lower - self.center
        high = self.upper - self.center
        (totals, total_below), (counts, count_below) = mix_steps(self.mix, self.of)
        numerator = self.numerator.unit.numerator
        denominator = self.numerator.unit.denominator
        clamped: list[Number] = []
        for total, count in zip(totals, counts, strict=True):
            # total / total_below over count / count_below, whole above and below
            above = total * count_below
            below = total_below * max(count, count_below)
            if above <= low * below:
                above, below = low, 1
            elif above >= high * below:
                above, below = high, 1
            clamped.append((self.center * below + above) * numerator / (below * denominator))
        return clamped

    to_dict = estimate_to_dict


# A release reports values and intervals more than once.
@functools.lru_cache(maxsize=8)
def _clamped(ratio: Ratio) -> tuple[Number, ...]:
    return tuple(ratio._clamp())


@functools.lru_cache(maxsize=8)
def _fieller(ratio: Ratio, confidence: float) -> tuple[tuple[Number, Number], ...]:
    return tuple(ratio._ends(confidence))


def ratio_margin(laws: Sequence[NoiseLaw], mean: float, confidence: float, mix: Mix = ()) -> float:
    """Return the error of a ratio times its count, in steps, not exceeded with probability `confidence`.

    `mean` is the centred mean in steps; sum and count follow from noisy vectors of these laws by the rows of `mix`.
    """
    test = _Test(laws, mix or _PLAIN, (mean, mean), cells=1)
    return float(test.margins(np.array([mean]), 1.0 - confidence)[0])


class _Test:
    """The test that a mean is m, from sums and counts that follow from noises of known laws, and its inversion."""

    def __init__(self, laws: Sequence[NoiseLaw], mix: Mix, span: tuple[float, float], *, cells: int) -> None:
        self.top, self.bottom = ([float(w) for w in row] for row in mix)
        self.variances = [law.variance() for law in laws]
        self.gaussian = all(law.continuous().laplace_scale is None for law in laws)
        self.span = span
        self._accepts, self._terms = _acceptance(laws, cells=cells)

    def accepts(self, mean: Any, distance: Any, alpha: float) -> Any:
        """Return whether noise is as large as sum - m count with a chance of `alpha` or more."""
        return self._accepts(self._weights(mean), distance, alpha)

    def margins(self, means: Any, alpha: float) -> Any:
        """Return the distances that the noise of sum - m count exceeds with chance `alpha`, of an array of means."""
        weighed = (v * np.square(w) for v, w in zip(self.variances, self._weights(means), strict=True))
        low = np.zeros_like(means)
        high = np.maximum(np.sqrt(sum(weighed)), 1.0)
        while (within := self.accepts(means, high, alpha)).any():
            high = np.where(within, 2 * high, high)
        return bisect_arrays(
            lambda distance: self.accepts(means, distance, alpha), low, high, halvings=60, terms=self._terms
        )

    def ends(self, total: Any, count: Any, alpha: float) -> tuple[Any, Any]:
        """Return the ends of the intervals at 1 - alpha."""
        low, high = self.span
        lower, upper = self._edges(total, count, alpha, at_bound=count <= 0)
        root = np.divide(total, count, out=(lower + upper) / 2, where=count > 0)
        upwards = root >= (low + high) / 2
        middle = np.clip(root, low, high)
        gap = np.where(upwards, high - upper, lower - low)
        reach = np.where(upwards, upper - middle, middle - lower)
        # at a larger distance from a bound nothing is tested from one side, at any count
        close = (count > 0) & (gap <= 2 * reach)
        if close.any():
            lower[close], upper[close] = self._ends_beside(
                root[close], total[close], count[close], alpha, upwards[close]
            )
        return lower, upper

    def _ends_beside(self, root: Any, total: Any, count: Any, alpha: float, upwards: Any) -> tuple[Any, Any]:
        """Return the ends of intervals near a bound, where a mean may be tested from one side."""
        low, high = self.span
        near = self._near(upwards, total, count, alpha)
        sided = near < (high - low) / 2
        lower, upper = self._edges(total, count, alpha, at_bound=~sided)
        beside = sided & np.where(upwards, upper > high - near, lower < low + near)
        if beside.any():
            two = lower[beside], upper[beside]
            one = self._edges(total[beside], count[beside], 2 * alpha)
            lower[beside], upper[beside] = _one_sided(two, one, root[beside], near[beside], upwards[beside], self.span)
        return lower, upper

    def _edges(self, total: Any, count: Any, alpha: float, at_bound: Any = False) -> tuple[Any, Any]:
        """Return the ends of the means that are not rejected; where all are, the nearer bound, or `at_bound` its ends."""
        low, high = self.span
        bounds = np.array([[low], [high]])
        start = np.divide(total, count, out=np.clip(total / np.maximum(1.0, count), low, high), where=count != 0)
        start = np.clip(start, low, high)
        at_bounds, at_start = (self.accepts(m, total - m * count, alpha) for m in (bounds, start))
        rejected = ~(at_start | at_bounds.any(axis=0))
        start = np.where(at_start | rejected, start, np.where(at_bounds[0], low, high))
        # where every mean is rejected, the interval is that of the bound
        total = np.where(rejected & at_bound, start * count, total)

        def inside(mean: Any) -> Any:
            return self.accepts(mean, total - mean * count, alpha)

        # Towards either bound |sum - m count| minus the (convex) critical value is concave, so it changes sign at most once
        # where the bound is rejected.
        outside = np.broadcast_to(bounds, (2, len(start)))
        edges = bisect_arrays(inside, np.broadcast_to(start, outside.shape), outside, halvings=42, terms=self._terms)
        lower, upper = np.where(inside(outside), bounds, edges)
        return lower, upper

    def _weights(self, mean: Any) -> Weights:
        return [a - mean * b for a, b in zip(self.top, self.bottom, strict=True)]

    def _near(self, upwards: Any, total: Any, count: Any, alpha: float) -> Any:
        """Return the distance from the nearer end of the span within which means are tested from one side only.

        It is what the one-sided test saves, divided by the count. The count at a mean is estimated so that its noise is
        uncorrelated with that of the mean's test: for Gaussian noises independent, so that the choice of the test does not
        depend on its outcome. Laplace noises stay dependent: choosing would cost up to .036 of a coverage of .5, but less
        than .01 where one noise is .99 of the variance of the test. Elsewhere tests stay two-sided.
        """
        ends = np.array(self.span)
        saved = (self.margins(ends, alpha) - self.margins(ends, 2 * alpha))[upwards.astype(int)]
        end = ends[upwards.astype(int)]
        inwards = np.where(upwards, -1.0, 1.0)
        near = np.zeros_like(total)
        apart = np.ones_like(upwards)
        for _ in range(_TURNS):
            weights = self._weights(end + inwards * near)
            parts = [v * np.square(w) for v, w in zip(self.variances, weights, strict=True)]
            spread = sum(parts)
            common = sum(v * w * b for v, w, b in zip(self.variances, weights, self.bottom, strict=True))
            distance = total - (end + inwards * near) * count
            rows = count - np.divide(common, spread, out=np.zeros_like(total), where=spread > 0) * distance
            near = np.divide(saved, rows, out=np.full_like(rows, np.inf), where=rows > 0)
            near = np.minimum(near, ends[1] - ends[0])
            apart = np.maximum.reduce(parts) >= 0.99 * spread
        return np.where(apart | self.gaussian, near, ends[1] - ends[0])


def _one_sided(
    two: tuple[Any, Any], one: tuple[Any, Any], root: Any, near: Any, upwards: Any, span: tuple[float, float]
) -> tuple[Any, Any]:
    """Return the ends where means within `near` of the bound are tested on the side away from it alone.

    `two` are the ends of the two-sided test, `one` those of the one-sided. All is turned so that the bound is above.
    """
    lower, upper = two
    below, above = one
    bound = np.where(upwards, span[1], -span[0])
    turn = bound - near
    outer = np.where(upwards, upper, -lower)
    inner = np.where(upwards, lower, -upper)
    strict = np.where(upwards, above, -below)
    past = np.where(upwards, root, -root) >= bound
    outer = np.where(past, bound, np.where(strict >= turn, strict, np.minimum(outer, turn)))
    inner = np.minimum(inner, turn)
    return np.where(upwards, inner, -outer), np.where(upwards, outer, -inner)


def _acceptance(laws: Sequence[NoiseLaw], *, cells: int) -> tuple[Callable[[Weights, Any, float], Any], int]:
    """Return the test of P(|sum of weight times Z| >= |distance|) >= alpha over arrays of `cells` rows, and its terms.

    The second is the number of terms of each sum. For more than two noises the law of their sum is characterized by its
    variance and fourth moment.
    """
    if len(laws) > 2:
        from sordino.core.estimates.second_moments import noise_margin

        return lambda weights, distance, alpha: np.abs(distance) <= noise_margin(laws, weights, min(alpha, 1.0)), 1
    tail, terms = _tails(laws[0], laws[1], cells=cells)
    return lambda weights, distance, alpha: tail(weights, distance) >= min(alpha, 1.0), terms


def _tails(first: NoiseLaw, second: NoiseLaw, *, cells: int) -> tuple[Callable[[Weights, Any], Any], int]:
    """Return P(|sum of weight times Z| >= |distance|) of two noises, as a function of arrays, and the terms of its sum.

    Where the second noise is small its whole steps show, and the sum over its values is taken exactly; else continuous
    laws stand in for the discrete ones.
    """
    if second.variance() < _LUMPY**2:
        reach = second.error(1 - 1e-9)
        if cells * (reach + 1) <= _MOST_EXACT:
            return _mixture(first, second, reach), 2 * reach + 1
    stand_ins = (first.continuous(), second.continuous())
    # Laplace tails are the heavier, so they stand for both where one has them.
    if any(law.laplace_scale is not None for law in stand_ins):
        top, bottom = (law.scale for law in stand_ins)

        def laplace(weights: Weights, distance: Any) -> Any:
            return two_laplace_tail(top * np.abs(weights[0]), bottom * np.abs(weights[1]), np.abs(distance))

        return laplace, 1
    variances = first.variance(), second.variance()

    def gaussian(weights: Weights, distance: Any) -> Any:
        size = np.abs(distance)
        spread = np.sqrt(sum(v * np.square(w) for v, w in zip(variances, weights, strict=True)))
        ratio = np.divide(size, spread * math.sqrt(2.0), out=np.where(size > 0, np.inf, 0.0), where=spread > 0)
        return np.vectorize(math.erfc, otypes=[float])(ratio)

    return gaussian, 2


def two_laplace_tail(a: Any, b: Any, t: Any) -> Any:
    """Return P(|a L1 + b L2| > t) for independent continuous Laplace L1, L2 of scale 1; arrays broadcast.

    Theorem: for a > b > 0 it is (a^2 e^(-t/a) - b^2 e^(-t/b)) / (a^2 - b^2) =
    e^(-t/a) (1 + b t / (a (a + b)) phi(z)), z = t (a - b) / (a b), phi(z) = (1 - e^-z) / z; phi(0) = 1 gives the limit
    e^(-t/a) (1 + t / (2a)) at a = b, and b = 0 leaves e^(-t/a). The second form has no cancellation.

    Scales a, b >= 0 and t in the same unit; 1 for t < 0. Kotz, Kozubowski, Podgorski 2001, The Laplace distribution and
    generalizations, chapter 2.

    >>> float(two_laplace_tail(1.0, 0.0, 0.0)), round(float(two_laplace_tail(2.0, 2.0, 4.0)), 6)
    (1.0, 0.270671)
    """
    large, small, bound = np.broadcast_arrays(np.maximum(a, b), np.minimum(a, b), t)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = bound / small * ((large - small) / large)
        phi = np.where(z > 0, -np.expm1(-z) / z, 1.0)
        depth = bound / large
        tail = np.exp(-depth) * (1 + np.where(small > 0, small / (large + small) * depth * phi, 0.0))
    tail = np.where((large > 0) & (depth < math.inf), tail, 0.0)
    return np.where(bound < 0, 1.0, np.minimum(tail, 1.0))[()]


def _mixture(first: NoiseLaw, second: NoiseLaw, reach: int) -> Callable[[Weights, Any], Any]:
    """Return the same tail as a sum over the values of the second noise, each with the tail of the first on both sides."""
    steps = np.arange(-reach, reach + 1)
    upper = second.at_least()(steps)
    mass = upper - np.append(upper[1:], 0.0)
    # the values left out count as reaching any distance
    beyond = second.tail(reach)
    reaches = first.at_least()

    def chance(weight: Any, rest: Any) -> Any:
        """Return P(weight Z >= rest); a weight of 0 moves nothing."""
        whole = np.divide(rest, weight, out=np.where(rest > 0, np.inf, -np.inf), where=weight > 0)
        # rounding may have moved a whole number of steps a little past it
        return reaches(np.ceil(whole - 1e-9))

    def mixture_tail(weights: Weights, distance: Any) -> Any:
        size = np.abs(distance)
        weight = np.abs(np.asarray(weights[0]))[..., None]
        shift = np.asarray(weights[1])[..., None] * steps
        over = size[..., None] - shift
        under = size[..., None] + shift
        weight = np.broadcast_to(weight, np.broadcast_shapes(weight.shape, over.shape))
        both = chance(weight, over) + chance(weight, under)
        return np.minimum(np.where(size > 0, np.minimum(both, 1.0) @ mass + beyond, 1.0), 1.0)

    return mixture_tail
