"""Cells of a model's keys, or of drawn rows, and what an expression over them is. Knows no data.

The interpreter is that of all released numbers (`core.estimates.evaluation`). What is said here is what a model's cells are to
it: a run of steps may meet a condition in part, values being spread evenly within it, and codes stand for declared values.
"""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.expressions.bound_number import code_of, number_cell
from sordino.ask.queries.expressions.declared_values import bind_values, is_text, pattern_test, text_number
from sordino.ask.queries.expressions.nodes import (
    MIRROR,
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
from sordino.ask.queries.post_processing import check_conditions, is_condition, to_tree
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.evaluation import OF_ONE, Tree, Truth, evaluate, evaluate_truth
from sordino.synth.encoded_column import Codes, EncodedColumn, Floats, shares_before


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
    """Return in which share each cell meets, and fails, a condition; raises QuestionRefused for what is none."""
    truths = [name for name, one in cells.items() if isinstance(one.encoded.column, Boolean)]
    if not is_condition(node, truths):
        raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")
    check_conditions(node, truths)
    met, failed = evaluate_truth(_tree(_by_column(node), cells))
    return Truth(np.asarray(met, dtype=np.float64), np.asarray(failed, dtype=np.float64))


def evaluate_number(node: Node, cells: Mapping[str, ColumnCells]) -> tuple[Floats, Any]:
    """Return the value of a number in each cell, the middle of a run, and where it is missing."""
    value = evaluate(_tree(node, cells))
    return value, np.isnan(value)


def text_values(node: Node, cells: Mapping[str, ColumnCells]) -> tuple[tuple[Any, ...], ColumnCells]:
    """Return what a function of text makes of each declared value of its one column, and the column's cells."""
    names = names_in(node)
    if len(names) != 1:
        raise QuestionRefused(f"a model answers functions of one column of text, not {describe(node)}")
    one = cells[names[0]]
    return bind_values(node, Domain({names[0]: one.encoded.column})).values, one


def _tree(node: Node, cells: Mapping[str, ColumnCells]) -> Tree:
    """Return an expression as the interpreter reads it, with what the model's cells are in it."""

    def leaf(at: Node) -> Tree | None:
        value = _leaf(at, cells)
        return None if value is None else ["value", value]

    return to_tree(node, leaf)


def _leaf(node: Node, cells: Mapping[str, ColumnCells]) -> Any:
    """Return what a part is that the interpreter does not compute from its own parts; None for what it does."""
    if isinstance(node, Name):
        return _middles(cells[node.name])
    if isinstance(node, Constant):
        return np.array(float(node.value if isinstance(node.value, bool) else _constant(node.value)))
    if isinstance(node, Compare):
        return _compare(node, cells)
    if isinstance(node, IsIn):
        # Values exclude each other, so that the shares of a run that meet them add up.
        several = [evaluate_condition(Compare("=", node.of, Constant(value)), cells) for value in node.values]
        met = np.minimum(sum(true for true, _ in several), 1.0)
        return Truth(met, several[0].true + several[0].false - met)
    if isinstance(node, IsNull) and isinstance(node.of, Name):
        missing = cells[node.of.name].missing
        return Truth(missing, ~missing)
    if isinstance(node, Match):
        matches = pattern_test(node.kind, node.pattern)
        return _choose(node.of, cells, lambda value: matches(str(value)))
    if isinstance(node, TextFunction) and not is_text(node):
        return _text_number(node, cells)
    if isinstance(node, Apply) and (node.function in OF_ONE or node.right is not None):
        return None
    if isinstance(node, Connective):
        return _met_by_pieces(node, cells)
    if isinstance(node, (Absolute, Arithmetic, Clip, IsNull, Not)):
        return None
    # Among them is a cast to whole numbers: how it rounds follows from the type that an engine holds, and a model holds none.
    raise QuestionRefused(f"a model does not compute {describe(node)}: use arithmetic, ROUND, FLOOR or CEIL")


def _by_column(node: Node) -> Node:
    """Return a condition with those on one column side by side, wherever AND or OR joins them."""
    if isinstance(node, Not):
        return Not(_by_column(node.of))
    if not isinstance(node, Connective):
        return node
    columns: dict[tuple[str, ...], list[Node]] = {}
    for part in _joined(node, node.op):
        columns.setdefault(tuple(names_in(part)), []).append(_by_column(part))
    of_columns = [functools.reduce(functools.partial(Connective, node.op), parts) for parts in columns.values()]
    return functools.reduce(functools.partial(Connective, node.op), of_columns)


def _joined(node: Node, op: str) -> list[Node]:
    if isinstance(node, Connective) and node.op == op:
        return [*_joined(node.left, op), *_joined(node.right, op)]
    return [node]


def _met_by_pieces(node: Connective, cells: Mapping[str, ColumnCells]) -> Truth | None:
    """Return in which share runs of a column meet several conditions on it; None if there are other columns, or no runs.

    Shares of a run that meet each condition do not multiply: x > 2 and x < 4 hold together. Between the steps at which any of
    them turns they hold all along, or nowhere.
    """
    names = names_in(node)
    if len(names) != 1 or not (cells[names[0]].high > cells[names[0]].low).any():
        return None
    one = cells[names[0]]
    cuts = sorted({step for part in walk(node) for step in cut_steps(part, one.encoded)})
    starts = [-math.inf, *cuts]
    before = [np.zeros(one.keys.shape), *(_share_before(one, step) for step in cuts), np.ones(one.keys.shape)]
    met = np.zeros(one.keys.shape)
    failed = np.zeros(one.keys.shape)
    for start, end, share, upto in zip(starts, [*cuts, math.inf], before, before[1:], strict=False):
        low = np.clip(start, one.low, one.high)
        middle = np.floor((low + np.clip(end - 1, low, one.high)) / 2.0)
        piece = ColumnCells(one.encoded, one.keys, one.missing, middle, middle)
        truth = evaluate_condition(node, {names[0]: piece})
        met += (upto - share) * truth.true
        failed += (upto - share) * truth.false
    return Truth(met, failed)


def _middles(one: ColumnCells) -> Floats:
    """Return the middle of each run, NaN where it is missing; raises QuestionRefused for text."""
    if isinstance(one.encoded.column, Category):
        # Its keys are places in the declaration: what is compared are the whole numbers that it declares.
        values = one.encoded.column.values
        if not all(isinstance(value, int) for value in values):
            raise QuestionRefused(
                f"{one.encoded.name} is not a number: a model compares it with a value by = and != only"
            )
        return _look_up([text_number("number", value) for value in values], one)
    unit = one.encoded.unit
    middle = (one.low + one.high) / 2.0 * float(unit.numerator) / float(unit.denominator)
    return np.where(one.missing, math.nan, middle)


def _choose(node: Node, cells: Mapping[str, ColumnCells], chosen: Callable[[Any], bool]) -> Truth:
    """Return where the value of a text is one of those chosen."""
    values, one = text_values(node, cells)
    met = np.isin(one.keys, [i for i, v in enumerate(values) if v is not None and chosen(v)])
    present = np.isin(one.keys, [i for i, v in enumerate(values) if v is not None]) & ~one.missing
    return Truth(met & present, ~met & present)


def _text_number(node: TextFunction, cells: Mapping[str, ColumnCells]) -> Floats:
    """Return the number that a function makes of each declared value: its length, or the number that it writes."""
    if isinstance(node.of, Name) and not isinstance(cells[node.of.name].encoded.column, (Category, Boolean)):
        # a cast of a number
        return _middles(cells[node.of.name])
    values, one = text_values(node.of, cells)
    return _look_up([None if v is None else text_number(node.function, v, *node.arguments) for v in values], one)


def _look_up(numbers: Sequence[Any], one: ColumnCells) -> Floats:
    """Return the number of each cell's declared value, NaN where there is none."""
    table = np.array([math.nan if n is None else float(n) for n in numbers] + [math.nan])
    return np.where(one.missing, math.nan, table[np.minimum(one.keys, len(numbers))])


def _compare(node: Compare, cells: Mapping[str, ColumnCells]) -> Truth | None:
    """Return where a column, or a text, compares so with a value; None for numbers, which the interpreter compares."""
    left = node.left
    right = node.right
    op = node.op
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, MIRROR[op]
    if is_text(left):
        if op not in ("=", "!=") or not isinstance(right, Constant):
            raise QuestionRefused(f"{describe(left)} is not a number: it can be compared with a value by = and != only")
        wanted = right.value
        return _choose(left, cells, lambda value: bool(value == wanted) == (op == "="))
    if not isinstance(left, Name) or not isinstance(right, Constant):
        return None
    one = cells[left.name]
    share = _share(one, op, right.value)
    present = (~one.missing).astype(np.float64)
    return Truth(share * present, (1.0 - share) * present)


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
        made: Floats = same if op == "=" else 1.0 - same
        return made
    at = _in_steps(one.encoded, value)
    below = _share_before(one, math.ceil(at))
    upto = _share_before(one, math.floor(at) + 1)
    by_op: dict[str, Floats] = {
        "<": below,
        "<=": upto,
        ">": 1.0 - upto,
        ">=": 1.0 - below,
        "=": upto - below,
        "!=": 1.0 - upto + below,
    }
    return by_op[op]


def _share_before(one: ColumnCells, step: int) -> Floats:
    """Return which share of each cell's rows lies before a step: of a run as its heaps have it, else evenly."""
    if one.encoded.heaps is not None and (one.high > one.low).any():
        shares = shares_before(one.encoded, step)
        of_runs: Floats = shares[np.minimum(one.keys, len(shares) - 1)]
        return of_runs
    width = one.high - one.low + 1.0
    evenly: Floats = np.clip(float(step) - one.low, 0.0, width) / width
    return evenly


def cut_steps(node: Node, encoded: EncodedColumn) -> list[int]:
    """Return the steps of an ordered column before which a comparison of it with values may change from true to false."""
    values: Sequence[Value] = ()
    if isinstance(node, Compare) and isinstance(node.left, Name) and isinstance(node.right, Constant):
        values = [node.right.value]
    elif isinstance(node, Compare) and isinstance(node.right, Name) and isinstance(node.left, Constant):
        values = [node.left.value]
    elif isinstance(node, IsIn) and isinstance(node.of, Name):
        values = node.values
    at = [_in_steps(encoded, value) for value in values]
    return sorted({math.ceil(step) for step in at} | {math.floor(step) + 1 for step in at})


def _in_steps(encoded: EncodedColumn, value: Value) -> Fraction:
    """Return a value in steps of a column's lattice."""
    column = encoded.column
    if isinstance(column, (Date, DateTime)):
        of = number_cell(encoded.name, column)
        return moment_constant(value, of) / of.unit
    return _constant(value) / encoded.unit


def _constant(value: Value) -> Fraction:
    if isinstance(value, (bool, str, datetime.date)):
        raise QuestionRefused(f"a number is needed, not {value!r}")
    return Fraction(value)
