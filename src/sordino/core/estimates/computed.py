"""Computed columns: values that SQL made of released ones, after the noise. They have no interval."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from sordino.core.estimates.estimate import ESTIMATES, estimate_to_dict


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
    """Cells that were computed from released values: numbers, text, truth values, days, or None."""

    cells: Annotated[tuple[Any, ...], _write_cells, _read_cells]
    no_ends: str = "no interval: computed from released values"

    per_row: ClassVar[tuple[str, ...]] = ("cells",)

    def values(self) -> list[Any]:
        """Return the cells."""
        return list(self.cells)

    def errors(self, confidence: float) -> list[None]:
        """Return None for each."""
        del confidence
        return [None] * len(self.cells)

    def intervals(self, confidence: float) -> list[tuple[None, None]]:
        """Return no interval for each."""
        del confidence
        return [(None, None)] * len(self.cells)

    to_dict = estimate_to_dict
