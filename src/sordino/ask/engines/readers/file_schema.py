"""The columns that a file states of itself: names and types, never a row."""

from __future__ import annotations

import contextlib
import glob
import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sordino.ask.engines.readers.csv_import import TYPES, default_delimiter
from sordino.ask.engines.readers.import_file import GUESSED, LABELS, read_recipe
from sordino.ask.engines.readers.lake_tables import check_folder
from sordino.ask.engines.readers.sqlite_file import sqlite_columns
from sordino.ask.engines.readers.text_tables import Layout
from sordino.core.cell_formats import ISO_FORMATS, CsvCells
from sordino.core.errors import DeclarationError, SourceError, nearest
from sordino.core.source import (
    FAR,
    FORMATS,
    PACKED,
    Csv,
    Source,
    address_format,
    ending_format,
    header_cells,
    header_line,
    header_names,
    missing_source,
    name_columns,
    open_binary,
    source_from,
    split_ending,
)

if TYPE_CHECKING:
    import pyarrow as pa

Columns = list[tuple[str, str | None]]

# Files of a folder whose columns are compared.
_MOST_LOOKED_AT = 1000
# Formats whose files state their columns.
_STATED = ("csv", "jsonl", "parquet", "duckdb", "sqlite", "arrow")


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The columns of a file - name and physical type, None where it states none - and what else to declare.

    `labels` are the values that a codebook in the file gives a column, which are public. `has_totals` says that there are
    lines which are no rows, and whose first cells a person must state as `csv.totals`.
    """

    columns: Sequence[tuple[str, str | None]]
    csv: Csv | None = None
    relation: str | None = None
    remarks: tuple[str, ...] = ()
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    has_totals: bool = False


def read_schema(
    source: str,
    *,
    header: bool | None = None,
    columns: int | None = None,
    delimiter: str | None = None,
    quote: str | None = None,
    relation: str | None = None,
) -> FileSchema:
    """Return the columns that a file, a folder of Parquet or a PostgreSQL server states of itself; no value is read.

    A CSV file's first line may be a row of the data, so `header` must say whether it holds names, and `columns` how many
    there are where it does not. The first line of JSON lines is a row, of which `header` takes the names alone.

    Raises DeclarationError where that is missing or does not fit the file, SourceError where the file cannot be opened.
    """
    address = address_format(source)
    if address is not None and address.name == "postgresql":
        if relation is None:
            raise DeclarationError("say which table of the server with --relation, such as public.people")
        return FileSchema(_server_columns(source_from(source, relation=relation)), relation=relation)
    if address is not None and address.name == "spark":
        return FileSchema(_spark_columns(source_from(source)), relation=None)
    ending, _ = split_ending(source)
    file_format = ending_format(ending)
    kind = "" if file_format is None else file_format.name
    if source.startswith(FAR) and kind not in ("csv", "jsonl"):
        # This refuses a format that is not read from a remote store.
        Source(source, "parquet" if ending == "" or kind == "parquet" else "arrow")
    folder = source.endswith("/") or Path(source).is_dir()
    if kind not in _STATED and not folder:
        endings = [ending for name in _STATED for ending in FORMATS[name].endings]
        packed = "; unpack it first" if ending in PACKED else ""
        raise DeclarationError(f"source {source!r} must end in {', '.join(endings)}, or in / for a folder{packed}")
    if kind == "csv" and not folder:
        return _csv_schema(source, header, columns, delimiter, quote)
    if kind == "jsonl" and (columns, delimiter, quote) == (None, None, None):
        return _json_schema(source, header)
    if any(given is not None for given in (header, columns, delimiter, quote)):
        rule = "--header, --no-header, --columns, --delimiter and --quote are for CSV files, --header for JSON lines"
        raise DeclarationError(f"{rule}; leave them out")
    if folder or kind == "parquet":
        check_folder(Source(f"{source.rstrip('/')}/" if folder else source, "parquet"))
        return _folder_schema(source) if folder else _parquet_schema(source)
    _check_present(source)
    if kind == "arrow":
        return FileSchema(_arrow_columns(source))
    read = _sqlite_columns if kind == "sqlite" else _duckdb_columns
    table, stated = read(source, relation)
    return FileSchema(stated, relation=table)


def recipe_schema(recipe: str | Path) -> tuple[str, FileSchema]:
    """Return the CSV file that a recipe imports and its schema: types and layout as the recipe states them.

    Raises DeclarationError where it imports another kind of file, or one whose lines are no rows.
    """
    source, target, layout, rules = read_recipe(recipe)
    if address_format(source) is not None or not Path(source).is_file() or not _is_csv(source, layout):
        raise DeclarationError(
            f"{recipe} imports no CSV file, so import it: sordino import {recipe}, then sordino init {target}"
        )
    stated: dict[str, dict[str, Any]] = {}
    types: dict[str, str] = {}
    for text in rules.types:
        name, _, kind = text.rpartition("=")
        types[name] = kind
        if kind in ("amount", "percent"):
            stated.setdefault(name, {})["type"] = kind
    nulls: list[str] = []
    for text in rules.null:
        name, sign, mark = text.partition("=")
        if sign and name in types:
            stated.setdefault(name, {}).setdefault("null_values", []).append(mark)
        else:
            nulls.append(text)
    for rule in ("decimal", "thousands", "date", "true", "false"):
        for text in getattr(rules, rule):
            name, _, value = text.partition("=")
            # a recipe states each mark of a column, and words as a list
            if value not in ISO_FORMATS:
                own = stated.setdefault(name, {})
                own[rule] = [*own.get(rule, ()), value] if rule in ("true", "false") else value
    csv = Csv(
        header=bool(layout.header),
        names=layout.names or None if layout.header else layout.names or tuple(types),
        delimiter=layout.delimiter or default_delimiter(source),
        null_values=tuple(nulls),
        quote='"' if layout.quote is None else layout.quote,
        encoding=layout.encoding or "utf-8",
        header_rows=layout.header_rows,
        skip_first=layout.skip_first,
        columns={name: CsvCells(**cells) for name, cells in stated.items()},
    )
    remark = f"the types are those of {recipe}, which read the cells unless you stated them: change what is not public"
    lines = "a line of the file is a row: cells that hold line ends are read by sordino import alone"
    remarks = [remark, lines]
    if layout.skip_last:
        remarks.append(
            "lines are not counted from the end here, as --skip-last does: state as csv.totals what the first cell of each "
            "holds, such as Total"
        )
    columns: Columns = [(name, _DECLARED[kind]) for name, kind in types.items()]
    return source, FileSchema(columns, csv, remarks=tuple(remarks), has_totals=layout.skip_last > 0)


def _is_csv(source: str, layout: Layout) -> bool:
    ending, _ = split_ending(source)
    return not layout.widths and ending in FORMATS["csv"].endings


# The physical type of which a column is declared as the type that a recipe states.
_DECLARED = {
    **{"integer": "int64", "real": "double", "percent": "double", "amount": "double", "date": "date32"},
    **{"moment": "timestamp", "boolean": "bool", "text": "string"},
}


def _check_present(source: str) -> None:
    if source.startswith(FAR):
        # This refuses an address that may hold a credential.
        Source(source, "jsonl")
        open_binary(source).close()
    elif not Path(source).is_file():
        raise missing_source(source)


def _csv_schema(
    path: str, header: bool | None, columns: int | None, delimiter: str | None, quote: str | None
) -> FileSchema:
    _check_present(path)
    if header is None:
        rule = "a CSV file's first line may be a row of the data, which must not get into a project file"
        raise DeclarationError(f"{rule}: say --header if it holds names, else --no-header --columns N")
    if header and columns is not None:
        raise DeclarationError("--columns goes with --no-header; a header line names the columns itself")
    between = default_delimiter(path) if delimiter is None else delimiter
    if not header:
        if columns is None or not 1 <= columns <= 100_000:
            raise DeclarationError("--no-header needs --columns N, the number of columns, from 1 to 100,000")
        # Only the curator is here: a file that is no text is refused, even where its first line holds no names.
        header_line(path)
        names = tuple(f"c{i}" for i in range(1, columns + 1))
        return FileSchema([(name, None) for name in names], Csv(False, names, between, quote=quote or ""))
    line = header_line(path)
    marked = 0
    if line.lower().startswith("sep="):
        # Excel reads the delimiter there; the names are in the second line
        marked = 1
        between = between if delimiter is not None else line.rstrip("\r\n")[4:5] or between
        line = ""
    if delimiter is None and not marked and between not in line:
        for other in (c for c in ",;\t|" if c in line):
            raise DeclarationError(
                f"the header line of {path!r} has no {between!r}: say --delimiter {other!r}, "
                f"or --delimiter {between!r} if it names one column"
            )
    if "\ufffd" in line:
        target = Path(path).with_suffix(".parquet")
        raise DeclarationError(
            f"the header line of {path!r} is not UTF-8: sordino import --header --encoding cp1252 {path} {target}, whose "
            f"recipe {target.with_suffix('.import.toml')} sordino init takes as well"
        )
    sign = ('"' if '"' in line else "") if quote is None else quote
    rules = Csv(True, None, between, quote=sign, skip_first=marked)
    remarks = [f'the header line of {path} is quoted, so quote = \'"\' is declared; --quote "" declares otherwise']
    remarks = remarks if sign and quote is None else []
    # this refuses a header that cannot be read
    names = header_names(path, rules)
    _, notes = name_columns([row for row in header_cells(path, rules) if row is not None])
    stated: Columns = [(name, None) for name in names]
    return FileSchema(stated, rules, remarks=(*remarks, *notes))


def _json_schema(path: str, header: bool | None) -> FileSchema:
    """Return the names in the first line of JSON lines; a value binds no other, so only a person can state the types."""
    _check_present(path)
    if not header:
        rule = "the first line of JSON lines is a row of the data, and a project file is public"
        raise DeclarationError(f"{rule}: say --header to take its names, without its values, as the table's columns")
    names: list[str] = []
    with contextlib.suppress(ValueError, RecursionError):
        row = json.loads(header_line(path))
        names = list(row) if isinstance(row, dict) else []
    if not all(names) or not names or len({name.lower() for name in names}) != len(names):
        raise SourceError(f"source {path!r}: its first line is no JSON object whose names differ in more than case")
    remark = f"the columns are the names in the first line of {path}: add those that it leaves out"
    return FileSchema([(name, None) for name in names], remarks=(remark,))


def _parquet_schema(source: str) -> FileSchema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = _find(source, source)
    if not files:
        raise SourceError(f"source {source!r} is missing: there is no such file")
    schema: pa.Schema | None = None
    types: dict[str, str] = {}
    labels: dict[str, list[str]] = {}
    guessed: list[str] = []
    try:
        with open_binary(files[0]) as raw, pq.ParquetFile(raw) as file:
            schema = file.schema_arrow
            about = file.metadata.metadata or {}
            types = json.loads(about.get(TYPES.encode(), b"{}"))
            labels = json.loads(about.get(LABELS.encode(), b"{}"))
            guessed = json.loads(about.get(GUESSED.encode(), b"[]"))
    except (pa.ArrowException, OSError, ValueError):
        schema = None
    if schema is None:
        raise SourceError(f"source {source!r} cannot be opened as Parquet: check its path, format and rights")
    remark = "`sordino import` read types in the cells: change what is not public"
    columns: Columns = [(column.name, types.get(column.name, _physical_type(column.type))) for column in schema]
    return FileSchema(columns, remarks=(remark,) if types or guessed else (), labels=labels)


def _folder_schema(source: str) -> FileSchema:
    """Return the columns of a folder of Parquet files: those of its first file, and the keys of sub-folders named key=value."""
    files = _find(f"{source.rstrip('/')}/", f"{glob.escape(source.rstrip('/'))}/**/*.parquet")
    if not files:
        others = [
            path for path in _files_in(source) if path.suffix.lower() in (*FORMATS["csv"].endings, ".xlsx", ".ods")
        ]
        if others:
            raise SourceError(
                f"the folder {source!r} holds no Parquet: sordino import {source} all.parquet makes one table of its CSV and "
                f"Excel files"
            )
        raise SourceError(f"source {source!r} is missing: there is no such folder with .parquet files in it")
    first = _parquet_schema(files[0])
    lacking = _columns_lacking(files[:_MOST_LOOKED_AT], source)
    parts = (part.partition("=") for part in Path(files[0]).relative_to(source).parent.parts)
    keys = [unquote(key) for key, sign, _ in parts if sign]
    columns: Columns = [(name, kind) for name, kind in first.columns if name not in keys]
    remarks = (*first.remarks, *lacking)
    return FileSchema([*columns, *((key, "string") for key in keys)], remarks=remarks)


def _files_in(folder: str) -> list[Path]:
    return list(Path(folder).iterdir()) if Path(folder).is_dir() else []


def _columns_lacking(files: Sequence[str], folder: str) -> list[str]:
    """Return, in words, which files of a folder lack a column of its first or have others.

    Raises DeclarationError where a file has no column of the first: they are no parts of one table.
    """
    first = {name.lower(): name for name, _ in _parquet_schema(files[0]).columns}
    lacking: dict[str, list[str]] = {}
    extra: dict[str, list[str]] = {}
    for file in files[1:]:
        names = {name.lower(): name for name, _ in _parquet_schema(file).columns}
        if not names.keys() & first.keys():
            raise DeclarationError(
                f"{folder!r} holds files of several tables: {Path(file).name} has no column of {Path(files[0]).name}; "
                f"name one file, or a folder of files that are one table"
            )
        for name in first.keys() - names.keys():
            lacking.setdefault(first[name], []).append(Path(file).name)
        for name in names.keys() - first.keys():
            extra.setdefault(names[name], []).append(Path(file).name)
    remarks = [f"{name}: no column of {', '.join(sorted(which)[:5])}" for name, which in sorted(lacking.items())]
    remarks += [
        f"{name}: a column of {', '.join(sorted(which)[:5])}, not of the first file"
        for name, which in sorted(extra.items())
    ]
    return remarks


def _find(source: str, pattern: str) -> list[str]:
    """Return the files that a source names, here by the pattern."""
    if source.startswith(FAR):
        from sordino.core.remote_files import find_remote

        return find_remote(source)
    return [source] if Path(source).is_file() else sorted(glob.glob(pattern, recursive=True))


def _arrow_columns(source: str) -> Columns:
    import pyarrow as pa

    schema: pa.Schema | None = None
    try:
        with pa.OSFile(source) as file:
            try:
                schema = pa.ipc.open_file(file).schema
            except pa.ArrowInvalid:
                file.seek(0)
                schema = pa.ipc.open_stream(file).schema
    except (pa.ArrowException, OSError, ValueError):
        schema = None
    if schema is None:
        raise SourceError(f"source {source!r} cannot be opened as an Arrow file: check its path, format and rights")
    return [(field.name, _physical_type(field.type)) for field in schema]


def _sqlite_columns(source: str, relation: str | None) -> tuple[str, Columns]:
    """Return a table and its columns; what SQLite calls their types binds no cell, so only a person can state them."""
    table: str | None = None
    columns: list[tuple[str, str]] = []
    with contextlib.suppress(sqlite3.Error):
        table, columns = sqlite_columns(source, relation)
    if table is None:
        raise SourceError(f"source {source!r} cannot be opened as a SQLite file: check its path, format and rights")
    return table, [(name, None) for name, _ in columns]


def _physical_type(kind: object) -> str:
    """Return Arrow's word for a type, that of its values for a dictionary."""
    return str(getattr(kind, "value_type", None) or kind) if str(kind).startswith("dictionary") else str(kind)


def _server_columns(source: Source) -> Columns:
    from sordino.ask.engines.readers.postgres_tables import open_connection, read_columns

    with contextlib.closing(open_connection(source)) as connection:
        return [(name, column.kind) for name, column in read_columns(connection, source).items()]


def _spark_columns(source: Source) -> Columns:
    """Return the columns of a table of the active Spark session, or of one made for the purpose."""
    from sordino.ask.engines.readers.spark_tables import open_frame, open_session, read_columns

    frame = open_frame(open_session(source.settings), source)
    return [(name, column.kind) for name, column in read_columns(frame).items()]


def _duckdb_columns(source: str, relation: str | None) -> tuple[str, Columns]:
    """Return the name of a table of a DuckDB file and its columns with their types; no row is read.

    Without `relation` the file's only table. Raises SourceError where the file cannot be opened, DeclarationError where the
    table is not there or not the only one.
    """
    import duckdb

    failed = False
    tables: list[str] = []
    columns: Columns = []
    try:
        with duckdb.connect(source, read_only=True) as connection:
            tables = [
                str(row[0]) for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()
            ]
            table = relation or (tables[0] if len(tables) == 1 else None)
            if table in tables:
                quoted = '"' + str(table).replace('"', '""') + '"'
                rows = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {quoted})").fetchall()
                columns = [(str(name), str(kind)) for name, kind in rows]
    except duckdb.Error:
        failed = True
    if failed:
        raise SourceError(f"source {source!r} cannot be opened as a DuckDB file: check its path, format and rights")
    if relation is not None and relation not in tables:
        raise DeclarationError(f"{source!r} has no table {relation!r}; {nearest(relation, tables)}")
    if not columns:
        raise DeclarationError(f"say which table with --relation; {nearest('', tables)}")
    return relation or tables[0], columns
