"""Every table of a size that a small universe allows, its neighbors, how far each moves the answer, and the farthest.

It enumerates multisets and evaluates a statistic on each; it knows none of the algorithms that find extremes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.errors import DeclarationError
from sordino.sensitivity.moves import Moves, moves_from
from sordino.sensitivity.statistics import Statistic, statistic_from
from sordino.sensitivity.universe import size_in, universe_from

__all__ = ["Neighborhood", "Neighborhoods", "list_neighborhoods", "list_values"]

Table = tuple[float, ...]

MOST_PAIRS = 200_000  # pairs of neighbors that are listed: seconds, and more than anyone reads


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """Hold one table, its answer, its neighbors with theirs, and its local sensitivity: the farthest of those."""

    table: Table
    answer: float
    neighbors: tuple[tuple[Table, float], ...]
    local: float


@dataclass(frozen=True, slots=True)
class Neighborhoods:
    """Hold every table of a size that a universe allows; `.value` is the global sensitivity, the largest local one.

    Tables of equal values are one, however many people hold them. `mark` says why this is NOT PRIVATE, or None.
    """

    universe: Table
    size: int
    query: str
    relation: str
    rows: tuple[Neighborhood, ...]
    mark: str | None = None

    @property
    def value(self) -> float:
        """The global sensitivity: the largest local one."""
        return max(row.local for row in self.rows)

    def attains(self, row: Neighborhood) -> bool:
        """Return whether a table moves as far as any."""
        return math.isclose(row.local, self.value, rel_tol=1e-12)

    def to_dict(self) -> dict[str, Any]:
        """Return the tables and their neighbors as JSON data."""
        rows = [
            {
                "table": list(row.table),
                "answer": row.answer,
                "neighbors": [{"table": list(t), "answer": a, "change": abs(a - row.answer)} for t, a in row.neighbors],
                "local": row.local,
                "attains": self.attains(row),
            }
            for row in self.rows
        ]
        return {"query": self.query, "size": self.size, "relation": self.relation, "global": self.value, "rows": rows}


def list_neighborhoods(
    query: str,
    universe: Sequence[float],
    *,
    size: int,
    neighbors: str,
    within: int | None = None,
    exactly: int | None = None,
    direction: str | None = None,
    ddof: int = 0,
) -> Neighborhoods:
    """Return every table of `size` records of a small universe with its neighbors, to see where a sensitivity comes from.

    The arguments are those of `global_sensitivity`, whose value is the largest local one here. Raises DeclarationError
    as that does, and where there are more than 200,000 pairs of neighbors in all. Takes time and memory in proportion
    to them.

    >>> found = list_neighborhoods("max", [1, 2, 3], size=2, neighbors="replace", within=1)
    >>> [(row.table, row.local) for row in found.rows], found.value
    ([((1, 2), 1.0), ((1, 3), 1.0), ((2, 3), 1.0)], 1.0)
    """
    values, statistic = universe_from(universe), statistic_from(query, ddof=ddof)
    moves = moves_from(
        neighbors=neighbors,
        within=within,
        exactly=exactly,
        direction=direction,
        size=size_in(size, values),
        universe_size=values.size,
    )
    rows = tuple(_enumerate(tuple(sorted(universe)), moves, statistic))
    return Neighborhoods(tuple(sorted(universe)), size, query, f"{neighbors}, {moves.words}", rows)


def _enumerate(whole: Table, moves: Moves, statistic: Statistic) -> Iterator[Neighborhood]:
    """Yield each table of the size that `moves` begin at, with its neighbors."""
    answers: dict[Table, float] = {}

    def answer(table: Table) -> float:
        if table not in answers:
            answers[table] = statistic.of(np.array(table, dtype=np.float64))
        return answers[table]

    left = MOST_PAIRS
    for table in _parts(whole, moves.size):
        reached: set[Table] = set()
        for other in _reach(table, _without(whole, table), moves.pairs):
            reached.add(other)
            left -= 1
            if left < 0:
                raise DeclarationError(
                    f"worlds are for small universes: this one of {len(whole):,} values has more than "
                    f"{MOST_PAIRS:,} pairs of neighbors; take a smaller universe, size or distance"
                )
        near = tuple((other, answer(other)) for other in sorted(reached - {table}, key=lambda t: (len(t), t)))
        here = answer(table)
        yield Neighborhood(table, here, near, max((abs(a - here) for _, a in near), default=0))


def _reach(table: Table, outside: Table, pairs: Sequence[tuple[int, int]]) -> Iterator[Table]:
    """Yield the tables that (removed, added) of `pairs` lead to, some of them several times."""
    for removed, added in pairs:
        for kept in _parts(table, len(table) - removed):
            for come in _parts(outside, added):
                yield tuple(sorted((*kept, *come)))


def list_values(table: Sequence[float], most: int) -> str:
    """Return a table in words, at most `most` of its values.

    >>> list_values((1.0, 2.5, 3), 8), list_values(range(9), 4)
    ('1, 2.5, 3', '0, 1, ..., 8')
    """
    words = [f"{value:.10g}" for value in table]
    if len(words) > most:
        words = [*words[: most - 2], "...", words[-1]]
    return ", ".join(words)


def _parts(values: Table, size: int) -> Iterator[Table]:
    """Yield each sub-multiset of sorted values once, as sorted tuples in order."""
    if size == 0:
        yield ()
        return
    for place in range(len(values) - size + 1):
        if place and values[place] == values[place - 1]:
            continue
        for rest in _parts(values[place + 1 :], size - 1):
            yield (values[place], *rest)


def _without(values: Table, table: Table) -> Table:
    """Return sorted values less those of a sub-multiset."""
    left, gone = [], list(table)
    for value in values:
        if gone and gone[0] == value:
            gone.pop(0)
        else:
            left.append(value)
    return tuple(left)
