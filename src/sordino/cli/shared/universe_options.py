"""The values of a universe as a command line states them: typed, or a column of a file and then NOT PRIVATE.

It may not know queries. No error here holds a cell of a file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, to_fraction


@dataclass(frozen=True, slots=True)
class Values:
    """Hold the values of a universe in the order given, and where they come from if they are NOT PRIVATE."""

    values: tuple[Number, ...]
    mark: str | None = None
    missing: int = 0


def values_from(texts: Sequence[str] | None, column: tuple[str, Path] | None) -> dict[str | None, Values]:
    """Return the universe of each column by its name, or of None where --universe or --column states a single one."""
    if (not texts) == (column is None):
        raise DeclarationError("state the values once: --universe 1,2,3,10,11 or --column NAME FILE")
    if column is not None:
        from sordino.ask.engines.readers.raw import load_column

        values, missing = load_column(*column)
        return {None: Values(values, f"column {column[0]} of {column[1].name}", missing)}
    universes = universes_from(texts or ())
    return (
        {name: Values(v) for name, v in universes.items()}
        if isinstance(universes, dict)
        else {None: Values(tuple(universes))}
    )


def universes_from(texts: Sequence[str]) -> Sequence[Number] | dict[str, tuple[Number, ...]]:
    """Return the values of the one --universe without a name, V,V,.., or of each by its name: NAME=V,V,..

    >>> universes_from(["age=1,2", "days=3"])
    {'age': (1, 2), 'days': (3,)}
    """
    if len(texts) == 1 and "=" not in texts[0]:
        return _numbers(texts[0], "--universe")
    universes: dict[str, tuple[Number, ...]] = {}
    for text in texts:
        head, _, values = text.rpartition("=")
        name = head.strip()
        if not name:
            raise DeclarationError("each of several universes needs a name: --universe age=1,2 --universe days=1,2,10")
        if name in universes:
            raise DeclarationError(f"--universe names the column {name!r} twice: name each column once")
        if not name.isprintable():
            raise DeclarationError("--universe NAME=V,V,..: the name holds control characters; write it without")
        universes[name] = _numbers(values, f"--universe {name}=")
    return universes


def table_from(text: str, universe: Values) -> tuple[Number, ...]:
    """Return the table that --local states."""
    head, colon, count = text.partition(":")
    if not colon:
        return _numbers(text, "--local")
    if head.strip() != "first" or not count.strip().isdecimal():
        raise DeclarationError("--local is a table such as 1,3,10, or first:N for the first N values")
    if not 1 <= int(count) <= len(universe.values):
        raise DeclarationError(f"--local first:N takes an N from 1 to {len(universe.values)}, the number of values")
    return universe.values[: int(count)]


def span_from(text: str) -> range:
    """Return the distances that --profile states."""
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last) <= 1000):
        raise DeclarationError("--profile takes two distances, such as 1:4, from 1 to 1000")
    return range(int(first), int(last) + 1)


def _numbers(text: str, option: str) -> tuple[Number, ...]:
    numbers: list[Number] = []
    for place, word in enumerate(text.split(","), start=1):
        try:
            numbers.append(_number(word))
        except (ValueError, DeclarationError):
            raise DeclarationError(
                f"{option} takes numbers separated by commas, such as 1,2.5,3; value {place} is not a number"
            ) from None
    return tuple(numbers)


def _number(word: str) -> Number:
    """Return a value as it is written: 1, 2.5, 1e18, and 1/3, 25% or ln3, which stay exact fractions."""
    try:
        return int(word)
    except ValueError:
        pass
    try:
        number = float(word)
    except ValueError:
        return to_fraction(word, name="a value")
    # a whole number past 2^53 keeps its digits, as 1e18 and 1152921504606846977.0 do
    return int(Decimal(word)) if 2**53 < abs(number) < math.inf and number.is_integer() else number
