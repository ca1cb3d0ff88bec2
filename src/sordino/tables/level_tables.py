"""Tabulations of nested areas: one vector a level, one least squares over all levels, and tables that are sums of its cells."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.queryable import Scan
from sordino.ask.queries.tabulation import CompiledTabulation, Tabulation, compile_tabulation, read_cells
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.table_cells import TableStrategy
from sordino.core.neighbors import Neighbors
from sordino.tables.hierarchy import Hierarchy, choose_level_shares, estimate_levels

if TYPE_CHECKING:
    import pyarrow as pa

Axes = tuple[int, ...]
Array = np.ndarray[Any, np.dtype[Any]]
# The weight of a level that no table and no stated error is about, of the least of the others.
_UNASKED = 1e-4


@dataclass(frozen=True, slots=True)
class LevelQuery:
    """Ask for one measure of a tabulation in the areas of each level, by all other columns: one noisy vector a level.

    Theorem: which area of a level a row is in is a function of its own smallest area, by a public table. So each vector counts,
    or sums, rows by public keys, one unit moves it as it moves a table of so many cells, and losses of levels add up.
    """

    question: Tabulation
    measure: int
    shares: tuple[Fraction, ...]
    unit: Fraction

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return each level's sensitivity, in whole steps, and its share of the loss."""
        compiled = compile_tabulation(self.question, domain)
        sizes = [math.prod(compiled.sizes[axis] for axis in axes) for axes in level_axes(compiled)]
        if len(self.shares) != len(sizes) or any(share <= 0 for share in self.shares) or sum(self.shares) > 1:
            raise QuestionRefused("the levels of a tabulation share the loss by parts above 0 that sum to 1 at most")
        if self.unit != compiled.vectors[self.measure].unit:
            raise QuestionRefused("a measure is counted in the steps of its own column")
        moved = [compiled.bound(self.measure, cells, neighbors) for cells in sizes]
        return list(zip(moved, self.shares, strict=True))

    def names(self) -> list[str]:
        """Return a name for each vector."""
        assert self.question.levels is not None
        return list(self.question.levels.columns)

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"{self.question.measures[self.measure].describe()} by {', '.join(self.names())}"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the SELECT of the smallest areas, all measures of the question in it."""
        compiled = compile_tabulation(self.question, domain)
        key = f"tabulation {self.question.identity()} by areas"
        return [Scan(key, functools.partial(compiled.select, axes=compiled.scanned))]

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[Any]:
        """Return the exact vectors, in steps: those of upper levels are sums of the areas below."""
        compiled = compile_tabulation(self.question, domain)
        cells = read_cells(tables[0], compiled.scanned, self.measure, compiled.sizes)
        leaf = compiled.level_places[-1]
        by_area = np.moveaxis(cells, compiled.scanned.index(leaf), 0)
        levels = [by_area.reshape(compiled.sizes[leaf], -1)]
        for place, parent in zip(reversed(compiled.level_places[:-1]), reversed(compiled.parents), strict=True):
            summed = np.zeros((compiled.sizes[place], levels[0].shape[1]), dtype=levels[0].dtype)
            np.add.at(summed, parent, levels[0])
            levels.insert(0, summed)
        return [level.reshape(-1) for level in levels]


def level_axes(compiled: CompiledTabulation) -> list[Axes]:
    """Return the columns of each level's vector: its areas, then all columns that are no areas."""
    others = tuple(place for place in compiled.scanned if place not in compiled.level_places)
    return [(place, *others) for place in compiled.level_places]


def find_hierarchy(compiled: CompiledTabulation) -> Hierarchy:
    """Return the areas as arrays."""
    return Hierarchy(compiled.sizes[compiled.level_places[0]], compiled.parents)


def find_level(axes: Axes, measured: Sequence[Axes]) -> int | None:
    """Return the level whose areas a table has, None where it has none."""
    return next((level for level, own in enumerate(measured) if own[0] in axes), None)


def choose_shares(
    compiled: CompiledTabulation, limits: Mapping[Axes, float], base: Sequence[float], *, pure: bool
) -> tuple[Fraction, ...]:
    """Return the share of the loss of each level.

    `limits` are the parts of its variance that each limited table may keep, and `base` the mean variance of an area at each
    level without limits.
    """
    question = compiled.question
    nested = question.levels
    assert nested is not None
    hierarchy = find_hierarchy(compiled)
    count = len(nested.columns)
    if nested.shares == "equal" and not limits:
        return (Fraction(1, count),) * count
    measured = level_axes(compiled)
    width = math.prod(compiled.sizes[axis] for axis in measured[0][1:])
    weights = [0.0] * count
    stated = question.weights or (Fraction(1),) * len(question.tables)
    greatest = question.objective == "greatest"
    for axes, weight in zip(compiled.axes, stated, strict=True):
        at = find_level(axes, measured) or 0
        if limits:
            if axes in limits:
                weights[at] = max(weights[at], 1 / (limits[axes] * base[at]))
        elif greatest:
            # A cell of the table is a sum of so many cells of the level.
            summed = width * compiled.sizes[measured[at][0]] / compiled.cells(axes)
            weights[at] = max(weights[at], float(weight) * summed)
        else:
            weights[at] += float(weight)
    least = min(weight for weight in weights if weight > 0)
    return choose_level_shares(
        hierarchy,
        noise="laplace" if pure else "gaussian",
        weights=[weight or least * _UNASKED for weight in weights],
        objective="greatest" if greatest or limits else "sum",
    )


def find_area_variances(hierarchy: Hierarchy, variances: Sequence[float]) -> list[Array]:
    """Return the variance of a cell in each area of each level after least squares over all levels."""
    blank = [np.zeros((areas, 1)) for areas in hierarchy.areas]
    return [estimate.variances for estimate in estimate_levels(hierarchy, blank, variances)]


def sum_table(axes: Axes, sizes: Sequence[int], measured: Sequence[Axes], levels: Sequence[Array]) -> Array:
    """Return one table as sums of the cells of its level, which are areas by all other columns, whatever comes after these."""
    level = find_level(axes, measured) or 0
    own = measured[level]
    cells = levels[level]
    after = cells.shape[2:]
    cells = cells.reshape([*(sizes[axis] for axis in own), *after])
    cells = cells.sum(axis=tuple(place for place, axis in enumerate(own) if axis not in axes))
    kept = [axis for axis in own if axis in axes]
    order = [kept.index(axis) for axis in axes]
    return np.asarray(cells.transpose([*order, *range(len(kept), len(kept) + len(after))]))


def draw_level_noise(strategy: TableStrategy, count: int, draw: Any) -> Array:
    """Return the noise of all cells of all tables, in steps: an array (count, cells); `draw` gives the noise of one vector."""
    sizes = strategy.sizes
    hierarchy = Hierarchy(sizes[strategy.measured[0][0]], tuple(np.array(parent) for parent in strategy.parents))
    noise = []
    for axes, law in zip(strategy.measured, strategy.laws, strict=True):
        cells = math.prod(sizes[axis] for axis in axes[1:])
        drawn = draw(law, count * sizes[axes[0]] * cells).reshape(count, sizes[axes[0]], cells)
        # Replicates are further cells of each area.
        noise.append(np.moveaxis(drawn, 0, 2).reshape(sizes[axes[0]], cells * count))
    estimates = estimate_levels(hierarchy, noise, [max(law.variance(), 1e-12) for law in strategy.laws])
    levels = [estimate.cells.reshape(len(estimate.cells), -1, count) for estimate in estimates]
    tables = [sum_table(table, sizes, strategy.measured, levels).reshape(-1, count) for table in strategy.tables]
    return np.concatenate(tables).T
