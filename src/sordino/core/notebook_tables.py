"""Tables for a notebook, as text and as HTML. It knows text and cells, no class of Sordino's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
