"""The oracle: sensitivities by enumeration of all tables. Slow, plain, and knows none of the algorithms it checks."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from sordino.lab.sensitivity.moves import Moves
from sordino.lab.sensitivity.statistics import Statistic
from sordino.lab.sensitivity.universe import Floats, Places


def cost(universe_size: int, moves: Moves, *, table: bool = False) -> int:
    """Return how many pairs of tables `enumerated` compares."""
    sizes = {moves.size - removed + added for removed, added in moves.pairs}
    return (1 if table else math.comb(universe_size, moves.size)) * sum(math.comb(universe_size, s) for s in sizes)


def enumerate_pairs(
    universe: Floats, statistic: Statistic, moves: Moves, *, table: Places | None = None
) -> tuple[float, Places, Places]:
    """Return the largest change of an answer over all pairs of neighbors, and the pair; `table` fixes the first.

    >>> from sordino.lab.sensitivity.moves import moves_from
    >>> from sordino.lab.sensitivity.statistics import statistic_from
    >>> moves = moves_from(neighbors="replace", within=1, exactly=None, direction=None, size=3, universe_size=5)
    >>> enumerate_pairs(np.array([1.0, 2, 3, 10, 11]), statistic_from("median", ddof=0), moves)[0]
    8.0
    """
    starts = _tables(universe.size, moves.size) if table is None else np.asarray([table], dtype=np.intp)
    before = _answers(universe, statistic, starts)
    inside = _members(starts, universe.size)
    best = (-1.0, starts[0], starts[0])
    for size in sorted({moves.size - removed + added for removed, added in moves.pairs}):
        ends = _tables(universe.size, size)
        after = _answers(universe, statistic, ends)
        removals = [removed for removed, added in moves.pairs if moves.size - removed + added == size]
        reached = _members(ends, universe.size)
        rows = max(1, 2_000_000 // len(ends))
        for first in range(0, len(starts), rows):
            removed = moves.size - inside[first : first + rows] @ reached.T
            change = np.abs(before[first : first + rows, None] - after[None, :])
            change[~np.isin(removed, removals)] = -1.0
            row, column = np.unravel_index(int(change.argmax()), change.shape)
            if change[row, column] > best[0]:
                best = (float(change[row, column]), starts[first + row], ends[column])
    return best


def _tables(universe_size: int, size: int) -> Places:
    return np.array(list(combinations(range(universe_size), size)), dtype=np.intp).reshape(
        math.comb(universe_size, size), size
    )


def _members(tables: Places, universe_size: int) -> Floats:
    members = np.zeros((len(tables), universe_size))
    np.put_along_axis(members, tables, 1.0, axis=1)
    return members


def _answers(universe: Floats, statistic: Statistic, tables: Places) -> Floats:
    values = universe[tables]
    if statistic.kind == "count":
        return np.full(len(tables), float(tables.shape[1]))
    if statistic.kind == "sum":
        return np.asarray(values.sum(axis=1))
    if statistic.kind == "mean":
        return np.asarray(values.mean(axis=1))
    if statistic.kind == "quantile":
        return np.asarray(np.quantile(values, statistic.q, axis=1))
    measure = np.var if statistic.kind == "var" else np.std
    return np.asarray(measure(values, axis=1, ddof=statistic.ddof))
