"""How people write one value a person in Python: min, max, any, all, first, last."""

from __future__ import annotations

from sordino.ask.queries.build import AggregateExpr, Column, label
from sordino.ask.queries.expressions.expr import Expr, col
from sordino.ask.queries.expressions.nodes import Node
from sordino.ask.queries.per_unit import UnitValue
from sordino.core.errors import QuestionRefused


# min, max, any and all shadow the builtins: the field writes sd.min.
def min(of: Column) -> AggregateExpr:
    """Take the least value of a person's rows, inside `.per_unit(...)`.

    >>> min("age")
    <the least age, as min_age>
    """
    return _pick("min", of)


def max(of: Column) -> AggregateExpr:
    """Take the largest value of a person's rows, inside `.per_unit(...)`."""
    return _pick("max", of)


def mode(of: Column) -> AggregateExpr:
    """Take the most frequent value of a person's rows, inside `.per_unit(...)`; of several the least."""
    return _pick("mode", of)


def any(of: Column) -> AggregateExpr:
    """Say whether a condition holds for any row of a person, inside `.per_unit(...)`.

    >>> any(col("cost") > 100)
    <whether any row has cost > 100, as any_cost>
    """
    return _pick("any", of)


def all(of: Column) -> AggregateExpr:
    """Say whether a condition holds for all rows of a person, inside `.per_unit(...)`."""
    return _pick("all", of)


def first(of: Column, *, by: Column) -> AggregateExpr:
    """Take the value of a person's row with the least `by`, a number or a day, inside `.per_unit(...)`.

    Of several rows with that `by` the least value is taken. Rows without a value or without `by` take no part.

    >>> first("region", by="day")
    <the first region by day, as first_region>
    """
    return _pick("first", of, by)


def last(of: Column, *, by: Column) -> AggregateExpr:
    """Take the value of a person's row with the largest `by`, inside `.per_unit(...)`; of several the largest value."""
    return _pick("last", of, by)


def _pick(kind: str, of: Column, by: Column | None = None) -> AggregateExpr:
    node = _node(of)
    return AggregateExpr(UnitValue(kind, node, f"{kind}_{label(node)}", None if by is None else _node(by)))


def _node(of: Column) -> Node:
    if isinstance(of, str):
        return col(of).node
    if isinstance(of, Expr):
        return of.node
    raise QuestionRefused(f"a column is named by text or by col(...), not by a {type(of).__name__}")
