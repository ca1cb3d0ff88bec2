"""The geometric law: drawn as it is stated, with certified quantiles and half of the variance of discrete Laplace noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from battery import chi_square_tail
from mistyping import mistype
from sordino.core.noise.geometric import Geometric
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError

SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)]


@pytest.mark.each(3)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_draws_have_the_law_by_chi_square(scale: Fraction) -> None:
    """Seeded; it would alarm falsely for one seed in 100,000."""
    rng, count = Rng.seeded(41), 4000
    law = Geometric(scale)
    draws = np.array([law.sample(rng) for _ in range(count)])
    assert draws.min() >= 0
    q = math.exp(-1 / scale)
    width = max(1, math.ceil(scale / 2))
    cells = max(2, int(scale * math.log(count / 10)) // width)
    edges = np.arange(cells) * width
    wanted = count * (q**edges - np.append(q ** edges[1:], 0.0))
    found = np.bincount(np.minimum(draws // width, cells - 1), minlength=cells)
    statistic = float(np.sum((found - wanted) ** 2 / wanted))
    assert chi_square_tail(statistic, cells - 1) > 1e-5


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.95, 0.999, Fraction(10**12 - 1, 10**12)])
def test_the_error_is_the_least_whose_tail_is_small_enough(scale: Fraction, confidence: float | Fraction) -> None:
    law = Geometric(scale)
    error = law.error(confidence)
    miss = 1 - Fraction(repr(confidence) if isinstance(confidence, float) else confidence)
    assert law.upper_tail(error) <= float(miss) * (1 + 1e-12)
    assert error == 0 or law.upper_tail(error - 1) > float(miss) * (1 - 1e-12)


def test_mean_and_variance_are_those_of_the_sums() -> None:
    for scale in SCALES:
        law = Geometric(scale)
        values = np.arange(3000)
        mass = (1 - math.exp(-1 / scale)) * np.exp(-values / float(scale))
        assert law.mean() == pytest.approx(float(mass @ values), rel=1e-9)
        assert law.variance() == pytest.approx(float(mass @ np.square(values - law.mean())), rel=1e-9)


def test_scale_0_is_no_noise_and_a_bad_scale_is_refused() -> None:
    nothing = Geometric(Fraction(0))
    assert (nothing.sample(Rng.seeded(1)), nothing.error(0.99), nothing.mean(), nothing.upper_tail(0)) == (
        0,
        0,
        0.0,
        0.0,
    )
    for scale in (-1, 0.5):
        with pytest.raises(DeclarationError, match="scale"):
            Geometric(mistype(scale))
