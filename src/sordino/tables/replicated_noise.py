"""The noise of a tabulation's cells drawn again, in many replicates at once, for intervals of what is computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sordino.core.estimates.table_cells import TableStrategy
from sordino.core.noise.laws import NoiseLaw
from sordino.tables.level_tables import draw_level_noise
from sordino.tables.range_basis import find_range_basis
from sordino.tables.strategy import Axes, subsets

# The least variance that least squares weighs by.
_LEAST = 1e-12


def draw_table_noise(strategy: TableStrategy, count: int, points: Callable[[int], Any]) -> Any:
    """Return the noise of all cells of all tables, in steps of the measure: an array (count, cells).

    It is what least squares makes of noise of the strategy's laws alone: estimates are linear, so an estimate less its
    noise is what is true. `points` gives so many numbers between 0 and 1, at which the laws are taken. Every table's cells
    are in the order of its own columns.
    """
    if strategy.form == "levels":

        def draw(law: NoiseLaw, cells: int) -> Any:
            return np.asarray(law.quantiles(points(cells)), dtype=np.float64)

        return draw_level_noise(strategy, count, draw)
    noise = []
    for axes, law in zip(strategy.measured, strategy.laws, strict=True):
        shape = [strategy.sizes[axis] for axis in axes]
        noise.append(
            np.asarray(law.quantiles(points(count * math.prod(shape))), dtype=np.float64).reshape(count, *shape)
        )
    parts = _find_parts(strategy, noise)
    cells = []
    for table in strategy.tables:
        axes = tuple(sorted(table))
        shape = [strategy.sizes[axis] for axis in axes]
        summed = np.zeros([count, *shape])
        for part in subsets(axis for axis in axes if strategy.sizes[axis] > 1):
            # What is public has no noise.
            if part not in parts:
                continue
            spread = [strategy.sizes[axis] if axis in part else 1 for axis in axes]
            share = _cells(strategy.sizes, part) / _cells(strategy.sizes, axes)
            summed += parts[part].reshape(count, *spread) * share
        turned = summed.transpose(0, *[1 + axes.index(axis) for axis in table])
        cells.append(turned.reshape(count, math.prod(shape)))
    return np.concatenate(cells, axis=1)


def _find_parts(strategy: TableStrategy, noise: Sequence[Any]) -> dict[Axes, Any]:
    """Return the noise of each part, by weighted least squares as in `least_squares.estimate_parts`; replicates come first."""
    sizes = strategy.sizes
    if strategy.form == "residuals":
        return {
            axes: _find_residual(strategy, axes, drawn) for axes, drawn in zip(strategy.measured, noise, strict=True)
        }
    exact = {part for axes in strategy.known for part in subsets(axis for axis in axes if sizes[axis] > 1)}
    sums: dict[Axes, Any] = {}
    precisions: dict[Axes, float] = {}
    for axes, law, drawn in zip(strategy.measured, strategy.laws, noise, strict=True):
        variance = max(law.variance(), _LEAST)
        for part in subsets(axis for axis in axes if sizes[axis] > 1):
            if part in exact:
                continue
            dropped = tuple(1 + place for place, axis in enumerate(axes) if axis not in part)
            weight = _cells(sizes, part) / (_cells(sizes, axes) * variance)
            margin = drawn.sum(axis=dropped) * weight
            sums[part] = sums[part] + margin if part in sums else margin
            precisions[part] = precisions.get(part, 0.0) + weight
    return {part: _center(summed / precisions[part]) for part, summed in sums.items()}


def _find_residual(strategy: TableStrategy, axes: Axes, drawn: Any) -> Any:
    """Return what the noise of one residual makes of its part: a basis of ranges is inverted, other axes are centered."""
    plain = [axis for axis in axes if axis not in strategy.ordered]
    part = drawn / _cells(strategy.sizes, plain)
    for place, axis in enumerate(axes, start=1):
        if axis in strategy.ordered:
            inverse = find_range_basis(strategy.sizes[axis]).inverse
            part = np.moveaxis(np.tensordot(inverse, part, axes=(1, place)), 0, place)
        else:
            part = part - part.mean(axis=place, keepdims=True)
    return part


def _center(margin: Any) -> Any:
    """Return margins of all replicates without their means along each axis."""
    for axis in range(1, margin.ndim):
        margin = margin - margin.mean(axis=axis, keepdims=True)
    return margin


def _cells(sizes: Sequence[int], axes: Sequence[int]) -> float:
    return float(math.prod(sizes[axis] for axis in axes))
