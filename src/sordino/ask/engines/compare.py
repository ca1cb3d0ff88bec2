"""Counts of the cells and lines of a source that do not fit its declaration: exact, NOT PRIVATE, for the curator.

It reads cells with the same primitives as every question, and knows no ledger and no noise.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

from sordino.ask.engines.duckdb import LINES
from sordino.ask.engines.engine import Engine
from sordino.ask.engines.opening import open_source
from sordino.core.domain import STORED, Boolean, Category, Column, Date, DateTime, Domain, Identifier, Integer
from sordino.core.primitives import Primitives
from sordino.core.source import Csv, Source, header_names, open_unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

_EPOCH = datetime.date(1970, 1, 1)
# seconds around the bounds, in which moments are read unclipped
_CENTURY = 36_525 * 86_400
_CHUNK = 2**24
# how many cells that do not fit are placed of each column
_FIRST = 5


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Exact counts of one column's cells: NOT PRIVATE. `other_case` are the undeclared ones equal to a value in another case.

    `first` are the places, from 1, of the first cells that are unreadable, undeclared or outside the bounds: lines of a CSV
    file, its header and its blank lines counted, or rows of another source. There are none where the engine keeps no order of
    rows (Spark), or where a line of the file cannot be read at all.
    """

    missing: int
    unreadable: int
    below: int
    above: int
    undeclared: int
    other_case: int
    first: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Exact counts of a CSV file's lines, its header left out: NOT PRIVATE.

    `broken` lines cannot be parsed, for their quoting, text or length; `quoted` ones have a cell that starts with a quote where
    no `quote` is declared; `undecoded` ones hold bytes that are not of its encoding, and a cell with such a byte is missing.
    `totals` are no rows by `Csv.totals`, and in none of the other counts but `lines`.
    """

    lines: int
    too_short: int
    too_long: int
    broken: int
    quoted: int
    undecoded: int = 0
    totals: int = 0


def count_misfits(
    source: Source | pa.Table, *, domain: Domain
) -> tuple[int, Mapping[str, CellCounts], LineCounts | None]:
    """Return the number of rows, the counts of each column's cells, and those of a CSV file's lines.

    NOT PRIVATE: exact counts. Raises SourceError or DeclarationError as opening the source does, and EngineFailed.
    """
    engine = open_source(source, domain=domain, unit=None)
    try:
        rows, cells = _cells(engine, domain, orders=_orders_rows(source))
        if not isinstance(source, Source) or source.csv is None:
            return rows, cells, None
        is_row = _row_condition(source)
        lines, read = _lines(engine, source, is_row)
        numbers: Mapping[int, int] = {}
        # a line that the engine lost would shift the numbers of those below
        if read == rows:
            numbers = _line_numbers(engine, source.csv, is_row, {row for each in cells.values() for row in each.first})
        for name, counts in cells.items():
            cells[name] = replace(counts, first=tuple(numbers[row] for row in counts.first if row in numbers))
        return rows, cells, lines
    finally:
        engine.close()


def _orders_rows(source: Source | pa.Table) -> Literal["duckdb", "postgresql", ""]:
    """Return what reads a source in an order of its rows; empty where nothing is known of that."""
    import pyarrow as pa

    if not isinstance(source, Source):
        return "duckdb" if isinstance(source, pa.Table) else ""
    return "postgresql" if source.engine == "postgresql" else "duckdb" if source.engine in ("", "duckdb") else ""


def _cells(
    engine: Engine, domain: Domain, *, orders: Literal["duckdb", "postgresql", ""]
) -> tuple[int, dict[str, CellCounts]]:
    from sqlglot import exp

    on = engine.primitives
    items: list[Any] = [_select("SELECT ROW_NUMBER() OVER () AS place").expressions[0]] if orders else []
    conditions: dict[str, list[str]] = {}
    for i, (name, column) in enumerate(domain.columns.items()):
        read, low, high = _reading(on, name, column)
        floating = engine.physical[name] in ("FLOAT", "DOUBLE")
        raw = exp.IsNan(this=on.raw(name)) if floating else None
        # A NaN is a missing cell.
        stored = on.raw(name) if raw is None else exp.Case(ifs=[exp.If(this=exp.not_(raw), true=on.raw(name))])
        items += [exp.alias_(stored, f"stored_{i}"), exp.alias_(read, f"read_{i}")]
        conditions[name] = _conditions(i, column, low, high)
    cells = exp.Select(expressions=items).from_(on.source()).subquery("cells")
    sums = [f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)" for each in conditions.values() for condition in each]
    answer = engine.run(_select(f"SELECT COUNT(*), {', '.join(sums)}").from_(cells))
    rows, *numbers = [int(column[0].as_py() or 0) for column in answer.columns]
    counts = {}
    for i, name in enumerate(domain):
        missing, unreadable, below, above, undeclared, other_case = numbers[6 * i : 6 * i + 6]
        counts[name] = CellCounts(missing, unreadable, below, above, undeclared, other_case)
    # all but the empty cells; those in another case are among the undeclared ones
    misfits = {
        name: " OR ".join(f"({condition})" for condition in conditions[name][1:5])
        for name, each in counts.items()
        if each.unreadable or each.below or each.above or each.undeclared
    }
    if not orders or not misfits:
        return rows, counts
    places = _first_rows(engine, cells, misfits, at_once=orders == "duckdb")
    return rows, {name: replace(each, first=places.get(name, ())) for name, each in counts.items()}


def _first_rows(
    engine: Engine, cells: exp.Expression, misfits: Mapping[str, str], *, at_once: bool
) -> dict[str, tuple[int, ...]]:
    """Return the first rows, from 1, that meet the condition of each column; `at_once` in one scan, as DuckDB can."""
    if at_once:
        firsts = ", ".join(f"MIN(CASE WHEN {condition} THEN place END, {_FIRST})" for condition in misfits.values())
        answer = engine.run(_select(f"SELECT {firsts}").from_(cells.copy()))
        return {name: tuple(column[0].as_py() or ()) for name, column in zip(misfits, answer.columns, strict=True)}
    rows = {}
    for name, condition in misfits.items():
        first = _select(f"SELECT place WHERE {condition} ORDER BY place LIMIT {_FIRST}")
        rows[name] = tuple(int(row) for row in engine.run(first.from_(cells.copy())).column(0).to_pylist())
    return rows


def _conditions(i: int, column: Column, low: int | None, high: int | None) -> list[str]:
    """Return the conditions that CellCounts counts, in its order, over stored_i and read_i."""
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
    return conditions


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


def _row_condition(source: Source) -> str:
    """Return the condition that a line is a row, over the relation of lines."""
    assert source.csv is not None
    columns = len(header_names(source.place, source.csv))
    # Unquoted, a blank line is no row unless it is the only cell, and one with too many cells has its first ones.
    fits = f"coalesce(length(cells), 0) = {columns}" if source.csv.quote else f"(line <> '' OR {columns} = 1)"
    return f"{fits} AND NOT is_total"


def _lines(engine: Engine, source: Source, is_row: str) -> tuple[LineCounts, int]:
    """Return the counts of a file's lines, and how many are rows; -1 where a line cannot be read at all."""
    csv = source.csv
    assert csv is not None
    columns = len(header_names(source.place, csv))
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
    sums = ", ".join(f"SUM(CASE WHEN NOT is_total AND ({condition}) THEN 1 ELSE 0 END)" for condition in conditions)
    others = ", ".join(f"SUM(CASE WHEN {condition} THEN 1 ELSE 0 END)" for condition in ("is_total", is_row))
    answer = engine.run(_select(f"SELECT COUNT(*), {sums}, {others} FROM {LINES}"))
    numbers = (int(column[0].as_py() or 0) for column in answer.columns)
    read, short, long, broken, quoted, undecoded, totals, rows = numbers
    lines = max(read, _physical(source.place) - csv.lines_aside)
    lost = lines - read
    counts = LineCounts(lines, short, long, broken + lost, 0 if csv.quote else quoted, undecoded, totals)
    return counts, -1 if lost else rows


def _line_numbers(engine: Engine, csv: Csv, is_row: str, rows: Iterable[int]) -> dict[int, int]:
    """Return the line of the file, from 1, in which each of these rows stands."""
    listed = ", ".join(map(str, sorted(rows)))
    if not listed:
        return {}
    lines = f"SELECT ROW_NUMBER() OVER () AS number, line, cells, is_total FROM {LINES}"
    numbered = f"SELECT ROW_NUMBER() OVER () AS place, number FROM ({lines}) AS lines WHERE {is_row}"
    answer = engine.run(_select(f"SELECT place, number FROM ({numbered}) AS numbered WHERE place IN ({listed})"))
    places, numbers = (column.to_pylist() for column in answer.columns)
    return {place: number + csv.lines_aside for place, number in zip(places, numbers, strict=True)}


def _select(text: str) -> exp.Select:
    from sqlglot import parse_one

    return cast("exp.Select", parse_one(text, dialect="duckdb"))


def _physical(path: str) -> int:
    """Return how many lines a file has, decompressed, ended by any of \\n, \\r and \\r\\n."""
    ends = 0
    last = b""
    with open_unpacked(path) as file:
        while chunk := file.read(_CHUNK):
            ends += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
            # a line end that the chunks divide is one
            ends -= last == b"\r" and chunk[:1] == b"\n"
            last = chunk[-1:]
    return ends + (last not in (b"", b"\n", b"\r"))
