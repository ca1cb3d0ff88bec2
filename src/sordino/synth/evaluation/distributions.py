"""Distributions of ordered columns: quantiles, tails and the largest difference, the original's beside synthetic rows'.

It sees tables of counts, noisy ones or NOT PRIVATE ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import ContingencyTable
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.synth.evaluation.cuts import Cuts, cut_by_mass, quantile_step, value_at
from sordino.synth.evaluation.figure import CONFIDENCE, Figure

if TYPE_CHECKING:
    from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
    from sordino.synth.evaluation.table_counts import Counter
    from sordino.synth.measurement import NoisyTable
    from sordino.synth.model import Model

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_MOST_COLUMNS = 12
# The cells of a column: at most, at least, and so many that each holds this many deviations of the noise.
_MOST_CELLS = 40
_LEAST_CELLS = 6
_CLEAR = 6.0


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile: that of synthetic rows, the original's, and the values between which the latter lies at 95%.

    `original` is None where the noise leaves every declared value possible.
    """

    level: float
    synthetic: Any
    original: Any
    lower: Any
    upper: Any


@dataclass(frozen=True, slots=True)
class Tail:
    """The share of rows "below" or "above" a value: that of synthetic rows, and the original's."""

    side: str
    value: Any
    synthetic: float
    original: Figure


@dataclass(frozen=True, slots=True)
class Distribution:
    """One column by itself, rows with a value alone: its cells, what they hold, quantiles, tails, the largest difference.

    `edges` are declared values, one more than there are cells; the last cell is closed. `reaches` are those of the noise of
    each of the original's shares at 95%, 0 where they are exact. `difference` is the largest of the two distribution
    functions (Kolmogorov and Smirnov).
    """

    column: str
    edges: tuple[Any, ...]
    synthetic: tuple[float, ...]
    original: tuple[float, ...]
    reaches: tuple[float, ...]
    quantiles: tuple[Quantile, ...]
    tails: tuple[Tail, ...]
    difference: Figure

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        cells = [Figure(o, r) for o, r in zip(self.original, self.reaches, strict=True)]
        return {
            "column": self.column,
            "difference": self.difference.to_dict(),
            "quantiles": [
                {"level": q.level, "synthetic": q.synthetic, "original": q.original, "between": [q.lower, q.upper]}
                for q in self.quantiles
            ],
            "tails": [
                {"side": t.side, "value": t.value, "synthetic": t.synthetic, "original": t.original.to_dict()}
                for t in self.tails
            ],
            "edges": list(self.edges),
            "synthetic": list(self.synthetic),
            "original": [cell.to_dict() for cell in cells],
        }


@dataclass(frozen=True, slots=True)
class SteppedColumn:
    """An ordered column of the model, and the steps of synthetic rows that have a value, in order."""

    place: int
    column: EncodedColumn
    steps: Codes


def ordered_columns(model: Model, keys: Sequence[Codes], steps: Sequence[Codes]) -> list[SteppedColumn]:
    """Return the first twelve columns with an order, and their synthetic values."""
    found: list[SteppedColumn] = []
    for i, column in enumerate(model.parts.columns):
        if column.ordered and len(found) < _MOST_COLUMNS:
            valued = keys[i] < column.value_count
            found.append(SteppedColumn(i, column, np.sort(steps[i][valued])))
    return found


def compare_distributions(model: Model, columns: Sequence[SteppedColumn], counter: Counter) -> tuple[Distribution, ...]:
    """Return each column's distribution, all counted at once; cells follow from synthetic rows and the loss."""
    deviation = math.sqrt(counter.variance(len(columns)))
    cells = _MOST_CELLS
    if deviation:
        cells = int(min(max(model.rows / (_CLEAR * deviation), _LEAST_CELLS), _MOST_CELLS))
    cuts = [cut_by_mass(c.column, c.steps, cells, LEVELS) for c in columns]
    all_counts = counter.counts([ContingencyTable((one.axis,)) for one in cuts])
    shown_rows = [counter.steps(c.place) for c in columns]
    return tuple(_compare(*one) for one in zip(columns, cuts, all_counts, shown_rows, strict=True))


def _compare(
    column: SteppedColumn, cuts: Cuts, counts: NoisyTable, rows_shown: tuple[Codes, Any] | None = None
) -> Distribution:
    """Return one column's figures; quantiles are exact where rows are shown."""
    exact = None if rows_shown is None else np.sort(rows_shown[0][~rows_shown[1]])
    original = counts.cells.ravel()[: cuts.cells]
    place = cuts.codes(column.steps, np.zeros(len(column.steps), dtype=bool))
    synthetic = np.bincount(place, minlength=cuts.cells)[: cuts.cells] / max(len(place), 1)
    cells = cuts.cells
    rows = float(original.sum())
    # below this many rows, their number is itself hidden
    hidden = rows <= 4.0 * math.sqrt(cells * counts.variance) or rows <= 0
    rows = max(rows, 1.0)
    shares = original / rows
    below = np.cumsum(shares)[:-1]
    seen = np.arange(1, cells)
    # the variance of a share below a cut: noise of the cells below it, and of those above, which the total holds
    deviations = np.sqrt(counts.variance * (np.square(1 - below) * seen + np.square(below) * (cells - seen))) / rows
    reaches = np.full(cells - 1, math.inf) if hidden else normal_quantile(CONFIDENCE) * deviations
    z_all = normal_quantile(1.0 - (1.0 - CONFIDENCE) / max(cells - 1, 1))
    together = np.full(cells - 1, math.inf) if hidden else z_all * deviations
    gaps = np.abs(below - np.cumsum(synthetic)[:-1])
    difference = Figure(float(gaps.max(initial=0.0)), float(together.max(initial=0.0)))
    share_reach = math.inf if hidden else normal_quantile(CONFIDENCE) * math.sqrt(counts.variance) / rows
    return Distribution(
        column.column.name,
        cuts.values(),
        tuple(synthetic.tolist()),
        tuple(shares.tolist()),
        (share_reach,) * cells,
        tuple(
            _quantile(column, cuts, below, reaches, level)
            if exact is None or not len(exact)
            else _exact_quantile(column, exact, level)
            for level in LEVELS
        )
        if len(column.steps)
        else (),
        tuple(_tails(column, cuts, below, np.minimum(np.cumsum(synthetic)[:-1], 1.0), reaches))
        if len(column.steps)
        else (),
        difference,
    )


def _exact_quantile(column: SteppedColumn, steps: Codes, level: float) -> Quantile:
    original = value_at(column.column, quantile_step(steps, level))
    return Quantile(level, value_at(column.column, quantile_step(column.steps, level)), original, original, original)


def _quantile(column: SteppedColumn, cuts: Cuts, below: Floats, reaches: Floats, level: float) -> Quantile:
    """Return a quantile: the original's is interpolated within the cell where its distribution function passes the level."""
    synthetic = value_at(column.column, quantile_step(column.steps, level))
    inner = cuts.edges[1:-1]
    # a cut is surely below the quantile, or surely above, where its share is further from the level than the noise reaches
    low = max((e for e, f, r in zip(inner, below, reaches, strict=True) if f + r < level), default=cuts.edges[0])
    high = min((e for e, f, r in zip(inner, below, reaches, strict=True) if f - r >= level), default=cuts.edges[-1])
    last = high if high == cuts.edges[-1] else max(high - 1, low)
    bounds = value_at(column.column, low), value_at(column.column, last)
    if not np.isfinite(reaches).all() or ((low, last) == (cuts.edges[0], cuts.edges[-1]) and cuts.cells > 1):
        return Quantile(level, synthetic, None, *bounds)
    rising = np.maximum.accumulate(np.concatenate([[0.0], below, [1.0]]))
    cell = int(np.searchsorted(rising[1:-1], level, side="left"))
    start, end = cuts.edges[cell], cuts.edges[cell + 1] - (cell + 1 < cuts.cells)
    inside = (level - rising[cell]) / max(rising[cell + 1] - rising[cell], 1e-12)
    step = start + round(min(max(inside, 0.0), 1.0) * max(end - start, 0))
    return Quantile(level, synthetic, value_at(column.column, min(max(step, low), last)), *bounds)


def _tails(column: SteppedColumn, cuts: Cuts, below: Floats, synthetic: Floats, reaches: Floats) -> list[Tail]:
    """Return the shares of rows below the 1% quantile of synthetic rows, and above the 99% quantile."""
    inner = np.asarray(cuts.edges[1:-1])
    lowest = quantile_step(column.steps, LEVELS[0])
    highest = quantile_step(column.steps, LEVELS[-1])
    tails = []
    at = np.flatnonzero(inner == lowest)
    if len(at):
        figure = Figure(float(below[at[0]]), float(reaches[at[0]]))
        tails.append(Tail("below", value_at(column.column, lowest), float(synthetic[at[0]]), figure))
    at = np.flatnonzero(inner == highest + 1)
    if len(at):
        figure = Figure(float(1 - below[at[0]]), float(reaches[at[0]]))
        tails.append(Tail("above", value_at(column.column, highest), float(1 - synthetic[at[0]]), figure))
    return tails
