"""Where an expression may be missing: by a missing cell of a column alone, or because the question makes it so.

A key that only a missing cell makes NULL follows the column's declaration. A key that the question can make NULL, by a
choice without ELSE, a division by 0 or a LEFT JOIN, has a NULL group, which holds every row whose key is NULL, as in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

from sordino.ask.queries.expressions.compile import bind_values, number
from sordino.ask.queries.expressions.declared_values import is_text, keeps_missing, text_number
from sordino.ask.queries.expressions.nodes import (
    Apply,
    Constant,
    Exists,
    IsNull,
    Name,
    Node,
    Not,
    Released,
    TextFunction,
    When,
    children,
)
from sordino.core.domain import Domain, Fill, Identifier
from sordino.core.errors import QuestionRefused

_DIVISIONS = ("divide", "remainder", "modulo")
# below these arguments a value may be missing; 0 has a root, but no logarithm
_ROOTS = {"sqrt": 0, "ln": 1, "log2": 1, "log10": 1}


@dataclass(frozen=True, slots=True)
class Missing:
    """Why an expression may be missing: `by_question`, and by the missing cells of `columns`.

    `keeps` says that one of these columns declares its missing cells as a key of their own.
    """

    by_question: bool = False
    columns: tuple[str, ...] = ()
    keeps: bool = False

    @property
    def is_key(self) -> bool:
        """Whether rows in which it is missing have a group of their own."""
        return self.by_question or self.keeps

    def __or__(self, other: Missing) -> Missing:
        columns = tuple(dict.fromkeys((*self.columns, *other.columns)))
        return Missing(self.by_question or other.by_question, columns, self.keeps or other.keeps)


_NEVER = Missing()
_BY_QUESTION = Missing(by_question=True)


def may_be_missing(node: Node | None, domain: Domain, *, present: frozenset[Node] = frozenset()) -> Missing:
    """Return why an expression may be missing; `present` are expressions that are known not to be.

    >>> from sordino.core.domain import Integer
    >>> from sordino.ask.queries.expressions.expr import col
    >>> domain = Domain({"x": Integer(0, 3)})
    >>> may_be_missing(col("x").node, domain)
    Missing(by_question=False, columns=('x',), keeps=False)
    >>> may_be_missing((col("x") / col("x")).node, domain).by_question, may_be_missing(col("x").is_null().node, domain).columns
    (True, ())
    """
    if node is None:
        return _BY_QUESTION
    if node in present or isinstance(node, (Constant, IsNull, Exists)):
        return _NEVER
    if isinstance(node, Name):
        return _column(node.name, domain)
    if isinstance(node, Released):
        return _BY_QUESTION
    if isinstance(node, When):
        present_then, rest = _known_present(node.of)
        left = may_be_missing(node.left, domain, present=present | present_then)
        return left | may_be_missing(node.right, domain, present=present | rest)
    missing = _BY_QUESTION if _has_no_value(node, domain) else _NEVER
    joins = isinstance(node, TextFunction) and node.function == "join"
    for child in children(node):
        if joins and keeps_missing(child, domain):
            # What is missing is an empty text there.
            continue
        missing |= may_be_missing(child, domain, present=present)
    return missing


def _column(name: str, domain: Domain) -> Missing:
    column = domain[name]
    if any(name in getattr(step, "always_present", ()) for step in domain.steps):
        return _NEVER
    if isinstance(column, Identifier):
        return Missing(columns=(name,))
    if isinstance(column.missing, Fill):
        return _NEVER
    return Missing(columns=(name,), keeps=column.missing == "keep")


def _known_present(condition: Node) -> tuple[frozenset[Node], frozenset[Node]]:
    """Return the expressions that are present where a condition is true, and where it is not, as in COALESCE."""
    if isinstance(condition, IsNull):
        return frozenset(), frozenset({condition.of})
    if isinstance(condition, Not) and isinstance(condition.of, IsNull):
        return frozenset({condition.of.of}), frozenset()
    return frozenset(), frozenset()


def _has_no_value(node: Node, domain: Domain) -> bool:
    """Return whether a function has no value for some of its operands that are there."""
    if isinstance(node, Apply) and node.function in _DIVISIONS and node.right is not None:
        divisor = number(node.right, domain).interval
        return (divisor.lower is None or divisor.lower <= 0) and (divisor.upper is None or divisor.upper >= 0)
    if isinstance(node, Apply) and node.function in _ROOTS:
        lower = number(node.of, domain).interval.lower
        return lower is None or lower < _ROOTS[node.function]
    if isinstance(node, TextFunction) and node.function == "number":
        try:
            values = bind_values(node.of, domain).values
        except QuestionRefused:
            # A cast of what is a number already.
            return False
        return any(v is not None and text_number("number", v) is None for v in values)
    if is_text(node):
        return any(v is None for v in bind_values(node, domain).values)
    return False
