"""Correlations of a synthetic table and its original, by ranks and by values, over cells that follow from synthetic rows.

It sees tables of counts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.synth.encoded_column import label_of
from sordino.synth.evaluation.cuts import Cuts, cut_by_mass_and_distance
from sordino.synth.evaluation.figure import CONFIDENCE, Figure
from sordino.synth.evaluation.table_counts import Counter

if TYPE_CHECKING:
    from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
    from sordino.synth.model import Model

# The cells of a column: the error of a correlation grows with them, and fewer hide what lies within them.
_LEAST_CELLS = 4
_MOST_CELLS = 16
# The error of a correlation that decides how many there are, at 95%.
_AIM = 0.05
_MOST_COLUMNS = 12
# Pairs whose tables are shown.
_PAIRS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Correlations:
    """Correlations of pairs of columns, by `kind` "Spearman" (ranks) or "Pearson" (values): synthetic and original.

    `original` is None where the noise hides one; `figures` hold each with its reach. `error` is that of the noise, the root
    mean square over the pairs, at 95%.
    """

    columns: tuple[str, ...]
    synthetic: tuple[tuple[float, ...], ...]
    figures: tuple[tuple[Figure, ...], ...]
    error: float
    kind: str = "Spearman"

    @property
    def original(self) -> tuple[tuple[float | None, ...], ...]:
        """The original's correlations, None where the noise hides one."""
        return tuple(tuple(figure.shown for figure in row) for row in self.figures)

    @property
    def difference(self) -> Figure:
        """The largest difference of all pairs that the noise does not hide, else of all pairs, with its reach."""
        differences = [
            Figure(abs(s - f.value), f.reach, cap=2.0)
            for i, (row, figures) in enumerate(zip(self.synthetic, self.figures, strict=True))
            for s, f in zip(row[i + 1 :], figures[i + 1 :], strict=True)
            if not math.isnan(f.value)
        ]
        visible = [d for d in differences if d.shown is not None]
        if visible:
            return max(visible, key=lambda d: d.value)
        return max(differences, key=lambda d: d.most, default=Figure(math.nan, math.inf, cap=2.0))

    @property
    def largest(self) -> float:
        """The largest difference that the noise does not hide; 0 where it hides all."""
        return self.difference.shown or 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return each pair as JSON data."""
        pairs = [
            {"columns": [self.columns[i], self.columns[j]], "synthetic": self.synthetic[i][j], "original": f.to_dict()}
            for i, row in enumerate(self.figures)
            for j, f in enumerate(row)
            if i < j
        ]
        error = self.error if math.isfinite(self.error) else None
        return {"difference": self.difference.to_dict(), "error95": error, "pairs": pairs}


@dataclass(frozen=True, slots=True)
class PairTable:
    """The shares of rows in the cells of two columns, synthetic and original; a share that the noise hides is None.

    `labels` are those of the cells of each column: declared values, or the lower end of a run of them.
    """

    columns: tuple[str, str]
    labels: tuple[tuple[Any, ...], tuple[Any, ...]]
    synthetic: tuple[tuple[float, ...], ...]
    original: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class CorrelatedColumn:
    """A column that correlations are of: its place in the model, and the steps of synthetic rows, None where missing.

    Of a column of two values without an order, the steps are its keys.
    """

    place: int
    column: EncodedColumn
    steps: Codes
    absent: Any


@dataclass(frozen=True, slots=True)
class _Cells:
    """One column in cells: its axis, the cell of each synthetic row, the rank and the value of each cell, their labels."""

    axis: Axis
    codes: Codes
    ranks: Floats
    values: Floats
    labels: tuple[Any, ...]


def correlated_columns(model: Model, keys: Sequence[Codes], steps: Sequence[Codes]) -> list[CorrelatedColumn]:
    """Return the first twelve columns that have an order or two values; none where there are not two of them."""
    found: list[CorrelatedColumn] = []
    for i, column in enumerate(model.parts.columns):
        if (column.ordered or column.value_count == 2) and len(found) < _MOST_COLUMNS:
            absent = keys[i] >= column.value_count
            if len(np.unique(steps[i][~absent])) > 1:
                found.append(CorrelatedColumn(i, column, steps[i], absent))
    return found if len(found) > 1 else []


def compare_correlations(
    model: Model, columns: Sequence[CorrelatedColumn], counter: Counter
) -> tuple[Correlations, Correlations, tuple[PairTable, ...]]:
    """Return correlations by ranks and by values, and the tables of the pairs that are correlated most.

    Ranks are those of cells. Values are those of rows where the counter shows them, else of cells: the mean of the synthetic
    rows in each, so that what lies beyond them counts as if it lay among them.
    """
    pairs = [(a, b) for a in range(len(columns)) for b in range(a + 1, len(columns))]
    cells = _MOST_CELLS
    deviation = math.sqrt(counter.variance(len(pairs)))
    if deviation:
        # ranks from -1 to 1 have a mean square of a third, so k cells add k/3 deviations to a sum that n/3 rows make
        most = _AIM * max(model.rows, 1) / (normal_quantile(CONFIDENCE) * deviation)
        cells = int(min(max(most, _LEAST_CELLS), _MOST_CELLS))
    cut = [_cut(one, cells) for one in columns]
    counted = counter.counts([ContingencyTable((cut[a].axis, cut[b].axis)) for a, b in pairs])
    names = tuple(one.column.name for one in columns)
    tables = {}
    for (a, b), counts in zip(pairs, counted, strict=True):
        # a missing value is a cell of its own, after those that count here
        shape = len(cut[a].ranks), len(cut[b].ranks)
        valued = (cut[a].codes < shape[0]) & (cut[b].codes < shape[1])
        flat = cut[a].codes[valued] * shape[1] + cut[b].codes[valued]
        drawn = np.bincount(flat, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)
        tables[a, b] = drawn, counts.cells[: shape[0], : shape[1]], counts.variance
    spearman = _correlations(names, tables, [one.ranks for one in cut], "Spearman")
    pearson = _correlations(names, tables, [one.values for one in cut], "Pearson")
    shown_rows = [counter.steps(one.place) for one in columns]
    if None not in shown_rows:
        pearson = _exact_pearson(pearson, columns, [rows for rows in shown_rows if rows is not None])
    strengths = {
        (a, b): max(abs(made.synthetic[a][b]) + abs(made.figures[a][b].shown or 0.0) for made in (spearman, pearson))
        for a, b in pairs
    }
    strongest = sorted(pairs, key=lambda pair: -strengths[pair])[:_PAIRS_SHOWN]
    shown = [_pair_table((names[a], names[b]), (cut[a].labels, cut[b].labels), *tables[a, b]) for a, b in strongest]
    return spearman, pearson, tuple(shown)


def _cut(one: CorrelatedColumn, cells: int) -> _Cells:
    """Return a column in cells: by rows and distance from the median where it has an order, else its two values."""
    column = one.column
    if column.ordered:
        cuts, values = cut_by_mass_and_distance(column, one.steps[~one.absent], cells)
        codes = cuts.codes(one.steps, one.absent)
        return _Cells(cuts.axis, codes, _ranks(codes, cuts.cells), values, _labels(cuts))
    codes = np.where(one.absent, 2, one.steps)
    labels = tuple(str(label_of(column, key)) for key in range(2))
    return _Cells(column.axis(), codes, _ranks(codes, 2), np.array([0.0, 1.0]), labels)


def _labels(cuts: Cuts) -> tuple[Any, ...]:
    """Return the lower end of each cell."""
    return cuts.values()[:-1]


def _ranks(codes: Codes, cells: int) -> Floats:
    """Return the rank of each cell, from -1 to 1: twice the share of synthetic rows up to its middle, less 1."""
    mass = np.bincount(codes, minlength=cells)[:cells].astype(np.float64)
    whole = max(float(mass.sum()), 1.0)
    return 2.0 * (np.cumsum(mass) - mass / 2.0) / whole - 1.0


def _correlations(
    names: tuple[str, ...], tables: dict[tuple[int, int], tuple[Floats, Floats, float]], scores: list[Floats], kind: str
) -> Correlations:
    size = len(names)
    synthetic = [[1.0] * size for _ in names]
    figures = [[Figure(1.0)] * size for _ in names]
    for (a, b), (drawn, counts, variance) in tables.items():
        own, _ = correlation(drawn, (scores[a], scores[b]), 0.0)
        value, deviation = correlation(counts, (scores[a], scores[b]), variance)
        figure = Figure(value, normal_quantile(CONFIDENCE) * deviation if variance else 0.0)
        synthetic[a][b] = synthetic[b][a] = 0.0 if math.isnan(own) else own
        figures[a][b] = figures[b][a] = figure
    reaches = [figures[a][b].reach for a, b in tables if not math.isnan(figures[a][b].value)]
    error = float(np.sqrt(np.mean(np.square(reaches)))) if reaches else math.inf
    return Correlations(names, tuple(map(tuple, synthetic)), tuple(map(tuple, figures)), error, kind)


def _exact_pearson(
    pearson: Correlations, columns: Sequence[CorrelatedColumn], originals: Sequence[tuple[Codes, Any]]
) -> Correlations:
    """Return the correlations of the values themselves, of rows that have both."""
    drawn = [(one.steps, one.absent) for one in columns]
    synthetic, original = (
        [[_of_values(a, b) if i != j else 1.0 for j, b in enumerate(rows)] for i, a in enumerate(rows)]
        for rows in (drawn, originals)
    )
    figures = tuple(tuple(Figure(value) for value in row) for row in original)
    clean = tuple(tuple(0.0 if math.isnan(value) else value for value in row) for row in synthetic)
    return replace(pearson, synthetic=clean, figures=figures)


def _of_values(first: tuple[Codes, Any], second: tuple[Codes, Any]) -> float:
    both = ~(first[1] | second[1])
    x, y = (steps[both].astype(np.float64) for steps, _ in (first, second))
    if len(x) < 2 or not x.std() or not y.std():
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def correlation(counts: Floats, scores: tuple[Floats, Floats], variance: float) -> tuple[float, float]:
    """Return the correlation of two scores in a table of counts, and its deviation by noise of this variance a cell.

    The deviation is that of the first order of the noise (the delta method). Where the number of rows, or how far the
    scores vary, is itself within four deviations of 0, there is no first order: the correlation is then unknown, NaN.
    """
    x, y = scores
    whole = float(counts.sum())
    if whole <= 1.0 or whole <= 4.0 * math.sqrt(variance * counts.size):
        return math.nan, math.inf
    p = counts / whole
    x = x - float(p.sum(axis=1) @ x)
    y = y - float(p.sum(axis=0) @ y)
    vx = float(p.sum(axis=1) @ np.square(x))
    vy = float(p.sum(axis=0) @ np.square(y))
    noise_x = math.sqrt(variance * len(y) * float(np.sum(x**4))) / whole
    noise_y = math.sqrt(variance * len(x) * float(np.sum(y**4))) / whole
    if vx <= max(1e-9, 4.0 * noise_x) or vy <= max(1e-9, 4.0 * noise_y):
        return math.nan, math.inf
    zx = x / math.sqrt(vx)
    zy = y / math.sqrt(vy)
    value = float(zx @ p @ zy)
    slope = np.outer(zx, zy) - value / 2.0 * (np.square(zx)[:, None] + np.square(zy)[None, :])
    deviation = math.sqrt(variance * float(np.square(slope).sum())) / whole
    return min(max(value, -1.0), 1.0), deviation


def _pair_table(
    columns: tuple[str, str],
    labels: tuple[tuple[Any, ...], tuple[Any, ...]],
    drawn: Floats,
    counts: Floats,
    variance: float,
) -> PairTable:
    """Return the shares of both; a count that is no larger than the reach of its noise is None."""
    least = normal_quantile(CONFIDENCE) * math.sqrt(variance)
    whole = max(float(counts.sum()), 1.0)
    original = [[None if n <= least else float(n) / whole for n in row] for row in counts]
    synthetic = drawn / max(float(drawn.sum()), 1.0)
    return PairTable(columns, labels, tuple(map(tuple, synthetic.tolist())), tuple(map(tuple, original)))
