"""Counting a table for an evaluation: privately through a Queryable, or exactly and NOT PRIVATE, and the model's own counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.synth.encoded_column import Floats
from sordino.synth.inference import joint
from sordino.synth.measurement import NoisyTable, release_counts

if TYPE_CHECKING:
    from sordino.core.loss import Loss
    from sordino.synth.encoded_column import Codes
    from sordino.synth.model import Model


class Counter(Protocol):
    """A table that can be counted, privately or openly."""

    def counts(self, tables: Sequence[ContingencyTable]) -> list[NoisyTable]:
        """Return each table of counts, with the variance of its noise."""


@dataclass(frozen=True, slots=True)
class PrivateCounter:
    """Count a curator's table through its Queryable, all at once for one loss."""

    data: Any
    loss: Loss

    def counts(self, tables: Sequence[ContingencyTable]) -> list[NoisyTable]:
        """Return noisy tables of counts."""
        return release_counts(self.data, tables, self.loss)


@dataclass(frozen=True, slots=True)
class ExactCounter:
    """Count a table whose keys are known, NOT PRIVATE: the counts are exact."""

    model: Model
    keys: Sequence[Codes]

    def counts(self, tables: Sequence[ContingencyTable]) -> list[NoisyTable]:
        """Return exact tables of counts, rows with a cell that the declaration drops left out."""
        place = {n: i for i, n in enumerate(self.model.columns)}
        return [NoisyTable(self._count(table, [place[a.column] for a in table.axes]), 0.0) for table in tables]

    def _count(self, table: ContingencyTable, columns: Sequence[int]) -> Floats:
        shape = table.shape(self.model.parts.domain)
        complete = np.all([self.keys[c] >= 0 for c in columns], axis=0)
        at = np.zeros(int(complete.sum()), dtype=np.int64)
        for axis, column, size in zip(table.axes, columns, shape, strict=True):
            keys = self.keys[column][complete]
            at = at * size + (keys if axis.codes is None else np.asarray(axis.codes, dtype=np.int64)[keys])
        counts: Floats = np.bincount(at, minlength=math.prod(shape)).astype(np.float64).reshape(shape)
        return counts


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
