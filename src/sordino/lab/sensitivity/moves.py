"""How far two tables of a finite universe may lie apart, as pairs (removed, added).

Of two given tables, how far they lie apart in people. It compares records; it may not know values, queries or domains.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sordino.core.errors import DeclarationError, explain_relations
from sordino.lab.sensitivity.universe import columns_of_table

_DIRECTIONS = ("add", "remove", "either")


@dataclass(frozen=True, slots=True)
class Moves:
    """List the (removed, added) counts that lead from a table of `size` records to a neighbor, and say them in words."""

    size: int
    pairs: tuple[tuple[int, int], ...]
    words: str
    argument: str

    @property
    def smallest(self) -> int:
        """The size of the smallest table that can be reached."""
        return min(self.size - removed + added for removed, added in self.pairs)


def moves_from(*, neighbors: Any, within: Any, exactly: Any, direction: Any, size: int, universe_size: int) -> Moves:
    """Return the Moves that the arguments of the public calls state; raise DeclarationError where they break a rule.

    within=k: at most k moves. exactly=k under add_remove: k records in one direction; under replace: k exchanges.
    """
    if neighbors not in ("add_remove", "replace"):
        raise DeclarationError(explain_relations(neighbors), key="neighbors")
    if (within is None) == (exactly is None):
        raise DeclarationError("state one distance: within=k (at most k moves) or exactly=k")
    argument = "within" if exactly is None else "exactly"
    distance = _distance(within if exactly is None else exactly, argument=argument)
    outside = universe_size - size
    if neighbors == "replace":
        if direction is not None:
            raise DeclarationError("direction goes with neighbors='add_remove', exactly=k only; leave it out")
        return _exchanges(distance, argument=argument, size=size, outside=outside)
    if argument == "within":
        if direction is not None:
            raise DeclarationError("direction goes with exactly=k only: within=k mixes records added and removed")
        pairs = [(r, a) for r in range(min(distance, size) + 1) for a in range(min(distance - r, outside) + 1)]
        return Moves(size, tuple(pairs[1:] or pairs), f"at most {distance} record(s) added or removed", argument)
    if direction not in _DIRECTIONS:
        raise DeclarationError(
            f'direction must be "add", "remove" or "either" with neighbors="add_remove", exactly=k, not {direction!r}'
        )
    pairs = [(0, distance)] if direction != "remove" and distance <= outside else []
    pairs += [(distance, 0)] if direction != "add" and distance <= size else []
    if not pairs:
        verb = {"add": "added", "remove": "removed", "either": "added or removed"}[direction]
        raise DeclarationError(
            f"exactly={distance} is out of range: of a universe of {universe_size} with {size} in the table, "
            f"at most {_most(direction, size=size, outside=outside)} can be {verb}"
        )
    verb = {"add": "added", "remove": "removed", "either": "added, or as many removed"}[direction]
    return Moves(size, tuple(pairs), f"exactly {distance} record(s) {verb}", argument)


def _exchanges(distance: int, *, argument: str, size: int, outside: int) -> Moves:
    most = min(size, outside)
    if argument == "within":
        pairs = tuple((j, j) for j in range(1, min(distance, most) + 1)) or ((0, 0),)
        return Moves(size, pairs, f"at most {distance} record(s) exchanged", argument)
    if distance > most:
        raise DeclarationError(
            f"exactly={distance} is out of range: with {size} in the table and {outside} outside it, "
            f"at most {most} can be exchanged"
        )
    return Moves(size, ((distance, distance),), f"exactly {distance} record(s) exchanged", argument)


def _most(direction: str, *, size: int, outside: int) -> int:
    return {"add": outside, "remove": size, "either": max(outside, size)}[direction]


def _distance(distance: Any, *, argument: str) -> int:
    if isinstance(distance, bool) or not hasattr(distance, "__index__"):
        raise DeclarationError(f"{argument} must be a whole number of moves, not {type(distance).__name__}")
    whole = operator.index(distance)
    if whole < 1:
        raise DeclarationError(f"{argument} must be at least 1, not {whole}")
    return whole


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
