"""Writing rows as CSV or Parquet, a table at a time, so that Sordino reads them as they are. It does not know whose rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    import pyarrow as pa

_ENDINGS = (".csv", ".parquet", ".pq")


def check_ending(path: Path) -> None:
    """Raise DeclarationError unless the file's name ends in .csv, .parquet or .pq."""
    if path.suffix.lower() not in _ENDINGS:
        raise DeclarationError(f"{path} must end in .csv or .parquet")


def write_tables(path: Path, tables: Iterator[pa.Table], *, ending: str) -> None:
    """Write tables of equal columns, one at least, to one file, as CSV or Parquet by its ending."""
    if ending.lower() == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(csv_lines(tables))
        return
    import pyarrow.parquet as pq

    first = next(tables)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def csv_lines(tables: Iterator[pa.Table]) -> Iterator[str]:
    """Yield the text of a CSV file, a table at a time; only what needs quotes has them, and a missing value is empty."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    for i, table in enumerate(tables):
        # `needed` quotes every text, and Sordino reads no quotes where none are declared.
        style = "needed" if _needs_quotes(table) else "none"
        if i == 0:
            head = io.StringIO()
            csv.writer(head, lineterminator="\n").writerow(table.column_names)
            yield head.getvalue()
        sink: Any = pa.BufferOutputStream()
        arrow.write_csv(table, sink, arrow.WriteOptions(include_header=False, quoting_style=style))
        yield sink.getvalue().to_pybytes().decode()


def _needs_quotes(table: pa.Table) -> bool:
    """Return whether a text of a table has a character that a CSV cell needs quotes for, or is empty."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [c for c in table.columns if pa.types.is_string(c.type)]
    labels = {v for c in texts for v in pc.unique(c).to_pylist() if v is not None}
    return any(not v or any(mark in v for mark in ',"\r\n') for v in labels)
