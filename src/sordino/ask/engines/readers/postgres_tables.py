"""Tables of a PostgreSQL server: how it is reached, and the columns that a table or a query states; never a row.

Nothing that the server says goes into an error: it may quote a cell, and a connection's own words may hold its settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sordino.ask.engines.table_layout import PhysicalColumn
from sordino.core.errors import DeclarationError, SourceError
from sordino.core.source import Source

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

# The first version whose EXTRACT is exact.
_OLDEST = 140_000
_SECONDS = 3600
_NAME = re.compile(r'("(?:[^"]|"")+")|([^\W\d][\w$]*)')
_RELATION = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern}))?")
_KINDS = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "numeric": "DECIMAL",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "uuid": "UUID",
}
_TYPES = """
WITH RECURSIVE base AS (
    SELECT oid AS of, oid, typname, typtype, typcategory, typbasetype, typelem FROM pg_catalog.pg_type WHERE oid = ANY($1)
    UNION ALL
    SELECT base.of, t.oid, t.typname, t.typtype, t.typcategory, t.typbasetype, t.typelem
    FROM base JOIN pg_catalog.pg_type AS t ON base.typtype = 'd' AND t.oid = base.typbasetype
)
SELECT of, typname, typtype, typcategory, typelem FROM base WHERE typtype <> 'd'
"""
# Words of the server or of its library, and ours.
_CAUSES = (
    ("too many", "the server has no connection left"),
    ("slots", "the server has no connection left"),
    ("starting up", "the server is not ready yet"),
    ("shutting down", "the server is shutting down"),
    ("recovery mode", "the server is not ready yet"),
    ("password", "the server refused the password, or none was found"),
    ("authentication", "the server refused the user"),
    ("pg_hba", "the server does not let this user in from here"),
    ("role", "there is no such user"),
    ("database", "there is no such database"),
    ("definition of service", "there is no such service in the service file"),
    ("refused", "no server answers there"),
    ("timeout", "the server does not answer in time"),
    ("translate host", "there is no such host"),
    ("certificate", "its certificate is not trusted"),
    ("SSL", "the encryption that is asked for cannot be had"),
)


def open_connection(source: Source) -> psycopg.Connection[Any]:
    """Return a connection whose transactions only read, each on one state of the data; raises SourceError.

    Statements end after an hour where neither the URL, the role nor the database sets a statement_timeout.
    """
    try:
        import psycopg
    except ImportError:
        raise SourceError("a PostgreSQL source needs psycopg: pip install 'sordino[postgres]'") from None
    connection: psycopg.Connection[Any] | None = None
    cause = ""
    try:
        connection = psycopg.connect(
            source.path,
            connect_timeout=10,
            application_name="sordino",
            client_encoding="UTF8",
            cursor_factory=psycopg.RawCursor,
        )
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        cause = _prepare(connection)
    except (psycopg.Error, UnicodeError, OSError) as error:
        cause = next(
            (ours for theirs, ours in _CAUSES if theirs in str(error)), "check the URL, and that the server runs"
        )
    if connection is None or cause:
        if connection is not None:
            connection.close()
        raise SourceError(f"source {source.path!r} cannot be opened: {cause}")
    return connection


def _prepare(connection: psycopg.Connection[Any]) -> str:
    """Set what our SQL rests on; return why the server cannot be used, or nothing."""
    if connection.info.server_version < _OLDEST:
        return "the server is older than PostgreSQL 14"
    if connection.info.parameter_status("server_encoding") != "UTF8":
        return "the database's encoding is not UTF8: text would not be compared as it is; use one that is"
    settings = {
        "TimeZone": "UTC",
        "DateStyle": "ISO, YMD",
        "extra_float_digits": "1",
        "standard_conforming_strings": "on",
        "idle_in_transaction_session_timeout": "0",
        "jit": "off",
    }
    with connection.transaction(), connection.cursor() as cursor:
        for name, value in settings.items():
            cursor.execute("SELECT set_config($1, $2, false)", (name, value))
        cursor.execute(
            "SELECT set_config('statement_timeout', $1, false) WHERE current_setting('statement_timeout') = '0'",
            (f"{_SECONDS}s",),
        )
    return ""


def postgres_error() -> type[Exception]:
    """Return psycopg's base error, imported on first use."""
    import psycopg

    base: type[Exception] = psycopg.Error
    return base


def rows_of(source: Source) -> str:
    """Return the SQL of the relation that a source names: a table or view, or the rows of a query."""
    stated = (source.relation or "").strip()
    if re.match(r"(?i)(select|with|values|table)\b|\(", stated):
        return f"(\n{stated.rstrip(';').rstrip()}\n) AS sordino_rows"
    if not _RELATION.fullmatch(stated):
        raise DeclarationError(
            'relation must be a table or a view, such as "public.people" (names with capitals are quoted, as in SQL), or a '
            "query that begins with SELECT or WITH",
            key="relation",
        )
    parts = (quoted or plain.lower() for quoted, plain in _NAME.findall(stated))
    return ".".join('"' + part.replace('"', '""') + '"' if not part.startswith('"') else part for part in parts)


def read_columns(connection: psycopg.Connection[Any], source: Source) -> Mapping[str, PhysicalColumn]:
    """Return the columns of a source's relation, as the server's catalog states them; raises SourceError."""
    return _ask_schema(source, lambda: _read(connection.cursor(), rows_of(source)))


def hold_columns(connection: psycopg.Connection[Any], source: Source, columns: Collection[str]) -> None:
    """Lock the relation as it is until the transaction ends; raises SourceError where its columns may not be read."""
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    text = f"SELECT {names} FROM {rows_of(source)} LIMIT 0"
    _ask_schema(source, lambda: connection.execute(text.encode()))


def is_lost(state: str | None) -> bool:
    """Return whether an error, by its class, says that the connection is gone."""
    return state is None or state.startswith(("08", "57P"))


def _ask_schema(source: Source, ask: Callable[[], T]) -> T:
    """Return what the server says of a relation; raises SourceError, in our own words, where it refuses."""
    answer: T | None = None
    cause = "it cannot be read"
    try:
        answer = ask()
    except postgres_error() as error:
        state: str | None = getattr(error, "sqlstate", None)
        cause = {
            "42P01": "there is no such table or view",
            "3F000": "there is no such schema",
            "42501": "this user has no right to read it",
            "57014": "the server did not say within its statement_timeout; another program may hold a lock on it",
            "55P03": "another program holds a lock on it",
        }.get(state or "", "it is not a table, view or query on the server")
        if is_lost(state):
            cause = "the connection to the server was lost"
    if answer is None:
        raise SourceError(f"relation {source.relation!r} of {source.path!r}: {cause}")
    return answer


def _read(cursor: Any, rows: str) -> dict[str, PhysicalColumn]:
    if rows.startswith("("):
        cursor.execute(f"SELECT * FROM {rows} LIMIT 0")
        columns = [(column.name, column.type_code, -1) for column in cursor.description]
    else:
        cursor.execute(
            "SELECT attname, atttypid::oid::bigint, atttypmod FROM pg_catalog.pg_attribute WHERE attrelid = CAST($1 AS regclass)"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (rows,),
        )
        columns = cursor.fetchall()
    types = _read_types(cursor, [oid for _, oid, _ in columns])
    items = _read_types(cursor, [elem for *_, category, elem in types.values() if category == "A"])
    physical = {}
    for name, oid, mode in columns:
        typname, typtype, category, elem = types[oid]
        item = _kind(*items[elem][:3]) if category == "A" and elem in items else ""
        kind = "LIST" if category == "A" else _kind(typname, typtype, category)
        physical[name] = PhysicalColumn(kind, item, _digits(mode) if typname == "numeric" else None)
    return physical


def _digits(mode: int) -> tuple[int, int] | None:
    """Return the digits of NUMERIC(all, after the point) as the catalog writes them, None where they are not stated."""
    # From PostgreSQL 15 on the scale has 11 bits, and may be below 0.
    places = ((mode - 4 & 0x7FF) ^ 0x400) - 0x400
    return (mode - 4 >> 16, places) if mode >= 4 and places >= 0 else None


def _read_types(cursor: Any, oids: Sequence[int]) -> dict[int, tuple[str, str, str, int]]:
    """Return the name, sort, category and item of types, those of domains by what they are made of."""
    cursor.execute(_TYPES, (list(oids),))
    return {of: (name, sort, category, elem) for of, name, sort, category, elem in cursor.fetchall()}


def _kind(name: str, sort: str, category: str) -> str:
    if sort == "e" or category == "S":
        return "VARCHAR"
    return _KINDS.get(name, name.upper())
