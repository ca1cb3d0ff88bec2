"""The geometric law: noise on one side of 0, for questions whose proof only ever moves noise upwards."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sordino.core.noise.bernoulli import exp_bounds, rounding_contexts
from sordino.core.noise.discrete import discrete_laplace, not_negative
from sordino.core.noise.laws import DiscreteLaplace, chance_beyond
from sordino.core.noise.rng import Rng
from sordino.core.rounding import bisect_whole

_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Geometric:
    """The geometric law on 0, 1, 2, ...: P(X = x) = (1 - q) q^x, q = exp(-1 / scale); always 0 at scale 0.

    Theorem: P(X = x) / P(X = x + s) = exp(s / scale) for every s >= 0, as of discrete Laplace noise of this scale, with half
    of its variance: q / (1 - q)^2. Ratios downwards are not bounded: where a proof moves noise down, this law is not private.

    Raises DeclarationError for a scale that is below 0 or a float.

    >>> Geometric(Fraction(2)).error(0.95)
    5
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", not_negative(self.scale, "scale"))

    def sample(self, rng: Rng) -> int:
        """Draw an int: a discrete Laplace number x of this scale, or -1 - x where it is below 0.

        Theorem: P(x) is proportional to q^x over x >= 0, and to q^-x = q q^(-1 - x) over x < 0. So both x given that it is not
        below 0, and -1 - x given that it is, have the geometric law.

        >>> Geometric(Fraction(0)).sample(Rng.seeded(1))
        0
        """
        drawn = discrete_laplace(self.scale, rng)
        return max(drawn, -1 - drawn)

    def upper_tail(self, t: int) -> float:
        """Return P(X > t) = q^(t+1) for t >= -1, 1 below."""
        if t < 0:
            return 1.0
        return math.exp(-float((t + 1) / self.scale)) if self.scale else 0.0

    def error(self, confidence: float | Fraction) -> int:
        """Return the smallest t >= 0 with P(X > t) <= 1 - confidence, exactly; a float means its shortest decimal.

        Raises DeclarationError unless 0 < confidence < 1.
        """
        miss = chance_beyond(confidence)
        if not self.scale:
            return 0
        precision = _DIGITS + len(str(int(self.scale)))
        down, _ = rounding_contexts(precision)
        least = down.divide(Decimal(miss.numerator), Decimal(miss.denominator))

        def holds(t: int) -> bool:
            return t >= 0 and exp_bounds((t + 1) / self.scale, precision)[1] <= least

        # 2 q^(t+1) / (1 + q), of Laplace noise, is the larger tail.
        most = DiscreteLaplace(self.scale).error(confidence)
        return bisect_whole(holds, -1, most) if most else 0

    def mean(self) -> float:
        """Return the mean q / (1 - q), close to scale - 1/2 where that is large."""
        if not self.scale or 1 / self.scale > 700:
            return 0.0
        return 1.0 / math.expm1(float(1 / self.scale))

    def variance(self) -> float:
        """Return the variance q / (1 - q)^2, half of that of Laplace noise.

        >>> round(2 * Geometric(Fraction(2)).variance() / DiscreteLaplace(Fraction(2)).variance(), 12)
        1.0
        """
        return DiscreteLaplace(self.scale).variance() / 2
