"""What the sensitivity laboratory tells, as text and as JSON. It knows results; not how they are computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.cli.shared.terminal import columns_of, in_terminal, paint, plain, say, wrap
from sordino.cli.shared.universe_options import Values

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.report.neighbor_charts import Worlds
    from sordino.sensitivity import Change

__all__ = ["Asked", "Told", "data_of", "tell"]

SCREEN_ROWS = 40
SCREEN_NEIGHBORS = 12


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    queries: tuple[str, ...]
    neighbors: str
    universe: Values
    rows: int
    local: tuple[float, ...] | None
    within: int | None
    exactly: int | None
    direction: str | None
    ddof: int


@dataclass(slots=True)
class Told:
    """What is told: changes, or a profile; and worlds where asked for."""

    changes: list[Any] | None = None
    profile: pa.Table | None = None
    worlds: list[Any] | None = None


def tell(asked: Asked, told: Told) -> None:
    """Print what is told to a person."""
    mark = asked.universe.mark
    if mark is not None:
        gap = f"; missing cells left out: {asked.universe.missing:,}" if asked.universe.missing else ""
        say(paint(plain(f"NOT PRIVATE: {mark}{gap}"), "red"))
    for query, change in zip(asked.queries, told.changes or (), strict=False):
        _print_change(asked, query, change)
    if told.profile is not None:
        cells = [[str(r[n]) for n in _KEYS] + [_figure(r)] for r in told.profile.to_pylist()]
        lines = columns_of([*_KEYS, "sensitivity"], cells, right=[False, False, False, True, True])
        say(paint(lines[0], "bold"))
        for line in lines[1:]:
            say(line)
    for found in told.worlds or ():
        say()
        _print_worlds(found)


def data_of(asked: Asked, told: Told) -> dict[str, Any]:
    """Return all that is told as JSON data."""
    mark = asked.universe.mark
    data: dict[str, Any] = {
        "schema": 1,
        "private": None if mark is None else False,
        "mark": None if mark is None else f"NOT PRIVATE: {mark}",
        "universe": {"values": list(asked.universe.values), "missing": asked.universe.missing},
        "size": asked.rows,
        "local": None if asked.local is None else list(asked.local),
        "neighbors": asked.neighbors,
        "within": asked.within,
        "exactly": asked.exactly,
        "direction": asked.direction,
        "ddof": asked.ddof,
    }
    if told.changes is not None:
        data["results"] = [
            {
                "query": query,
                "scope": "global" if asked.local is None else "local",
                "value": change.value,
                "exact": change.exact,
                "attained": change.attained,
                "witness": [{"table": list(t), "answer": a} for t, a in _witness(asked, query, change)],
                "public": _public(asked, change),
                "because": change.because,
            }
            for query, change in zip(asked.queries, told.changes, strict=True)
        ]
    if told.profile is not None:
        data["profile"] = told.profile.to_pylist()
    if told.worlds is not None:
        data["worlds"] = [found.to_dict() for found in told.worlds]
    return data


_KEYS = ("query", "scope", "relation", "distance")


def _figure(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "no such table"
    return f"{row['value']:.10g}" if row["exact"] else f"at most {row['value']:.10g}"


def _print_change(asked: Asked, query: str, change: Change) -> None:
    from sordino.report.neighbor_charts import list_values

    scope = "global" if asked.local is None else "local"
    figure = f"{change.value:.10g}, exact" if change.exact else f"at most {change.value:.10g}, a bound"
    say(paint(f"{scope} sensitivity of the {query}: {figure}", "bold"))
    tables = [f"{list_values(table, 12)}  answers {answer:.10g}" for table, answer in _witness(asked, query, change)]
    gone, come = _exchanged(*change.witness)
    moved = "; ".join(
        [f"{list_values(t, 8)} {verb}" for t, verb in ((gone, "out"), (come, "in")) if t] or ["nothing moves"]
    )
    attained = "" if change.exact else f"; this pair attains {change.attained:.10g}"
    told = [("neighbors", f"{asked.neighbors}, {change.because}"), ("witness", tables[0]), ("", f"{tables[1]}")]
    for label, text in [*told, ("moved", f"{moved}{attained}"), ("public", _public(asked, change))]:
        for line in wrap(label, text):
            say(line)


def _print_worlds(worlds: Worlds) -> None:
    """Print a row a table: its answer, its neighbors with theirs, and how far the farthest of them lies."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    watched = in_terminal()
    shown = worlds.rows[:SCREEN_ROWS] if watched else worlds.rows
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("table", no_wrap=True)
    table.add_column(worlds.query, justify="right", no_wrap=True)
    table.add_column(f"neighbors: {worlds.query}", ratio=1)
    table.add_column("local", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in shown:
        near = row.neighbors[:SCREEN_NEIGHBORS] if watched else row.neighbors
        words = [f"{','.join(f'{v:.10g}' for v in t)}:{a:.10g}" for t, a in near]
        if len(near) < len(row.neighbors):
            words.append(f"and {len(row.neighbors) - len(near):,} more")
        cells = (", ".join(f"{v:.10g}" for v in row.table), f"{row.answer:.10g}", "  ".join(words), f"{row.local:.10g}")
        table.add_row(*map(Text, cells), Text("global" if worlds.attained_by(row) else ""))
    console = Console(highlight=False, width=None if watched else 100)
    say(f"{worlds.relation}; the global sensitivity is the largest local one: {worlds.value:.10g}")
    with console.capture() as kept:
        console.print(table)
    for line in kept.get().splitlines():
        say(line.rstrip())
    if len(shown) < len(worlds.rows):
        say(f"... {len(worlds.rows) - len(shown):,} more tables; a pipe or --format json has all")


def _public(asked: Asked, change: Change) -> str:
    """Return what is public about a figure: nothing, where its universe comes from a file."""
    if asked.universe.mark is None:
        return change.public
    return f"nothing: the values come from a file, and so do this figure and its witness ({asked.universe.mark})"


def _witness(asked: Asked, query: str, change: Change) -> list[tuple[tuple[float, ...], float]]:
    """Return the two tables of a witness with their answers."""
    import numpy as np

    from sordino.sensitivity.statistics import statistic_from

    statistic = statistic_from(query, ddof=asked.ddof)
    return [(table, statistic.of(np.array(table, dtype=np.float64))) for table in change.witness]


def _exchanged(before: Sequence[float], after: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return what one table holds and the other does not, and the reverse."""
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    return sorted(gone.elements()), sorted(come.elements())
