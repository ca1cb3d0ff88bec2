"""What a condition or a number means for keys of a model, or for drawn rows: the same evaluator for both. Knows no data.

Truth is a pair (true, false) of shares between 0 and 1, since a run of steps may meet a condition in part; a missing value
is neither, as in SQL. Within a run, values are taken to be spread evenly.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.domain import Boolean, Category, Date, Domain
from sordino.errors import QuestionRefused
from sordino.queries.expressions.bound_number import EPOCH
from sordino.queries.expressions.column_codes import code_of
from sordino.queries.expressions.compile import bind_number
from sordino.queries.expressions.nodes import (
    MIRROR,
    Absolute,
    Arithmetic,
    Clip,
    Compare,
    Connective,
    Constant,
    IsIn,
    IsNull,
    Name,
    Node,
    Not,
    Value,
    describe,
    walk,
)
from sordino.synth.columns import Keyed
from sordino.synth.projection import Floats
from sordino.synth.sampler import Codes

__all__ = ["Cells", "Truth", "cells_of", "names_in", "number_of", "truth_of"]

Truth = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of one column, of any shape: their keys, whether missing, and the least and most step each stands for."""

    keyed: Keyed
    keys: Codes
    missing: np.ndarray[Any, np.dtype[np.bool_]]
    low: Floats
    high: Floats
    unit: Fraction

    def shaped(self, shape: tuple[int, ...]) -> Cells:
        """Return the cells reshaped, to stand along an axis of a table."""
        keys, missing = self.keys.reshape(shape), self.missing.reshape(shape)
        return Cells(self.keyed, keys, missing, self.low.reshape(shape), self.high.reshape(shape), self.unit)


def cells_of(keyed: Keyed, keys: Codes, domain: Domain, *, steps: Codes | None = None) -> Cells:
    """Return cells for keys; `steps` gives exact steps of drawn rows in place of the run of each key."""
    missing = (keys == keyed.size - 1) if keyed.missing else np.zeros(keys.shape, dtype=bool)
    column = keyed.column
    if isinstance(column, (Category, Boolean)):
        values = keys.astype(np.float64)
        return Cells(keyed, keys, missing, values, values, Fraction(1))
    of = bind_number(Name(keyed.name), domain)
    if steps is not None:
        low = high = steps.astype(np.float64)
    elif keyed.edges is None:
        low = high = keys.astype(np.float64) + float(of.interval.lower or 0)
    else:
        edges = np.asarray(keyed.edges, dtype=np.float64)
        at = np.minimum(keys, len(edges) - 2)
        low = edges[at]
        high = np.where(at == len(edges) - 2, edges[at + 1], edges[at + 1] - 1)
    return Cells(keyed, keys, missing, low, high, of.unit)


def names_in(node: Node | None) -> list[str]:
    """Return the columns that an expression names, in order of first use."""
    return list(dict.fromkeys(at.name for at in walk(node) if isinstance(at, Name)))


def truth_of(node: Node, cells: Mapping[str, Cells]) -> Truth:
    """Return in which share each cell meets, and fails, a condition."""
    if isinstance(node, Connective):
        (a, not_a), (b, not_b) = truth_of(node.left, cells), truth_of(node.right, cells)
        if node.op == "and":
            return a * b, 1.0 - (1.0 - not_a) * (1.0 - not_b)
        return 1.0 - (1.0 - a) * (1.0 - b), not_a * not_b
    if isinstance(node, Not):
        true, false = truth_of(node.of, cells)
        return false, true
    if isinstance(node, IsNull):
        absent = _missing(node.of, cells).astype(np.float64)
        return absent, 1.0 - absent
    if isinstance(node, IsIn):
        both = [_compared(Compare("=", node.of, Constant(v)), cells) for v in node.values]
        true = np.minimum(sum(t for t, _ in both), 1.0)
        present = both[0][0] + both[0][1]
        return true, present - true
    if isinstance(node, Compare):
        return _compared(node, cells)
    if isinstance(node, Name) and isinstance(cells[node.name].keyed.column, Boolean):
        return _compared(Compare("=", node, Constant(True)), cells)
    if isinstance(node, Constant) and isinstance(node.value, bool):
        one = np.array(float(node.value))
        return one, 1.0 - one
    raise QuestionRefused(f"a condition is needed, such as age > 30, not {describe(node)}")


def number_of(node: Node, cells: Mapping[str, Cells]) -> tuple[Floats, Any]:
    """Return the value of a number in each cell, the middle of a run, and where it is missing."""
    if isinstance(node, Name):
        one = cells[node.name]
        middle = (one.low + one.high) / 2.0 * float(one.unit.numerator) / float(one.unit.denominator)
        return middle, one.missing
    if isinstance(node, Constant):
        return np.array(float(_constant(node.value))), np.array(False)
    if isinstance(node, Absolute):
        value, missing = number_of(node.of, cells)
        return np.abs(value), missing
    if isinstance(node, Clip):
        value, missing = number_of(node.of, cells)
        low = -math.inf if node.lower is None else float(node.lower)
        high = math.inf if node.upper is None else float(node.upper)
        return np.clip(value, low, high), missing
    if isinstance(node, Arithmetic):
        (a, absent), (b, lacking) = number_of(node.left, cells), number_of(node.right, cells)
        made = a + b if node.op == "+" else a - b if node.op == "-" else a * b
        return made, absent | lacking
    raise QuestionRefused(f"a number is needed, not {describe(node)}")


def _compared(node: Compare, cells: Mapping[str, Cells]) -> Truth:
    left, right, op = node.left, node.right, node.op
    if isinstance(left, Constant) and not isinstance(right, Constant):
        left, right, op = right, left, MIRROR[op]
    if isinstance(left, Name) and isinstance(right, Constant):
        one = cells[left.name]
        share = _share(one, op, right.value)
        present = (~one.missing).astype(np.float64)
        return share * present, (1.0 - share) * present
    a, absent = number_of(left, cells)
    b, lacking = number_of(right, cells)
    met = {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
    present = (~(absent | lacking)).astype(np.float64)
    return met * present, (1.0 - met) * present


def _share(one: Cells, op: str, value: Value) -> Floats:
    """Return which share of each cell's steps meets `op value`, a missing cell whatever."""
    column = one.keyed.column
    if isinstance(column, (Category, Boolean)):
        if op not in ("=", "!="):
            raise QuestionRefused(f"{one.keyed.name} is no number: it can be compared with = and != only")
        if isinstance(column, Boolean):
            if not isinstance(value, bool):
                raise QuestionRefused(f"column {one.keyed.name!r} is true or false: compare it with those")
            key = int(value)
        else:
            key = code_of(one.keyed.name, column, value)
        same = (one.keys == key).astype(np.float64)
        made: Floats = same if op == "=" else 1.0 - same
        return made
    if isinstance(column, Date) and isinstance(value, str):
        value = datetime.date.fromisoformat(value)
    at = _constant(value) / one.unit
    width = one.high - one.low + 1.0
    below = np.clip(float(math.ceil(at)) - one.low, 0.0, width) / width  # steps strictly below
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


def _missing(node: Node, cells: Mapping[str, Cells]) -> Any:
    return cells[node.name].missing if isinstance(node, Name) else number_of(node, cells)[1]


def _constant(value: Value) -> Fraction:
    if isinstance(value, datetime.date):
        return Fraction((value - EPOCH).days)
    if isinstance(value, (bool, str)):
        raise QuestionRefused(f"a number is needed, not {value!r}")
    return Fraction(value)
