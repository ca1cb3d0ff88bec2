"""Where an evaluation cuts an ordered column: at edges that follow from synthetic rows and the declaration, all public."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis
from sordino.core.domain import Date, DateTime
from sordino.core.time_zones import EPOCH, local_time
from sordino.synth.encoded_column import encode_table

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.synth.encoded_column import Codes, EncodedColumn, Floats

# Edges at 1 and 3 times each power of ten, where the declaration allows values and no synthetic row has any.
_MANTISSAS = (1, 3)


@dataclass(frozen=True, slots=True)
class Cuts:
    """A column cut at `edges` of its own, in steps: [e0, e1), ..., the last one closed; a missing value comes last."""

    column: EncodedColumn
    edges: tuple[int, ...]

    @property
    def axis(self) -> Axis:
        """The axis of a table of counts."""
        return Axis(self.column.name, self.edges, missing=self.column.dropped)

    @property
    def cells(self) -> int:
        """The number of cells that hold values."""
        return len(self.edges) - 1

    def codes(self, steps: Codes, absent: Any) -> Codes:
        """Return the cell of each row; that of a missing value is `cells`."""
        found: Codes = np.searchsorted(np.asarray(self.edges[:-1], dtype=np.int64), steps, side="right") - 1
        return np.where(absent, self.cells, found)

    def values(self) -> tuple[Any, ...]:
        """Return the edges as declared values: numbers, or dates and moments in ISO form."""
        return tuple(value_at(self.column, step) for step in self.edges)


def value_at(column: EncodedColumn, step: int) -> int | float | str:
    """Return the value of a step of an ordered column: a number, or a date or a moment in ISO form."""
    if isinstance(column.column, DateTime):
        return local_time(step * column.unit, column.column.zone).isoformat()
    if isinstance(column.column, Date):
        return (EPOCH + datetime.timedelta(days=int(step))).isoformat()
    exact = Fraction(int(step)) * column.unit
    return int(exact) if exact.denominator == 1 else float(exact)


def encode_steps(table: pa.Table, column: EncodedColumn) -> tuple[Codes, Any]:
    """Return the step of each row of an Arrow table in an ordered column, clipped as declared, and which rows have none."""
    size = column.highest - column.lowest + 1 + column.missing
    (keys,) = encode_table(table, [replace(column, edges=None, size=size)])
    absent = (keys < 0) | (keys == size - 1) if column.missing else keys < 0
    return np.where(absent, 0, keys) + column.lowest, absent


def cut_by_mass(column: EncodedColumn, steps: Codes, cells: int, levels: Sequence[float] = ()) -> Cuts:
    """Return cells of about equal numbers of synthetic rows, whose steps are in order, and cuts at their quantiles.

    A value that more rows share than a cell should have is a cell of its own. Where there are no synthetic rows up to a
    bound, round numbers are edges, so that rows of the original out there are seen where they are.
    """
    values, counts = np.unique(steps, return_counts=True)
    if not len(values):
        return Cuts(column, _closed(column, {column.lowest, column.highest}))
    mass = counts / counts.sum()
    code = np.minimum(((np.cumsum(mass) - mass / 2.0) * cells).astype(np.int64), cells - 1)
    cuts = set(values[1:][np.diff(code) > 0].tolist())
    for value in values[mass > 1.0 / cells].tolist():
        cuts |= {value, value + 1}
    for level in levels:
        step = quantile_step(steps, level)
        # rows below a low quantile, and above a high one, are a tail
        cuts.add(step if level <= 0.5 else step + 1)
    for number in _round_steps(column):
        if not values[0] <= number <= values[-1]:
            cuts.add(number)
    cuts |= {int(values[0]), int(values[-1]) + 1}
    return Cuts(column, _closed(column, cuts))


def cut_by_mass_and_distance(column: EncodedColumn, steps: Codes, cells: int) -> tuple[Cuts, Floats]:
    """Return cells at equal steps of half the rows, half their distance from the median, and the mean step of each.

    By rows alone the last cell would hold a whole tail, and with it what a correlation is made of. A cell without synthetic
    rows has its edge nearest to them for its mean.
    """
    values, counts = np.unique(steps, return_counts=True)
    if not len(values):
        return Cuts(column, _closed(column, set())), np.array([float(column.lowest)])
    mass = counts / counts.sum()
    distance = np.abs(values - np.median(np.repeat(values, counts))) * counts
    weight = mass if not distance.any() else (mass + distance / distance.sum()) / 2.0
    code = np.minimum(((np.cumsum(weight) - weight / 2.0) * cells).astype(np.int64), cells - 1)
    cuts = Cuts(column, _closed(column, set(values[1:][np.diff(code) > 0].tolist())))
    place = cuts.codes(values, np.zeros(len(values), dtype=bool))
    rows = np.bincount(place, weights=counts, minlength=cuts.cells)
    sums = np.bincount(place, weights=counts * values.astype(np.float64), minlength=cuts.cells)
    nearest = np.clip(values[0], cuts.edges[:-1], cuts.edges[1:]).astype(np.float64)
    return cuts, np.where(rows > 0, sums / np.maximum(rows, 1.0), nearest)


def quantile_step(sorted_steps: Codes, level: float) -> int:
    """Return the step at a level: the least that so large a share of the rows does not exceed."""
    return int(sorted_steps[min(int(np.ceil(level * len(sorted_steps))) - 1, len(sorted_steps) - 1)])


def _closed(column: EncodedColumn, cuts: set[int]) -> tuple[int, ...]:
    """Return edges from the lowest to the highest step; the last cell is closed."""
    inner = {int(c) for c in cuts if column.lowest < c <= column.highest}
    return (column.lowest, *sorted(inner), column.highest)


def _round_steps(column: EncodedColumn) -> list[int]:
    """Return the steps of round numbers within the declared bounds; of dates and moments there are none."""
    if isinstance(column.column, (Date, DateTime)):
        return []
    reach = max(abs(column.lowest), abs(column.highest))
    found: list[int] = []
    power = 1
    while power * column.unit < reach * column.unit:
        found += [sign * m * power for m in _MANTISSAS for sign in (1, -1)]
        power *= 10
    return [step for step in found if column.lowest < step < column.highest]
