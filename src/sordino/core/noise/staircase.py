"""The staircase law: the noise of least variance on one number that moves by several steps, drawn exactly.

It may not know what is being hidden: whole numbers and an epsilon come in, integers of exactly that law come out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, overload

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.noise.bernoulli import (
    CertifiedProbability,
    bernoulli,
    exp_bounds,
    odds_bounds,
    rounding_contexts,
    settle,
)
from sordino.core.noise.discrete import discrete_laplace
from sordino.core.noise.laws import ContinuousLaw, chance_beyond
from sordino.core.noise.rng import Rng
from sordino.core.rounding import bisect_whole

# From this width on, and below this epsilon, a draw may leave 64 bits: arrays hold Python integers.
_WIDE = 1 << 40
_FLAT = Fraction(1, 1024)
_COIN_BITS = 16
# Bits of a word beyond those of the width.
_SPARE_BITS = 64
# Far above the error of a sum of a dozen positive floats.
_SLACK = 1e-13
# Points of the first two stairs at which tails are compared.
_POINTS = 512


@dataclass(frozen=True, slots=True)
class Staircase:
    """The staircase law: P(X = x) = a w(|x|), w(k width + j) = b^k for 0 <= j < early and b^(k+1) for early <= j < width.

    Here b = exp(-epsilon) and a = (1 - b) / (2 early + 2 b (width - early) - (1 - b)).

    Theorem: w falls and w(n + width) = b w(n), so P(x) <= e^epsilon P(x + d) for every whole |d| <= width. Proof: where |x + d|
    <= |x| the right side is the larger without the factor; else |x + d| <= |x| + width, so w(|x + d|) >= b w(|x|).

    Paper: Geng, Viswanath 2016, The optimal noise-adding mechanism in differential privacy, also for whole numbers: for one
    number of sensitivity `width` no other noise has a smaller variance, at the best `early`.

    Raises DeclarationError unless width and early are whole numbers, 1 <= early <= width, and epsilon is a Fraction above 0.

    >>> Staircase(10, 3, Fraction(3)).error(0.95)
    10
    """

    width: int
    early: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        for value in (self.width, self.early):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise DeclarationError(
                    f"width and early of a staircase must be whole numbers, 1 or more, not {value!r}"
                )
        if self.early > self.width:
            raise DeclarationError(f"early, {self.early}, must be at most the width of the stairs, {self.width}")
        if not isinstance(self.epsilon, Fraction) or self.epsilon <= 0:
            raise DeclarationError(f"epsilon of a staircase must be a Fraction above 0, not {self.epsilon!r}")

    @overload
    def sample(self, rng: Rng, size: None = None) -> int: ...
    @overload
    def sample(self, rng: Rng, size: int) -> np.ndarray[Any, np.dtype[Any]]: ...
    def sample(self, rng: Rng, size: int | None = None) -> int | np.ndarray[Any, np.dtype[Any]]:
        """Draw an int, or with `size` an array of int64 (of Python ints where the width is 2^40 or epsilon below 1/1024).

        Theorem: let G be geometric, P(G = k) = (1 - b) b^k, let J be late, uniform on early .. width - 1, with probability
        b (width - early) / (early + b (width - early)), else uniform on 0 .. early - 1, and let the sign be fair; drawn anew
        where the number is -0. Then sign (G width + J) has the law above: a place j of the stair k has probability in
        proportion to b^k, times b where it is late, which is w(k width + j). One draw in two or more is kept, at any epsilon.

        >>> Staircase(10, 3, Fraction(3)).sample(Rng.seeded(1), 4).dtype
        dtype('int64')
        """
        if size is None:
            return self._draw(rng)
        if self.width >= _WIDE or self.epsilon < _FLAT:
            return np.array([self._draw(rng) for _ in range(size)], dtype=object)
        drawn = np.empty(size, dtype=np.int64)
        missing = size
        while missing:
            accepted = self._tries(rng, 4 * missing + 16)[:missing]
            drawn[size - missing : size - missing + len(accepted)] = accepted
            missing -= len(accepted)
        return drawn

    def _draw(self, rng: Rng) -> int:
        bits = self.width.bit_length() + _SPARE_BITS
        while True:
            drawn = int(discrete_laplace(1 / self.epsilon, rng))
            late = bernoulli(_lateness(self), rng)
            limit = self.width - self.early if late else self.early
            word = rng.bits(bits)
            # so few words are beyond the last whole multiple that their redrawing shows nobody which limit it was
            while word >= (1 << bits) // limit * limit:
                word = rng.bits(bits)
            place = word % limit + (self.early if late else 0)
            negative = rng.bits(1)
            # Both x >= 0 and -1 - x of x < 0 are geometric: see `geometric`.
            magnitude = max(drawn, -1 - drawn) * self.width + place
            if magnitude or not negative:
                return -magnitude if negative else magnitude

    def _tries(self, rng: Rng, tries: int) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the accepted ones of so many tries, in their order."""
        drawn = discrete_laplace(1 / self.epsilon, rng, tries)
        coin = _lateness(self)
        words = rng.words(tries, np.uint16)
        cut = coin.digits(_COIN_BITS)
        late = words < cut
        for i in np.flatnonzero(words == cut).tolist():
            late[i] = settle(coin, known=_COIN_BITS, rng=rng)
        limits = np.where(late, max(self.width - self.early, 1), self.early).astype(np.uint64)
        # The last word below a whole multiple of the limit.
        last = np.where(
            late, *(np.uint64((1 << 64) // n * n - 1) for n in (max(self.width - self.early, 1), self.early))
        )
        places = rng.words(tries, np.uint64)
        while (beyond := np.flatnonzero(places > last)).size:
            places[beyond] = rng.words(beyond.size, np.uint64)
        offsets = (places % limits).astype(np.int64) + np.where(late, self.early, 0)
        negative = (rng.words(tries, np.uint8) & 1).view(np.bool_)
        magnitude = np.maximum(drawn, -1 - drawn) * self.width + offsets
        samples: np.ndarray[Any, np.dtype[Any]] = np.where(negative, -magnitude, magnitude)[(magnitude > 0) | ~negative]
        return samples

    def upper_tail(self, t: int) -> float:
        """Return P(X > t), within 1e-13 relative down to 1e-300; from symmetry for t < 0."""
        if t < 0:
            return 1.0 - self.upper_tail(-t - 1)
        stairs, place = divmod(t + 1, self.width)
        b, rest, whole = self._sums()
        head = max(0, self.early - place) + b * (self.width - max(self.early, place))
        depth = float(stairs * self.epsilon)
        return math.exp(-depth) * (head + b / rest * whole) * rest / (2 * whole - rest) if depth < 740 else 0.0

    def tail(self, t: int) -> float:
        """Return P(|X| > t), rounded up: from the true value to 1e-12 relative above it."""
        if t < 0:
            return 1.0
        return min(math.nextafter(2 * self.upper_tail(t) * (1 + _SLACK), math.inf), 1.0)

    def error(self, confidence: float | Fraction) -> int:
        """Return the smallest t >= 0 with P(|X| > t) <= 1 - confidence, never too small; a float means its shortest decimal.

        Raises DeclarationError unless 0 < confidence < 1, and above 1 - 1e-290, where tails are no doubles.
        """
        miss = chance_beyond(confidence)
        if miss < Fraction(1, 10**290):
            raise DeclarationError("confidence must be at most 1 - 1e-290 for staircase noise; its tails are doubles")
        return _error(self, float(miss) if float(miss) <= miss else math.nextafter(float(miss), 0.0))

    def variance(self) -> float:
        """Return the variance, within 1e-13 relative: sums of k^2 b^k, k b^k and b^k over the stairs, in closed form.

        >>> round(Staircase(1, 1, Fraction(1)).variance(), 6)  # discrete Laplace noise
        1.841347
        """
        b, rest, whole = self._sums()
        first, second = (
            float(early) + b * float(all_places - early)
            for early, all_places in zip(_power_sums(self.early), _power_sums(self.width), strict=True)
        )
        width = float(self.width)
        squares = width * width * b * (1 + b) / rest**3 * whole + 2 * width * b / rest**2 * first + second / rest
        return 2 * squares * rest / (2 * whole - rest)

    def at_least(self) -> Callable[[Any], Any]:
        """Return P(X >= step) as a function of arrays of whole steps, in floats."""
        b, rest, whole = self._sums()
        scale = rest / (2 * whole - rest)

        def reaches(steps: Any) -> Any:
            size = np.where(steps > 0, steps, 1 - steps)
            stairs = np.floor(size / self.width)
            place = size - stairs * self.width
            head = np.maximum(0, self.early - place) + b * (self.width - np.maximum(self.early, place))
            tail = np.exp(-stairs * float(self.epsilon)) * (head + b / rest * whole) * scale
            return np.where(steps > 0, tail, 1.0 - tail)

        return reaches

    def quantiles(self, points: Any) -> Any:
        """Return the noise at each point of (0, 1): the stair by logarithms, the place in it by its two slopes."""
        b, rest, whole = self._sums()
        # P(X >= s) over the scale, at the start of each stair: b^k whole / rest
        tail = np.maximum(np.minimum(points, 1.0 - points) * (2 * whole - rest) / rest, 1e-300)
        stairs = np.maximum(np.floor(np.log(whole / rest / tail) / float(self.epsilon)), 0.0)
        left = tail * np.exp(stairs * float(self.epsilon)) - b / rest * whole
        late = self.width - self.early
        # b is 0 where epsilon is huge: no noise lies beyond the first stair then.
        with np.errstate(divide="ignore", invalid="ignore"):
            place = np.where(left > b * late, self.early - (left - b * late), self.width - left / b)
        size = np.floor(np.clip(place, 0.0, self.width)) + stairs * self.width
        return np.where(points < 0.5, -1.0, 1.0) * size

    def continuous(self) -> ContinuousLaw:
        """Return a Laplace law whose tails are nowhere lighter.

        Both are symmetric and have one mode, so weighted sums of independent ones have no lighter tails either (Birnbaum 1948,
        On random variables with comparable peakedness).
        """
        scale = _dominating_scale(self)
        return ContinuousLaw(2 * scale * scale, scale)

    def _sums(self) -> tuple[float, float, float]:
        """Return b, 1 - b, and the sum of w over the first stair."""
        b = math.exp(-float(self.epsilon))
        return b, -math.expm1(-float(self.epsilon)), self.early + b * (self.width - self.early)


@lru_cache(maxsize=1024)
def best_staircase(width: int, epsilon: Fraction) -> Staircase:
    """Return the staircase law of least variance for a number that moves by at most `width` steps.

    On the real line `early` is g width, g = (b - 2 b^2 + 2 b^4 - b^5)^(1/3) / (2^(1/3) (1 - b)^2) - b / (1 - b) (Geng, Viswanath
    2016, for squares); the whole numbers beside it are compared.
    """
    b = math.exp(-float(epsilon))
    rest = -math.expm1(-float(epsilon))
    share = 0.5
    # below it the difference has lost its digits, and g is a half less epsilon / 12 or so
    if epsilon > Fraction(1, 100):
        share = (b * rest**3 * (1 + b)) ** (1 / 3) / (2 ** (1 / 3) * rest**2) - b / rest
    near = min(max(round(share * width), 1), width)
    laws = [Staircase(width, early, epsilon) for early in range(max(1, near - 2), min(width, near + 2) + 1)]
    return min(laws, key=Staircase.variance)


@lru_cache(maxsize=1024)
def _lateness(law: Staircase) -> CertifiedProbability:
    """Return the probability of a late place: q / (1 + q), q = exp(-epsilon) (width - early) / early."""
    if law.width == law.early:
        return CertifiedProbability.rational(0)

    def bounds(precision: int) -> tuple[Decimal, Decimal]:
        lower, upper = exp_bounds(law.epsilon, precision)
        down, up = rounding_contexts(precision)
        late = Decimal(law.width - law.early)
        early = Decimal(law.early)
        # each step rounds outward
        return odds_bounds(
            down.divide(down.multiply(lower, late), early), up.divide(up.multiply(upper, late), early), precision
        )

    return CertifiedProbability.certify(bounds)


@lru_cache(maxsize=4096)
def _error(law: Staircase, miss: float) -> int:
    # P(|X| > k width - 1) <= 2 b^k
    most = law.width * (math.ceil(math.log(2 / miss) / float(law.epsilon)) + 1)
    return bisect_whole(lambda t: t >= 0 and law.tail(t) <= miss, -1, most)


@lru_cache(maxsize=1024)
def _dominating_scale(law: Staircase) -> float:
    """Return the least scale of a Laplace law with P(|X| > t) <= exp(-(t + 1/2) / scale) at points of the first two stairs.

    Every later stair has both tails smaller by b, or the Laplace law's by less.
    """
    grid = np.linspace(0, 2 * law.width - 1, _POINTS).astype(np.int64)
    edges = [law.early - 1, law.early, law.width - 1, law.width, law.width + law.early - 1]
    places = np.unique(np.concatenate([grid, edges]))
    tails = 2 * law.at_least()(places + 1)
    inside = tails < 1.0
    with np.errstate(divide="ignore"):
        scales = (places[inside] + 0.5) / -np.log(tails[inside])
    return max(float(law.width / law.epsilon), float(scales.max(initial=0.0)))


def _power_sums(count: int) -> tuple[int, int]:
    """Return 0 + 1 + ... + (count - 1), and the same of squares."""
    return count * (count - 1) // 2, (count - 1) * count * (2 * count - 1) // 6
