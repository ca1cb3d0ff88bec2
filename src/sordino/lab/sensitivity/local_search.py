"""How far one given table can move, exactly and in polynomial time. It may not know other tables of its size.

A monotone statistic (sum, mean, quantiles) moves most when the lowest r records leave and the highest a come, or the
mirror: exchanging a record for a larger one never lowers it. A variance is convex in each record, so its largest value
keeps a prefix and a suffix of the sorted records that it may choose from, and its smallest value keeps a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.lab.sensitivity.moves import Moves
from sordino.lab.sensitivity.statistics import Statistic, between
from sordino.lab.sensitivity.universe import Floats, Places
from sordino.lab.sensitivity.variance import RunningSums, exact_running_sums


def farthest_neighbor(
    universe: Floats, statistic: Statistic, moves: Moves, table: Places, *, offset: Fraction = Fraction(0)
) -> Places:
    """Return the places of a neighbor of `table` whose answer lies farthest from that of `table`.

    The values are those of `universe`, each `offset` higher: that matters to sums of tables of two sizes alone.
    O(k^2 + N) for monotone statistics, O(k^3 N) for var and std, where k is the distance.
    """
    outside = np.delete(np.arange(universe.size), table)
    if statistic.kind in ("var", "std"):
        farthest = _variance(universe[table], universe[outside], statistic, moves)
    elif statistic.kind == "sum":
        farthest = _sum(universe[table], universe[outside], moves, offset)
    else:
        farthest = _monotone(universe[table], universe[outside], statistic, moves)
    remaining = np.concatenate([table[: farthest.low], table[farthest.high :]])
    if farthest.removes_ends:
        remaining = table[farthest.low : farthest.high]
    added = np.concatenate([outside[: farthest.first], outside[farthest.last :]])
    if farthest.adds_window:
        added = outside[farthest.first : farthest.last]
    return np.sort(np.concatenate([remaining, added]))


@dataclass(slots=True)
class _Found:
    """The best so far. Kept are [:low] + [high:], or [low:high]; added are [:first] + [last:], or [first:last]."""

    score: float | Fraction = -np.inf
    low: int = 0
    high: int = 0
    removes_ends: bool = False
    first: int = 0
    last: int = 0
    adds_window: bool = False


def _sum(inside: Floats, outside: Floats, moves: Moves, offset: Fraction) -> _Found:
    best = _Found()
    n = inside.size
    rest = outside.size
    most_removed = max(removed for removed, _ in moves.pairs)
    most_added = max(added for _, added in moves.pairs)
    for up in (True, False):
        leaving, coming = (inside, outside[::-1]) if up else (inside[::-1], outside)
        gone = exact_running_sums(leaving[:most_removed].tolist(), offset)
        come = exact_running_sums(coming[:most_added].tolist(), offset)
        for removed, added in moves.pairs:
            low, high = (removed, n) if up else (0, n - removed)
            first, last = (rest - added, rest) if up else (0, added)
            score = abs(come[added] - gone[removed])
            if score > best.score:
                best = _Found(score, low, high, True, first, last, True)
    return best


def _monotone(inside: Floats, outside: Floats, statistic: Statistic, moves: Moves) -> _Found:
    best = _Found()
    n = inside.size
    rest = outside.size
    # An offset moves no difference of means, but would cost digits in running sums.
    if statistic.kind == "mean":
        centre = inside.mean()
        inside = inside - centre
        outside = outside - centre
    now = statistic.of(inside)
    below = np.append(0.0, np.cumsum(inside))
    above = np.append(0.0, np.cumsum(outside))
    for removed, added in moves.pairs:
        size = n - removed + added
        for up in (True, False):
            low, high = (removed, n) if up else (0, n - removed)
            first, last = (rest - added, rest) if up else (0, added)
            if statistic.kind == "count":
                answer = float(size)
            elif statistic.kind == "quantile":
                answer = _quantile(inside[low:high], outside[first:last], statistic)
            else:
                answer = float(below[high] - below[low] + above[last] - above[first]) / size
            if abs(answer - now) > best.score:
                best = _Found(abs(answer - now), low, high, True, first, last, True)
    return best


def _quantile(remaining: Floats, added: Floats, statistic: Statistic) -> float:
    """Return the quantile of two sorted arrays together, without merging them; the second one is short."""
    places = np.searchsorted(remaining, added, side="right") + np.arange(added.size)
    low, high, share = statistic.positions(remaining.size + added.size)
    records = []
    for position in (low, high):
        before = int(np.searchsorted(places, position, side="left"))
        is_added = before < added.size and places[before] == position
        records.append(float(added[before] if is_added else remaining[position - before]))
    return between(records[0], records[1], share)


def _variance(inside: Floats, outside: Floats, statistic: Statistic, moves: Moves) -> _Found:
    best = _Found()
    n = inside.size
    rest = outside.size
    centre = inside.mean()
    mine = RunningSums(inside - centre)
    other = RunningSums(outside - centre)
    squares = float(mine.squares[-1] - mine.sums[-1] ** 2 / n)
    now = squares / (n - statistic.ddof)
    root = statistic.kind == "std"

    def variances(sums: Floats, second: Floats, size: int, sign: int) -> Floats:
        after = np.maximum(second - sums * sums / size, 0.0) / (size - statistic.ddof)
        return sign * (np.sqrt(after) - np.sqrt(now)) if root else sign * (after - now)

    for removed, added in moves.pairs:
        size = n - removed + added
        gone, gone_squares = mine.windows(removed)
        remaining = mine.sums[-1] - gone
        remaining_squares = mine.squares[-1] - gone_squares
        # The largest variance: a window leaves, and ends come.
        for first in range(added + 1):
            last = rest - (added - first)
            come, come_squares = other.ends(first, last)
            scores = variances(remaining + come, remaining_squares + come_squares, size, 1)
            place = int(scores.argmax())
            if scores[place] > best.score:
                best = _Found(float(scores[place]), place, place + removed, False, first, last, False)
        window, window_squares = other.windows(added)
        # The smallest variance: ends leave, and a window comes.
        for low in range(removed + 1):
            high = n - (removed - low)
            stay = mine.sums[high] - mine.sums[low]
            stay_squares = mine.squares[high] - mine.squares[low]
            scores = variances(stay + window, stay_squares + window_squares, size, -1)
            place = int(scores.argmax())
            if scores[place] > best.score:
                best = _Found(float(scores[place]), low, high, True, place, place + added, True)
    return best
