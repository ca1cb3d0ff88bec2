"""Files as people have them, read as tables of text: CSV, Excel, SPSS, SAS, Stata, JSON, fixed width, zip, databases.

Every reader yields Arrow batches of trimmed text, an absent cell as None, and what else the file states of itself: the
labels of a codebook, and what was done to its names. It is for the curator, who may see the file: NOT PRIVATE.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import datetime
import glob
import importlib
import lzma
import math
import shutil
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.instances import SpillDirectory
from sordino.ask.engines.readers.csv_import import (
    CsvDialect,
    check_quotes,
    default_delimiter,
    describe_bad_byte,
    read_csv_batches,
)
from sordino.ask.engines.sql_text import quote_name
from sordino.core.errors import DeclarationError, SourceError, arg, nearest
from sordino.core.source import name_columns

if TYPE_CHECKING:
    import pyarrow as pa

# Rows of a batch that is made of Python's values.
_BATCH = 20_000
_SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_STATISTICS = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")
_JSON = (".json", ".jsonl", ".ndjson")
_TEXT = (".csv", ".tsv", ".txt", ".data")
_SQLITE = (".db", ".sqlite", ".sqlite3")
# One file that was packed by itself, and the module that unpacks it.
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}
READ = (*_TEXT, *_SHEETS, *_STATISTICS, *_JSON, *_SQLITE, ".zip", *_PACKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a file is laid out, as the curator states it.

    `header` is whether rows at the top hold names, of which there are `header_rows`; `skip_first` and `skip_last` are rows
    above them, and at the end, that are none of the table. `names` replaces what the header says.
    """

    header: bool | None = None
    header_rows: int = 1
    names: tuple[str, ...] = ()
    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    widths: tuple[int, ...] = ()
    skip_first: int = 0
    skip_last: int = 0
    sheet: str | None = None
    relation: str | None = None
    member: str | None = None
    file_column: str | None = None

    def __post_init__(self) -> None:
        if self.header_rows < 1 or self.skip_first < 0 or self.skip_last < 0:
            raise DeclarationError("header rows are 1 or more, and rows to skip 0 or more")
        if any(width < 1 for width in self.widths):
            raise DeclarationError("the widths of columns are whole numbers of characters above 0, such as 5,3,8")
        if len({name.lower() for name in self.names}) < len(self.names):
            raise DeclarationError("names must differ in more than case")

    def check_kind(self, kind: str, taken: Collection[str]) -> None:
        """Raise DeclarationError where something is stated that a kind of file does not take."""
        plain = Layout()
        for field_name in self.__dataclass_fields__:
            if field_name not in taken and getattr(self, field_name) != getattr(plain, field_name):
                flag = arg(f"{field_name}=")
                raise DeclarationError(f"{flag} means nothing for {kind}: leave it out")


@dataclass(slots=True)
class TextTable:
    """A table of text: its names, its rows as batches that are read once, and what its file states of itself.

    `labels` maps a column to the labels of its codes, as a codebook in the file has them. `notes` says in words what was
    done to names; none of it is a cell.
    """

    names: list[str]
    batches: Iterator[pa.RecordBatch]
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def open_text_table(source: str, layout: Layout) -> Iterator[TextTable]:
    """Open a file, a pattern, a folder of CSV files or a database's table as a table of text.

    Raises SourceError where it cannot be read, DeclarationError where the layout is incomplete or does not fit it.
    """
    if source.startswith(("postgresql://", "postgres://")):
        layout.check_kind("a table of PostgreSQL", ("relation",))
        with _open_postgres(source, layout) as table:
            yield table
        return
    files = _find_files(source)
    if files is None:
        if layout.file_column is not None:
            raise DeclarationError(f"{arg('file_column=')} is for many files: leave it out")
        with _open_file(Path(source), layout) as table:
            yield table
        return
    with _open_files(files, layout) as table:
        yield table


def _find_files(source: str) -> list[Path] | None:
    """Return the files of a pattern or a folder; None for one file. The pattern is expanded here, not by a shell."""
    if Path(source).is_file():
        return None
    if Path(source).is_dir():
        files = sorted(path for path in Path(source).iterdir() if path.suffix.lower() in (*_TEXT, *_SHEETS))
        if not files:
            raise SourceError(
                f"the folder {source!r} holds no CSV and no Excel files; a folder of Parquet needs no import"
            )
        return files
    files = sorted(Path(path) for path in glob.glob(source, recursive=True))
    if not files:
        raise SourceError(f"source {source!r} is missing: there is no such file")
    return files


@contextlib.contextmanager
def _open_file(path: Path, layout: Layout) -> Iterator[TextTable]:
    ending = path.suffix.lower()
    kind, taken = _kind_of(ending, layout)
    layout.check_kind(kind, ("file_column", "member", *taken))
    if layout.member is not None and ending != ".zip":
        raise DeclarationError(f"{arg('member=')} is for a .zip: leave it out")
    if layout.widths:
        yield _read_fixed_width(path, layout)
    elif ending in _TEXT:
        yield _read_csv(path, layout)
    elif ending in _SHEETS:
        yield _read_sheet(path, layout)
    elif ending in _STATISTICS:
        yield _read_statistics(path, layout)
    elif ending in _JSON:
        with _open_json(path, layout) as table:
            yield table
    elif ending in _SQLITE:
        with _open_sqlite(path, layout) as table:
            yield table
    elif ending == ".zip":
        with _open_zip(path, layout) as table:
            yield table
    elif ending in _PACKED:
        with _open_packed(path, layout) as table:
            yield table
    elif ending in (".parquet", ".pq", ".arrow", ".feather", ".duckdb"):
        raise DeclarationError(f"{path} has typed columns already: sordino init {path} reads it as it is")
    else:
        raise DeclarationError(
            f"{path} is of no kind that is read here ({', '.join(READ)}); if it is text, give it the ending .csv or .txt"
        )


_ROWS = ("header", "header_rows", "names", "skip_first", "skip_last")


def _kind_of(ending: str, layout: Layout) -> tuple[str, Sequence[str]]:
    """Return a kind of file in words, and what of a layout it takes."""
    if ending == ".zip" or ending in _PACKED:
        # what is stated goes to the file in it, which checks it
        return "a packed file", tuple(layout.__dataclass_fields__)
    if layout.widths:
        return "columns of fixed width", (*_ROWS, "widths", "encoding")
    if ending in _SHEETS:
        return "a workbook", (*_ROWS, "sheet")
    if ending in _STATISTICS:
        return "a file of SPSS, SAS or Stata", ("names", "encoding", "skip_last")
    if ending in _JSON:
        return "JSON", ("skip_last",)
    if ending in _SQLITE:
        return "a table of SQLite", ("relation", "skip_last")
    return "CSV", (*_ROWS, "delimiter", "quote", "encoding")


# ---- Names


def _header(rows: Sequence[Sequence[str]], width: int, layout: Layout) -> tuple[list[str], list[str]]:
    """Return the names of columns and what was done to them."""
    if layout.names:
        if len(layout.names) != width:
            raise DeclarationError(
                f"there are {width} columns, and {len(layout.names)} names: state one for each column"
            )
        return list(layout.names), []
    if not rows:
        return [f"c{place}" for place in range(1, width + 1)], []
    named, remarks = name_columns(rows, width)
    return list(named), remarks


def _require_header(layout: Layout) -> bool:
    if layout.header is None and not layout.names:
        raise DeclarationError("state --header if the first row holds column names, or --no-header if it does not")
    return bool(layout.header)


# ---- Rows


def _batches(names: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches of trimmed text."""
    import pyarrow as pa

    schema = pa.schema([(name, pa.string()) for name in names])

    def batch(cells: list[Sequence[str | None]]) -> pa.RecordBatch:
        columns = [
            pa.array([None if cell is None else cell.strip() for cell in column], pa.string())
            for column in zip(*cells, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    block: list[Sequence[str | None]] = []
    for row in rows:
        block.append(row)
        if len(block) == _BATCH:
            yield batch(block)
            block = []
    if block:
        yield batch(block)


def _without_last(batches: Iterator[pa.RecordBatch], last: int) -> Iterator[pa.RecordBatch]:
    """Yield batches without the last rows of them all."""
    import pyarrow as pa

    if not last:
        yield from batches
        return
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        # whatever more than `last` rows follow is none of the last
        while rows - held[0].num_rows >= last:
            rows -= held[0].num_rows
            yield held.pop(0)
    if held:
        rest = pa.Table.from_batches(held)
        yield from rest.slice(0, max(rest.num_rows - last, 0)).to_batches()


# ---- CSV and fixed width


def _encoding(layout: Layout) -> str:
    stated = (layout.encoding or "utf-8").lower()
    return "utf-8" if stated == "utf8" else stated


def _open_lines(path: Path, layout: Layout) -> Any:
    encoding = "utf-8-sig" if _encoding(layout) == "utf-8" else _encoding(layout)
    try:
        return path.open(encoding=encoding, newline="")
    except LookupError:
        raise DeclarationError(
            f"{arg('encoding=')}{_encoding(layout)!r} is not known; try utf-8, latin-1 or cp1252"
        ) from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from None


def _check_mark(path: Path, encoding: str) -> None:
    """Raise DeclarationError where a file begins with the mark of UTF-8, and another encoding is stated."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        if file.read(3) == codecs.BOM_UTF8 and not encoding.startswith("utf-8"):
            raise DeclarationError(f"{path} begins with the mark of UTF-8: leave out {arg('encoding=')}{encoding!r}")


def _read_csv(path: Path, layout: Layout) -> TextTable:
    """Return the rows of a CSV file; a first line `sep=;`, as Excel writes it, states the delimiter."""
    header = _require_header(layout)
    _check_mark(path, _encoding(layout))
    try:
        with _open_lines(path, layout) as file:
            first = file.readline()
            marked = first.lower().startswith("sep=")
            between = layout.delimiter or (first.rstrip("\r\n")[4:5] if marked else default_delimiter(str(path)))
            quote = '"' if layout.quote is None else layout.quote
            dialect = CsvDialect(header, between, quote, _encoding(layout))
            skipped = layout.skip_first + marked
            if not marked:
                file.seek(0)
            for _ in range(layout.skip_first):
                file.readline()
            quoting: Any = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
            reader = csv.reader(file, delimiter=between, quotechar=quote or None, quoting=quoting, strict=True)
            rows = [row for _, row in zip(range(layout.header_rows if header else 0), reader, strict=False)]
            sample = rows[-1] if rows else next(reader, [])
    except UnicodeError:
        raise SourceError(describe_bad_byte(path, _encoding(layout))) from None
    except csv.Error:
        raise SourceError(f"row 1 of {path} cannot be read: check {arg('quote=')} and {arg('delimiter=')}") from None
    if not sample:
        raise SourceError(f"{path} has no first row")
    if layout.delimiter is None and not marked and between not in first and len(sample) == 1:
        other = next((mark for mark in ";\t|," if mark in first), None)
        if other is not None:
            raise DeclarationError(
                f"the first line of {path} has no {between!r}: say --delimiter {other!r}, or --delimiter {between!r} "
                f"if there is one column"
            )
    names, notes = _header(rows, len(sample), layout)
    if layout.delimiter is not None and len(sample) == 1:
        notes += [
            f"no {between!r} in the first line, so there is one column; {mark!r} is there"
            for mark in ";\t|,"
            if mark in first
        ]
    check_quotes(path, quote)
    batches = read_csv_batches(path, names, dialect, skip_rows=skipped, header_rows=len(rows))
    return TextTable(names, _without_last(batches, layout.skip_last), notes=notes)


def _read_fixed_width(path: Path, layout: Layout) -> TextTable:
    """Return the rows of a file whose columns have stated widths; what is beyond them is no cell."""
    header = _require_header(layout)
    ends = [sum(layout.widths[: place + 1]) for place in range(len(layout.widths))]
    bounds = list(zip([0, *ends], ends, strict=False))

    def cells(line: str) -> list[str | None]:
        return [line[start:end] for start, end in bounds]

    def rows() -> Iterator[list[str | None]]:
        try:
            with _open_lines(path, layout) as file:
                for number, line in enumerate(file):
                    text = line.rstrip("\r\n")
                    if number >= skipped and text.strip():
                        yield cells(text)
        except UnicodeError:
            raise SourceError(describe_bad_byte(path, _encoding(layout))) from None

    skipped = layout.skip_first
    top = [[cell or "" for cell in row] for _, row in zip(range(layout.header_rows * header), rows(), strict=False)]
    names, notes = _header(top, len(layout.widths), layout)
    skipped += layout.header_rows * header
    return TextTable(names, _without_last(_batches(names, rows()), layout.skip_last), notes=notes)


# ---- Excel and OpenDocument


def _read_sheet(path: Path, layout: Layout) -> TextTable:
    """Return the rows of a sheet; its first row holds names unless the layout says otherwise, as in every template."""
    try:
        import python_calamine
    except ImportError:
        raise SourceError("an Excel or OpenDocument file needs python-calamine: pip install 'sordino[excel]'") from None
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        sheets = list(book.sheet_names)
        name = layout.sheet or sheets[0]
        if name not in sheets:
            raise DeclarationError(f"{path} has no sheet {name!r}; {nearest(name, sheets)}")
        cells = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except (python_calamine.CalamineError, OSError, IndexError):
        raise SourceError(
            f"{path} cannot be opened as a workbook: check that it is one, and not locked by a password"
        ) from None
    rows = [[_sheet_text(cell) for cell in row] for row in cells[layout.skip_first :]]
    rows = [row for row in rows if any(row)]
    width = max((len(row) for row in rows), default=0)
    if width == 0:
        raise SourceError(f"the sheet {name!r} of {path} is empty")
    header = 0 if layout.header is False else layout.header_rows
    top = [[cell or "" for cell in row] for row in rows[:header]]
    names, notes = _header(top, width, layout)
    if layout.sheet is None and len(sheets) > 1:
        notes.append(f"the sheet {name!r} is read, the first of {len(sheets)}: --sheet names another")
    below = ([*row, *[None] * (width - len(row))] for row in rows[header:])
    return TextTable(names, _without_last(_batches(names, below), layout.skip_last), notes=notes)


def _sheet_text(cell: object) -> str | None:
    """Return the text of a cell of a workbook: whole numbers without a point, days and moments as ISO 8601 has them."""
    if cell is None or cell == "":
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return None if math.isnan(cell) else str(int(cell)) if cell == int(cell) and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, datetime.datetime):
        at_midnight = (cell.hour, cell.minute, cell.second, cell.microsecond) == (0, 0, 0, 0)
        return cell.date().isoformat() if at_midnight else cell.isoformat(sep=" ", timespec="seconds")
    return str(cell)


# ---- SPSS, SAS, Stata


def _read_statistics(path: Path, layout: Layout) -> TextTable:
    """Return the rows of a file of SPSS, SAS or Stata: labelled codes as their labels, codes of missing answers as missing.

    A column whose values all have labels is one of categories; where only some have one (a code for "refused" beside
    amounts), the numbers stay.
    """
    try:
        import pyreadstat
    except ImportError:
        raise SourceError("a file of SPSS, SAS or Stata needs pyreadstat: pip install 'sordino[stats]'") from None
    readers: Mapping[str, Callable[..., Any]] = {
        ".sav": pyreadstat.read_sav,
        ".zsav": pyreadstat.read_sav,
        ".por": pyreadstat.read_por,
        ".dta": pyreadstat.read_dta,
        ".sas7bdat": pyreadstat.read_sas7bdat,
        ".xpt": pyreadstat.read_xport,
    }
    options = {} if layout.encoding is None else {"encoding": layout.encoding}
    try:
        columns, meta = readers[path.suffix.lower()](str(path), output_format="dict", **options)
    except (pyreadstat.ReadstatError, OSError, UnicodeError):
        raise SourceError(f"{path} cannot be opened: check its path, that it is such a file, and --encoding") from None
    width = len(columns)
    names, notes = _header([list(columns)], width, replace(layout, header_rows=1))
    labels: dict[str, tuple[str, ...]] = {}
    texts: list[list[str | None]] = []
    for name, stored in zip(names, columns, strict=True):
        codes = {_statistic_text(code): label for code, label in meta.variable_value_labels.get(stored, {}).items()}
        cells = [_statistic_text(cell) for cell in columns[stored]]
        if codes and all(cell is None or cell in codes for cell in cells):
            labels[name] = tuple(dict.fromkeys(str(label).strip() for label in codes.values()))
            cells = [None if cell is None else codes[cell] for cell in cells]
        elif codes:
            notes.append(f"{name}: only some of its codes have labels, so its numbers stay")
        texts.append(cells)
    rows = zip(*texts, strict=True)
    return TextTable(names, _without_last(_batches(names, rows), layout.skip_last), labels, notes)


def _statistic_text(cell: Any) -> str | None:
    if isinstance(cell, datetime.timedelta):
        return str(cell.total_seconds())
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return None
    # numpy's numbers are asked as Python's
    return _sheet_text(cell.item() if hasattr(cell, "item") else cell)


# ---- JSON, SQLite, PostgreSQL, zip


@contextlib.contextmanager
def _open_json(path: Path, layout: Layout) -> Iterator[TextTable]:
    """Open a JSON array of objects, or lines of them; an object or a list within a cell is its JSON text."""
    import duckdb

    kind = "newline_delimited" if path.suffix.lower() in (".jsonl", ".ndjson") else "auto"
    rows = (
        "read_json(?, format = ?, records = true, maximum_depth = 1, sample_size = -1, maximum_object_size = 268435456)"
    )
    with duckdb.connect() as connection:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {rows}", [str(path), kind]).fetchall()
            names = [str(line[0]) for line in described]
            texts = ", ".join(f"{quote_name(name)} ->> '$' AS {quote_name(name)}" for name in names)
            few = connection.execute(f"SELECT {texts} FROM {rows} LIMIT 2", [str(path), kind]).fetchall()
            batches = connection.sql(f"SELECT {texts} FROM {rows}", params=[str(path), kind]).to_arrow_reader(_BATCH)
        except duckdb.Error:
            raise SourceError(
                f"{path} is no JSON array of objects, and no lines of them: nothing was written"
            ) from None
        lists = (
            [name for name, cell in zip(names, few[0], strict=True) if str(cell).startswith("[{")]
            if len(few) == 1
            else []
        )
        notes = [
            f"{name}: a list of objects in the one row that there is: if it is the table, write it to a file"
            for name in lists
        ]
        yield TextTable(names, _without_last(_cast_batches(batches), layout.skip_last), notes=notes)


def _cast_batches(batches: Any) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        columns = [pc.utf8_trim_whitespace(pc.cast(column, pa.string())) for column in batch.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@contextlib.contextmanager
def _open_sqlite(path: Path, layout: Layout) -> Iterator[TextTable]:
    import sqlite3

    from sordino.ask.engines.readers.sqlite_file import open_sqlite, sqlite_columns

    try:
        relation, columns = sqlite_columns(str(path), layout.relation)
        names = [name for name, _ in columns]
        with open_sqlite(str(path)) as connection:
            chosen = ", ".join(f"CAST({quote_name(name)} AS TEXT)" for name in names)
            rows = connection.execute(f"SELECT {chosen} FROM {quote_name(relation)}")
            texts = (
                [cell if isinstance(cell, str) or cell is None else cell.decode("latin-1") for cell in row]
                for row in rows
            )
            yield TextTable(names, _without_last(_batches(names, texts), layout.skip_last))
    except sqlite3.Error:
        raise SourceError(f"{path} cannot be opened as a SQLite file: check its path and rights") from None


@contextlib.contextmanager
def _open_postgres(source: str, layout: Layout) -> Iterator[TextTable]:
    from sordino.ask.engines.readers.postgres_tables import open_connection, read_columns
    from sordino.core.source import source_from

    if layout.relation is None:
        raise DeclarationError("say which table of the server with --relation, such as public.people")
    table = source_from(source, relation=layout.relation)
    with contextlib.closing(open_connection(table)) as connection:
        names = list(read_columns(connection, table))
        chosen = ", ".join(f"{quote_name(name)}::text" for name in names)
        relation = ".".join(quote_name(part) for part in layout.relation.split("."))
        with connection.cursor("sordino_import") as cursor:
            cursor.itersize = _BATCH
            cursor.execute(f"SELECT {chosen} FROM {relation}".encode())
            yield TextTable(names, _without_last(_batches(names, cursor), layout.skip_last))


@contextlib.contextmanager
def _open_packed(path: Path, layout: Layout) -> Iterator[TextTable]:
    """Open the one file that was packed, such as people.csv.gz."""
    unpack = importlib.import_module(_PACKED[path.suffix.lower()])
    whole = False
    with SpillDirectory() as folder:
        target = Path(folder) / path.stem
        try:
            with unpack.open(path) as packed, target.open("wb") as plain:
                shutil.copyfileobj(packed, plain, 1 << 20)
            whole = True
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
            whole = False
        if not whole:
            raise SourceError(f"{path} cannot be unpacked: check that it is whole and what its ending says")
        with _open_file(target, layout) as table:
            yield table


@contextlib.contextmanager
def _open_zip(path: Path, layout: Layout) -> Iterator[TextTable]:
    """Open the one file of an archive that can be read, or the one that the layout names."""
    try:
        with zipfile.ZipFile(path) as archive, SpillDirectory() as folder:
            members = [
                name for name in archive.namelist() if Path(name).suffix.lower() in READ and not name.startswith("__")
            ]
            if layout.member is not None and layout.member not in members:
                raise DeclarationError(f"{path} holds no file {layout.member!r}; {nearest(layout.member, members)}")
            if layout.member is None and len(members) != 1:
                raise DeclarationError(f"say which file of {path} with --member; {nearest('', members)}")
            member = layout.member or members[0]
            # an archive may name a place outside of the folder; only the last part of the name is kept
            target = Path(folder) / Path(member).name
            with archive.open(member) as packed, target.open("wb") as plain:
                while chunk := packed.read(1 << 20):
                    plain.write(chunk)
            with _open_file(target, replace(layout, member=None)) as table:
                yield table
    except zipfile.BadZipFile:
        raise SourceError(f"{path} is no whole zip file") from None


# ---- Many files


@contextlib.contextmanager
def _open_files(files: Sequence[Path], layout: Layout) -> Iterator[TextTable]:
    """Open several files as one table: columns meet by name, and a file without one leaves its cells empty."""
    names: list[str] = []
    notes: list[str] = []
    lacking: dict[str, list[str]] = {}
    heads: list[list[str]] = []
    for path in files:
        with _open_file(path, layout) as table:
            heads.append(table.names)
            notes += [note for note in table.notes if note not in notes]
            names += [name for name in table.names if name not in names]
    for path, head in zip(files, heads, strict=True):
        for name in names:
            if name not in head:
                lacking.setdefault(name, []).append(path.name)
    notes += [f"{name}: no column of {', '.join(missing[:5])}" for name, missing in lacking.items()]
    if layout.file_column is not None and layout.file_column in names:
        raise DeclarationError(f"there is a column {layout.file_column!r} already: name that of the files otherwise")
    extra = [] if layout.file_column is None else [layout.file_column]

    def batches() -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for path in files:
            with _open_file(path, layout) as table:
                for batch in table.batches:
                    cells = {name: batch.column(place) for place, name in enumerate(table.names)}
                    empty = pa.nulls(batch.num_rows, pa.string())
                    columns = [cells.get(name, empty) for name in names]
                    columns += [pa.array([path.name] * batch.num_rows, pa.string()) for _ in extra]
                    yield pa.RecordBatch.from_arrays(columns, names=[*names, *extra])

    yield TextTable([*names, *extra], batches(), notes=notes)
