"""Pivots: the errors that they are chosen by are those that dense values have, and they never make them larger."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sordino.core.mechanisms.partition import Partition
from sordino.core.mechanisms.pivots import dense_errors, with_pivots
from sordino.core.mechanisms.quantile_selection import QuantileSelection, halving_stages
from sordino.core.neighbors import Neighbors
from sordino.core.noise.rng import Rng

F = Fraction
ROWS = 2_000


class Known:
    """Every value below 2,000 once."""

    def __init__(self) -> None:
        steps = np.arange(ROWS, dtype=np.int64)
        self.held = Partition.of(steps, steps, np.ones(ROWS, dtype=np.int64))

    def known(self, group: int) -> Partition:
        del group
        return self.held

    def refine(self, wanted: Any) -> None:
        raise AssertionError(wanted)


@pytest.mark.parametrize(
    ("levels", "runs", "within"),
    [
        pytest.param((F(1, 4), F(3, 4)), 50, 0.7, marks=pytest.mark.deep),
        pytest.param((F(1, 4), F(3, 4)), 300, 0.3, marks=pytest.mark.deep),
        pytest.param((F(1, 2), F(9, 10)), 300, 0.3, marks=pytest.mark.deep),
        pytest.param((F(1, 10), F(1, 4), F(1, 2), F(3, 4), F(9, 10)), 300, 0.3, marks=pytest.mark.deep),
    ],
)
def test_errors_of_dense_values_are_those_expected(levels: tuple[Fraction, ...], runs: int, within: float) -> None:
    # The deviation of 300 Laplace errors is within 30% of the law's, of 50 within 70%, but for a chance of 1 in 100,000.
    known, rng, epsilon = Known(), Rng.seeded(11), F(1, 2)
    both = with_pivots(levels)
    made = QuantileSelection(both, epsilon / len(halving_stages(len(both))), Neighbors("add_remove", None), 1)
    drawn = [made.release(known, low=0, high=ROWS - 1, rng=rng)[0] for _ in range(runs)]
    for level, expected in zip(levels, dense_errors(both, levels), strict=True):
        off = [row[both.index(level)] - level * ROWS for row in drawn]
        found = math.sqrt(sum(float(o) ** 2 for o in off) / len(off)) * float(epsilon)
        assert (1 - within) * expected < found < (1 + within) * expected


@pytest.mark.deep
def test_pivots_never_make_errors_larger_and_quartiles_smaller() -> None:
    for count in range(1, 25):
        levels = tuple(F(i + 1, count + 1) for i in range(count))
        both = with_pivots(levels)
        assert set(levels) <= set(both)
        assert sum(dense_errors(both, levels)) <= sum(dense_errors(levels, levels)) + 1e-9
    quartiles = (F(1, 4), F(3, 4))
    assert with_pivots(quartiles) == (F(1, 4), F(1, 2), F(3, 4))
    assert sum(dense_errors(with_pivots(quartiles), quartiles)) < 0.77 * sum(dense_errors(quartiles, quartiles))


def test_one_level_has_no_pivot() -> None:
    assert with_pivots((F(9, 10),)) == (F(9, 10),)
    assert dense_errors((F(1, 2),), (F(1, 2),)) == [math.sqrt(2)]
    assert dense_errors((F(1),), (F(1),)) == [math.sqrt(2)]
