"""Second moments (variance, deviation, covariance, correlation) from noisy sums, with intervals that cover.

It may not know any exact answer: everything here is post-processing of released values by public parameters.

Each statistic p solves an equation that is linear in the sums: for the variance, the sum of (x - a)^2 - p is 0 at the true
mean a. With noisy sums, the same combination L is a combination of noises alone, whose law is known at (a, p). The equation is
taken at the mean of the noisy sums. There it is L - U V / n exactly, where U is the noise of sum(x) - a count, V that of
sum(y) - b count (for the variance V is U), and n the noisy count: the product's mean and variance are known too, and as noises
are symmetric, L and U V are uncorrelated. A test of p whose margin is the largest at every mean that a second, much stricter
test does not reject (Berger, Boos 1994) is inverted (Fieller 1954): means only enter as weights of the noise. (The equation
at all these means, which earlier versions tested, is wider by U V at its extremes.)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sordino.core.estimates.array_bisection import bisect_arrays
from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import Mix, mix_steps, mix_weights
from sordino.core.noise.laws import NoiseLaw

# a noise's variance, and whether it is Laplace noise
_Noise = tuple[float, bool]

# the share of the miss that goes to the nuisance parameters: 1 in 20
_STRICT = 20
_HALVINGS = 36
# groups in one batch: bounds the memory
_AT_ONCE = 5_000
# numbers of equal Laplace laws whose sums are tabulated
_SHAPES = (1, 2, 3, 4, 5, 6, 8, 12, 20, 40)
# a third of the excess kurtosis of the product of two Laplace noises
_PRODUCT_SHAPE = 11
_SIDES = {"variance": 1, "deviation": 1, "covariance": 2, "correlation": 2}
_MOMENTS = {"variance": 3, "deviation": 3, "covariance": 4, "correlation": 6}


@ESTIMATES.register("spread")
@dataclass(frozen=True, slots=True)
class SecondMoments:
    """A variance, deviation, covariance or correlation of each group, from noisy sums of centred values.

    `parts` holds the sums of x (and y), of their squares or products, and last the count, or noisy vectors of which these
    follow by the rows of `mix`; `vectors` says which of the answer's they are. `lifts` is what was taken off each square or
    product, in steps; `spans` the bounds of each centred column, in steps. `ddof` is taken off the count, as in 1 for a
    sample's variance.
    """

    statistic: str
    parts: tuple[Noisy, ...]
    lifts: tuple[BigInt, ...]
    spans: tuple[tuple[BigInt, BigInt], ...]
    ddof: int
    mix: Mix = ()
    vectors: tuple[int, ...] = ()

    per_row: ClassVar[tuple[str, ...]] = ("parts",)

    def values(self) -> list[Number]:
        """Return the estimates, clamped to what is possible."""
        scaled = np.concatenate([_estimates(self, rows) for rows in _chunks(self)] or [np.zeros(0)])
        return [float(v) for v in self._to_units(scaled)]

    def errors(self, confidence: float) -> list[Number]:
        """Return the larger distance from each value to an end of its interval."""
        return [max(v - a, b - v) for v, (a, b) in zip(self.values(), self.intervals(confidence), strict=True)]

    def intervals(self, confidence: float) -> list[tuple[Number, Number]]:
        """Return the interval of each, cut to what is possible."""
        return list(_intervals(self, confidence))

    to_dict = estimate_to_dict

    @property
    def reaches(self) -> list[float]:
        """The largest centered value of each column, in steps: the scale of the computation."""
        return [float(max(abs(low), abs(high))) or 1.0 for low, high in self.spans]

    @property
    def most(self) -> float:
        """The largest value, in the scale of the computation; a sample's may be twice a population's."""
        if self.statistic == "correlation":
            return 1.0
        widths = [(high - low) / reach for (low, high), reach in zip(self.spans, self.reaches, strict=True)]
        return widths[0] * widths[-1] / 4 * (1 + self.ddof)

    def _to_units(self, values: Any) -> Any:
        """Return values in the question's units."""
        if self.statistic == "correlation":
            return values
        unit = self.parts[-2].unit
        squares = values * float(unit * int(self.reaches[0]) * int(self.reaches[-1]))
        return np.sqrt(squares) if self.statistic == "deviation" else squares


@functools.lru_cache(maxsize=8)
def _intervals(of: SecondMoments, confidence: float) -> tuple[tuple[Number, Number], ...]:
    """Return the intervals; cached, since a release reports them more than once."""
    ends = [_ends(of, rows, 1.0 - confidence) for rows in _chunks(of)]
    if not ends:
        return ()
    low, high = (of._to_units(np.concatenate([e[i] for e in ends])) for i in (0, 1))
    return tuple((float(a), float(b)) for a, b in zip(low, high, strict=True))


def sum_margin(laws: Sequence[NoiseLaw], weights: Sequence[float], confidence: float) -> float:
    """Return t with P(|sum of w_i Z_i| > t) <= 1 - confidence, close above the least such t.

    The law of a sum of Laplace noises is characterised by its variance and its fourth moment: between those of 1, 2, 3, ... equal
    Laplace noises and the Gaussian one. Half of the smallest step is added, since all may lie on one grid; and where one
    noise moves in steps that the others do not hide, half of those.
    """
    return float(noise_margin(laws, [np.array([w]) for w in weights], 1.0 - confidence)[0])


# ---- sums in their scale


@dataclass(frozen=True, slots=True)
class _Sums:
    """The noisy sums of some groups, each column divided by its reach, squares with what was taken off them put back."""

    # of shape (groups, 1), in the order of the parts, the count last
    moments: tuple[Any, ...]
    scales: tuple[float, ...]
    # what was taken off each moment, in its scale
    lifts: tuple[float, ...]
    noises: tuple[_Noise, ...]
    # one row a moment, one column a noise
    mix: Mix

    @property
    def count(self) -> Any:
        return self.moments[-1]

    def at(self, weights: Sequence[Any]) -> Any:
        """Return the weighted sum of the moments."""
        return sum(w * m for w, m in zip(weights, self.moments, strict=True))

    def margin(self, weights: Sequence[Any], alpha: float, products: Any = 0.0) -> Any:
        """Return the margin that the noise of that weighted sum, and products of that variance, exceed with chance `alpha`."""
        return _margin(self.noises, self._noise_weights(weights), alpha, products)

    def products(
        self, first: Sequence[Any], second: Sequence[Any], *, both: Any, one: Any, two: Any
    ) -> tuple[Any, Any]:
        """Return the mean and the variance of both U V + one U^2 + two V^2 for the noises U, V of two weighted sums.

        Of independent symmetric z with variances v and fourth cumulants k, a quadratic form with the symmetric matrix M has the
        mean tr(M v) and the variance 2 tr(M v M v) + sum of M_ii^2 k_i; k is 3 v^2 for Laplace noise.
        """
        u = self._noise_weights(first)
        v = self._noise_weights(second)
        uu, vv, uv = (
            sum(x * y * variance for x, y, (variance, _) in zip(left, right, self.noises, strict=True))
            for left, right in ((u, u), (v, v), (u, v))
        )
        mean = both * uv + one * uu + two * vv
        variance = both**2 * (uu * vv + uv**2) + 2 * one**2 * uu**2 + 2 * two**2 * vv**2
        variance = variance + 4 * both * uv * (one * uu + two * vv) + 4 * one * two * uv**2
        for x, y, (of_noise, is_laplace) in zip(u, v, self.noises, strict=True):
            if is_laplace:
                variance = variance + 3 * of_noise**2 * (both * x * y + one * x**2 + two * y**2) ** 2
        return mean, variance

    def _noise_weights(self, weights: Sequence[Any]) -> Sequence[Any]:
        last = weights[-1] + sum(w * lift for w, lift in zip(weights, self.lifts, strict=True))
        steps = [*(w / scale for w, scale in zip(weights[:-1], self.scales, strict=False)), last]
        return mix_weights(self.mix, steps)


def _chunks(of: SecondMoments) -> list[slice]:
    return [slice(i, i + _AT_ONCE) for i in range(0, len(of.parts[-1].steps), _AT_ONCE)]


def _sums(of: SecondMoments, rows: slice) -> _Sums:
    parts = tuple(replace(p, steps=p.steps[rows]) for p in of.parts)
    # exactly, since these are differences of large sums
    sums = mix_steps(of.mix, parts) if of.mix else [(p.steps, 1) for p in parts]
    return _scale_sums(of, [np.array([step / below for step in steps]) for steps, below in sums])


def _scale_sums(of: SecondMoments, sums: Sequence[Any]) -> _Sums:
    """Return the sums of some groups, arrays of steps, in the scale of the computation."""
    reaches = of.reaches
    sides = _SIDES[of.statistic]
    first = reaches[0]
    last = reaches[-1]
    squares = {3: [first**2], 4: [first * last], 6: [first**2, last**2, first * last]}[_MOMENTS[of.statistic]]
    scales = [*reaches, *squares, 1.0]
    lifts = [0.0] * sides + [float(lift) / s for lift, s in zip(of.lifts, squares, strict=True)] + [0.0]
    floats = [steps[:, None] for steps in sums]
    moments = [p / s + lift * floats[-1] for p, s, lift in zip(floats, scales, lifts, strict=True)]
    return _Sums(tuple(moments), tuple(scales), tuple(lifts), _noises(p.law for p in of.parts), of.mix)


def estimate_draws(of: SecondMoments, vectors: Sequence[Any]) -> Any:
    """Return the estimates that noisy vectors of these steps, arrays of one shape, would give: an array of that shape."""
    flat = [np.asarray(steps, dtype=float).ravel() for steps in vectors]
    if of.mix:
        flat = list(np.array(of.mix, dtype=float) @ np.stack(flat))
    return of._to_units(_estimates_of(of, _scale_sums(of, flat))).reshape(vectors[0].shape)


# ---- the noise of a weighted sum


def noise_margin(laws: Sequence[NoiseLaw], weights: Sequence[Any], alpha: float) -> Any:
    """Return the margin of `sum_margin` for arrays of weights."""
    return _margin(_noises(laws), weights, alpha)


def _margin(noises: Sequence[_Noise], weights: Sequence[Any], alpha: float, products: Any = 0.0) -> Any:
    sizes = [np.abs(np.asarray(w, dtype=float)) for w in weights]
    parts = [np.square(w) * variance for w, (variance, _) in zip(sizes, noises, strict=True)]
    total = sum(parts) + products
    heavy = _PRODUCT_SHAPE * np.square(products)
    heavy = heavy + sum(np.square(p) for p, (_, is_laplace) in zip(parts, noises, strict=True) if is_laplace)
    shape = np.divide(heavy, np.square(total), out=np.zeros_like(total + 0.0), where=total > 0)
    margin = np.interp(shape, *_quantiles(alpha)) * np.sqrt(total)
    least = np.full_like(total, np.inf)
    for size, part, (variance, _) in zip(sizes, parts, noises, strict=True):
        if variance:
            # half of the steps that the other noises do not hide
            margin = margin + np.maximum(0.0, size - np.sqrt(np.maximum(0.0, total - part))) / 2
            least = np.minimum(least, np.where(size > 0, size, np.inf))
    return margin + np.where(np.isfinite(least), least, 0.0) / 2


def _noises(laws: Iterable[NoiseLaw]) -> tuple[_Noise, ...]:
    """Return the variance of each continuous law, never below the discrete one's, and whether its tails are Laplace's."""
    continuous = [law.continuous() for law in laws]
    return tuple((law.variance, law.laplace_scale is not None) for law in continuous)


@functools.lru_cache(maxsize=64)
def _quantiles(alpha: float) -> tuple[Any, Any]:
    """Return a third of the excess kurtosis, and the two-sided quantile over the deviation, of some laws.

    They are sums of n equal Laplace noises, at 1/n, 0 for the Gaussian, and the product of two Laplace noises of scale 1, for
    which P(|X Y| > t) = z K(z), z = 2 sqrt(t), K the modified Bessel function of order 1; its deviation is 2.
    """
    from scipy.special import k1

    points = [(1.0 / n, _crossing(functools.partial(_laplace_tail, n), alpha) / math.sqrt(2 * n)) for n in _SHAPES]
    points.append((0.0, _crossing(lambda t: math.erfc(t / math.sqrt(2.0)), alpha)))
    product = _crossing(lambda z: float(z * k1(z)) if z else 1.0, alpha) ** 2 / 8
    points.append((float(_PRODUCT_SHAPE), max(product, points[0][1])))
    points.sort()
    return np.array([p[0] for p in points]), np.array([p[1] for p in points])


def _laplace_tail(n: int, t: float) -> float:
    """Return P(|L_1 + ... + L_n| > t) for Laplace noises of scale 1.

    Their sum is a difference of two waiting times for n events; the race between the two leaves
    2 sum_i C(n - 1 + i, i) 2^-(n + i) P(Gamma(n - i) > t), i < n (Kotz, Kozubowski, Podgorski 2001, section 2.3).
    """
    terms = np.cumprod([1.0, *(t / j for j in range(1, n))])
    # e^t P(Gamma(m) > t), m from 1
    gamma = np.cumsum(terms)
    one_side = sum(math.comb(n - 1 + i, i) * 2.0 ** -(n + i) * float(gamma[n - i - 1]) for i in range(n))
    return 2.0 * one_side * math.exp(-t)


def _crossing(tail: Callable[[float], float], alpha: float) -> float:
    """Return the t at which a falling tail reaches `alpha`, from above."""
    low = 0.0
    high = 1.0
    while tail(high) > alpha and high < 1e6:
        low = high
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > alpha else (low, middle)
    return high


# ---- estimates and their intervals


def _estimates(of: SecondMoments, rows: slice) -> Any:
    """Return the estimates of some groups, in the scale of the computation."""
    return _estimates_of(of, _sums(of, rows))


def _estimates_of(of: SecondMoments, sums: _Sums) -> Any:
    count = np.maximum(1.0 + of.ddof, sums.count)
    means = [np.clip(sums.moments[i] / count, *_span(of, i)) for i in range(_SIDES[of.statistic])]
    a = means[0]
    b = means[-1]
    if of.statistic == "correlation":
        values = _correlation(_spreads(sums, a, b))
    elif of.statistic == "covariance":
        values = sums.at([-b, -a, 1.0, a * b]) / (count - of.ddof)
    else:
        values = sums.at([-2 * a, 1.0, np.square(a)]) / (count - of.ddof)
    return np.clip(values, _least(of), of.most)[:, 0]


def _correlation(spreads: tuple[Any, Any, Any]) -> Any:
    """Return the correlation; 0 where a variance is not above 0, as nothing is known then."""
    xx, yy, xy = spreads
    root = np.sqrt(np.maximum(xx, 0.0) * np.maximum(yy, 0.0))
    return np.divide(xy, root, out=np.zeros_like(xy), where=root > 0)


def _spreads(sums: _Sums, a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Return the count times both variances and the covariance, at means a and b."""
    zero = np.zeros_like(a + b)
    xx = sums.at([-2 * a, zero, 1.0, zero, zero, np.square(a)])
    yy = sums.at([zero, -2 * b, zero, 1.0, zero, np.square(b)])
    return xx, yy, sums.at([-b, -a, zero, zero, 1.0, a * b])


def _least(of: SecondMoments) -> float:
    return -of.most if _SIDES[of.statistic] == 2 else 0.0


def _span(of: SecondMoments, i: int) -> tuple[float, float]:
    return of.spans[i][0] / of.reaches[i], of.spans[i][1] / of.reaches[i]


def _ends(of: SecondMoments, rows: slice, alpha: float) -> tuple[Any, Any]:
    """Return the ends of the intervals of some groups: the hull over all means that are not rejected.

    The margin is convex in the means, which weigh noises, so the ends of their ranges stand for all means.
    """
    sums = _sums(of, rows)
    strict = alpha / _STRICT
    sides = _SIDES[of.statistic]
    means = [_means(of, sums, i, strict / (3 if of.statistic == "correlation" else sides)) for i in range(sides)]
    if sides == 1:
        a = b = means[0]
    else:
        # every pair of a mean of x and a mean of y
        a = np.repeat(means[0], means[1].shape[1], axis=1)
        b = np.tile(means[1], (1, means[0].shape[1]))
    turns = _turns(sums, a, b, strict / 3) if of.statistic == "correlation" else None
    if turns is not None:
        a, b = (np.repeat(m, turns.shape[1] // a.shape[1], axis=1) for m in (a, b))
    count = np.maximum(1.0, sums.count)
    # the same for every pair of means
    mean_x, mean_y = (sums.moments[i] / count + np.zeros_like(a) for i in (0, sides - 1))
    at_means = _equation(of, sums, mean_x, mean_y, turns)
    equation = _equation(of, sums, a, b, turns)
    products = _products(of, sums, a, b, turns)
    start, vague = _start(of, sums, mean_x, mean_y, turns)

    def inside(p: Any) -> Any:
        weights, constant = at_means(p)
        bias, variance = products(p)
        noise = sums.at(weights) + constant + bias / count
        return vague | (np.abs(noise) <= sums.margin(equation(p)[0], alpha - strict, variance / np.square(count)))

    value = _estimates(of, rows)
    least = _least(of)
    most = of.most
    lower, upper = _edges(inside, start, least, most)
    low = np.minimum(np.clip(lower.min(axis=1), least, most), value)
    high = np.maximum(np.clip(upper.max(axis=1), least, most), value)
    unknown = sums.count[:, 0] < 1.0 + of.ddof
    return np.where(unknown, least, low), np.where(unknown, most, high)


def _edges(inside: Callable[[Any], Any], start: Any, low: float, high: float) -> tuple[Any, Any]:
    """Return the last points from `start` towards `low` and towards `high` that are not rejected, by bisection.

    On that way |equation| minus the (convex) margin is concave, so it changes sign at most once where the end is rejected.
    """
    ends = np.stack([np.full_like(start, low), np.full_like(start, high)])
    outside = bisect_arrays(inside, np.broadcast_to(start, ends.shape), ends, halvings=_HALVINGS)
    lower, upper = np.where(inside(ends), ends, outside)
    return lower, upper


def _means(of: SecondMoments, sums: _Sums, i: int, alpha: float) -> Any:
    """Return the least and the largest mean of one column that is not rejected at `alpha`, the estimate between them."""
    low, high = _span(of, i)
    zero = np.zeros_like(sums.count)
    start = np.clip(sums.moments[i] / np.maximum(1.0, sums.count), low, high)

    def inside(a: Any) -> Any:
        weights = [zero] * len(sums.moments)
        weights[i] = zero + 1.0
        weights[-1] = -a
        return (sums.count < 1.0) | (np.abs(sums.at(weights)) <= sums.margin(weights, alpha))

    lower, upper = _edges(inside, start, low, high)
    return np.concatenate([lower, start, upper], axis=1)


def _turns(sums: _Sums, a: Any, b: Any, alpha: float) -> Any:
    """Return three angles t, tan(t) the ratio of the deviations of y and x: the ends not rejected at `alpha`, the estimate."""
    xx, yy, _ = _spreads(sums, a, b)
    start = np.arctan2(np.sqrt(np.maximum(yy, 0.0)), np.sqrt(np.maximum(xx, 0.0)))
    zero = np.zeros_like(start)

    def inside(turn: Any) -> Any:
        s = np.square(np.sin(turn))
        c = np.square(np.cos(turn))
        weights = [-2 * a * s, 2 * b * c, s, -c, zero, s * np.square(a) - c * np.square(b)]
        return (np.maximum(xx, yy) <= 0) | (np.abs(sums.at(weights)) <= sums.margin(weights, alpha))

    lower, upper = _edges(inside, start, 0.0, math.pi / 2)
    angles = np.stack([lower, start, upper], axis=2)
    return angles.reshape(angles.shape[0], -1)


def _equation(of: SecondMoments, sums: _Sums, a: Any, b: Any, turns: Any) -> Callable[[Any], tuple[list[Any], Any]]:
    """Return the weights and the constant of the equation that a statistic p solves, at given means (and ratio)."""
    zero = np.zeros_like(sums.count + a)
    one = zero + 1.0
    if of.statistic == "covariance":
        return lambda p: ([-b, -a, one, a * b - p], of.ddof * p)
    if of.statistic != "correlation":
        return lambda p: ([-2 * a, one, np.square(a) - p], of.ddof * p)
    s = np.square(np.sin(turns))
    c = np.square(np.cos(turns))
    both = np.sin(2 * turns)

    def equation(p: Any) -> tuple[list[Any], Any]:
        first = 2 * p * s * a - both * b
        second = 2 * p * c * b - both * a
        rest = both * a * b - p * (s * np.square(a) + c * np.square(b))
        return [first, second, -p * s, -p * c, both, rest], 0.0

    return equation


def _products(of: SecondMoments, sums: _Sums, a: Any, b: Any, turns: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Return the mean and the variance of the products of noises that the equation at the noisy means holds, at a p.

    They are those of the equation's terms: U V where it has the sum of x y, U^2 where it has that of squares.
    """
    zero = np.zeros_like(sums.count + a)
    first = [zero] * len(sums.moments)
    first[0] = zero + 1.0
    first[-1] = -a
    second = [zero] * len(sums.moments)
    second[_SIDES[of.statistic] - 1] = zero + 1.0
    second[-1] = -b
    if of.statistic != "correlation":
        fixed = sums.products(first, second, both=1.0, one=0.0, two=0.0)
        return lambda _: fixed
    s = np.square(np.sin(turns))
    c = np.square(np.cos(turns))
    both = np.sin(2 * turns)
    return lambda p: sums.products(first, second, both=both, one=-p * s, two=-p * c)


def _start(of: SecondMoments, sums: _Sums, a: Any, b: Any, turns: Any) -> tuple[Any, Any]:
    """Return the statistic at which the equation is 0, and whether noise leaves it unknown."""
    if of.statistic == "correlation":
        xx, yy, xy = _spreads(sums, a, b)
        below = np.square(np.sin(turns)) * xx + np.square(np.cos(turns)) * yy
        above = np.sin(2 * turns) * xy
    else:
        zero = np.zeros_like(a + b)
        weights = [-b, -a, zero + 1.0, a * b] if of.statistic == "covariance" else [-2 * a, zero + 1.0, np.square(a)]
        above = sums.at(weights)
        below = sums.count - of.ddof + zero
    vague = below <= 0
    return np.divide(above, below, out=np.zeros_like(above + below), where=~vague), vague
