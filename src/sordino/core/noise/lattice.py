"""Real values on a public grid: the whole multiples of a declared resolution.

It may not know any data: the grid is the declared resolution alone, so an output's low bits say nothing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from sordino.core.errors import DeclarationError
from sordino.core.noise.bernoulli import as_fraction


def scale_of(unit: Fraction) -> tuple[Literal["*", "/"], float]:
    """Return how doubles are counted in units: y = x * f or y = x / f, and then floor(y + 1/2).

    Theorem: for 2^-512 <= unit <= 2^512 this is total, infinities staying infinite and NaN staying NaN; and the double
    nearest to k unit reads as k for all |k| <= 10^15, that is every decimal of up to 15 digits, the most that a double
    holds. Proof: f is finite and not 0. Reading k unit as a double, rounding f and the one product or quotient are three
    errors of at most 2^-53 each, so |y - k| <= |k| ((1 + 2^-53)^3 - 1) < 0.334. Below 2^50 > 10^15 + 1 doubles lie at most
    1/8 apart, so adding 1/2 errs by at most 1/16, and k < y + 1/2 < k + 1. Where f is exact (1/unit or unit is a double)
    the error is 0.223 at most. A 32-bit float nearest to k unit reads as k for |k| <= 2^22, by the same steps. Mironov 2012
    (On significance of the least significant bits) is heeded: nothing but whole steps goes on.

    >>> scale_of(Fraction(1, 100)), scale_of(Fraction(5))
    (('*', 100.0), ('/', 5.0))
    """
    if not Fraction(1, 2**512) <= unit <= 2**512:
        raise DeclarationError("a unit must lie from 2^-512 to 2^512")
    per = 1 / unit
    if Fraction(float(per)) != per and Fraction(float(unit)) == unit:
        return "/", float(unit)
    return "*", float(per)


def to_lattice(value: Fraction | int, unit: Fraction | int) -> int:
    """Return floor(value / unit + 1/2): the nearest multiple of `unit`, counted in units, halves going up.

    Theorem: |to_lattice(value) unit - value| <= unit / 2 (the floor alone would shift every row down by half a unit).

    >>> to_lattice(Fraction("0.30"), Fraction(1, 100)), to_lattice(Fraction(-1, 2), 1)
    (30, 0)
    """
    steps = as_fraction(value, "value") / _positive(unit, "unit")
    return (2 * steps.numerator + steps.denominator) // (2 * steps.denominator)


def outward(lower: Fraction | int, upper: Fraction | int, unit: Fraction | int) -> tuple[int, int]:
    """Return floor(lower / unit) and ceil(upper / unit): bounds in units that leave no value of [lower, upper] out.

    Theorem: for lower <= value <= upper, to_lattice(value, unit) lies between them.

    >>> outward(Fraction(-1, 3), Fraction(10, 3), 1)
    (-1, 4)
    """
    least = as_fraction(lower, "lower")
    most = as_fraction(upper, "upper")
    step = _positive(unit, "unit")
    if least > most:
        raise DeclarationError(f"lower must be at most upper, not {least} > {most}")
    return least // step, -(-most // step)


def _positive(value: Fraction | int, name: str) -> Fraction:
    exact = as_fraction(value, name)
    if exact <= 0:
        raise DeclarationError(f"{name} must be more than 0, not {exact}")
    return exact
