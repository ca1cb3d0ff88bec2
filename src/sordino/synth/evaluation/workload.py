"""A workload of random counts: how far a model's answers lie from the table's. Sees tables of counts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sordino.errors import QuestionRefused
from sordino.estimates.curve import normal_quantile
from sordino.queries.adaptive.marginal import ContingencyTable
from sordino.synth.arrays import Floats
from sordino.synth.evaluation.table_counts import Counter, count_model

if TYPE_CHECKING:
    from sordino.noise.rng import Rng
    from sordino.synth.arrays import Codes
    from sordino.synth.encoded_column import EncodedColumn
    from sordino.synth.model import Model

__all__ = ["BoxQuery", "SetError", "Workload", "evaluate_workload", "random_box_queries"]

BoxQuery = tuple[tuple[int, ...], "list[Codes]"]  # columns, and which keys of each are inside the box


@dataclass(frozen=True, slots=True)
class SetError:
    """How far the counts of a model over one set of columns lie off, what error it states, and its intervals' coverage."""

    columns: tuple[str, ...]
    cells: int
    error: float
    stated: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Workload:
    """The errors of random counts over sets of columns; `noise` is the deviation of asking, which errors are freed of."""

    sets: tuple[SetError, ...]
    noise: float

    @property
    def error(self) -> float:
        """The root mean square error over all, in rows."""
        weights = np.array([m.cells for m in self.sets], dtype=np.float64)
        return math.sqrt(float((weights * np.square([m.error for m in self.sets])).sum() / weights.sum()))

    @property
    def coverage(self) -> float:
        """The share of counts that the 95% interval covers, as far as the noise shows it."""
        cells = sum(m.cells for m in self.sets)
        return sum(m.coverage * m.cells for m in self.sets) / cells


def random_box_queries(
    model: Model, sets: Sequence[tuple[str, ...]], *, each: int, rng: Rng
) -> list[tuple[tuple[int, ...], list[Codes]]]:
    """Return random questions: for each set of columns, `each` times, a part of the keys of each of its columns."""
    place = {n: i for i, n in enumerate(model.columns)}
    for name in (n for names in sets for n in names):
        if name not in place:
            raise QuestionRefused(f"the model has no column {name!r}; it has {', '.join(place)}")
    chosen = [tuple(place[n] for n in names) for names in sets for _ in range(each)]
    return [(one, [_random_part(model.parts.columns[c], rng) for c in one]) for one in chosen]


def evaluate_workload(
    model: Model, questions: Sequence[tuple[tuple[int, ...], list[Codes]]], counter: Counter
) -> Workload:
    """Return how far the model's counts lie from the table's, inside and outside the part of each column."""
    columns = model.parts.columns
    tables = [
        ContingencyTable(tuple(columns[c].axis(part) for c, part in zip(chosen, parts, strict=True)))
        for chosen, parts in questions
    ]
    found = counter.counts(tables)
    noise = found[0].variance
    by_set: dict[tuple[int, ...], list[tuple[Floats, Floats]]] = {}
    for (chosen, parts), counts in zip(questions, found, strict=True):
        own = count_model(model, list(zip(chosen, parts, strict=True)))
        cells = np.arange(own.size).reshape(own.shape)
        stated = model.parts.errors.deviation(chosen, parts, np.ones(own.shape), cells, own.size)
        own = own.ravel()
        by_set.setdefault(chosen, []).append((counts.cells.ravel() - own, stated))
    sets = []
    for chosen, several in by_set.items():
        off, stated = (np.concatenate([one[i] for one in several]) for i in (0, 1))
        coverage = float((np.abs(off) <= normal_quantile(0.95) * np.sqrt(np.square(stated) + noise)).mean())
        error = math.sqrt(max(float(np.square(off).mean()) - noise, 0.0))
        names = tuple(columns[c].name for c in chosen)
        sets.append(SetError(names, len(off), error, float(np.sqrt(np.square(stated).mean())), coverage))
    return Workload(tuple(sets), math.sqrt(noise))


def _random_part(column: EncodedColumn, rng: Rng) -> Codes:
    """Return 1 for the keys in a random run of an ordered column, or in a random half of another; never all or none."""
    inside = np.zeros(column.size, dtype=np.int64)
    if column.size == 1:
        return inside
    if column.ordered:
        ends = sorted((rng.below(column.size), rng.below(column.size)))
        inside[ends[0] : ends[1] + 1] = 1
    else:
        inside[rng.uniform_doubles(column.size) < 0.5] = 1
    if inside.all() or not inside.any():
        at = rng.below(column.size)
        inside[at] = 1 - inside[at]
    return inside
