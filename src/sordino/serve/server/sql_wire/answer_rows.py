"""A release as a SQL client sees it: typed columns, rows, and notices of what it cost. It sees released values alone."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import Any

from sordino.core.estimates.evaluation import Tree
from sordino.core.estimates.formula import Formula
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.selected import Selected
from sordino.core.estimates.weighted_sum import WeightedSum
from sordino.core.loss import parse_fraction
from sordino.core.release import Key, Output, Release, show_number
from sordino.core.release_exports import label_kind
from sordino.serve.server.sql_wire.wire_frames import Column
from sordino.serve.server.sql_wire.wire_values import column_of_kind

_WHOLE_OF_WHOLE = ("+", "-", "*", "abs", "remainder", "modulo", "least", "greatest", "if")


def answer_columns(release: Release, *, intervals: bool) -> list[Column]:
    """Return the columns of an answer; their types follow from the question, so the dummy table's answer has the same."""
    columns = []
    for part in release.parts:
        if isinstance(part, Key):
            present = [label for label in part.labels if label is not None]
            columns.append(column_of_kind(part.name, label_kind(present) if present else part.kind))
            continue
        kind = _kind(part)
        columns.append(column_of_kind(part.name, kind))
        if intervals:
            columns += [column_of_kind(f"{part.name}_{end}", kind) for end in ("lower", "upper")]
    return columns


def answer_rows(release: Release, *, intervals: bool, confidence: float) -> list[Sequence[Any]]:
    """Return the rows of an answer, each output followed by the ends of its interval where these are asked for."""
    columns: list[Sequence[Any]] = []
    for part in release.parts:
        if isinstance(part, Key):
            columns.append(part.labels)
            continue
        values: Sequence[Any] = part.estimate.values()
        pairs = [pair or (None, None) for pair in part.estimate.intervals(confidence)] if intervals else []
        ends: list[list[Any]] = [[lower for lower, _ in pairs], [upper for _, upper in pairs]] if intervals else []
        if is_whole(part.estimate):
            # A formula computes in doubles; the ends of its interval go outward.
            values = _each(round, values)
            ends = [_each(outward, end) for outward, end in zip((math.floor, math.ceil), ends, strict=False)]
        columns += [values, *ends]
    return list(zip(*columns, strict=True))


def notices_of(release: Release, confidence: float) -> list[str]:
    """Return what to read beside an answer: its cost and what is left, how wrong it may be, and its remarks."""
    errors = []
    for part in release.outputs:
        stated = [error for error in part.estimate.errors(confidence) if error is not None]
        if stated:
            errors.append(f"{part.name} +-{show_number(max(stated))}")
    notices = [release.summary()]
    if errors:
        notices.append(f"error at {confidence:.4g}: {', '.join(errors)}")
    return [*notices, *release.remarks]


def is_whole(estimate: object) -> bool:
    """Return whether all values of an estimate are whole numbers, by its unit or its formula and not by the values."""
    if isinstance(estimate, Selected):
        return is_whole(estimate.of)
    if isinstance(estimate, Formula):
        return _is_whole_tree(estimate.tree, estimate.of)
    return isinstance(estimate, (Noisy, WeightedSum)) and estimate.unit.denominator == 1


def _is_whole_tree(tree: Tree, columns: Sequence[object]) -> bool:
    kind, *rest = tree
    if kind == "column":
        return is_whole(columns[int(rest[0])])
    if kind == "number":
        return parse_fraction(rest[0]).denominator == 1
    # A cast rounds to a whole number; FLOOR, CEIL, SIGN and ROUND(x, 0) are of the type of a decimal, as in PostgreSQL.
    if kind in ("truncate", "half_even") or (kind == "round" and len(rest) == 1):
        return True
    # of IF, what it chooses from; a missing value is of any type
    parts = rest[1:] if kind == "if" else rest
    return kind in _WHOLE_OF_WHOLE and all(part[0] == "nothing" or _is_whole_tree(part, columns) for part in parts)


def _each(convert: Callable[[Any], int], values: Sequence[Any]) -> list[Any]:
    return [None if value is None or math.isinf(value) else convert(value) for value in values]


def _kind(part: Output) -> str:
    """Return the kind of an output's cells: whole numbers where steps of noise are, days and moments, else real numbers."""
    estimate = part.estimate
    if is_whole(estimate):
        return "whole"
    first = next((value for value in estimate.values() if value is not None), None)
    if isinstance(first, datetime.datetime):
        return "moment" if first.tzinfo is None else f"moment {first.tzinfo}"
    if isinstance(first, datetime.date):
        return "day"
    if isinstance(first, bool):
        return "truth"
    # a number that a statement computes has the type that its expression has
    return "whole" if isinstance(first, int) else "text" if isinstance(first, str) else "real"
