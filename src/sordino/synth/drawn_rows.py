"""Drawn rows while rules complete them: each column's steps and missing cells, and the law that new values are drawn by.

Knows released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.core.domain import Real
from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats, steps_of
from sordino.synth.expression_eval import ColumnCells

Mask = np.ndarray[Any, np.dtype[np.bool_]]

# The least weight of a key beside the others: what a rule leaves may have next to no rows in the model.
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class ColumnLaw:
    """How the present values of one column are drawn: the first step of each key, its width, and its share of the rows.

    A column without an order has a step for each key.
    """

    encoded: EncodedColumn
    starts: Codes
    widths: Codes
    weights: Floats

    @property
    def first(self) -> int:
        """The first step whose value lies within the declared bounds as it stands."""
        column = self.encoded.column
        least = int(self.starts[0])
        if isinstance(column, Real) and column.lower is not None:
            return max(least, math.ceil(column.lower / self.encoded.unit))
        return least

    @property
    def last(self) -> int:
        """The last such step."""
        column = self.encoded.column
        most = int(self.starts[-1] + self.widths[-1] - 1)
        if isinstance(column, Real) and column.upper is not None:
            return min(most, math.floor(column.upper / self.encoded.unit))
        return most

    def key_of(self, steps: Codes) -> Codes:
        """Return the key that holds each step."""
        keys: Codes = np.searchsorted(self.starts, steps, side="right") - 1
        return keys

    def runs_of(self, codes: Codes, keys: Codes) -> tuple[Codes, Codes]:
        """Return for each row the first and the last step of the keys that share the code of its key; `codes` are by key.

        Only keys that have rows in the model count: a tail that no row is drawn from may be as long as the declared bounds.
        """
        count = int(codes.max()) + 1
        low = np.full(count, self.last, dtype=np.int64)
        high = np.full(count, self.first, dtype=np.int64)
        likely = np.flatnonzero(self.weights > 0)
        of_values = codes[likely]
        np.minimum.at(low, of_values, self.starts[likely])
        np.maximum.at(high, of_values, self.starts[likely] + self.widths[likely] - 1)
        # A code of missing cells alone has no run: all values are open to what is drawn in their place.
        low, high = np.where(low > high, self.first, low), np.where(low > high, self.last, high)
        return low[codes[keys]], high[codes[keys]]

    def draw(self, low: Codes, high: Codes, rng: Rng) -> Codes:
        """Return a step in [low, high] for each row, by the law of the column within it.

        Where the law has nothing there, the step is drawn evenly between two parts of it, and beyond its last or before its
        first rows the nearest step is taken: a tail without rows may be as long as the declared bounds.
        """
        below = np.concatenate([[0.0], np.cumsum(self.weights)])
        start, end = self._share_below(low, below), self._share_below(high + 1, below)
        uniform = rng.uniform_doubles(len(low))
        at = start + uniform * (end - start)
        keys = np.clip(np.searchsorted(below, at, side="right") - 1, 0, len(self.starts) - 1)
        within = (at - below[keys]) / np.maximum(self.weights[keys], 1e-300) * self.widths[keys]
        by_law = self.starts[keys] + np.floor(np.clip(within, 0.0, self.widths[keys] - 1.0)).astype(np.int64)
        evenly = low + np.floor(uniform * (high - low + 1)).astype(np.int64)
        evenly = np.where(start >= below[-1] - _LEAST, low, np.where(end <= _LEAST, high, evenly))
        drawn: Codes = np.clip(np.where(end - start > _LEAST, by_law, evenly), low, high)
        if self.encoded.heaps is None:
            return drawn
        # A round value of the same run, where the column has heaps and it lies within.
        heaped = steps_of(self.encoded, self.key_of(drawn), rng)
        return np.where((heaped >= low) & (heaped <= high), heaped, drawn)

    def _share_below(self, steps: Codes, below: Floats) -> Floats:
        keys = np.clip(self.key_of(steps), 0, len(self.starts) - 1)
        inside = np.clip((steps - self.starts[keys]) / self.widths[keys], 0.0, 1.0)
        shares: Floats = below[keys] + inside * self.weights[keys]
        return shares


def column_law(encoded: EncodedColumn, counts: Floats | None = None) -> ColumnLaw:
    """Return the law of a column by the counts of its keys; without counts each key weighs the same."""
    if encoded.edges is None:
        starts = np.arange(encoded.value_count) + (encoded.lowest if encoded.ordered else 0)
        widths = np.ones(encoded.value_count, dtype=np.int64)
    else:
        edges = np.asarray(encoded.edges, dtype=np.int64)
        starts = edges[:-1]
        widths = np.diff(edges)
        widths[-1] += 1
    shares = np.ones(len(starts)) if counts is None else np.maximum(counts[: len(starts)], 0.0)
    total = float(shares.sum())
    weights = shares / total if total > 0 else np.full(len(starts), 1.0 / max(len(starts), 1))
    return ColumnLaw(encoded, starts, widths, weights)


@dataclass(slots=True)
class DrawnRows:
    """Rows by column: steps, missing cells, and the runs [low, high] of steps whose code was drawn.

    `derived` are the columns that follow from another, with the key for each key of that one.
    """

    laws: Mapping[str, ColumnLaw]
    steps: dict[str, Codes]
    missing: dict[str, Mask]
    low: dict[str, Codes]
    high: dict[str, Codes]
    derived: Mapping[str, tuple[str, Codes]]
    rng: Rng

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(next(iter(self.steps.values())))

    def take(self, at: Codes) -> DrawnRows:
        """Return copies of some rows."""
        steps, low, high = ({n: c[at] for n, c in by_name.items()} for by_name in (self.steps, self.low, self.high))
        missing = {n: c[at] for n, c in self.missing.items()}
        return DrawnRows(self.laws, steps, missing, low, high, self.derived, self.rng)

    def keys(self, name: str) -> Codes:
        """Return the key of each row in a column, the last one where it is missing."""
        law = self.laws[name]
        keys: Codes = np.where(self.missing[name], law.encoded.size - 1, law.key_of(self.steps[name]))
        return keys

    def cells(self, names: Sequence[str], at: Codes | None = None) -> dict[str, ColumnCells]:
        """Return the cells of some columns, of all rows or of those at `at`, with the one step that each holds."""
        cells: dict[str, ColumnCells] = {}
        for name in names:
            rows = slice(None) if at is None else at
            steps = self.steps[name][rows]
            exact = steps.astype(np.float64)
            missing = self.missing[name][rows]
            law = self.laws[name]
            keys = np.where(missing, law.encoded.size - 1, law.key_of(steps))
            cells[name] = ColumnCells(law.encoded, keys, missing, exact, exact)
        return cells

    def set_keys(self, name: str, at: Codes, keys: Codes) -> None:
        """Give rows a key of a column: its step, or one drawn from its run, and what follows from it."""
        law = self.laws[name]
        missing = keys >= law.encoded.value_count
        place = np.minimum(keys, law.encoded.value_count - 1)
        if law.encoded.heaps is None:
            steps = law.starts[place] + np.floor(self.rng.uniform_doubles(len(at)) * law.widths[place]).astype(np.int64)
        else:
            steps = steps_of(law.encoded, place, self.rng)
        self.steps[name][at] = np.clip(steps, law.first, law.last)
        self.missing[name][at] = missing
        self.derive(name, at)

    def set_steps(self, name: str, at: Codes, steps: Codes) -> None:
        """Give rows a step of a column, and what follows from it."""
        self.steps[name][at] = steps
        self.missing[name][at] = False
        self.derive(name, at)

    def derive(self, name: str, at: Codes) -> None:
        """Give rows, in all columns that follow from one, what its keys say."""
        for column, (of, table) in self.derived.items():
            if of != name or column not in self.steps:
                continue
            law = self.laws[column]
            keys = table[self.keys(name)[at]]
            self.steps[column][at] = law.starts[np.minimum(keys, law.encoded.value_count - 1)]
            self.missing[column][at] = keys >= law.encoded.value_count

    def copy_from(self, other: DrawnRows, names: Sequence[str], at: Codes, source: Codes) -> None:
        """Copy some columns of rows of `other` to rows of these."""
        for name in names:
            self.steps[name][at] = other.steps[name][source]
            self.missing[name][at] = other.missing[name][source]


def empty_rows(
    laws: Mapping[str, ColumnLaw], derived: Mapping[str, tuple[str, Codes]], count: int, rng: Rng
) -> DrawnRows:
    """Return rows drawn from each column's own law, with no missing cell but where nothing else is declared."""
    steps: dict[str, Codes] = {}
    missing: dict[str, Mask] = {}
    low: dict[str, Codes] = {}
    high: dict[str, Codes] = {}
    for name, law in laws.items():
        low[name] = np.full(count, law.first, dtype=np.int64)
        high[name] = np.full(count, law.last, dtype=np.int64)
        steps[name] = law.draw(low[name], high[name], rng)
        missing[name] = np.zeros(count, dtype=bool)
    rows = DrawnRows(laws, steps, missing, low, high, derived, rng)
    for name in laws:
        rows.derive(name, np.arange(count))
    return rows
