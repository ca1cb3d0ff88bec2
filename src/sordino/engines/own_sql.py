"""Our own SQL text as trees: only names and values that we quoted ourselves are in it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["parse_own", "parse_relation"]


def parse_own(text: str) -> exp.Expression:
    """Return the tree of an expression; equal texts are parsed once."""
    return _parse_once(text).copy()


def parse_relation(text: str) -> exp.Expression:
    """Return the tree of a relation, such as a sub-query with its name."""
    select = _parse_once(f"SELECT 1 FROM {text}").copy()
    found: exp.Expression = (select.args.get("from_") or select.args["from"]).this
    return found


@functools.lru_cache(maxsize=512)
def _parse_once(text: str) -> exp.Expression:
    from sqlglot import parse_one

    return cast("exp.Expression", parse_one(text, dialect="duckdb"))
