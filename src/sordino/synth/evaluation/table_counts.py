"""Counting a table for an evaluation: privately through a Queryable, or exactly and NOT PRIVATE, and the model's own counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.synth.encoded_column import Floats, encode_table
from sordino.synth.evaluation.cuts import encode_steps
from sordino.synth.inference import joint
from sordino.synth.measurement import NoisyTable, release_counts, split_loss

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.loss import Loss
    from sordino.synth.encoded_column import Codes
    from sordino.synth.model import Model


class Counter(Protocol):
    """A table that can be counted, privately or openly."""

    def counts(self, tables: Sequence[ContingencyTable]) -> list[NoisyTable]:
        """Return each table of counts, with the variance of its noise."""

    def variance(self, tables: int) -> float:
        """Return about the variance of each count of so many tables counted together, from public facts."""

    def steps(self, column: int) -> tuple[Codes, Any] | None:
        """Return the step of each row in a column, and which rows have none; None where rows are not shown."""


@dataclass(frozen=True, slots=True)
class PrivateCounter:
    """Count a curator's table through its Queryable, all at once for one loss."""

    data: Any
    loss: Loss

    def counts(self, tables: Sequence[ContingencyTable]) -> list[NoisyTable]:
        """Return noisy tables of counts."""
        return release_counts(self.data, tables, self.loss)

    def variance(self, tables: int) -> float:
        """Return what the loss leaves each of so many tables."""
        return split_loss(self.loss, self.data.neighbors).variance(1, tables=tables)

    def steps(self, column: int) -> None:
        """Return nothing: a curator shows no rows."""
        del column


@dataclass(frozen=True, slots=True)
class ExactCounter:
    """Count the rows of a table, whose keys are known too, NOT PRIVATE: the counts are exact."""

    model: Model
    keys: Sequence[Codes]
    rows: pa.Table

    def counts(self, tables: Sequence[ContingencyTable]) -> list[NoisyTable]:
        """Return exact tables of counts, rows with a cell that the declaration drops left out."""
        place = {n: i for i, n in enumerate(self.model.columns)}
        return [NoisyTable(self._count(table, [place[a.column] for a in table.axes]), 0.0) for table in tables]

    def variance(self, tables: int) -> float:
        """Return 0: there is no noise."""
        del tables
        return 0.0

    def steps(self, column: int) -> tuple[Codes, Any]:
        """Return the step of each row in a column, its key where there is no order, and which rows have none."""
        encoded = self.model.parts.columns[column]
        if encoded.ordered:
            return encode_steps(self.rows, encoded)
        keys = self.keys[column]
        return keys, (keys < 0) | (keys >= encoded.value_count)

    def _count(self, table: ContingencyTable, columns: Sequence[int]) -> Floats:
        shape = table.shape(self.model.parts.domain)
        keys = [self._keys(axis, column) for axis, column in zip(table.axes, columns, strict=True)]
        complete = np.all([one >= 0 for one in keys], axis=0)
        at = np.zeros(int(complete.sum()), dtype=np.int64)
        for one, size in zip(keys, shape, strict=True):
            at = at * size + one[complete]
        counts: Floats = np.bincount(at, minlength=math.prod(shape)).astype(np.float64).reshape(shape)
        return counts

    def _keys(self, axis: Axis, column: int) -> Codes:
        """Return the code of each row on an axis, -1 where it has none; an axis may have edges of its own."""
        encoded = self.model.parts.columns[column]
        keys = self.keys[column]
        if axis.edges != encoded.edges:
            assert axis.edges is not None
            (keys,) = encode_table(self.rows, [encoded.with_edges(axis.edges)])
        if axis.codes is None:
            return keys
        return np.where(keys < 0, -1, np.asarray(axis.codes, dtype=np.int64)[keys])


def one_way_counts(model: Model, column: int) -> Floats:
    """Return the model's count of each key of one column."""
    return count_model(model, [(column, np.arange(model.parts.columns[column].size))])


def count_model(model: Model, chosen: Sequence[tuple[int, Codes]]) -> Floats:
    """Return the model's counts over classes of keys of a few columns."""
    parts = model.parts
    classes: list[Floats] = []
    for column, member in chosen:
        codes = parts.codes[column]
        table = np.zeros((codes.size, int(np.max(member)) + 1))
        np.add.at(table, (codes.codes, np.asarray(member)), parts.within[column])
        classes.append(table)
    return joint(parts.field, [c for c, _ in chosen], [c.size for c in parts.codes], classes)
