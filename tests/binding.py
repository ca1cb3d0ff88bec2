"""Exact vectors of a query that is bound once and asked of one small table after another."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa

import sordino as sd
from planning import data_access_of, engine_behind
from sordino.ask.engines.cells import refine_times
from sordino.ask.engines.duckdb import _fetch_row
from sordino.ask.engines.instances import fetch_table
from sordino.ask.engines.parquet import mend_arrow
from sordino.ask.engines.product_sums import add_products


class _Held:
    """A table that DuckDB reads through its Arrow stream, anew by each scan."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class BoundVectors:
    """A query whose statements are bound once, over a curator's table in memory, in whose place others are put.

    DuckDB takes many times as long to open a table and to bind a statement as to run it on one row.
    """

    def __init__(self, curator: sd.Curator, table: pa.Table, query: Any, domain: sd.Domain) -> None:
        self._query = query
        self._domain = domain
        self._held = _Held(mend_arrow(refine_times(table)))
        # The engine is kept: its connection closes with it.
        self._engine = engine_behind(curator)
        self._curator = curator
        self._connection = self._engine._connection
        self._connection.unregister("source")
        self._connection.register("source", self._held)
        access = data_access_of(curator)
        self._fetch: list[Any] = []
        for place, scan in enumerate(query.scans(domain)):
            statement = access.write(scan.select(access.primitives()))
            self._connection.execute(f"PREPARE scan{place} AS {statement.text}")
            if statement.products is not None:
                self._fetch.append(functools.partial(add_products, sums=statement.products))
            else:
                self._fetch.append(_fetch_row if statement.one_row else fetch_table)

    def of(self, table: pa.Table) -> list[Any]:
        """Return the exact vectors of the query on a table of the same columns."""
        self._held.table = mend_arrow(refine_times(table))
        scans = [fetch(self._connection, f"EXECUTE scan{place}") for place, fetch in enumerate(self._fetch)]
        return list(self._query.exact_vectors(scans, self._domain))
