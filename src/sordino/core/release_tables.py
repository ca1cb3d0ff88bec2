"""The tables of a tabulation, out of the release that holds all of their cells one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import UnknownName, check_confidence, nearest
from sordino.core.estimates.estimate import take_rows
from sordino.core.estimates.table_cells import TableCells, name_table
from sordino.core.lazy import load_feature
from sordino.core.release_exports import arrow_table

if TYPE_CHECKING:
    import pyarrow as pa

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
