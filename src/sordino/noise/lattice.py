"""Real values on a public grid: the lattice of multiples of a power of two.

It may not know any data: the grid is chosen from the declared resolution alone, so an output's low bits say nothing.
"""

from __future__ import annotations

from fractions import Fraction

from sordino.errors import DeclarationError
from sordino.noise.bernoulli import as_fraction

__all__ = ["grid", "outward", "to_lattice"]


def grid(resolution: Fraction | int) -> Fraction:
    """Return the largest power of two that is at most `resolution`.

    A power of two because doubles hold its multiples exactly (decimal grids misplace cents). Raises DeclarationError
    unless resolution > 0. Mironov 2012, On significance of the least significant bits, section 5.

    >>> grid(Fraction(1, 100)), grid(Fraction(1)), grid(Fraction(1000))
    (Fraction(1, 128), Fraction(1, 1), Fraction(512, 1))
    """
    exact = _positive(resolution, "resolution")
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    unit = Fraction(2) ** power
    return unit if unit <= exact else unit / 2


def to_lattice(value: Fraction | int, unit: Fraction | int) -> int:
    """Return floor(value / unit + 1/2): the nearest multiple of `unit`, counted in units, halves going up.

    Theorem: |to_lattice(value) unit - value| <= unit / 2 (the floor alone would shift every row down by half a unit).

    >>> to_lattice(Fraction("0.30"), Fraction(1, 128)), to_lattice(Fraction(-1, 2), 1)
    (38, 0)
    """
    steps = as_fraction(value, "value") / _positive(unit, "unit")
    return (2 * steps.numerator + steps.denominator) // (2 * steps.denominator)


def outward(lower: Fraction | int, upper: Fraction | int, unit: Fraction | int) -> tuple[int, int]:
    """Return floor(lower / unit) and ceil(upper / unit): bounds in units that leave no value of [lower, upper] out.

    Theorem: for lower <= value <= upper, to_lattice(value, unit) lies between them.

    >>> outward(Fraction(-1, 3), Fraction(10, 3), 1)
    (-1, 4)
    """
    least, most, step = as_fraction(lower, "lower"), as_fraction(upper, "upper"), _positive(unit, "unit")
    if least > most:
        raise DeclarationError(f"lower must be at most upper, not {least} > {most}")
    return least // step, -(-most // step)


def _positive(value: Fraction | int, name: str) -> Fraction:
    exact = as_fraction(value, name)
    if exact <= 0:
        raise DeclarationError(f"{name} must be more than 0, not {exact}")
    return exact
