"""One-sided noise: the geometric law, by its closed form."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from noise.support import FALSE_ALARM, chi_square
from sordino.errors import DeclarationError
from sordino.noise.gumbel import geometric
from sordino.noise.rng import Rng


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(7, 3), Fraction(20)])
def test_law_is_geometric(scale: Fraction) -> None:
    count = 100_000
    drawn = geometric(scale, Rng.seeded(1), count)
    assert drawn.min() >= 0
    reach = math.ceil(6 * scale) + 2
    q = math.exp(-float(1 / scale))
    expected = [count * (1 - q) * q**g for g in range(reach)] + [count * q**reach]
    found = np.bincount(np.minimum(drawn, reach), minlength=reach + 1)
    assert chi_square(found.tolist(), expected) > FALSE_ALARM


def test_wide_scales_and_few_draws() -> None:
    assert geometric(Fraction(2**60), Rng.seeded(2), 3).dtype == object
    assert all(x >= 0 for x in geometric(Fraction(2**60), Rng.seeded(3), 20))
    assert len(geometric(Fraction(1), Rng.seeded(4), 0)) == 0
    assert geometric(Fraction(1, 10**6), Rng.seeded(5), 100).tolist() == [0] * 100


@pytest.mark.parametrize("bad", [0, -1, 0.5])
def test_bad_scales_are_refused(bad: float) -> None:
    with pytest.raises(DeclarationError, match="scale"):
        geometric(bad, Rng.seeded(1), 3)  # type: ignore[arg-type]
