"""Tables as text: aligned columns, without control characters; for a notebook as HTML too.

It knows text and cells, no class of Sordino's.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any


def columns_of(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[bool]) -> list[str]:
    """Return lines of a table in aligned columns, headed by names; `right` says which columns align right.

    >>> columns_of(["job", "n"], [["Sales", "1,216"]], right=[False, True])
    ['job        n', 'Sales  1,216']
    """
    cells = [[plain(c).replace("\n", " ") for c in row] for row in (head, *rows)]
    sizes = [[_width(cell) for cell in row] for row in cells]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    lines: list[str] = []
    for row, row_sizes in zip(cells, sizes, strict=True):
        parts: list[str] = []
        for cell, size, width, aligns_right in zip(row, row_sizes, widths, right, strict=True):
            space = " " * (width - size)
            parts.append(space + cell if aligns_right else cell + space)
        lines.append("  ".join(parts).rstrip())
    return lines


def plain(text: str) -> str:
    """Return text without control characters, so that no name in a file can command a terminal.

    >>> plain("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join("?" if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c != "\n" else c for c in text)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


COLUMN_HEAD = ("column", "type", "what may stand in it", "missing")
# values of a category in a table
_SHOWN = 6


def html_table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, notes: Sequence[str] = (), foot: str = ""
) -> str:
    """Return a table as HTML for a notebook, every word escaped; without a head only the title, the notes and the foot."""
    from html import escape

    cells = "".join(f"<th>{escape(c)}</th>" for c in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>" if head else ""
    listed = "".join(f"<li>{escape(n)}</li>" for n in notes)
    below = f"<p><small>{escape(foot)}</small></p>" if foot else ""
    return f"<p><b>{escape(title)}</b></p>{table}{listed and f'<ul>{listed}</ul>'}{below}"


def align_cells(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text, its columns one below the other.

    >>> print(align_cells(("a", "b"), [("long", "1")]))
    a     b
    long  1
    """
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    return "\n".join("  ".join(f"{c:<{w}}" for c, w in zip(r, widths, strict=True)).rstrip() for r in (head, *rows))


def column_cells(columns: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return a row for each declared column, from its declaration as plain data.

    >>> column_cells({"age": {"type": "integer", "lower": 0, "upper": 125, "missing": "drop"}})
    [('age', 'integer', '0 to 125', 'drop')]
    """
    return [
        (name, str(c["type"]), _describe_values(c), _describe_missing(c.get("missing", "")))
        for name, c in columns.items()
    ]


def _describe_values(column: Mapping[str, Any]) -> str:
    if "values" in column:
        values = [str(v) for v in column["values"]]
        return f"{len(values)} values: {', '.join(values[:_SHOWN])}{', ...' if len(values) > _SHOWN else ''}"
    if "of" in column:
        return f"up to {column.get('max_items')} of: {column['of'].get('type')} {_describe_values(column['of'])}"
    lower = column.get("lower")
    upper = column.get("upper")
    bounds = "no bounds" if "lower" in column and lower is None and upper is None else ""
    if lower is not None or upper is not None:
        bounds = f"{'any' if lower is None else lower} to {'any' if upper is None else upper}"
    return f"{bounds}, in steps of {column['resolution']}" if column.get("resolution") is not None else bounds


def _describe_missing(rule: object) -> str:
    return f"counts as {rule['fill']}" if isinstance(rule, Mapping) else str(rule)
