"""Intervals of ratios whose noisy count may be below 1: they cover, and still tell something."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.estimates.noisy import Noisy
from sordino.estimates.ratio import Ratio
from sordino.noise.laws import DiscreteLaplace
from sordino.noise.rng import Rng

RUNS = 4000


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
@pytest.mark.parametrize(("rows", "mean"), [(1, 11), (1, 50), (2, 100), (5, 3)])
def test_means_of_few_rows_are_covered_as_often_as_stated(rows: int, mean: int, confidence: float) -> None:
    """From sums of distances to both bounds, 0 and 100, in steps of which a row moves them by 100; 5 deviations of the count."""
    rng, law = Rng.seeded(8), DiscreteLaplace(Fraction(60))
    below = Noisy(tuple(rows * mean + int(z) for z in law.sample(rng, RUNS)), Fraction(1), law)
    above = Noisy(tuple(rows * (100 - mean) + int(z) for z in law.sample(rng, RUNS)), Fraction(1), law)
    mix = ((Fraction(1, 2), Fraction(-1, 2)), (Fraction(1, 100), Fraction(1, 100)))  # around 50
    ratio = Ratio(below, above, 50, 0, 100, mix=mix)
    ends = np.array(ratio.intervals(confidence), dtype=float)
    held = float(((ends[:, 0] - 1e-9 <= mean) & (mean <= ends[:, 1] + 1e-9)).mean())
    assert held >= confidence - 5 * math.sqrt(confidence * (1 - confidence) / RUNS)
    values = np.array(ratio.values(), dtype=float)
    assert ((ends[:, 0] <= values) & (values <= ends[:, 1])).all()
    few = np.array(below.steps) + np.array(above.steps) < 100
    assert few.any()
    if confidence == 0.5:  # by itself a count below 1 does not make the whole range possible
        assert float((ends[few, 1] - ends[few, 0]).mean()) < 95
