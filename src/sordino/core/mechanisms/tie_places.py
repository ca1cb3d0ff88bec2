"""Tie places: where rows that tie at a value may be split, dense near both ends of the ties. Knows no data."""

from __future__ import annotations

import math
from fractions import Fraction

# A row is split into so many parts, so that tied rows can be divided.
PARTS: int = 2**80
# Bits of the part that a place stands for: places are as far apart as floating-point numbers of this precision.
_BITS: int = 40
_SLACKS = tuple(Fraction(1, k) for k in (8, 12, 16, 24, 32, 48, 64, 96))


def place_count() -> int:
    """Return the number of places of a value, the two ends of its ties included."""
    if PARTS <= 2 ** (_BITS + 1):
        return PARTS + 1
    return 2 * _half() + 1


def cut(place: int) -> int:
    """Return how many parts of each tied row lie below a place: growing from 0 to PARTS.

    Up to half of the parts it is the floating-point number of that place, of `_BITS` bits and one implied; then its mirror.

    >>> cut(0), cut(7), cut(place_count() // 2) == PARTS // 2, cut(place_count() - 1) == PARTS
    (0, 7, True, True)
    """
    if PARTS <= 2 ** (_BITS + 1):
        return place
    half = _half()
    # the upper half mirrors the lower one
    if place > half:
        return PARTS - cut(2 * half - place)
    if place < 2 ** (_BITS + 1):
        return place
    return ((place & ((1 << _BITS) - 1)) + (1 << _BITS)) << ((place >> _BITS) - 1)


def place_at(part: int) -> int:
    """Return a place next to that many parts, at or below them in the lower half and at or above them in the upper one."""
    if PARTS <= 2 ** (_BITS + 1):
        return part
    if 2 * part > PARTS:
        return 2 * _half() - place_at(PARTS - part)
    shift = max(part.bit_length() - 1 - _BITS, 0)
    return part if not shift else ((shift + 1) << _BITS) + (part >> shift) - 2**_BITS


def split_tail(values: int, rows: int, rate: Fraction, *, first: bool) -> tuple[Fraction, float]:
    """Return a rate r' and c such that a selection of a split errs by t ranks or more with chance <= exp(c - r' t).

    `first` says that no selection went before, so that all ties of a value are among its candidates.

    Theorem. Let u = rate t, x = rate rows, P the places of a value, g = 2^_BITS, G = P / g, z = x max(1 / (2 g), g / PARTS).
    Let V be the value whose ties hold the target, d <= d' its distances from their ends, D = rate d <= x / 2.

    Weight near the target. Places from there to the nearer end lie no further apart than max(one part, d / g), and g
    of them at least lie on the way, or, where d / g is less than a part, around the target, a part from each other. So the
    weight M of V is at least the sum of exp(-i D / g), i = 1 ... g, or of exp(-i x / PARTS): at least
    g exp(-z) (1 - exp(-D)) / D >= g exp(-z) / (1 + D).

    Weight further off than t. (1) Places of other values lie d away or more: they weigh at most (values - 1) P exp(-max(u, D)),
    and by M that is at most (values - 1) G e^z (1 + u) e^-u, as (1 + D) e^-D falls. (2) Places of V that are d / 2 away or
    more: P exp(-max(u, D / 2)), by M at most G e^z (1 + 2u) e^-u, as (1 + D) e^(-D/2) falls from D = 1. (3) Nearer ones lie
    between d / 2 and 3 d / 2 from the nearer end, at least d / (4 g) apart; there are some if D > 2u only. On each side they
    weigh at most e^-u (1 + 4 g / D), by M together at most 2 e^z e^-u (1 + 4 g / D) (1 + D) / g <= e^z e^-u (16 + 2z + 1)
    for u >= 1/2. For u < 1/2 the bound exceeds 1. In all P(error >= t) <= e^(z - u) (G (values + 1) (1 + u) + 17 + 2z).

    Later selections may hold only some of the ties of the lowest and highest value. No value lies beyond those, so (1) stands:
    at a side where V's ties were cut there are no others, and moving ranks into what is left moves them nearer to the
    target, so M stands too, with D the distance from the nearer end of all ties. In place of (2) and (3) all places of V
    weigh P e^-u at most, by M G e^z (1 + x / 2) e^-u.

    Lastly (1 + u) exp(-s u) <= exp(s - 1) / s for each s > 0, so r' = (1 - s) rate, with the s of the least bound at 95%.
    """
    grid = 2.0**_BITS
    x = float(rate) * rows
    z = x * max(1 / (2 * grid), grid / PARTS)
    density = place_count() / grid
    growing = math.log(density) + math.log(values + 1 if first else values)
    constant = math.log(17 + 2 * z) if first else math.log(density) + math.log1p(x / 2)

    def choices(slack: Fraction) -> float:
        steep = growing + float(slack) - 1 - math.log(slack)
        most = max(steep, constant)
        return (z + most + math.log(math.exp(steep - most) + math.exp(constant - most))) * (1 + 1e-12) + 1e-12

    best = min(_SLACKS, key=lambda s: (choices(s) + 3) / (1 - s))
    return rate * (1 - best), choices(best)


def _half() -> int:
    """Return the place in the middle."""
    return (PARTS.bit_length() - 1 - _BITS) << _BITS
