"""Intervals of ratios whose noisy count may be below 1: they cover, and still tell something."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.integrate import quad

from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.ratio import Ratio, two_laplace_tail
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.core.noise.rng import Rng
from trying import examples

RUNS = 2_000


@pytest.mark.each(5)
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


@pytest.mark.each(11)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("mean", [0, 97, 100])
@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(60)), DiscreteGaussian(Fraction(7200))])
def test_means_beside_a_bound_are_not_covered_more_often(law: Any, mean: int, confidence: float) -> None:
    """Of 60 rows: two-sided tests alone would cover the mean 100 with .75 at .5. 5 deviations and .01 either way."""
    rng, rows = Rng.seeded(9), 60
    below = Noisy(tuple(rows * mean + int(z) for z in law.sample(rng, RUNS)), Fraction(1), law)
    above = Noisy(tuple(rows * (100 - mean) + int(z) for z in law.sample(rng, RUNS)), Fraction(1), law)
    mix = ((Fraction(1, 2), Fraction(-1, 2)), (Fraction(1, 100), Fraction(1, 100)))
    ends = np.array(Ratio(below, above, 50, 0, 100, mix=mix).intervals(confidence), dtype=float)
    held = float(((ends[:, 0] - 1e-9 <= mean) & (mean <= ends[:, 1] + 1e-9)).mean())
    assert abs(held - confidence) <= 0.01 + 5 * math.sqrt(confidence * (1 - confidence) / RUNS)
    assert ((ends >= 0) & (ends <= 100)).all()


def brute_two(a: float, b: float, t: float) -> float:
    """Return P(|a L1 + b L2| > t) by integrating over L2, for a > 0."""

    def beyond(x: float) -> float:
        upper = 0.5 * math.exp(-(t - b * x) / a) if b * x < t else 1 - 0.5 * math.exp((t - b * x) / a)
        lower = 0.5 * math.exp((-t - b * x) / a) if -t - b * x < 0 else 1 - 0.5 * math.exp(-(-t - b * x) / a)
        return (upper + lower) * 0.5 * math.exp(-abs(x))

    kinks = sorted({0.0, t / b, -t / b}) if b else [0.0]
    ends = [-60.0, *(k for k in kinks if abs(k) < 60), 60.0]
    return float(sum(quad(beyond, low, high, epsabs=1e-13)[0] for low, high in pairwise(ends)))


@pytest.mark.parametrize(("a", "b"), [(1, 0), (1, 1), (2, 1), (1, 3), (1, 1 + 1e-9), (5, 0.01), (1, 1e-300)])
@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 7.0])
def test_two_laplace_tail_is_the_integral(a: float, b: float, t: float) -> None:
    brute = brute_two(a, b if b > 1e-100 else 0.0, t)
    assert two_laplace_tail(a, b, t) == pytest.approx(brute, rel=1e-8)
    assert two_laplace_tail(b, a, t) == two_laplace_tail(a, b, t)


@examples(20, 100, a=st.floats(0, 1e6), b=st.floats(0, 1e6), t=st.floats(-1, 1e7))
def test_two_laplace_tail_is_a_probability_above_each_part(a: float, b: float, t: float) -> None:
    tail = float(two_laplace_tail(a, b, t))
    assert 0 <= tail <= 1
    assert tail >= float(two_laplace_tail(max(a, b), 0.0, t)) * (1 - 1e-12)
    assert tail >= float(two_laplace_tail(a, b, t + 1)) * (1 - 1e-12)


def test_two_laplace_tail_broadcasts() -> None:
    assert two_laplace_tail(np.array([1.0, 2.0]), 1.0, np.array([[0.0], [1.0], [2.0]])).shape == (3, 2)
    assert two_laplace_tail(0.0, 0.0, np.array([-1.0, 0.0, 1.0])).tolist() == [1.0, 0.0, 0.0]
