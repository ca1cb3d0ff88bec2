"""The rounded Cauchy law against its distribution function; each test alarms falsely for one seed in 100,000."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.core.noise.cauchy import draw_rounded_cauchy
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError


@pytest.mark.each(3)
@pytest.mark.parametrize("scale", [Fraction(1, 7), Fraction(1), Fraction(250, 3)])
@pytest.mark.parametrize("count", [7_000, pytest.param(60_000, marks=pytest.mark.deep)])
def test_law_by_chi_square(scale: Fraction, count: int) -> None:
    from scipy.special import chdtrc

    rng = Rng.seeded(5)
    found = np.array([draw_rounded_cauchy(scale, rng) for _ in range(count)], dtype=float)
    edges = np.unique(np.floor(float(scale) * np.tan(np.pi * (np.linspace(0.02, 0.98, 25) - 0.5)))) + 0.5
    below = np.array([0.5 + math.atan(e / float(scale)) / math.pi for e in edges])
    expected = np.diff(np.concatenate([[0.0], below, [1.0]])) * count
    seen = np.histogram(found, bins=np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    statistic = float(((seen - expected) ** 2 / expected).sum())
    assert chdtrc(len(expected) - 1, statistic) > 1e-5


class Script(Rng):
    """An Rng whose bits are written down beforehand."""

    script: list[int]

    def bits(self, count: int) -> int:
        assert count in (1, 64)
        return self.script.pop(0)


@pytest.mark.parametrize(("over", "under", "rounded"), [(0, 2**64 - 1, 0), (2**64 - 1, 0, 1)])
def test_a_number_is_rounded_when_all_bits_that_decide_are_drawn(over: int, under: int, rounded: int) -> None:
    """After 64 bits of each, x / y lies on both sides of a half: the next ones tell which."""
    rng = Script(key=bytes(32))
    rng.script = [0, 2**61, 2**62, over, under]
    assert draw_rounded_cauchy(Fraction(1), rng) == rounded
    assert not rng.script


def test_huge_scales_stay_exact_integers() -> None:
    rng = Rng.seeded(6)
    assert any(abs(draw_rounded_cauchy(Fraction(10**40), rng)) > 10**38 for _ in range(20))


def test_negative_scale_is_refused() -> None:
    with pytest.raises(DeclarationError):
        draw_rounded_cauchy(Fraction(-1), Rng.seeded(1))
