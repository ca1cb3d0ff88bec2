"""What is computed from answers: a statement over released tables, in a DuckDB instance in which no private table ever was.

The instance opens no file, resolves no name of Python's, and its settings are locked. A statement has limits of rows, memory
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

# What a column of an answer may hold: a number, text, a truth, a day or a moment.
_CELLS = ("VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL", "DOUBLE", "FLOAT", '"NULL"')
_MOST_ROWS = 1_000_000
_SECONDS = 10.0


def describe(text: str, tables: Mapping[str, Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the names and types of a statement's columns over tables of these columns and types, none of which has a row.

    Raises QuestionRefused, in DuckDB's words about the text, where it cannot be run.
    """
    import duckdb

    connection = shared_instance("outer").root.cursor()
    refusal = ""
    described: list[tuple[str, str]] = []
    try:
        for name, columns in tables.items():
            typed = ", ".join(f"{quote_name(column)} {kind}" for column, kind in columns)
            connection.execute(f"CREATE TEMP TABLE {quote_name(name)} ({typed})")
        description = f"DESCRIBE {text}"
        # No text that sqlglot wrote holds a second statement. One that did could define a function for all who ask after.
        if len(connection.extract_statements(description)) != 1:
            raise QuestionRefused("the text is not one SELECT")
        rows = [row[:2] for row in connection.execute(description).fetchall()]
        described = [(str(name), str(kind)) for name, kind in rows]
    except duckdb.Error as error:
        # No row was there, so that the words are about the text and declared names alone.
        refusal = str(error).split("\n")[0][:300]
    finally:
        connection.close()
    if refusal:
        raise QuestionRefused(f"what surrounds the private questions cannot be run: {refusal}")
    return described


def check_cells(described: Sequence[tuple[str, str]]) -> None:
    """Raise QuestionRefused for a column that holds anything but numbers, text, truths, days and moments."""
    for name, kind in described:
        whole = kind.endswith(("INT", "INTEGER"))
        if kind.endswith("]") or not (whole or kind.startswith(_CELLS)):
            raise QuestionRefused(
                f"column {name!r} would hold {kind.split('(')[0]}: cast it to text, a number or a day"
            )


def run(text: str, tables: Mapping[str, pa.Table], types: Mapping[str, Sequence[tuple[str, str]]]) -> pa.Table | None:
    """Return a statement's answer over released tables, None where it fails or passes a limit."""
    with limited_connection() as connection:
        for name, table in tables.items():
            add_table(connection, name, table, types[name])
        answer = fetch_table(connection, f"SELECT * FROM ({text}) LIMIT {_MOST_ROWS + 1}")
        return None if answer.num_rows > _MOST_ROWS else answer
    return None


@contextlib.contextmanager
def limited_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection that is interrupted after the limit of seconds; what DuckDB cannot do ends the block."""
    import duckdb

    connection: duckdb.DuckDBPyConnection = shared_instance("outer").root.cursor()
    timer = threading.Timer(_SECONDS, connection.interrupt)
    timer.start()
    try:
        yield connection
    except duckdb.Error:
        # Its words may hold released values: the caller says what is missing.
        return
    finally:
        timer.cancel()
        connection.close()


def add_table(
    connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table, columns: Sequence[tuple[str, str]]
) -> None:
    """Make a table of a connection's own, its columns by their place under these names and types; a wrong cell is NULL."""
    connection.register("sordino_incoming", table)
    cells = ", ".join(
        f"TRY_CAST({quote_name(source)} AS {kind}) AS {quote_name(column)}"
        for source, (column, kind) in zip(table.column_names, columns, strict=True)
    )
    connection.execute(f"CREATE TEMP TABLE {quote_name(name)} AS SELECT {cells} FROM sordino_incoming")
    connection.unregister("sordino_incoming")


def declared_types(domain: Domain) -> list[tuple[str, str]]:
    """Return the columns of a declared table with the types that DuckDB would hold them in."""
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
    """Return the cells of a column as plain values; what is no finite number is missing."""
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
