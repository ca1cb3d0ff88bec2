"""Post-processing of a noisy answer: HAVING, ORDER BY, LIMIT, and arithmetic over aggregates, such as SUM(a) / SUM(b).

It may not know an exact answer: it reads the released rows alone, so it costs nothing, and which rows are shown follows from
noisy numbers and declared keys only. Names in a formula are columns of the answer, shown or not.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

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
    plain,
    walk,
)
from sordino.core.errors import QuestionRefused, UnknownName, nearest
from sordino.core.estimates.estimate import take_rows
from sordino.core.estimates.evaluation import OF_ONE, Tree, evaluate, evaluate_truth
from sordino.core.estimates.formula import Formula
from sordino.core.estimates.selected import Selected
from sordino.core.loss import format_number
from sordino.core.release import Key, Output


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


_BIN = re.compile(r"\[(-?[0-9]+(?:\.[0-9]+)?(?:/[0-9]+)?), ")


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """The released rows that meet `having`, in the order of `order` (an expression, descending or not), `limit` at most.

    `offset` rows are skipped first. Names in it are columns of the answer.
    """

    having: Node | None = None
    order: tuple[tuple[Node, bool], ...] = ()
    limit: int | None = None
    offset: int = 0

    def check(self, columns: Sequence[str], truths: Collection[str] = ()) -> None:
        """Raise QuestionRefused or UnknownName unless it can be read from the columns of the answer.

        `truths` are those that hold true and false, which alone are conditions by themselves.
        """
        for node in [*([] if self.having is None else [self.having]), *(n for n, _ in self.order)]:
            depth(node)
            # What cannot be computed is refused now: after the charge it would fail.
            _tree(node, dict.fromkeys(columns))
            check_conditions(node, truths)
            for at in walk(node):
                # A function of numbers has none of text.
                if isinstance(at, Apply | Clip):
                    FormulaColumn("", at).tree(dict.fromkeys(columns, 0))
        if self.having is not None and not is_condition(self.having, truths):
            raise QuestionRefused(f"having needs a condition on the answer, such as n > 30: {describe(self.having)}")
        if (self.limit or 0) < 0 or self.offset < 0:
            raise QuestionRefused("limit and offset are numbers of rows, 0 or more")

    def selects(self, keys: Sequence[str], rows: int | None) -> bool:
        """Return whether noisy values decide which rows are shown: it names a column that is no key, and can cut rows.

        `keys` are the names of the key columns; `rows` how many rows the answer has, None where that is not public.
        """
        cuts = self.offset > 0 or (self.limit is not None and (rows is None or self.limit < rows))
        deciding = [*([] if self.having is None else [self.having]), *(n for n, _ in self.order if cuts)]
        return any(isinstance(at, Name) and at.name not in keys for node in deciding for at in walk(node))

    def rename(self, names: Mapping[str, str]) -> PostProcessing:
        """Return the same with other names for the columns that it reads."""
        having = None if self.having is None else rename(self.having, names)
        return replace(self, having=having, order=tuple((rename(node, names), down) for node, down in self.order))

    def describe(self) -> str:
        """Return the post-processing in words."""
        words = []
        if self.having is not None:
            words.append(f"of the answer, rows with {describe(self.having)}")
        if self.order:
            listed = [describe(n) + (" descending" if down else "") for n, down in self.order]
            words.append(f"ordered by {', '.join(listed)}")
        if self.limit is not None:
            words.append(f"the first {self.limit}" + (f" after {self.offset}" if self.offset else ""))
        elif self.offset:
            words.append(f"all but the first {self.offset}")
        return ", ".join(words)

    def plain(self) -> Any:
        """Return it as canonical JSON data."""
        skipped = [self.offset] if self.offset else []
        return [plain(self.having), [[plain(n), down] for n, down in self.order], self.limit, *skipped]


def select_rows(after: PostProcessing, columns: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return which rows of a released answer are shown, in what order, by their places from 0.

    `columns` are the released columns by name: keys and noisy values. A row whose condition is missing is not kept;
    missing values come last, whichever way the order goes; bins are ordered by their lower ends.

    >>> from sordino.ask.queries.expressions.expr import col
    >>> select_rows(PostProcessing((col("n") > 3).node, ((col("n").node, True),), 2), {"n": [5, 2, 9, 4]})
    [2, 0]
    """
    height = max((len(c) for c in columns.values()), default=0)
    cells = {name: np.fromiter(column, dtype=object, count=height) for name, column in columns.items()}
    places = list(range(height))
    if after.having is not None:
        holds = np.broadcast_to(evaluate_truth(_tree(after.having, cells)).true, (height,))
        places = np.flatnonzero(holds).tolist()
    # Sorting is stable, so the first key goes last.
    for node, down in reversed(after.order):
        keys = [_sortable(value) for value in np.broadcast_to(evaluate(_tree(node, cells)), (height,)).tolist()]
        present = sorted((i for i in places if keys[i] is not None), key=keys.__getitem__, reverse=down)
        places = [*present, *(i for i in places if keys[i] is None)]
    return places[after.offset : None if after.limit is None else after.offset + after.limit]


def finish_answer(
    after: PostProcessing | None,
    formulas: Sequence[FormulaColumn],
    hidden: Sequence[str],
    keys: tuple[Key, ...],
    outputs: tuple[Output, ...],
    *,
    together: bool,
) -> tuple[tuple[Key, ...], tuple[Output, ...]]:
    """Finish a noisy answer: add its formulas, keep the rows that `after` selects, drop hidden columns.

    Where noisy values decide which rows are left and the intervals are to hold `together`, those of the rows that are left
    allow for all rows: see `Selected`.
    """
    if formulas:
        keys, outputs = _add_formulas(formulas, keys, outputs)
    if after is not None:
        columns: dict[str, Sequence[Any]] = {k.name: k.labels for k in keys}
        columns |= {o.name: o.estimate.values() for o in outputs}
        places = select_rows(after, columns)
        rows = len(keys[0].labels) if keys else 1
        selected = together and after.selects([k.name for k in keys], rows)
        keys = tuple(Key(k.name, tuple(k.labels[i] for i in places), k.kind) for k in keys)
        outputs = tuple(Output(o.name, take_rows(o.estimate, places), o.mechanism) for o in outputs)
        if selected:
            outputs = tuple(Output(o.name, _as_selected(after, o, max(1, rows)), o.mechanism) for o in outputs)
    return keys, tuple(o for o in outputs if o.name not in hidden)


def _as_selected(after: PostProcessing, output: Output, rows: int) -> Selected:
    """Return the estimate of rows that were chosen from `rows`: of the column whose first values are shown, as such."""
    if after.limit and not after.offset and after.having is None and after.order:
        node, descending = after.order[0]
        if isinstance(node, Name) and node.name == output.name:
            return Selected(output.estimate, rows, top=after.limit, rising=not descending)
    return Selected(output.estimate, rows)


def _add_formulas(
    formulas: Sequence[FormulaColumn], keys: tuple[Key, ...], outputs: tuple[Output, ...]
) -> tuple[tuple[Key, ...], tuple[Output, ...]]:
    """Return the answer with the columns that are computed from it; a constant is a key that all rows have."""
    rows = len(keys[0].labels) if keys else 1
    released = {o.name: o for o in outputs}
    labels: list[Key] = []
    computed: list[Output] = []
    for formula in formulas:
        if formula.is_constant:
            labels.append(Key(formula.alias, (formula.label,) * rows))
            continue
        parts = [released[name] for name in formula.names()]
        tree = formula.tree({p.name: i for i, p in enumerate(parts)})
        words = "; ".join(dict.fromkeys(p.mechanism for p in parts))
        alone = len(parts) == 1 and tree == ["column", 0]
        estimate = parts[0].estimate if alone else Formula(tree, tuple(p.estimate for p in parts))
        computed.append(Output(formula.alias, estimate, words))
    return (*keys, *labels), (*outputs, *computed)


def _tree(node: Node, columns: Mapping[str, Any]) -> Tree:
    """Return an expression over columns of the answer as the interpreter reads it, with the columns' cells in it."""

    def leaf(at: Node) -> Tree | None:
        if isinstance(at, Name):
            if at.name not in columns:
                raise UnknownName(f"the answer has no column {at.name!r}; {nearest(at.name, list(columns))}")
            return ["value", columns[at.name]]
        if not isinstance(at, Constant):
            return None
        value: Any = at.value
        if isinstance(value, Fraction) and value.denominator == 1:
            value = int(value)
        return ["value", np.array(value, dtype=object)]

    return to_tree(node, leaf)


def _sortable(value: Any) -> Any:
    """Return the sort key of a value: of a bin's label its lower end; kinds are kept apart."""
    if value is None or value != value:
        return None
    if isinstance(value, str):
        bin_label = _BIN.match(value)
        return (1, float(Fraction(bin_label.group(1))), "") if bin_label else (2, 0.0, value)
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is None else value.astimezone(datetime.UTC)
        return (3, moment.toordinal(), moment.time().isoformat(timespec="microseconds"))
    return (3, value.toordinal(), "") if isinstance(value, datetime.date) else (0, value, "")
