"""Where a table lies and how its cells are written, as declared: nothing here is sniffed from the data."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TextIO, cast

from sordino.core.domain import Domain, Real
from sordino.core.errors import DeclarationError, SourceError, nearest
from sordino.core.neighbors import Neighbors

PACKINGS = {".gz": "gzip", ".zst": "zstd"}
PACKED = frozenset([".bz2", ".xz", ".zip", ".lz4"])
FAR = ("s3://", "s3a://", "http://", "https://")  # before the address of files on another machine
_UNREAD = ("gs://", "gcs://", "r2://", "az://", "abfss://", "hf://", "hdfs://", "ftp://")
_URL = re.compile(r"postgres(ql)?://([^:/?#@\s]*@)?[^/?#@\s]*(/[^/?#@\s]*)?(\?[^#@\s]*)?")
_SECRETS = re.compile(r"[?&](password|sslpassword)=", re.IGNORECASE)
_BLANKS = " \t\r\n"
_TEXT = "\t\r\n\x01\x1c\x1d\x1e\x1f"  # control characters that may stand in a line: some are delimiters
_LONGEST = 1_000_000  # characters of a header line


@dataclass(frozen=True, slots=True)
class Format:
    """A way in which tables are kept: how a source of it is known, and which engine reads it.

    `title` is what errors call one. A file is known by one of its `endings`, an address by one of its `prefixes`. Where
    `of_lines`, each line is a row or none, and the file may be compressed; where `of_several`, it holds several tables, and
    `relation` names one. `engine` is DuckDB where empty; `engines` may read it instead, where the declaration says so.
    `is_remote` where files behind S3 and HTTP are read. `check` raises DeclarationError for an address that is none. `provider`
    says whose code reads it, where that is not Sordino's own.
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
    """Raise DeclarationError for a URL of a server with a password in it, or of no known form; nothing of it is quoted."""
    if not _URL.fullmatch(url) or _SECRETS.search(url):
        raise DeclarationError(
            "a PostgreSQL source is postgresql://USER@HOST:PORT/DATABASE, or postgresql:///?service=NAME, without a "
            "password: that stands in PGPASSWORD, in ~/.pgpass or in a service file, and nowhere in a declaration"
        )


# The formats by name. Those from outside join with what reads them: by `register_format` (ask/engines/loaded_files.py), or by
# `register_engine` (ask/engines/opening.py).
FORMATS: dict[str, Format] = {
    known.name: known
    for known in (
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
    """Add formats from outside; raises DeclarationError where a name, an ending or a prefix is another's, and adds none then."""
    taken = {word for known in FORMATS.values() for word in (known.name, *known.endings, *known.prefixes)}
    for kept in formats:
        for word in (kept.name, *kept.endings, *kept.prefixes):
            overlaps = word in kept.prefixes and (address_format(word) is not None or word.startswith(FAR))
            if word in taken or overlaps:
                raise DeclarationError(f"{word!r} is a format's already: choose another")
    FORMATS.update({kept.name: kept for kept in formats})


def address_format(source: str | Path) -> Format | None:
    """Return the format of an address such as postgresql://... or spark:...; None for a file.

    >>> address_format("spark:shop.orders").name, address_format("people.csv")
    ('spark', None)
    """
    return next(
        (known for known in FORMATS.values() if known.prefixes and str(source).startswith(known.prefixes)), None
    )


def ending_format(ending: str) -> Format | None:
    """Return the format of files whose names end so; None where there is none."""
    return next((known for known in FORMATS.values() if ending in known.endings), None)


@dataclass(frozen=True, slots=True)
class Csv:
    """Declare how a CSV file is written: cells between delimiters, trimmed; one line is one row, or none.

    `header` says whether the first line holds names; without one, `names` must list every column in order. Without a
    `delimiter` it is a tab in a file that ends in .tsv, else a comma. A cell that is empty or equals one of `null_values`
    is missing. `quote` is '"' or "'" where cells may be quoted (RFC 4180, except line ends in cells: such files are
    imported to Parquet first); then a line that breaks the rules, or has another number of cells, is no row.

    >>> Csv(header=True, quote='"').cells('1,"Doe, Jane"')
    ['1', 'Doe, Jane']
    """

    header: bool
    names: tuple[str, ...] | None = None
    delimiter: str = ""
    null_values: tuple[str, ...] = ()
    quote: str = ""

    def __post_init__(self) -> None:
        if not self.header and not self.names:
            raise DeclarationError("must list every column in order, because header is false", key="csv.names")
        if self.names is not None and len({n.lower() for n in self.names}) != len(self.names):
            raise DeclarationError("must not repeat", key="csv.names")
        if not isinstance(self.delimiter, str) or len(self.delimiter) > 1 or self.delimiter in ("\r", "\n", '"', "'"):
            raise DeclarationError("must be one character, not a quote or a line end", key="csv.delimiter")
        if self.quote not in ("", '"', "'"):
            raise DeclarationError("must be one of \" and ', or nothing where cells are unquoted", key="csv.quote")

    @property
    def between(self) -> str:
        """Return what stands between cells, a comma where nothing is declared."""
        return self.delimiter or ","

    def grammar(self) -> str:
        """Return the regular expression of a whole line under quoting, in words that Python and RE2 share.

        A quote stands at both ends of a cell, blanks around them aside, and doubled within; nowhere else.
        """
        sign, mark = _escape(self.between), self.quote
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
        found, inside = [""], False
        for part in re.split(f"({_escape(self.between)}|{self.quote})", text):
            if part == self.quote:
                inside = not inside
                found[-1] += part
            elif part == self.between and not inside:
                found.append("")
            else:
                found[-1] += part
        return [_unquote(cell.strip(_BLANKS), self.quote).strip(_BLANKS) for cell in found]

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        names = None if self.names is None else list(self.names)
        nulls = sorted(set(self.null_values))
        quoted = {"quote": self.quote} if self.quote else {}  # ledgers from before there were quotes hold no such key
        return {"header": self.header, "names": names, "delimiter": self.between, "null_values": nulls, **quoted}


@dataclass(frozen=True, slots=True)
class Source:
    """Name a table: a CSV, JSON lines or Arrow file, Parquet file(s), or a relation of a DuckDB or SQLite file or a server.

    `path` is absolute, or relative to the working directory, or the address of files in S3 or of one behind HTTP; of a
    PostgreSQL server it is a URL without a password, and `relation` a table, a view or a query. Parquet files are named
    by a path, a glob, or a folder that ends in "/": its sub-folders may be named key=value, whose keys are columns of
    text. CSV and JSON lines may be compressed, .csv.gz or .csv.zst. The constructor checks the words, not the disk.
    """

    path: str
    format: str
    relation: str | None = None
    csv: Csv | None = None
    engine: str = ""  # that reads it, nothing for DuckDB
    settings: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # of a Spark session to be made

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise DeclarationError(
                f"must be one of {', '.join(FORMATS)}, not {self.format!r}; {nearest(self.format, FORMATS)}",
                key="format",
            )
        kept = FORMATS[self.format]
        object.__setattr__(self, "engine", self.engine or kept.engine)
        if self.engine not in (kept.engine, *kept.engines):
            raise DeclarationError(
                'engine = "spark" reads Parquet, Delta and Iceberg, or source = "spark:catalog.table"; without it '
                "DuckDB reads a file and PostgreSQL its own tables",
                key="engine",
            )
        if kept.check is not None:
            kept.check(self.path)
        if self.is_remote:
            self._check_remote()
        if kept.of_several != (self.relation is not None):
            what = kept.title if kept.of_several else "a DuckDB file"
            raise DeclarationError(
                f'{what} needs relation = "its table", and no file but a DuckDB or SQLite file takes one'
            )
        if (self.format == "csv") != (self.csv is not None):
            raise DeclarationError("a CSV file needs csv rules (header, names), and only a CSV file takes them")
        ending, packing = split_ending(self.path)
        if ending in PACKED or (packing and not kept.of_lines):
            raise DeclarationError(
                f"source {self.path!r} is compressed: unpack it first (CSV and JSON lines are read from .gz and .zst)"
            )
        if self.csv is not None and not self.csv.delimiter and ending == ".tsv":
            object.__setattr__(self, "csv", replace(self.csv, delimiter="\t"))

    @property
    def lossy(self) -> bool:
        """Whether a row may be lost as a whole: where a line is one, or none."""
        return FORMATS[self.format].of_lines

    @property
    def is_remote(self) -> bool:
        """Whether it lies on another machine, in S3 or behind HTTP, and is read from here."""
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


@dataclass(frozen=True, slots=True)
class PublicTable:
    """Declare a table that holds nothing private, to be joined by `key`; at most `max_rows` of its rows share one.

    `key` is a column, or several columns that are compared together. `source` is a Source on disk, or a frame in memory.
    Whoever declares it says that it is public: nothing hides it.
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
    """What is public about another private table: its columns, neighbors, declaration, and whether it shares the budget.

    `apart` says why no engine reads both tables, nothing where one does.
    """

    domain: Domain
    neighbors: Neighbors
    declaration: Mapping[str, Any] = field(hash=False)
    shares_budget: bool = True
    apart: str = ""


def _key_columns(names: object) -> str | tuple[str, ...]:
    """Return the columns of a key of several; of one, that column itself."""
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


def split_ending(path: str | Path) -> tuple[str, str]:
    """Return the ending of a file's name without that of its compression, and this in Arrow's and DuckDB's word.

    >>> split_ending("people.csv.gz"), split_ending("people.parquet")
    (('.csv', 'gzip'), ('.parquet', ''))
    """
    named = Path(str(path))
    packing = PACKINGS.get(named.suffix.lower(), "")
    return (named.with_suffix("") if packing else named).suffix.lower(), packing


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
    known = ending_format(ending)
    kind = None if known is None else known.name
    if relation is not None:
        kind = kind if known is not None and known.of_several else "duckdb"
    elif csv is not None:
        kind = "csv"
    elif str(path).endswith(("/", "\\")) or (kind in (None, "parquet") and os.path.isdir(path)):
        return Source(f"{str(path).rstrip('/')}/", "parquet")
    if kind == "csv" and csv is None:
        raise DeclarationError(f"source {str(path)!r} is CSV: declare csv = {{header = true}} or its names")
    if kind is None:
        *most, last = (known.endings[0] for known in FORMATS.values() if known.endings)
        raise DeclarationError(
            f"source {str(path)!r} must end in {', '.join(most)} or {last}, or in / where it is a folder "
            "of Parquet files (or name a relation)"
        )
    return Source(str(path), kind, relation, csv)


def header_names(path: str | Path, csv: Csv, *, at: str = "") -> tuple[str, ...]:
    """Return the declared names of a CSV file's columns, or those of its header line where that is declared.

    `at` is where the file is held open, if it is. Raises SourceError where the header line cannot be read or does not name
    every column once. Nothing of the line is in the message: where `header` is wrong, it is a row.
    """
    if csv.names is not None:
        return csv.names
    line = header_line(path, at=at)
    names = csv.cells(line) or [""]
    names = names if csv.quote else [name.strip('"') for name in names]
    if not all(names) or len({name.lower() for name in names}) != len(names):
        rule = "its header line does not name every column once"
        raise SourceError(f"source {str(path)!r}: {rule}; check csv.delimiter and csv.quote, or declare csv.names")
    return tuple(names)


def header_line(path: str | Path, *, at: str = "") -> str:
    """Return the first line of a CSV file, empty where there is none; raises SourceError where it is not text."""
    try:
        with _open_text(path, at) as file:
            line = file.readline(_LONGEST)
    except (OSError, EOFError, ValueError):  # the latter where what is compressed is broken
        line = ""
    if any(c < " " and c not in _TEXT for c in line):
        raise SourceError(f"source {str(path)!r}: its first line is not text; unpack the file, or convert it to UTF-8")
    return line


def _open_text(path: str | Path, at: str) -> TextIO:
    return io.TextIOWrapper(open_unpacked(path, at=at), encoding="utf-8-sig", errors="replace")


def open_unpacked(path: str | Path, *, at: str = "") -> IO[bytes]:
    """Open a file of lines, unpacked where its ending says that it is compressed; `at` is where it is held open, if it is."""
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
