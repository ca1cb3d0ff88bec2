"""Nested areas: least squares against dense matrices, shares against a search, whole tables that add up, size and time."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import places
from places import forget_peak_memory, peak_memory
from sordino.core.errors import DeclarationError
from sordino.tables.hierarchy import Hierarchy, choose_level_shares, estimate_levels, make_levels_whole

Array = np.ndarray[Any, np.dtype[Any]]

TREES = {
    "one level": Hierarchy(3, ()),
    "a country": Hierarchy(1, (np.array([0, 0, 0, 0]),)),
    "unequal": Hierarchy(1, (np.array([0, 0, 0]), np.array([0, 1, 1, 2, 2, 2, 2]))),
    "several at the top, not in order": Hierarchy(2, (np.array([1, 0, 1]), np.array([2, 0, 1, 0, 2, 2]))),
    "four levels": Hierarchy(1, (np.array([0, 0]), np.array([0, 1, 1]), np.array([0, 0, 0, 1, 2, 2]))),
}
trees = pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())


def matrices(tree: Hierarchy) -> list[Array]:
    """Return for each level the matrix that sums the areas of the lowest level."""
    sums = [np.eye(tree.areas[-1])]
    for parent in reversed(tree.parents):
        step = (np.arange(parent.max() + 1)[:, None] == parent).astype(float)
        sums.insert(0, step @ sums[0])
    return sums


def levels_of(tree: Hierarchy, lowest: Array) -> list[Array]:
    return [matrix.astype(np.int64) @ lowest for matrix in matrices(tree)]


@trees
@pytest.mark.parametrize("measured", ["all", "top exact", "middle missing"])
def test_estimates_are_those_of_dense_least_squares(tree: Hierarchy, measured: str) -> None:
    rng = np.random.default_rng(1)
    count = len(tree.areas)
    variances = [float(v) for v in rng.uniform(0.5, 4.0, count)]
    if count > 1 and measured == "top exact":
        variances[0] = 0.0
    if count > 1 and measured == "middle missing":
        variances[count // 2 - 1] = math.inf
    exact = levels_of(tree, rng.poisson(9, (tree.areas[-1], 2)))
    noisy = [
        np.full(x.shape, np.nan) if v == math.inf else x + rng.normal(size=x.shape) * math.sqrt(v)
        for x, v in zip(exact, variances, strict=True)
    ]
    estimates = estimate_levels(tree, noisy, variances)
    sums = matrices(tree)
    # A variance of 1e-9 stands for an exact level.
    weights = [np.full(len(s), 1 / max(v, 1e-9)) for s, v in zip(sums, variances, strict=True)]
    stacked = np.vstack(sums)
    weight = np.concatenate(weights)
    covariance = np.linalg.inv(stacked.T * weight @ stacked)
    values = np.nan_to_num(np.concatenate(noisy))
    lowest = covariance @ (stacked.T * weight @ values)
    for level, estimate in enumerate(estimates):
        assert np.allclose(estimate.cells, sums[level] @ lowest, atol=1e-4)
        assert np.allclose(estimate.variances, np.diag(sums[level] @ covariance @ sums[level].T), atol=1e-6)


def dense_variances(tree: Hierarchy, shares: Array, noise: str) -> Array:
    """Return the mean variance of the areas of each level, by dense least squares."""
    sums = matrices(tree)
    power = 1 if noise == "gaussian" else 2
    information = sum((s.T @ s * float(share) ** power for s, share in zip(sums, shares, strict=True)), 0 * sums[-1])
    covariance = np.linalg.inv(information)
    return np.array([float(np.diag(s @ covariance @ s.T).mean()) for s in sums])


@pytest.mark.each(28)
@trees
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("objective", ["sum", "greatest"])
def test_shares_are_within_a_twentieth_of_the_best(tree: Hierarchy, noise: Any, objective: Any) -> None:
    """Against another search over shares, from several starts."""
    weights = np.array([4.0, 2.0, 1.0, 1.0])[: len(tree.areas)]
    shares = choose_level_shares(tree, noise=noise, weights=list(weights), objective=objective)
    assert sum(shares) <= 1

    def error(parts: Array) -> float:
        means = dense_variances(tree, parts / parts.sum(), noise)
        return float((weights * means).max() if objective == "greatest" else (weights * means * tree.areas).sum())

    def search(logs: Array) -> float:
        return error(np.exp(logs - logs.max()))

    rng = np.random.default_rng(2)
    starts = [rng.normal(size=len(weights)) for _ in range(3)]
    best = min(minimize(search, start, method="Nelder-Mead", options={"maxiter": 150}).fun for start in starts)
    assert error(np.array([float(share) for share in shares])) <= best * 1.05


@pytest.mark.each(7)
@trees
@pytest.mark.parametrize("deviation", [0.5, 5.0, 200.0])
def test_whole_levels_add_up(tree: Hierarchy, deviation: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        exact = levels_of(tree, rng.poisson(3, (tree.areas[-1], 4)))
        noisy = [x + rng.normal(size=x.shape) * deviation for x in exact]
        estimates = estimate_levels(tree, noisy, [deviation**2] * len(noisy))
        whole = make_levels_whole(tree, [estimate.cells for estimate in estimates])
        sums = levels_of(tree, whole[-1])
        for level, cells in enumerate(whole):
            assert cells.dtype == np.int64
            assert cells.min() >= 0
            assert np.array_equal(cells, sums[level])
        totals = estimates[0].cells.sum(axis=1)
        assert np.abs(whole[0].sum(axis=1) - np.maximum(totals, 0)).max() <= 0.5 + 1e-9


def make_country(leaves: int) -> tuple[Hierarchy, list[Array]]:
    """Return a country of four levels with about 33 areas in each county, and its exact tables of 50 cells."""
    rng = np.random.default_rng(1)
    counties = leaves // 33
    states = max(1, counties // 60)

    def nest(areas: int, above: int) -> Array:
        return np.sort(np.concatenate([np.arange(above), rng.integers(0, above, areas - above)]))

    tree = Hierarchy(1, (np.zeros(states, dtype=np.int64), nest(counties, states), nest(leaves, counties)))
    levels = [rng.poisson(rng.gamma(0.5, 5.0, (leaves, 1)) * rng.dirichlet(np.ones(50)) * 50)]
    for level in range(2, -1, -1):
        sums = np.zeros((tree.areas[level], 50), dtype=np.int64)
        np.add.at(sums, tree.parents[level], levels[0])
        levels.insert(0, sums)
    return tree, levels


def release_country(leaves: int) -> tuple[list[Array], list[Array], list[Array]]:
    """Return exact, linear and whole tables at a rho of 1/2, at the best shares."""
    tree, exact = make_country(leaves)
    shares = choose_level_shares(tree, noise="gaussian")
    variances = [float(1 / share) for share in shares]
    rng = np.random.default_rng(2)
    noisy = [np.rint(x + rng.normal(size=x.shape) * math.sqrt(v)) for x, v in zip(exact, variances, strict=True)]
    estimates = estimate_levels(tree, noisy, variances)
    whole = make_levels_whole(tree, [estimate.cells for estimate in estimates])
    for level, parent in enumerate(tree.parents):
        sums = np.zeros(whole[level].shape, dtype=np.int64)
        np.add.at(sums, parent, whole[level + 1])
        assert np.array_equal(sums, whole[level])
        assert whole[level + 1].min() >= 0
        gaps = np.square(estimates[level + 1].cells - exact[level + 1]).mean()
        assert gaps == pytest.approx(float(estimates[level + 1].variances.mean()), rel=0.2)
    return exact, [estimate.cells for estimate in estimates], whole


@pytest.mark.deep
def test_whole_areas_have_less_error_than_linear_ones_at_each_level() -> None:
    """And totals of small areas are not raised by cells that are raised to 0: their mean error is within 4 deviations of it."""
    exact, linear, whole = release_country(3_300)
    for level in range(1, 4):
        truth = exact[level]
        assert np.square(whole[level] - truth).mean() <= np.square(linear[level] - truth).mean() * 1.05
    assert np.square(whole[3] - exact[3]).mean() <= np.square(linear[3] - exact[3]).mean() / 1.7
    totals = exact[3].sum(axis=1)
    small = np.argsort(totals)[: len(totals) // 2]
    gaps = (whole[3].sum(axis=1) - totals)[small]
    assert abs(gaps.mean()) <= 4 * gaps.std() / math.sqrt(len(gaps)) + 0.5
    clipped = np.maximum(linear[3], 0).sum(axis=1) - totals
    assert clipped[small].mean() > 10 * abs(gaps.mean())


@pytest.mark.deep
def test_a_hundred_thousand_areas_of_fifty_cells() -> None:
    """Under 60 s of processor time and 2 GB."""
    forget_peak_memory()
    before = time.process_time()
    exact, _, whole = release_country(100_000)
    assert time.process_time() - before < 60
    assert peak_memory() < 2_000_000
    assert np.square(whole[3] - exact[3]).mean() < 2


@pytest.mark.deep
def test_a_tabulation_of_a_hundred_thousand_areas() -> None:
    """From the rows to tables with intervals, in a process of its own: under 60 s of processor time and 2 GB."""
    script = places.ROOT / "bench" / "tabulations.py"
    command = [sys.executable, str(script), "--areas", "100000", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    taken = json.loads(ran.stdout)
    assert taken["cells"] > 5_000_000
    assert taken["processor seconds"] < 60
    assert taken["most megabytes"] < 2_000
    assert taken["one total"]
    assert taken["least cell"] >= 0


@pytest.mark.parametrize("parents", [np.array([0, 2]), np.array([1, 1]), np.array([[0, 1]]), np.array([-1, 0, 1])])
def test_a_hierarchy_whose_areas_lie_nowhere_is_refused(parents: Array) -> None:
    with pytest.raises(DeclarationError, match="each area of level 1"):
        Hierarchy(2, (parents,))


def test_refusals() -> None:
    tree = TREES["a country"]
    with pytest.raises(DeclarationError, match="2 levels"):
        estimate_levels(tree, [np.zeros((1, 2))], [1.0])
    with pytest.raises(DeclarationError, match="level 1 has 4 areas"):
        estimate_levels(tree, [np.zeros((1, 2)), np.zeros((3, 2))], [1.0, 1.0])
    with pytest.raises(DeclarationError, match="lowest level"):
        estimate_levels(tree, [np.zeros((1, 2)), np.zeros((4, 2))], [1.0, math.inf])
    with pytest.raises(DeclarationError, match="weights"):
        choose_level_shares(tree, noise="gaussian", weights=[1.0])
