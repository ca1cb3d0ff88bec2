"""Intervals of a distribution: the sums are unbiased for every distribution, and the intervals cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sordino.errors import DeclarationError
from sordino.local import Distribution
from sordino.local.estimates.cumulative import _average, _sums
from sordino.local.protocols.distribution import DistributionEstimate
from sordino.local.thresholds import FULL
from sordino.noise.rng import Rng

Draw = Callable[[Any, int], Any]
SHAPES: dict[str, Draw] = {
    "level": lambda u, n: u.random(n),
    "one value": lambda _, n: np.full(n, 0.4321),
    "two values": lambda u, n: np.where(u.random(n) < 0.7, 0.1, 0.9),
    "skewed": lambda u, n: u.beta(2, 8, n),
    "at the edge": lambda u, n: u.random(n) * 0.02,
}


@pytest.mark.parametrize("epsilon", [0.2, 1, 4])
@pytest.mark.parametrize("bins", [2, 7, 64])
def test_sums_of_cells_are_the_shares_below(epsilon: float, bins: int) -> None:
    """For every bin and edge: weights times the law of the bin's report is 0 or 1, so any mixture's share is right."""
    wave = Distribution(0, 1, epsilon, bins=bins)
    window = 2 * wave.reach + 1
    inner, outer = wave.inside / FULL / window, (FULL - wave.inside) / FULL / (bins - 1)
    rows, constants = _sums(bins, window, inner, outer)
    found = rows @ wave.matrix() + constants[:, None]
    truth = np.arange(bins - 1)[:, None] >= np.arange(bins)[None, :]
    assert found == pytest.approx(truth.astype(float), abs=1e-6)
    for first, h in ((-1, 1), (-3, 3), (-1, 3)):
        weights, added = _average(rows, constants, first, h)
        below = (np.arange(bins + 1)[:, None] > np.arange(bins)[None, :]).astype(float)  # F(edge - 1) of each bin
        places = np.clip(np.arange(bins + 1)[:, None] + first + 1 + np.arange(h)[None, :], 0, bins)
        assert weights @ wave.matrix() + added[:, None] == pytest.approx(below[places].mean(axis=1), abs=1e-6)


def _estimates(shape: str, epsilon: float, n: int, runs: int) -> list[tuple[Any, DistributionEstimate]]:
    wave, drawn = Distribution(0, 1, epsilon, bins=64), np.random.default_rng(5)
    rng, out = Rng.seeded(6), []
    for _ in range(runs):
        answers = SHAPES[shape](drawn, n)
        counts = wave.count(wave.perturb(answers, rng))
        out.append((answers, DistributionEstimate(0.0, 1.0, (1 / 64,) * 64, 0, wave.cells_of(counts))))
    return out


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_cover_whatever_the_distribution(shape: str) -> None:
    """94% or more at nominal 95: 9 groups of 40 runs, each group above .8, all together at least .94.

    At .95 a group falls so low once in 2,000; seeds are fixed; quantiles and shares below are wider than need be, so .95 each.
    """
    means: list[float] = []
    quantiles: list[float] = []
    belows: list[float] = []
    for epsilon in (0.5, 1, 4):
        for n in (5, 60, 3000):
            hits = np.zeros(3)
            for answers, found in _estimates(shape, epsilon, n, 40):
                low, high = found.mean_interval(0.95)
                hits[0] += low <= answers.mean() <= high
                low, high = found.quantile_interval(0.8, 0.95)
                hits[1] += low <= np.quantile(answers, 0.8, method="inverted_cdf") <= high
                low, high = found.below_interval(0.25, 0.95)
                hits[2] += low <= (answers < 0.25).mean() <= high
            assert hits.min() / 40 > 0.8
            for name, hit in zip((means, quantiles, belows), hits / 40, strict=True):
                name.append(hit)
    assert np.mean(means) >= 0.94
    assert np.mean(quantiles) >= 0.95
    assert np.mean(belows) >= 0.95


def test_many_reports_narrow_the_intervals_and_malicious_widen_them() -> None:
    wave = Distribution(0, 100, 2)
    answers = 40 + 10 * Rng.seeded(1).uniform_doubles(200_000)
    found = wave.estimate(wave.count(wave.perturb(answers, Rng.seeded(2))))
    low, high = found.mean_interval(0.95)
    assert low < 45 < high < low + 1
    low, high = found.quantile_interval(0.5, 0.95)
    assert low < 45 < high < low + 8
    low, high = found.below_interval(30, 0.95)
    assert low == 0.0
    assert high < 0.1
    assert "45" in repr(found)
    lied = found.quantile_interval(0.5, 0.95, malicious=0.05)
    assert lied[0] <= found.quantile_interval(0.5, 0.95)[0]
    assert lied[1] >= found.quantile_interval(0.5, 0.95)[1]
    wide, plain = found.mean_interval(0.95, malicious=0.05), found.mean_interval(0.95)
    assert wide[1] - wide[0] > 0.05 * 100 + plain[1] - plain[0]
    with pytest.raises(DeclarationError, match="rank"):
        found.quantile_interval(1.5, 0.95)
    with pytest.raises(DeclarationError, match="between the bounds"):
        found.below_interval(101, 0.95)
    with pytest.raises(DeclarationError, match="confidence"):
        found.mean_interval(1.0)
