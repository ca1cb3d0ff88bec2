"""A release as a SQL client sees it: typed columns, rows, and notices of what it cost. It sees released values alone."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import WeightedSum
from sordino.core.release import Key, Output, Release, show_number
from sordino.core.release_exports import label_kind
from sordino.serve.server.sql_wire.wire_frames import Column
from sordino.serve.server.sql_wire.wire_values import column_of_kind


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
        columns.append(part.estimate.values())
        if intervals:
            pairs = [(None, None) if pair is None else pair for pair in part.estimate.intervals(confidence)]
            columns += [[lower for lower, _ in pairs], [upper for _, upper in pairs]]
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


def _kind(part: Output) -> str:
    """Return the kind of an output's cells: whole numbers where steps of noise are, days and moments, else real numbers."""
    estimate = part.estimate
    if isinstance(estimate, (Noisy, WeightedSum)) and estimate.unit.denominator == 1:
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
