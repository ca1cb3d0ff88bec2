"""PostgreSQL: the server aggregates and no row leaves it; transactions only read, and a question sees one state of the data."""

from __future__ import annotations

import copy
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.forks import leave_at_fork
from sordino.ask.engines.own_sql import people_name, public_name
from sordino.ask.engines.postgres_primitives import PostgresPrimitives, coin_text
from sordino.ask.engines.quoting import quote_name
from sordino.ask.engines.readers.postgres_tables import (
    hold_columns,
    is_lost,
    open_connection,
    postgres_error,
    read_columns,
    rows_of,
)
from sordino.ask.engines.table_layout import PeopleTable, TableLayout, check_columns
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, SourceError
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Source

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa
    from sqlglot import exp

_READABLE = frozenset(
    ["BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP"]
)
_READABLE |= {"TIMESTAMPTZ", "UUID"}
_ITEMS = _READABLE - {"TIMESTAMP", "TIMESTAMPTZ", "UUID"}
_ARRAYS = {  # how the types are held in which a public table is sent
    "BOOLEAN": "BOOLEAN",
    "NUMERIC": "DECIMAL",
    "BIGINT": "BIGINT",
    "DOUBLE PRECISION": "DOUBLE",
    "DATE": "DATE",
    "TEXT": "VARCHAR",
}
_SOURCE = "sordino_source"
_LONGEST_NAME = 63  # bytes


class PostgresEngine:
    """Answer trees over one table or query of a server. Public tables are sent with each question that joins one.

    Other tables of the same people can be joined where they lie in the same database. Raises SourceError where the server,
    the table or a right is missing, DeclarationError where the table lacks a declared column or no declared type reads it.
    """

    def __init__(
        self,
        source: Source,
        *,
        domain: Domain,
        unit: PrivacyUnit | None,
        public: Mapping[str, pa.Table] | None = None,
        people: Mapping[str, PeopleTable] | None = None,
    ) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._own = PeopleTable(source, domain, unit)
        self._public = dict(public or {})
        self._people = dict(people or {})
        _check_names(self._public, self._people)
        with self._lend() as connection:
            self._held = self._layout(connection, _SOURCE, self._own)
        self._public = {name: _sendable(cells) for name, cells in self._public.items()}
        kinds = {name: _send_kinds(cells) for name, cells in self._public.items()}
        self._held = replace(self._held, public=kinds)
        self._tables: Mapping[str, PeopleTable] = {_SOURCE: self._own}
        leave_at_fork(self)

    def leave_to_parent(self) -> None:
        """Let the idle connections be the parent's, without a word to the server; this process opens its own."""
        self._lock = threading.Lock()  # a thread of the parent may have held the old one
        self._idle = []  # libpq leaves a connection of another process open when it goes

    @property
    def primitives(self) -> PostgresPrimitives:
        """The words to build one tree with."""
        return PostgresPrimitives(self._held)

    @property
    def physical(self) -> Mapping[str, str]:
        """How the server holds each declared column."""
        return self._held.physical

    @property
    def unreadable_rows(self) -> bool:
        """Whether a row of this source may be lost as a whole: no."""
        return False

    def open_tables(self, names: Collection[str]) -> PostgresEngine:
        """Return the engine that also reads these tables of the same people; it shares this one's connections."""
        if not names:
            return self
        wider = copy.copy(self)
        layouts = {}
        with self._lend() as connection:
            for name in sorted(names):
                other = self._people[name]
                if not isinstance(other.source, Source) or other.source.path != self._source.path:
                    raise SourceError(
                        f"table {name!r} lies elsewhere: private tables can be joined where both lie in one PostgreSQL "
                        "database, under the same URL, or both are read by DuckDB"
                    )
                layouts[name] = self._layout(connection, people_name(name), other)
                wider._tables = {**wider._tables, people_name(name): other}
        wider._held = replace(self._held, people=layouts)
        return wider

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        """Hold one state of the data for all that is run; raises SourceError where a table is gone, or held otherwise."""
        with self._lend() as connection:
            for name, table in self._tables.items():
                held = self._held.find(name)
                now = self._layout(connection, name, table)
                if (now.physical, now.items, now.digits) != (held.physical, held.items, held.digits):
                    assert isinstance(table.source, Source)
                    raise SourceError(
                        f"relation {table.source.relation!r} is not as it was when it was opened: open it anew"
                    )
            yield PostgresSnapshot(connection, self._held, self._public, self._tables)

    def write(self, select: exp.Select) -> Statement:
        """Return PostgreSQL's text of a tree; nothing is read."""
        return Statement(select.sql(dialect=PostgresPrimitives.dialect))

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text, on a state of its own; raises EngineFailed."""
        try:
            with self.snapshot() as held:
                return held.run(select)
        except SourceError:
            raise EngineFailed(cause="the server, or the table on it, is not there any more") from None

    def sample(self, *, threshold: int, key: bytes) -> PostgresSnapshot:
        """Raise EngineFailed: a sample is drawn of one state of the data."""
        del threshold, key
        raise EngineFailed("a sample is drawn within a snapshot")

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            idle, self._idle[:] = self._idle[:], []
        for connection in idle:
            connection.close()

    @contextmanager
    def _lend(self) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection that nobody else uses; one that broke, or is at work still, is closed and not used again."""
        connection = None
        while connection is None:
            with self._lock:
                kept = self._idle.pop() if self._idle else None
            connection = open_connection(self._source) if kept is None else kept if _is_alive(kept) else None
        try:
            yield connection
        finally:
            if _is_free(connection):
                with self._lock:
                    self._idle.append(connection)
            else:
                connection.close()

    def _layout(self, connection: psycopg.Connection[Any], name: str, table: PeopleTable) -> TableLayout:
        """Return how a table is held; raises DeclarationError where that is not as declared."""
        assert isinstance(table.source, Source)
        held = read_columns(connection, table.source)
        check_columns(table, held, readable=_READABLE, items=_ITEMS, cast='in a view, or in relation = "SELECT ...",')
        hold_columns(connection, table.source, table.domain.stored)
        physical = {column: held[column].kind for column in table.domain.stored}
        items = {column: held[column].item for column in table.domain.lists}
        stated = {column: digits for column in physical if (digits := held[column].digits) is not None}
        return TableLayout(
            physical, table.domain, table.unit, None, source=quote_name(name), items=items, digits=stated
        )


@dataclass(slots=True)
class PostgresSnapshot:
    """Answer trees over one state of the data, within one transaction; perhaps over a sample of it."""

    connection: psycopg.Connection[Any]
    layout: TableLayout
    public: Mapping[str, pa.Table]
    tables: Mapping[str, PeopleTable]
    key: str | None = None  # of the sample's coins
    unreadable_rows: bool = field(default=False, init=False)

    @property
    def primitives(self) -> PostgresPrimitives:
        """The words to build one tree with."""
        return PostgresPrimitives(self.layout)

    def open_tables(self, names: Collection[str]) -> PostgresSnapshot:
        """Return the snapshot itself: it reads the tables that its engine was opened with."""
        del names
        return self

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        """Give the snapshot itself."""
        yield self

    def write(self, select: exp.Select) -> Statement:
        """Return PostgreSQL's text of a tree; nothing is read."""
        return Statement(select.sql(dialect=PostgresPrimitives.dialect))

    def run(self, select: exp.Select | Statement) -> pa.Table:
        """Return the exact answer of a tree, or of its text; raises EngineFailed, without any of the server's words."""
        text = (select if isinstance(select, Statement) else self.write(select)).text
        parts = [
            f"{quote_name(name)} AS NOT MATERIALIZED ({_select(table, self._kinds(name))})"
            for name, table in self.tables.items()
        ]
        values: list[Any] = [] if self.key is None else [self.key]
        for name, cells in self.public.items():
            if quote_name(public_name(name)) in text:
                parts.append(_send(public_name(name), cells, values))
        cause = ""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(f"WITH {', '.join(parts)} {text}", values)
                return _arrow(cursor)
        except postgres_error() as error:  # whatever the server says may quote a cell: none of it goes on
            cause = _cause(getattr(error, "sqlstate", None))
        raise EngineFailed(cause=cause)

    def _kinds(self, name: str) -> Mapping[str, str]:
        return self.layout.find(name).physical

    def sample(self, *, threshold: int, key: bytes) -> PostgresSnapshot:
        """Return a Poisson sample: each unit is in with chance threshold / 2^64, by coins keyed by `key`.

        Where each row is a unit, its name is all of its declared cells and its number among rows like it. Theorem: which of
        several rows that are alike has which number does not matter to any question, the names are distinct, and those of
        the other rows stay as they are where a row is added; so the coins are as of `sampled`.
        """
        sampled = PostgresPrimitives(self.layout).sample_source(lambda named: coin_text(named, threshold=threshold))
        held = replace(self.layout, source=sampled)
        return PostgresSnapshot(self.connection, held, self.public, self.tables, key.hex())

    def close(self) -> None:
        """Leave the connection to the engine."""


def _check_names(public: Mapping[str, pa.Table], people: Collection[str]) -> None:
    """Raise DeclarationError for names that the server, which cuts them, would take for one."""
    groups = [[public_name(n) for n in public], [people_name(n) for n in people]]
    for names in (*groups, *(cells.schema.names for cells in public.values())):
        found: dict[bytes, str] = {}
        for name in names:
            other = found.setdefault(name.encode()[:_LONGEST_NAME], name)
            if other != name:
                one, two = (n.removeprefix(public_name("")).removeprefix(people_name("")) for n in (other, name))
                raise DeclarationError(
                    f"{one!r} and {two!r} are one name to PostgreSQL, which looks at {_LONGEST_NAME} bytes: rename one"
                )


def _is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a connection that lay idle still reaches the server."""
    try:
        connection.execute("SELECT 1")
    except postgres_error():
        connection.close()
        return False
    return _is_free(connection)


def _is_free(connection: psycopg.Connection[Any]) -> bool:
    """End a transaction and return whether the connection can be used again."""
    try:
        connection.rollback()
    except postgres_error():  # it broke, or is at work still
        return False
    return not connection.closed


def _select(table: PeopleTable, kinds: Mapping[str, str]) -> str:
    """Return the declared columns of a table, text by its bytes."""
    assert isinstance(table.source, Source)
    cells = [
        f'CAST({name} AS TEXT) COLLATE "C" AS {name}' if kinds[column] == "VARCHAR" else name
        for column in table.domain.stored
        for name in [quote_name(column)]
    ]
    return f"SELECT {', '.join(cells)} FROM {rows_of(table.source)}"


def _sendable(cells: pa.Table) -> pa.Table:
    """Return a public table in types that can be sent: text for what has no array type of ours, none of it with a NUL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(cells.schema):
        kind, cell = _array(column.type), cells.column(place)
        if kind == "TEXT":
            cell = cell.cast(pa.string())
            cell = pc.if_else(pc.match_substring(cell, "\0"), pa.scalar(None, pa.string()), cell)
        cells = cells.set_column(place, column.name, cell)
    return cells


def _send_kinds(cells: pa.Table) -> dict[str, str]:
    """Return how the columns of a public table are held once they are sent."""
    found = {column.name: _ARRAYS[_array(column.type)] for column in cells.schema}
    return {name: kind for name, kind in found.items() if not name.startswith("sordino_key_")}


def _array(kind: Any) -> str:
    """Return the type of the server's in which cells of an Arrow type are sent."""
    import pyarrow as pa

    tests = {
        "BOOLEAN": pa.types.is_boolean,
        "NUMERIC": lambda k: pa.types.is_decimal(k) or pa.types.is_uint64(k),
        "BIGINT": pa.types.is_integer,
        "DOUBLE PRECISION": pa.types.is_floating,
        "DATE": pa.types.is_date32,
    }
    return next((word for word, test in tests.items() if test(kind)), "TEXT")


def _send(name: str, cells: pa.Table, values: list[Any]) -> str:
    """Return a sub-query with the cells of a public table, which become parameters."""
    arrays, named, shown = [], [], []
    for column in cells.schema:
        kind, quoted = _array(column.type), quote_name(column.name)
        values.append(cells[column.name].to_pylist())
        arrays.append(f"CAST(${len(values)} AS {kind}[])")
        named.append(quoted)
        shown.append(f'{quoted} COLLATE "C" AS {quoted}' if kind == "TEXT" else quoted)
    rows = f"unnest({', '.join(arrays)}) AS sordino_rows({', '.join(named)})"
    return f"{quote_name(name)} AS MATERIALIZED (SELECT {', '.join(shown)} FROM {rows})"


def _arrow(cursor: Any) -> pa.Table:
    """Return the answer as Arrow; numeric becomes 64-bit numbers where all are so small."""
    import pyarrow as pa

    names = [column.name for column in cursor.description]
    numeric = [column.type_code == 1700 for column in cursor.description]
    columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
    made = []
    for cells, wide in zip(columns, numeric, strict=True):
        made.append(_whole_numbers(cells) if wide else pa.array(cells))
    return pa.table(made, names=names)


def _whole_numbers(cells: Sequence[Any]) -> pa.Array[Any]:
    """Return numeric cells; those that are no whole numbers, which only public tables hold, as floats."""
    import pyarrow as pa

    if not all(cell is None or (cell.is_finite() and cell == cell.to_integral_value()) for cell in cells):
        return pa.array([None if cell is None else float(cell) for cell in cells], pa.float64())
    numbers = [None if cell is None else int(cell) for cell in cells]
    try:
        return pa.array(numbers, pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        return pa.array(cells, pa.decimal128(38, 0))


def _cause(state: str | None) -> str:
    """Return what happened, by the class of an error alone; nothing for those that rows could bring about."""
    if is_lost(state):
        return "the connection to the server was lost"
    return {
        "57014": "the server stopped the question: its statement_timeout ran out, or someone cancelled it",
        "42501": "this user has no right to read the table",
        "42P01": "the table is not there any more",
        "42703": "a column is not there any more",
        "53100": "the server's disk is full",
        "53400": "the server's temp_file_limit is too low for the question",
        "53200": "the server has no memory left",
    }.get(state or "", "")
