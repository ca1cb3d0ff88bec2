"""Parquet and Arrow files: text that is UTF-8, and types that agree among files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sordino.ask.engines.cells import refine_times
from sordino.ask.engines.sql_text import quote_name, quote_text
from sordino.ask.engines.table_layout import PeopleTable
from sordino.core.domain import Boolean, Category, Column, Date, DateTime, Integer, List, Real
from sordino.core.errors import DeclarationError
from sordino.core.source import open_binary

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


# ---- Cells that would fail a whole scan are missing instead: how each kind of source is mended, at no cost where no cell is bad
#
# Text that is not UTF-8: Arrow tables are validated when they are opened. Parquet is validated by its reader, which fails at
# the first bad cell; only then is the table read again, with such cells missing. That reader also fails at moments in
# milliseconds that are out of the range of microseconds; a table that still fails is read by Arrow, with those missing too
# (`moment_cells.refine_times`). DuckDB files hold no such cells, and in CSV a line with bad text is lost.
#
# Theorem: a question that did not fail read no bad cell, and mending changes no other, so its answer is that of the mended
# table in each case: the answer is one function of the table, for both ways of reading it.

_NUMBERS = {
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
    "UBIGINT": "uint64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}


def mend_arrow(table: pa.Table) -> pa.Table:
    """Return an Arrow table with text that is not UTF-8 missing; a table without such cells is returned unchanged."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        column = table.column(place)
        if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
            # Arrow miscasts views
            raise DeclarationError(f"column {name!r} holds views of lists: make it an Arrow list")
        if _is_text_list(column.type):
            column = _plain_lists(column)
            whole = all(_is_whole(chunk) for chunk in column.chunks)
            table = table.set_column(place, name, column if whole else _mend_lists(column))
        elif _is_text(column.type) and not all(_is_whole(chunk) for chunk in column.chunks):
            table = table.set_column(place, name, _mend_column(column))
    return table


def read_parquet(
    files: Sequence[str], *, bad: str = "strict", numbered: bool = False, folders: bool = False, several: bool = False
) -> str:
    """Return the call that reads Parquet files; `bad` bytes in text fail ("strict"), or "replace" or "ignore".

    `files` are patterns; with `several` they may match files with other columns than the first.

    With `folders`, the keys of sub-folders named key=value are columns of text, also if all values are numbers.
    """
    place = ", filename = 'sordino_file', file_row_number = true" if numbered else ""
    keys = "hive_partitioning = true, hive_types_autocast = false" if folders else "hive_partitioning = false"
    # it takes a tenth of the time of one small file
    keys += ", union_by_name = true" if several else ""
    return f"read_parquet([{', '.join(map(quote_text, files))}], {keys}, utf8_validation = '{bad}'{place})"


def mend_parquet(
    files: Sequence[str],
    physical: Mapping[str, str],
    columns: Iterable[str],
    *,
    folders: bool = False,
    several: bool = False,
) -> str:
    """Return the SELECT of these columns of Parquet files, text that is not UTF-8 missing.

    A bad byte is read once as "?" and once as nothing: both readings are equal for valid text only.
    """
    items = ", ".join(
        f"CASE WHEN sordino_a.{n} = sordino_b.{n} THEN sordino_a.{n} END AS {n}" if text else f"sordino_a.{n}"
        for n, text in ((quote_name(c), physical[c].startswith("VARCHAR")) for c in columns)
    )
    one, other = (
        read_parquet(files, bad=bad, numbered=True, folders=folders, several=several) for bad in ("replace", "ignore")
    )
    return (
        f"SELECT {items} FROM {one} AS sordino_a JOIN {other} AS sordino_b "
        "ON sordino_a.sordino_file = sordino_b.sordino_file AND sordino_a.file_row_number = sordino_b.file_row_number"
    )


def load_parquet(files: Sequence[str], types: Mapping[str, str], *, folder: str = "") -> pa.Table:
    """Read columns of Parquet files with Arrow, for moments that DuckDB's reader fails at; text is not validated.

    `types` has the type that DuckDB reads each column as, over all files. With `folder`, the keys of its sub-folders named
    key=value are columns of text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = set(types)
    tables = []
    for name in files:
        with open_binary(name) as opened, pq.ParquetFile(opened) as file:
            table = file.read([n for n in file.schema_arrow.names if n in wanted])
        for place, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):
                table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
        for key, value in _folder_keys(name, folder).items():
            # the folder's key replaces a column of the file
            others = table.drop_columns([key]) if key in table.column_names else table
            cells = pa.array([value] * table.num_rows, pa.string())
            table = others.append_column(key, cells) if key in wanted else others
        # Seconds and milliseconds become microseconds here, as Arrow joins no moments of different units.
        table = refine_times(table)
        for place, field in enumerate(table.schema):
            common = _common_type(field.type, types[field.name])
            if common != field.type:
                table = table.set_column(place, field.name, table.column(place).cast(common, safe=False))
        tables.append(table)
    return pa.concat_tables(tables, promote_options="default")


def _common_type(kind: pa.DataType, duckdb_type: str) -> pa.DataType:
    """Return the Arrow type to which a column of any file is cast, where DuckDB reads it as `duckdb_type`."""
    import pyarrow as pa

    if duckdb_type in _NUMBERS and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return pa.type_for_alias(_NUMBERS[duckdb_type])
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return pa.large_string() if _is_text(kind) else kind


def footers_agree(files: Sequence[str], columns: Iterable[str]) -> bool:
    """Return whether the pages of one column hold as many cells as the footers state rows; the smallest column is read."""
    import pyarrow.parquet as pq

    wanted = set(columns)
    for name in files:
        with open_binary(name) as opened, pq.ParquetFile(opened) as file:
            sizes: dict[str, int] = {}
            for group in range(file.num_row_groups):
                for place in range(file.metadata.num_columns):
                    column = file.metadata.row_group(group).column(place)
                    if column.path_in_schema in wanted:
                        size = sizes.get(column.path_in_schema, 0) + column.total_compressed_size
                        sizes[column.path_in_schema] = size
            if not sizes:
                continue
            smallest = min(sizes, key=lambda path: sizes[path])
            rows = sum(batch.num_rows for batch in file.iter_batches(columns=[smallest]))
            if rows != file.metadata.num_rows:
                return False
    return True


def _folder_keys(name: str, folder: str) -> dict[str, str | None]:
    """Return the keys and values of a file's sub-folders, as DuckDB reads them."""
    if not folder:
        return {}
    parts = (part.partition("=") for part in Path(name).relative_to(folder).parent.parts)
    return {
        unquote(key): None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value)
        for key, sign, value in parts
        if sign
    }


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def _is_text_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool((pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_text(kind.value_type))


def _plain_lists(column: Any) -> Any:
    """Return lists of text without a dictionary."""
    import pyarrow as pa

    kind = column.type
    item = kind.value_type
    item = item.value_type if pa.types.is_dictionary(item) else item
    plain = pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
    return column if kind == plain else column.cast(plain)


def _mend_lists(column: Any) -> Any:
    """Return lists of text; a list with an item that is not UTF-8 is missing, as in `mend_parquet`."""
    import pyarrow as pa

    wide = pa.large_list if pa.types.is_large_list(column.type) else pa.list_
    item = column.type.value_type
    raw = pa.large_binary() if pa.types.is_large_string(item) else pa.binary()
    raw = pa.binary_view() if pa.types.is_string_view(item) else raw
    chunks = []
    for chunk in column.chunks:
        cells = chunk.cast(wide(raw)).to_pylist()
        chunks.append(pa.array([_decode_list(cell) for cell in cells], column.type))
    return pa.chunked_array(chunks, column.type)


def _decode_list(cell: list[bytes | None] | None) -> list[str | None] | None:
    items = [] if cell is None else [_decode(item) for item in cell]
    return None if cell is None or items.count(None) > cell.count(None) else items


def _is_whole(chunk: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary
    try:
        chunk.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _mend_column(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        whole = [_mend_chunk(c.dictionary).take(c.indices) for c in column.chunks]
        return pa.chunked_array(whole, column.type.value_type)
    return pa.chunked_array([_mend_chunk(c) for c in column.chunks], column.type)


def _mend_chunk(chunk: Any) -> Any:
    import pyarrow as pa

    wide = pa.large_binary() if pa.types.is_large_string(chunk.type) else pa.binary()
    raw = chunk.cast(pa.binary_view() if pa.types.is_string_view(chunk.type) else wide)
    return pa.array([_decode(cell) for cell in raw.to_pylist()], chunk.type)


def _decode(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


# ---- Whether several Parquet files may be read as one table, by the types that they state alone
#
# DuckDB reads a column of several files in one type that holds all of theirs. Where that type reads a cell otherwise than the
# file's own does, one file would decide what the rows of all others count as: moments with and without a time zone become
# moments of UTC, and whole numbers beside floats lose digits. Such files are refused by their types, for any rows.

# the type of a column without any cell
_EMPTY = '"NULL"'
# binary digits of whole numbers
_SIGNED = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
# the binary digits up to which a float represents every whole number
_FLOATS = {"FLOAT": 24, "DOUBLE": 53}
_WHOLE = _SIGNED | _UNSIGNED


def check_parquet_types(connection: duckdb.DuckDBPyConnection, patterns: Sequence[str], table: PeopleTable) -> None:
    """Raise DeclarationError where a declared column's types differ among files so that one file decides how others are read."""
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
    # the schema itself comes first
    place = 1
    while place < len(layout):
        columns.append((layout[place]["name"].lower(), layout[place]["kind"]))
        # skip the column and its nested fields, which follow it
        fields = 1
        while fields:
            fields += layout[place]["children"] - 1
            place += 1
    return columns


def _read_alike(column: Column | List, kinds: Collection[str], *, is_unit: bool) -> bool:
    """Return whether a cell of any of these types is read, in the one type that holds all of them, as in its own.

    Theorem. Whole numbers are read alike in each type that represents them, and so are floats. A whole number that a float
    represents has the same text and the same double in both. Any other is rounded to a neighbor, never past a number that the
    float represents: bounds and values that it represents are met by the same numbers. A Real cell is its double in any case.
    """
    kinds = set(kinds)
    if len(kinds) <= 1:
        return True
    if isinstance(column, List) or not kinds <= _WHOLE.keys() | _FLOATS.keys():
        return False
    floats = kinds & _FLOATS.keys()
    if not floats:
        # UBIGINT beside a signed type would be read in 128 bits
        return "UBIGINT" not in kinds or not kinds & _SIGNED.keys()
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
