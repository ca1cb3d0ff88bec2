"""One self-contained page about a synthetic table: how far it lies from its original, each figure with its cost.

It sees text, numbers and finished pictures; not where they came from. All words are escaped, and nothing is loaded.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Section", "Sheet", "sheet_page"]


@dataclass(frozen=True, slots=True)
class Section:
    """State one part: its title, what it cost (or that it is NOT PRIVATE, or free), words, a table, pictures as SVG."""

    title: str
    cost: str
    words: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    drawings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """Hold a page: its title, facts in lines, sections; `alarm` is told on its face, None where all is private."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...]
    alarm: str | None
    remarks: tuple[str, ...] = ()


def sheet_page(sheet: Sheet) -> str:
    """Return the page as HTML; its policy forbids the browser to load or run anything.

    >>> "<script>" in sheet_page(Sheet("<script>", (), (), None))
    False
    """
    alarm = "" if sheet.alarm is None else f'<p class="alarm" role="alert">{html.escape(sheet.alarm)}</p>\n'
    facts = "<ul>\n" + "\n".join(f"<li>{html.escape(f)}</li>" for f in sheet.facts) + "\n</ul>" if sheet.facts else ""
    parts = [facts, *map(_section, sheet.sections), *(f"<p>{html.escape(r)}</p>" for r in sheet.remarks)]
    title = html.escape(sheet.title if sheet.alarm is None else f"NOT PRIVATE: {sheet.title}")
    return _PAGE.format(policy=_POLICY, style=_STYLE, title=title, alarm=alarm, body="\n".join(parts))


def _section(one: Section) -> str:
    alarm = ' class="alarm"' if one.cost.startswith("NOT PRIVATE") else ' class="cost"'
    parts = [f"<h2>{html.escape(one.title)}</h2>"]
    parts += [f"<p{alarm}>{html.escape(one.cost)}</p>"] if one.cost else []
    parts += [f"<p>{html.escape(words)}</p>" for words in one.words]
    if one.head:
        parts.append(_table(one.head, one.rows))
    parts += [_drawing(said, drawing) for said, drawing in one.drawings]
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["<table>", "<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])


def _drawing(said: str, drawing: str) -> str:
    """Return a picture as an image of its own, so that nothing in it can reach the page."""
    words = html.escape(said)
    data = base64.b64encode(drawing.encode()).decode()
    return (
        f'<figure><img alt="{words}" src="data:image/svg+xml;base64,{data}"><figcaption>{words}</figcaption></figure>'
    )


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """body { font-family: sans-serif; line-height: 1.45; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
table { border-collapse: collapse }
th, td { border: 1px solid #cccccc; padding: 0.3rem 0.6rem; text-align: left; vertical-align: top }
th, td { overflow-wrap: break-word }
section { overflow-x: auto }
img { max-width: 100% }
figcaption { color: #555555; font-size: 0.9rem }
.cost { color: #555555 }
.alarm { color: #b22222; font-weight: bold }"""
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
{alarm}<h1>{title}</h1>
{body}
</body>
</html>
"""
