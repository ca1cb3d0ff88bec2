"""Tables as text: aligned columns, and text without control characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


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
