"""Frames in memory - Arrow tables, pandas, polars, DuckDB relations - as Arrow tables of their declared columns.

Cells of mixed Python objects are read one by one as declared, so that one odd cell cannot change how others are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sordino.domain import Boolean, Category, Column, Date, Domain, Identifier, Integer
from sordino.errors import DeclarationError, SourceError, nearest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_of"]

_EXACT_IN_FLOAT = 2**53


def arrow_of(frame: Any, domain: Domain) -> pa.Table:
    """Return the declared columns of a frame as an Arrow table.

    Raises DeclarationError for a frame of an unknown kind or without a declared column, SourceError where it cannot be
    read; neither says anything of the data.
    """
    import pyarrow as pa

    kind = type(frame).__module__.split(".")[0]
    if isinstance(frame, pa.Table):
        return frame.select(_present(domain, frame.column_names))
    if kind == "pandas":
        return _from_pandas(frame, domain)
    if kind == "polars":
        frame = frame.collect() if hasattr(frame, "collect") else frame
        return frame.select(_present(domain, list(frame.columns))).to_arrow()
    if hasattr(frame, "to_arrow_table") and hasattr(frame, "columns"):
        columns = _present(domain, list(frame.columns))
        failed, table = False, None
        try:
            table = frame.select(*('"' + c.replace('"', '""') + '"' for c in columns)).to_arrow_table()
        except Exception:  # the engine's words may quote a cell
            failed = True
        if failed or table is None:
            raise SourceError("the relation cannot be read: materialise it, or name its file as the source")
        return table
    raise DeclarationError(
        "a source is a path, an Arrow table, a pandas or polars frame, or a DuckDB relation, "
        f"not a {type(frame).__name__}"
    )


def _present(domain: Domain, columns: list[str]) -> list[str]:
    for name in domain:
        if name not in columns:
            hint = nearest(name, columns)
            raise DeclarationError(f"column {name!r} is declared but the source has no such column; {hint}")
    return list(domain)


def _from_pandas(frame: Any, domain: Domain) -> pa.Table:
    """Return a pandas frame as Arrow; pandas turns whole numbers to floats where one is missing, so large ones are refused."""
    import pyarrow as pa

    arrays: dict[str, Any] = {}
    for name in _present(domain, list(frame.columns)):
        column = domain[name]
        if isinstance(column, Integer):
            bounds = [abs(b) for b in (column.lower, column.upper) if b is not None]
            if max(bounds, default=0) > _EXACT_IN_FLOAT:
                raise DeclarationError(
                    f"column {name!r} has bounds beyond 2^53, which pandas may hold as floats: use Arrow or Parquet"
                )
        arrays[name] = _array(frame[name], column)
    return pa.table(arrays)


def _array(series: Any, column: Column) -> Any:
    import pyarrow as pa

    if str(series.dtype) != "object":
        failed, array = False, None
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, TypeError, ValueError):
            failed = True
        if failed:
            raise DeclarationError(f"column {series.name!r} of type {series.dtype} cannot be read: convert it first")
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    read, kind = _reader(column)
    return pa.array([read(cell) for cell in series], type=kind)


def _reader(column: Column) -> tuple[Callable[[Any], Any], Any]:
    """Return how one object cell is read, None for whatever is not of the declared kind, and the Arrow type."""
    import datetime

    import pyarrow as pa

    if isinstance(column, (Category, Identifier)):
        return lambda c: c if isinstance(c, str) else str(c) if type(c) is int else None, pa.string()
    if isinstance(column, Boolean):
        return lambda c: c if isinstance(c, bool) else None, pa.bool_()
    if isinstance(column, Date):
        return lambda c: c if type(c) is datetime.date else None, pa.date32()

    def number(cell: Any) -> float | None:
        if isinstance(cell, bool) or not isinstance(cell, (int, float)):
            return None
        return float(cell) if abs(cell) < 1e300 else float("inf") * (1 if cell > 0 else -1) if cell == cell else None

    return number, pa.float64()
