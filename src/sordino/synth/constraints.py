"""Declared constraints that drawn rows never break: cells that stay empty, a value that follows another, one below another.

They are applied, never checked against the data: whether the data obey them would leak. Knows no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.ask.queries.expressions.compile import bind_condition
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Compare, Name, Node, describe
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError
from sordino.synth.encoded_column import Codes, EncodedColumn, label_of
from sordino.synth.equivalence_classes import Dependencies, class_grid, predicates_of
from sordino.synth.expression_eval import ColumnCells, evaluate_condition, names_in

# The most cells that are searched for one that the constraints leave.
_MOST_CELLS = 4_000_000


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

    >>> from sordino.ask.queries.expressions.expr import col
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


def check_constraints(constraints: Sequence[Constraint], columns: Sequence[EncodedColumn], domain: Domain) -> None:
    """Raise DeclarationError where a constraint names what is not there, or where two contradict each other."""
    by_name = {c.name: c for c in columns}
    decided: set[str] = set()
    for one in constraints:
        if isinstance(one, Never):
            names = names_in(one.condition)
            _require_columns(names, by_name, one)
            bind_condition(one.condition, domain)
            continue
        _require_columns((one.of, one.column), by_name, one)
        if one.column in decided or one.of == one.column:
            raise DeclarationError(f"{one.describe()}: {one.column!r} follows from something else already")
        decided.add(one.column)
        _mapping(one, by_name)
    of = {c.column: c.of for c in constraints if isinstance(c, Determines)}
    for start in of:
        at = start
        visited = {start}
        while at in of:
            at = of[at]
            if at in visited:
                raise DeclarationError(f"{start!r} follows from itself by a circle of constraints: leave one out")
            visited.add(at)
    _require_a_row(constraints, by_name)


def functional_dependencies(
    constraints: Sequence[Constraint], by_name: Mapping[str, EncodedColumn]
) -> dict[str, tuple[str, Codes]]:
    """Return for each column that follows from others the first of them, and its key for each key of that one."""
    direct = {c.column: (c.of, _mapping(c, by_name)) for c in constraints if isinstance(c, Determines)}
    dependencies: dict[str, tuple[str, Codes]] = {}
    for name, (parent, table) in direct.items():
        while parent in direct:
            parent, above = direct[parent]
            table = table[above]
        dependencies[name] = (parent, table)
    return dependencies


def apply_dependencies(constraints: Sequence[Constraint], columns: Sequence[EncodedColumn], keys: list[Any]) -> None:
    """Set, in place, the keys of columns that follow from others."""
    place = {c.name: i for i, c in enumerate(columns)}
    dependencies = functional_dependencies(constraints, {c.name: c for c in columns})
    for name, (parent, table) in dependencies.items():
        keys[place[name]] = table[keys[place[parent]]]


def rows_allowed(constraints: Sequence[Constraint], cells: Mapping[str, ColumnCells], rows: int) -> Any:
    """Return which rows break none of the conditions that no row may meet."""
    allowed = np.ones(rows, dtype=bool)
    for one in constraints:
        if isinstance(one, Never):
            allowed &= np.broadcast_to(evaluate_condition(one.condition, cells)[0], allowed.shape) <= 0.0
    return allowed


def _require_columns(names: Sequence[str], by_name: Mapping[str, EncodedColumn], one: Constraint) -> None:
    for name in names:
        if name not in by_name:
            raise DeclarationError(f"{one.describe()}: {name!r} is not a column of the synthetic table")


def _require_a_row(constraints: Sequence[Constraint], by_name: Mapping[str, EncodedColumn]) -> None:
    """Refuse constraints that together leave no row: each group that shares columns is searched cell by cell.

    Groups of more than 4,000,000 cells are not searched; drawing rows finds out then.
    """
    dependencies = functional_dependencies(constraints, by_name)
    waiting = [c for c in constraints if isinstance(c, Never)]
    while waiting:
        group = [waiting.pop(0)]
        names = _roots(group[0], dependencies)
        while near := [c for c in waiting if not names.isdisjoint(_roots(c, dependencies))]:
            group += near
            waiting = [c for c in waiting if c not in near]
            names |= {n for c in near for n in _roots(c, dependencies)}
        _require_a_cell(group, by_name, dependencies)


def _roots(one: Never, dependencies: Dependencies) -> set[str]:
    return {dependencies[n][0] if n in dependencies else n for n in names_in(one.condition)}


def _require_a_cell(group: Sequence[Never], by_name: Mapping[str, EncodedColumn], dependencies: Dependencies) -> None:
    names = list(dict.fromkeys(n for c in group for n in names_in(c.condition)))
    predicates = [a for c in group for a in predicates_of(c.condition)]
    grid = class_grid(by_name, names, predicates=predicates, whole=(), dependencies=dependencies)
    if math.prod(grid.shape) > _MOST_CELLS:
        return
    left = np.ones(grid.shape)
    for cells in grid.cells.values():
        # A row with a missing cell takes no part in the table, so it need not keep to a rule.
        if cells.encoded.dropped:
            left = left * ~cells.missing
    for one in group:
        left = left * (evaluate_condition(one.condition, grid.cells)[0] < 1.0)
    if not left.any():
        words = "; ".join(c.describe() for c in group)
        raise DeclarationError(f"no declared values keep to all of: {words}; that cannot hold: leave one out")


def _mapping(one: Determines, by_name: Mapping[str, EncodedColumn]) -> Any:
    source = by_name[one.of]
    target = by_name[one.column]
    if source.edges is not None or target.edges is not None:
        raise DeclarationError(f"{one.describe()}: both need a declared value each key; declare them as categories")
    keys_by_value = dict(one.values)
    # A column that drops missing cells need not map them.
    if source.dropped:
        keys_by_value.setdefault(None, None if target.missing else label_of(target, 0))
    places = {label_of(target, k): k for k in range(target.size)}
    table = np.zeros(source.size, dtype=np.int64)
    for key in range(source.size):
        label = label_of(source, key)
        if label not in keys_by_value:
            raise DeclarationError(
                f"{one.describe()}: the mapping has no entry for {label!r}; map every declared value"
            )
        if keys_by_value[label] not in places:
            raise DeclarationError(
                f"{one.describe()}: {keys_by_value[label]!r} is not a declared value of {one.column!r}"
            )
        table[key] = places[keys_by_value[label]]
    return table
