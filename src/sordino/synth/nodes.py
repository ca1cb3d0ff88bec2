"""Conditions of constraints as JSON data and back, for model files. Knows no data."""

from __future__ import annotations

import datetime
from fractions import Fraction
from typing import Any

from sordino.errors import DeclarationError
from sordino.loss import format_number
from sordino.queries.expressions.nodes import (
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

__all__ = ["node_from", "node_to"]

_KINDS: dict[str, Any] = {
    "Absolute": Absolute,
    "Arithmetic": Arithmetic,
    "Clip": Clip,
    "Compare": Compare,
    "Connective": Connective,
    "IsNull": IsNull,
    "Not": Not,
}


def node_to(node: Node) -> Any:
    """Return a condition as JSON data."""
    if isinstance(node, Name):
        return ["Name", node.name]
    if isinstance(node, Constant):
        return ["Constant", _plain(node.value)]
    if isinstance(node, IsIn):
        return ["IsIn", node_to(node.of), [_plain(v) for v in node.values]]
    kind = type(node).__name__
    if kind not in _KINDS:
        raise DeclarationError("a constraint is made of comparisons, and, or, not, and arithmetic on columns")
    parts: list[Any] = [kind]
    for field in node.__dataclass_fields__:
        item = getattr(node, field)
        if item is None or isinstance(item, str):
            parts.append(item)
        else:
            parts.append(["Constant", _plain(item)] if isinstance(item, Fraction) else node_to(item))
    return parts


def node_from(data: Any) -> Node:
    """Return the condition that `node_to` wrote."""
    kind, *rest = data
    if kind == "Name":
        return Name(str(rest[0]))
    if kind == "Constant":
        return Constant(_value(rest[0]))
    if kind == "IsIn":
        return IsIn(node_from(rest[0]), tuple(_value(v) for v in rest[1]))
    parts = [node_from(r) if isinstance(r, list) else r for r in rest]
    if kind == "Clip":
        parts = [parts[0], *(p.value if isinstance(p, Constant) else None for p in parts[1:])]
    made: Node = _KINDS[kind](*parts)
    return made


def _plain(value: Value) -> list[str]:
    if isinstance(value, bool):
        return ["bool", str(value)]
    if isinstance(value, Fraction):
        return ["number", format_number(value)]
    return ["day", value.isoformat()] if isinstance(value, datetime.date) else ["text", value]


def _value(data: Any) -> Value:
    kind, text = data
    if kind == "bool":
        return bool(text == "True")
    if kind == "number":
        return Fraction(text)
    return datetime.date.fromisoformat(text) if kind == "day" else str(text)
