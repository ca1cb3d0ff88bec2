"""Residuals: their whole numbers, and what a unit moves, over every pair of cells of small tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.core.errors import DeclarationError
from sordino.tables.residuals import residual_counts, residual_sensitivity

SHAPES = [(), (1,), (2,), (3,), (5,), (2, 2), (2, 3), (1, 4), (4, 3), (2, 2, 2), (2, 3, 2), (2, 2, 2, 2)]


def column(shape: tuple[int, ...], cell: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    counts = np.zeros(shape, dtype=np.int64)
    counts[cell] = 1
    return residual_counts(counts)


@pytest.mark.deep
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_sensitivity_is_that_of_the_worst_change(shape: tuple[int, ...], rows: int, relation: str) -> None:
    """Every way to put, or to move, the rows of one unit: all multisets of cells, not only those of one cell."""
    cells = list(itertools.product(*map(range, shape)))
    columns = [column(shape, cell) for cell in cells]
    sums = [
        sum((columns[i] for i in bag), np.zeros(shape, dtype=np.int64))
        for size in range(rows + 1)
        for bag in itertools.combinations_with_replacement(range(len(cells)), size)
    ]
    zero = np.zeros(shape, dtype=np.int64)
    changes = [one - two for one in sums for two in (sums if relation == "replace" else [zero])]
    l1, l2_squared = residual_sensitivity(
        shape, relation="replace" if relation == "replace" else "add_remove", rows=rows
    )
    assert l1 == max(int(np.abs(change).sum()) for change in changes)
    assert l2_squared == max(int((change**2).sum()) for change in changes)


def test_a_total_moves_by_all_rows_of_a_unit_under_replace() -> None:
    assert residual_sensitivity((), relation="replace", rows=2) == (Fraction(2), Fraction(4))


def test_l1_of_many_axes_is_bounded_by_two_cells() -> None:
    l1, _ = residual_sensitivity((2,) * 7, relation="replace", rows=1)
    assert l1 == Fraction(2 * 2**7)


@pytest.mark.parametrize("shape", SHAPES)
def test_residuals_sum_to_zero_and_are_the_part_beyond_the_margins(shape: tuple[int, ...]) -> None:
    marginal = np.random.default_rng(1).integers(-50, 50, shape)
    residual = residual_counts(marginal)
    assert residual.dtype == np.int64
    part = marginal.astype(float)
    for axis in range(len(shape)):
        assert not residual.sum(axis=axis).any()
        part = part - part.mean(axis=axis, keepdims=True)
    assert np.allclose(residual / math.prod(shape), part)


def test_large_numbers_do_not_overflow() -> None:
    marginal = np.array([[2**60, -(2**60)], [2**60, 5]])
    residual = residual_counts(marginal)
    big = 2**60
    assert residual.dtype == object
    # One of two rows, and one of two columns: the cell and the opposite one, less the other two.
    assert residual.tolist() == [[big + big - big + 5, -(big + 5)], [-(big + 5), big + 5]]
    assert residual_counts(marginal.astype(object)).tolist() == residual.tolist()


def test_a_unit_has_rows() -> None:
    with pytest.raises(DeclarationError, match="at least 1"):
        residual_sensitivity((2,), relation="replace", rows=0)
