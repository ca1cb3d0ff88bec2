"""A release as text, JSON, CSV or Parquet. It sees released values and public parameters only."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.cli.shared.options import AnswerFormat
from sordino.errors import DeclarationError, nearest
from sordino.release import Key, Output
from sordino.reporting.release_text import table_lines

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from sordino.loss import Loss
    from sordino.release import Release

__all__ = ["chosen_format", "cost_lines", "distinct_names", "encode_release", "encode_releases", "left_of"]

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


def encode_releases(releases: Sequence[Release], form: AnswerFormat, *, confidence: float) -> bytes:
    """Return a release as the bytes of a file; several as tables under each other, or as a JSON list."""
    if len(releases) == 1:
        return encode_release(releases[0], form, confidence=confidence)
    if form is AnswerFormat.json:
        found = [release.to_dict(confidence=confidence) for release in releases]
        return (json.dumps(found, ensure_ascii=False, indent=2) + "\n").encode()
    return b"\n".join(encode_release(release, form, confidence=confidence) for release in releases)


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


def cost_lines(release: Release) -> list[str]:
    """Return what it cost, what was left, whom it protects, and which charge it is; of a model's answer, that it is free."""
    relation = release.neighbors.replace("_", "/")
    seal = [] if release.private else ["NOT PRIVATE: its noise was seeded"]
    notes = [*seal, *(f"note: {n}" for n in release.remarks)]
    if release.practice:
        return [*notes, release.summary()]
    if release.model is not None:
        return [*notes, release.model.describe(release.table_name)]
    left = left_of(release.remaining, release.spent)
    left += "" if release.spender is None else f" of the share of {release.spender}"
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


def _numbers(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    if any(isinstance(v, datetime.date) for v in values):
        return pa.array(values)
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
