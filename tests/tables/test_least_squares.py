"""Least squares over many measurements against dense matrices; margins that agree; variances by simulation and by formula."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from sordino.core.errors import DeclarationError
from sordino.tables.least_squares import combination_variance, estimate_parts, estimate_tables, join_parts, split_table
from sordino.tables.residuals import residual_counts
from sordino.tables.strategy import Axes, choose_marginals, choose_residuals

Array = np.ndarray[Any, np.dtype[Any]]

WORKLOADS: list[tuple[tuple[int, ...], list[Axes]]] = [
    ((3,), [(), (0,)]),
    ((2, 3), [(0, 1)]),
    ((2, 1, 3), [(0, 1), (1, 2), (0, 2)]),
    ((2, 3, 2), [(0, 1), (1, 2), (0, 2)]),
    ((2, 3, 2), [(0, 1, 2), (1,)]),
    ((2, 2, 2, 2), [(0, 1), (2, 3)]),
]
workloads = pytest.mark.parametrize(("sizes", "tables"), WORKLOADS)
forms = pytest.mark.parametrize("form", ["residuals", "marginals"])


def margin(cells: Array, axes: Sequence[int]) -> Array:
    """Return a marginal of an array with one axis for each axis of the tabulation."""
    return np.asarray(cells.sum(axis=tuple(a for a in range(cells.ndim) if a not in axes)))


def measure(sizes: Sequence[int], tables: Sequence[Axes], form: str) -> dict[Axes, float]:
    """Return what a strategy measures, each with a variance of its own."""
    choose = choose_residuals if form == "residuals" else choose_marginals
    return {m.axes: 1.0 / float(m.share) for m in choose(tuple(sizes), tables)}


def look(cells: Array, measured: Mapping[Axes, float], form: str) -> dict[Axes, Array]:
    """Return the exact value of each measurement."""
    whole = {axes: margin(cells, axes) for axes in measured}
    return {axes: residual_counts(cells) if form == "residuals" else cells for axes, cells in whole.items()}


def dense(sizes: Sequence[int], measured: Mapping[Axes, float], form: str) -> tuple[Array, Array]:
    """Return the matrix of all measurements, each row over its deviation, by measuring one row in each cell."""
    columns = []
    for cell in range(math.prod(sizes)):
        unit = np.zeros(math.prod(sizes), dtype=np.int64)
        unit[cell] = 1
        looked = look(unit.reshape(sizes), measured, form)
        columns.append(np.concatenate([looked[axes].ravel() / math.sqrt(measured[axes]) for axes in measured]))
    deviations = np.concatenate(
        [np.full(math.prod(sizes[a] for a in axes), math.sqrt(v)) for axes, v in measured.items()]
    )
    return np.array(columns).T, deviations


@workloads
@forms
def test_estimates_are_those_of_dense_least_squares(sizes: tuple[int, ...], tables: list[Axes], form: Any) -> None:
    rng = np.random.default_rng(2)
    measured = measure(sizes, tables, form)
    noisy = {
        axes: values + rng.normal(size=values.shape) * 3
        for axes, values in look(rng.poisson(4, sizes), measured, form).items()
    }
    estimates = estimate_tables(sizes, noisy, measured, tables, form=form)
    matrix, deviations = dense(sizes, measured, form)
    stacked = np.concatenate([noisy[axes].ravel() for axes in measured]) / deviations
    inverse = np.linalg.pinv(matrix.T @ matrix, rcond=1e-10, hermitian=True)
    cells = (inverse @ matrix.T @ stacked).reshape(sizes)
    covariance = inverse.reshape((*sizes, *sizes))
    for table in tables:
        assert np.allclose(estimates[table].cells, margin(cells, table))
        rows = tuple(a for a in range(len(sizes)) if a not in table)
        both = covariance.sum(axis=(*rows, *(a + len(sizes) for a in rows)))
        count = math.prod(sizes[a] for a in table)
        variances = np.diag(both.reshape(count, count))
        assert np.allclose(variances, estimates[table].variance)


@workloads
@forms
def test_without_noise_tables_are_exact_and_margins_agree(
    sizes: tuple[int, ...], tables: list[Axes], form: Any
) -> None:
    rng = np.random.default_rng(3)
    cells = rng.poisson(1000, sizes)
    measured = measure(sizes, tables, form)
    exact = estimate_tables(sizes, look(cells, measured, form), measured, tables, form=form)
    assert all(np.allclose(exact[table].cells, margin(cells, table)) for table in tables)
    noisy = {axes: values + rng.normal(size=values.shape) * 1e4 for axes, values in look(cells, measured, form).items()}
    estimates = estimate_tables(sizes, noisy, measured, tables, form=form)
    for one, other in itertools.combinations(tables, 2):
        common = [axis for axis in one if axis in other]
        sums = [
            estimates[t].cells.sum(axis=tuple(place for place, axis in enumerate(t) if axis not in common))
            for t in (one, other)
        ]
        assert np.allclose(sums[0], sums[1], atol=1e-6)


@forms
@pytest.mark.each(3)
@pytest.mark.parametrize("runs", [400, pytest.param(1_500, marks=pytest.mark.deep)])
def test_variances_of_ranges_are_those_of_simulation(runs: int, form: Any) -> None:
    """A variance of so many runs is within 4 of its own deviations, of sqrt(2 / runs), but for one in 15,000."""
    sizes, table = (4, 3, 2), (0, 1)
    measured = measure(sizes, [(0, 1), (1, 2)], form)
    first = np.array([1.0, 1.0, 0.0, 0.0])
    second = np.array([0.0, 2.0, -1.0])
    rng = np.random.default_rng(4)
    zero = look(np.zeros(sizes, dtype=np.int64), measured, form)
    values = []
    for _ in range(runs):
        noisy = {
            axes: values + rng.normal(size=values.shape) * math.sqrt(measured[axes]) for axes, values in zero.items()
        }
        cells = estimate_tables(sizes, noisy, measured, [table], form=form)[table].cells
        values.append(float(first @ cells @ second))
    parts = estimate_parts(sizes, zero, measured, form=form)
    assert np.var(values) == pytest.approx(
        combination_variance(sizes, parts, table, [first, second]), rel=4 * math.sqrt(2 / runs)
    )


@forms
def test_known_tables_stay_and_help(form: Any) -> None:
    sizes = (3, 2)
    rng = np.random.default_rng(5)
    cells = rng.poisson(9, sizes)
    measured: dict[Axes, float] = {(0,): 4.0, (0, 1): 4.0, (1,): 4.0}
    noisy = {axes: values + rng.normal(size=values.shape) * 2 for axes, values in look(cells, measured, form).items()}
    known: dict[Axes, Array] = {(0,): margin(cells, (0,))}
    estimates = estimate_tables(sizes, noisy, measured, [(0,), (0, 1)], form=form, known=known)
    assert np.allclose(estimates[0,].cells, known[0,])
    assert np.allclose(estimates[0, 1].cells.sum(axis=1), known[0,])
    assert estimates[0,].variance == 0
    assert estimates[0, 1].variance > 0


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 1, 3), (3, 4), (2, 3, 4)])
def test_a_table_is_the_sum_of_its_parts(shape: tuple[int, ...]) -> None:
    table = tuple(range(2, 2 + len(shape)))
    values = np.random.default_rng(6).normal(size=shape)
    assert np.allclose(join_parts(table, shape, split_table(table, values)), values)


@pytest.mark.parametrize(
    ("noisy", "variances", "message"),
    [
        ({(0,): np.zeros(3)}, {(0,): 1.0}, "has shape"),
        ({(0,): np.zeros(2)}, {(0,): 0.0}, "above 0"),
        ({(0,): np.zeros(2)}, {(0,): math.inf}, "above 0"),
        ({(1,): np.zeros(3)}, {(1,): 1.0}, "determines"),
    ],
)
def test_refusals(noisy: dict[Axes, Array], variances: dict[Axes, float], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        estimate_tables((2, 3), noisy, variances, [(0,)], form="marginals")
