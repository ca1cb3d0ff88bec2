"""How well a model does: correlations, a workload of counts, a score of prediction - through a Queryable, or openly.

It sees tables of counts, noisy or NOT PRIVATE ones; it may not know a curator, an engine or a file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sordino.errors import QuestionRefused
from sordino.queries.adaptive.marginal import Table
from sordino.synth.access import Counts, released_counts
from sordino.synth.errors import kind_of, multiple
from sordino.synth.inference import joint
from sordino.synth.projection import Floats

if TYPE_CHECKING:
    from sordino.loss import Loss
    from sordino.noise.rng import Rng
    from sordino.synth.columns import Keyed
    from sordino.synth.model import Model
    from sordino.synth.sampler import Codes

__all__ = [
    "Answers",
    "Correlations",
    "Missed",
    "Open",
    "Paid",
    "Workload",
    "correlated",
    "cut_columns",
    "halves",
    "one_way",
    "worked",
]

_RUNS = 4  # runs of about equal mass that a correlation is over
_MOST_COLUMNS = 12
_UNCLEAR = 0.5  # the reach of the noise at which a correlation of the table is not shown: it would be noise


Cut = tuple[int, "Codes", Floats]  # a column, the run of each of its keys, the rank of each run


class Answers(Protocol):
    """A table that can be counted, privately or openly."""

    def counts(self, tables: Sequence[Table]) -> list[Counts]:
        """Return each table of counts, with the variance of its noise."""


@dataclass(frozen=True, slots=True)
class Paid:
    """Count a curator's table through its Queryable, all at once for one loss."""

    data: Any
    loss: Loss

    def counts(self, tables: Sequence[Table]) -> list[Counts]:
        """Return noisy tables of counts."""
        return released_counts(self.data, tables, self.loss)


@dataclass(frozen=True, slots=True)
class Open:
    """Count a table whose keys are known, NOT PRIVATE: the counts are exact."""

    model: Model
    keys: Sequence[Codes]

    def counts(self, tables: Sequence[Table]) -> list[Counts]:
        """Return exact tables of counts, rows with a cell that the declaration drops left out."""
        place = {n: i for i, n in enumerate(self.model.columns)}
        return [Counts(self._counted(table, [place[a.column] for a in table.axes]), 0.0) for table in tables]

    def _counted(self, table: Table, columns: Sequence[int]) -> Floats:
        shape = table.shape(self.model.parts.domain)
        kept = np.all([self.keys[c] >= 0 for c in columns], axis=0)
        at = np.zeros(int(kept.sum()), dtype=np.int64)
        for axis, column, size in zip(table.axes, columns, shape, strict=True):
            keys = self.keys[column][kept]
            at = at * size + (keys if axis.codes is None else np.asarray(axis.codes, dtype=np.int64)[keys])
        found: Floats = np.bincount(at, minlength=math.prod(shape)).astype(np.float64).reshape(shape)
        return found


# ---- correlations


@dataclass(frozen=True, slots=True)
class Correlations:
    """Rank correlations over runs of about equal mass: the model's, the table's, and the error of asking at 95%."""

    columns: tuple[str, ...]
    synthetic: tuple[tuple[float, ...], ...]
    original: tuple[tuple[float | None, ...], ...]
    error: float

    @property
    def largest(self) -> float:
        """The largest difference, of the pairs that both have."""
        pairs = zip(self.synthetic, self.original, strict=True)
        return max((abs(a - b) for s, o in pairs for a, b in zip(s, o, strict=True) if b is not None), default=0.0)


def cut_columns(model: Model) -> list[Cut]:
    """Return the columns that have an order or two values, cut into at most four runs of about equal mass by the model.

    None where there are not two of them: a run of values is told by its rank, from -1 to 1.
    """
    places = [i for i, c in enumerate(model.parts.columns) if c.ordered or c.size - c.missing == 2]
    cut = [(i, *_runs(model, i)) for i in places]
    found = [one for one in cut if len(one[2]) > 1][:_MOST_COLUMNS]
    return found if len(found) > 1 else []


def correlated(model: Model, cut: Sequence[Cut], answers: Answers) -> Correlations:
    """Return the rank correlations of columns that were cut into runs."""
    pairs = [(a, b) for a in range(len(cut)) for b in range(a + 1, len(cut))]
    columns = model.parts.columns
    tables = [Table(tuple(columns[cut[side][0]].coded(cut[side][1].tolist()) for side in pair)) for pair in pairs]
    asked = answers.counts(tables)
    made: Any = np.eye(len(cut))
    real: list[list[float | None]] = [[1.0 if i == j else None for j in range(len(cut))] for i in range(len(cut))]
    errors = []
    for (a, b), counts in zip(pairs, asked, strict=True):
        ranks = cut[a][2], cut[b][2]
        own, _ = _correlation(_model_counts(model, [(cut[i][0], cut[i][1]) for i in (a, b)]), ranks, 0.0)
        found, deviation = _correlation(counts.cells, ranks, counts.variance)
        made[a, b] = made[b, a] = 0.0 if own is None else own
        unclear = deviation is not None and multiple(0.95) * deviation > _UNCLEAR
        real[a][b] = real[b][a] = None if unclear else found
        errors.append(deviation)
    told = [e for e in errors if e is not None]
    error = multiple(0.95) * float(np.sqrt(np.mean(np.square(told)))) if told else math.inf
    names = tuple(columns[i].name for i, _, _ in cut)
    return Correlations(names, tuple(map(tuple, made.tolist())), tuple(map(tuple, real)), error)


def _runs(model: Model, column: int) -> tuple[Codes, Floats]:
    """Return the run of each key (a missing value last, in its own) and the rank of each run of values."""
    keyed = model.parts.columns[column]
    size = keyed.size - keyed.missing
    mass = one_way(model, column)[:size]
    whole = max(float(mass.sum()), 1e-9)
    middle = (np.cumsum(mass) - mass / 2.0) / whole
    raw = np.minimum((middle * _RUNS).astype(np.int64), _RUNS - 1) if keyed.ordered else np.arange(size)
    raw = np.maximum.accumulate(raw)
    runs = np.unique(raw, return_inverse=True)[1].ravel()
    totals = np.bincount(runs, weights=mass)
    ranks = 2.0 * (np.cumsum(totals) - totals / 2.0) / whole - 1.0
    if keyed.missing:
        runs = np.append(runs, runs.max() + 1)
    return runs, ranks


def _correlation(counts: Floats, ranks: tuple[Floats, Floats], variance: float) -> tuple[float | None, float | None]:
    """Return the correlation in a table, missing values left out, and its deviation from noise of this variance a cell."""
    x, y = ranks
    inner = counts[: len(x), : len(y)]
    whole = float(inner.sum())
    if whole <= 1.0:
        return None, None
    p = inner / whole
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    mx, my = float(rows @ x), float(columns @ y)
    vx, vy = float(rows @ np.square(x - mx)), float(columns @ np.square(y - my))
    if vx <= 1e-6 or vy <= 1e-6:
        return None, None
    spread = math.sqrt(vx * vy)
    value = float((x - mx) @ p @ (y - my)) / spread
    weights = np.outer(x - mx, y - my)
    return min(max(value, -1.0), 1.0), math.sqrt(variance * float(np.square(weights).sum())) / (whole * spread)


# ---- a workload


@dataclass(frozen=True, slots=True)
class Missed:
    """How far the model's counts over one set of columns lie off: root mean square in rows, what it states, how often held."""

    columns: tuple[str, ...]
    cells: int
    error: float
    stated: float
    held: float


@dataclass(frozen=True, slots=True)
class Workload:
    """The errors of random counts over sets of columns; `noise` is the deviation of asking, which errors are freed of."""

    missed: tuple[Missed, ...]
    noise: float

    @property
    def error(self) -> float:
        """The root mean square error over all, in rows."""
        weights = np.array([m.cells for m in self.missed], dtype=np.float64)
        return math.sqrt(float((weights * np.square([m.error for m in self.missed])).sum() / weights.sum()))

    @property
    def held(self) -> float:
        """The share of counts whose 95% interval held the count, as far as noise lets it be seen."""
        cells = sum(m.cells for m in self.missed)
        return sum(m.held * m.cells for m in self.missed) / cells


def halves(
    model: Model, sets: Sequence[tuple[str, ...]], *, each: int, rng: Rng
) -> list[tuple[tuple[int, ...], list[Codes]]]:
    """Return random questions: for each set of columns, `each` times, a part of the keys of each of its columns."""
    place = {n: i for i, n in enumerate(model.columns)}
    for name in (n for names in sets for n in names):
        if name not in place:
            raise QuestionRefused(f"the model has no column {name!r}; it has {', '.join(place)}")
    chosen = [tuple(place[n] for n in names) for names in sets for _ in range(each)]
    return [(one, [_part(model.parts.columns[c], rng) for c in one]) for one in chosen]


def worked(model: Model, questions: Sequence[tuple[tuple[int, ...], list[Codes]]], answers: Answers) -> Workload:
    """Return how far the model's counts lie from the table's, inside and outside the part of each column."""
    columns = model.parts.columns
    tables = [
        Table(tuple(columns[c].coded(part.tolist()) for c, part in zip(chosen, parts, strict=True)))
        for chosen, parts in questions
    ]
    found = answers.counts(tables)
    noise = found[0].variance
    by_set: dict[tuple[int, ...], list[tuple[Floats, Floats]]] = {}
    for (chosen, parts), counts in zip(questions, found, strict=True):
        own = _model_counts(model, list(zip(chosen, parts, strict=True))).ravel()
        kind = kind_of(chosen, model.parts.measured)
        stated = model.parts.errors.deviation(kind, own / max(float(own.sum()), 1.0))
        by_set.setdefault(chosen, []).append((counts.cells.ravel() - own, stated))
    missed = []
    for chosen, several in by_set.items():
        off, stated = (np.concatenate([one[i] for one in several]) for i in (0, 1))
        held = float((np.abs(off) <= multiple(0.95) * np.sqrt(np.square(stated) + noise)).mean())
        error = math.sqrt(max(float(np.square(off).mean()) - noise, 0.0))
        names = tuple(columns[c].name for c in chosen)
        missed.append(Missed(names, len(off), error, float(np.sqrt(np.square(stated).mean())), held))
    return Workload(tuple(missed), math.sqrt(noise))


def one_way(model: Model, column: int) -> Floats:
    """Return the model's count of each key of one column."""
    return _model_counts(model, [(column, np.arange(model.parts.columns[column].size))])


def _part(column: Keyed, rng: Rng) -> Codes:
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


def _model_counts(model: Model, chosen: Sequence[tuple[int, Codes]]) -> Floats:
    """Return the model's counts over classes of keys of a few columns."""
    parts = model.parts
    classes: list[Floats] = []
    for column, member in chosen:
        codes = parts.codes[column]
        table = np.zeros((codes.size, int(np.max(member)) + 1))
        np.add.at(table, (codes.codes, np.asarray(member)), parts.within[column])
        classes.append(table)
    return joint(parts.beliefs, [c for c, _ in chosen], [c.size for c in parts.codes], classes)
