"""The law of a weighted sum of noises: against enumeration, and never too small an error where it is rounded."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace, sum_error

ONE, TWO, WIDE = DiscreteLaplace(Fraction(1)), DiscreteLaplace(Fraction(3, 2)), DiscreteLaplace(Fraction(10**6))
BELL, BROAD = DiscreteGaussian(Fraction(2)), DiscreteGaussian(Fraction(40_000))


def enumerate_error(laws: Any, weights: Any, confidence: float) -> Fraction:
    """Return the smallest t with P(|sum| > t) <= 1 - confidence, from every combination of values."""
    mass: dict[Fraction, float] = defaultdict(float)
    values = [[(z, law.tail(abs(z) - 1) - law.tail(abs(z))) for z in range(-45, 46)] for law in laws]
    for combination in itertools.product(*values):
        chance = math.prod(m / 2 if z else m for z, m in combination)
        mass[abs(sum((w * z for w, (z, _) in zip(weights, combination, strict=True)), Fraction(0)))] += chance
    beyond, found = 0.0, max(mass)
    for size in sorted(mass, reverse=True):
        beyond += mass[size]
        if beyond > 1 - confidence:
            return size
        found = size
    return found


@pytest.mark.each(11)
@pytest.mark.parametrize(
    ("laws", "weights"),
    [
        ((ONE, ONE), (Fraction(1), Fraction(1))),
        ((ONE, TWO), (Fraction(1, 3), Fraction(-5, 7))),
        ((ONE, BELL), (Fraction(2), Fraction(1))),
        ((TWO,), (Fraction(1, 3),)),
        ((ONE, TWO, BELL), (Fraction(1), Fraction(0), Fraction(3, 2))),
    ],
)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_few_points_are_exact(laws: Any, weights: Any, confidence: float) -> None:
    used = [(law, w) for law, w in zip(laws, weights, strict=True) if w]
    kept: Any = [law for law, _ in used]
    assert sum_error(laws, weights, confidence) == enumerate_error(kept, [w for _, w in used], confidence)


@pytest.mark.each(8)
@pytest.mark.parametrize(
    ("laws", "weights"),
    [
        ((WIDE, WIDE), (Fraction(1, 999), Fraction(1, 1001))),
        ((WIDE, ONE, BROAD), (Fraction(1), Fraction(10**6), Fraction(7001, 3))),
        ((BROAD, BROAD), (Fraction(1, 997), Fraction(1, 1009))),
    ],
)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_many_points_are_rounded_outward(laws: Any, weights: Any, confidence: float) -> None:
    """Beside 100,000 draws; their quantile strays by 4.5 standard deviations with a chance of 7e-6."""
    drawn = sum(
        float(w) * law.sample(sd.Rng.seeded(i), size=100_000).astype(float)
        for i, (law, w) in enumerate(zip(laws, weights, strict=True))
    )
    error, miss = float(sum_error(laws, weights, confidence)), 1 - confidence
    stray = 4.5 * math.sqrt(miss * confidence / 100_000)
    assert (np.abs(drawn) > error).mean() <= miss + stray
    assert (np.abs(drawn) >= error * 0.999).mean() >= miss - stray


def test_no_noise_has_no_error_and_small_misses_add_up() -> None:
    assert sum_error((DiscreteLaplace(Fraction(0)),), (Fraction(3),), 0.95) == 0
    assert sum_error((ONE, ONE), (Fraction(1), Fraction(1)), 1 - 1e-12) >= 2 * ONE.error(1 - 1e-11)
