"""A release as text, JSON, CSV, Parquet or a workbook. It sees released values and public parameters only."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sordino.cli.shared.options import AnswerFormat
from sordino.core.errors import DeclarationError, nearest
from sordino.core.release_exports import csv_text
from sordino.reporting.release_text import table_lines
from sordino.reporting.workbook import encode_workbook_of

if TYPE_CHECKING:
    from pathlib import Path

    from sordino.core.loss import Loss
    from sordino.core.release import Release

_ENDINGS = {
    ".txt": AnswerFormat.table,
    ".json": AnswerFormat.json,
    ".csv": AnswerFormat.csv,
    ".parquet": AnswerFormat.parquet,
    ".pq": AnswerFormat.parquet,
    ".xlsx": AnswerFormat.xlsx,
}
# Formats of one table, of which several answers are a folder.
_ONE_TABLE = {AnswerFormat.csv: ".csv", AnswerFormat.parquet: ".parquet"}


_COST_FACTS = ("cost", "neighbors", "privacy_unit", "declaration")
_FACTS = ("schema", "private", "charge", "question", *_COST_FACTS, "notes", "time", "from", "paid", "kind")


def chosen_format(given: AnswerFormat | None, output: Path | None) -> AnswerFormat:
    """Return the format asked for, else the one that the output file's ending names; without an ending, a table.

    Raises DeclarationError for an ending that names no format, or another than the one asked for.
    """
    ending = "" if output is None else output.suffix.lower()
    if ending and ending not in _ENDINGS:
        raise DeclarationError(
            f"{output} cannot be written: an answer's file ends in {', '.join(_ENDINGS)}; {nearest(ending, _ENDINGS)}"
        )
    form = given or _ENDINGS.get(ending, AnswerFormat.table)
    if ending and _ENDINGS[ending] is not form:
        raise DeclarationError(
            f"--format {form} does not fit {output}: leave out --format, or give the file another ending"
        )
    if form in (AnswerFormat.parquet, AnswerFormat.xlsx) and output is None:
        raise DeclarationError(f"--format {form} is for files: add -o FILE.{form}")
    return form


def folder_of(form: AnswerFormat, output: Path | None, *, several: bool) -> Path | None:
    """Return the folder that several answers of one table each go to; None where they go to one file, or to the terminal.

    Raises DeclarationError where such answers are to go to one file, or nowhere.
    """
    if form not in _ONE_TABLE or not several:
        return None
    if output is None or output.suffix:
        raise DeclarationError(
            f"--format {form} holds one answer, and these are several questions: name a folder, as in "
            f"-o tables --format {form}, or write one workbook, -o tables.xlsx, or -o tables.json"
        )
    return output


def write_folder(releases: Sequence[Release], folder: Path, form: AnswerFormat, *, confidence: float) -> None:
    """Write each release as a file of a folder, and beside them contents.csv, and all as JSON in releases.json."""
    import csv

    ending = _ONE_TABLE[form]
    digits = len(str(len(releases)))
    lines = [["file", "question", "rows", "cost", "charge"]]
    for place, release in enumerate(releases, start=1):
        name = f"{place:0{digits}d}{ending}"
        (folder / name).write_bytes(encode_release(release, form, confidence=confidence))
        rows = len(release.keys[0].labels) if release.keys else 1
        lines.append([name, release.question, str(rows), release.cost.describe(), release.charge])
    with (folder / "contents.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    (folder / "releases.json").write_bytes(encode_releases(releases, AnswerFormat.json, confidence=confidence))


def distinct_names(keys: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Return the column names of a written table; raises DeclarationError where one would appear twice."""
    names = [*keys, *(f"{name}{end}" for name in outputs for end in ("", "_lower", "_upper"))]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DeclarationError(
            f"column {twice[0]!r} would be written twice, because columns with _lower and _upper are added: "
            "give it another name with AS"
        )
    return names


def encode_release(release: Release, form: AnswerFormat, *, confidence: float) -> bytes:
    """Return a release as the bytes of a file."""
    if form is AnswerFormat.table:
        return ("\n".join([*table_lines(release, confidence=confidence), *cost_lines(release)]) + "\n").encode()
    data = release.to_dict(confidence=confidence)
    if form is AnswerFormat.json:
        return (json.dumps(data, ensure_ascii=False, indent=2) + "\n").encode()
    distinct_names([k.name for k in release.keys], [o.name for o in release.outputs])
    table = release.to_arrow(intervals=True, confidence=confidence)
    if form is AnswerFormat.csv:
        return csv_text(table)
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    facts = {name: data[name] for name in _FACTS if name in data}
    pq.write_table(table.replace_schema_metadata({"sordino": json.dumps(facts)}), sink)
    return sink.getvalue()


def encode_releases(releases: Sequence[Release], form: AnswerFormat, *, confidence: float) -> bytes:
    """Return a release as the bytes of a file; several as tables under each other, a JSON list or sheets of a workbook."""
    if form is AnswerFormat.xlsx:
        return encode_workbook_of(releases, confidence=confidence)
    if len(releases) == 1:
        return encode_release(releases[0], form, confidence=confidence)
    if form is AnswerFormat.json:
        contents = [release.to_dict(confidence=confidence) for release in releases]
        return (json.dumps(contents, ensure_ascii=False, indent=2) + "\n").encode()
    return b"\n".join(encode_release(release, form, confidence=confidence) for release in releases)


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
    from sordino.core.loss import format_number

    rest = left.amounts()
    gone = spent.amounts()
    amounts = {
        name: f"{format_number(amount)} of {format_number(amount + gone[name])}" for name, amount in rest.items()
    }
    return (
        next(iter(amounts.values()))
        if len(amounts) == 1
        else ", ".join(f"{name} {text}" for name, text in amounts.items())
    )
