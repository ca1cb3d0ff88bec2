"""One self-contained page about a synthetic table: how far it lies from its original, each figure with its cost.

It sees text, numbers and finished pictures; not where they came from. All words are escaped, and nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sordino.reporting.picture import render


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
    """Hold a page: its title, facts in lines, sections; `alarm` is shown at the top, None if all is private."""

    title: str
    facts: tuple[str, ...]
    sections: tuple[Section, ...]
    alarm: str | None
    remarks: tuple[str, ...] = ()


def sheet_from(plain: Mapping[str, Any]) -> Sheet:
    """Return the page that was written as JSON data."""
    sections = [
        Section(
            one["title"],
            one["cost"],
            tuple(one["words"]),
            tuple(one["head"]),
            tuple(tuple(row) for row in one["rows"]),
            tuple((caption, drawing) for caption, drawing in one["drawings"]),
        )
        for one in plain["sections"]
    ]
    return Sheet(plain["title"], tuple(plain["facts"]), tuple(sections), plain["alarm"], tuple(plain["remarks"]))


def redraw(sheet: Sheet, draw: Callable[[str], str]) -> Sheet:
    """Return the page with each drawing made of what stood in its place, such as SVG of a specification."""
    sections = [
        replace(one, drawings=tuple((caption, draw(drawing)) for caption, drawing in one.drawings))
        for one in sheet.sections
    ]
    return replace(sheet, sections=tuple(sections))


def sheet_page(sheet: Sheet) -> str:
    """Return the page as HTML; its policy forbids the browser to load or run anything.

    >>> "<script>" in sheet_page(Sheet("<script>", (), (), None))
    False
    """
    return render("evaluation.html", sheet=sheet)
