"""Bases of ordered axes: near the least error over all ranges, whole numbers, and sensitivities by brute force."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from sordino.core.errors import DeclarationError
from sordino.core.neighbors import Relation
from sordino.tables.least_squares import combination_variance, estimate_parts, estimate_tables
from sordino.tables.range_basis import RangeBasis, basis_counts, basis_factors, basis_sensitivity, find_range_basis
from sordino.tables.residuals import residual_sensitivity
from sordino.tables.strategy import Axes, choose_residuals

Array = np.ndarray[Any, np.dtype[Any]]


def all_ranges(keys: int) -> Array:
    """Return one row of ones for each range of keys, without its mean."""
    rows = np.array(
        [[float(low <= k < high) for k in range(keys)] for high in range(1, keys + 1) for low in range(high)]
    )
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


@pytest.mark.parametrize("keys", [2, 3, *(pytest.param(keys, marks=pytest.mark.deep) for keys in (4, 5))])
def test_a_basis_has_nearly_the_least_mean_variance_over_all_ranges(keys: int) -> None:
    """Against a search over all matrices of as many rows as keys, with columns of length at most 1."""
    ranges = all_ranges(keys)
    onto = np.eye(keys) - 1 / keys

    def error(entries: Array) -> float:
        matrix = entries.reshape(keys, keys) @ onto
        gram = matrix.T @ matrix
        covariance = np.linalg.pinv(gram, rcond=1e-10, hermitian=True)
        return math.log(float(np.einsum("ij,jk,ik->", ranges, covariance, ranges)) * float(np.diag(gram).max()))

    rng = np.random.default_rng(1)
    starts = [np.eye(keys) + 0.1 * rng.normal(size=(keys, keys)) for _ in range(1)]
    best = min(minimize(error, start.ravel(), method="BFGS", options={"maxiter": 80}).fun for start in starts)
    assert error(find_range_basis(keys).coefficients.astype(float).ravel()) <= best + 0.01


@pytest.mark.parametrize("keys", [16, pytest.param(140, marks=pytest.mark.deep)])
def test_wide_bases_are_near_the_singular_value_bound(keys: int) -> None:
    """No strategy has less than the bound, (sum of singular values)^2 over keys; the best itself may lie above it."""
    basis = find_range_basis(keys)
    ranges = all_ranges(keys)
    bound = float(np.linalg.svd(ranges, compute_uv=False).sum()) ** 2 / keys / len(ranges)
    inside, outside = basis_factors(basis)
    assert inside == pytest.approx(
        float((ranges @ basis.covariance * ranges).sum()) / len(ranges) * basis.length_squared
    )
    assert bound <= inside <= bound * 1.08
    assert outside == pytest.approx(np.mean([(n / keys) ** 2 for n in range(1, keys + 1) for _ in range(keys + 1 - n)]))


@pytest.mark.parametrize("keys", [1, 2, 7, 64])
def test_coefficients_are_whole_and_say_nothing_of_the_total(keys: int) -> None:
    basis = find_range_basis(keys)
    assert basis.coefficients.dtype == np.int64
    assert not basis.coefficients.sum(axis=1).any()
    assert np.linalg.matrix_rank(basis.coefficients.astype(float)) == keys - 1
    onto = np.eye(keys) - 1 / keys
    assert np.allclose(basis.inverse @ basis.coefficients, onto)


def test_too_many_keys_are_refused() -> None:
    with pytest.raises(DeclarationError, match="1,024"):
        find_range_basis(1025)
    with pytest.raises(DeclarationError, match="has 3 keys"):
        choose_residuals((4,), [(0,)], ordered={0: find_range_basis(3)})


@pytest.mark.each(4)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2])
def test_sensitivity_bounds_every_change(shape: tuple[int, ...], relation: Relation, rows: int) -> None:
    """For each choice of ordered axes: all ways to put or move the rows of a unit; exact where rows are added."""
    cells = list(itertools.product(*map(range, shape)))
    for ordered in itertools.product([False, True], repeat=len(shape)):
        bases = [
            find_range_basis(size) if is_ordered else None for size, is_ordered in zip(shape, ordered, strict=True)
        ]
        columns = []
        for cell in cells:
            unit = np.zeros(shape, dtype=np.int64)
            unit[cell] = 1
            columns.append(basis_counts(unit, bases))
        zero = np.zeros(shape, dtype=np.int64)
        bags = [
            sum((columns[i] for i in bag), zero)
            for size in range(rows + 1)
            for bag in itertools.combinations_with_replacement(range(len(cells)), size)
        ]
        changes = [one - two for one in bags for two in (bags if relation == "replace" else [zero])]
        l1, l2_squared = basis_sensitivity(shape, bases, relation=relation, rows=rows)
        worst = (max(int(np.abs(c).sum()) for c in changes), max(int((c**2).sum()) for c in changes))
        assert worst[0] <= l1
        assert worst[1] <= l2_squared
        if relation == "add_remove":
            assert worst[1] >= l2_squared * 0.9
        if not any(ordered):
            assert l2_squared == residual_sensitivity(shape, relation=relation, rows=rows)[1]


def measure_ranges(sizes: tuple[int, ...], tables: list[Axes], ordered: dict[int, RangeBasis]) -> dict[Axes, float]:
    """Return the variance of each measurement at a rho of 1/2."""
    variances = {}
    for measured in choose_residuals(sizes, tables, ordered=ordered):
        bases = [ordered.get(axis) for axis in measured.axes]
        _, squared = basis_sensitivity([sizes[a] for a in measured.axes], bases, relation="add_remove", rows=1)
        variances[measured.axes] = float(squared / measured.share)
    return variances


def test_estimates_and_variances_are_those_of_dense_least_squares() -> None:
    sizes = (5, 3)
    ordered = {0: find_range_basis(5)}
    tables: list[Axes] = [(0,), (0, 1)]
    variances = measure_ranges(sizes, tables, ordered)
    rng = np.random.default_rng(3)

    def look(cells: Array) -> dict[Axes, Array]:
        return {
            axes: basis_counts(
                cells.sum(axis=tuple(a for a in range(2) if a not in axes)), [ordered.get(axis) for axis in axes]
            )
            for axes in variances
        }

    columns = []
    for cell in range(15):
        unit = np.zeros(15, dtype=np.int64)
        unit[cell] = 1
        looked = look(unit.reshape(sizes))
        columns.append(np.concatenate([looked[axes].ravel() / math.sqrt(variances[axes]) for axes in variances]))
    matrix = np.array(columns).T
    covariance = np.linalg.pinv(matrix.T @ matrix, rcond=1e-12, hermitian=True)
    noisy = {
        axes: values + rng.normal(size=values.shape) * math.sqrt(variances[axes])
        for axes, values in look(rng.poisson(20, sizes)).items()
    }
    stacked = np.concatenate([noisy[axes].ravel() / math.sqrt(variances[axes]) for axes in variances])
    cells = (covariance @ matrix.T @ stacked).reshape(sizes)
    estimates = estimate_tables(sizes, noisy, variances, tables, form="residuals", ordered=ordered)
    assert np.allclose(estimates[0, 1].cells, cells)
    assert np.allclose(estimates[0,].cells, cells.sum(axis=1))
    assert estimates[0, 1].variance >= np.diag(covariance).max() * (1 - 1e-9)
    parts = estimate_parts(sizes, noisy, variances, form="residuals", ordered=ordered)
    for low, high in itertools.combinations(range(6), 2):
        ages = np.array([float(low <= key < high) for key in range(5)])
        for others in (np.ones(3), np.array([0.0, 1.0, 0.0])):
            weights = np.outer(ages, others).ravel()
            stated = combination_variance(sizes, parts, (0, 1), [ages, others], ordered)
            assert stated == pytest.approx(float(weights @ covariance @ weights))


def test_ranges_of_a_hundred_ages_have_a_third_of_the_variance() -> None:
    """The mean over all ranges of ages of each sex, against measuring single cells at the same loss."""
    sizes = (100, 2)
    table: Axes = (0, 1)
    one = np.array([1.0, 0.0])

    def mean_variance(ordered: dict[int, RangeBasis]) -> float:
        variances = measure_ranges(sizes, [table], ordered)
        blank = {axes: np.zeros([sizes[axis] for axis in axes]) for axes in variances}
        parts = estimate_parts(sizes, blank, variances, form="residuals", ordered=ordered)
        ranges = [(low, high) for low in range(0, 100, 7) for high in range(low + 1, 101, 9)]
        rows = [np.array([float(low <= key < high) for key in range(100)]) for low, high in ranges]
        return float(np.mean([combination_variance(sizes, parts, table, [row, one], ordered) for row in rows]))

    assert mean_variance({0: find_range_basis(100)}) <= mean_variance({}) / 3


def test_large_numbers_do_not_overflow() -> None:
    basis = find_range_basis(3)
    marginal = np.array([[2**58, 1], [0, 0], [3, 2**58]])
    measured = basis_counts(marginal, [basis, None])
    assert measured.dtype == object
    exact = basis.coefficients.astype(object) @ (
        2 * marginal.astype(object) - marginal.astype(object).sum(axis=1)[:, None]
    )
    assert (measured == exact).all()
