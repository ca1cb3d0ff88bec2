"""`sordino init`: a project file out of a table's schema alone: never a bound, a value or a row of the data."""

from __future__ import annotations

import glob
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.declare.import_csv import TYPES
from sordino.cli.shared.options import Delimiter, Header, Quiet, delimiter_of, ends_in
from sordino.cli.shared.terminal import note
from sordino.errors import DeclarationError, SourceError

if TYPE_CHECKING:
    from sordino.source import Csv

__all__ = ["init"]

_CSV = (".csv", ".data", ".txt", ".tsv")
_PARQUET = (".parquet", ".pq")
_DUCKDB = (".duckdb", ".db", ".ddb")

Columns = list[tuple[str, str | None]]


def init(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A CSV, Parquet or DuckDB file.", show_default=False)],
    header: Header = None,
    columns: Annotated[
        int | None,
        typer.Option("--columns", metavar="N", help="CSV without names: how many columns it has.", show_default=False),
    ] = None,
    delimiter: Delimiter = None,
    quote: Annotated[
        str | None,
        typer.Option(
            "--quote", metavar="CHAR", help="CSV: what cells may be quoted with, \" or '.", show_default=False
        ),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", metavar="NAME", help="DuckDB: the table in the file.", show_default=False),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The project file.", callback=ends_in(".toml"))
    ] = Path("sordino.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a project file that is there.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a project file from a table's schema alone, with every blank that you must fill in marked.

    No bound, value or row of the data is read into it: those would leak. A CSV file's first line may be a row, so you
    must say whether it holds names.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.project.load import write_template
    from sordino.project.schema import FILL_IN
    from sordino.source import PACKED

    if output.exists() and not force:
        raise DeclarationError(f"{output} is there already; --force replaces it, -o FILE writes another")
    ending = Path(source).suffix.lower()
    if ending not in (*_CSV, *_PARQUET, *_DUCKDB):
        packed = "; unpack it first" if ending in PACKED else ""
        raise DeclarationError(f"source {source!r} must end in {', '.join((*_CSV, *_PARQUET, *_DUCKDB))}{packed}")
    if ending in _CSV:
        rules, found = _of_csv(Path(source), header, columns, delimiter, quote)
        relation = None
    else:
        if any(given is not None for given in (header, columns, delimiter, quote)):
            said = "--header, --no-header, --columns, --delimiter and --quote are for CSV files"
            raise DeclarationError(f"{said}; this one states its own schema")
        rules = None
        found, relation = _schema(source, relation)
    table = _table_name(source, relation)
    text = write_template(found, source=_beside(source, output), table=table, csv=rules, relation=relation)
    with open_atomic(output) as target:
        target.write(text.encode())
    blanks = sum(line.partition("#")[0].count(f'"{FILL_IN}"') for line in text.splitlines())
    note(
        f"wrote {output}: table {table!r}, {len(found)} columns, {blanks} blanks marked {FILL_IN}",
        quiet=quiet,
        aside=False,
    )
    note("fill them in from what is public, never from the data; then: sordino check", quiet=quiet, aside=False)


def _schema(source: str, relation: str | None) -> tuple[Columns, str | None]:
    from sordino.datasets.file_schema import duckdb_columns

    if Path(source).suffix.lower() in _PARQUET:
        return _of_parquet(source), None
    _present(source)
    relation, found = duckdb_columns(source, relation)
    return found, relation


def _present(source: str) -> None:
    if not Path(source).is_file():
        raise SourceError(f"source {source!r} is missing: there is no such file")


def _of_csv(
    path: Path, header: bool | None, columns: int | None, delimiter: str | None, quote: str | None
) -> tuple[Csv, Columns]:
    from sordino.project.load import unnamed_columns
    from sordino.source import Csv, header_line, header_names

    _present(str(path))
    if header is None:
        rule = "a CSV file's first line may be a row of the data, which must not get into a project file"
        raise DeclarationError(f"{rule}: say --header if it holds names, else --no-header --columns N")
    if header and columns is not None:
        raise DeclarationError("--columns goes with --no-header; a header line names the columns itself")
    between = delimiter_of(delimiter, str(path))
    if not header:
        if columns is None or not 1 <= columns <= 100_000:
            raise DeclarationError("--no-header needs --columns N, the number of columns, from 1 to 100,000")
        header_line(path)  # the curator is here: a file that is no text is refused, whatever its first line is
        found = unnamed_columns(columns)
        return Csv(False, tuple(name for name, _ in found), between, quote=quote or ""), found
    line = header_line(path)
    if delimiter is None and between not in line:
        for other in (c for c in ",;\t|" if c in line):
            raise DeclarationError(
                f"the header line of {str(path)!r} has no {between!r}: say --delimiter {other!r}, "
                f"or --delimiter {between!r} if it names one column"
            )
    sign = ('"' if '"' in line else "") if quote is None else quote
    if sign and quote is None:
        note(f'note: the header line of {path} is quoted, so quote = \'"\' is declared; --quote "" declares otherwise')
    rules = Csv(True, None, between, quote=sign)
    return rules, [(name, None) for name in header_names(path, rules)]


def _of_parquet(source: str) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = sorted(glob.glob(source)) if not Path(source).is_file() else [source]
    if not files:
        raise SourceError(f"source {source!r} is missing: there is no such file")
    schema: pa.Schema | None = None
    seen: dict[str, str] = {}
    try:
        schema = pq.read_schema(files[0])
        seen = json.loads((pq.read_metadata(files[0]).metadata or {}).get(TYPES.encode(), b"{}"))
    except (pa.ArrowException, OSError, ValueError):
        schema = None
    if schema is None:
        raise SourceError(f"source {source!r} cannot be opened as Parquet: check its path, format and rights")
    if seen:
        note("note: types of text columns are those that `sordino import` read in the cells: change what is not public")
    return [(field.name, seen.get(field.name, _physical(field.type))) for field in schema]


def _physical(kind: object) -> str:
    """Return Arrow's word for a type, that of its values for a dictionary."""
    return str(getattr(kind, "value_type", None) or kind) if str(kind).startswith("dictionary") else str(kind)


def _beside(source: str, output: Path) -> str:
    """Return the source's path relative to the project file, or as it was given where it is absolute."""
    if os.path.isabs(source):
        return source
    return os.path.relpath(source, output.parent)


def _table_name(source: str, relation: str | None) -> str:
    stem = relation or Path(source).stem
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_") or "people"
    return f"t_{name}" if name[0].isdigit() else name
