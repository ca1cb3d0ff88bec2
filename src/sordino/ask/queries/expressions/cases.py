"""Choices between values by conditions: `when(...)` and `exists(...)`, to write the trees of nodes.py. Knows no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sordino.ask.queries.expressions.expr import Expr, as_node
from sordino.ask.queries.expressions.nodes import Exists, Node, When, depth
from sordino.core.errors import QuestionRefused


@dataclass(frozen=True, slots=True)
class Cases:
    """Conditions with their values so far; `.when(...)` adds one, `.otherwise(value)` ends them."""

    pairs: tuple[tuple[Node, Node], ...]

    def when(self, condition: Expr, value: Any) -> Cases:
        """Return the cases with one more: `value` where `condition` is true and none before it is."""
        return Cases((*self.pairs, _case(condition, value)))

    def otherwise(self, value: Any) -> Expr:
        """Return the expression: `value` where no condition is true; None means missing."""
        made = None if value is None else as_node(value)
        for condition, chosen in reversed(self.pairs):
            made = When(condition, chosen, made)
        return Expr(cast("Node", made))


def when(condition: Expr, value: Any) -> Cases:
    """Begin a choice: `value` where `condition` is true. Values are numbers; or all text, as keys to group by.

    >>> from sordino import col
    >>> when(col("age") < 18, "minor").when(col("age") < 65, "adult").otherwise("senior")
    <Expr (if age < 18 then 'minor' else (if age < 65 then 'adult' else 'senior'))>
    """
    return Cases((_case(condition, value),))


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


def _case(condition: Expr, value: Any) -> tuple[Node, Node]:
    if not isinstance(condition, Expr):
        raise QuestionRefused('when takes a condition, such as when(col("age") > 30, 1).otherwise(0)')
    return condition.node, as_node(value)
