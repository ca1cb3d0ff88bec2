"""Correlations of a synthetic table and its original, over bins of about equal mass. Sees tables of counts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.core.estimates.curve import normal_quantile
from sordino.synth.encoded_column import Floats
from sordino.synth.evaluation.table_counts import Counter, count_model, one_way_counts

if TYPE_CHECKING:
    from sordino.synth.encoded_column import Codes
    from sordino.synth.model import Model

# The bins of about equal mass that a correlation is over.
_BINS = 4
_MOST_COLUMNS = 12
# The reach of the noise at which a correlation of the table is not shown: it would be noise.
_UNCLEAR = 0.5

# A column, the bin of each of its keys, and the rank of each bin.
BinnedColumn = tuple[int, "Codes", Floats]


@dataclass(frozen=True, slots=True)
class Correlations:
    """Rank correlations over runs of about equal mass: the model's, the table's, and the query error at 95%."""

    columns: tuple[str, ...]
    synthetic: tuple[tuple[float, ...], ...]
    original: tuple[tuple[float | None, ...], ...]
    error: float

    @property
    def largest(self) -> float:
        """The largest difference, of the pairs that both have."""
        pairs = zip(self.synthetic, self.original, strict=True)
        return max((abs(a - b) for s, o in pairs for a, b in zip(s, o, strict=True) if b is not None), default=0.0)


def bin_columns(model: Model) -> list[BinnedColumn]:
    """Return the columns that have an order or two values, cut into at most four runs of about equal mass by the model.

    None where there are not two of them: a run of values counts as its rank, from -1 to 1.
    """
    places = [i for i, c in enumerate(model.parts.columns) if c.ordered or c.size - c.missing == 2]
    cut = [(i, *_bin_keys(model, i)) for i in places]
    usable = [one for one in cut if len(one[2]) > 1][:_MOST_COLUMNS]
    return usable if len(usable) > 1 else []


def compare_correlations(model: Model, cut: Sequence[BinnedColumn], counter: Counter) -> Correlations:
    """Return the rank correlations of columns that were cut into runs."""
    pairs = [(a, b) for a in range(len(cut)) for b in range(a + 1, len(cut))]
    columns = model.parts.columns
    tables = [ContingencyTable(tuple(columns[cut[side][0]].axis(cut[side][1]) for side in pair)) for pair in pairs]
    tables_counts = counter.counts(tables)
    model_values: Any = np.eye(len(cut))
    real: list[list[float | None]] = [[1.0 if i == j else None for j in range(len(cut))] for i in range(len(cut))]
    errors = []
    for (a, b), counts in zip(pairs, tables_counts, strict=True):
        ranks = cut[a][2], cut[b][2]
        model_value, _ = _correlation(count_model(model, [(cut[i][0], cut[i][1]) for i in (a, b)]), ranks, 0.0)
        value, deviation = _correlation(counts.cells, ranks, counts.variance)
        model_values[a, b] = model_values[b, a] = 0.0 if model_value is None else model_value
        unclear = deviation is not None and normal_quantile(0.95) * deviation > _UNCLEAR
        real[a][b] = real[b][a] = None if unclear else value
        errors.append(deviation)
    known_errors = [e for e in errors if e is not None]
    error = normal_quantile(0.95) * float(np.sqrt(np.mean(np.square(known_errors)))) if known_errors else math.inf
    names = tuple(columns[i].name for i, _, _ in cut)
    return Correlations(names, tuple(map(tuple, model_values.tolist())), tuple(map(tuple, real)), error)


def _bin_keys(model: Model, column: int) -> tuple[Codes, Floats]:
    """Return the run of each key (a missing value last, in its own) and the rank of each run of values."""
    keyed = model.parts.columns[column]
    size = keyed.size - keyed.missing
    mass = one_way_counts(model, column)[:size]
    whole = max(float(mass.sum()), 1e-9)
    middle = (np.cumsum(mass) - mass / 2.0) / whole
    raw = np.minimum((middle * _BINS).astype(np.int64), _BINS - 1) if keyed.ordered else np.arange(size)
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
    rows = p.sum(axis=1)
    columns = p.sum(axis=0)
    mx = float(rows @ x)
    my = float(columns @ y)
    vx = float(rows @ np.square(x - mx))
    vy = float(columns @ np.square(y - my))
    if vx <= 1e-6 or vy <= 1e-6:
        return None, None
    spread = math.sqrt(vx * vy)
    value = float((x - mx) @ p @ (y - my)) / spread
    weights = np.outer(x - mx, y - my)
    return min(max(value, -1.0), 1.0), math.sqrt(variance * float(np.square(weights).sum())) / (whole * spread)
