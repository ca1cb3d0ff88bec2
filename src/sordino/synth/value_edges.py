"""Edges of wide numeric columns, found privately: runs that follow where the rows lie, and atoms with runs of their own.

A declared range is cut into a few runs of equal width, whose noisy counts say where the rows are; the runs that hold much are
cut again, and those that hold nothing to speak of are joined. Every access is a release of one-way counts, so the privacy
proof is the curator's, and the edges are released values. Knows no data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats, equal_runs

# Returns noisy tables of counts, each with the variance of its cells.
Count = Callable[[Sequence[ContingencyTable]], Sequence[tuple[Floats, float]]]

# The first level counts this many runs of equal width.
_FIRST = 64
# A run that holds most of the rows is cut into at least so many by the next level.
_FINER = 40
# A run that is denser than those beside it, and holds more than a share of all weight, is cut into at least so many.
_CLOSER = 12
_HEAVY = 0.02
# The weight of a column is spread over this many runs.
_RUNS = 96
# The most runs of a column, those that hold next to nothing included: an engine compares each cell with their edges.
_MOST = 240
# Deviations of noise from which on a count is taken to hold rows.
_SEEN = 3.0
# A single value keeps a run of its own from this many times what the density beside it explains.
_ATOM = 3.0
# A run that holds nothing ends at most so many times farther from the median than it begins.
_TAIL = 1.5


@dataclass(frozen=True, slots=True)
class CountedRuns:
    """The edges of a column in steps, and the noisy count of each run, with the deviation of the noise."""

    edges: tuple[int, ...]
    counts: Floats
    deviation: float

    @property
    def shown(self) -> Floats:
        """The counts that noise cannot explain, 0 for the others."""
        return np.where(self.counts > _SEEN * self.deviation, self.counts, 0.0)

    @property
    def widths(self) -> Codes:
        """The number of steps in each run; the last run holds its upper edge too."""
        edges = np.asarray(self.edges, dtype=np.int64)
        widths: Codes = edges[1:] - edges[:-1]
        widths[-1] += 1
        return widths


def find_edges(columns: Sequence[EncodedColumn], count: Count, *, levels: int) -> list[EncodedColumn]:
    """Return the columns, those cut into runs of equal width cut where their rows lie; `count` is called once a level."""
    wide = [i for i, c in enumerate(columns) if c.equally_cut]
    if not wide:
        return list(columns)
    cut = {i: equal_runs(columns[i].lowest, columns[i].highest, _FIRST) for i in wide}
    for level in range(levels):
        tables = [ContingencyTable((Axis(columns[i].name, cut[i], missing=columns[i].dropped),)) for i in wide]
        for i, (cells, variance) in zip(wide, count(tables), strict=True):
            runs = CountedRuns(cut[i], cells[: len(cut[i]) - 1], math.sqrt(variance))
            cut[i] = _cut_again(runs) if level + 1 < levels else _settle(runs)
    return [c.with_edges(cut[i]) if i in cut else c for i, c in enumerate(columns)]


def edge_levels(columns: Sequence[EncodedColumn]) -> int:
    """Return how often columns are counted to find their edges; 0 where none is wide."""
    return max((_levels(c) for c in columns if c.equally_cut), default=0)


def _levels(column: EncodedColumn) -> int:
    """Return how often a column is counted: until a run that held all rows would be cut to single values."""
    return 3 + max(0, math.ceil(math.log((column.highest - column.lowest + 1) / _FIRST) / math.log(_FINER)))


def weigh_runs(counts: Floats, middles: Floats) -> Floats:
    """Return each run's weight: half its share of the rows, half its share of the absolute deviation from the median.

    By mass alone one run would hold the whole tail of a skewed column, and with it the correlation.
    """
    total = float(counts.sum())
    if total <= 0:
        return np.full(len(counts), 1.0 / max(len(counts), 1))
    median = middles[int(np.searchsorted(np.cumsum(counts), total / 2.0))]
    deviations = counts * np.abs(middles - median)
    spread = float(deviations.sum())
    weights: Floats = counts / total if spread <= 0 else (counts / total + deviations / spread) / 2.0
    return weights


def _middles(edges: Sequence[int], widths: Codes) -> Floats:
    return np.asarray(edges[:-1], dtype=np.float64) + (widths - 1) / 2.0


def _cut_again(runs: CountedRuns) -> tuple[int, ...]:
    """Return finer edges where the rows are, at round numbers, and fewer where none show."""
    widths = runs.widths
    weights = weigh_runs(runs.shown, _middles(runs.edges, widths))
    made = set(_settle(runs))
    for at, (low, weight, width) in enumerate(zip(runs.edges, weights.tolist(), widths.tolist(), strict=False)):
        # A dense run may hold a single value that many rows share.
        closer = _CLOSER if weight > _HEAVY and _is_dense(runs, at) else 1
        pieces = min(max(math.ceil(weight * _RUNS), closer), width)
        if pieces > 1 and runs.counts[at] > _SEEN * runs.deviation:
            made |= _pieces(low, width, pieces)
    # The upper bound ends the last run and is a run of its own, as where the bounds alone cut a column.
    edges = (*sorted(made), runs.edges[-1])
    return edges if len(edges) <= _MOST else _thin(edges, runs)


def _pieces(low: int, width: int, pieces: int) -> set[int]:
    """Return cuts at multiples of a round step, about `pieces` of them, each with its first value apart."""
    high = low + width
    step = _round_up(width / pieces)
    if step <= 1:
        return set(range(low, high))
    starts = range(-(-low // step) * step, high, step)
    return {s for s in starts if s > low} | {s + 1 for s in starts if s + 1 < high}


def _round_up(least: float) -> int:
    """Return the least 1, 2 or 5 times a power of ten that is no less.

    >>> [_round_up(x) for x in (0.3, 1.2, 37, 600)]
    [1, 2, 50, 1000]
    """
    if least <= 1:
        return 1
    power = 10 ** math.floor(math.log10(least))
    return next(int(m * power) for m in (1, 2, 5, 10) if m * power >= least)


def _settle(runs: CountedRuns) -> tuple[int, ...]:
    """Return the edges of runs that hold rows, single values that stand out, and a few runs for the rest."""
    shown = runs.shown
    widths = runs.widths
    middles = _middles(runs.edges, widths)
    weights = weigh_runs(shown, middles)
    total = float(shown.sum())
    median = middles[int(np.searchsorted(np.cumsum(shown), total / 2.0))] if total > 0 else float(middles.mean())
    public = {runs.edges[0], runs.edges[-1], 0}
    apart = [w == 1 and (runs.edges[i] in public or _is_dense(runs, i)) for i, w in enumerate(widths.tolist())]
    edges = [runs.edges[0]]
    weight = float(weights[0])
    for at in range(1, len(shown)):
        start = runs.edges[at]
        near, far = sorted((abs(edges[-1] - median) + 1.0, abs(start + int(widths[at]) - median) + 1.0))
        empty = weight == 0.0
        ends = apart[at] or apart[at - 1] or (shown[at] == 0) != empty
        if ends or (far > _TAIL * near if empty else weight + weights[at] > 1.0 / _RUNS):
            edges.append(start)
            weight = 0.0
        weight += float(weights[at])
    return (*edges, runs.edges[-1])


def _is_dense(runs: CountedRuns, at: int) -> bool:
    """Return whether a run holds clearly more rows than the density of the runs beside it explains."""
    if runs.counts[at] <= _SEEN * runs.deviation:
        return False
    widths = runs.widths
    near = [i for i in (at - 1, at + 1) if 0 <= i < len(widths)]
    density = sum(max(float(runs.counts[i]), 0.0) for i in near) / max(sum(int(widths[i]) for i in near), 1)
    return bool(runs.counts[at] > _ATOM * density * widths[at])


def _thin(edges: Sequence[int], runs: CountedRuns) -> tuple[int, ...]:
    """Return as many edges as an engine should compare, those of the old runs first."""
    old = set(runs.edges)
    fresh = [e for e in edges if e not in old]
    keep = max(_MOST - len(old), 0)
    chosen = fresh[:: max(1, -(-len(fresh) // max(keep, 1)))]
    return (*sorted({*old, *chosen}), runs.edges[-1])
