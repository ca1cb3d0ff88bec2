"""Partition: what is known of the sorted values of one group, as counts on disjoint segments of a public lattice.

It may not know where the counts come from, nor draw any noise.
"""

from __future__ import annotations

import bisect
import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from sordino.core.mechanisms.tie_places import PARTS, cut, place_at, place_count

_NARROW = 2**62
# Ranks that are drawn with a chance of about exp(-20) at most are one piece: it bounds work, never the law.
_FAR = 20.0

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True)
class Partition:
    """The segments [first, last] of the lattice that have rows, in order, and how many rows lie below each.

    `below` has one entry more: all rows. A segment of one step is resolved; the gaps between segments have no rows.
    """

    first: Array
    last: Array
    below: Array

    @classmethod
    def of(cls, first: Array, last: Array, rows: Array) -> Partition:
        """Return the partition with these segments, in order, and the rows in each."""
        return cls(_lattice(first), _lattice(last), np.concatenate([[0], np.cumsum(rows, dtype=np.int64)]))

    @property
    def rows(self) -> int:
        """All rows."""
        return int(self.below[-1])

    def refine(self, segment: tuple[int, int], finer: Partition) -> Partition:
        """Return the partition with one of its segments, which holds at least a row, replaced by finer ones."""
        at = int(np.searchsorted(self.first, segment[0], "left"))
        rows = np.diff(self.below)
        joined = [(self.first, finer.first), (self.last, finer.last), (rows, np.diff(finer.below))]
        first, last, counts = (np.concatenate([old[:at], new, old[at + 1 :]]) for old, new in joined)
        return Partition.of(first, last, counts)

    def segment(self, value: int) -> int | None:
        """Return the place of the segment that `value` lies in, None in a gap."""
        at = int(np.searchsorted(self.first, value, "right")) - 1
        return at if at >= 0 and value <= int(self.last[at]) else None

    def gap(self, value: int) -> int:
        """Return the place in `below` of the rows below a value that no segment holds."""
        return int(np.searchsorted(self.first, value, "right"))

    def holding(self, rank: Fraction) -> tuple[int, int] | None:
        """Return the segment that holds the row of this rank, if it is not resolved, else None."""
        if not self.rows:
            return None
        at = min(int(np.searchsorted(self.below, float(rank), "right")), len(self.first)) - 1
        ends = int(self.first[at]), int(self.last[at])
        return None if ends[0] == ends[1] else ends


@dataclass(frozen=True, slots=True)
class RankProblem:
    """One selection: candidates between two values, the ranks they may have, and the rank aimed at, `parts` to a row.

    `parts` is a multiple of PARTS that makes the target a whole number. `rate` is the cost of one row of distance.
    `splits` says whether the place among ties is chosen too: then a value is `place_count()` candidates, of which the j-th
    puts cut(j) parts of each row that ties below it.
    """

    low: int
    high: int
    least: int
    most: int
    target: int
    parts: int
    rate: Fraction
    splits: bool

    @property
    def places(self) -> int:
        """Candidates a value."""
        return place_count() if self.splits else 1

    def clip(self, rank: int) -> int:
        """Return a rank in parts, moved to the nearest that the selection may have."""
        return min(max(rank, self.least), self.most)

    def distance(self, least: int, most: int) -> int:
        """Return the distance of the target from the ranks [least, most], in parts of a row."""
        return max(self.clip(least) - self.target, self.target - self.clip(most), 0)

    def rank(self, partition: Partition, at: int) -> int:
        """Return the rank below the segment at a place, in parts of a row."""
        return int(partition.below[at]) * self.parts


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of candidates, numbered value * places + place: none is nearer to the target than `distance`.

    `flat` says that each is at exactly that distance.
    """

    start: int
    size: int
    distance: int
    flat: bool


def pieces(partition: Partition, problem: RankProblem) -> list[Piece]:
    """Return pieces that cover the candidates once each, in order, fine where the target is near.

    Cuts are at every half of 1 / rate rows of distance; all that lies between two cuts is one piece.
    """
    start = int(np.searchsorted(partition.first, problem.low, "left"))
    end = int(np.searchsorted(partition.first, problem.high, "right"))
    edges = _edges(problem)
    nearest = np.searchsorted(partition.below[start : end + 1], np.array(edges, dtype=np.float64), "right") + start
    cuts = np.unique(np.clip(np.concatenate([[start, end], nearest - 1, nearest]), start, end)).tolist()
    covering: list[Piece] = []
    places = problem.places

    def add(first: int, last: int, least: int, most: int, *, flat: bool) -> None:
        if last >= first:
            covering.append(Piece(first * places, (last - first + 1) * places, problem.distance(least, most), flat))

    def next_first(i: int) -> int:
        return int(partition.first[i]) if i < end else problem.high + 1

    # the first cut is the start
    ranked = [(i, problem.rank(partition, i)) for i in cuts]
    add(problem.low, next_first(start) - 1, ranked[0][1], ranked[0][1], flat=True)
    for (i, below), (j, above) in itertools.pairwise(ranked):
        first = int(partition.first[i])
        last = int(partition.last[i])
        if j - i > 1:
            # several segments lie between two cuts
            add(first, next_first(j) - 1, below, above, flat=False)
            continue
        if first == last and problem.splits:
            covering += _within(first, below, above, problem, edges)
        else:
            add(first, last, below, above, flat=first == last)
        add(last + 1, next_first(j) - 1, above, above, flat=True)
    return covering


def _within(value: int, below: int, above: int, problem: RankProblem, edges: list[float]) -> list[Piece]:
    """Return the pieces of one value's places: where many rows tie, cut wherever an edge falls among them."""
    # What one part of each row adds to the rank.
    step = (above - below) // PARTS
    inside = edges[bisect.bisect_left(edges, below / problem.parts) : bisect.bisect_right(edges, above / problem.parts)]
    places = {place_at(min(max((int(e * problem.parts) - below) // step, 0), PARTS)) for e in inside}
    cuts = sorted({0, problem.places, *places})
    return [
        Piece(
            value * problem.places + a,
            b - a,
            problem.distance(below + step * cut(a), below + step * cut(b - 1)),
            flat=b - a == 1,
        )
        for a, b in itertools.pairwise(cuts)
    ]


def _edges(problem: RankProblem) -> list[float]:
    """Return ranks, in rows, to cut at; floats, since cuts do not change the law."""
    candidates = float(max(problem.high - problem.low + 1, 1)) * problem.places
    scale = 1 / float(problem.rate)
    steps = int(2 * (np.log(candidates) + _FAR)) + 2
    middle = problem.target / problem.parts
    return [middle + i * scale / 2 for i in range(-steps, steps + 1)]


def _lattice(values: Array) -> Array:
    """Return steps as 64-bit integers where they fit, else as Python integers."""
    if values.dtype != object:
        return values
    narrow = all(-_NARROW < int(v) < _NARROW for v in (values[:1].tolist() + values[-1:].tolist()))
    return values.astype(np.int64) if narrow else values
