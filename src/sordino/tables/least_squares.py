"""The one least-squares answer over everything that was measured: tables whose margins all agree.

Post-processing of noisy numbers whose variances are known. Every table is a sum of orthogonal parts (see `strategy`), and
each part is measured by itself, by residuals, or within several marginals whose noise is weighed by its precision. Because
parts do not interfere, weighted least squares over all measurements is one weighted mean a part: no matrix is built.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.estimates.table_cells import TableCells
from sordino.tables.range_basis import RangeBasis, basis_factors, find_cell_basis, find_range_basis
from sordino.tables.strategy import Axes, count_cells, subsets

Array = np.ndarray[Any, np.dtype[Any]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Form = Literal["residuals", "marginals"]

# The least variance that least squares weighs by: noise of a large loss may have one of 0 in floats.
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A table with the least-squares estimate of each cell, and the variance that all of its cells have.

    `parts` has each part A of the table, see `Part`. With ordered axes no cell's variance is above the one stated.
    """

    cells: Floats
    variance: float
    parts: Mapping[Axes, Part]


@dataclass(frozen=True, slots=True)
class Part:
    """What the measurements say of part A: each cell of the marginal on A without its own margins, and s_A.

    `cells` sums to 0 along each axis; its cells have the variance s_A times the product over axes of 1 - 1/m.
    """

    cells: Floats
    variance: float


def estimate_parts(
    sizes: Sequence[int],
    noisy: Mapping[Axes, Array],
    variances: Mapping[Axes, float],
    *,
    form: Form,
    known: Mapping[Axes, Array] | None = None,
    ordered: Mapping[int, RangeBasis] | None = None,
) -> dict[Axes, Part]:
    """Return every part that was measured, by weighted least squares.

    `noisy` maps the axes of each measurement to an array of that shape; `form` says whether these are marginals, or
    residuals in the steps of `residual_counts`; where axes are `ordered`, residuals of `basis_counts`. `variances` has the
    variance of the noise of each cell, in the same steps, independent in all cells. `known` are tables that are exact: their
    parts are taken as they are. Raises DeclarationError where a shape does not fit, or a variance is not above 0.
    """
    cells: dict[Axes, Floats] = {}
    precision: dict[Axes, float] = {}
    exact: dict[Axes, Floats] = {}
    for table, values in (known or {}).items():
        _check_shape(sizes, table, values)
        exact.update({part: margin for part, margin in _margins(table, values).items() if part not in exact})
    bases = ordered or {}
    for table, values in noisy.items():
        _check_shape(sizes, table, values)
        variance = float(variances[table])
        if not 0 < variance < math.inf:
            raise DeclarationError("the variance of a measurement must be above 0; what is exact is known")
        if form == "residuals":
            scale = float(count_cells(sizes, tuple(axis for axis in table if axis not in bases)))
            cells[table] = values.astype(np.float64) / scale
            precision[table] = scale**2 / variance
            for place, axis in enumerate(table):
                if axis in bases:
                    cells[table] = np.moveaxis(
                        np.tensordot(bases[axis].inverse, cells[table], axes=(1, place)), 0, place
                    )
                    precision[table] *= bases[axis].length_squared
            continue
        for part, margin in _margins(table, values).items():
            if part in exact:
                continue
            weight = count_cells(sizes, part) / (count_cells(sizes, table) * variance)
            cells[part] = cells[part] + weight * margin if part in cells else weight * margin
            precision[part] = precision.get(part, 0.0) + weight
    parts = {part: Part(_center(margin), 0.0) for part, margin in exact.items()}
    for part, summed in cells.items():
        if part not in exact:
            mean = summed if form == "residuals" else summed / precision[part]
            parts[part] = Part(_center(mean), 1.0 / precision[part])
    return parts


def estimate_tables(
    sizes: Sequence[int],
    noisy: Mapping[Axes, Array],
    variances: Mapping[Axes, float],
    tables: Iterable[Axes],
    *,
    form: Form,
    known: Mapping[Axes, Array] | None = None,
    ordered: Mapping[int, RangeBasis] | None = None,
) -> dict[Axes, Estimate]:
    """Return the least-squares estimate of each table: the best linear unbiased one over all measurements.

    Arguments are those of `estimate_parts`. All margins of all tables agree, up to the rounding of floats. Memory and time
    grow with the cells measured and asked for, times the subsets of a table's axes. Raises DeclarationError where the
    measurements do not determine a table.

    >>> noisy = {(): np.array(11.0), (0,): np.array([4.0, -2.0])}
    >>> estimate_tables((2,), noisy, {(): 1.0, (0,): 1.0}, [(0,)], form="residuals")[0,].cells.tolist()
    [7.0, 4.0]
    """
    parts = estimate_parts(sizes, noisy, variances, form=form, known=known, ordered=ordered)
    estimates = {}
    for table in tables:
        cells = add_parts(sizes, parts, table)
        own = {part: parts[part] for part in _parts_of(sizes, table)}
        estimates[table] = Estimate(cells, table_variance(sizes, parts, table, ordered), own)
    return estimates


def add_parts(sizes: Sequence[int], parts: Mapping[Axes, Part], table: Axes) -> Floats:
    """Return a table as the sum of its parts; raises DeclarationError where one was not measured."""
    for part in _parts_of(sizes, table):
        if part not in parts:
            raise DeclarationError(f"nothing measured determines the table {table}: measure {part} or a table with it")
    cells = {part: parts[part].cells for part in _parts_of(sizes, table)}
    return join_parts(table, tuple(sizes[axis] for axis in table), cells)


def join_parts(table: Axes, shape: Sequence[int], parts: Mapping[Axes, Floats]) -> Floats:
    """Return a table as the sum of its parts, each spread evenly over the axes that it does not have."""
    size = math.prod(shape)
    cells = np.zeros(shape)
    for part in subsets(axis for axis, keys in zip(table, shape, strict=True) if keys > 1):
        broadcast = [keys if axis in part else 1 for axis, keys in zip(table, shape, strict=True)]
        cells += parts[part].reshape(broadcast) * (parts[part].size / size)
    return cells


def table_variance(
    sizes: Sequence[int], parts: Mapping[Axes, Part], table: Axes, ordered: Mapping[int, RangeBasis] | None = None
) -> float:
    """Return the variance of each cell of a table; with ordered axes, one that no cell's exceeds."""
    return combination_variance(sizes, parts, table, [None] * len(table), ordered)


def cell_variances(
    sizes: Sequence[int], parts: Mapping[Axes, Part], table: Axes, ordered: Mapping[int, RangeBasis]
) -> Floats:
    """Return the variance of every cell of a table, which differ along its ordered axes."""
    lengths = [
        np.diag(ordered[axis].covariance) * ordered[axis].length_squared
        if axis in ordered
        else np.full(sizes[axis], 1 - 1 / sizes[axis])
        for axis in table
    ]
    total = np.zeros([sizes[axis] for axis in table])
    for part in _parts_of(sizes, table):
        term = np.array(parts[part].variance)
        for axis, length in zip(table, lengths, strict=True):
            term = np.multiply.outer(term, length if axis in part else np.full(sizes[axis], 1 / sizes[axis] ** 2))
        total += term
    return total


def mean_variance(
    sizes: Sequence[int], parts: Mapping[Axes, Part], table: Axes, ordered: Mapping[int, RangeBasis]
) -> float:
    """Return the mean variance over all ranges of a table's ordered axes, at single keys of the others."""
    factors = {axis: basis_factors(ordered[axis]) for axis in table if axis in ordered}
    factors |= {axis: (1 - 1 / sizes[axis], 1 / sizes[axis] ** 2) for axis in table if axis not in ordered}
    return sum(
        parts[part].variance * math.prod(factors[axis][0 if axis in part else 1] for axis in table)
        for part in _parts_of(sizes, table)
    )


def range_variances(
    sizes: Sequence[int], parts: Mapping[Axes, Part], table: Axes, axis: int, ordered: Mapping[int, RangeBasis]
) -> Floats:
    """Return the variances of sums over every range of an ordered axis: entry (low, high) is of the keys from low to before high.

    On the table's other axes the sum is of one key, on ordered ones the one with the most variance.
    """
    keys = sizes[axis]
    summed = np.pad(ordered[axis].covariance.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    ends = np.diag(summed)
    inside = (ends[:, None] + ends - 2 * summed) * ordered[axis].length_squared
    counts = np.subtract.outer(np.arange(keys + 1), np.arange(keys + 1)).astype(np.float64)
    outside = (counts / keys) ** 2
    variances = np.zeros_like(inside)
    for part in _parts_of(sizes, table):
        factor = parts[part].variance
        for other in table:
            if other != axis:
                length = 1 - 1 / sizes[other]
                if other in ordered:
                    length = float(np.diag(ordered[other].covariance).max()) * ordered[other].length_squared
                factor *= length if other in part else 1 / sizes[other] ** 2
        variances += factor * (inside if axis in part else outside)
    return np.asarray(variances)


def combination_variance(
    sizes: Sequence[int],
    parts: Mapping[Axes, Part],
    table: Axes,
    factors: Sequence[Array | None],
    ordered: Mapping[int, RangeBasis] | None = None,
) -> float:
    """Return the variance of a weighted sum of a table's cells whose weights are a product of one factor an axis.

    A factor has one weight for each key of its axis: ones over a range for a range, ones for all keys; None stands for a
    single key, on an ordered axis for the one with the most variance. The part A of such a weight has the squared length of:
    on the axes of A, the factor without its mean, or its length in the covariance of the axis's basis; on the others, the
    mean of the factor.
    """
    inside = {}
    outside = {}
    for axis, factor in zip(table, factors, strict=True):
        size = sizes[axis]
        mean = 1.0 / size if factor is None else float(np.mean(factor))
        outside[axis] = mean**2
        if ordered and axis in ordered:
            basis = ordered[axis]
            length = (
                float(np.diag(basis.covariance).max()) if factor is None else float(factor @ basis.covariance @ factor)
            )
            inside[axis] = length * basis.length_squared
        else:
            squares = 1.0 if factor is None else float(np.square(factor, dtype=np.float64).sum())
            inside[axis] = max(squares - size * mean**2, 0.0)
    return sum(
        parts[subset].variance * math.prod(inside[axis] if axis in subset else outside[axis] for axis in table)
        for subset in _parts_of(sizes, table)
    )


def parts_of_cells(measure: TableCells, names: Sequence[str], sizes: Sequence[int]) -> dict[Axes, Part]:
    """Return what the released tables of one measure say of every part that they determine, in units of the measure.

    `names` are the columns by their places among the axes, `sizes` their numbers of keys. Tables that were made whole are
    taken as the linear estimates that they were made of; tables with noise of their own are combined by least squares. With
    ordered axes the variances are bounds. Tables of nested areas have no such parts.
    """
    released = measure.linear or measure.cells
    tables: dict[Axes, Floats] = {}
    variances: dict[Axes, float] = {}
    for table, start, noise in zip(measure.tables, measure.starts(), measure.noise, strict=False):
        places = [names.index(name) for name in table]
        shape = [sizes[place] for place in places]
        axes = tuple(sorted(places))
        cells = np.array(released[start : start + math.prod(shape)], dtype=np.float64).reshape(shape)
        tables[axes] = cells.transpose([places.index(axis) for axis in axes])
        variances[axes] = max(noise.variance, _LEAST)
    if measure.strategy is None:
        return estimate_parts(sizes, tables, variances, form="marginals")
    # The tables agree: each part is read off one that has it, and its variance follows from the noise that was drawn.
    strategy = measure.strategy
    square = float(measure.unit) ** 2
    blank = {axes: np.zeros([sizes[axis] for axis in axes]) for axes in strategy.measured}
    noises = {
        axes: max(law.variance(), _LEAST) * square for axes, law in zip(strategy.measured, strategy.laws, strict=True)
    }
    assert strategy.form != "levels"
    find_basis = find_cell_basis if strategy.form == "marginals" else find_range_basis
    bases = {axis: find_basis(sizes[axis]) for axis in strategy.ordered}
    public = {axes: np.zeros([sizes[axis] for axis in axes]) for axes in strategy.known}
    known = estimate_parts(sizes, blank, noises, form=strategy.form, known=public, ordered=bases)
    # On an ordered axis sums of cells vary in many ways: by no more than this times those of plain axes.
    widest = {
        axis: float(np.linalg.eigvalsh(basis.covariance).max()) * basis.length_squared for axis, basis in bases.items()
    }
    parts: dict[Axes, Part] = {}
    for axes, cells in tables.items():
        for part, values in split_table(axes, cells).items():
            variance = known[part].variance * math.prod(widest.get(axis, 1.0) for axis in part)
            parts.setdefault(part, Part(values, variance))
    return parts


def split_table(table: Axes, values: Array) -> dict[Axes, Floats]:
    """Return the parts of one table, by their axes: `add_parts` of them gives the table again."""
    return {part: _center(margin) for part, margin in _margins(table, values).items()}


def _parts_of(sizes: Sequence[int], table: Axes) -> list[Axes]:
    """Return the parts of a table; an axis of one key is in none."""
    return subsets(axis for axis in table if sizes[axis] > 1)


def _margins(table: Axes, values: Array) -> dict[Axes, Floats]:
    """Return every margin of a table without axes of one key, each summed from one that has an axis more."""
    wide = tuple(axis for axis, size in zip(table, values.shape, strict=True) if size > 1)
    margins = {wide: values.astype(np.float64).reshape([size for size in values.shape if size > 1])}
    for length in range(len(wide) - 1, -1, -1):
        for part in itertools.combinations(wide, length):
            # Sum the missing axis that is last: its parent is made already.
            extra = next(axis for axis in reversed(wide) if axis not in part)
            parent = tuple(sorted((*part, extra)))
            margins[part] = margins[parent].sum(axis=parent.index(extra))
    return margins


def _center(margin: Floats) -> Floats:
    """Return a marginal without its mean along each axis."""
    for axis in range(margin.ndim):
        margin = margin - margin.mean(axis=axis, keepdims=True)
    return margin


def _check_shape(sizes: Sequence[int], table: Axes, values: Array) -> None:
    shape = tuple(sizes[axis] for axis in table)
    if tuple(np.shape(values)) != shape:
        raise DeclarationError(
            f"the measurement of {table} has shape {np.shape(values)}, but its axes have {shape} keys"
        )
