"""Exact sampler of a rounded Cauchy law, for noise that must have heavy tails.

It may not know what is being hidden: a scale comes in as a Fraction, a whole number of exactly that law comes out. No
float decides anything.
"""

from __future__ import annotations

from fractions import Fraction

from sordino.core.errors import DeclarationError
from sordino.core.noise.bernoulli import as_fraction
from sordino.core.noise.rng import Rng

_BITS = 64


def draw_rounded_cauchy(scale: Fraction | int, rng: Rng) -> int:
    """Draw floor(scale C + 1/2), C standard Cauchy: density 1 / (pi (1 + z^2)).

    Theorem: for (X, Y) uniform in the unit disc, X / Y is standard Cauchy. X and Y are drawn as nested intervals of
    rationals, 64 bits at a time, until both the disc and the rounding are decided for the whole interval; so the law is
    exact. Since x + floor(scale C + 1/2) = floor(x + scale C + 1/2) for whole x, adding it is post-processing of adding
    the real C.

    Scale 0 gives 0; a negative scale raises DeclarationError. Devroye 1986, chapter IV.7.

    >>> draw_rounded_cauchy(Fraction(0), Rng.seeded(1))
    0
    """
    exact = as_fraction(scale, "scale")
    if exact < 0:
        raise DeclarationError("scale must not be negative")
    if exact == 0:
        return 0
    while True:
        value = _one(exact, rng)
        if value is not None:
            return value


def _one(scale: Fraction, rng: Rng) -> int | None:
    """Return one draw, None where the point fell outside the disc."""
    x = y = bits = 0
    negative = rng.bits(1) == 1
    inside = False
    while True:
        x = (x << _BITS) | rng.bits(_BITS)
        y = (y << _BITS) | rng.bits(_BITS)
        bits += _BITS
        whole = 1 << (2 * bits)
        if not inside:
            if x * x + y * y >= whole:
                return None
            inside = (x + 1) ** 2 + (y + 1) ** 2 <= whole
        if inside and y > 0:
            low = _round(scale, x, y + 1, negative)
            high = _round(scale, x + 1, y, negative)
            if low == high:
                return low


def _round(scale: Fraction, top: int, bottom: int, negative: bool) -> int:
    """Return floor(+-scale top / bottom + 1/2)."""
    numerator = scale.numerator * top
    denominator = scale.denominator * bottom
    signed = -numerator if negative else numerator
    return (2 * signed + denominator) // (2 * denominator)
