"""Intervals of cells over 1,000 runs with exact discrete noise, of linear and of whole tables; what being not negative adds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from sordino.core.noise.laws import DiscreteGaussian
from sordino.core.noise.rng import Rng
from sordino.tables.least_squares import Estimate, estimate_tables
from sordino.tables.residuals import residual_counts, residual_sensitivity
from sordino.tables.strategy import Axes, choose_residuals
from sordino.tables.whole_tables import make_whole

Array = np.ndarray[Any, np.dtype[Any]]

RUNS = 1000
QUANTILE = NormalDist().inv_cdf(0.975)

SHAPES: dict[str, tuple[tuple[int, ...], list[Axes], Fraction]] = {
    "one table": ((3, 4), [(0, 1)], Fraction(1, 100)),
    "a long column and the total": ((20,), [(), (0,)], Fraction(1, 10)),
    "all two-way": ((5, 4, 3), list(itertools.combinations(range(3), 2)), Fraction(1, 100)),
    "all two-way, much noise": ((5, 4, 3), list(itertools.combinations(range(3), 2)), Fraction(1, 2000)),
    "up to three-way": ((2, 3, 4), [(0,), (1, 2), (0, 1, 2)], Fraction(1, 50)),
}


def count(cells: Array, axes: Sequence[int]) -> Array:
    return np.asarray(cells.sum(axis=tuple(a for a in range(cells.ndim) if a not in axes)))


def draw_runs(sizes: tuple[int, ...], tables: list[Axes], rho: Fraction, cells: Array) -> list[dict[Axes, Estimate]]:
    """Return the estimates of each run: exact discrete Gaussian noise on the residuals, at the strategy's shares."""
    rng = Rng.seeded(7)
    draws: dict[Axes, Array] = {}
    variances: dict[Axes, float] = {}
    for measured in choose_residuals(sizes, tables):
        shape = [sizes[axis] for axis in measured.axes]
        _, l2_squared = residual_sensitivity(shape, relation="add_remove", rows=1)
        law = DiscreteGaussian(l2_squared / (2 * rho * measured.share))
        noise = np.array(law.sample(rng, size=RUNS * math.prod(shape))).reshape([RUNS, *shape])
        draws[measured.axes] = residual_counts(count(cells, measured.axes)) + noise
        variances[measured.axes] = law.variance()
    return [
        estimate_tables(sizes, {axes: noisy[run] for axes, noisy in draws.items()}, variances, tables, form="residuals")
        for run in range(RUNS)
    ]


@pytest.mark.deep
@pytest.mark.parametrize("name", SHAPES)
def test_intervals_cover_and_the_bias_of_cells_that_are_not_negative_is_small(name: str) -> None:
    """Linear intervals at 95% cover in [.94, .97]; those of whole tables, cut at 0 and to whole numbers, at least as often.

    A whole cell whose count is 0 is too large by at most .4 deviations in the mean, the mean of a normal cut at 0. The total
    stays, so cells of more than 3 deviations are too small in the mean, the more so the more cells are empty: by 1.2
    deviations at most here. The sum of all cells has no bias, and squared errors are less than those of linear estimates.
    """
    sizes, tables, rho = SHAPES[name]
    rng = np.random.default_rng(1)
    cells = rng.poisson(rng.gamma(0.3, 40.0, sizes))
    runs = draw_runs(sizes, tables, rho, cells)
    whole = [make_whole({table: estimate.cells for table, estimate in run.items()}) for run in runs]
    for table in tables:
        exact = count(cells, table)
        deviation = math.sqrt(runs[0][table].variance)
        half = QUANTILE * deviation
        linear = np.array([run[table].cells for run in runs])
        covered = np.abs(linear - exact) <= half
        assert 0.94 <= covered.mean() <= 0.97, (table, covered.mean())
        shown = np.array([run[table] for run in whole])
        low = np.minimum(np.maximum(np.ceil(linear - half), 0), shown)
        high = np.maximum(np.maximum(np.floor(linear + half), 0), shown)
        wide = (low <= exact) & (exact <= high)
        assert wide.mean() >= covered.mean(), table
        bias = (shown - exact).mean(axis=0) / deviation
        slack = 4 / math.sqrt(RUNS)
        assert np.all(bias[exact == 0] <= 0.4 + slack)
        assert np.all(bias[exact > 3 * deviation] <= slack)
        assert np.all(bias[exact > 3 * deviation] >= -1.2 - slack)
        assert np.square(shown - exact).mean() <= np.square(linear - exact).mean() * 1.02
        gaps = (shown - exact).reshape(RUNS, -1).sum(axis=1)
        assert abs(gaps.mean()) <= 4 * gaps.std() / math.sqrt(RUNS) + 0.05
