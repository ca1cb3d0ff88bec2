"""What the sensitivity laboratory found, as text and as JSON. It knows results; not how they are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.cli.shared.terminal import in_terminal, paint, say, wrap
from sordino.cli.shared.universe_options import Values
from sordino.core.text_table import columns_of, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sordino.core.loss import Number
    from sordino.sensitivity import Change, Neighborhoods

SCREEN_ROWS = 40
SCREEN_NEIGHBORS = 12


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    queries: tuple[str, ...]
    neighbors: str
    universe: Values
    rows: int
    local: Sequence[Number] | None
    within: int | None
    exactly: int | None
    direction: str | None
    ddof: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found: changes, or a profile; and all tables where they were asked for."""

    changes: list[Change] | None = None
    profile: pa.Table | None = None
    worlds: list[Neighborhoods] | None = None


def print_findings(asked: Request, found: Findings) -> None:
    """Print what was found for a person."""
    mark = asked.universe.mark
    if mark is not None:
        gap = f"; missing cells left out: {asked.universe.missing:,}" if asked.universe.missing else ""
        say(paint(plain(f"NOT PRIVATE: {mark}{gap}"), "red"))
    for query, change in zip(asked.queries, found.changes or (), strict=False):
        _print_change(asked, query, change)
    if found.profile is not None:
        cells = [[str(r[n]) for n in _KEYS] + [_figure(r)] for r in found.profile.to_pylist()]
        lines = columns_of([*_KEYS, "sensitivity"], cells, right=[False, False, False, True, True])
        say(paint(lines[0], "bold"))
        for line in lines[1:]:
            say(line)
    rows, most = (SCREEN_ROWS, SCREEN_NEIGHBORS) if in_terminal() else (None, None)
    for tables in found.worlds or ():
        for line in ["", *_worlds_lines(tables, rows=rows, most=most)]:
            say(line)


def describe_findings(asked: Request, found: Findings) -> dict[str, Any]:
    """Return all that was found as JSON data."""
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
    if found.changes is not None:
        data["results"] = [
            {
                "query": query,
                "scope": "global" if asked.local is None else "local",
                "value": change.value,
                "exact": change.exact,
                "attained": change.attained,
                "witness": [
                    {"table": list(t), "answer": a} for t, a in zip(change.witness, change.answers, strict=True)
                ],
                "public": _public(asked, change),
                "because": change.because,
            }
            for query, change in zip(asked.queries, found.changes, strict=True)
        ]
    if found.profile is not None:
        data["profile"] = found.profile.to_pylist()
    if found.worlds is not None:
        data["worlds"] = [tables.to_dict() for tables in found.worlds]
    return data


_KEYS = ("query", "scope", "relation", "distance")


def _figure(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "no such table"
    return f"{row['value']:.10g}" if row["exact"] else f"at most {row['value']:.10g}"


def _print_change(request: Request, query: str, change: Change) -> None:
    from sordino.reporting.release_text import change_entries

    scope = "global" if request.local is None else "local"
    figure = f"{change.value:.10g}, exact" if change.exact else f"at most {change.value:.10g}, a bound"
    say(paint(f"{scope} sensitivity of the {query}: {figure}", "bold"))
    for label, text in change_entries(change, request.neighbors, _public(request, change)):
        for line in wrap(label, text):
            say(line)


def _worlds_lines(worlds: Neighborhoods, *, rows: int | None = None, most: int | None = None) -> list[str]:
    """Return a line a table: its answer, its neighbors with theirs, and how far the farthest of them lies.

    At most `rows` tables and `most` neighbors of each are listed, where these are given, in lines that fit the terminal.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("table", no_wrap=True)
    table.add_column(worlds.query, justify="right", no_wrap=True)
    table.add_column(f"neighbors: {worlds.query}", ratio=1)
    table.add_column("local", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in worlds.rows[:rows]:
        near = row.neighbors[:most]
        words = [f"{','.join(f'{v:.10g}' for v in t)}:{a:.10g}" for t, a in near]
        if len(near) < len(row.neighbors):
            words.append(f"and {len(row.neighbors) - len(near):,} more")
        cells = (", ".join(f"{v:.10g}" for v in row.table), f"{row.answer:.10g}", "  ".join(words), f"{row.local:.10g}")
        table.add_row(*map(Text, cells), Text("global" if worlds.attains(row) else ""))
    console = Console(highlight=False, width=100 if rows is None else None)
    with console.capture() as text:
        console.print(table)
    head = f"{worlds.relation}; the global sensitivity is the largest local one: {worlds.value:.10g}"
    lines = [head, *(line.rstrip() for line in text.get().splitlines())]
    if rows is not None and len(worlds.rows) > rows:
        lines.append(f"... {len(worlds.rows) - rows:,} more tables; a pipe or --format json has all")
    return lines


def _public(request: Request, change: Change) -> str:
    """Return what is public about a figure: nothing, where its universe comes from a file."""
    if request.universe.mark is None:
        return change.public
    return f"nothing: the values come from a file, and so do this figure and its witness ({request.universe.mark})"
