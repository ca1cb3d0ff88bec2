"""Edges of wide numeric columns, found privately: runs that follow where the rows lie, and atoms with runs of their own.

A declared range is cut into a few runs of equal width, whose noisy counts say where the rows are. Runs that hold much are cut
again, into no more parts than the noise leaves clear; parts that show nothing of their own are joined, and the counts of all
levels are taken together. Every access is a release of one-way counts, so the privacy proof is the curator's, and the edges
are released values. Knows no data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.synth.encoded_column import MOST_KEYS, Codes, EncodedColumn, Floats, equal_runs

# Returns noisy tables of counts at a level, each with the variance of its cells.
Count = Callable[[Sequence[ContingencyTable], int], Sequence[tuple[Floats, float]]]

# The first level counts this many runs of equal width.
_FIRST = 64
# A run that holds most of the rows is cut into about so many by the next level, where there is little noise.
_FINER = 40
# The last levels each have so many times the information of the level before: the first need only tell where most rows are.
_GROWS = 2.0
_GROWN = 5
# A run that is denser than those beside it, and holds more than a share of all weight, is cut into at least so many.
_CLOSER = 12
_HEAVY = 0.02
# The weight of a column is spread over this many runs.
_RUNS = 96
# The most runs of a column, those that hold next to nothing included: an engine compares each cell with their edges.
_MOST = 240
# Deviations of noise from which on a count is taken to hold rows, a part to be denser than the rest of its run, and that the
# parts of a run which is cut hold in the mean.
_SEEN = 3.0
# A single value keeps a run of its own from this many times what the density beside it explains.
_ATOM = 3.0
# Deviations of noise from which on a value of a column of few is told apart from those beside it.
_CLEAR = 1.0
# A run far from the median ends at most so many times farther from it than it begins; what is nearer than this share of the
# mean deviation is not far.
_TAIL = 1.5
_NEAR = 0.5


@dataclass(frozen=True, slots=True)
class CountedRuns:
    """The edges of a column in steps, and about how many rows each run holds by the noisy counts of all levels.

    A run is a part of a whole that the level before counted (`wholes`, by number). The last count of each run had the variance
    `noise`; `variances` are those of the wholes, by all counts.
    """

    edges: tuple[int, ...]
    counts: Floats
    wholes: Codes
    noise: float
    variances: Floats

    @property
    def widths(self) -> Codes:
        """The number of steps in each run; the last run holds its upper edge too."""
        edges = np.asarray(self.edges, dtype=np.int64)
        widths: Codes = edges[1:] - edges[:-1]
        widths[-1] += 1
        return widths

    @property
    def middles(self) -> Floats:
        """The middle step of each run."""
        middles: Floats = np.asarray(self.edges[:-1], dtype=np.float64) + (self.widths - 1) / 2.0
        return middles

    @property
    def deviations(self) -> Floats:
        """The deviation of the noise in each count."""
        parts = np.bincount(self.wholes)[self.wholes]
        variances = self.noise * (1.0 - 1.0 / parts) + self.variances[self.wholes] / parts**2
        deviations: Floats = np.sqrt(variances)
        return deviations

    @property
    def shown(self) -> Floats:
        """The counts that noise cannot explain, 0 for the others."""
        return np.where(self.counts > _SEEN * self.deviations, self.counts, 0.0)

    @property
    def median(self) -> float:
        """The middle of the run that holds the median of what shows, or of all runs where nothing does."""
        shown = self.shown
        total = float(shown.sum())
        if total <= 0:
            return float(self.middles.mean())
        return float(self.middles[int(np.searchsorted(np.cumsum(shown), total / 2.0))])

    def variance(self, first: int, end: int) -> float:
        """Return the variance of the sum of the runs from `first` up to `end`.

        The k parts of a whole have independent noise, but for its mean, which is that of the whole: m of them vary by
        m v - (m / k)^2 (k v - V), with v the variance of each last count and V that of the whole.
        """
        start = int(self.wholes[first])
        taken = np.bincount(self.wholes[first:end] - start)
        parts = np.bincount(self.wholes)[start : start + len(taken)]
        known = parts * self.noise - self.variances[start : start + len(taken)]
        return float((taken * self.noise - np.square(taken / parts) * known).sum())

    def refine(self, edges: tuple[int, ...], cells: Floats, variance: float) -> CountedRuns:
        """Return runs at finer edges from fresh counts of them: the parts of each run are moved to agree with its count."""
        lows = np.asarray(edges[:-1], dtype=np.int64)
        wholes = np.searchsorted(np.asarray(self.edges[:-1], dtype=np.int64), lows, side="right") - 1
        parts = np.bincount(wholes, minlength=len(self.counts))
        sums = np.bincount(wholes, cells, minlength=len(self.counts))
        # By inverse variance; what was not counted before has an infinite one.
        before = np.square(self.deviations)
        fresh = parts * variance
        weight = np.divide(before, before + fresh, out=np.ones_like(before), where=np.isfinite(before))
        whole = np.where(weight == 1.0, sums, self.counts + weight * (sums - self.counts))
        counts = cells + ((whole - sums) / parts)[wholes]
        return CountedRuns(edges, counts, wholes, variance, weight * fresh)


def find_edges(columns: Sequence[EncodedColumn], count: Count, *, levels: int, noise: float) -> list[EncodedColumn]:
    """Return the columns, those cut into runs of equal width cut where their rows lie; `count` is called once a level.

    `noise` is about the deviation of the counts that follow, by which few values are told apart one by one.
    """
    wide = [i for i, c in enumerate(columns) if c.equally_cut]
    if not wide:
        return list(columns)
    cut = {i: equal_runs(columns[i].lowest, columns[i].highest, _FIRST) for i in wide}
    runs = {i: _uncounted(columns[i]) for i in wide}
    information = level_information(levels)
    for level in range(levels):
        tables = [ContingencyTable((Axis(columns[i].name, cut[i], missing=columns[i].dropped),)) for i in wide]
        for i, (cells, variance) in zip(wide, count(tables, level), strict=True):
            runs[i] = _settle(runs[i].refine(cut[i], cells[: len(cut[i]) - 1], variance))
            if level + 1 < levels:
                clear = _SEEN * math.sqrt(variance * information[level] / information[level + 1])
                cut[i] = _cut_again(runs[i], clear)
            else:
                finer = {*runs[i].edges[:-1], *_tail_cuts(runs[i]), *_clear_values(runs[i], _CLEAR * noise)}
                cut[i] = (*sorted(finer), runs[i].edges[-1])
    return [c.with_edges(cut[i]) if i in cut else c for i, c in enumerate(columns)]


def level_information(levels: int) -> list[float]:
    """Return about the information of each level's counts: even at first, and growing from one to the next at last."""
    return [_GROWS ** max(0, _GROWN - levels + level) for level in range(levels)]


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


def _uncounted(column: EncodedColumn) -> CountedRuns:
    """Return the whole column as one run that nothing is known of, apart from its upper bound."""
    edges = (column.lowest, column.highest, column.highest) if column.highest > column.lowest else (column.lowest,) * 2
    count = len(edges) - 1
    return CountedRuns(edges, np.zeros(count), np.arange(count), 0.0, np.full(count, math.inf))


def _cut_again(runs: CountedRuns, clear: float) -> tuple[int, ...]:
    """Return finer edges where the rows are, at round numbers: parts that hold `clear` rows in the mean, but for dense runs."""
    widths = runs.widths
    shown = runs.shown
    weights = weigh_runs(shown, runs.middles)
    edges = {*runs.edges[:-1], *_tail_cuts(runs)}
    for at, (low, weight, width) in enumerate(zip(runs.edges, weights.tolist(), widths.tolist(), strict=False)):
        # A dense run may hold a single value that many rows share.
        closer = _CLOSER if weight > _HEAVY and _is_dense(runs, at) else 1
        fewest = max(int(shown[at] / clear), 2)
        pieces = min(max(min(math.ceil(weight * _RUNS), fewest), closer), width)
        if pieces > 1 and shown[at] > 0:
            edges |= _pieces(low, width, pieces)
    # The upper bound ends the last run and is a run of its own, as where the bounds alone cut a column.
    finer = (*sorted(edges), runs.edges[-1])
    return finer if len(finer) <= _MOST else _thin(finer, runs)


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


def _clear_values(runs: CountedRuns, least: float) -> set[int]:
    """Return the values of a column of few, where they hold so many rows each in the mean of their run."""
    if runs.edges[-1] - runs.edges[0] >= MOST_KEYS:
        return set()
    clear = runs.shown >= least * runs.widths
    stretches = zip(runs.edges, runs.widths.tolist(), clear.tolist(), strict=False)
    return {step for low, width, is_clear in stretches if is_clear for step in range(low, low + width)}


def _tail_cuts(runs: CountedRuns) -> set[int]:
    """Return cuts within runs that end much farther from the median than they begin: rows are dense at the near end."""
    shown = runs.shown
    total = float(shown.sum())
    if total <= 0:
        return set()
    median = runs.median
    lows = np.asarray(runs.edges[:-1], dtype=np.float64)
    highs = lows + runs.widths
    distance = max(float(shown @ np.abs(runs.middles - median)) / total * _NEAR, 1.0)
    near = np.where((lows <= median) & (median < highs), 0.0, np.minimum(abs(lows - median), abs(highs - median)))
    far = np.maximum(abs(lows - median), abs(highs - median)) > _TAIL * np.maximum(near, distance)
    cuts: set[int] = set()
    while distance < max(median - runs.edges[0], runs.edges[-1] - median):
        for cut in (round(median - distance), round(median + distance)):
            at = int(np.searchsorted(lows, cut, side="right")) - 1
            if at >= 0 and far[at] and lows[at] < cut < highs[at]:
                cuts.add(cut)
        distance *= _TAIL
    return cuts


def _settle(runs: CountedRuns) -> CountedRuns:
    """Return the runs, joined but where a part is denser than the rest or holds much; single values that stand out stay."""
    public = {runs.edges[0], runs.edges[-1], 0}
    single = (runs.widths == 1).tolist()
    apart = [one and (runs.edges[i] in public or _is_dense(runs, i)) for i, one in enumerate(single)]
    bounds = [i for i in range(len(apart)) if i == 0 or apart[i] or apart[i - 1]]
    partition = _Partition(runs)
    starts = [
        at for first, end in zip(bounds, [*bounds[1:], len(apart)], strict=True) for at in partition.split(first, end)
    ]
    ends = [*starts[1:], len(apart)]
    counts = np.add.reduceat(runs.counts, starts)
    variances = np.array([runs.variance(first, end) for first, end in zip(starts, ends, strict=True)])
    edges = (*(runs.edges[at] for at in starts), runs.edges[-1])
    return CountedRuns(edges, counts, np.arange(len(starts)), 0.0, variances)


class _Partition:
    """Sums over stretches of runs, by which a stretch is split."""

    def __init__(self, runs: CountedRuns) -> None:
        self.runs = runs
        self.counts, self.widths, self.weights = (
            np.concatenate([[0.0], np.cumsum(each)])
            for each in (runs.counts, runs.widths, weigh_runs(runs.shown, runs.middles))
        )

    def split(self, first: int, end: int) -> list[int]:
        """Return the starts of the parts of a stretch of runs: split where densities differ most, as long as that shows.

        A stretch of one density is split at half of its weight where that is large, if both halves show.
        """
        if end - first < 2:
            return [first]
        at = np.arange(first + 1, end)
        share = (self.widths[at] - self.widths[first]) / (self.widths[end] - self.widths[first])
        beyond = self.counts[at] - self.counts[first] - share * (self.counts[end] - self.counts[first])
        noise = self.runs.noise * ((at - first) * np.square(1.0 - share) + (end - at) * np.square(share))
        contrasts = np.abs(beyond) / np.sqrt(np.maximum(noise, 1e-12))
        place = int(at[int(np.argmax(contrasts))])
        if contrasts.max() <= _SEEN:
            weight = self.weights[end] - self.weights[first]
            if weight <= 1.0 / _RUNS:
                return [first]
            place = int(at[np.argmin(np.abs(self.weights[at] - self.weights[first] - weight / 2.0))])
            if not (self._shows(first, place) and self._shows(place, end)):
                return [first]
        return [*self.split(first, place), *self.split(place, end)]

    def _shows(self, first: int, end: int) -> bool:
        return bool(self.counts[end] - self.counts[first] > _SEEN * math.sqrt(self.runs.variance(first, end)))


def _is_dense(runs: CountedRuns, at: int) -> bool:
    """Return whether a run holds clearly more rows than the density of the runs beside it explains."""
    deviations = runs.deviations
    if runs.counts[at] <= _SEEN * deviations[at]:
        return False
    widths = runs.widths
    near = [i for i in (at - 1, at + 1) if 0 <= i < len(widths)]
    share = float(widths[at]) / max(sum(int(widths[i]) for i in near), 1)
    expected = share * sum(max(float(runs.counts[i]), 0.0) for i in near)
    noise = math.hypot(float(deviations[at]), *(share * float(deviations[i]) for i in near))
    return bool(runs.counts[at] > _ATOM * expected and runs.counts[at] - expected > _SEEN * noise)


def _thin(edges: Sequence[int], runs: CountedRuns) -> tuple[int, ...]:
    """Return as many edges as an engine should compare, those of the old runs first."""
    old = set(runs.edges)
    fresh = [e for e in edges if e not in old]
    keep = max(_MOST - len(old), 0)
    chosen = fresh[:: max(1, -(-len(fresh) // max(keep, 1)))]
    return (*sorted({*old, *chosen}), runs.edges[-1])
