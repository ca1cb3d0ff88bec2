"""Choices between values by conditions: `when(...)` and `exists(...)`, to write the trees of nodes.py. Knows no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sordino.ask.queries.expressions.expr import Expr, as_node
from sordino.ask.queries.expressions.nodes import Exists, Node, When, depth
from sordino.core.errors import QuestionRefused

# Where a value is not given yet: None is one.
_LATER: Any = object()


@dataclass(frozen=True, slots=True)
class Cases:
    """Conditions with their values so far; `.when(...)` adds one, `.otherwise(value)` ends them.

    `condition` is the last one where it waits for its value, which `.then(value)` gives.
    """

    pairs: tuple[tuple[Node, Node], ...]
    condition: Node | None = None

    def when(self, condition: Expr, value: Any = _LATER) -> Cases:
        """Return the cases with one more: `value` where `condition` is true and none before it is."""
        self._check_then()
        node = _condition(condition)
        return Cases(self.pairs, node) if value is _LATER else Cases((*self.pairs, (node, as_node(value))))

    def then(self, value: Any) -> Cases:
        """Return the cases with the value of the last condition, as in polars; a text is itself, not a column."""
        if self.condition is None:
            raise QuestionRefused("then follows when(condition): each condition has one value")
        return Cases((*self.pairs, (self.condition, as_node(value))))

    def otherwise(self, value: Any) -> Expr:
        """Return the expression: `value` where no condition is true; None means missing."""
        self._check_then()
        choice = None if value is None else as_node(value)
        for condition, value_then in reversed(self.pairs):
            choice = When(condition, value_then, choice)
        return Expr(cast("Node", choice))

    def _check_then(self) -> None:
        if self.condition is not None:
            raise QuestionRefused(
                "when(condition) needs its value: when(condition, value), or when(condition).then(value)"
            )


def when(condition: Expr, value: Any = _LATER) -> Cases:
    """Begin a choice: `value` where `condition` is true. Values are numbers; or all text, as keys to group by.

    >>> from sordino import col
    >>> when(col("age") < 18, "minor").when(col("age") < 65, "adult").otherwise("senior")
    <Expr (if age < 18 then 'minor' else (if age < 65 then 'adult' else 'senior'))>

    The value may follow, as in polars: `when(col("age") < 18).then("minor").otherwise("adult")`.
    """
    return Cases(()).when(condition, value)


def exists(table: str, condition: Expr | None = None) -> Expr:
    """Ask whether the row's unit has rows in another private table of the same people, or such as meet `condition` there.

    It is a condition, for `where`, `when` and group_by; `~exists(...)` holds for those who have none. Nothing is joined, so
    no sensitivity grows.

    >>> from sordino.ask.queries.expressions.expr import col
    >>> exists("person", col("age") > 40)
    <Expr exists(person where age > 40)>
    """
    if not isinstance(table, str) or not table:
        raise QuestionRefused('exists takes the name of a private table: exists("person", col("age") > 40)')
    if condition is not None and not isinstance(condition, Expr):
        raise QuestionRefused('exists takes a condition on that table, such as exists("person", col("age") > 40)')
    if condition is not None:
        depth(condition.node)
    return Expr(Exists(table, None if condition is None else condition.node))


def _condition(condition: Expr) -> Node:
    if not isinstance(condition, Expr):
        raise QuestionRefused('when takes a condition, such as when(col("age") > 30, 1).otherwise(0)')
    return condition.node
