"""Row values in SQL: (state, year) IN (('NY', 2020), ...), as the list of an answer's keys or as a condition."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Constant
from sordino.ask.queries.key_list import KeyList, Label
from sordino.ask.queries.sql.text import Place, trees
from sordino.core.errors import QuestionRefused

Read = Callable[[Any], Expr]


def is_row_list(item: Any) -> bool:
    """Return whether a tree is (a, b) IN (...)."""
    return isinstance(item, trees().In) and isinstance(item.this, trees().Tuple)


def take_key_list(
    place: Place, where: Any, groups: Sequence[Grouping], read: Read
) -> tuple[KeyList | None, list[Any] | None]:
    """Return the list of keys that a condition states, and the other conditions; None and None where it states none.

    A row of the table with other keys takes no part, so the list is the whole meaning of its condition.
    """
    parts = list(where.flatten()) if isinstance(where, trees().And) else [where]
    parts = [part.unnest() for part in parts]
    for part in parts:
        if not is_row_list(part):
            continue
        nodes = [read(column).node for column in part.this.expressions]
        names = [next((g.alias for g in groups if g.of == node), None) for node in nodes]
        if None in names:
            continue
        rows = dict.fromkeys(tuple(map(_label, row)) for row in _constants(place, part, read))
        return KeyList(tuple(n for n in names if n is not None), tuple(rows)), [p for p in parts if p is not part]
    return None, None


def match_rows(place: Place, item: Any, read: Read) -> Expr:
    """Return the condition that columns equal one of some rows of constants."""
    columns = [read(column) for column in item.this.expressions]
    found: list[Expr] = []
    for row in _constants(place, item, read):
        terms = [column == Expr(Constant(value)) for column, value in zip(columns, row, strict=True)]
        found.append(_balance(terms, lambda a, b: a & b))
    return _balance(found, lambda a, b: a | b)


def _constants(place: Place, item: Any, read: Read) -> list[tuple[Any, ...]]:
    kinds = trees()
    rows = [r for e in item.expressions for r in (e.expressions if isinstance(e, kinds.Values) else [e])]
    width = len(item.this.expressions)
    found = []
    for row in rows:
        nodes = [read(e).node for e in row.expressions] if isinstance(row, kinds.Tuple) else []
        if len(nodes) != width or not all(isinstance(n, Constant) for n in nodes):
            raise QuestionRefused(f"{place.of(row)}each row of this IN is {width} constants, such as ('NY', 2020)")
        found.append(tuple(n.value for n in nodes if isinstance(n, Constant)))
    if not found:
        raise QuestionRefused(f"{place.of(item)}IN takes a list of rows, such as (state, year) IN (('NY', 2020))")
    return found


def _label(value: Any) -> Label:
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    assert isinstance(value, (str, bool, datetime.date))
    return value


def _balance(terms: Sequence[Expr], join: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return the terms joined as a tree that is as flat as can be."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return join(_balance(terms[:half], join), _balance(terms[half:], join))
