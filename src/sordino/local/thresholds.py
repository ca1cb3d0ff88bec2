"""Probabilities as whole thresholds of 32-bit words, rounded to the private side, and certified logarithms of their ratios.

It may not know which protocol a threshold serves. A coin is a uniform 32-bit word u and a threshold T: heads if u < T, so
its probability is T / 2^32 exactly, in Python and in any browser alike.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.noise.bernoulli import CertifiedProbability, exp_bounds, rounding_contexts

BITS = 32
FULL = 1 << BITS
# Beyond it, a word of 32 bits has no room for the noise.
LARGEST_EPSILON = 100
_DIGITS = 60


def check_epsilon(value: Number) -> Fraction:
    """Return epsilon as a fraction; raises DeclarationError unless it is above 0 and at most 100."""
    epsilon = to_fraction(value, name="epsilon")
    if epsilon <= 0:
        raise DeclarationError(
            f"epsilon must be above 0, not {format_number(epsilon)}; 0.5 to 2 is usual for the local model"
        )
    if epsilon > LARGEST_EPSILON:
        raise DeclarationError(
            f"epsilon must be at most {LARGEST_EPSILON}, not {format_number(epsilon)}: nothing would be hidden"
        )
    return epsilon


def floor_share(epsilon: Fraction, others: Fraction | int) -> int:
    """Return floor(2^32 E / (E + others)), E = exp(epsilon), exactly: the odds of heads are at most E to `others`.

    >>> floor_share(Fraction(1), 1) / 2**32
    0.7310585784725845
    """
    weight = Fraction(others)

    def bounds(precision: int) -> tuple[Decimal, Decimal]:
        down, up = rounding_contexts(precision)
        least, most = exp_bounds(epsilon, precision)
        high = up.divide(up.multiply(Decimal(weight.numerator), most), Decimal(weight.denominator))
        low = down.divide(down.multiply(Decimal(weight.numerator), least), Decimal(weight.denominator))
        return down.divide(Decimal(1), up.add(Decimal(1), high)), up.divide(Decimal(1), down.add(Decimal(1), low))

    return CertifiedProbability.certify(bounds).digits(BITS)


def check_threshold(value: object, *, name: str) -> int:
    """Return a threshold read from outside; raises DeclarationError unless it is a whole number in 1 .. 2^32 - 1."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < FULL:
        raise DeclarationError(f"{name} must be a whole number from 1 to 2^32 - 1: a threshold of 32-bit words")
    return value


def log_up(ratio: Fraction, *, digits: int = 17) -> Fraction:
    """Return a decimal of `digits` figures at or above ln(ratio), for ratio >= 1.

    Decimal's ln is correctly rounded, so the next number above bounds it; the ratio is rounded up before.

    >>> float(log_up(Fraction(3)))
    1.0986122886681098
    """
    if ratio == 1:
        return Fraction(0)
    _, up = rounding_contexts(_DIGITS)
    over = up.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    _, last = rounding_contexts(digits)
    return Fraction(last.plus(up.next_plus(up.ln(over))))


def exp_over(epsilon: Fraction) -> float:
    """Return exp(epsilon) as a float, for variances and choices; no probability is made of it."""
    return math.exp(float(epsilon))


def float_up(value: Fraction) -> float:
    """Return the least float at or above `value`."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
