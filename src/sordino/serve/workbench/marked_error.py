"""Where in a text an error stands, by the line and column that its words name. It reads words and the text asked, no data."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLACE = re.compile(r"line (\d{1,6}), column (\d{1,6})")
_QUOTED = re.compile(r"'(\w+)'")


@dataclass(frozen=True, slots=True)
class MarkedError:
    """Hold the line of an error in three parts, of which `at` is wrong, and where that begins and ends in the whole text."""

    line: int
    before: str
    at: str
    after: str
    start: int
    end: int


def mark_error(text: str, words: str) -> MarkedError | None:
    """Return the place that the words of an error name in a text; None where they name none.

    >>> mark_error("SELECT nn FROM t", "line 1, column 8: nn is unknown").at
    'nn'
    """
    lines = text.split("\n")
    place = _place_of(words, lines)
    if place is None:
        return None
    number, column = place
    line = lines[number - 1]
    word = re.match(r"\w+|\S|", line[column:])
    size = len(word[0]) if word is not None else 0
    start = sum(len(one) + 1 for one in lines[: number - 1]) + column
    return MarkedError(number, line[:column], line[column : column + size], line[column + size :], start, start + size)


def _place_of(words: str, lines: list[str]) -> tuple[int, int] | None:
    """Return line and column: as the words name them, else where the first name that they quote stands."""
    found = _PLACE.search(words)
    if found is not None:
        number, column = int(found[1]), int(found[2]) - 1
        fits = 0 < number <= len(lines) and 0 <= column <= len(lines[number - 1])
        return (number, column) if fits else None
    for name in _QUOTED.findall(words)[:1]:
        for number, line in enumerate(lines, 1):
            at = re.search(rf"\b{re.escape(name)}\b", line)
            if at is not None:
                return number, at.start()
    return None
