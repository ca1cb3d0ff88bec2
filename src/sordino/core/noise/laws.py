"""What the noise does to an answer: tails, errors at a confidence and variances, as functions of parameters.

So it does of weighted sums of independent noises, for what is computed from several noisy numbers. It may not know any drawn
value: everything here is computed from public parameters, and may be shown to anyone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, Protocol, overload

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.noise.bernoulli import exp_bounds, rounding_contexts
from sordino.core.noise.discrete import discrete_gaussian, discrete_laplace, not_negative
from sordino.core.noise.rng import Rng
from sordino.core.rounding import bisect_whole

_ONE = Decimal(1)
_DIGITS = 30
# The relative error bound of the Gaussian tails.
_SLACK = 1e-12
# Below it the tail is summed, from it on integrated.
_SUMMED_SIGMA = 1000
# e^-45 < 3e-20.
_NEGLIGIBLE = 45.0
# Below this deviation the steps of a Gaussian show.
_LUMPY = 12
# From sigma^2 = 4 on, sqrt(2 pi sigma^2) is the normaliser to 1e-34 relative.
_POISSON = 4


@dataclass(frozen=True, slots=True)
class ContinuousLaw:
    """The continuous law that stands in for a discrete one where its steps are small.

    `laplace_scale` is the scale of a Laplace law whose tails are at least as heavy, or None for a law whose tails are
    those of a Gaussian of this variance.
    """

    variance: float
    laplace_scale: float | None

    @property
    def scale(self) -> float:
        """The scale of a Laplace law with at least this law's tails."""
        return math.sqrt(self.variance / 2) if self.laplace_scale is None else self.laplace_scale


class NoiseLaw(Protocol):
    """A symmetric law of whole numbers with frozen parameters: what errors and intervals need to know about noise.

    A law from outside satisfies this, and is registered under a name in `estimates.noisy.LAWS` so that releases can be
    stored and read again.
    """

    @overload
    def sample(self, rng: Rng, size: None = None) -> int: ...
    @overload
    def sample(self, rng: Rng, size: int) -> np.ndarray[Any, np.dtype[Any]]: ...
    def sample(self, rng: Rng, size: int | None = None) -> int | np.ndarray[Any, np.dtype[Any]]:
        """Draw an int, or with `size` an array."""

    def __hash__(self) -> int: ...

    def upper_tail(self, t: int) -> float:
        """Return P(X > t)."""

    def tail(self, t: int) -> float:
        """Return P(|X| > t), never below the true value."""

    def error(self, confidence: float | Fraction) -> int:
        """Return the smallest t >= 0 with P(|X| > t) <= 1 - confidence."""

    def variance(self) -> float:
        """Return the variance."""

    def at_least(self) -> Callable[[Any], Any]:
        """Return P(X >= step) as a function of arrays of whole steps, in floats."""

    def quantiles(self, points: Any) -> Any:
        """Return the noise at each point of (0, 1), in whole steps: the inverse of the distribution function."""

    def continuous(self) -> ContinuousLaw:
        """Return the continuous law that stands in for this one where its steps are small."""


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """The discrete Laplace law: P(X = x) = (1 - q) / (1 + q) q^|x|, q = exp(-1 / scale); always 0 at scale 0.

    >>> DiscreteLaplace(Fraction(2)).error(0.95)
    6
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", not_negative(self.scale, "scale"))

    @overload
    def sample(self, rng: Rng, size: None = None) -> int: ...
    @overload
    def sample(self, rng: Rng, size: int) -> np.ndarray[Any, np.dtype[Any]]: ...
    def sample(self, rng: Rng, size: int | None = None) -> int | np.ndarray[Any, np.dtype[Any]]:
        """Draw an int, or with `size` an array; see `noise.discrete.discrete_laplace`.

        >>> DiscreteLaplace(Fraction(0)).sample(Rng.seeded(1))
        0
        """
        return discrete_laplace(self.scale, rng, size)

    def upper_tail(self, t: int) -> float:
        """Return P(X > t) = q^(t+1) / (1 + q) for t >= 0, within 1e-15 relative; from symmetry below.

        >>> DiscreteLaplace(Fraction(1)).upper_tail(40)
        1.142558431901387e-18
        """
        if t < 0:
            return 1.0 - self.upper_tail(-t - 1)
        return 0.5 * float(self._tail(t, _DIGITS)[1])

    def tail(self, t: int) -> float:
        """Return P(|X| > t) = 2 q^(t+1) / (1 + q), rounded up: from the true value to 1e-15 relative above it.

        >>> DiscreteLaplace(Fraction(2)).tail(6) <= 0.05 < DiscreteLaplace(Fraction(2)).tail(5)
        True
        """
        if t < 0:
            return 1.0
        if not self.scale:
            return 0.0
        return min(math.nextafter(float(self._tail(t, _DIGITS)[1]), math.inf), 1.0)

    def error(self, confidence: float | Fraction) -> int:
        """Return the smallest t >= 0 with P(|X| > t) <= 1 - confidence, exactly; a float means its shortest decimal.

        In closed form t = max(0, ceil(scale ln(2 / ((1 - confidence)(1 + q)))) - 1), certified in Decimal. Raises
        DeclarationError unless 0 < confidence < 1.

        >>> DiscreteLaplace(Fraction(10**12)).error(0.95)
        2995732273554
        """
        return _laplace_error(self.scale, chance_beyond(confidence))

    def variance(self) -> float:
        """Return the variance 2q / (1 - q)^2 (close to 2 scale^2 when the scale is large), within 1e-14 relative.

        >>> round(DiscreteLaplace(Fraction(2)).variance(), 6)
        7.835396
        """
        if not self.scale or 1 / self.scale > 800:
            return 0.0
        rate = float(1 / self.scale)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def at_least(self) -> Callable[[Any], Any]:
        """Return P(X >= step) as a function of arrays of whole steps, in floats."""
        if self.scale == 0:
            return lambda steps: np.where(steps <= 0, 1.0, 0.0)
        scale = float(self.scale)
        ratio = math.exp(-1.0 / scale)

        def reaches(steps: Any) -> Any:
            tail = np.exp(-np.where(steps > 0, steps, 1 - steps) / scale) / (1.0 + ratio)
            return np.where(steps > 0, tail, 1.0 - tail)

        return reaches

    def quantiles(self, points: Any) -> Any:
        """Return the noise at each point of (0, 1): from P(Z >= k) = q^k / (1 + q), k >= 1."""
        scale = float(self.scale)
        if scale == 0:
            return np.zeros(len(points))
        ratio = math.exp(-1.0 / scale)
        tail = np.minimum(points, 1.0 - points)
        size = np.floor(-scale * np.log(np.maximum(tail * (1.0 + ratio), 1e-300)))
        return np.where(points < 0.5, -1.0, 1.0) * np.maximum(size, 0.0)

    def continuous(self) -> ContinuousLaw:
        """Return the Laplace law of this scale, whose variance is the larger."""
        return ContinuousLaw(float(2 * self.scale**2), float(self.scale))

    def _tail(self, t: int, precision: int) -> tuple[Decimal, Decimal]:
        """Return bounds of P(|X| > t) for t >= 0."""
        if not self.scale:
            return Decimal(0), Decimal(0)
        down, up = rounding_contexts(precision)
        q_low, q_high = exp_bounds(1 / self.scale, precision)
        low, high = exp_bounds((t + 1) / self.scale, precision)
        least = down.divide(down.add(low, low), up.add(_ONE, q_high))
        return least, up.divide(up.add(high, high), down.add(_ONE, q_low))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """The discrete Gaussian law: P(X = x) proportional to exp(-x^2 / (2 sigma_squared)); always 0 at 0.

    >>> DiscreteGaussian(Fraction(100)).error(0.95)
    20
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", not_negative(self.sigma_squared, "sigma_squared"))

    @overload
    def sample(self, rng: Rng, size: None = None) -> int: ...
    @overload
    def sample(self, rng: Rng, size: int) -> np.ndarray[Any, np.dtype[Any]]: ...
    def sample(self, rng: Rng, size: int | None = None) -> int | np.ndarray[Any, np.dtype[Any]]:
        """Draw an int, or with `size` an array; see `noise.discrete.discrete_gaussian`.

        >>> DiscreteGaussian(Fraction(0)).sample(Rng.seeded(1))
        0
        """
        return discrete_gaussian(self.sigma_squared, rng, size)

    def upper_tail(self, t: int) -> float:
        """Return P(X > t), within 1e-12 relative down to 1e-300; from symmetry for t < 0.

        Theorem: below sigma = 1000 the terms f(x) = exp(-x^2 / (2 sigma^2)) are summed, the first taken out as a
        factor, until e^-45 of it. From there on, with a = t + 1/2 and u = a / sigma^2 (at most .04 while f(a) does not
        underflow), the Euler-Maclaurin sum at midpoints is the integral of f beyond a, plus f'(a) / 24,
        -7 f'''(a) / 5760 and 31 f^(5)(a) / 967680; the next term is below u^8 / 10^6 of the sum. The normaliser is
        summed likewise below sigma = 2, and is sqrt(2 pi sigma^2) from there on: by Poisson summation it is that
        times 1 + 2 sum_m exp(-2 pi^2 sigma^2 m^2), and the sum is under 1e-34.

        Paper: Canonne, Kamath, Steinke 2020, section 2 (the normaliser by Poisson summation; tails).

        >>> f"{DiscreteGaussian(Fraction(1)).upper_tail(7):.9e}"
        '5.053299111e-15'
        """
        if t < 0:
            return 1.0 - self.upper_tail(-t - 1)
        if not self.sigma_squared:
            return 0.0
        variance = self.sigma_squared
        if variance < _SUMMED_SIGMA**2:
            return _tail_by_sum(variance, t) / _normaliser(variance)
        return _tail_by_integral(variance, t) / _normaliser(variance)

    def tail(self, t: int) -> float:
        """Return P(|X| > t), rounded up: never below the true value, 3e-12 relative above it at most (and never zero).

        >>> DiscreteGaussian(Fraction(100)).tail(20) <= 0.05 < DiscreteGaussian(Fraction(100)).tail(19)
        True
        """
        if t < 0:
            return 1.0
        if not self.sigma_squared:
            return 0.0
        return min(math.nextafter(2 * self.upper_tail(t) * (1 + 2 * _SLACK), math.inf), 1.0)

    def error(self, confidence: float | Fraction) -> int:
        """Return the smallest t >= 0 with P(|X| > t) <= 1 - confidence; a float means its shortest decimal.

        Never too small, and at most 1 + 3e-12 sigma too large (`tail` is rounded up). The law is sub-Gaussian,
        P(|X| > t) <= 2 exp(-t^2 / (2 sigma^2)), which bounds the search. Raises DeclarationError unless
        0 < confidence < 1.

        >>> DiscreteGaussian(Fraction(10) ** 24).error(Fraction(19, 20)) // 10**6
        1959963
        """
        return _gaussian_error(self.sigma_squared, chance_beyond(confidence))

    def variance(self) -> float:
        """Return the variance, within 1e-12 relative: sigma_squared from 4 on (to 1e-32), the sum of x^2 P(x) below.

        >>> DiscreteGaussian(Fraction(100)).variance(), round(DiscreteGaussian(Fraction(1, 4)).variance(), 9)
        (100.0, 0.215012675)
        """
        if self.sigma_squared >= _POISSON:
            return float(self.sigma_squared)
        if not self.sigma_squared:
            return 0.0
        squares = math.fsum(2 * x * x * math.exp(-float(x * x / (2 * self.sigma_squared))) for x in range(1, 81))
        return squares / _normaliser(self.sigma_squared)

    def at_least(self) -> Callable[[Any], Any]:
        """Return P(X >= step) as a function of arrays of whole steps, in floats; summed where the steps show."""
        sigma = math.sqrt(float(self.sigma_squared))
        if sigma >= _LUMPY:
            return lambda steps: 0.5 * np.vectorize(math.erfc, otypes=[float])((steps - 0.5) / (sigma * math.sqrt(2.0)))
        reach = math.ceil(10 * sigma) + 2
        weights = np.exp(-np.square(np.arange(-reach, reach + 1)) / (2 * float(self.sigma_squared) or 1.0))
        tails = np.append(np.cumsum(weights[::-1])[::-1] / weights.sum(), 0.0)
        return lambda steps: tails[np.clip(steps + reach, 0, 2 * reach + 1).astype(np.int64)]

    def quantiles(self, points: Any) -> Any:
        """Return the noise at each point of (0, 1): a Gaussian's, rounded to whole steps."""
        from scipy.special import ndtri

        return np.rint(ndtri(points) * math.sqrt(float(self.sigma_squared)))

    def continuous(self) -> ContinuousLaw:
        """Return the Gaussian of this variance."""
        return ContinuousLaw(float(self.sigma_squared), None)


@lru_cache(maxsize=4096)
def _laplace_error(scale: Fraction, miss: Fraction) -> int:
    """Return the smallest t with 2 q^(t+1) / (1 + q) <= miss: ceil(scale ln(2 / (miss (1 + q)))) - 1, certified."""
    if not scale:
        return 0
    precision = _DIGITS + len(str(int(scale)))
    while True:
        down, up = rounding_contexts(precision)
        q_low, q_high = exp_bounds(1 / scale, precision)
        over, under, s_over, s_under = (
            Decimal(n) for n in (2 * miss.denominator, miss.numerator, scale.numerator, scale.denominator)
        )
        low = down.ln(down.divide(over, up.multiply(under, up.add(_ONE, q_high)))).next_minus(down)
        high = up.ln(up.divide(over, down.multiply(under, down.add(_ONE, q_low)))).next_plus(up)
        if high <= 0:
            return 0
        least = math.ceil(down.divide(down.multiply(low, s_over), s_under))
        if least == math.ceil(up.divide(up.multiply(high, s_over), s_under)):
            return max(least - 1, 0)
        precision *= 2


@lru_cache(maxsize=4096)
def _gaussian_error(sigma_squared: Fraction, miss: Fraction) -> int:
    """Return the smallest t whose rounded-up tail is at most `miss`, by bisection."""
    law = DiscreteGaussian(sigma_squared)
    if miss < Fraction(1, 10**290):
        raise DeclarationError("confidence must be at most 1 - 1e-290 for Gaussian noise; its tails are doubles")
    cap = math.nextafter(float(miss), 0.0) if float(miss) > miss else float(miss)
    square = 2 * sigma_squared * Fraction(math.log(2 / cap) * (1 + 1e-9))
    most = math.isqrt(math.ceil(square)) + 1
    return bisect_whole(lambda t: law.tail(t) <= cap, -1, most)


@lru_cache(maxsize=4096)
def _normaliser(variance: Fraction) -> float:
    """Return the sum of exp(-x^2 / (2 sigma^2)) over the integers, within 1e-14 relative."""
    if variance >= _POISSON:
        return math.sqrt(2 * math.pi * variance)
    return 1 + 2 * _tail_by_sum(variance, 0)


def _tail_by_sum(variance: Fraction, t: int) -> float:
    """Return the sum of f(x), x > t >= 0: f(t + 1) times the sum of exp(-j (j + 2t + 2) / (2 sigma^2)), j >= 0."""
    start = t + 1
    lead = start * start / (2 * variance)
    if lead > 800:
        return 0.0
    # j solves j (j + 2 start) / (2 sigma^2) = _NEGLIGIBLE; beyond it the ratios of terms stay below e^(-j / sigma^2).
    reach = _NEGLIGIBLE * 2 * float(variance)
    last = math.ceil(reach / (start + math.sqrt(start * start + reach))) + 1
    j = np.arange(last + 1, dtype=np.float64)
    total = float(np.exp(-(j * (j + 2.0 * start)) / (2 * float(variance))).sum())
    return math.exp(-float(lead)) * total


def _tail_by_integral(variance: Fraction, t: int) -> float:
    """Return the sum of f(x), x > t >= 0, by its integral and three Euler-Maclaurin terms, for sigma >= 1000."""
    a = t + Fraction(1, 2)
    exponent = a * a / (2 * variance)
    if exponent > 800:
        return 0.0
    sigma = math.sqrt(variance)
    z = float(a) / sigma
    integral = sigma * math.sqrt(math.pi / 2) * math.erfc(z / math.sqrt(2))
    # f', f''' and f^(5) at a, from the Hermite polynomials: f^(n)(a) = (-1)^n He_n(z) f(a) / sigma^n
    third = z**3 - 3 * z
    fifth = z**5 - 10 * z**3 + 15 * z
    terms = -z / sigma / 24 + 7 * third / sigma**3 / 5760 - 31 * fifth / sigma**5 / 967680
    return integral + math.exp(-float(exponent)) * terms


# A float stands for its shortest decimal, not for the Fraction that equals it, so the cache keeps types apart.
@lru_cache(maxsize=256, typed=True)
def chance_beyond(confidence: float | Fraction) -> Fraction:
    """Return 1 - confidence exactly, a float by its shortest decimal; raises DeclarationError unless it lies between 0 and 1."""
    if not 0 < confidence < 1:
        raise DeclarationError(f"confidence must lie between 0 and 1, such as 0.95, not {confidence}")
    return 1 - Fraction(Decimal(repr(float(confidence))) if isinstance(confidence, float) else confidence)


# Points on each side of 0, at which the law of a sum is known.
_POINTS = 2**15
# The smallest tail that transforms in floats resolve.
_LEAST = 1e-11


@lru_cache(maxsize=1024)
def sum_error(laws: tuple[NoiseLaw, ...], weights: tuple[Fraction, ...], confidence: float) -> Fraction:
    """Return a t with P(|sum of w_i Z_i| > t) <= 1 - confidence: the smallest, where the law is on few enough points.

    Theorem: the w_i Z_i are whole multiples of g, the greatest common divisor of the weights, so the law of their sum is the
    convolution of laws on multiples of g. Where that is more than 2^15 points on a side, each w_i Z_i is rounded to a
    coarser grid of step h: that moves the sum by at most n h / 2, which is added. What lies beyond the points, and the
    errors of the transform, count as beyond t; so t is never too small, up to 1e-13 of probability.

    >>> from sordino.core.noise.laws import DiscreteLaplace
    >>> sum_error((DiscreteLaplace(Fraction(2)),) * 2, (Fraction(1), Fraction(1)), 0.95)
    Fraction(8, 1)
    """
    pairs = [(law, abs(w)) for law, w in zip(laws, weights, strict=True) if w and law.variance()]
    miss = 1.0 - confidence
    if not pairs:
        return Fraction(0)
    if len(pairs) == 1:
        return pairs[0][1] * pairs[0][0].error(confidence)
    # Transforms cannot resolve so small a tail: each law gets an equal part of it, by the union bound.
    if miss < _LEAST * 100:
        return sum((w * law.error(1.0 - miss / len(pairs)) for law, w in pairs), Fraction(0))
    step = reduce(_common_divisor, [w for _, w in pairs])
    reach = sum((w * law.error(1.0 - _LEAST / len(pairs)) for law, w in pairs), Fraction(0))
    coarse = reach / step > _POINTS
    if coarse:
        step = reach / _POINTS
    side = math.ceil(reach / step) + len(pairs)
    size = 1 << (4 * side + 1).bit_length()
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    for law, weight in pairs:
        transform *= np.fft.rfft(_masses(law, float(weight / step), side, size))
    mass = np.maximum(np.fft.irfft(transform, size), 0.0)
    both = mass[: side + 1].copy()
    both[1:] += mass[-1 : -side - 1 : -1]
    beyond = 1.0 - np.cumsum(both) + 1e-13
    at = int(np.argmax(beyond <= miss)) if bool(np.any(beyond <= miss)) else side
    return at * step + (len(pairs) * step / 2 if coarse else 0)


def _common_divisor(one: Fraction, other: Fraction) -> Fraction:
    below = math.lcm(one.denominator, other.denominator)
    return Fraction(math.gcd(int(one * below), int(other * below)), below)


def _masses(law: NoiseLaw, weight: float, side: int, size: int) -> Any:
    """Return P(weight Z rounds to j) for |j| <= side, j below 0 at the end of an array of `size`."""
    places = np.arange(-side, side + 2)
    upper = law.at_least()(np.ceil((places - 0.5) / weight))
    masses = np.zeros(size)
    masses[places[:-1]] = upper[:-1] - upper[1:]
    return masses
