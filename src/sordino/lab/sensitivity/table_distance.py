"""How far two given tables lie apart, in people. It compares records; it may not know queries or domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.field_words import explain_relations
from sordino.lab.sensitivity.universe import columns_of_table


def distance(table: Any, other: Any, *, neighbors: str) -> int:
    """Return the fewest moves that lead from one table to another: neighbors are at distance 1.

    Records are compared as multisets: a record that stands twice in one table and once in the other counts. Under
    "add_remove" (unbounded) a move adds or removes a record, so this is the size of the symmetric difference, and a
    changed record counts 2. Under "replace" (bounded) a move exchanges one, and the tables are of one size. A loss of
    epsilon between neighbors is at most `distance` times epsilon between these tables. Tables are sequences of records
    (numbers, texts, tuples), mappings of columns, or tables of pandas, polars or Arrow; their order does not matter.
    Raises DeclarationError for another relation, and for tables of different sizes under "replace".

    >>> distance([1, 2, 2], [1, 2], neighbors="add_remove"), distance([1, 2, 2], [1, 2, 3], neighbors="replace")
    (1, 1)
    >>> distance([1, 2, 2], [1, 2, 3], neighbors="add_remove")
    2
    """
    if neighbors not in ("add_remove", "replace"):
        raise DeclarationError(explain_relations(neighbors), key="neighbors")
    one = _records(table, "table")
    two = _records(other, "other")
    apart = (one - two).total(), (two - one).total()
    if neighbors == "add_remove":
        return sum(apart)
    if one.total() != two.total():
        raise DeclarationError(
            f'other must be as large as table under "replace": {two.total():,} and {one.total():,} records; '
            'tables of two sizes are compared with neighbors="add_remove"'
        )
    return apart[0]


def _records(table: Any, argument: str) -> Counter[Any]:
    """Count each record, a row of a table as a tuple."""
    if isinstance(table, str | bytes):
        raise DeclarationError(f"{argument} must be a sequence of records, not text")
    columns = columns_of_table(table)
    names = sorted(columns, key=str)
    try:
        if None in columns:
            return Counter(_plain(value) for value in _values(table))
        rows = zip(*(_values(columns[name]) for name in names), strict=True)
        return Counter((tuple(names), *map(_plain, row)) for row in rows)
    except (TypeError, ValueError):
        raise DeclarationError(
            f"{argument} must be a sequence of numbers, texts or tuples, or columns of one length"
        ) from None


def _values(column: Any) -> Iterable[Any]:
    """Return the values of a column as Python's own: an Arrow array, a series, numpy's array or any sequence."""
    for name in ("to_pylist", "tolist", "to_list"):
        if hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


def _plain(value: Any) -> Any:
    """Return a record that equals itself: nan, which does not, is a missing value."""
    return None if value != value else tuple(value) if isinstance(value, list) else value
