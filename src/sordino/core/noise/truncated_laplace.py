"""The discrete Laplace law truncated on both sides: noise whose ends cost a small delta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.noise.bernoulli import exp_bounds, rounding_contexts
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.core.rounding import bisect_whole

_DIGITS = 40
_ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class TruncatedLaplace:
    """The discrete Laplace law given |X| <= reach: P(X = x) proportional to q^|x|, q = exp(-1 / scale).

    No `NoiseLaw`: it is for counts that selected their own keys alone (`estimates/selected.py`).

    >>> TruncatedLaplace(Fraction(2), 20).error(0.95)
    6
    """

    scale: Fraction
    reach: int

    def sample(self, rng: Rng, size: int) -> np.ndarray[Any, np.dtype[Any]]:
        """Draw `size` numbers of exactly this law: draws of the untruncated law beyond reach are drawn again."""
        draws = DiscreteLaplace(self.scale).sample(rng, size=size)
        while (far := np.flatnonzero(np.abs(draws) > self.reach)).size:
            draws[far] = DiscreteLaplace(self.scale).sample(rng, size=far.size)
        return draws

    def upper_tail(self, t: int) -> float:
        """Return P(X > t), within 1e-9 relative; from symmetry below 0."""
        if t < 0:
            return 1.0 - self.upper_tail(-t - 1)
        if t >= self.reach:
            return 0.0
        rate = float(1 / self.scale)
        inside = -math.expm1(-rate * (self.reach - t)) * math.exp(-rate * (t + 1))
        return inside / (1 + math.exp(-rate) - 2 * math.exp(-rate * (self.reach + 1)))

    def error(self, confidence: float | Fraction) -> int:
        """Return the smallest t >= 0 with P(|X| > t) <= 1 - confidence, up to rounding; at most the untruncated law's."""
        most = min(DiscreteLaplace(self.scale).error(confidence), self.reach)
        miss = 1 - float(confidence)
        return bisect_whole(lambda t: t >= 0 and 2 * self.upper_tail(t) <= miss, -1, most) if most else 0


@lru_cache(maxsize=4096)
def least_reach(epsilon: Fraction, delta: Fraction) -> int:
    """Return the least reach at which the ends of the law of scale 1 / epsilon have probability delta or less, each.

    P(X = k) = q^k (1 - q) / (1 + q - 2 q^(k+1)) <= delta where q^k (1 - q + 2 q delta) <= delta (1 + q): certified in
    Decimal, so that the result may be one too large, never too small.

    >>> least_reach(Fraction(1), Fraction(1, 10**6))
    14
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise DeclarationError("epsilon must be above 0, and delta between 0 and 1")
    precision = _DIGITS + len(str(int(1 / epsilon)))
    down, up = rounding_contexts(precision)
    q_low, q_high = exp_bounds(epsilon, precision)
    low, high = (c.divide(Decimal(delta.numerator), Decimal(delta.denominator)) for c in (down, up))
    room = down.multiply(low, down.add(_ONE, q_low))
    factor = up.add(up.subtract(_ONE, q_low), up.multiply(up.add(q_high, q_high), high))

    def holds(reach: int) -> bool:
        return bool(up.multiply(exp_bounds(reach * epsilon, precision)[1], factor) <= room)

    most = 1
    while not holds(most):
        most *= 2
    return bisect_whole(holds, most // 2, most) if most > 1 else 1
