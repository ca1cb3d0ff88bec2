"""Every table of a size that a small universe allows, its neighbors, how far each moves the answer, and the farthest.

It enumerates multisets and evaluates a statistic on each; it knows none of the algorithms that find extremes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number
from sordino.core.text_table import align_cells, html_table
from sordino.lab.sensitivity.moves import Moves, moves_from
from sordino.lab.sensitivity.statistics import Statistic, TableFunction, statistic_from
from sordino.lab.sensitivity.universe import exact_universe_from, format_value, size_in

if TYPE_CHECKING:
    import pyarrow as pa

Table = tuple[float, ...]

SHOWN_TABLES = 40
SHOWN_NEIGHBORS = 8
# Pairs of neighbors that are listed: they take seconds, and are more than anyone reads.
MOST_PAIRS = 200_000


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """Hold one table, its answer, its neighbors with theirs, and its local sensitivity: the farthest of those."""

    table: Table
    answer: float
    neighbors: tuple[tuple[Table, float], ...]
    local: float


@dataclass(frozen=True, slots=True, repr=False)
class Neighborhoods:
    """Hold every table of a size that a universe allows; `.value` is the global sensitivity, the largest local one.

    `print` and a notebook show it as a textbook prints it, a line a table; `.table` has a row for each pair of neighbors,
    for a data frame by `.table.to_pandas()`. Tables of equal values are one, however many people hold them. `mark` says why
    this is NOT PRIVATE, or None.
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

    @property
    def table(self) -> pa.Table:
        """An Arrow table of the pairs: table, answer, neighbor, neighbor_answer, change, local, attains."""
        import pyarrow as pa

        pairs = [(row, other, answer) for row in self.rows for other, answer in row.neighbors]
        pairs_table = pa.table(
            {
                "table": pa.array([row.table for row, _, _ in pairs], pa.list_(pa.float64())),
                "answer": pa.array([row.answer for row, _, _ in pairs], pa.float64()),
                "neighbor": pa.array([other for _, other, _ in pairs], pa.list_(pa.float64())),
                "neighbor_answer": pa.array([answer for _, _, answer in pairs], pa.float64()),
                "change": pa.array([abs(answer - row.answer) for row, _, answer in pairs], pa.float64()),
                "local": pa.array([row.local for row, _, _ in pairs], pa.float64()),
                "attains": pa.array([self.attains(row) for row, _, _ in pairs], pa.bool_()),
            }
        )
        return (
            pairs_table
            if self.mark is None
            else pairs_table.replace_schema_metadata({"sordino": f"NOT PRIVATE: {self.mark}"})
        )

    @property
    def _title(self) -> str:
        return (
            f"{'' if self.mark is None else f'NOT PRIVATE: {self.mark}; '}{self.query} of {self.size}, {self.relation}"
        )

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
        """Return a heading, a row a table with its neighbors and their answers, and a last line."""
        rows: list[tuple[str, ...]] = []
        for row in self.rows[:SHOWN_TABLES]:
            words = [f"{','.join(f'{v:.10g}' for v in t)}: {a:.6g}" for t, a in row.neighbors[:SHOWN_NEIGHBORS]]
            words += [f"and {len(row.neighbors) - len(words):,} more"] * (len(words) < len(row.neighbors))
            cells = (
                ",".join(f"{v:.10g}" for v in row.table),
                f"{row.answer:.6g}",
                "  ".join(words),
                f"{row.local:.6g}",
            )
            rows.append((*cells, "= global" * self.attains(row)))
        more = f", of all {len(self.rows):,} tables" if len(self.rows) > SHOWN_TABLES else ""
        head: tuple[str, ...] = ("table", self.query, "neighbors and their answers", "local", "")
        return head, rows, f"the global sensitivity is the largest local one: {self.value:.10g}{more}"

    def __repr__(self) -> str:
        head, rows, foot = self._cells()
        return f"{self._title}\n{align_cells(head, rows)}\n{foot}"

    def _repr_html_(self) -> str:
        head, rows, foot = self._cells()
        return html_table(self._title, head, rows, foot=foot)

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
    query: str | TableFunction,
    universe: Sequence[Number],
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
    values = exact_universe_from(universe)
    statistic = statistic_from(query, ddof=ddof)
    values.require_floats("a list of every table")
    moves = moves_from(
        neighbors=neighbors,
        within=within,
        exactly=exactly,
        direction=direction,
        size=size_in(size, people=values.size),
        universe_size=values.size,
    )
    ordered = tuple(value if isinstance(value, int | float) else float(value) for value in sorted(universe))
    rows = tuple(_enumerate(ordered, moves, statistic))
    return Neighborhoods(ordered, size, statistic.name, f"{neighbors}, {moves.words}", rows)


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
        for remaining in _parts(table, len(table) - removed):
            for come in _parts(outside, added):
                yield tuple(sorted((*remaining, *come)))


def list_values(table: Sequence[float], most: int) -> str:
    """Return a table in words, at most `most` of its values.

    >>> list_values((1.0, 2.5, 3), 8), list_values(range(9), 4)
    ('1, 2.5, 3', '0, 1, ..., 8')
    """
    words = [format_value(value) for value in table]
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
    left = []
    gone = list(table)
    for value in values:
        if gone and gone[0] == value:
            gone.pop(0)
        else:
            left.append(value)
    return tuple(left)
