"""The tables of a tabulation for reading: pivots with intervals, in a notebook and on one page that prints.

It sees released values and public parameters only. All words are escaped, and a page loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.core.release import show_cells, show_number
from sordino.core.text_table import html_table
from sordino.reporting.picture import render

if TYPE_CHECKING:
    from sordino.core.release import Release

# Keys of the last column that stand side by side.
_ACROSS = 12
# What stands in place of a cell that is not shown.
_SUPPRESSED = "x"
# Tables, and rows of each, that a notebook shows.
_TABLES = 12
_ROWS = 60


@dataclass(frozen=True, slots=True)
class Pivot:
    """A table for reading: the keys of its last column stand side by side, each cell with its interval."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def pivot(release: Release, table: tuple[str, ...], *, confidence: float) -> list[Pivot]:
    """Return a released table as pivots: one a measure where two columns or more are crossed, else one for all measures.

    The keys of the last column stand side by side where they are few; the others are rows, in the order of the table.
    """
    answer = release.tables.answer(table)
    title = title_of(table)
    measures = []
    for output in answer.outputs:
        ends = output.estimate.intervals(confidence)
        both = zip(output.estimate.values(), ends, strict=True)
        measures.append([_show_cell(value, low, high) for value, (low, high) in both])
    labels: list[tuple[str, ...]] = [()]
    if table:
        labels = [tuple(row) for row in show_cells(answer.keys, confidence)]
    across = list(dict.fromkeys(row[-1] for row in labels)) if len(table) > 1 else []
    if not 0 < len(across) <= _ACROSS:
        head = (*table, *(output.name for output in answer.outputs))
        rows = [(*row, *cells) for row, *cells in zip(labels, *measures, strict=True)]
        return [Pivot(title, head, tuple(rows))]
    pivots = []
    for output, cells in zip(answer.outputs, measures, strict=True):
        by_row: dict[tuple[str, ...], dict[str, str]] = {}
        for label, cell in zip(labels, cells, strict=True):
            by_row.setdefault(label[:-1], {})[label[-1]] = cell
        rows = [(*row, *(shown.get(key, "") for key in across)) for row, shown in by_row.items()]
        named = f"{title}: {output.name}" if len(answer.outputs) > 1 else title
        pivots.append(Pivot(named, (*table[:-1], *across), tuple(rows)))
    return pivots


def title_of(table: Sequence[str]) -> str:
    """Return what a table is called above it.

    >>> title_of(("region", "sex")), title_of(())
    ('by region and sex', 'in all')
    """
    return "by " + " and ".join(table) if table else "in all"


def describe_table(release: Release, table: tuple[str, ...], *, confidence: float) -> list[str]:
    """Return the notes under a table: what it is of, its unit, interval, loss, and what was done to its numbers."""
    answer = release.tables.answer(table)
    notes = [] if release.private else ["NOT PRIVATE: its noise was seeded"]
    notes.append(f"base: {release.question}")
    for output in answer.outputs:
        widths = [float(error) for error in output.estimate.errors(confidence) if error is not None]
        width = f"+-{show_number(max(widths))} at {100 * confidence:g}%" if widths else "no cells"
        unit = "rows" if getattr(output.estimate, "counts_rows", False) else "in the column's own unit"
        notes.append(f"{output.name}: {unit}; {width}, before what was made of it")
    hidden = sum(value is None for value in answer.outputs[0].estimate.values())
    if hidden:
        notes.append(f"{hidden:,} cells with a small released count are not shown ({_SUPPRESSED})")
    notes += [f"intervals are at {100 * confidence:g}%", release.summary(), *release.remarks]
    return notes


def tables_html(release: Release) -> str:
    """Return the tables for a notebook: the first ones, their first rows, and what is to be known of all."""
    tables = list(release.tables)
    parts = []
    for table in tables[:_TABLES]:
        for one in pivot(release, table, confidence=0.95):
            more = [f"{len(one.rows) - _ROWS:,} more rows"] if len(one.rows) > _ROWS else []
            parts.append(html_table(one.title, one.head, one.rows[:_ROWS], notes=more))
    more = [f"{len(tables) - _TABLES:,} more tables"] if len(tables) > _TABLES else []
    foot = html_table(release.question, (), (), notes=[*more, *release.remarks], foot=release.summary())
    return "".join([*parts, foot])


def tables_page(release: Release, *, confidence: float) -> str:
    """Return one page of all tables, with a list of contents; each starts on a paper page of its own where it would be cut."""
    sections: list[dict[str, Any]] = []
    for number, table in enumerate(release.tables, start=1):
        sections.append(
            {
                "id": f"table-{number}",
                "title": f"Table {number}: {title_of(table)}",
                "pivots": pivot(release, table, confidence=confidence),
                "notes": describe_table(release, table, confidence=confidence),
            }
        )
    return render(
        "tables.html",
        title=release.question,
        private=release.private,
        sections=sections,
        facts=[f"{len(sections):,} tables", f"answered {release.time}", f"charge {release.charge}"],
    )


def _show_cell(value: Any, low: Any, high: Any) -> str:
    if value is None:
        return _SUPPRESSED
    return f"{show_number(value)} ({show_number(low)} to {show_number(high)})"
