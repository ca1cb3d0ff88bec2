"""Weighted sums of independent noises: tails and errors of what is computed from several noisy numbers.

It may not know any drawn value: everything here is computed from public parameters.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from sordino.core.noise.laws import NoiseLaw

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
