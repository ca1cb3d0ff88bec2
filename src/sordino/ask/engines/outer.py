"""Statements over released tables, run in a DuckDB instance in which no private table ever was.

The instance opens no file, resolves no Python variable, and its settings are locked. A statement has limits of rows, memory
and seconds. Everything here sees released values and declarations alone.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.instances import fetch_table, shared_instance
from sordino.ask.engines.sql_text import quote_name
from sordino.core.domain import Boolean, Category, Date, DateTime, Domain, Identifier, Integer
from sordino.core.errors import QuestionRefused

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# Types of an answer's columns: a number, text, a boolean, a day or a moment.
_CELLS = ("VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL", "DOUBLE", "FLOAT", '"NULL"')
_MOST_ROWS = 1_000_000
_SECONDS = 10.0


def describe(text: str, tables: Mapping[str, Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the names and types of a statement's columns over empty tables of these columns and types.

    Raises QuestionRefused, with DuckDB's message about the text, where it cannot be run.
    """
    import duckdb

    connection = shared_instance("outer").root.cursor()
    refusal = ""
    items: list[tuple[str, str]] = []
    try:
        for name, columns in tables.items():
            typed = ", ".join(f"{quote_name(column)} {kind}" for column, kind in columns)
            connection.execute(f"CREATE TEMP TABLE {quote_name(name)} ({typed})")
        description = f"DESCRIBE {text}"
        # No text that sqlglot wrote holds a second statement. One that did could define a function for all later statements.
        if len(connection.extract_statements(description)) != 1:
            raise QuestionRefused("the text is not one SELECT")
        rows = [row[:2] for row in connection.execute(description).fetchall()]
        items = [(str(name), str(kind)) for name, kind in rows]
    except duckdb.Error as error:
        # The tables are empty, so the message is about the text and declared names alone.
        refusal = str(error).split("\n")[0][:300]
    finally:
        connection.close()
    if refusal:
        raise QuestionRefused(f"what surrounds the private questions cannot be run: {refusal}")
    return items


def check_cells(items: Sequence[tuple[str, str]]) -> None:
    """Raise QuestionRefused for a column of another type than numbers, text, booleans, days and moments."""
    for name, kind in items:
        whole = kind.endswith(("INT", "INTEGER"))
        if kind.endswith("]") or not (whole or kind.startswith(_CELLS)):
            raise QuestionRefused(
                f"column {name!r} would hold {kind.split('(')[0]}: cast it to text, a number or a day"
            )


def run(text: str, tables: Mapping[str, pa.Table], types: Mapping[str, Sequence[tuple[str, str]]]) -> pa.Table | None:
    """Return a statement's answer over released tables, None where it fails or exceeds a limit."""
    with limited_connection() as connection:
        for name, table in tables.items():
            add_table(connection, name, table, types[name])
        answer = fetch_table(connection, f"SELECT * FROM ({text}) LIMIT {_MOST_ROWS + 1}")
        return None if answer.num_rows > _MOST_ROWS else answer
    return None


@contextlib.contextmanager
def limited_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that is interrupted after the limit of seconds; an error of DuckDB ends the block silently."""
    import duckdb

    connection: duckdb.DuckDBPyConnection = shared_instance("outer").root.cursor()
    timer = threading.Timer(_SECONDS, connection.interrupt)
    timer.start()
    try:
        yield connection
    except duckdb.Error:
        # Its message may hold released values: the caller reports that there is no answer.
        return
    finally:
        timer.cancel()
        connection.close()


def add_table(
    connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table, columns: Sequence[tuple[str, str]]
) -> None:
    """Create a temporary table, its columns in order under these names and types; a cell that cannot be cast is NULL."""
    connection.register("sordino_incoming", table)
    cells = ", ".join(
        f"TRY_CAST({quote_name(source)} AS {kind}) AS {quote_name(column)}"
        for source, (column, kind) in zip(table.column_names, columns, strict=True)
    )
    connection.execute(f"CREATE TEMP TABLE {quote_name(name)} AS SELECT {cells} FROM sordino_incoming")
    connection.unregister("sordino_incoming")


def declared_types(domain: Domain) -> list[tuple[str, str]]:
    """Return the columns of a declared table with their types in DuckDB."""
    return [(name, _type(column)) for name, column in domain.stored.items()]


def _type(column: Any) -> str:
    kinds: tuple[tuple[type, str], ...] = (
        (Boolean, "BOOLEAN"),
        (DateTime, "TIMESTAMP"),
        (Date, "DATE"),
        (Integer, "BIGINT"),
    )
    for kind, name in kinds:
        if isinstance(column, kind):
            return name
    if isinstance(column, Category):
        values = [v for v in column.values if v is not None]
        whole = values and all(isinstance(v, int) and not isinstance(v, bool) for v in values)
        return "BIGINT" if whole else "VARCHAR"
    return "VARCHAR" if isinstance(column, Identifier) else "DOUBLE"


def plain_cells(column: pa.ChunkedArray) -> list[Any]:
    """Return the cells of a column as plain values; numbers that are not finite are missing."""
    from decimal import Decimal

    cells = []
    for cell in column.to_pylist():
        value = cell
        if isinstance(cell, Decimal):
            value = int(cell) if cell == cell.to_integral_value() else float(cell)
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        cells.append(value)
    return cells
