"""Heaps of wide columns, found privately: round values that more rows share than the values beside them.

Which of a column's sets of round values hold more rows than their part of each run explains is told by one table a column: a
row counts in its part of the column and in the smallest set that holds its value. Runs of a single value are left out: their
rows lie where they lie. The table is a release of one-way counts, so the privacy proof is the curator's. Knows no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats, Heaps, points_in_runs, round_sets_of

Mask = np.ndarray[Any, np.dtype[np.bool_]]

# The most parts of a column: small values may be round otherwise than large ones.
_PARTS = 4
# Rows of a part in the mean, in deviations of a count: with fewer the parts are joined.
_CLEAR = 60.0
# Rows of a table, in deviations of a count, below which no heap would show.
_WORTH = 12.0
# Deviations of noise, and a share of the rows, by which the rows of a set exceed what is expected where it is a heap.
_SEEN = 4.0
_LEAST = 0.01
# Deviations of noise below which the rows beside a heap are taken for none.
_HIDDEN = 2.0
_ROUNDS = 60
_TINY = 1e-12
# Sizes of lumps that are told apart.
_SIZES = 100


@dataclass(frozen=True, slots=True)
class HeapSearch:
    """The parts of a column that may have heaps: the step at which each begins."""

    column: EncodedColumn
    starts: tuple[int, ...]

    @property
    def table(self) -> ContingencyTable:
        """The question: counts by part and smallest set, after one cell for the rows in runs of a single value."""
        lows, highs = self.column.runs
        cells = 1 + len(round_sets_of(self.column))
        first = 1 + cells * self._parts
        codes = np.where((highs > lows)[:, None], first[:, None] + np.arange(cells), 0)
        return ContingencyTable(
            (Axis(self.column.name, self.column.edges, tuple(codes.ravel().tolist()), rounded=True),)
        )

    @property
    def _parts(self) -> Codes:
        """The part of each run."""
        return np.searchsorted(np.asarray(self.starts), self.column.runs[0], side="right") - 1

    def find(self, counts: Floats, noise: float, cells: Floats, variance: float) -> EncodedColumn:
        """Return the column with the heaps that show and its lump, from the counts of its runs and those of the table.

        `noise` and `variance` are the variances of each.
        """
        lows, highs = self.column.runs
        sets = round_sets_of(self.column)
        several = highs > lows
        measured = cells[1:].reshape(len(self.starts), 1 + len(sets))
        points = points_in_runs(self.column, range(1 + len(sets))) * several[:, None]
        for number, one in enumerate(sets, 1):
            points[:, one.within] -= points[:, number]
        holds = np.eye(1 + len(sets), dtype=bool)
        for number, one in enumerate(sets, 1):
            holds[:, number] |= holds[:, one.within]
        parts = self._parts
        rows = np.where(several, counts[: len(lows)], 0.0)
        equal = np.ones(1 + len(sets))

        def law_of(inside: Floats, cells: Floats, parts: int) -> _SetLaw:
            uncertain = noise * max(int((inside > 0).sum()), 1)
            return _SetLaw(points, holds, inside, uncertain, cells, variance * parts, (0,), equal)

        whole = law_of(rows, measured.sum(axis=0), len(measured)).look()
        laws = [
            law_of(np.where(parts == part, rows, 0.0), cells_of_part, 1) for part, cells_of_part in enumerate(measured)
        ]
        if len(whole.chosen) == 1:
            return replace(self.column, lump=_lump(laws))
        laws = [replace(law, chosen=whole.chosen, weights=whole.weights).look(again=True) for law in laws]
        chosen = tuple(sorted({number for law in laws for number in law.chosen}))
        around = [0, *(one.within for one in sets)]
        weights = tuple(tuple(max(law.beyond(n, around[n]), 0.0) for n in chosen) for law in laws)
        return replace(self.column, heaps=Heaps(self.starts, chosen, weights), lump=_lump(laws))


@dataclass(frozen=True, slots=True)
class _SetLaw:
    """How the rows of some runs spread over sets: a value has the weight of the smallest of the `chosen` sets that holds it.

    `points` count, for each run, the values whose smallest set has each number; `holds[i, j]` says that set i holds set j.
    `rows` are those of the runs, whose sum has the variance `uncertain`; `measured` those of the sets, each of `variance`.
    """

    points: Floats
    holds: Mask
    rows: Floats
    uncertain: float
    measured: Floats
    variance: float
    chosen: tuple[int, ...]
    weights: Floats

    @property
    def _expected(self) -> Floats:
        """The rows expected in each smallest set; a run without any value of weight has none."""
        mass = self.points * self.weights
        whole = mass.sum(axis=1)
        expected: Floats = np.divide(self.rows, whole, out=np.zeros_like(self.rows), where=whole > _TINY) @ mass
        return expected

    @property
    def residuals(self) -> Floats:
        """What is measured in each smallest set beyond what is expected, the variance of it for lumps of one row, its noise."""
        expected = self._expected
        mass = self.points * self.weights
        shares = mass / np.maximum(mass.sum(axis=1, keepdims=True), _TINY)
        unit = np.maximum(self.rows, 0.0) @ (shares * (1.0 - shares))
        noise = self.variance + self.uncertain * np.square(expected / max(float(self.rows.sum()), 1.0))
        residuals: Floats = np.stack([self.measured - expected, unit, noise])
        return residuals

    def look(self, *, again: bool = False) -> _SetLaw:
        """Return the law with the sets whose rows show beyond what is expected, the clearest first.

        The rows of a heap are taken to spread evenly over its set, so each smallest set in it counts by its share: the linear
        estimate of least variance. With `again` sets that are chosen already get new weights where their rows differ.
        """
        law = self
        total = max(float(self.rows.sum()), 1.0)
        for _ in range(len(self.measured)):
            expected = law._expected
            smallest = self._smallest(law.chosen)
            # What lies in a smaller set that is chosen says nothing of this one.
            own = self.holds & (smallest == smallest[:, None])
            shares = own * (expected + _TINY * self.points.sum(axis=0))
            shares /= np.maximum(shares.sum(axis=1, keepdims=True), _TINY)
            squares = np.square(shares).sum(axis=1)
            beyond = shares @ (self.measured - expected)
            noise = self.variance * squares + self.uncertain * np.square(shares @ expected / total)
            known = np.zeros(len(squares), dtype=bool)
            known[list(law.chosen)] = True
            size = np.where(known & again, np.abs(beyond), np.where(known, 0.0, beyond))
            clear = np.where(size > _LEAST * total * squares, size / np.sqrt(np.maximum(noise, _TINY)), 0.0)
            best = int(np.argmax(clear))
            if clear[best] <= _SEEN:
                break
            law = law._fit((*law.chosen, best))
            again = False
        return law

    def _fit(self, chosen: Sequence[int]) -> _SetLaw:
        """Return the law whose chosen sets hold the rows that were measured in them, by proportional fitting."""
        chosen = tuple(sorted(set(chosen)))
        smallest = self._smallest(chosen)
        groups = (smallest == np.array(chosen)[:, None]) * (self._expected + _TINY * self.points.sum(axis=0))
        groups /= np.maximum(groups.sum(axis=1, keepdims=True), _TINY)
        squares = np.maximum(np.square(groups).sum(axis=1), _TINY)
        counts = groups @ self.measured / squares
        variances = self.variance / squares
        shown = counts >= _HIDDEN * np.sqrt(variances)
        # All rows together are known better than the sum of these.
        total = float(self.rows.sum())
        variances = np.where(shown, variances, 0.0)
        left = total - float(counts[shown].sum())
        goals = np.where(shown, np.maximum(counts + variances * left / (variances.sum() + self.uncertain), 0.0), 0.0)
        if goals.sum() <= 0:
            return self
        goals *= total / goals.sum()
        law = replace(self, chosen=chosen, weights=np.ones(len(self.measured)))
        for _ in range(_ROUNDS):
            expected = np.bincount(smallest, law._expected, len(self.measured))[list(chosen)]
            ratios = np.ones(len(self.measured))
            ratios[list(chosen)] = np.divide(goals, expected, out=np.ones_like(goals), where=expected > _TINY)
            weights = law.weights * ratios[smallest]
            law = replace(law, weights=weights / max(float(weights.max()), _TINY))
        return law

    def _smallest(self, chosen: Sequence[int]) -> Codes:
        """Return for each set the smallest of the chosen ones that holds it: the last, as larger sets come first."""
        numbers = np.array([[n if self.holds[n, at] else 0 for n in chosen] for at in range(len(self.measured))])
        smallest: Codes = numbers.max(axis=1)
        return smallest

    def beyond(self, number: int, within: int) -> float:
        """Return the weight of a set's values beyond that of the set around it; all steps, number 0, have none around."""
        if number not in self.chosen:
            return 0.0
        return float(self.weights[number] - (self.weights[within] if number else 0.0))


def _lump(laws: Sequence[_SetLaw]) -> float:
    """Return about how many rows share a value, from what the laws of a column's parts leave unexplained of its sets.

    With lumps of m rows at random values, the rows of a run of n rows within a set that has the share q of its values vary by
    n m q (1 - q). The mean of m over its likelihood, all residuals taken as normal, under a prior that is flat in its logarithm.
    """
    residuals, units, noises = np.concatenate([law.residuals for law in laws], axis=1)
    sizes = np.geomspace(1.0, max(sum(float(law.rows.sum()) for law in laws), 2.0), _SIZES)
    variances = np.outer(sizes, units) + np.maximum(noises, _TINY)
    log = -0.5 * (np.log(variances) + np.square(residuals) / variances).sum(axis=1)
    likelihood = np.exp(log - log.max())
    return float(likelihood @ sizes / likelihood.sum())


def plan_searches(columns: Sequence[EncodedColumn], rows: float, deviation: float) -> dict[int, HeapSearch]:
    """Return how to look for heaps in columns of about so many rows, by place; none where noise of this deviation hides all."""
    if rows < _WORTH * deviation:
        return {}
    parts = int(min(max(rows / (_CLEAR * deviation), 1), _PARTS))
    return {i: HeapSearch(c, _part_starts(c, parts)) for i, c in enumerate(columns) if may_heap(c)}


def may_heap(column: EncodedColumn) -> bool:
    """Return whether a column was cut where its rows lie, and has runs that hold round values and others."""
    if not column.released or not round_sets_of(column):
        return False
    lows, highs = column.runs
    return bool((highs > lows).any())


def _part_starts(column: EncodedColumn, parts: int) -> tuple[int, ...]:
    """Return where each part begins: as many runs of several values each, which hold about as much."""
    lows, highs = column.runs
    several = lows[highs > lows]
    starts = [int(some[0]) for some in np.array_split(several, parts) if len(some)]
    return (int(lows[0]), *starts[1:])
