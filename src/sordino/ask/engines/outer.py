"""Statements over released tables, run in a DuckDB instance in which no private table ever was.

The instance opens no file, resolves no Python variable, and its settings are locked. A statement has limits of rows, memory
and seconds. Everything here sees released values and declarations alone.

Over replicates of the blocks' answers the outside runs as one query for all, by DuckDB's lateral join: the table of a block
holds the rows of all replicates, and the outside reads those of one. Once a replicate it would take 1.4 ms each, mostly for
planning; one query over all takes a tenth of that.
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
import functools
import re
from typing import TYPE_CHECKING

import numpy as np

from sordino.ask.queries.sql.noise_lineage import (
    REPLICATE,
    SIGN,
    Answer,
    Noise,
    follow_noise,
    table_answers,
    write_replicated,
)
from sordino.ask.queries.sql.outside_select import read_outside
from sordino.core.estimates.replicates import BlockAnswer, ReleasedStatement, cells_of

if TYPE_CHECKING:
    import pyarrow as pa
import json

# Types of an answer's columns: a number, text, a boolean, a day or a moment.
_CELLS = ("VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL", "DOUBLE", "FLOAT", '"NULL"')
_MOST_ROWS = 1_000_000
_SECONDS = 10.0


def describe(text: str, tables: Mapping[str, Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the names and types of a statement's columns over empty tables of these columns and types.

    Raises QuestionRefused, with DuckDB's message about the text, where it cannot be run.
    """
    return list(_describe(text, tuple((name, tuple(columns)) for name, columns in tables.items())))


# A statement is read, planned and, when it is asked, planned again: each asks for the same columns several times. They follow
# from the text and declared names alone.
@functools.lru_cache(maxsize=256)
def _describe(text: str, tables: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]) -> tuple[tuple[str, str], ...]:
    import duckdb

    connection = shared_instance("outer").root.cursor()
    refusal = ""
    items: list[tuple[str, str]] = []
    try:
        for name, columns in tables:
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
    return tuple(items)


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


def identify_rows(names: Sequence[str], places: Sequence[int]) -> str:
    """Return SQL for the text that identifies a row, by the columns at these places."""
    if not places:
        return "''"
    return f"CAST([{', '.join(f'CAST({quote_name(names[place])} AS VARCHAR)' for place in places)}] AS VARCHAR)"


def run_replicates(statement: ReleasedStatement, drawn: Mapping[str, Mapping[str, Any]], count: int) -> Any:
    """Return the columns of the statement's answer in each replicate: floats (count + 1, columns, rows), the released first.

    `drawn` are the columns of each block that have noise, in `count` replicates. A value that is missing, no number, or depends
    on a divisor of another sign than the released one, is NaN. None where the statement fails or exceeds a limit.
    """
    if len(set(statement.identity)) < len(statement.identity):
        return None
    columns = tuple((block.name, tuple(name for name, _, _ in block.columns)) for block in statement.blocks)
    answers = tuple((name, tuple(a.columns.items()), a.hidden, a.most) for name, a in table_answers(statement).items())
    tables = tuple(block.name for block in (*statement.blocks, *statement.public))
    try:
        text, width, places, guarded = _write_text(statement.outside, tables, answers, columns, count)
    except QuestionRefused:
        return None
    names = [f"c{place}" for place in range(width)]
    cells = ", ".join(f"TRY_CAST({name} AS DOUBLE) AS {name}" for name in names)
    with limited_connection() as connection:
        for block in statement.public:
            add_table(connection, block.name, _released_table(block), _types(block))
        for block in statement.blocks:
            add_table(
                connection, block.name, _replicated_table(block, drawn[block.name], count), [*_types(block), _NUMBER]
            )

        def run(sign: int) -> Any:
            signed = re.sub(rf"\b{SIGN}\b", f"({sign})", text)
            relation = f"({signed}) AS replicates({', '.join(['number', *names])})"
            rows = f"SELECT number, {identify_rows(names, places)} AS row, {cells} FROM {relation}"
            return _arrange(fetch_table(connection, rows), statement.identity, len(names), count)

        replicates = run(1)
        if guarded and np.isnan(replicates[0]).any():
            # The released divisors of some rows are below 0.
            below = run(-1)
            replicates = np.where(np.isnan(replicates[0])[None], below, replicates)
        return replicates
    return None


# Many releases are of one statement, as those of a question that is asked each month: its text is read and written once.
@functools.lru_cache(maxsize=16)
def _write_text(
    outside: str,
    tables: tuple[str, ...],
    answers: tuple[tuple[str, tuple[tuple[str, Noise], ...], str, int], ...],
    columns: tuple[tuple[str, tuple[str, ...]], ...],
    count: int,
) -> tuple[str, int, tuple[int, ...], bool]:
    """Return SQL of all replicates, its number of columns, which of them identify a row, and whether divisors are guarded.

    Raises QuestionRefused where the statement cannot be read.
    """
    select = read_outside(outside, tables)
    noise_of = {name: Answer(dict(noises), hidden=hidden, most=most) for name, noises, hidden, most in answers}
    lineage = follow_noise(select, noise_of)
    places = tuple(place for place, noise in enumerate(lineage.columns) if not noise.noisy and not noise.why)
    return (
        write_replicated(select, lineage, dict(columns), count=count),
        len(lineage.columns),
        places,
        bool(lineage.guarded),
    )


_NUMBER = (REPLICATE, "BIGINT")


def _types(block: BlockAnswer) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind, _ in block.columns]


def _released_table(block: BlockAnswer) -> pa.Table:
    """Return a block's answer as it was released."""
    from sordino.core.release_exports import arrow_table

    names = [name for name, _, _ in block.columns]
    return arrow_table({name: list(cells_of(c)) for name, _, c in block.columns}, dict.fromkeys(names, "real"))


def _replicated_table(block: BlockAnswer, drawn: Mapping[str, Any], count: int) -> pa.Table:
    """Return the rows of all replicates, after those that were released, with the number of each."""
    import pyarrow as pa

    released = _released_table(block)
    height = released.num_rows
    table = released.take(pa.array(np.tile(np.arange(height), count + 1)))
    for name, values in drawn.items():
        cells = released.column(name)
        place = table.column_names.index(name)
        # In the released type, since a count of many digits is no double.
        again = pa.array(values.ravel()).cast(cells.type, safe=False)
        table = table.set_column(place, name, pa.chunked_array([*cells.chunks, again]))
    return table.append_column(REPLICATE, pa.array(np.repeat(np.arange(count + 1), height)))


def _arrange(table: pa.Table, identity: Sequence[str], columns: int, count: int) -> Any:
    """Return the cells by replicate, column and row of the answer; a row that a replicate lacks is NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    replicates = np.full((count + 1, columns, len(identity)), np.nan)
    rows = pc.index_in(table.column("row"), value_set=pa.array(identity, pa.string()))
    in_answer = np.asarray(pc.is_valid(rows))
    numbers = np.asarray(table.column("number"))[in_answer]
    places = np.asarray(rows.drop_null())
    for column in range(columns):
        cells = table.column(f"c{column}").to_numpy().astype(float)
        replicates[numbers, column, places] = cells[in_answer]
    return replicates


@functools.lru_cache(maxsize=512)
def item_names(text: str) -> tuple[str | None, ...] | None:
    """Return the name of each item of a SELECT, without AS as DuckDB writes it; None for a star, which stands for several.

    The text is passed to DuckDB's parser as a value: nothing in it is looked up or run. Returns None for a text that DuckDB does
    not parse as one SELECT.

    >>> item_names("SELECT COUNT(*), Sum(Qty) AS s, clip(x,0,5), * FROM t")
    ('count_star()', 's', 'clip(x, 0, 5)', None)
    """
    import duckdb

    connection = shared_instance("outer").root.cursor()
    try:
        statements = _serialize(connection, text)
        node = statements[0]["node"] if len(statements) == 1 else {}
        return tuple(_name(connection, item) for item in node["select_list"])
    except (duckdb.Error, KeyError, TypeError, RecursionError):
        return None
    finally:
        connection.close()


def _serialize(connection: Any, text: str) -> list[dict[str, Any]]:
    [(tree,)] = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    statements: list[dict[str, Any]] = json.loads(tree)["statements"]
    return statements


def _name(connection: Any, item: dict[str, Any]) -> str | None:
    if item["class"] == "STAR":
        return None
    if item.get("alias"):
        return str(item["alias"])
    if item["class"] == "COLUMN_REF":
        return str(item["column_names"][-1])
    # DuckDB names an item by its text: it is written as the only item of a SELECT
    statements = _serialize(connection, "SELECT 1")
    statements[0]["node"]["select_list"] = [item]
    tree = json.dumps({"error": False, "statements": statements})
    [(text,)] = connection.execute("SELECT json_deserialize_sql(?::JSON)", [tree]).fetchall()
    return str(text).removeprefix("SELECT ")
