"""Rows of every combination of some declared cells, over which DuckDB computes the public part of a question.

No private row is here: the cells come from declarations and the question, joined tables are public ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.cells import refine_times
from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.instances import shared_instance
from sordino.ask.engines.sql_text import public_name, quote_name, write_tree
from sordino.ask.engines.table_layout import TableLayout
from sordino.core.domain import Domain

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


class DeclaredRows:
    """All combinations of the cells of some columns, as a table of one row each, beside public tables.

    Each has a connection of its own; close it.
    """

    def __init__(self, cells: Mapping[str, pa.Array], *, domain: Domain, public: Mapping[str, pa.Table]) -> None:
        import pyarrow as pa

        self._connection = shared_instance("declared").root.cursor()
        parts = []
        for place, (name, values) in enumerate(cells.items()):
            self._connection.register(f"sordino_values_{place}", pa.table({name: values}))
            parts.append(f"sordino_values_{place}")
        self._connection.execute(f'CREATE TEMP VIEW "source" AS SELECT * FROM {" CROSS JOIN ".join(parts)}')
        for name, table in public.items():
            self._connection.register(public_name(name), refine_times(table))
        joinable = {name: self._schema(public_name(name)) for name in public}
        self._layout = TableLayout(self._schema("source"), domain, None, None, public=joinable)

    def _schema(self, relation: str) -> dict[str, str]:
        from sordino.ask.engines.duckdb import kind_of

        rows: list[Any] = self._connection.execute(f"DESCRIBE {quote_name(relation)}").fetchall()
        return {name: kind_of(kind) for name, kind, *_ in rows if not name.startswith("sordino_key_")}

    @property
    def primitives(self) -> DuckDBPrimitives:
        """The primitives to build one tree with."""
        return DuckDBPrimitives(self._layout)

    def run(self, select: exp.Select) -> list[tuple[Any, ...]] | None:
        """Return the rows of a tree's answer; None where DuckDB cannot compute it, for want of memory say."""
        import duckdb

        try:
            return self._connection.execute(write_tree(select)).fetchall()
        except duckdb.Error:
            return None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
