"""Computed columns: values that SQL made of released ones, after the noise, with intervals by replicates of that noise."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sordino.core.estimates.estimate import ESTIMATES, Number, estimate_to_dict
from sordino.core.estimates.replicates import ReleasedStatement, find_ends


def _write_cells(cells: tuple[Any, ...]) -> list[Any]:
    return [{"day": cell.isoformat()} if isinstance(cell, datetime.date) else cell for cell in cells]


def _read_cells(data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise ValueError("computed cells are a list")
    cells: list[Any] = []
    for cell in data:
        if isinstance(cell, dict):
            text = cell["day"]
            cells.append(datetime.datetime.fromisoformat(text) if "T" in text else datetime.date.fromisoformat(text))
        elif cell is None or isinstance(cell, (str, int, float, bool)):
            cells.append(cell)
        else:
            raise ValueError("a computed cell is a number, text, a truth value, a day or nothing")
    return tuple(cells)


@ESTIMATES.register("computed")
@dataclass(frozen=True, slots=True)
class Computed:
    """Cells that were computed from released values: numbers, text, truth values, days, or None.

    `column` is the column's place in the answer of the statement, where it has replicates, and `places` those of its rows;
    `statement` is what they are drawn from. It stands once in a release, for all of its columns. Without it there is no
    interval, and `no_ends` says why.
    """

    cells: Annotated[tuple[Any, ...], _write_cells, _read_cells]
    no_ends: str = "no interval: computed from released values"
    column: int | None = None
    statement: ReleasedStatement | None = None
    places: tuple[int, ...] = ()

    per_row: ClassVar[tuple[str, ...]] = ("cells", "places")

    def values(self) -> list[Any]:
        """Return the cells."""
        return list(self.cells)

    def errors(self, confidence: float) -> list[Number | None]:
        """Return the larger distance from each value to an end of its interval; None where there is no end."""
        return [
            None if low is None or high is None else max(value - low, high - value)
            for value, (low, high) in zip(self.cells, self.intervals(confidence), strict=True)
        ]

    def intervals(self, confidence: float) -> list[tuple[Number | None, Number | None]]:
        """Return the interval of each cell by itself: the quantiles of its replicates; (None, None) where it has none."""
        replicates = None
        if self.statement is not None and self.column is not None:
            replicates = self.statement.replicates(confidence)
        if replicates is None:
            return [(None, None)] * len(self.cells)
        assert self.statement is not None
        rows = replicates[:, self.column, list(self.places)]
        return find_ends(self.cells, rows, confidence, centered=self.statement.is_centered)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data, without the statement, which the release holds."""
        data = estimate_to_dict(Computed(self.cells, self.no_ends))
        del data["column"], data["statement"], data["places"]
        if self.column is None:
            return data
        # places are stored only where rows were reordered or left out afterwards
        moved = self.places != tuple(range(len(self.cells)))
        return {**data, "column": self.column, **({"places": list(self.places)} if moved else {})}
