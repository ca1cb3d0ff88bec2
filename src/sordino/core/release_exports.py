"""A release as an Arrow table, and as a file. It sees released values alone."""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.columns import NumberColumn, TiledColumn

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are written as CSV at once.
_BATCH = 1 << 16
# the key of a Parquet file's metadata that holds the release as JSON
ABOUT = "sordino.release"


def arrow_table(columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]) -> pa.Table:
    """Return columns as an Arrow table; a column whose cells are all missing, or that is empty, has its type from `kinds`.

    Whole numbers are 64-bit integers if all cells are and fit, else doubles.
    """
    import pyarrow as pa

    arrays = {}
    for name, cells in columns.items():
        if isinstance(cells, TiledColumn):
            empty = all(value is None for values, _, _ in cells.blocks for value in values)
            arrays[name] = cells.to_arrow(_arrow_type(kinds[name]) if empty and name in kinds else None)
        elif isinstance(cells, NumberColumn) and len(cells) and np.asarray(cells).dtype != object:
            arrays[name] = pa.array(np.asarray(cells))
        elif all(c is None for c in cells):
            arrays[name] = pa.array(cells, _arrow_type(kinds[name]) if name in kinds else None)
        elif any(isinstance(c, float) for c in cells) or any(isinstance(c, int) and abs(c) >= 2**63 for c in cells):
            arrays[name] = pa.array([None if c is None else float(c) for c in cells], type=pa.float64())
        else:
            arrays[name] = pa.array(cells)
    return pa.table(arrays)


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    name, _, zone = kind.partition(" ")
    types = {"text": pa.string(), "whole": pa.int64(), "real": pa.float64(), "truth": pa.bool_(), "day": pa.date32()}
    return pa.timestamp("us", zone or None) if name == "moment" else types[name]


def label_kind(labels: Sequence[Any]) -> str:
    """Return the kind of the declared labels of a key, for a column whose answer has no row.

    >>> label_kind([None, False]), label_kind([1, 2]), label_kind([])
    ('truth', 'whole', 'text')
    >>> label_kind([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)])
    'moment UTC'
    """
    kinds = (
        (bool, "truth"),
        (int, "whole"),
        (float, "real"),
        (datetime.datetime, "moment"),
        (datetime.date, "day"),
        (object, "text"),
    )
    first = next((label for label in labels if label is not None), "")
    if isinstance(first, datetime.datetime) and first.tzinfo is not None:
        return f"moment {first.tzinfo}"
    return next(kind for of, kind in kinds if isinstance(first, of))


def write_csv(table: pa.Table, path: str | Path) -> None:
    """Write a table as CSV in UTF-8 with a header line, numbers in full precision, missing values as empty cells."""
    Path(path).write_bytes(csv_text(table))


def csv_text(table: pa.Table) -> bytes:
    """Return the text that `write_csv` writes, in UTF-8."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(table.column_names)
    # In batches, as each cell becomes an object of its own.
    for batch in table.to_batches(max_chunksize=_BATCH):
        lines.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return text.getvalue().encode()


def write_parquet(table: pa.Table, path: str | Path, *, about: str) -> None:
    """Write a table as Parquet, with the text `about` in its metadata."""
    import pyarrow.parquet as pq

    metadata = table.schema.metadata or {}
    pq.write_table(table.replace_schema_metadata({**metadata, ABOUT: about}), path)
