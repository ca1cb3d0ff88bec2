"""Releases and sensitivities as text."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import TYPE_CHECKING, Any

from sordino.core.estimates.estimate import explain_no_ends
from sordino.core.release import Key, Output, Release, show_labels, show_number, show_rows
from sordino.core.text_table import columns_of, plain
from sordino.lab.sensitivity.neighborhoods import list_values
from sordino.lab.sensitivity.universe import format_value

if TYPE_CHECKING:
    from sordino.lab.sensitivity.empirical import Change


# ---- A release as lines of text: values with their intervals, to as many figures as the error leaves sense in

# Figures of the largest number of a column, and one more.
_FIGURES = 9
# Beyond so many decimal places a number is shown by its figures.
_PLACES = 9


def table_lines(release: Release, *, confidence: float, most: int | None = None) -> list[str]:
    """Return a release as lines: a table where it has keys, else one line an output; at most `most` rows."""
    interval = f"{100 * confidence:g}% interval"
    cells = {o.name: _format_estimate(o.estimate, confidence) for o in release.parts if isinstance(o, Output)}
    keys = [p for p in release.parts if isinstance(p, Key)]
    if not keys:
        rows = [[p.name, *cells[p.name][0]] for p in release.parts]
        lines = columns_of(
            ["", "", ""], [[n, v, f" {_ends(ends, interval)}"] for n, v, ends in rows], right=[False, True, False]
        )
        return lines[1:]
    height = len(keys[0].labels)
    visible = height if most is None or height <= most else most
    head = [t for p in release.parts for t in ([p.name] if p.name not in cells else [p.name, interval])]
    labels = {key.name: show_labels(key, release.parts) for key in keys}
    body = [
        [c for p in release.parts for c in ([labels[p.name][i]] if isinstance(p, Key) else cells[p.name][i])]
        for i in range(visible)
    ]
    right = [r for p in release.parts for r in ([False] if isinstance(p, Key) else [True, True])]
    lines = columns_of(head, body, right=right)
    if not height:
        lines.append("no row is shown: the notes say which rows are")
    if visible < height:
        lines.append(f"... {height - visible} more declared {'value' if len(keys) == 1 else 'combination'}s")
    return lines


def _ends(ends: str, interval: str) -> str:
    """Return an interval, or an error in rows, with the confidence at which it holds."""
    return f"{ends} at {interval.split()[0]}" if ends.startswith("at most ") else f"{interval} {ends}"


def _format_estimate(estimate: Any, confidence: float) -> list[tuple[str, str]]:
    """Return each value and its interval as text, to two figures of the smallest error; interval ends go outward."""
    values = estimate.values()
    errors = estimate.errors(confidence)
    ends = estimate.intervals(confidence)
    bounded = [i for i, (a, _) in enumerate(ends) if a is not None]
    # An error in rows says nothing about values, and some intervals have no ends.
    if len(bounded) < len(values):
        unit = getattr(estimate, "error_unit", "")
        why = explain_no_ends(estimate)
        cells = [(_cell(v), why if e is None else show_rows(e, unit)) for v, e in zip(values, errors, strict=True)]
        formatted = _format_interval(
            [values[i] for i in bounded], [errors[i] for i in bounded], [ends[i] for i in bounded]
        )
        for i, cell in zip(bounded, formatted, strict=True):
            cells[i] = cell
        return cells
    return _format_interval(values, errors, ends)


def _format_interval(values: Sequence[Any], errors: Sequence[Any], ends: Sequence[Any]) -> list[tuple[str, str]]:
    if any(isinstance(v, datetime.date) for v in values):
        return [(_cell(v), f"{_cell(a)} - {_cell(b)}") for v, (a, b) in zip(values, ends, strict=True)]
    least = min((e for e in errors if e > 0), default=0)
    if all(isinstance(v, int) for v in values) or not 0 < least < 1e15 or max(map(abs, values), default=0) > 1e15:
        return [
            (show_number(v), f"{show_number(a)} - {show_number(b)}") for v, (a, b) in zip(values, ends, strict=True)
        ]
    largest = max(abs(x) for v, pair in zip(values, ends, strict=True) for x in (v, *pair) if math.isfinite(x))
    places = max(0, min(1 - math.floor(math.log10(least)), _FIGURES - math.floor(math.log10(largest or 1.0))))
    # No fixed number of places shows a number such as 2.9e-11 well.
    if places > _PLACES:
        return [
            (_short(v, ROUND_HALF_EVEN), f"{_short(a, ROUND_FLOOR)} - {_short(b, ROUND_CEILING)}")
            for v, (a, b) in zip(values, ends, strict=True)
        ]

    def outward(value: float, to: Any) -> str:
        if not math.isfinite(value):
            return str(value)
        scaled = value * 10**places
        near = round(scaled)
        return f"{(near if abs(scaled - near) < 1e-6 else to(scaled)) / 10**places + 0.0:,.{places}f}"

    return [
        (f"{round(v, places) + 0.0:,.{places}f}", f"{outward(a, math.floor)} - {outward(b, math.ceil)}")
        for v, (a, b) in zip(values, ends, strict=True)
    ]


def _short(value: float, rounding: str) -> str:
    """Return a number with three significant digits, rounded by `rounding`."""
    return f"{Context(prec=3, rounding=rounding).create_decimal_from_float(value).normalize():g}"


def _cell(value: Any) -> str:
    return show_number(value) if value is None or isinstance(value, (int, float)) else plain(str(value))


# ---- What the sensitivity laboratory found, in words: a change with its witness


def change_entries(change: Change, neighbors: str, public: str) -> list[tuple[str, str]]:
    """Return the labelled texts of a change: its relation, the two tables of its witness, what moved, and what is public."""
    pair = zip(change.witness, change.answers, strict=True)
    tables = [f"{list_values(table, 12)}  answers {format_value(answer)}" for table, answer in pair]
    first, second = (Counter(table) for table in change.witness)
    gone, come = (sorted(left.elements()) for left in (first - second, second - first))
    moves = [f"{list_values(t, 8)} {verb}" for t, verb in ((gone, "out"), (come, "in")) if t]
    attained = "" if change.exact else f"; this pair attains {change.attained:.10g}"
    return [
        ("neighbors", f"{neighbors}, {change.because}"),
        ("witness", tables[0]),
        ("", tables[1]),
        ("moved", f"{'; '.join(moves or ['nothing moves'])}{attained}"),
        ("public", public),
    ]
