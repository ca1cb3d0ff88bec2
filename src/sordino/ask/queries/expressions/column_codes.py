"""Cells that are not numbers, in an engine's words: categories as codes, truths, identifiers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.queries.expressions.nodes import Value
from sordino.ask.queries.expressions.sql_trees import Build, whole
from sordino.core.domain import Boolean, Category, Fill, Identifier
from sordino.core.errors import UnknownName, nearest
from sordino.core.primitives import Primitives

if TYPE_CHECKING:
    from sqlglot import exp


def code_cell(name: str, column: Category | Boolean | Identifier) -> Build:
    """Return the cell of a column that holds no number: a code, a truth or text."""
    if isinstance(column, Category):
        return category_code(name, column)
    if isinstance(column, Boolean):
        return truth(name, column)
    return lambda on: on.text(name)


def truth(name: str, column: Boolean) -> Build:
    """Return the truth of a cell, missing ones filled where that is declared."""
    missing = column.missing

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        if not isinstance(missing, Fill):
            return on.truth(name)
        return exp.Coalesce(this=on.truth(name), expressions=[exp.true() if missing.value else exp.false()])

    return build


def code_of(name: str, column: Category, value: Value) -> int:
    wanted = int(value) if isinstance(value, Fraction) and value.denominator == 1 else value
    places: dict[Any, int] = {v: i for i, v in enumerate(column.values)}
    if isinstance(wanted, bool) or wanted not in places:
        text = wanted if isinstance(wanted, str) else str(wanted)
        raise UnknownName(f"{text!r} is not a declared value of {name!r}; {nearest(text, map(str, column.values))}")
    return places[wanted]


def category_code(name: str, column: Category) -> Build:
    """Return the code of a category's cell: its place among the declared values."""
    return lambda on: encode_category(column)(on, on.category_cell(name, whole=whole_values(column)))


def encode_category(column: Category) -> Callable[[Primitives, exp.Expression], exp.Expression]:
    """Return how a held cell becomes its code, missing cells filled where that is declared."""
    places = {v: i for i, v in enumerate(column.values)}
    other = None if column.other is None else places[column.other]

    def build(on: Primitives, cell: exp.Expression) -> exp.Expression:
        from sqlglot import exp

        code = on.code_of(cell, column.values, other)
        if isinstance(column.missing, Fill):
            return exp.Coalesce(this=code, expressions=[exp.Literal.number(places[column.missing.value])])
        return code

    return build


def whole_values(column: Category) -> bool:
    """Return whether a category's values are whole numbers rather than text."""
    return isinstance(column.values[0], int)


def truth_code(name: str, column: Boolean) -> Build:
    cell = truth(name, column)

    def build(on: Primitives) -> exp.Expression:
        from sqlglot import exp

        return exp.Case(
            ifs=[
                exp.If(this=cell(on), true=whole(1)),
                exp.If(this=exp.Not(this=exp.paren(cell(on))), true=whole(0)),
            ]
        )

    return build
