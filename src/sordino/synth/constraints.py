"""Declared constraints that drawn rows never break: cells that stay empty, a value that follows another, one below another.

They are applied, never checked against the data: whether the data obey them would leak. Knows no data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.domain import Domain
from sordino.errors import DeclarationError, QuestionRefused
from sordino.queries.condition import predicate
from sordino.queries.expr import Compare, Expr, Name, Node, describe
from sordino.queries.measure import measure
from sordino.synth.columns import Keyed, label_of
from sordino.synth.truth import Cells, names_in, truth_of

__all__ = ["Constraint", "Determines", "Never", "at_most", "checked", "determines", "followed", "met", "never"]


@dataclass(frozen=True, slots=True)
class Never:
    """No row meets this condition."""

    condition: Node

    def describe(self) -> str:
        """Return the constraint in words."""
        return f"never {describe(self.condition)}"


@dataclass(frozen=True, slots=True)
class Determines:
    """The value of `column` follows from that of `of`: `values` maps labels of `of` to labels of `column`."""

    of: str
    column: str
    values: tuple[tuple[Any, Any], ...]

    def describe(self) -> str:
        """Return the constraint in words."""
        return f"{self.column} follows from {self.of}"


Constraint = Never | Determines


def never(condition: Expr) -> Never:
    """Declare that no row meets `condition`.

    >>> from sordino.queries.expr import col
    >>> never((col("age") < 15) & (col("married") == "yes")).describe()
    "never age < 15 and married = 'yes'"
    """
    if not isinstance(condition, Expr):
        raise DeclarationError('never takes a condition, such as col("age") < 0')
    return Never(condition.node)


def at_most(lower: str, upper: str) -> Never:
    """Declare that the value of column `lower` is at most that of `upper` in each row that has both."""
    return Never(Compare(">", Name(lower), Name(upper)))


def determines(of: str, column: str, values: Mapping[Any, Any]) -> Determines:
    """Declare that the value of `column` follows from that of `of`, by a public mapping of every label; None is missing."""
    return Determines(of, column, tuple(values.items()))


def checked(constraints: Sequence[Constraint], columns: Sequence[Keyed], domain: Domain) -> None:
    """Raise DeclarationError where a constraint names what is not there, or where two contradict each other."""
    by_name = {c.name: c for c in columns}
    decided: set[str] = set()
    for one in constraints:
        if isinstance(one, Never):
            names = names_in(one.condition)
            _named(names, by_name, one)
            predicate(one.condition, domain)
            _possible(one, domain)
            continue
        _named((one.of, one.column), by_name, one)
        if one.column in decided or one.of == one.column:
            raise DeclarationError(f"{one.describe()}: {one.column!r} follows from something else already")
        decided.add(one.column)
        _mapping(one, by_name)
    of = {c.column: c.of for c in constraints if isinstance(c, Determines)}
    for start in of:
        at, seen = start, {start}
        while at in of:
            at = of[at]
            if at in seen:
                raise DeclarationError(f"{start!r} follows from itself by a circle of constraints: leave one out")
            seen.add(at)


def followed(constraints: Sequence[Constraint], columns: Sequence[Keyed], keys: list[Any]) -> None:
    """Set, in place, the keys of columns that follow from others, in the order of what follows from what."""
    place = {c.name: i for i, c in enumerate(columns)}
    waiting = [c for c in constraints if isinstance(c, Determines)]
    while waiting:
        open_columns = {c.column for c in waiting}
        ready = next(c for c in waiting if c.of not in open_columns)
        table = _mapping(ready, {c.name: c for c in columns})
        keys[place[ready.column]] = table[keys[place[ready.of]]]
        waiting.remove(ready)


def met(constraints: Sequence[Constraint], cells: Mapping[str, Cells], rows: int) -> Any:
    """Return which rows break none of the conditions that no row may meet."""
    kept = np.ones(rows, dtype=bool)
    for one in constraints:
        if isinstance(one, Never):
            kept &= np.broadcast_to(truth_of(one.condition, cells)[0], kept.shape) <= 0.0
    return kept


def _named(names: Sequence[str], by_name: Mapping[str, Keyed], one: Constraint) -> None:
    for name in names:
        if name not in by_name:
            raise DeclarationError(f"{one.describe()}: {name!r} is not a column of the synthetic table")


def _possible(one: Never, domain: Domain) -> None:
    """Refuse an order that the declared bounds make impossible for every row."""
    node = one.condition
    if not (isinstance(node, Compare) and isinstance(node.left, Name) and isinstance(node.right, Name)):
        return
    try:
        left, right = (measure(n, domain).values for n in (node.left, node.right))
    except QuestionRefused:
        return
    if node.op == ">" and left.lower is not None and right.upper is not None and left.lower > right.upper:
        raise DeclarationError(
            f"{one.describe()} cannot hold: every declared value of {node.left.name!r} is above those of {node.right.name!r}"
        )


def _mapping(one: Determines, by_name: Mapping[str, Keyed]) -> Any:
    source, target = by_name[one.of], by_name[one.column]
    if source.edges is not None or target.edges is not None:
        raise DeclarationError(f"{one.describe()}: both need a declared value each key; declare them as categories")
    given = dict(one.values)
    places = {label_of(target, k): k for k in range(target.size)}
    table = np.zeros(source.size, dtype=np.int64)
    for key in range(source.size):
        label = label_of(source, key)
        if label not in given:
            raise DeclarationError(
                f"{one.describe()}: the mapping has no entry for {label!r}; map every declared value"
            )
        if given[label] not in places:
            raise DeclarationError(f"{one.describe()}: {given[label]!r} is not a declared value of {one.column!r}")
        table[key] = places[given[label]]
    return table
