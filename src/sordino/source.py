"""Where a table lies and how its cells are written, as declared: nothing here is sniffed from the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sordino.domain import Domain, Real
from sordino.errors import DeclarationError, nearest

__all__ = ["Csv", "PublicTable", "Source", "public", "source_from"]

_FORMATS = {".csv": "csv", ".data": "csv", ".txt": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
_FORMATS |= {".duckdb": "duckdb", ".db": "duckdb", ".ddb": "duckdb"}


@dataclass(frozen=True, slots=True)
class Csv:
    """Declare how a CSV file is written: unquoted cells between delimiters, trimmed; one row a line.

    `header` says whether the first line holds names; without one, `names` must list every column in order. A cell that
    is empty or equals one of `null_values` is missing. Quoted files are first imported to Parquet.
    """

    header: bool
    names: tuple[str, ...] | None = None
    delimiter: str = ","
    null_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.header and not self.names:
            raise DeclarationError("csv.names must list every column in order, because header is false")
        if self.names is not None and len({n.lower() for n in self.names}) != len(self.names):
            raise DeclarationError("csv.names must not repeat")
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1 or self.delimiter in "\r\n\"'":
            raise DeclarationError("csv.delimiter must be one character, not a quote or a line end")

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        names = None if self.names is None else list(self.names)
        nulls = sorted(set(self.null_values))
        return {"header": self.header, "names": names, "delimiter": self.delimiter, "null_values": nulls}


@dataclass(frozen=True, slots=True)
class Source:
    """Name a table on disk: a CSV file, Parquet file(s) by path or glob, or a relation of a DuckDB file.

    `path` is absolute, or relative to the working directory. The constructor checks the words, not the disk.
    """

    path: str
    format: Literal["csv", "parquet", "duckdb"]
    relation: str | None = None
    csv: Csv | None = None

    def __post_init__(self) -> None:
        if self.format not in ("csv", "parquet", "duckdb"):
            raise DeclarationError(f"source format must be csv, parquet or duckdb, not {self.format!r}")
        if (self.format == "duckdb") != (self.relation is not None):
            raise DeclarationError('a DuckDB file needs relation = "its table", and only a DuckDB file takes one')
        if (self.format == "csv") != (self.csv is not None):
            raise DeclarationError("a CSV file needs csv rules (header, names), and only a CSV file takes them")


@dataclass(frozen=True, slots=True)
class PublicTable:
    """Declare a table that holds nothing private, to be joined by `key`; at most `max_rows` of its rows share one.

    `source` is a Source on disk, or a frame in memory. Whoever declares it says that it is public: nothing hides it.
    """

    source: Any = field(compare=False)
    key: str
    columns: Domain
    max_rows: int

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Domain):
            raise DeclarationError('columns must be a Domain, such as sd.Domain({"state": sd.Identifier()})')
        if self.key not in self.columns:
            raise DeclarationError(
                f"key must be a declared column of the public table, not {self.key!r}; {nearest(self.key, self.columns)}"
            )
        if isinstance(self.columns[self.key], Real):
            raise DeclarationError(f"key {self.key!r} is declared as real: reals cannot be compared for equality")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 10**6:
            raise DeclarationError("max_rows, the most rows of the public table that share a key, must be 1 to 10^6")
        for name in self.columns:
            if "." in name:
                raise DeclarationError(
                    f"column {name!r} of a public table must not hold a dot: it is named table.column"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        return {"key": self.key, "max_rows": self.max_rows, **self.columns.to_dict()}


def public(
    source: Any,
    *,
    key: str,
    columns: Domain,
    max_rows: int = 1,
    csv: Csv | None = None,
    relation: str | None = None,
) -> PublicTable:
    """Return a public table for `protect(..., public={name: ...})`: a path as `protect` takes it, or a frame.

    `max_rows` is how many of its rows may share one value of `key`; it is checked when the table is opened, and a
    question that joins it moves by that many rows for each row of the private table.

    Raises DeclarationError where an argument breaks a rule.

    >>> public("regions.parquet", key="state", columns=Domain({"state": Real(0, 1)}))
    Traceback (most recent call last):
        ...
    sordino.errors.DeclarationError: key 'state' is declared as real: reals cannot be compared for equality
    """
    if isinstance(source, (str, Path)):
        return PublicTable(source_from(source, relation=relation, csv=csv), key, columns, max_rows)
    if csv is not None or relation is not None:
        raise DeclarationError("csv and relation go with a path")
    return PublicTable(source, key, columns, max_rows)


def source_from(path: str | Path, *, relation: str | None = None, csv: Csv | None = None) -> Source:
    """Return the Source at `path`, its format told by the ending of its name (and by `relation`, `csv` where given).

    Raises DeclarationError where the ending tells nothing.

    >>> source_from("people-*.parquet").format
    'parquet'
    """
    ending = Path(str(path)).suffix.lower()
    kind = "duckdb" if relation is not None else "csv" if csv is not None else _FORMATS.get(ending)
    if kind == "csv" and csv is None:
        raise DeclarationError(f"source {str(path)!r} is CSV: declare csv = {{header = true}} or its names")
    if kind is None:
        raise DeclarationError(f"source {str(path)!r} must end in .csv, .parquet or .duckdb (or name a relation)")
    return Source(str(path), kind, relation, csv)  # type: ignore[arg-type]  # one of the three, by the table above
