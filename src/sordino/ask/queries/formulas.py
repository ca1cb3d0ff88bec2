"""Arithmetic over the aggregates of an answer, such as SUM(a) / SUM(b): what the column is called, and its formula.

It is done to released values, so it is free. Names in a formula are columns of the answer, shown or not.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.nodes import (
    Absolute,
    Apply,
    Arithmetic,
    Clip,
    Compare,
    Connective,
    Constant,
    IsIn,
    IsNull,
    Match,
    Name,
    Node,
    Not,
    When,
    children,
    depth,
    describe,
    walk,
)
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.evaluation import OF_ONE, Tree
from sordino.core.loss import format_number

_OF_TWO = ("round", "divide", "remainder", "modulo")


@dataclass(frozen=True, slots=True)
class FormulaColumn:
    """One column that is computed from others of the answer: its name, and its formula over their names."""

    alias: str
    node: Node

    def names(self) -> tuple[str, ...]:
        """Return the columns that the formula reads, in order of first use."""
        return tuple(dict.fromkeys(at.name for at in walk(self.node) if isinstance(at, Name)))

    def describe(self, words: Mapping[str, str]) -> str:
        """Return the formula in words, each column by what it is."""
        depth(self.node)
        return describe(rename(self.node, words))

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant of the question, which every row repeats."""
        return isinstance(self.node, Constant)

    @property
    def label(self) -> str | int | float | bool | datetime.date | None:
        """The constant; None for a formula. A moment without a zone is text: a record would give it one."""
        value = self.node.value if isinstance(self.node, Constant) else None
        if isinstance(value, Fraction):
            return int(value) if value.denominator == 1 else float(value)
        if isinstance(value, datetime.datetime) and value.tzinfo is None:
            return value.isoformat()
        return value

    def linear(self) -> tuple[dict[str, Fraction], Fraction] | None:
        """Return the factor of each column and the constant of a linear formula; None where it is not linear.

        >>> from sordino.ask.queries.expressions.expr import col
        >>> FormulaColumn("x", (100 - col("n") / 4).node).linear()
        ({'n': Fraction(-1, 4)}, Fraction(100, 1))
        """
        depth(self.node)
        return _linear(self.node)

    def tree(self, places: Mapping[str, int]) -> Tree:
        """Return the formula as an estimate reads it, the columns by their places; raises QuestionRefused for what cannot be."""
        depth(self.node)

        def leaf(node: Node) -> Tree | None:
            if isinstance(node, Name):
                return ["column", places[node.name]]
            if not isinstance(node, Constant):
                return None
            if isinstance(node.value, bool):
                return ["number", "1" if node.value else "0"]
            if isinstance(node.value, Fraction):
                return ["number", format_number(node.value)]
            raise QuestionRefused(f"{describe(node)} is not a number: formulas of an answer compute with numbers")

        return [] if self.is_constant else to_tree(self.node, leaf)


def rename(node: Node, words: Mapping[str, str]) -> Node:
    """Return an expression with other names for its columns; those without one stay."""
    if isinstance(node, Name):
        return Name(words.get(node.name, node.name))
    changed: dict[str, Any] = {
        field: rename(child, words)
        for field in ("of", "left", "right")
        if (child := getattr(node, field, None)) is not None
    }
    return replace(node, **changed) if changed else node


def is_condition(node: Node, truths: Collection[str] = ()) -> bool:
    """Return whether an expression over an answer is true or false: not a number, whatever a dialect makes of one.

    `truths` are the columns of the answer that hold true and false.
    """
    if isinstance(node, Connective):
        return is_condition(node.left, truths) and is_condition(node.right, truths)
    if isinstance(node, Not):
        return is_condition(node.of, truths)
    if isinstance(node, When):
        return is_condition(node.left, truths) and (node.right is None or is_condition(node.right, truths))
    if isinstance(node, Name):
        return node.name in truths
    return isinstance(node, Compare | IsIn | IsNull | Match) or (
        isinstance(node, Constant) and isinstance(node.value, bool)
    )


def check_conditions(node: Node, truths: Collection[str] = ()) -> None:
    """Raise QuestionRefused where an operand of NOT, AND, OR or CASE is no condition, as WHERE does."""
    for at in walk(node):
        needed = [at.left, at.right] if isinstance(at, Connective) else [at.of] if isinstance(at, Not | When) else []
        for part in needed:
            if not is_condition(part, truths):
                raise QuestionRefused(f"a condition is needed, such as {describe(part)} > 0, not {describe(part)}")


def _linear(node: Node) -> tuple[dict[str, Fraction], Fraction] | None:
    if isinstance(node, Name):
        return {node.name: Fraction(1)}, Fraction(0)
    if isinstance(node, Constant):
        return None if type(node.value) is not Fraction else ({}, node.value)
    is_division = isinstance(node, Apply) and node.function == "divide" and node.right is not None
    if not is_division and not (isinstance(node, Arithmetic) and node.op in "+-*"):
        return None
    assert isinstance(node, Arithmetic | Apply)
    assert node.right is not None
    of = node.left if isinstance(node, Arithmetic) else node.of
    left = _linear(of)
    right = _linear(node.right)
    if left is None or right is None:
        return None
    if isinstance(node, Arithmetic) and node.op in "+-":
        sign = 1 if node.op == "+" else -1
        factors = {n: left[0].get(n, 0) + sign * right[0].get(n, 0) for n in {**left[0], **right[0]}}
        return {n: Fraction(f) for n, f in factors.items()}, left[1] + sign * right[1]
    # a product or a quotient is linear where one side, or the divisor, is a number
    if right[0] and (left[0] or is_division):
        return None
    terms, factor = (left, right[1]) if not right[0] else (right, left[1])
    if is_division:
        if not factor:
            return None
        factor = 1 / factor
    return {n: f * factor for n, f in terms[0].items()}, terms[1] * factor


def _operation(node: Node) -> str:
    """Return the interpreter's operation of a node; empty where it has none."""
    if isinstance(node, Arithmetic | Compare | Connective):
        return node.op
    if isinstance(node, Apply):
        # Functions of days and moments are of rows alone.
        two = {"round": "round", "divide": "/", "remainder": "remainder", "modulo": "modulo"}
        return (
            two.get(node.function, "") if node.right is not None else node.function if node.function in OF_ONE else ""
        )
    return {Absolute: "abs", Not: "not", IsNull: "missing", When: "if"}.get(type(node), "")


def to_tree(node: Node, leaf: Callable[[Node], Tree | None]) -> Tree:
    """Return an expression as the interpreter reads it (`core.estimates.evaluation`), each part as `leaf` says, if it says so.

    Raises QuestionRefused for what the interpreter has no operation for. `leaf` says what columns and constants are.
    """

    column = leaf(node)
    if column is not None:
        return column
    if isinstance(node, IsIn):
        of = to_tree(node.of, leaf)
        equal = [["=", of, to_tree(Constant(value), leaf)] for value in node.values]
        return functools.reduce(lambda one, other: ["or", one, other], equal or [["number", "0"]])
    if isinstance(node, Clip):
        tree = to_tree(node.of, leaf)
        for operation, bound in (("greatest", node.lower), ("least", node.upper)):
            if isinstance(bound, datetime.date):
                raise QuestionRefused(f"{describe(node)}: what is computed from an answer is clipped to numbers")
            tree = tree if bound is None else [operation, tree, ["number", format_number(bound)]]
        return tree
    operation = _operation(node)
    if operation:
        parts = [to_tree(part, leaf) for part in children(node)]
        return (
            [operation, *parts, ["nothing"]] if isinstance(node, When) and node.right is None else [operation, *parts]
        )
    raise QuestionRefused(
        f"{describe(node)} cannot be computed from an answer: use comparisons, arithmetic, ROUND, ABS, SQRT, LN or CASE"
    )
