"""Files that are read into memory when they are opened: Arrow's own, a table of a SQLite file, and formats from outside.

A format from outside joins by `register_format`, in the curator's own process. SQLite stores a type with each cell, not with
each column, so its cells are read one by one as declared, like Python objects: an odd one cannot change how others are read.
Text that is not UTF-8 is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.cells import reader
from sordino.ask.engines.frames import arrow_of
from sordino.ask.engines.readers.sqlite_file import open_sqlite, sqlite_columns
from sordino.ask.engines.sql_text import quote_name
from sordino.core.errors import DeclarationError, SourceError, nearest
from sordino.core.neighbors import PrivacyUnit
from sordino.core.registration import check_registering, name_provider
from sordino.core.source import FORMATS, Format, Source, add_formats

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.domain import Domain

Read = Callable[[Any], Any]

# rows of a SQLite table in one batch
_ROWS = 65_536


def load_file(source: Source, domain: Domain, unit: PrivacyUnit | None) -> pa.Table:
    """Read the declared columns of a file into memory; an error says nothing of its cells.

    Raises SourceError where it cannot be opened as such, DeclarationError where its table or a column is not there.
    """
    table: pa.Table | None = None
    if not Path(source.path).is_file():
        raise SourceError(f"source {source.path!r} is missing: there is no such file")
    try:
        rows = LOADERS[source.format](source, domain)
        table = arrow_of(rows, domain, unit=None if unit is None else unit.column)
    except DeclarationError:
        raise
    except Exception:
        # of any kind: its message may quote a cell
        table = None
    if table is None:
        raise cannot_open(source)
    return table


def cannot_open(source: Source) -> SourceError:
    """Return the error of a file that is not of its declared format."""
    its_format = FORMATS[source.format]
    what = its_format.title
    if its_format.of_several:
        what += f" with that {'relation' if its_format.name == 'duckdb' else 'table'}"
    return SourceError(f"source {source.path!r} cannot be opened as {what}: check its path, format and rights")


def _load_arrow(source: Source, domain: Domain) -> pa.Table:
    """Return the declared columns of Arrow's file format, which Feather is, or of its stream format."""
    import pyarrow as pa

    with pa.OSFile(source.path) as file:
        try:
            schema = pa.ipc.open_file(file).schema
        except pa.ArrowInvalid:
            file.seek(0)
            return _choose(pa.ipc.open_stream(file).read_all(), domain)
        fields = [i for i, name in enumerate(schema.names) if name in domain.stored]
        file.seek(0)
        return _choose(pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=fields)).read_all(), domain)


def _choose(table: pa.Table, domain: Domain) -> pa.Table:
    names = table.column_names
    for name in domain.stored:
        if name not in names:
            raise DeclarationError(
                f"column {name!r} is declared but the source has no such column; {nearest(name, names)}"
            )
    return table.select(list(domain.stored))


def _load_sqlite(source: Source, domain: Domain) -> pa.Table:
    """Return the declared columns of a table or view, each cell read as declared."""
    import pyarrow as pa

    assert source.relation is not None
    if domain.lists:
        name = next(iter(domain.lists))
        raise DeclarationError(f"column {name!r} is declared as a list, and a SQLite file holds none: use Parquet")
    table, columns = sqlite_columns(source.path, source.relation)
    names = [name for name, _ in columns]
    for name in domain.stored:
        # SQLite would read a quoted name that is no column as a text
        if name not in names:
            raise DeclarationError(
                f"column {name!r} is declared but the source has no such column; {nearest(name, names)}"
            )
    readers = [reader(domain[name]) for name in domain.stored]
    schema = pa.schema([(name, kind) for name, (_, kind) in zip(domain.stored, readers, strict=True)])
    batches = []
    with open_sqlite(source.path) as connection:
        items = ", ".join(map(quote_name, domain.stored))
        cells = connection.execute(f"SELECT {items} FROM {quote_name(table)}")
        while rows := cells.fetchmany(_ROWS):
            batches.append(_batch(rows, readers, schema))
    return pa.Table.from_batches(batches, schema)


def _batch(
    rows: Sequence[Sequence[Any]], readers: Sequence[tuple[Read, pa.DataType]], schema: pa.Schema
) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array([read(c) for c in cells], kind) for cells, (read, kind) in zip(columns, readers, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# ---- The formats that are loaded, by name

Loader = Callable[[Source, "Domain"], Any]

LOADERS: dict[str, Loader] = {"arrow": _load_arrow, "sqlite": _load_sqlite}


def register_format(new: Format, load: Loader, *, module: str = "", version: str = "") -> None:
    """Add a format of files from outside: `load(source, domain)` returns their rows in a form that `protect` accepts.

    That is an Arrow table, or a list of dicts, of which each cell is read as declared, by itself. Neither the types nor whether
    the file is refused may depend on the cells. `module` and `version` name the code: releases state them.

    Raises DeclarationError where the name or an ending is in use, and once a table is open.
    """
    check_registering(load, f"format {new.name!r}")
    add_formats(replace(new, provider=name_provider(load, "a format", module, version)))
    LOADERS[new.name] = load
