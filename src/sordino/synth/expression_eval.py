"""What a condition or a number means for keys of a model, or for drawn rows: the same evaluator for both. Knows no data.

Truth is a pair (true, false) of shares between 0 and 1, since a run of steps may meet a condition in part; a missing value
is neither, as in SQL. Within a run, values are taken to be spread evenly.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.expressions.bound_number import code_of, number_cell
from sordino.ask.queries.expressions.declared_values import bind_values, is_text, pattern_test, text_number
from sordino.ask.queries.expressions.nodes import (
    MIRROR,
    OPERATORS,
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
    TextFunction,
    Value,
    describe,
    walk,
)
from sordino.ask.queries.expressions.times import moment_constant
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.formula import evaluate
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats

Truth = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class ColumnCells:
    """Cells of one column, of any shape: their keys, whether missing, and the least and most step each stands for."""

    encoded: EncodedColumn
    keys: Codes
    missing: np.ndarray[Any, np.dtype[np.bool_]]
    low: Floats
    high: Floats

    def reshape(self, shape: tuple[int, ...]) -> ColumnCells:
        """Return the cells reshaped, to stand along an axis of a table."""
        keys = self.keys.reshape(shape)
        missing = self.missing.reshape(shape)
        return ColumnCells(self.encoded, keys, missing, self.low.reshape(shape), self.high.reshape(shape))


def column_cells(encoded: EncodedColumn, keys: Codes, *, steps: Codes | None = None) -> ColumnCells:
    """Return cells for keys; `steps` gives exact steps of drawn rows in place of the run of each key."""
    missing = (keys == encoded.size - 1) if encoded.missing else np.zeros(keys.shape, dtype=bool)
    if steps is not None or encoded.edges is None:
        low = high = (keys + encoded.lowest if steps is None else steps).astype(np.float64)
    else:
        edges = np.asarray(encoded.edges, dtype=np.float64)
        at = np.minimum(keys, len(edges) - 2)
        low = edges[at]
        high = np.where(at == len(edges) - 2, edges[at + 1], edges[at + 1] - 1)
    return ColumnCells(encoded, keys, missing, low, high)


def names_in(node: Node | None) -> list[str]:
    """Return the columns that an expression names, in order of first use."""
    return list(dict.fromkeys(at.name for at in walk(node) if isinstance(at, Name)))


def evaluate_condition(node: Node, cells: Mapping[str, ColumnCells]) -> Truth:
    """Return in which share each cell meets, and fails, a condition."""
    if isinstance(node, Connective):
        a, not_a = evaluate_condition(node.left, cells)
        b, not_b = evaluate_condition(node.right, cells)
        if node.op == "and":
            return a * b, 1.0 - (1.0 - not_a) * (1.0 - not_b)
        return 1.0 - (1.0 - a) * (1.0 - b), not_a * not_b
    if isinstance(node, Not):
        true, false = evaluate_condition(node.of, cells)
        return false, true
    if isinstance(node, IsNull):
        absent = _missing(node.of, cells).astype(np.float64)
        return absent, 1.0 - absent
    if isinstance(node, IsIn):
        both = [_compare(Compare("=", node.of, Constant(v)), cells) for v in node.values]
        true = np.minimum(sum(t for t, _ in both), 1.0)
        present = both[0][0] + both[0][1]
        return true, present - true
    if isinstance(node, Compare):
        return _compare(node, cells)
    if isinstance(node, Match):
        matches = pattern_test(node.kind, node.pattern)
        return _choose(node.of, cells, lambda value: matches(str(value)))
    if isinstance(node, Name) and isinstance(cells[node.name].encoded.column, Boolean):
        return _compare(Compare("=", node, Constant(True)), cells)
    if isinstance(node, Constant) and isinstance(node.value, bool):
        one = np.array(float(node.value))
        return one, 1.0 - one
    raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")


def evaluate_number(node: Node, cells: Mapping[str, ColumnCells]) -> tuple[Floats, Any]:
    """Return the value of a number in each cell, the middle of a run, and where it is missing."""
    if isinstance(node, Name):
        one = cells[node.name]
        if isinstance(one.encoded.column, Category):
            # Its keys are places in the declaration: what is compared are the whole numbers that it declares.
            if not all(isinstance(value, int) for value in one.encoded.column.values):
                raise QuestionRefused(f"{node.name} is not a number: a model compares it with a value by = and != only")
            return _text_number(TextFunction("number", node), cells)
        unit = one.encoded.unit
        middle = (one.low + one.high) / 2.0 * float(unit.numerator) / float(unit.denominator)
        return middle, one.missing
    if isinstance(node, Constant):
        return np.array(float(_constant(node.value))), np.array(False)
    if isinstance(node, Absolute):
        value, missing = evaluate_number(node.of, cells)
        return np.abs(value), missing
    if isinstance(node, Clip):
        value, missing = evaluate_number(node.of, cells)
        if isinstance(node.lower, datetime.date) or isinstance(node.upper, datetime.date):
            raise QuestionRefused("a model does not clip dates: compare them with a day")
        low = -math.inf if node.lower is None else float(node.lower)
        high = math.inf if node.upper is None else float(node.upper)
        return np.clip(value, low, high), missing
    if isinstance(node, Arithmetic):
        a, absent = evaluate_number(node.left, cells)
        b, lacking = evaluate_number(node.right, cells)
        return OPERATORS[node.op](a, b), absent | lacking
    if isinstance(node, Apply):
        pairs = [evaluate_number(part, cells) for part in (node.of, node.right) if part is not None]
        tree = ["/" if node.function == "divide" else node.function, *(["column", i] for i in range(len(pairs)))]
        values = evaluate(tree, [value for value, _ in pairs])
        return values, np.isnan(values) | functools.reduce(np.logical_or, [absent for _, absent in pairs])
    if isinstance(node, TextFunction) and not is_text(node):
        return _text_number(node, cells)
    if isinstance(node, (Compare, Connective, Not, IsIn, IsNull, Match)):
        true, false = evaluate_condition(node, cells)
        return true, true + false == 0
    raise QuestionRefused(f"a number is needed, not {describe(node)}")


def text_values(node: Node, cells: Mapping[str, ColumnCells]) -> tuple[tuple[Any, ...], ColumnCells]:
    """Return what a function of text makes of each declared value of its one column, and the column's cells."""
    names = names_in(node)
    if len(names) != 1:
        raise QuestionRefused(f"a model answers functions of one column of text, not {describe(node)}")
    one = cells[names[0]]
    return bind_values(node, Domain({names[0]: one.encoded.column})).values, one


def _choose(node: Node, cells: Mapping[str, ColumnCells], chosen: Callable[[Any], bool]) -> Truth:
    """Return where the value of a text is one of those chosen."""
    values, one = text_values(node, cells)
    matches = np.isin(one.keys, [i for i, v in enumerate(values) if v is not None and chosen(v)])
    present = np.isin(one.keys, [i for i, v in enumerate(values) if v is not None]) & ~one.missing
    return (matches & present).astype(np.float64), (~matches & present).astype(np.float64)


def _text_number(node: TextFunction, cells: Mapping[str, ColumnCells]) -> tuple[Floats, Any]:
    """Return the number that a function makes of each declared value: its length, or the number that it writes."""
    names = names_in(node)
    if (
        len(names) == 1
        and isinstance(node.of, Name)
        and not isinstance(cells[names[0]].encoded.column, (Category, Boolean))
    ):
        # The function is a cast of a number, which changes nothing.
        return evaluate_number(node.of, cells)
    values, one = text_values(node.of, cells)
    numbers = [None if v is None else text_number(node.function, v) for v in values]
    table = np.array([math.nan if n is None else float(n) for n in numbers] + [math.nan])
    results = table[np.minimum(one.keys, len(values))]
    return results, np.isnan(results) | one.missing


def _compare(node: Compare, cells: Mapping[str, ColumnCells]) -> Truth:
    left = node.left
    right = node.right
    op = node.op
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, MIRROR[op]
    if is_text(left):
        if op not in ("=", "!=") or not isinstance(right, Constant):
            raise QuestionRefused(f"{describe(left)} is not a number: it can be compared with a value by = and != only")
        wanted = right.value
        return _choose(left, cells, lambda value: (value == wanted) == (op == "="))
    if isinstance(left, Name) and isinstance(right, Constant):
        one = cells[left.name]
        share = _share(one, op, right.value)
        present = (~one.missing).astype(np.float64)
        return share * present, (1.0 - share) * present
    a, absent = evaluate_number(left, cells)
    b, lacking = evaluate_number(right, cells)
    holds = OPERATORS[op](a, b)
    present = (~(absent | lacking)).astype(np.float64)
    return holds * present, (1.0 - holds) * present


def _share(one: ColumnCells, op: str, value: Value) -> Floats:
    """Return which share of each cell's steps meets `op value`, a missing cell whatever."""
    column = one.encoded.column
    if isinstance(column, (Category, Boolean)):
        if op not in ("=", "!="):
            raise QuestionRefused(f"{one.encoded.name} is not a number: it can be compared with = and != only")
        if isinstance(column, Boolean):
            if not isinstance(value, bool):
                raise QuestionRefused(f"column {one.encoded.name!r} is true or false: compare it with those")
            key = int(value)
        else:
            key = code_of(one.encoded.name, column, value)
        same = (one.keys == key).astype(np.float64)
        share: Floats = same if op == "=" else 1.0 - same
        return share
    if isinstance(column, (Date, DateTime)):
        of = number_cell(one.encoded.name, column)
        at = moment_constant(value, of) / of.unit
    else:
        at = _constant(value) / one.encoded.unit
    width = one.high - one.low + 1.0
    # The steps strictly below the value, and up to it.
    below = np.clip(float(math.ceil(at)) - one.low, 0.0, width) / width
    upto = np.clip(float(math.floor(at)) - one.low + 1.0, 0.0, width) / width
    by_op: dict[str, Floats] = {
        "<": below,
        "<=": upto,
        ">": 1.0 - upto,
        ">=": 1.0 - below,
        "=": upto - below,
        "!=": 1.0 - upto + below,
    }
    return by_op[op]


def _missing(node: Node, cells: Mapping[str, ColumnCells]) -> Any:
    return cells[node.name].missing if isinstance(node, Name) else evaluate_number(node, cells)[1]


def _constant(value: Value) -> Fraction:
    if isinstance(value, (bool, str, datetime.date)):
        raise QuestionRefused(f"a number is needed, not {value!r}")
    return Fraction(value)
