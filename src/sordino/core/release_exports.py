"""A release as an Arrow table, and as a file. It sees released values alone.

The tables of a tabulation are taken out of the release that holds all of their cells one below the other.
"""

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
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sordino.core.errors import UnknownName, check_confidence, nearest
from sordino.core.estimates.estimate import take_rows
from sordino.core.estimates.table_cells import TableCells, name_table
from sordino.core.lazy import load_feature

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


# Of the columns NAME_low and NAME_high.
CONFIDENCE = 0.95


class ReleasedTables(Mapping[tuple[str, ...], "pa.Table"]):
    """The tables of a release by their columns, as they were asked for: `tables["region", "sex"]`, `tables["year"]`.

    Each is an Arrow table of its columns, then of each measure NAME, NAME_low and NAME_high, its interval at 95%.
    """

    def __init__(self, release: Any) -> None:
        self._release = release
        self._keys = {key.name: key for key in release.keys}
        self._outputs = tuple(release.outputs)
        cells: TableCells = release.outputs[0].estimate
        starts = cells.starts()
        self._rows = {
            table: range(start, end) for table, start, end in zip(cells.tables, starts, starts[1:], strict=False)
        }

    def __getitem__(self, columns: str | Sequence[str]) -> pa.Table:
        """Return one table; the order of its columns need not be that of the question."""
        return self.to_arrow(columns, confidence=CONFIDENCE)

    def to_arrow(self, columns: str | Sequence[str], *, confidence: float) -> pa.Table:
        """Return one table with its intervals at another confidence."""
        table = _read_columns(columns)
        confidence = check_confidence(confidence)
        rows = self._find_rows(table)
        data: dict[str, Any] = {}
        kinds: dict[str, str] = {}
        for name in table:
            data[name] = self._keys[name].labels[rows.start : rows.stop]
            kinds[name] = self._keys[name].kind
        for output in self._outputs:
            # Of these rows alone: there may be many tables, and many cells in others.
            estimate = take_rows(output.estimate, rows)
            data[output.name] = estimate.values()
            data[f"{output.name}_low"], data[f"{output.name}_high"] = estimate.ends(confidence)
        return arrow_table(data, kinds)

    def shown(self, columns: str | Sequence[str], *, confidence: float = CONFIDENCE) -> pa.Table:
        """Return the rows of one table that are shown, without those of suppressed cells: few of many, with `largest`."""
        table = _read_columns(columns)
        confidence = check_confidence(confidence)
        rows = self._find_rows(table)
        hidden = np.zeros(len(self._outputs[0].estimate.cells), dtype=bool)
        for output in self._outputs:
            hidden[np.asarray(output.estimate.suppressed, dtype=np.int64)] = True
        places = (rows.start + np.flatnonzero(~hidden[rows.start : rows.stop])).tolist()
        data: dict[str, Any] = {name: [self._keys[name].labels[place] for place in places] for name in table}
        for output in self._outputs:
            estimate = take_rows(output.estimate, places)
            data[output.name] = estimate.values()
            data[f"{output.name}_low"], data[f"{output.name}_high"] = estimate.ends(confidence)
        return arrow_table(data, {name: self._keys[name].kind for name in table})

    def answer(self, columns: str | Sequence[str]) -> Any:
        """Return one table as a release of its own: the same answer without the rows of all other tables."""
        table = _read_columns(columns)
        rows = self._find_rows(table)
        keys = [replace(self._keys[name], labels=self._keys[name].labels[rows.start : rows.stop]) for name in table]
        outputs = [replace(one, estimate=take_rows(one.estimate, list(rows))) for one in self._outputs]
        names = ", ".join(output.name for output in outputs)
        question = f"{names} by {' and '.join(table)}" if table else f"{names} in all"
        return replace(self._release, question=question, keys=tuple(keys), outputs=tuple(outputs), layout=())

    def with_keys(self, table: tuple[str, ...]) -> Any:
        """Return the release with the rows of one table alone, in all of its columns."""
        rows = self._rows[table]
        keys = [replace(key, labels=key.labels[rows.start : rows.stop]) for key in self._release.keys]
        outputs = [replace(one, estimate=take_rows(one.estimate, rows)) for one in self._outputs]
        return replace(self._release, keys=tuple(keys), outputs=tuple(outputs))

    def plot(self, *columns: str, confidence: float = CONFIDENCE, title: str | None = None) -> Any:
        """Return the picture of one table, `tables.plot("region", "sex")`; of all, without columns, as `release.plot()`."""
        thing = self.answer(columns) if columns else self._release
        return load_feature("plot")(thing, confidence=confidence, title=title)

    def _repr_html_(self) -> str:
        html: str = load_feature("tables_html")(self._release)
        return html

    def _find_rows(self, table: tuple[str, ...]) -> range:
        """Return where the rows of a table are, whatever the order of its columns; raises UnknownName for another."""
        rows = self._rows.get(table)
        if rows is not None:
            return rows
        same = [name for name in self._rows if sorted(name) == sorted(table)]
        if not same:
            near = nearest(name_table(table), [name_table(name) for name in self._rows])
            raise UnknownName(f"no table by {name_table(table) or 'no column'} was asked for; {near}")
        return self._rows[same[0]]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, columns: object) -> bool:
        if isinstance(columns, str):
            return (columns,) in self._rows
        return isinstance(columns, Sequence) and tuple(columns) in list(self._rows)

    def __repr__(self) -> str:
        names = [name_table(table) or "total" for table in self._rows]
        shown = names if len(names) <= 6 else [*names[:6], f"{len(names) - 6:,} more"]
        return f"<{len(names):,} tables: {'; '.join(shown)}>"


def _read_columns(columns: Any) -> tuple[str, ...]:
    """Return the columns that name a table; raises UnknownName for what is no column or list of columns."""
    if isinstance(columns, str):
        return (columns,)
    if not isinstance(columns, Sequence) or not all(isinstance(name, str) for name in columns):
        raise UnknownName(f"a table is named by its columns, such as ['region', 'sex'], not by {columns!r:.60}")
    return tuple(columns)
