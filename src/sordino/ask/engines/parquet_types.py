"""Whether several Parquet files may be read as one table, by the types that they state alone.

DuckDB reads a column of several files in one type that holds all of theirs. Where that type reads a cell otherwise than the
file's own does, one file would decide what the rows of all others count as: moments with and without a time zone become
moments of UTC, and whole numbers beside floats lose digits. Such files are refused, whatever their rows hold.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.quoting import quote_text
from sordino.ask.engines.table_layout import PeopleTable
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Integer, List, Real
from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    import duckdb

_EMPTY = '"NULL"'  # the type of a column without any cell
_SIGNED = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}  # binary digits
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
_FLOATS = {"FLOAT": 24, "DOUBLE": 53}  # up to so many binary digits every whole number is held
_WHOLE = _SIGNED | _UNSIGNED


def check_parquet_types(connection: duckdb.DuckDBPyConnection, patterns: Sequence[str], table: PeopleTable) -> None:
    """Raise DeclarationError where a declared column's types differ among the files so that one decides how another is read."""
    files = f"[{', '.join(map(quote_text, patterns))}]"
    state = "struct_pack(name, kind := duckdb_type, children := COALESCE(num_children, 0))"
    layouts = connection.execute(
        f"SELECT DISTINCT list({state} ORDER BY column_id) FROM parquet_schema({files}) GROUP BY file_name"
    ).fetchall()
    types: dict[str, set[str]] = {}
    for (layout,) in layouts:
        for name, kind in _columns(layout):
            types.setdefault(name, set()).add(kind)
    unit = None if table.unit is None else table.unit.column
    domain = table.domain
    for name in domain.stored:
        kinds = types.get(name.lower(), set()) - {_EMPTY}
        column = domain.lists[name] if name in domain.lists else domain[name]
        if not _read_alike(column, kinds, is_unit=name == unit):
            raise DeclarationError(
                f"column {name!r} is held in types that differ among the files, {', '.join(sorted(kinds))}: all would be read "
                "in one type, and one file would change how the rows of others are read. Write the files anew in one type"
            )


def _columns(layout: Sequence[Any]) -> list[tuple[str, str]]:
    """Return the names and types of a file's columns, those of nested fields left out; names are compared in any case."""
    columns: list[tuple[str, str]] = []
    place = 1  # the schema itself comes first
    while place < len(layout):
        columns.append((layout[place]["name"].lower(), layout[place]["kind"]))
        fields = 1
        while fields:
            fields += layout[place]["children"] - 1
            place += 1
    return columns


def _read_alike(column: Column | List, kinds: Collection[str], *, is_unit: bool) -> bool:
    """Return whether a cell of any of these types is read, in the one type that holds all of them, as in its own.

    Theorem. Whole numbers are read alike in each type that holds them, and so are floats. A whole number that a float holds
    has the same text and the same double in both. One that it does not hold moves to a neighbor, never past a number that
    it does hold: bounds and values that are held are met by the same numbers. A Real cell is its double in any case.
    """
    kinds = set(kinds)
    if len(kinds) <= 1:
        return True
    if isinstance(column, List) or not kinds <= _WHOLE.keys() | _FLOATS.keys():
        return False
    floats = kinds & _FLOATS.keys()
    if not floats:
        return "UBIGINT" not in kinds or not kinds & _SIGNED.keys()  # else of 128 bits
    digits = max(_FLOATS[kind] for kind in floats)
    if all(_WHOLE[kind] <= digits for kind in kinds - floats):
        return True
    if is_unit:
        return False
    if isinstance(column, Real):
        return "DOUBLE" in floats
    if isinstance(column, Integer):
        return all(bound is not None and abs(bound) <= 2**digits for bound in (column.lower, column.upper))
    if isinstance(column, Category):
        return all(isinstance(value, int) and abs(value) < 2**digits for value in column.values)
    return isinstance(column, (Boolean, Date, DateTime))
