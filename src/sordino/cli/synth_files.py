"""A file of raw rows, read openly for comparison: NON-PRIVATE, and marked so wherever it shows. It knows files, no model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.domain import Domain
    from sordino.source import Csv

__all__ = ["open_table"]


def open_table(path: Path, domain: Domain, *, csv: Csv) -> pa.Table:
    """Return the declared columns of a Parquet or CSV file, cells read as declared; what cannot be read is missing.

    NON-PRIVATE: raw rows. Raises SourceError where the file or a column is missing; no cell is ever in an error.
    """
    import pyarrow as pa

    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    parquet = path.suffix.lower() in (".parquet", ".pq")
    try:
        table = _parquet(path) if parquet else _csv(path, csv)
    except (pa.ArrowInvalid, OSError):
        table = None
    if table is None:
        kind = "Parquet" if parquet else "CSV with the cells that its header states"
        raise SourceError(f"{path} cannot be read as {kind}")
    absent = [n for n in domain if n not in table.column_names]
    if absent:
        raise SourceError(
            f"{path} has no column {absent[0]!r}, which the model has; it has {', '.join(table.column_names)}"
        )
    made: dict[str, Any] = {}
    for name in domain:
        try:
            made[name] = _read(table.column(name), domain[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            made[name] = None
        if made[name] is None:
            raise SourceError(
                f"column {name!r} of {path} does not hold what is declared: {type(domain[name]).__name__}"
            )
    return pa.table(made)


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _csv(path: Path, rules: Csv) -> Any:
    """Return every column as text, trimmed, null where it is empty or one of the null values."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    names: Sequence[str] | None = rules.names if not rules.header else None
    with path.open(encoding="utf-8-sig") as file:
        first = file.readline().rstrip("\r\n").split(rules.delimiter)
    found = [n.strip().strip('"') for n in first] if names is None else list(names)
    raw = csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=found, skip_rows=1 if names is None else 0),
        parse_options=csv.ParseOptions(delimiter=rules.delimiter),
        convert_options=csv.ConvertOptions(column_types=dict.fromkeys(found, pa.string()), strings_can_be_null=False),
    )
    nothing = pa.array(["", *rules.null_values])
    columns = []
    for name in found:
        text = pc.utf8_trim_whitespace(raw[name])
        columns.append(pc.if_else(pc.is_in(text, value_set=nothing), pa.scalar(None, pa.string()), text))
    return pa.table(columns, names=found)


def _read(cells: Any, column: Any) -> Any:
    """Return cells as a declared type; what cannot be read as it is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from sordino.domain import Boolean, Category, Date

    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if isinstance(column, Category):
        return (
            cells.cast(pa.string())
            if isinstance(column.values[0], str)
            else _matched(cells, r"^-?[0-9]{1,18}$", pa.int64())
        )
    if isinstance(column, Boolean):
        if not pa.types.is_string(cells.type):
            return cells.cast(pa.bool_())
        low = pc.utf8_lower(cells)
        known = pc.is_in(low, value_set=pa.array(["true", "false", "t", "f", "1", "0"]))
        true = pc.is_in(low, value_set=pa.array(["true", "t", "1"]))
        return pc.if_else(known, true, pa.scalar(None, pa.bool_()))
    if isinstance(column, Date):
        return _matched(cells, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", pa.date32())
    return _matched(cells, r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$", pa.float64())


def _matched(cells: Any, pattern: str, kind: Any) -> Any:
    """Return text cells of a pattern as a type, others missing; cells that are no text are cast."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return cells.cast(kind)
    return pc.if_else(pc.match_substring_regex(cells, pattern), cells, pa.scalar(None, cells.type)).cast(kind)
