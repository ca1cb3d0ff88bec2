"""A release as text, JSON, CSV or Parquet. It sees released values and public parameters only."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context
from typing import TYPE_CHECKING, Any

from sordino.cli.shared.options import AnswerFormat
from sordino.cli.shared.terminal import columns_of, paint, plain
from sordino.errors import DeclarationError, nearest
from sordino.release import Key, Output

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from sordino.loss import Loss
    from sordino.release import Release

__all__ = [
    "chosen_format",
    "cost_lines",
    "distinct_names",
    "encode_release",
    "left_of",
    "table_lines",
]

_FIGURES = 9  # of the largest number of a column, and one more
_PLACES = 9  # beyond so many decimal places a number is told by its figures
_ENDINGS = {
    ".txt": AnswerFormat.table,
    ".json": AnswerFormat.json,
    ".csv": AnswerFormat.csv,
    ".parquet": AnswerFormat.parquet,
    ".pq": AnswerFormat.parquet,
}


def chosen_format(given: AnswerFormat | None, output: Path | None) -> AnswerFormat:
    """Return the format asked for, else the one that the output file's ending names; without an ending, a table.

    Raises DeclarationError for an ending that names no format, or another than the one asked for.
    """
    ending = "" if output is None else output.suffix.lower()
    if ending and ending not in _ENDINGS:
        raise DeclarationError(
            f"{output} cannot be written: an answer's file ends in {', '.join(_ENDINGS)}; {nearest(ending, _ENDINGS)}"
        )
    chosen = given or _ENDINGS.get(ending, AnswerFormat.table)
    if ending and _ENDINGS[ending] is not chosen:
        raise DeclarationError(
            f"--format {chosen} does not fit {output}: leave --format out, or end the file otherwise"
        )
    if chosen is AnswerFormat.parquet and output is None:
        raise DeclarationError("--format parquet is for files: add -o FILE.parquet")
    return chosen


def distinct_names(keys: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the column names of a written table; raises DeclarationError where one would appear twice."""
    names = [*keys, *(f"{name}{end}" for name in outputs for end in ("", "_lower", "_upper"))]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DeclarationError(
            f"column {twice[0]!r} would be written twice, as _lower and _upper are added; use another AS"
        )
    return names


def encode_release(release: Release, form: AnswerFormat, *, confidence: float) -> bytes:
    """Return a release as the bytes of a file."""
    if form is AnswerFormat.table:
        return ("\n".join([*table_lines(release, confidence=confidence), *cost_lines(release)]) + "\n").encode()
    data = release.to_dict(confidence=confidence)
    if form is AnswerFormat.json:
        return (json.dumps(data, ensure_ascii=False, indent=2) + "\n").encode()
    table = arrow_table(release, {k: v for k, v in data.items() if k in _TOLD}, confidence=confidence)
    if form is AnswerFormat.csv:
        return _csv(table)
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def arrow_table(release: Release, facts: dict[str, Any], *, confidence: float) -> pa.Table:
    """Return keys and, for each output, its value and the ends of its interval: name, name_lower, name_upper."""
    import pyarrow as pa

    values = release.table
    outputs = [p for p in release.parts if isinstance(p, Output)]
    keys = [p.name for p in release.parts if isinstance(p, Key)]
    columns = [values.column(name) for name in keys]
    for output in outputs:
        ends = output.estimate.intervals(confidence)
        columns.append(values.column(output.name))
        columns += [_numbers([pair[side] for pair in ends]) for side in (0, 1)]
    names = distinct_names(keys, [o.name for o in outputs])
    made = pa.table(columns, names=names).replace_schema_metadata({"sordino": json.dumps(facts)})
    beside = {o.name: [f"{o.name}{end}" for end in ("", "_lower", "_upper")] for o in outputs}
    return made.select([n for p in release.parts for n in beside.get(p.name, [p.name])])


_TOLD = (
    "schema",
    "private",
    "charge",
    "question",
    "cost",
    "neighbors",
    "privacy_unit",
    "declaration",
    "notes",
    "time",
    "from",
    "paid",
    "kind",
)


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
    kept = height if most is None or height <= most else most
    head = [t for p in release.parts for t in ([p.name] if p.name not in cells else [p.name, interval])]
    body = [
        [c for p in release.parts for c in ([_label(p.labels[i])] if isinstance(p, Key) else cells[p.name][i])]
        for i in range(kept)
    ]
    right = [r for p in release.parts for r in ([False] if isinstance(p, Key) else [True, True])]
    lines = columns_of(head, body, right=right)
    lines[0] = paint(lines[0], "bold")
    if not height:
        lines.append("no row is shown: the notes say which rows are")
    if kept < height:
        lines.append(f"... {height - kept} more declared {'value' if len(keys) == 1 else 'combination'}s")
    return lines


def cost_lines(release: Release) -> list[str]:
    """Return what it cost, what was left, whom it protects, and which charge it is; of a model's answer, that it is free."""
    relation = release.neighbors.replace("_", "/")
    seal = [] if release.private else ["NOT PRIVATE: its noise was seeded"]
    notes = [*seal, *(f"note: {n}" for n in release.remarks)]
    if release.model is not None:
        return [*notes, release.model.describe(release.table_name)]
    left = left_of(release.remaining, release.spent)
    return [
        *notes,
        f"cost: {release.cost.describe()}, left: {left}; privacy unit: {release.privacy_unit}, {relation}",
        f"charge {release.charge}; `sordino explain {release.charge}` says what this reveals",
    ]


def left_of(left: Loss, spent: Loss) -> str:
    """Return what is left of a cap in words: "1.5 of 2", with each name where a cap has two."""
    from sordino.loss import format_number

    rest, gone = left.amounts(), spent.amounts()
    told = {name: f"{format_number(amount)} of {format_number(amount + gone[name])}" for name, amount in rest.items()}
    return next(iter(told.values())) if len(told) == 1 else ", ".join(f"{name} {text}" for name, text in told.items())


def _ends(ends: str, interval: str) -> str:
    """Return an interval, or an error in rows, with the confidence at which it holds."""
    return f"{ends} at {interval.split()[0]}" if ends.startswith("at most ") else f"{interval} {ends}"


def _format_estimate(estimate: Any, confidence: float) -> list[tuple[str, str]]:
    """Return each value and its interval as text, to two figures of the smallest error; interval ends go outward."""
    from sordino.release import show_number, show_rows

    values, errors = estimate.values(), estimate.errors(confidence)
    ends = estimate.intervals(confidence)
    if any(e is None for e in errors):  # the width of the noise is private
        return [(_cell(v), "not stated") for v in values]
    if any(a is None for a, _ in ends):  # an error in rows says nothing about values
        unit = getattr(estimate, "error_unit", "")
        return [(_cell(v), show_rows(e, unit)) for v, e in zip(values, errors, strict=True)]
    least = min((e for e in errors if e > 0), default=0)
    if all(isinstance(v, int) for v in values) or not 0 < least < 1e15 or max(map(abs, values), default=0) > 1e15:
        return [
            (show_number(v), f"{show_number(a)} - {show_number(b)}") for v, (a, b) in zip(values, ends, strict=True)
        ]
    largest = max(abs(x) for v, pair in zip(values, ends, strict=True) for x in (v, *pair) if math.isfinite(x))
    places = max(0, min(1 - math.floor(math.log10(least)), _FIGURES - math.floor(math.log10(largest or 1.0))))
    if places > _PLACES:  # such as 2.9e-11, which no fixed number of places tells well
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
    """Return three figures of a number, rounded as told."""
    return f"{Context(prec=3, rounding=rounding).create_decimal_from_float(value).normalize():g}"


def _cell(value: Any) -> str:
    from sordino.release import show_number

    return show_number(value) if value is None or isinstance(value, (int, float)) else plain(str(value))


def _label(label: Any) -> str:
    return "(missing)" if label is None else str(label)


def _numbers(values: Sequence[float | None]) -> pa.Array:
    import pyarrow as pa

    whole = all(isinstance(v, int) and abs(v) < 2**63 for v in values)
    cells = values if whole else [None if v is None else float(v) for v in values]
    return pa.array(cells, type=pa.int64() if whole else pa.float64())


def _csv(table: pa.Table) -> bytes:
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(zip(*(c.to_pylist() for c in table.columns), strict=True))
    return text.getvalue().encode()
