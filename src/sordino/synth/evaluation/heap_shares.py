"""How many rows hold round values, of synthetic rows and of the original: multiples of 10, 100 ..., ends of months.

The sets of round values follow from the declaration (`round_values`). It sees released counts, or NOT PRIVATE ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.synth.encoded_column import EncodedColumn, Floats, round_sets_of
from sordino.synth.evaluation.figure import CONFIDENCE, Figure

if TYPE_CHECKING:
    from sordino.synth.encoded_column import Codes
    from sordino.synth.evaluation.table_counts import Counter
    from sordino.synth.model import Model

# Sets that text shows of a column: those that have so much more of synthetic or original rows than of the values.
_MOST = 3
_LEAST = 0.05


@dataclass(frozen=True, slots=True)
class HeapShare:
    """The share of a column's rows that hold a value of one set: of synthetic rows, of the original, and of all its values.

    `beyond` is what it holds of either, outside smaller sets, beyond its share of the values: 0 is a multiple of all numbers.
    """

    values: str
    synthetic: float
    original: Figure
    expected: float
    beyond: float

    def describe(self) -> str:
        """Return the shares in words."""
        return f"{self.values} {100 * self.synthetic:.1f}% (original's share {self.original.with_error(3)})"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        return {
            "values": self.values,
            "synthetic": self.synthetic,
            "original": self.original.to_dict(),
            "expected": self.expected,
        }


@dataclass(frozen=True, slots=True)
class ColumnHeaps:
    """The shares of one column's rows in each of its sets of round values."""

    column: str
    shares: tuple[HeapShare, ...]

    @property
    def largest(self) -> tuple[HeapShare, ...]:
        """The few sets that hold most beyond their share of the values, the largest first; none where none does clearly."""
        clear = [share for share in self.shares if share.beyond > _LEAST]
        return tuple(sorted(clear, key=lambda share: -share.beyond)[:_MOST])

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        return {"column": self.column, "sets": [share.to_dict() for share in self.shares]}


def heaping_columns(model: Model) -> list[int]:
    """Return the columns, by place, that are wider than a code a value, and have sets of round values."""
    columns = model.parts.columns
    return [i for i, c in enumerate(columns) if c.ordered and c.edges is not None and round_sets_of(c)]


def compare_heaps(
    model: Model, places: Sequence[int], keys: Sequence[Codes], steps: Sequence[Codes], counter: Counter
) -> tuple[ColumnHeaps, ...]:
    """Return the shares of each column at these places, of synthetic rows (`keys`, `steps`) and of the counter's table.

    A row counts in the smallest set that holds its value, in one table a column, so the share of a set is a sum of cells.
    """
    columns = [model.parts.columns[place] for place in places]
    rows = [counter.steps(place) for place in places]
    exact = [(_count(column, *one), 0.0) for column, one in zip(columns, rows, strict=True) if one is not None]
    counts = exact or [
        (table.cells, table.variance) for table in counter.counts([_table(column) for column in columns])
    ]
    compared = []
    for place, column, (cells, variance) in zip(places, columns, counts, strict=True):
        synthetic = _count(column, steps[place], column.missing & (keys[place] == column.size - 1))
        compared.append(_shares(column, synthetic, cells, variance))
    return tuple(compared)


def _table(column: EncodedColumn) -> ContingencyTable:
    """Return the question: rows by the smallest set that holds their value, 0 for those in none."""
    return ContingencyTable((Axis(column.name, (column.lowest, column.highest), rounded=True),))


def _count(column: EncodedColumn, steps: Codes, absent: Any) -> Floats:
    """Return how many of some rows each smallest set holds."""
    present = steps[~np.broadcast_to(absent, steps.shape)]
    smallest = np.zeros(len(present), dtype=np.int64)
    sets = round_sets_of(column)
    # A smaller set comes after those that hold it.
    for number, one in enumerate(sets, 1):
        smallest[one.count(present, present) > 0] = number
    return np.bincount(smallest, minlength=1 + len(sets)).astype(np.float64)


def _shares(column: EncodedColumn, synthetic: Floats, cells: Floats, variance: float) -> ColumnHeaps:
    sets = round_sets_of(column)
    holds = np.eye(1 + len(sets), dtype=bool)
    for number, one in enumerate(sets, 1):
        holds[:, number] |= holds[:, one.within]
    drawn = max(float(synthetic.sum()), 1.0)
    counted = max(float(cells.sum()), 1.0)
    quantile = normal_quantile(CONFIDENCE)
    values = np.array([0.0, *(float(one.count(column.lowest, column.highest)) for one in sets)])
    values /= column.highest - column.lowest + 1
    shares = []
    for number, one in enumerate(sets, 1):
        inside = holds[number]
        share = float(cells[inside].sum()) / counted
        # The noise of the set's cells, and that of the others, which are in the whole alone.
        noise = variance * (inside.sum() * (1.0 - share) ** 2 + (~inside).sum() * share**2)
        smaller = sum(values[n] for n, other in enumerate(sets, 1) if other.within == number)
        visible = float(cells[number]) / counted if cells[number] > quantile * math.sqrt(variance) else 0.0
        shares.append(
            HeapShare(
                one.words,
                float(synthetic[inside].sum()) / drawn,
                Figure(share, quantile * math.sqrt(noise) / counted),
                float(values[number]),
                max(float(synthetic[number]) / drawn, visible) - float(values[number] - smaller),
            )
        )
    return ColumnHeaps(column.name, tuple(shares))
