"""Conditions from text, what follows WHERE, and as JSON data, as model files hold them. It knows no data."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import (
    Absolute,
    Arithmetic,
    Clip,
    Compare,
    Connective,
    Constant,
    IsIn,
    IsNull,
    Name,
    Node,
    Not,
    Value,
)
from sordino.ask.queries.sql.parse import parse_sql
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import format_number

_NODES: dict[str, Any] = {
    kind.__name__: kind for kind in (Absolute, Arithmetic, Clip, Compare, Connective, Constant, IsIn, IsNull, Name, Not)
}
_PLACE = re.compile(r"^line \d+, column \d+: ")


def parse_condition(text: str, columns: Sequence[str]) -> Expr:
    """Return the condition that the words after WHERE state about columns; raises QuestionRefused for other text.

    >>> parse_condition("age > 30 AND sex = 'Female'", ["age", "sex"]) is not None
    True
    """
    if not text.strip() or ";" in text:
        raise QuestionRefused("a condition is what follows WHERE, such as \"age > 30 AND sex = 'Female'\"")
    try:
        statement = parse_sql(f"SELECT COUNT(*) AS n FROM model WHERE (\n{text}\n)", table="model", columns=columns)
    # The message is reworded: it must not point at a place in a statement that the user did not write.
    except QuestionRefused as error:
        words = _PLACE.sub("", str(error))
        kind = type(error)
    else:
        if (
            statement.where is None
            or statement.groups
            or statement.after is not None
            or statement.steps
            or len(statement.aggregates) != 1
        ):
            raise QuestionRefused("a condition is what follows WHERE alone, without GROUP BY, ORDER BY or LIMIT")
        return Expr(statement.where)
    raise kind(words)


def node_to_data(node: Node) -> Any:
    """Return a condition as JSON data: the name of its kind, then its parts."""
    kind = type(node).__name__
    if kind not in _NODES:
        raise DeclarationError("a constraint is made of comparisons, and, or, not, and arithmetic on columns")
    if isinstance(node, Constant):
        return [kind, _value_to(node.value)]
    return [kind, *(_part_to(getattr(node, field.name)) for field in fields(node))]


def _part_to(part: Any) -> Any:
    if part is None or isinstance(part, str):
        return part
    if isinstance(part, tuple):
        return [_value_to(value) for value in part]
    return node_to_data(Constant(part) if isinstance(part, Fraction) else part)


def node_from_data(data: Any) -> Node:
    """Return what `node_to_data` wrote; raises an error of `model_file._BROKEN` for something else."""
    kind, *rest = data
    if kind == "Name":
        return Name(str(rest[0]))
    if kind == "Constant":
        return Constant(_value_from(rest[0]))
    if kind == "IsIn":
        return IsIn(node_from_data(rest[0]), tuple(_value_from(v) for v in rest[1]))
    parts = [node_from_data(r) if isinstance(r, list) else r for r in rest]
    if kind == "Clip":
        parts = [parts[0], *(p.value if isinstance(p, Constant) else None for p in parts[1:])]
    node: Node = _NODES[kind](*parts)
    return node


def _value_to(value: Value) -> list[str]:
    if isinstance(value, bool):
        return ["bool", str(value)]
    if isinstance(value, Fraction):
        return ["number", format_number(value)]
    if isinstance(value, datetime.datetime):
        return ["moment", value.isoformat()]
    return ["day", value.isoformat()] if isinstance(value, datetime.date) else ["text", value]


def _value_from(data: Any) -> Value:
    kind, text = data
    if kind == "bool":
        return bool(text == "True")
    if kind == "number":
        return Fraction(text)
    if kind == "moment":
        return datetime.datetime.fromisoformat(text)
    return datetime.date.fromisoformat(text) if kind == "day" else str(text)
