"""Tables of nested areas (state, county, tract): shares of the loss a level, one least squares, and whole tables from the top.

Each level has one table of areas by cells, with independent noise; a row is in one area of each level, so its levels' losses
add up. Post-processing of noisy numbers: memory is that of a few copies of all cells, time grows with them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sordino.ask.queries.tabulation import Objective
from sordino.core.errors import DeclarationError
from sordino.tables.strategy import round_shares
from sordino.tables.whole_tables import Floats, Integers, round_matrix, round_rows, shift_to_sums

Array = np.ndarray[Any, np.dtype[Any]]

# Rounds of the search for the nearest cells of at least 0 within an area, and the error of a sum at which an area is done.
_ROUNDS = 40
_STILL = 0.25
# Up to this many levels, every set of them is tried as those that are measured under Laplace noise.
_SUBSETS = 6
# The least share of a level, in those of the largest.
_LEAST = 1e-6
# The order of the norm that stands in for the greatest error of a level.
_ORDER = 64.0


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Nested areas: the areas of each level are numbered from 0, and `parents[l]` has the area of level l that each area of
    level l + 1 lies in.

    Level 0 may have any number of areas. Raises DeclarationError where an area has no areas below it, or one lies nowhere.

    >>> Hierarchy(2, (np.array([0, 0, 1]),)).areas
    (2, 3)
    """

    top: int
    parents: tuple[Array, ...]

    def __post_init__(self) -> None:
        above = self.top
        for level, parent in enumerate(self.parents):
            if parent.ndim != 1 or not np.array_equal(np.unique(parent), np.arange(above)):
                raise DeclarationError(
                    f"each area of level {level + 1} lies in one of the {above:,} areas of level {level}, numbered from 0, "
                    "and each of these has an area"
                )
            above = len(parent)

    @property
    def areas(self) -> tuple[int, ...]:
        """The number of areas of each level."""
        return (self.top, *(len(parent) for parent in self.parents))


@dataclass(frozen=True, slots=True)
class LevelEstimate:
    """The estimates of one level, areas by cells, and the variance of each area's cells."""

    cells: Floats
    variances: Floats


def choose_level_shares(
    hierarchy: Hierarchy,
    *,
    noise: Literal["gaussian", "laplace"],
    weights: Sequence[float] | None = None,
    objective: Objective = "sum",
) -> tuple[Fraction, ...]:
    """Return the share of the loss of each level; shares sum to at most 1.

    "sum" minimises the sum over levels of weight times the squared error of all of its cells after least squares;
    "greatest" the greatest, over levels, of weight times the mean variance of a cell, so weights of 1 / t^2 aim at standard
    deviations t. Found numerically, from equal shares: the variances follow from the shape of the hierarchy alone. Raises
    DeclarationError unless there is a positive weight for each level.

    >>> [round(float(share), 2) for share in choose_level_shares(Hierarchy(1, (np.zeros(9, int),)), noise="gaussian")]
    [0.19, 0.81]
    """
    from scipy.optimize import minimize

    areas = np.array(hierarchy.areas, dtype=np.float64)
    stated = np.ones(len(areas)) if weights is None else np.array([float(weight) for weight in weights])
    if len(stated) != len(areas) or not all(0 < weight < math.inf for weight in stated):
        raise DeclarationError(f"weights must be {len(areas)} numbers above 0: one for each level")
    order = _sort_areas(hierarchy)

    def error(logs: Floats) -> float:
        shares = np.exp(logs - logs.max())
        shares = shares / shares.sum()
        variances = 1 / shares if noise == "gaussian" else 1 / shares**2
        means = _mean_variances(order, variances)
        if objective == "greatest":
            scaled = stated * means
            return float(math.log(scaled.max()) + math.log(((scaled / scaled.max()) ** _ORDER).sum()) / _ORDER)
        return math.log(float((stated * areas * means).sum()))

    # Under Laplace noise there are minima at which levels are as good as not measured: each set of them is tried.
    starts = [np.zeros(len(areas))]
    if noise == "laplace" and len(areas) <= _SUBSETS:
        upper = itertools.product((0.0, math.log(_LEAST)), repeat=len(areas) - 1)
        starts = [np.array([*logs, 0.0]) for logs in upper]
    options = {"eps": 1e-4, "gtol": 1e-4, "maxiter": 60}
    results = [minimize(error, start, method="BFGS", options=options) for start in starts]
    best = min(results, key=lambda result: float(result.fun)).x
    # A level whose share is next to nothing keeps a little, so that each is measured.
    levels = [(level,) for level in range(len(areas))]
    rounded = round_shares(levels, np.maximum(np.exp(best - best.max()), _LEAST))
    return tuple(measured.share for measured in rounded)


def estimate_levels(hierarchy: Hierarchy, noisy: Sequence[Array], variances: Sequence[float]) -> list[LevelEstimate]:
    """Return the least-squares estimates of all levels: each area is the sum of the areas below it, up to rounding.

    `noisy` has the areas by cells of each level, `variances` the variance of the noise of each level's cells: 0 where a
    level is exact, infinity where it was not measured. By one pass up and one down the tree (Hay, Rastogi, Miklau, Suciu 2010,
    section 4, with a variance for each area). Raises DeclarationError where shapes do not fit or the lowest level was not
    measured.
    """
    areas = hierarchy.areas
    if len(noisy) != len(areas) or len(variances) != len(areas):
        raise DeclarationError(f"there are {len(areas)} levels, each with its noisy cells and their variance")
    width = np.shape(noisy[0])[1:]
    for level, cells in enumerate(noisy):
        if np.shape(cells) != (areas[level], *width) or len(width) != 1:
            raise DeclarationError(f"level {level} has {areas[level]:,} areas by as many cells as level 0, in two axes")
    if not all(variance >= 0 for variance in variances) or not variances[-1] < math.inf:
        raise DeclarationError("variances are numbers of at least 0, and the lowest level is measured")
    order = _sort_areas(hierarchy)
    lowest = np.full(areas[-1], float(variances[-1]))
    own, smooth = _smooth_variances(order, lowest, np.array(variances, dtype=np.float64))
    # Up: an area's own measurement and the sum of its areas' estimates, each by the other's variance.
    best = [np.asarray(cells, dtype=np.float64) for cells in noisy]
    sums: list[Floats] = []
    for level in range(len(areas) - 2, -1, -1):
        below = _sum_areas(order[level], best[level + 1])
        share = _weigh_measurement(float(variances[level]), _sum_areas(order[level], own[level + 1]))
        if variances[level] < math.inf:
            best[level] = best[level] * share[:, None] + below * (1 - share)[:, None]
        else:
            best[level] = below
        sums.append(below)
    # Down: what the estimate above differs from the sum goes to areas in proportion to their variances.
    for level, below in enumerate(reversed(sums)):
        parent = hierarchy.parents[level]
        total = _sum_areas(order[level], own[level + 1])[parent]
        part = np.divide(own[level + 1], total, out=np.zeros_like(total), where=total > 0)
        best[level + 1] = best[level + 1] + part[:, None] * (best[level] - below)[parent]
    return [LevelEstimate(cells, variance) for cells, variance in zip(best, smooth, strict=True)]


def make_levels_whole(hierarchy: Hierarchy, levels: Sequence[Floats]) -> list[Integers]:
    """Return whole cells without negative ones, near the estimates of each level, each area the sum of the areas below it.

    From the top: the total of each area of level 0 is rounded and its cells are the nearest of at least 0 with this sum,
    rounded; then, within each area, first the totals of the areas below, so that cells raised to 0 add nothing to them, then
    their cells, which have these totals and sum to the cells above: the nearest of at least 0, and rounded, as in
    `whole_tables`.
    """
    totals = np.floor(np.maximum(levels[0].sum(axis=1), 0.0) + 0.5).astype(np.int64)
    whole = [round_rows(_raise_rows(levels[0], totals), totals)]
    for level, parent in enumerate(hierarchy.parents):
        cells = levels[level + 1]
        below: Integers = np.zeros(cells.shape, dtype=np.int64)
        # Areas with as many areas below them are worked on together.
        children = np.argsort(parent, kind="stable")
        counts = np.bincount(parent, minlength=len(whole[level]))
        starts = np.cumsum(counts) - counts
        for count in np.unique(counts):
            above = np.flatnonzero(counts == count)
            members = children[starts[above][:, None] + np.arange(count)]
            blocks = cells[members]
            sums = whole[level][above]
            totals = sums.sum(axis=1)
            shares = round_rows(_raise_rows(blocks.sum(axis=2), totals), totals)
            near = _raise_blocks(blocks, shares, sums)
            for place, area in enumerate(members):
                below[area] = round_matrix(near[place], shares[place], sums[place])
        whole.append(below)
    return whole


def _sort_areas(hierarchy: Hierarchy) -> list[tuple[Array, Array]]:
    """Return for each level but the lowest the areas below sorted by the area they lie in, and where each of these begins."""
    order = []
    for level, parent in enumerate(hierarchy.parents):
        counts = np.bincount(parent, minlength=hierarchy.areas[level])
        order.append((np.argsort(parent, kind="stable"), np.cumsum(counts) - counts))
    return order


def _sum_areas(order: tuple[Array, Array], cells: Floats) -> Floats:
    """Return the sums over the areas within each area of the level above."""
    children, starts = order
    # A level that is sorted already, as public tables of areas are, needs no copy.
    sorted_cells = cells if np.array_equal(children, np.arange(len(children))) else cells[children]
    summed: Floats = np.add.reduceat(sorted_cells, starts, axis=0)
    return summed


def _weigh_measurement(variance: float, below: Floats) -> Floats:
    """Return the weight of a measurement of this variance beside sums with the variances `below`."""
    if variance == math.inf:
        return np.zeros(len(below))
    return np.divide(below, below + variance, out=np.ones_like(below), where=below + variance > 0)


def _smooth_variances(
    order: Sequence[tuple[Array, Array]], lowest: Floats, variances: Floats
) -> tuple[list[Floats], list[Floats]]:
    """Return each area's variance by what was measured in it and below it, and by all that was measured.

    `lowest` has the former of the areas of the lowest level; `order` those below each of the levels above it.
    """
    own = [lowest]
    for level in range(len(order) - 1, -1, -1):
        own.insert(0, _add_measurement(float(variances[level]), _sum_areas(order[level], own[0])))
    smooth = [own[0]]
    for level, (children, starts) in enumerate(order):
        counts = np.diff(np.append(starts, len(children)))
        parent = np.empty(len(children), dtype=np.intp)
        parent[children] = np.repeat(np.arange(len(starts)), counts)
        total = _sum_areas(order[level], own[level + 1])
        part = np.divide(own[level + 1], total[parent], out=np.zeros(len(children)), where=total[parent] > 0)
        # The sum of the areas below is known better by the measurements above it.
        smooth.append(own[level + 1] - part**2 * (total - smooth[level])[parent])
    return own, smooth


def _add_measurement(variance: float, below: Floats) -> Floats:
    """Return the variance of the mean of a measurement and of a sum of the areas below."""
    if variance == math.inf:
        return below
    return _weigh_measurement(variance, below) * variance


def _mean_variances(order: Sequence[tuple[Array, Array]], variances: Floats) -> Floats:
    """Return the mean variance of the areas of each level by all that was measured.

    Areas of the lowest level that lie in one area are alike, so they are not gone through one by one.
    """
    lowest = float(variances[-1])
    if not order:
        return np.array([lowest])
    children, starts = order[-1]
    counts = np.diff(np.append(starts, len(children)))
    own = _add_measurement(float(variances[-2]), counts * lowest)
    _, smooth = _smooth_variances(order[:-1], own, variances)
    within = counts * lowest - (counts * lowest - smooth[-1]) / counts
    return np.array([*(float(level.mean()) for level in smooth), float(within.sum() / len(children))])


def _raise_rows(rows: Floats, sums: Integers) -> Floats:
    """Return the nearest rows of cells of at least 0 that have these sums."""
    return np.maximum(rows + shift_to_sums(rows, sums.astype(np.float64))[:, None], 0.0)


def _raise_blocks(blocks: Floats, row_sums: Integers, column_sums: Integers) -> Floats:
    """Return the nearest blocks of cells of at least 0 with these sums of rows and columns, up to `_STILL`.

    As `remove_negatives`, for many blocks at once; those that are done drop out.
    """
    near = np.empty_like(blocks)
    active = np.arange(len(blocks))
    shifted = blocks
    rows = row_sums.astype(np.float64)
    columns = column_sums.astype(np.float64)
    for _ in range(_ROUNDS):
        count, height, width = shifted.shape
        step = shift_to_sums(shifted.swapaxes(1, 2).reshape(-1, height), columns.ravel()).reshape(count, 1, width)
        shifted = shifted + step
        step = shift_to_sums(shifted.reshape(-1, width), rows.ravel()).reshape(count, height, 1)
        shifted = shifted + step
        raised = np.maximum(shifted, 0.0)
        near[active] = raised
        left = np.abs(raised.sum(axis=1) - columns).max(axis=1) > _STILL
        if not left.any():
            break
        active, shifted, rows, columns = active[left], shifted[left], rows[left], columns[left]
    return near
