"""The worlds of a small universe: every table of a size, its neighbors, how far each moves the answer, and the farthest.

It enumerates multisets and asks a function that it is given; it may not know how a query or a sensitivity is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.errors import DeclarationError
from sordino.report.titles import data_of, mark_title, title_of

if TYPE_CHECKING:
    from sordino.report.titles import AnyChart

__all__ = ["World", "Worlds", "draw", "list_values", "worlds_of"]

Table = tuple[float, ...]

MOST_PAIRS = 200_000  # pairs of neighbors that are listed: seconds, and more than anyone reads
MOST_DRAWN = 60


@dataclass(frozen=True, slots=True)
class World:
    """Hold one table, its answer, its neighbors with theirs, and its local sensitivity: the farthest of those."""

    table: Table
    answer: float
    neighbors: tuple[tuple[Table, float], ...]
    local: float


@dataclass(frozen=True, slots=True)
class Worlds:
    """Hold every table of a size that a universe allows; `.value` is the global sensitivity, the largest local one.

    Tables of equal values are one world, however many people hold them. `mark` says why this is NOT PRIVATE, or None.
    """

    universe: Table
    size: int
    query: str
    relation: str
    rows: tuple[World, ...]
    mark: str | None = None

    @property
    def value(self) -> float:
        """The global sensitivity: the largest local one."""
        return max(row.local for row in self.rows)

    def attained_by(self, row: World) -> bool:
        """Tell whether a table moves as far as any."""
        return math.isclose(row.local, self.value, rel_tol=1e-12)

    def to_dict(self) -> dict[str, Any]:
        """Return the worlds as JSON data."""
        rows = [
            {
                "table": list(row.table),
                "answer": row.answer,
                "neighbors": [{"table": list(t), "answer": a, "change": abs(a - row.answer)} for t, a in row.neighbors],
                "local": row.local,
                "attains": self.attained_by(row),
            }
            for row in self.rows
        ]
        return {"query": self.query, "size": self.size, "relation": self.relation, "global": self.value, "rows": rows}


def worlds_of(
    universe: Sequence[float],
    *,
    size: int,
    query: str,
    relation: str,
    pairs: Sequence[tuple[int, int]],
    answer: Callable[[Table], float],
    mark: str | None = None,
) -> Worlds:
    """Return the Worlds of a universe: all its tables of `size`, and those that (removed, added) of `pairs` lead to.

    `answer` is asked for each sorted table. Raises DeclarationError where there are more than MOST_PAIRS neighbors in
    all. Takes time and memory in proportion to the neighbors.

    >>> found = worlds_of([1, 2, 3], size=2, query="max", relation="replace", pairs=[(1, 1)], answer=max)
    >>> [(w.table, w.local) for w in found.rows], found.value
    ([((1, 2), 1), ((1, 3), 1), ((2, 3), 1)], 1)
    """
    whole = tuple(sorted(universe))
    known: dict[Table, float] = {}

    def asked(table: Table) -> float:
        if table not in known:
            known[table] = answer(table)
        return known[table]

    rows: list[World] = []
    left = MOST_PAIRS
    for table in _parts(whole, size):
        reached: dict[Table, None] = {}
        outside = _without(whole, table)
        for removed, added in pairs:
            for kept in _parts(table, size - removed):
                for come in _parts(outside, added):
                    reached[tuple(sorted((*kept, *come)))] = None
                    left -= 1
                    if left < 0:
                        raise DeclarationError(
                            f"worlds are for small universes: this one of {len(whole):,} values has more than "
                            f"{MOST_PAIRS:,} pairs of neighbors; take a smaller universe, size or distance"
                        )
        reached.pop(table, None)
        neighbors = tuple((other, asked(other)) for other in sorted(reached, key=lambda t: (len(t), t)))
        here = asked(table)
        rows.append(World(table, here, neighbors, max((abs(a - here) for _, a in neighbors), default=0)))
    return Worlds(whole, size, query, relation, tuple(rows), mark)


def draw(worlds: Worlds, confidence: float, title: str | None) -> tuple[AnyChart, str]:
    """Return the chart of worlds - a bar a table, the global sensitivity as a line at their end - and its title."""
    import altair as alt

    del confidence
    kept = worlds.rows
    notes = [
        f"{worlds.relation}; {len(kept):,} tables of {worlds.size} values out of {list_values(worlds.universe, 12)}"
    ]
    if len(kept) > MOST_DRAWN:
        kept = tuple(sorted(kept, key=lambda row: -row.local)[:MOST_DRAWN])
        notes.append(f"the {MOST_DRAWN} tables that can move most")
    points = [
        {
            "table": list_values(row.table, len(row.table)),
            "local": float(row.local),
            "answer": float(row.answer),
            "neighbors": len(row.neighbors),
            "attains": "attains it" if worlds.attained_by(row) else "stays below",
        }
        for row in kept
    ]
    said = mark_title(title or f"How far the {worlds.query} of each table can move", worlds.mark)
    bars = (
        alt.Chart(data_of(points))
        .mark_bar(opacity=0.85)
        .encode(
            y=alt.Y(field="table", type="nominal", sort=None, title="table", axis=alt.Axis(labelLimit=240)),
            x=alt.X(field="local", type="quantitative", title=f"local sensitivity of the {worlds.query}"),
            color=alt.Color(
                field="attains",
                type="nominal",
                title="global sensitivity",
                scale=alt.Scale(domain=["attains it", "stays below"], range=["#d55e00", "#0072b2"]),
            ),
            tooltip=[alt.Tooltip(field=name) for name in ("table", "answer", "neighbors", "local")],
        )
    )
    whole = alt.Chart(data_of([{"global": float(worlds.value)}]))
    rule = whole.mark_rule(color="#d55e00", strokeDash=[5, 3]).encode(x=alt.X(field="global", type="quantitative"))
    notes.append(f"dashed line: global sensitivity {worlds.value:.6g}, the largest local one")
    heading = title_of(said, notes, width=560, alarm=worlds.mark is not None)
    return alt.layer(bars, rule).properties(width=380, height=alt.Step(20), title=heading), said


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
