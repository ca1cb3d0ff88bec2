"""Columns of lists: which of them can be read, in whose physical types."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from sordino.ask.engines.sql_text import quote_text
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError

_ITEMS = frozenset(
    [
        *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER"),
        *("UBIGINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR", "DATE"),
    ]
)


def list_items(domain: Domain, types: Mapping[str, str], *, csv: bool) -> dict[str, str]:
    """Return the physical type of an item of each column of lists; raises DeclarationError where none can be read."""
    items = {}
    for name in domain.lists:
        if csv:
            raise DeclarationError(f"column {name!r} is declared as a list, and a CSV file holds none: use Parquet")
        held = types[name]
        kind = held[:-2].split("(", 1)[0].strip() if held.endswith("[]") else ""
        if kind not in _ITEMS:
            raise DeclarationError(
                f"column {name!r} is declared as a list, but is not held as a list of numbers, text, booleans or days: "
                "store it as such a list, without other lists in it"
            )
        items[name] = kind
    return items


def find_place(text: str, values: Sequence[str]) -> str:
    """Return the SQL of the place of a text among distinct values, by a look-up in a list that is written once."""
    whole = "\ue000".join(values)
    marks = (f"\ue000{i}\ue001" for i in itertools.count())  # none can begin within another
    mark = next(m for m in marks if m not in whole)
    listed = f"unnest(string_split({quote_text(mark.join(values))}, {quote_text(mark)}))"
    places = f"SELECT {listed} AS sordino_value, unnest(range({len(values)})) AS sordino_place"
    return f"(SELECT sordino_place FROM ({places}) AS sordino_list WHERE sordino_value = {text})"
