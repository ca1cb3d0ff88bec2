"""Strategies of tabulations against optima that this file finds by dense matrices: singular values, and numerical search."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from sordino.core.errors import DeclarationError
from sordino.tables.least_squares import estimate_tables
from sordino.tables.residuals import joint_rho, residual_counts, residual_sensitivity
from sordino.tables.strategy import Axes, Measured, choose_marginals, choose_residuals

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Case:
    """A workload: sizes of axes, tables, and a weight a table."""

    name: str
    sizes: tuple[int, ...]
    tables: tuple[Axes, ...]
    weights: tuple[float, ...] | None = None

    @property
    def stated_weights(self) -> tuple[float, ...]:
        return self.weights or (1.0,) * len(self.tables)


PAIRS = tuple(itertools.combinations(range(3), 2))
CASES = [
    Case("all one-way", (2, 3, 4), ((0,), (1,), (2,))),
    Case("all two-way", (3, 4, 2), PAIRS),
    Case("up to three-way", (2, 3, 3), ((0,), (1,), (2,), *PAIRS, (0, 1, 2))),
    Case("mixed sizes", (2, 20), ((0,), (0, 1))),
    Case("weighted", (3, 4, 2), PAIRS, (1.0, 25.0, 0.2)),
    Case("a single table", (3, 5), ((0, 1),)),
    Case("total with tables", (4, 3), ((), (0,), (0, 1)), (10.0, 1.0, 1.0)),
    Case("sparse sets", (2, 3, 4), ((0, 1), (2,))),
    Case("an axis of one key", (1, 3, 4), ((0, 1), (1, 2))),
    Case("a chain", (2, 3, 2, 2), ((0, 1), (1, 2), (2, 3))),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def marginal_matrix(sizes: Sequence[int], axes: Axes) -> Any:
    """Return the matrix that takes the cells of all axes to the cells of a marginal."""
    matrix = np.ones((1, 1), dtype=np.float64)
    for axis, size in enumerate(sizes):
        matrix = np.asarray(np.kron(matrix, np.eye(size) if axis in axes else np.ones((1, size))), dtype=np.float64)
    return matrix


def gram(case: Case, weights: Sequence[float]) -> Floats:
    """Return W'W of the tables, each row with the root of its weight."""
    return np.asarray(
        sum(
            w * marginal_matrix(case.sizes, t).T @ marginal_matrix(case.sizes, t)
            for t, w in zip(case.tables, weights, strict=True)
        )
    )


def best_gaussian(case: Case, weights: Sequence[float]) -> float:
    """Return the singular value bound: no Gaussian mechanism at a squared sensitivity of 1 has a smaller sum of variances."""
    eigenvalues = np.linalg.eigvalsh(gram(case, weights))
    return float(np.sqrt(np.maximum(eigenvalues, 0)).sum() ** 2 / math.prod(case.sizes))


def residual_information(case: Case, strategy: Sequence[Measured]) -> Floats:
    """Return A'A over the variance, where residuals are measured with shares of a squared sensitivity of 1 in all."""
    total = np.zeros((math.prod(case.sizes), math.prod(case.sizes)))
    for measured in strategy:
        columns = marginal_matrix(case.sizes, measured.axes).T
        shape = [case.sizes[axis] for axis in measured.axes]
        rows = np.array([residual_counts(column.astype(np.int64).reshape(shape)).ravel() for column in columns])
        _, l2_squared = residual_sensitivity(shape, relation="add_remove", rows=1)
        total += float(measured.share / l2_squared) * rows @ rows.T
    return total


def cell_variances(case: Case, information: Floats) -> Floats:
    """Return the greatest variance of a cell of each table, by dense least squares; every table must be determined."""
    inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    variances = []
    for table in case.tables:
        matrix = marginal_matrix(case.sizes, table)
        assert np.allclose(matrix @ inverse @ information, matrix, atol=1e-6)
        variances.append(float(np.diag(matrix @ inverse @ matrix.T).max()))
    return np.array(variances)


def cells(case: Case) -> Floats:
    return np.array([float(math.prod(case.sizes[axis] for axis in table)) for table in case.tables])


@cases
def test_residuals_reach_the_singular_value_bound(case: Case) -> None:
    strategy = choose_residuals(case.sizes, case.tables, weights=case.weights)
    variances = cell_variances(case, residual_information(case, strategy))
    error = float((variances * cells(case) * case.stated_weights).sum())
    assert error == pytest.approx(best_gaussian(case, case.stated_weights), rel=1e-6)
    assert sum(m.share for m in strategy) <= 1


@pytest.mark.each(10)
@cases
def test_the_greatest_error_of_residuals_is_within_a_hundredth_of_the_least(case: Case) -> None:
    """The least greatest error is at least the singular value bound for any weights that sum to 1; the best are searched."""
    strategy = choose_residuals(case.sizes, case.tables, weights=case.weights, objective="greatest")
    variances = cell_variances(case, residual_information(case, strategy))
    greatest = float((variances * case.stated_weights).max())

    def bound(logs: Floats) -> float:
        shares = np.exp(logs - logs.max())
        shares = shares / shares.sum()
        return -best_gaussian(case, list(shares * case.stated_weights / cells(case)))

    best = minimize(bound, np.zeros(len(case.tables)), method="Nelder-Mead", options={"maxiter": 200, "fatol": 1e-5})
    assert -best.fun <= greatest * (1 + 1e-6)
    assert greatest <= -best.fun * 1.01


@pytest.mark.deep
@cases
def test_residuals_within_limits_are_near_the_least_sum(case: Case) -> None:
    """By duality no mechanism within limits has less than the singular value bound of weights raised by multipliers, less these
    times the limits; the best multipliers are searched."""
    free = cell_variances(
        case, residual_information(case, choose_residuals(case.sizes, case.tables, weights=case.weights))
    )
    limits = {table: 0.8 if place == 0 else 1.3 for place, table in enumerate(case.tables)}
    del limits[case.tables[-1]]
    strategy = choose_residuals(case.sizes, case.tables, weights=case.weights, limits=limits)
    variances = cell_variances(case, residual_information(case, strategy))
    limited = len(limits)
    aims = free[:limited] * list(limits.values())
    assert np.all(variances[:limited] <= aims)

    def bound(logs: Floats) -> float:
        multipliers = np.exp(np.minimum(logs, 30)) * np.array(case.stated_weights)[:limited] * cells(case)[:limited]
        raised = np.array(case.stated_weights)
        raised[:limited] += multipliers / cells(case)[:limited]
        return float(multipliers @ aims) - best_gaussian(case, list(raised))

    best = max(
        (-minimize(bound, np.full(limited, start), method="Nelder-Mead").fun for start in (-3.0, 0.0)), default=0
    )
    error = float((variances * cells(case) * case.stated_weights).sum())
    assert error <= max(best, best_gaussian(case, case.stated_weights)) * 1.02


@pytest.mark.parametrize(
    ("case", "objective"),
    [
        pytest.param(
            CASES[i], objective, marks=[pytest.mark.deep] * (place + number > 0), id=f"{CASES[i].name}, {objective}"
        )
        for place, i in enumerate((1, 4, 6))
        for number, objective in enumerate(("sum", "greatest"))
    ],
)
def test_residuals_under_replace_are_near_the_least_error(case: Case, objective: Any) -> None:
    """Against a search over the noise of every residual, its cost by brute force over all pairs of cells."""
    strategy = choose_residuals(case.sizes, case.tables, weights=case.weights, objective=objective, relation="replace")
    axes = [m.axes for m in strategy]
    changes = squared_changes(case.sizes, axes)
    information = [residual_information(case, [Measured(a, Fraction(1))]) for a in axes]
    adding = np.array(
        [float(residual_sensitivity([case.sizes[i] for i in a], relation="add_remove", rows=1)[1]) for a in axes]
    )

    def error(logs: Floats) -> float:
        precision = np.exp(logs)
        cost = float((changes @ (precision / adding)).max())
        variances = cell_variances(case, np.tensordot(precision / cost, information, 1))
        weighted = variances * case.stated_weights
        return math.log(float(weighted.max() if objective == "greatest" else (weighted * cells(case)).sum()))

    single = np.array(
        [float(residual_sensitivity([case.sizes[i] for i in a], relation="replace", rows=1)[1]) for a in axes]
    )
    own = np.log([float(m.share) for m in strategy]) + np.log(adding / single)
    options = {"maxiter": 400, "fatol": 1e-4, "xatol": 1e-3}
    best = min(
        minimize(error, start, method="Nelder-Mead", options=options).fun for start in (own, np.zeros(len(axes)))
    )
    assert error(own) <= best + 0.02


def squared_changes(sizes: Sequence[int], residuals: Sequence[Axes]) -> Floats:
    """Return the squared length by which each residual moves, one row a change: a row that drops out, or moves."""
    columns = {
        axes: np.array(
            [
                residual_counts(c.astype(np.int64).reshape([sizes[a] for a in axes])).ravel()
                for c in marginal_matrix(sizes, axes).T
            ]
        )
        for axes in residuals
    }
    count = math.prod(sizes)
    rows = [[float((columns[axes][0] ** 2).sum()) for axes in residuals]]
    rows += [
        [float(((columns[axes][0] - columns[axes][other]) ** 2).sum()) for axes in residuals]
        for other in range(1, count)
    ]
    return np.array(rows)


@pytest.mark.deep
def test_marginals_within_limits() -> None:
    """Of Laplace noise: kept, and no worse than any of many random shares that keep them."""
    sizes = (3, 4, 2)
    limits: dict[Axes, float] = {(0, 1): 0.8}
    case = Case("", sizes, PAIRS)

    def errors(shares: dict[Axes, float]) -> Floats:
        return cell_variances(case, marginal_information(case, shares))

    free = errors({m.axes: float(m.share) for m in choose_marginals(sizes, PAIRS)})
    strategy = choose_marginals(sizes, PAIRS, limits=limits)
    variances = errors({m.axes: float(m.share) for m in strategy})
    within = [variances[PAIRS.index(table)] / free[PAIRS.index(table)] / part for table, part in limits.items()]
    assert max(within) <= 1
    error = float(variances @ cells(case))
    rng = np.random.default_rng(1)
    for _ in range(200):
        drawn = dict(zip([*PAIRS, (0, 1, 2)], rng.dirichlet(np.full(4, 0.7)), strict=True))
        other = errors({axes: share + 1e-6 for axes, share in drawn.items()})
        if all(other[PAIRS.index(t)] <= free[PAIRS.index(t)] * part for t, part in limits.items()):
            assert error <= float(other @ cells(case)) * 1.02


def marginal_information(case: Case, shares: dict[Axes, float]) -> Floats:
    """Return A'A over the variance of Laplace noise of scale 1 / share in each marginal."""
    total = np.zeros((math.prod(case.sizes), math.prod(case.sizes)))
    for axes, share in shares.items():
        matrix = marginal_matrix(case.sizes, axes)
        total += share**2 / 2 * matrix.T @ matrix
    return total


def best_laplace(case: Case, *, greatest: bool) -> float:
    """Return the least error over weighted marginals of any axes, searched from several starts with dense matrices."""
    everything = [s for n in range(len(case.sizes) + 1) for s in itertools.combinations(range(len(case.sizes)), n)]
    matrices = np.array(
        [marginal_matrix(case.sizes, axes).T @ marginal_matrix(case.sizes, axes) for axes in everything]
    )
    tables = [marginal_matrix(case.sizes, table) for table in case.tables]
    grams = np.array([table.T @ table for table in tables])

    def error(logs: Floats) -> tuple[float, Floats]:
        """Return the log of the error, for the greatest that of a norm of order 40, and its gradient in logs of shares."""
        shares = np.exp(logs - logs.max())
        shares = shares / shares.sum()
        inverse = np.linalg.inv(np.tensordot(shares**2 / 2, matrices, 1) + 1e-9 * np.eye(matrices.shape[1]))
        traces = np.einsum("ij,kji->k", inverse, grams)
        scale = np.array(case.stated_weights) / cells(case) if greatest else np.array(case.stated_weights)
        order = 40 if greatest else 1
        errors = (traces * scale) / (traces * scale).max()
        value = math.log(float((traces * scale).max())) + math.log(float((errors**order).sum())) / order
        pull = errors ** (order - 1) * scale / (traces * scale).max() / float((errors**order).sum())
        middle = inverse @ np.tensordot(pull, grams, 1) @ inverse
        slope = -shares * np.einsum("ij,kji->k", middle, matrices)
        return value, shares * (slope - float(shares @ slope))

    starts = [np.array([0.0 if axes in case.tables else -4.0 for axes in everything])]
    starts += [np.array([-0.5 * abs(len(axes) - n) * 4 for axes in everything]) for n in range(len(case.sizes) + 1)]
    return min(math.exp(minimize(error, start, jac=True, method="BFGS").fun) for start in starts)


@pytest.mark.each(6)
@cases
def test_marginals_are_within_a_twentieth_of_the_least_sum_over_weighted_marginals(case: Case) -> None:
    strategy = choose_marginals(case.sizes, case.tables, weights=case.weights)
    assert sum(m.share for m in strategy) <= 1
    variances = cell_variances(case, marginal_information(case, {m.axes: float(m.share) for m in strategy}))
    error = float((variances * cells(case) * case.stated_weights).sum())
    assert error <= best_laplace(case, greatest=False) * 1.05


@pytest.mark.each(10)
@cases
def test_marginals_are_within_a_twentieth_of_the_least_greatest_error(case: Case) -> None:
    strategy = choose_marginals(case.sizes, case.tables, weights=case.weights, objective="greatest")
    variances = cell_variances(case, marginal_information(case, {m.axes: float(m.share) for m in strategy}))
    assert float((variances * case.stated_weights).max()) <= best_laplace(case, greatest=True) * 1.05


def separate_error(sizes: Sequence[int], tables: Sequence[Axes], strategy: Sequence[Measured]) -> float:
    """Return the sum of variances of least squares from marginals with Laplace noise."""
    noisy = {m.axes: np.zeros([sizes[axis] for axis in m.axes]) for m in strategy}
    variances = {m.axes: 2 / float(m.share) ** 2 for m in strategy}
    estimates = estimate_tables(sizes, noisy, variances, tables, form="marginals")
    return sum(estimate.variance * estimate.cells.size for estimate in estimates.values())


def test_many_small_tables_are_measured_by_their_joins() -> None:
    """More axes than all subsets are tried for: joined by threes, nine tables of two cells have about half the error."""
    sizes = (2,) * 9
    tables = [(axis,) for axis in range(9)]
    threes = [Measured((axis, axis + 1, axis + 2), Fraction(1, 3)) for axis in (0, 3, 6)]
    apart = [Measured(table, Fraction(1, 9)) for table in tables]
    error = separate_error(sizes, tables, choose_marginals(sizes, tables))
    assert error <= separate_error(sizes, tables, threes) * 1.05
    assert error <= separate_error(sizes, tables, apart) * 0.6


def test_known_tables_are_not_measured() -> None:
    assert [m.axes for m in choose_residuals((3, 4), [(0, 1)], known=[(0,)])] == [(1,), (0, 1)]
    assert choose_residuals((3, 4), [(0,)], known=[(0, 1)]) == ()
    assert choose_marginals((3, 4), [(0,), ()], known=[(0,)]) == ()


@pytest.mark.parametrize(
    ("sizes", "tables", "weights", "message"),
    [
        ((2, 3), [], None, "at least one table"),
        ((2, 3), [(1, 0)], None, "sorted tuple"),
        ((2, 3), [(2,)], None, "from 0 to 1"),
        ((2, 0), [(0,)], None, "at least one key"),
        ((2, 3), [(0,)], [1, 2], "2 weights"),
        ((2, 3), [(0,)], {(1,): 2}, "no table"),
        ((2, 3), [(0,)], [0], "above 0"),
        ((2, 3), [(0,)], [math.nan], "above 0"),
    ],
)
def test_refusals(sizes: tuple[int, ...], tables: list[Axes], weights: Any, message: str) -> None:
    for choose in (choose_residuals, choose_marginals):
        with pytest.raises(DeclarationError, match=message):
            choose(sizes, tables, weights=weights)


@pytest.mark.deep
@pytest.mark.parametrize("objective", ["sum", "greatest"])
def test_three_hundred_tables_are_planned_within_seconds(objective: Any) -> None:
    """Processor time, so that a busy machine does not count; the goal is 5 s."""
    sizes = tuple(2 + (7 * axis) % 19 for axis in range(25))
    tables = list(itertools.combinations(range(25), 2))
    before = time.process_time()
    for choose in (choose_residuals, choose_marginals):
        assert sum(m.share for m in choose(sizes, tables, objective=objective)) <= 1
    assert time.process_time() - before < 5


def joint_by_force(sizes: Sequence[int], sigma_squared: dict[Axes, Fraction], rows: int) -> Fraction:
    """Return the largest cost of moving or dropping all rows of one unit, over all cells."""
    columns = {
        axes: [
            residual_counts(column.astype(np.int64).reshape([sizes[a] for a in axes])).ravel()
            for column in marginal_matrix(sizes, axes).T
        ]
        for axes in sigma_squared
    }
    count = math.prod(sizes)
    changes = [(rows, a, sign * rows, b) for a in range(count) for b in range(count) for sign in (-1, 0)]
    return max(
        sum(
            (
                Fraction(int(((one * columns[axes][a] + two * columns[axes][b]) ** 2).sum())) / (2 * sigma)
                for axes, sigma in sigma_squared.items()
            ),
            Fraction(0),
        )
        for one, a, two, b in changes
    )


@pytest.mark.each(7)
@pytest.mark.parametrize("case", [c for c in CASES if math.prod(c.sizes) <= 24], ids=lambda case: case.name)
@pytest.mark.parametrize("rows", [1, 3])
def test_the_joint_cost_under_replace_is_that_of_the_worst_pair_of_cells(case: Case, rows: int) -> None:
    strategy = choose_residuals(case.sizes, case.tables, weights=case.weights)
    sigma_squared = {
        m.axes: residual_sensitivity([case.sizes[a] for a in m.axes], relation="replace", rows=rows)[1] / m.share
        for m in strategy
    }
    joint = joint_rho(case.sizes, sigma_squared, relation="replace", rows=rows)
    exact = joint_by_force(case.sizes, sigma_squared, rows)
    assert exact <= joint <= exact * Fraction(1_000_001, 1_000_000)
    assert joint <= Fraction(1, 2)
