"""Columns by name, wherever a question names them: each name becomes what it means. It knows no declaration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, cast

from sordino.queries.expressions.nodes import Name, Node, depth

__all__ = ["replace_names"]

T = TypeVar("T")


def replace_names(thing: T, meaning: Callable[[str], Node]) -> T:
    """Return an expression, an aggregate, a group or a row step with every column's name replaced by what it means."""
    return cast(T, _replace(thing, meaning))


def _replace(thing: Any, meaning: Callable[[str], Node]) -> Any:
    if isinstance(thing, Name):
        return meaning(thing.name)
    if isinstance(thing, tuple):
        return tuple(_replace(item, meaning) for item in thing)
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return thing
    if hasattr(thing, "left") or hasattr(thing, "of"):
        depth(thing)  # type: ignore[arg-type]  # it looks at fields only
    return dataclasses.replace(
        thing, **{f.name: _replace(getattr(thing, f.name), meaning) for f in dataclasses.fields(thing)}
    )
