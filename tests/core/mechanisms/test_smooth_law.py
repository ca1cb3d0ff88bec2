"""Smooth Laplace noise by its exact law: delta(epsilon) of neighbors at the worst of scale and shift stays below delta."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.lab.smooth_noise import SmoothLaplace

EPSILONS = [Fraction(1, 10), Fraction(1), Fraction(3), Fraction(10)]
DELTAS = [Fraction(7, 10), Fraction(1, 4), Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 10**12)]


def log_law(scale: float, reach: int, shift: int) -> np.ndarray[Any, Any]:
    """Return ln P(z) for z from -reach to reach, of discrete Laplace noise around `shift`."""
    z = np.abs(np.arange(-reach, reach + 1) - shift)
    return np.asarray(np.log(np.tanh(0.5 / scale)) - z / scale)


def divergence(epsilon: float, beta: float, width: float) -> float:
    """Return the largest delta(epsilon) over neighbors: scales e^beta apart, either way, and the shifts that S allows."""
    worst = 0.0
    for grown in (math.exp(beta), math.exp(-beta), math.exp(beta / 2), 1.0):
        here, there = 2 * width / epsilon, 2 * width * grown / epsilon
        reach = int(45 * max(here, there)) + 10
        for shift in {0, math.floor(min(width, width * grown))}:
            p, r = log_law(here, reach, 0), log_law(there, reach, shift)
            worst = max(worst, float(np.maximum(0.0, np.exp(p) - np.exp(epsilon + r)).sum()))
    return worst


@pytest.mark.each(5)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("delta", DELTAS, ids=str)
def test_no_neighbors_pass_delta(epsilon: Fraction, delta: Fraction) -> None:
    made = SmoothLaplace(epsilon, delta)
    for width in (1.0, 1.5, 7.25, 40.0, 300.0):
        assert divergence(float(epsilon), made.beta, width) <= float(delta) * (1 + 1e-9)


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 100)], ids=str)
def test_what_is_released_has_the_scale_of_that_law(delta: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the width over epsilon: half of epsilon is for the value, half for the change of the scale."""
    scales: list[Fraction] = []

    def draw(scale: Fraction, rng: Rng) -> int:
        del rng
        scales.append(scale)
        return 3

    for name in ("discrete_laplace", "draw_rounded_cauchy"):
        monkeypatch.setattr(f"sordino.lab.smooth_noise.{name}", draw)
    assert SmoothLaplace(Fraction(1, 2), delta).release(10, Fraction(7), Rng.seeded(1)) == 13
    assert scales == [28]


def test_a_beta_three_times_as_large_would_be_caught() -> None:
    made = SmoothLaplace(Fraction(1), Fraction(1, 10**6))
    assert divergence(1.0, 3 * made.beta, 40.0) > 1e-6


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("delta", DELTAS, ids=str)
def test_beta_is_what_the_proof_needs(epsilon: Fraction, delta: Fraction) -> None:
    beta, half = SmoothLaplace(epsilon, delta).beta, float(epsilon) / 2
    assert beta <= half
    assert 0.999 * half < math.log(2 / delta) * math.expm1(beta) <= half


def test_a_delta_beyond_the_proof_is_refused() -> None:
    for delta in (Fraction(74, 100), Fraction(99, 100), Fraction(1), Fraction(-1)):
        with pytest.raises(DeclarationError, match=r"between 0 and 0\.7357"):
            SmoothLaplace(Fraction(1), delta)
    assert SmoothLaplace(Fraction(1), Fraction(1, 10**400)).beta > 0
