"""Frames in memory as Arrow tables of their declared columns: Arrow and all that exports it, pandas, lists of dicts.

Cells of mixed Python objects are read one by one as declared, so that one odd cell cannot change how others are read.

Files that are read into memory when they are opened end here too: Arrow's own, a table of a SQLite file, and formats from
outside, which join by `register_format`, in the curator's own process. SQLite stores a type with each cell, not with each
column, so its cells are read one by one as declared, like Python objects: an odd one cannot change how others are read. Text
that is not UTF-8 is missing.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.cells import EXACT_IN_FLOAT, numpy_moment, reader
from sordino.ask.engines.readers.lake_tables import UNREAD, is_lake_table, lake_columns, load_lake_table
from sordino.core.domain import Category, Column, Domain, Identifier, Integer
from sordino.core.errors import DeclarationError, SourceError, nearest

if TYPE_CHECKING:
    import pyarrow as pa
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sordino.ask.engines.readers.sqlite_file import open_sqlite, sqlite_columns
from sordino.ask.engines.sql_text import quote_name
from sordino.core.neighbors import PrivacyUnit
from sordino.core.registration import check_registering, name_provider
from sordino.core.source import FORMATS, Format, Source, add_formats

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.core.domain import Domain


# dtypes of pandas that keep whole numbers exact beside missing cells
_EXACT_DTYPE = re.compile(r"U?Int[0-9]+|boolean|string(\[.*\])?|(?!float|double|halffloat).*\[pyarrow\]")
# in the plan of a DuckDB relation
_INFERRED = re.compile(r"Function:\s*(PANDAS_SCAN|READ_(CSV|JSON|NDJSON))")
# readers that are exhausted
_READ: weakref.WeakSet[Any] = weakref.WeakSet()


def arrow_of(frame: Any, domain: Domain, *, unit: str | None = None) -> pa.Table:
    """Return the declared columns of a frame as an Arrow table.

    Raises DeclarationError for a frame of an unknown kind or without a declared column, SourceError where it cannot be
    read; neither says anything of the data.
    """
    import pyarrow as pa

    kind = type(frame).__module__.split(".")[0]
    if kind == "narwhals" and hasattr(frame, "to_native"):
        return arrow_of(frame.to_native(), domain, unit=unit)
    if isinstance(frame, pa.Table):
        return frame.select(_present(domain, frame.column_names))
    if kind == "pandas":
        return _from_pandas(frame, domain, unit)
    if kind == "polars":
        return _arrow(lambda: _from_polars(frame, domain), "the polars frame")
    if hasattr(frame, "to_arrow_table") and hasattr(frame, "columns"):
        return _from_relation(frame, domain)
    if kind == "pyarrow" and hasattr(frame, "get_fragments"):
        return _from_dataset(frame, domain)
    if is_lake_table(frame):
        return _arrow(lambda: load_lake_table(frame, _present(domain, lake_columns(frame))), "the table", UNREAD)
    if hasattr(frame, "__arrow_c_stream__"):
        return _arrow(lambda: _from_stream(frame, domain), "the Arrow stream")
    if isinstance(frame, list) and (not frame or any(isinstance(row, Mapping) for row in frame)):
        return _from_rows(frame, domain)
    raise DeclarationError(
        "a source is a path, an Arrow table, dataset or stream, a pandas or polars frame, a DuckDB relation, a table of "
        f"deltalake or pyiceberg, or a list of dicts, not a {type(frame).__name__}"
    )


def _present(domain: Domain, columns: list[str]) -> list[str]:
    for name in domain.stored:
        if name not in columns:
            hint = nearest(name, columns)
            raise DeclarationError(f"column {name!r} is declared but the source has no such column; {hint}")
    return list(domain.stored)


def _from_relation(frame: Any, domain: Domain) -> pa.Table:
    """Return a DuckDB relation's declared columns; refuse one over pandas, CSV or JSON, whose rows decide its types."""
    columns = _present(domain, list(frame.columns))
    plan = _arrow(frame.explain, "the relation") if hasattr(frame, "explain") else ""
    if _INFERRED.search(plan):
        raise DeclarationError(
            "a DuckDB relation over a pandas frame, CSV or JSON has types that DuckDB read off its rows, so that one row could "
            "change how others are read: hand on the frame itself, or name the file itself as the source"
        )
    names = ['"' + c.replace('"', '""') + '"' for c in columns]
    return _arrow(lambda: frame.select(*names).to_arrow_table(), "the relation")


def _from_dataset(frame: Any, domain: Domain) -> pa.Table:
    """Return an Arrow dataset's declared columns; refuse one whose rows decide its types, or which other rows count."""
    if type(getattr(frame, "format", None)).__name__ in ("CsvFileFormat", "JsonFileFormat"):
        raise DeclarationError(
            "an Arrow dataset of CSV or JSON files has types that Arrow read off its rows, so that one row could change how "
            "others are read: name the file itself as the source"
        )
    if (getattr(frame, "_scan_options", None) or {}).get("filter") is not None:
        raise DeclarationError(
            "an Arrow dataset with a filter skips rows by its files' statistics, which leave NaN out, so that one row could "
            "decide whether others count: put the condition into the question, or hand on dataset.to_table().filter(...) "
            "of the whole dataset"
        )
    columns = _present(domain, frame.schema.names)
    return _arrow(lambda: frame.to_table(columns=columns), "the dataset")


def _from_stream(frame: Any, domain: Domain) -> pa.Table:
    """Return the declared columns of an object with `__arrow_c_stream__`, batch by batch."""
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(frame)
    columns = _present(domain, reader.schema.names)
    if isinstance(frame, pa.RecordBatchReader):
        _refuse_again(frame)
    schema = pa.schema([reader.schema.field(name) for name in columns])
    return pa.Table.from_batches((batch.select(columns) for batch in reader), schema)


def _refuse_again(reader: Any) -> None:
    """Raise SourceError for a reader that was read before: read again, it would be a table without rows."""
    if reader in _READ:
        raise SourceError(
            "this Arrow reader was read before, and a reader gives its rows once: hand on a new one, or the table of all its "
            "rows, reader.read_all()"
        )
    _READ.add(reader)


def _from_rows(rows: Sequence[Any], domain: Domain) -> pa.Table:
    """Return a list of dicts as Arrow; a cell without a key is missing, and an item that is no dict is a row of missing cells.

    The columns are the declared ones, since the keys depend on the rows.
    """
    import pyarrow as pa

    if domain.lists:
        name = next(iter(domain.lists))
        raise DeclarationError(f"column {name!r} is declared as a list, which a list of dicts does not hold: use Arrow")
    arrays = {}
    for name in domain.stored:
        read, arrow = reader(domain[name])
        cells = (row.get(name) if isinstance(row, Mapping) else None for row in rows)
        arrays[name] = pa.array([read(cell) for cell in cells], type=arrow)
    return pa.table(arrays)


def _from_pandas(frame: Any, domain: Domain, unit: str | None) -> pa.Table:
    """Return a pandas frame as Arrow.

    Theorem. All cells of a column decide which dtype pandas infers. How a cell is read, and whether the frame is refused, is the
    same for all dtypes, so that neither depends on other rows.
    """
    import pyarrow as pa

    if domain.lists:
        name = next(iter(domain.lists))
        raise DeclarationError(
            f"column {name!r} is declared as a list, which pandas holds as objects: use Arrow or Parquet"
        )
    arrays: dict[str, Any] = {}
    for name in _present(domain, list(frame.columns)):
        column = domain[name]
        if _is_large(column) and not _EXACT_DTYPE.fullmatch(str(frame[name].dtype)):
            large = "values beyond 2^53" if isinstance(column, Category) else "no bounds, or bounds beyond 2^53"
            raise DeclarationError(
                f"column {name!r} is declared with {large}, and where one cell is missing pandas makes floats of whole "
                'numbers, which merges those: read it as "Int64" or "string" (dtype=), or use Arrow or Parquet'
                + ("; or declare lower and upper within 2^53" if isinstance(column, Integer) else "")
            )
        arrays[name] = _array(frame[name], column, is_unit=name == unit)
    return pa.table(arrays)


def _is_large(column: Column) -> bool:
    """Return whether a column may hold whole numbers that floats merge, by the declaration alone."""
    if isinstance(column, Category):
        return any(isinstance(v, int) and abs(v) >= EXACT_IN_FLOAT for v in column.values)
    return isinstance(column, Integer) and any(
        b is None or abs(b) > EXACT_IN_FLOAT for b in (column.lower, column.upper)
    )


def _from_polars(frame: Any, domain: Domain) -> Any:
    frame = frame.collect() if hasattr(frame, "collect") else frame
    return frame.select(_present(domain, list(frame.columns))).to_arrow()


def _arrow(
    read: Callable[[], Any], what: str, rule: str = "store each column as a number, text, a boolean or a day"
) -> Any:
    """Return what `read` returns; a library's error becomes a SourceError without its message, which may quote a cell."""
    table: Any = None
    try:
        table = read()
    except DeclarationError:
        raise
    except Exception:
        # of any kind: its message is not read
        table = None
    except BaseException as failure:
        # a panic of polars or deltalake, in Rust, is no Exception
        if type(failure).__name__ != "PanicException":
            raise
    if table is None:
        raise SourceError(f"{what} cannot be read: {rule}")
    return table


def _array(series: Any, column: Column, *, is_unit: bool) -> Any:
    """Return a column of pandas as Arrow: cell by cell where its dtype and another one could be read differently.

    Names from 2^53 on that are numbers are missing in every dtype that pandas infers, since floats merge them.
    """
    import pandas as pd
    import pyarrow as pa

    dtype = series.dtype
    if str(dtype).startswith("Sparse"):
        return _array(series.sparse.to_dense(), column, is_unit=is_unit)
    is_text = isinstance(column, Identifier) or (isinstance(column, Category) and isinstance(column.values[0], str))
    read, arrow = reader(column, below=EXACT_IN_FLOAT if is_text or is_unit else None)
    if isinstance(dtype, (pd.CategoricalDtype, pd.PeriodDtype)):
        series = series.astype("category")
        values = pa.array([read(cell) for cell in series.cat.categories], type=arrow)
        return values.take(pa.array(series.cat.codes, mask=series.cat.codes < 0))
    # Units are distinguished by the text of their cells, which must be that of the declared type for every dtype.
    cells = None if is_unit and not is_text else _dtype_cells(series, is_text=is_text)
    if cells is None:
        cells = pa.array([read(cell) for cell in series], type=arrow)
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells


def _dtype_cells(series: Any, *, is_text: bool) -> Any:
    """Return a column of pandas as Arrow in a type that SQL reads like the column's objects; None if there is no such type."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        numbers = series.to_numpy()
        if dtype.kind == "f" and dtype.itemsize not in (4, 8):
            # no engine reads Arrow's half floats
            numbers = numbers.astype(np.float64)
        if not is_text:
            return pa.array(numbers, from_pandas=True)
        sizes = np.abs(numbers.astype(np.float64))
        return pa.array(numbers, mask=np.isnan(sizes) | ((sizes >= EXACT_IN_FLOAT) & ~np.isinf(sizes)))
    if dtype.kind not in "biufM" and not isinstance(dtype, (pd.StringDtype, pd.ArrowDtype)):
        return None
    if isinstance(dtype, pd.DatetimeTZDtype):
        # Arrow knows fewer zones than pandas
        series = series.dt.tz_convert("UTC")
    if is_text and dtype.kind == "M" and not isinstance(dtype, pd.ArrowDtype):
        zoned = isinstance(dtype, pd.DatetimeTZDtype)
        local = series.dt.tz_localize(None) if zoned else series
        # moments that are often equal are written once each
        unique, places = np.unique(local.to_numpy(), return_inverse=True)
        moments = [numpy_moment(moment, zoned=zoned) for moment in unique]
        texts = pa.array([None if moment is None else moment.text for moment in moments], pa.string())
        return texts.take(pa.array(places))
    try:
        return pa.Array.from_pandas(series)
    except Exception:
        # of any kind: a lone surrogate, say, which is one missing cell
        return None


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
