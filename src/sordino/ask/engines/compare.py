"""Counts of the cells and lines of a source that do not fit its declaration: exact, NOT PRIVATE, for the curator.

It reads cells with the same primitives as every question, and knows no ledger and no noise.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from sordino.ask.engines.duckdb import LINES
from sordino.ask.engines.engine import Engine
from sordino.ask.engines.opening import open_source
from sordino.core.domain import STORED, Boolean, Category, Column, Date, DateTime, Domain, Identifier, Integer
from sordino.core.primitives import Primitives
from sordino.core.source import Csv, Source, header_names, open_binary

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

_EPOCH = datetime.date(1970, 1, 1)
# seconds around the bounds, in which moments are read unclipped
_CENTURY = 36_525 * 86_400
_CHUNK = 2**24


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Exact counts of one column's cells: NOT PRIVATE. `other_case` are the undeclared ones equal to a value in another case."""

    missing: int
    unreadable: int
    below: int
    above: int
    undeclared: int
    other_case: int


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Exact counts of a CSV file's lines, its header left out: NOT PRIVATE.

    `broken` lines cannot be parsed, for their quoting, text or length; `quoted` ones have a cell that starts with a quote where
    no `quote` is declared; `undecoded` ones hold bytes that are not of its encoding, and a cell with such a byte is missing.
    """

    lines: int
    too_short: int
    too_long: int
    broken: int
    quoted: int
    undecoded: int = 0


def count_misfits(
    source: Source | pa.Table, *, domain: Domain
) -> tuple[int, Mapping[str, CellCounts], LineCounts | None]:
    """Return the number of rows, the counts of each column's cells, and those of a CSV file's lines.

    NOT PRIVATE: exact counts. Raises SourceError or DeclarationError as opening the source does, and EngineFailed.
    """
    engine = open_source(source, domain=domain, unit=None)
    try:
        rows, cells = _cells(engine, domain)
        csv = source.csv if isinstance(source, Source) else None
        lines = None
        if csv is not None and isinstance(source, Source):
            lines = _lines(engine, source.place, csv)
        return rows, cells, lines
    finally:
        engine.close()


def _cells(engine: Engine, domain: Domain) -> tuple[int, dict[str, CellCounts]]:
    from sqlglot import exp

    on = engine.primitives
    items: list[Any] = []
    counts: list[str] = []
    for i, (name, column) in enumerate(domain.columns.items()):
        read, low, high = _reading(on, name, column)
        floating = engine.physical[name] in ("FLOAT", "DOUBLE")
        raw = exp.IsNan(this=on.raw(name)) if floating else None
        # A NaN is a missing cell.
        stored = on.raw(name) if raw is None else exp.Case(ifs=[exp.If(this=exp.not_(raw), true=on.raw(name))])
        items += [exp.alias_(stored, f"stored_{i}"), exp.alias_(read, f"read_{i}")]
        counts += _sums(i, column, low, high)
    cells = exp.Select(expressions=items).from_(on.source()).subquery("cells")
    sums = engine.run(_select(f"SELECT COUNT(*), {', '.join(counts)}").from_(cells))
    rows, *numbers = [int(column[0].as_py() or 0) for column in sums.columns]
    return rows, {name: CellCounts(*numbers[6 * i : 6 * i + 6]) for i, name in enumerate(domain)}


def _sums(i: int, column: Column, low: int | None, high: int | None) -> list[str]:
    """Return the sums of CellCounts, in its order, over stored_i and read_i."""
    stored = f"stored_{i}"
    read = f"read_{i}"
    unreadable = f"{stored} IS NOT NULL AND {read} IS NULL"
    conditions = [f"{stored} IS NULL", unreadable, "false", "false", "false", "false"]
    if low is not None:
        conditions[2] = f"{read} < {low}"
    if high is not None:
        conditions[3] = f"{read} > {high}"
    if isinstance(column, Category):
        words = sorted({str(v).lower() for v in column.values})
        listed = ", ".join("'" + word.replace("'", "''") + "'" for word in words)
        # a cell that is no declared value is undeclared, not unreadable
        conditions[1] = "false"
        conditions[4] = unreadable
        conditions[5] = f"{unreadable} AND lower(trim(CAST({stored} AS VARCHAR))) IN ({listed})"
    return [f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)" for condition in conditions]


def _reading(on: Primitives, name: str, column: Column) -> tuple[exp.Expression, int | None, int | None]:
    """Return the SQL of a column's cells without its bounds, and the bounds in the same steps."""
    if isinstance(column, Integer):
        return on.integer(name, -STORED, STORED), column.lower, column.upper
    if isinstance(column, Date):
        low, high = ((day - _EPOCH).days for day in (column.lower, column.upper))
        return on.days(name, datetime.date.min, datetime.date.max), low, high
    if isinstance(column, Boolean):
        return on.truth(name), None, None
    if isinstance(column, Category):
        cell = on.category_cell(name, whole=isinstance(column.values[0], int))
        return on.code_of(cell, column.values, None), None, None
    if isinstance(column, Identifier):
        return on.text(name), None, None
    if isinstance(column, DateTime):
        low, high = column.steps
        margin = int(_CENTURY / column.resolution)
        return on.moments(name, column.zone, column.resolution, low - margin, high + margin), low, high
    step = column.step or Fraction(1, 1000)
    least = None if column.lower is None else math.floor(column.lower / step)
    most = None if column.upper is None else math.ceil(column.upper / step)
    return on.lattice(name, step, -STORED, STORED), least, most


def _lines(engine: Engine, path: str, csv: Csv) -> LineCounts:
    columns = len(header_names(path, csv))
    blanks = "' ' || chr(9)"
    starts = [
        f"starts_with(ltrim(line, {blanks}), '\"')",
        f"contains(line, '{csv.between.replace(chr(39), chr(39) * 2)}\"')",
    ]
    conditions = [
        f"length(cells) < {columns}",
        f"length(cells) > {columns}",
        "cells IS NULL",
        " OR ".join(starts),
        "undecoded",
    ]
    sums = ", ".join(f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)" for condition in conditions)
    counts = engine.run(_select(f"SELECT COUNT(*), {sums} FROM {LINES}"))
    read, short, long, broken, quoted, undecoded = (int(column[0].as_py() or 0) for column in counts.columns)
    lines = max(read, _physical(path) - csv.lines_aside)
    return LineCounts(lines, short, long, broken + lines - read, 0 if csv.quote else quoted, undecoded)


def _select(text: str) -> exp.Select:
    from sqlglot import parse_one

    return cast("exp.Select", parse_one(text, dialect="duckdb"))


def _physical(path: str) -> int:
    """Return how many lines a file has, ended by any of \\n, \\r and \\r\\n."""
    ends = 0
    last = b""
    with open_binary(path) as file:
        while chunk := file.read(_CHUNK):
            ends += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
            # a line end that the chunks divide is one
            ends -= last == b"\r" and chunk[:1] == b"\n"
            last = chunk[-1:]
    return ends + (last not in (b"", b"\n", b"\r"))
