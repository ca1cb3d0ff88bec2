"""The declared source of a table: its place, its format, and how its cells are written. Nothing is sniffed from the data."""

from __future__ import annotations

import codecs
import contextlib
import functools
import io
import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import IO, Any, cast

from sordino.core.cell_formats import CellFormat, CsvCells
from sordino.core.domain import Domain, Real
from sordino.core.errors import DeclarationError, SourceError, nearest
from sordino.core.neighbors import Neighbors

PACKINGS = {".gz": "gzip", ".zst": "zstd"}
PACKED = frozenset([".bz2", ".xz", ".zip", ".lz4"])
# the schemes of files on another machine
FAR = ("s3://", "s3a://", "http://", "https://")
_UNREAD = ("gs://", "gcs://", "r2://", "az://", "abfss://", "hf://", "hdfs://", "ftp://")
_URL = re.compile(r"postgres(ql)?://([^:/?#@\s]*@)?[^/?#@\s]*(/[^/?#@\s]*)?(\?[^#@\s]*)?")
_SECRETS = re.compile(r"[?&](password|sslpassword)=", re.IGNORECASE)
_BLANKS = " \t\r\n"
# control characters that may be in a line: some are delimiters
_TEXT = "\t\r\n\x01\x1c\x1d\x1e\x1f"
# characters of a header line
_LONGEST = 1_000_000
# bytes; a longer line is lost
LONGEST_LINE = 2**24
# encodings whose lines are told apart by bytes, as Python names them
_BY_LINES = re.compile(
    "utf-8(-sig)?|ascii|iso8859-[0-9]+|cp[0-9]{3,4}|koi8-[rtu]|mac-[a-z]+|tis-620|gbk|gb2312|gb18030|big5(hkscs)?|"
    "shift_jis[a-z_0-9]*|euc_[a-z_0-9]+|johab"
)
# what a CSV file's declaration states in addition to its header, names, delimiter, quote and marks of missing cells
_LATER: dict[str, Any] = {
    **{"encoding": "utf-8", "header_rows": 1, "skip_first": 0, "totals": ()},
    **{"decimal": "", "thousands": "", "date": (), "true": (), "false": ()},
}


@dataclass(frozen=True, slots=True)
class Format:
    """A format of tables: how its sources are recognized, and which engine reads them.

    `title` is its name in errors. A file is recognized by one of its `endings`, an address by one of its `prefixes`. If
    `of_lines`, each line is a row or none, and the file may be compressed; if `of_several`, a source holds several tables, and
    `relation` names one. `engine` is DuckDB where empty; `engines` may read it instead, where the declaration says so.
    `is_remote` says that files behind S3 and HTTP are read. `check` raises DeclarationError for an invalid address. `provider`
    names the code that reads it, where that is not Sordino's own.
    """

    name: str
    title: str
    endings: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    of_lines: bool = False
    of_several: bool = False
    engine: str = ""
    engines: tuple[str, ...] = ()
    is_remote: bool = False
    check: Callable[[str], None] | None = None
    provider: str = ""


def _check_url(url: str) -> None:
    """Raise DeclarationError for a server's URL that holds a password, or has no known form; the message quotes none of it."""
    if not _URL.fullmatch(url) or _SECRETS.search(url):
        raise DeclarationError(
            "a PostgreSQL source is postgresql://USER@HOST:PORT/DATABASE, or postgresql:///?service=NAME, without a "
            "password: that stands in PGPASSWORD, in ~/.pgpass or in a service file, and nowhere in a declaration"
        )


# The formats by name. Those from outside join with what reads them: by `register_format` (ask/engines/frames.py), or by
# `register_engine` (ask/engines/opening.py).
FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("csv", "CSV", (".csv", ".data", ".txt", ".tsv"), of_lines=True, is_remote=True),
        Format("jsonl", "JSON lines", (".jsonl", ".ndjson"), of_lines=True, is_remote=True),
        Format("parquet", "Parquet", (".parquet", ".pq"), engines=("spark",), is_remote=True),
        Format("arrow", "an Arrow file", (".arrow", ".feather", ".ipc")),
        Format("duckdb", "a DuckDB file", (".duckdb", ".db", ".ddb"), of_several=True),
        Format("sqlite", "a SQLite file", (".sqlite", ".sqlite3"), of_several=True),
        Format(
            "postgresql",
            "a PostgreSQL source",
            prefixes=("postgresql://", "postgres://"),
            of_several=True,
            engine="postgresql",
            check=_check_url,
        ),
        Format("spark", "a table of a Spark session", prefixes=("spark:",), engine="spark"),
        Format("delta", "a Delta table", engine="spark"),
        Format("iceberg", "an Iceberg table", engine="spark"),
    )
}


def add_formats(*formats: Format) -> None:
    """Add formats from outside; raises DeclarationError, and adds none, where a name, an ending or a prefix is in use."""
    in_use = {word for each in FORMATS.values() for word in (each.name, *each.endings, *each.prefixes)}
    for new in formats:
        for word in (new.name, *new.endings, *new.prefixes):
            overlaps = word in new.prefixes and (address_format(word) is not None or word.startswith(FAR))
            if word in in_use or overlaps:
                raise DeclarationError(f"{word!r} is a format's already: choose another")
    FORMATS.update({new.name: new for new in formats})


def address_format(source: str | Path) -> Format | None:
    """Return the format of an address such as postgresql://... or spark:...; None for a file.

    >>> address_format("spark:shop.orders").name, address_format("people.csv")
    ('spark', None)
    """
    return next((each for each in FORMATS.values() if each.prefixes and str(source).startswith(each.prefixes)), None)


def ending_format(ending: str) -> Format | None:
    """Return the format of files with this ending; None where there is none."""
    return next((each for each in FORMATS.values() if ending in each.endings), None)


@dataclass(frozen=True, slots=True)
class Csv:
    """The format of a CSV file: cells between delimiters, trimmed; one line is one row, or none.

    `header` says whether the first line holds names; without one, `names` must list every column in order. Without a
    `delimiter` it is a tab in a file that ends in .tsv, else a comma. A cell that is empty or equals one of `null_values`
    is missing. `quote` is '"' or "'" where cells may be quoted (RFC 4180, except line ends in cells: such files are
    imported to Parquet first); then a line that breaks the rules, or has another number of cells, is no row.

    `encoding` is that of the file; `skip_first` lines above the header are none of the table, such as a title, and
    `header_rows` lines hold names. A line whose first cell is one of `totals` is no row, wherever it stands. `decimal`,
    `thousands`, `date`, `true` and `false` say how cells are written of all columns whose declared type they concern, and
    `columns` of one: `{"cost": {"type": "amount", "decimal": ","}}`.

    >>> Csv(header=True, quote='"').cells('1,"Doe, Jane"')
    ['1', 'Doe, Jane']
    """

    header: bool
    names: tuple[str, ...] | None = None
    delimiter: str = ""
    null_values: tuple[str, ...] = ()
    quote: str = ""
    encoding: str = "utf-8"
    header_rows: int = 1
    skip_first: int = 0
    totals: tuple[str, ...] = ()
    decimal: str = ""
    thousands: str = ""
    date: tuple[str, ...] = ()
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.header and not self.names:
            raise DeclarationError("must list every column in order, because header is false", key="csv.names")
        if self.names is not None and len({n.lower() for n in self.names}) != len(self.names):
            raise DeclarationError("must not repeat", key="csv.names")
        if not isinstance(self.delimiter, str) or len(self.delimiter) > 1 or self.delimiter in ("\r", "\n", '"', "'"):
            raise DeclarationError("must be one character, not a quote or a line end", key="csv.delimiter")
        if self.quote not in ("", '"', "'"):
            raise DeclarationError("must be one of \" and ', or nothing where cells are unquoted", key="csv.quote")
        object.__setattr__(self, "encoding", _line_encoding(self.encoding))
        if self.header_rows < 1 or (self.header_rows > 1 and not self.header):
            raise DeclarationError("must be 1 or more, where header is true", key="csv.header_rows")
        if self.skip_first < 0:
            raise DeclarationError("must be 0 or more lines", key="csv.skip_first")
        # Lines are skipped by their place. Only a header below them shows that none of them is a row.
        if self.skip_first and not self.header:
            raise DeclarationError(
                "is for lines above a header: without one, rows would be left out by their place; import the file instead",
                key="csv.skip_first",
            )
        object.__setattr__(self, "totals", _read_totals(self.totals, self.between))
        everywhere = _check_cells("csv", lambda: self.all_cells)
        for name in ("date", "true", "false"):
            object.__setattr__(self, name, getattr(everywhere, name))
        columns = {name: _read_cells(name, stated) for name, stated in self.columns.items()}
        object.__setattr__(self, "columns", columns)
        for name, cells in columns.items():
            # a mark of thousands may be the decimal mark of all columns
            _check_cells(f"csv.columns.{name}", functools.partial(cells.over, everywhere))

    @property
    def all_cells(self) -> CsvCells:
        """How cells are written of all columns, apart from `null_values`."""
        return CsvCells(
            decimal=self.decimal, thousands=self.thousands, date=self.date, true=self.true, false=self.false
        )

    def formats(self, declared: Mapping[str, object]) -> dict[str, tuple[CellFormat, ...]]:
        """Return the formats of the declared columns that are written in others than everywhere.

        Raises DeclarationError where a column of `columns` is not declared, or says what concerns another type.
        """
        for name, stated in self.columns.items():
            if name not in declared:
                raise DeclarationError(f"is no declared column; {nearest(name, declared)}", key=f"csv.columns.{name}")
            try:
                stated.check_column(declared[name])
            except DeclarationError as error:
                raise DeclarationError(error.rule, key=f"csv.columns.{name}.{error.key}") from None
        everywhere = self.all_cells
        formats = {
            name: tuple(self.columns.get(name, CsvCells()).over(everywhere).formats(column))
            for name, column in declared.items()
        }
        return {name: forms for name, forms in formats.items() if forms}

    def missing_cells(self, name: str) -> list[str]:
        """Return the texts that mean missing in a column, in order; empty ones always do."""
        stated = self.columns.get(name, CsvCells()).null_values
        return sorted({"", *(text.strip(_BLANKS) for text in (*self.null_values, *stated))})

    @property
    def lines_aside(self) -> int:
        """How many lines above the rows are none of the table."""
        return self.skip_first + self.header_rows * self.header

    @property
    def is_plain(self) -> bool:
        """Whether the file is UTF-8 and has one header line, if any, above the lines of the table, and nothing else."""
        return (self.encoding, self.header_rows, self.skip_first) == ("utf-8", 1, 0)

    @property
    def between(self) -> str:
        """The delimiter, a comma where none is declared."""
        return self.delimiter or ","

    def grammar(self) -> str:
        """Return the regular expression of a whole line under quoting, in syntax that Python and RE2 share.

        A quoted cell has a quote at both ends, blanks around them aside, and doubled quotes inside; no other cell has one.
        """
        sign = _escape(self.between)
        mark = self.quote
        blanks = "[" + "".join(b for b in " \t" if b != self.between) + "]*"
        cell = f"(?:[^{sign}{mark}]*|{blanks}{mark}[^{mark}]*(?:{mark}{mark}[^{mark}]*)*{mark}{blanks})"
        return f"{cell}(?:{sign}{cell})*"

    def cells(self, line: str) -> list[str] | None:
        """Return the trimmed cells of one line, None where it breaks the rules of quoting."""
        text = line.rstrip("\r\n")
        if not self.quote or self.quote not in text:
            return [cell.strip(_BLANKS) for cell in text.split(self.between)]
        if not re.fullmatch(self.grammar(), text):
            return None
        cells = [""]
        inside_quotes = False
        for part in re.split(f"({_escape(self.between)}|{self.quote})", text):
            if part == self.between and not inside_quotes:
                cells.append("")
                continue
            if part == self.quote:
                inside_quotes = not inside_quotes
            cells[-1] += part
        return [_unquote(cell.strip(_BLANKS), self.quote).strip(_BLANKS) for cell in cells]

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        names = None if self.names is None else list(self.names)
        nulls = sorted(set(self.null_values))
        # ledgers from before these were declared have no such keys
        later: dict[str, Any] = {"quote": self.quote} if self.quote else {}
        for name, plain in _LATER.items():
            value = getattr(self, name)
            if value != plain:
                later[name] = list(value) if isinstance(value, tuple) else value
        if self.columns:
            later["columns"] = {name: cells.to_dict() for name, cells in sorted(self.columns.items())}
        return {"header": self.header, "names": names, "delimiter": self.between, "null_values": nulls, **later}


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a table: a CSV, JSON lines or Arrow file, Parquet files, or a relation of a DuckDB, SQLite file or server.

    `path` is absolute, or relative to the working directory, or the address of files in S3 or of one behind HTTP; that of a
    PostgreSQL server is a URL without a password, and `relation` a table, a view or a query. Parquet files are named by a
    path, a glob, or a folder that ends in "/": its sub-folders may be named key=value, whose keys are columns of text. CSV and
    JSON lines may be compressed, .csv.gz or .csv.zst. `engine` is the one that reads it, empty for DuckDB; `settings` are those
    of a Spark session to be made. The constructor checks the text, not the disk.
    """

    path: str
    format: str
    relation: str | None = None
    csv: Csv | None = None
    engine: str = ""
    settings: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise DeclarationError(
                f"must be one of {', '.join(FORMATS)}, not {self.format!r}; {nearest(self.format, FORMATS)}",
                key="format",
            )
        its_format = FORMATS[self.format]
        object.__setattr__(self, "engine", self.engine or its_format.engine)
        if self.engine not in (its_format.engine, *its_format.engines):
            raise DeclarationError(
                'engine = "spark" reads Parquet, Delta and Iceberg, or source = "spark:catalog.table"; without it '
                "DuckDB reads a file and PostgreSQL its own tables",
                key="engine",
            )
        if its_format.check is not None:
            its_format.check(self.path)
        if self.is_remote:
            self._check_remote()
        if its_format.of_several != (self.relation is not None):
            what = its_format.title if its_format.of_several else "a DuckDB file"
            raise DeclarationError(
                f'{what} needs relation = "its table", and no file but a DuckDB or SQLite file takes one'
            )
        if (self.format == "csv") != (self.csv is not None):
            raise DeclarationError("a CSV file needs csv rules (header, names), and only a CSV file takes them")
        ending, packing = split_ending(self.path)
        if ending in PACKED or (packing and not its_format.of_lines):
            raise DeclarationError(
                f"source {self.path!r} is compressed: unpack it first (CSV and JSON lines are read from .gz and .zst)"
            )
        if self.csv is not None and not self.csv.delimiter and ending == ".tsv":
            object.__setattr__(self, "csv", replace(self.csv, delimiter="\t"))

    @property
    def lossy(self) -> bool:
        """Whether a row may be unreadable: in formats where a line is a row, or none."""
        return FORMATS[self.format].of_lines

    @property
    def is_remote(self) -> bool:
        """Whether its files are on another machine, in S3 or behind HTTP, and are read from here."""
        return self.path.startswith(FAR) and not self.engine

    @property
    def place(self) -> str:
        """Its address or its absolute path, without a slash at the end."""
        return self.path.rstrip("/") if self.is_remote else str(Path(self.path).absolute())

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of Parquet files, in sub-folders named key=value."""
        return self.format == "parquet" and not self.engine and self.path.endswith(("/", "\\"))

    def _check_remote(self) -> None:
        from sordino.core.remote_files import check_address

        check_address(self.path)
        if not FORMATS[self.format].is_remote:
            raise DeclarationError(
                f"{self.format} is read on this machine only: copy it here, or store the table as Parquet"
            )
        if self.csv is not None and not self.csv.is_plain:
            raise DeclarationError(
                "csv.encoding, header_rows and skip_first are for files on this machine: copy it here, or import it"
            )


@dataclass(frozen=True, slots=True)
class PublicTable:
    """A table that holds nothing private, to be joined by `key`; at most `max_rows` of its rows share one key.

    `key` is a column, or several columns that are compared together. `source` is a Source on disk, or a frame in memory.
    To declare it is to state that it is public: nothing hides it.
    """

    source: Any = field(compare=False)
    key: str | tuple[str, ...]
    columns: Domain
    max_rows: int

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return (self.key,) if isinstance(self.key, str) else self.key

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Domain):
            raise DeclarationError('columns must be a Domain, such as sd.Domain({"state": sd.Identifier()})')
        if self.columns.lists:
            raise DeclarationError(
                f"column {next(iter(self.columns.lists))!r}: a public table holds no lists, so leave it out"
            )
        if not isinstance(self.key, str):
            object.__setattr__(self, "key", _key_columns(self.key))
        for name in self.keys:
            if name not in self.columns:
                raise DeclarationError(
                    f"must be a declared column of the public table, not {name!r}; {nearest(name, self.columns)}",
                    key="key",
                )
            if isinstance(self.columns[name], Real):
                raise DeclarationError(
                    f"{name!r} is declared as real: reals cannot be compared for equality", key="key"
                )
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 10**6:
            raise DeclarationError("must be from 1 to 10^6: the most of its rows that share a key", key="max_rows")
        for name in self.columns:
            if "." in name:
                raise DeclarationError(
                    f"column {name!r} of a public table must not hold a dot: it is named table.column"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        key = self.key if isinstance(self.key, str) else list(self.key)
        return {"key": key, "max_rows": self.max_rows, **self.columns.to_dict()}


@dataclass(frozen=True, slots=True)
class PrivateTable:
    """The public facts of another private table: its columns, neighbors, declaration, and whether it shares the budget.

    `apart` says why no engine reads both tables; it is empty where one does.
    """

    domain: Domain
    neighbors: Neighbors
    declaration: Mapping[str, Any] = field(hash=False)
    shares_budget: bool = True
    apart: str = ""


def _key_columns(names: object) -> str | tuple[str, ...]:
    """Return the columns of a key, or the one column itself; raises DeclarationError unless they are distinct names."""
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(n, str) for n in names):
        raise DeclarationError('must be a column, or several such as ("state", "year")', key="key")
    if len(set(names)) != len(names):
        raise DeclarationError("names a column twice", key="key")
    return str(names[0]) if len(names) == 1 else tuple(names)


def public(
    source: Any,
    *,
    key: str | Sequence[str],
    columns: Domain,
    max_rows: int = 1,
    csv: Csv | None = None,
    relation: str | None = None,
) -> PublicTable:
    """Return a public table for `protect(..., public={name: ...})`: a path as `protect` takes it, or a frame.

    `key` is the column that a private table's column is compared with, or several: `key=["state", "year"]`.
    `max_rows` is how many of its rows may share one value of `key`; it is checked when the table is opened, and a
    question that joins it moves by that many rows for each row of the private table.

    Raises DeclarationError where an argument breaks a rule.

    >>> public("regions.parquet", key="state", columns=Domain({"state": Real(0, 1)}))
    Traceback (most recent call last):
        ...
    sordino.errors.DeclarationError: key 'state' is declared as real: reals cannot be compared for equality
    """
    key = key if isinstance(key, str) else tuple(key)
    if isinstance(source, (str, Path)):
        return PublicTable(source_from(source, relation=relation, csv=csv), key, columns, max_rows)
    if csv is not None or relation is not None:
        raise DeclarationError("csv and relation go with a path")
    return PublicTable(source, key, columns, max_rows)


def missing_source(path: str | Path, *, folder: bool = False) -> SourceError:
    """Return the error of a source that is not there; of many CSV files it names what makes one of them."""
    if split_ending(path)[0] in FORMATS["csv"].endings and any(sign in str(path) for sign in "*?["):
        return SourceError(
            f"source {str(path)!r} is a pattern of CSV files, and one source is one of them: sordino import '{path}' all.parquet "
            "makes one table of all"
        )
    return SourceError(f"source {str(path)!r} is missing: there is no such {'folder' if folder else 'file'}")


def split_ending(path: str | Path) -> tuple[str, str]:
    """Return the ending of a file's name without that of its compression, and the compression's name in Arrow and DuckDB.

    >>> split_ending("people.csv.gz"), split_ending("people.parquet")
    (('.csv', 'gzip'), ('.parquet', ''))
    """
    name = Path(str(path))
    packing = PACKINGS.get(name.suffix.lower(), "")
    return (name.with_suffix("") if packing else name).suffix.lower(), packing


def source_from(path: str | Path, *, relation: str | None = None, csv: Csv | None = None) -> Source:
    """Return the Source at `path`, its format given by the ending of its name (and by `relation`, `csv` where given).

    Raises DeclarationError if the ending is not known.

    >>> source_from("people-*.parquet").format
    'parquet'
    """
    address = address_format(path)
    if address is not None:
        return Source(str(path), address.name, relation, csv)
    if str(path).startswith(_UNREAD):
        raise DeclarationError(
            f"source {str(path).partition('://')[0]}://... lies on another machine: copy it here, or open it with your own "
            "library and protect what it hands on as Arrow, such as pyarrow.dataset.dataset(...) of Parquet"
        )
    ending, _ = split_ending(path)
    file_format = ending_format(ending)
    kind = None if file_format is None else file_format.name
    if relation is not None:
        kind = kind if file_format is not None and file_format.of_several else "duckdb"
    elif csv is not None:
        kind = "csv"
    elif str(path).endswith(("/", "\\")) or (kind in (None, "parquet") and os.path.isdir(path)):
        return Source(f"{str(path).rstrip('/')}/", "parquet")
    if kind == "csv" and csv is None:
        raise DeclarationError(f"source {str(path)!r} is CSV: declare csv = {{header = true}} or its names")
    if kind is None:
        *most, last = (each.endings[0] for each in FORMATS.values() if each.endings)
        raise DeclarationError(
            f"source {str(path)!r} must end in {', '.join(most)} or {last}, or in / where it is a folder "
            "of Parquet files (or name a relation)"
        )
    return Source(str(path), kind, relation, csv)


def header_names(path: str | Path, csv: Csv, *, at: str = "") -> tuple[str, ...]:
    """Return the declared names of a CSV file's columns, or those of its header where that is declared.

    A cell without a name is `column_1`, by its place, and a repeated name `name_2`, as `sordino import` has it. `at` is the path
    of the open file, if it is open. Raises SourceError where the header cannot be read. The message quotes nothing of it, since
    it is a row if `header` is wrong.
    """
    if csv.names is not None:
        return csv.names
    rows = header_cells(path, csv, at=at)
    if len(rows) < csv.header_rows or any(row is None for row in rows) or not any("".join(row or ()) for row in rows):
        rule = "its header line cannot be read"
        raise SourceError(f"source {str(path)!r}: {rule}; check csv.delimiter and csv.quote, or declare csv.names")
    return name_columns([row for row in rows if row is not None])[0]


def header_cells(path: str | Path, csv: Csv, *, at: str = "") -> list[list[str] | None]:
    """Return the cells of a CSV file's header, of each of its lines; None for one that breaks the rules of quoting."""
    lines = _first_lines(path, csv.skip_first + csv.header_rows, encoding=csv.encoding, at=at)
    rows = [csv.cells(line) for line in lines[csv.skip_first :]]
    return [row if csv.quote or row is None else [name.strip('"') for name in row] for row in rows]


def name_columns(rows: Sequence[Sequence[str]], width: int = 0) -> tuple[tuple[str, ...], list[str]]:
    """Return the names in the rows of a header and, in words, what was done to them.

    There are `width` columns, or as many as the widest row has. Of several rows an upper one reaches to its next name, as
    merged cells do. A column without a name is called by its place, and a name that stands again has a number.

    >>> name_columns([["", "a", "A"]])[0]
    ('column_1', 'a', 'A_2')
    >>> name_columns([["age", "", "job"], ["from", "to", ""]])[0]
    ('age from', 'age to', 'job')
    """
    width = width or max((len(row) for row in rows), default=0)
    levels = [[*(cell.strip() for cell in row), *[""] * (width - len(row))][:width] for row in rows]
    for upper in levels[:-1]:
        for place in range(1, width):
            upper[place] = upper[place] or upper[place - 1]
    names = [" ".join(dict.fromkeys(cell for cell in cells if cell)) for cells in zip(*levels, strict=True)]
    notes: list[str] = []
    taken: set[str] = set()
    for place, name in enumerate(names, start=1):
        new = name or f"column_{place}"
        tries = 2
        while new.lower() in taken:
            new = f"{name or f'column_{place}'}_{tries}"
            tries += 1
        if not name:
            notes.append(f"column {place} has no name in the header, so it is {new!r} here")
        elif new != name:
            notes.append(f"column {place} is named {name!r} as one before it is, so it is {new!r} here")
        taken.add(new.lower())
        names[place - 1] = new
    return tuple(names), notes


def header_line(path: str | Path) -> str:
    """Return the first line of a file of lines, empty where there is none; raises SourceError where it is not text."""
    return (_first_lines(path, 1, encoding="utf-8", at="") or [""])[0]


def _first_lines(path: str | Path, count: int, *, encoding: str, at: str) -> list[str]:
    """Return the first lines of a file, fewer where it has no more; raises SourceError where one is not text."""
    lines: list[str] = []
    try:
        with open_unpacked(path, at=at) as file:
            lines = [
                raw.decode(encoding, errors="replace")[:_LONGEST]
                for raw in itertools.islice(read_raw_lines(file), count)
            ]
    except (OSError, EOFError, ValueError):
        # the file cannot be read, or its compression is broken
        lines = []
    if lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    if any(c < " " and c not in _TEXT for line in lines for c in line):
        raise SourceError(f"source {str(path)!r}: its first line is not text; unpack the file, or convert it to UTF-8")
    return lines


def read_raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends, any of \\n, \\r and \\r\\n; one that is too long in parts."""
    rest = b""
    while chunk := file.read(2**20):
        lines = (rest + chunk).splitlines(keepends=True)
        # the last may go on, and the end of one may be divided
        rest = lines.pop()
        yield from lines
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def _check_cells(at: str, cells: Callable[[], CsvCells]) -> CsvCells:
    try:
        return cells()
    except DeclarationError as error:
        raise DeclarationError(error.rule, key=f"{at}.{error.key}") from None


def _read_cells(name: str, stated: CsvCells | Mapping[str, Any]) -> CsvCells:
    if isinstance(stated, CsvCells):
        return stated
    keys = [each.name for each in fields(CsvCells)]
    unknown = next((key for key in stated if key not in keys), None)
    if unknown is not None:
        raise DeclarationError(f"is no key of its cells; {nearest(unknown, keys)}", key=f"csv.columns.{name}.{unknown}")
    return _check_cells(f"csv.columns.{name}", lambda: CsvCells(**stated))


def _read_totals(stated: str | Sequence[str], delimiter: str) -> tuple[str, ...]:
    """Return the first cells of lines that are no rows, sorted; raises DeclarationError for one that no total has."""
    words = (stated,) if isinstance(stated, str) else tuple(stated)
    for word in words:
        if not isinstance(word, str) or not word.strip(_BLANKS) or "\n" in word or "\r" in word or delimiter in word:
            raise DeclarationError(
                'must be what the first cell of a total row holds, such as "Total", not blank and without a delimiter',
                key="csv.totals",
            )
    return tuple(sorted({word.strip(_BLANKS) for word in words}))


def _line_encoding(name: str) -> str:
    """Return an encoding as Python names it; raises DeclarationError unless it writes each line by itself, and ASCII as such.

    In those that are read, a line end is one byte that is part of no other character, so that no line can become two.
    """
    ascii_bytes = bytes(range(128))
    codec = ""
    by_lines = False
    with contextlib.suppress(LookupError, UnicodeError, TypeError, ValueError):
        codec = codecs.lookup(name).name
        by_lines = bool(_BY_LINES.fullmatch(codec)) and ascii_bytes.decode(codec) == ascii_bytes.decode("ascii")
    if not codec:
        raise DeclarationError(f"{name!r} is not known; try utf-8, latin-1 or cp1252", key="csv.encoding")
    if not by_lines:
        raise DeclarationError(
            f"{name!r} does not keep ASCII and lines apart byte by byte: sordino import reads such a file",
            key="csv.encoding",
        )
    # UTF-8 with a mark of byte order is read as UTF-8
    return "utf-8" if codec == "utf-8-sig" else codec


def open_unpacked(path: str | Path, *, at: str = "") -> IO[bytes]:
    """Open a file of lines, decompressed by its ending; `at` is the path of the open file, if it is open."""
    _, packing = split_ending(path)
    file: Any = open_binary(at or str(path))
    if packing:
        import pyarrow as pa

        file = io.BufferedReader(pa.input_stream(file, compression=packing))
    return cast("IO[bytes]", file)


def open_binary(path: str) -> IO[bytes]:
    """Open a file, here or on another machine."""
    if not path.startswith(FAR):
        return open(path, "rb")
    from sordino.core.remote_files import open_remote

    return io.BufferedReader(open_remote(path))


def _escape(sign: str) -> str:
    return f"\\{sign}" if sign.isascii() and not sign.isalnum() and sign != "_" else sign


def _unquote(cell: str, quote: str) -> str:
    return cell[1:-1].replace(quote * 2, quote) if cell.startswith(quote) else cell
