"""Practice without spending: the engine of a made-up table of the declared shape. It may not know the true table."""

from __future__ import annotations

from sordino.curator.table_context import TableContext
from sordino.datasets.dummy_table import dummy
from sordino.engines.duckdb import DuckDBEngine
from sordino.engines.public import public_cells

__all__ = ["PRACTICE_ROWS", "open_practice_engine"]

PRACTICE_ROWS = 1000


def open_practice_engine(table: TableContext) -> DuckDBEngine:
    """Return an engine over a made-up table of the declared columns, joined with the true public tables."""
    unit = table.neighbors.unit
    rows = dummy(table.domain, rows=PRACTICE_ROWS, unit=unit)
    return DuckDBEngine(rows, domain=table.domain, unit=unit, public=public_cells(table.public))
