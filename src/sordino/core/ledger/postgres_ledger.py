"""A ledger's tables on a PostgreSQL server: created, opened, and used by the statements of the SQLite ledger. Knows no charge.

Writers take turns by a lock on the table `state`, whose queue is first come, first served; the server frees it when a
connection ends. A commit is on the server's disk when it returns. The server's own messages are never passed on.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sordino.core.errors import LedgerError
from sordino.core.ledger.location import ServerPlace

_VERSION = 1
# how long to wait for another program that writes
_PATIENCE = "60s"
# "Sord": the advisory lock of programs that create a ledger
_LOCK = 0x536F7264
_STAY = "BEGIN RAISE EXCEPTION 'entries are never changed'; END"
_FOLLOW = (
    "BEGIN IF NEW.seq IS DISTINCT FROM 1 + (SELECT coalesce(max(seq), 0) FROM entries) THEN "
    "RAISE EXCEPTION 'entries are only appended'; END IF; RETURN NEW; END"
)
_TABLES = {
    "entries": (
        "seq BIGINT PRIMARY KEY, kind TEXT NOT NULL, time TEXT NOT NULL, payload TEXT NOT NULL, prev TEXT NOT NULL, "
        "hash TEXT NOT NULL"
    ),
    "state": (
        "one INTEGER PRIMARY KEY CHECK (one = 1), ledger TEXT NOT NULL, cap TEXT NOT NULL, carried TEXT NOT NULL, "
        "head BIGINT NOT NULL, hash TEXT NOT NULL, charges BIGINT NOT NULL"
    ),
    "budget": (
        "name TEXT PRIMARY KEY, spent TEXT NOT NULL, spent_units BIGINT NOT NULL, cap_units BIGINT NOT NULL, "
        "CHECK (spent_units BETWEEN 0 AND cap_units)"
    ),
    # a hash index, as a request may be longer than a tree's entry
    "charges": (
        "number BIGINT PRIMARY KEY, request TEXT, question TEXT NOT NULL, state TEXT NOT NULL "
        "CHECK (state IN ('reserved', 'committed', 'failed')), reserved BIGINT NOT NULL, closed BIGINT, "
        "EXCLUDE USING hash (request WITH =)"
    ),
    "declarations": "name TEXT PRIMARY KEY, declaration TEXT NOT NULL",
    "shares": (
        "spender TEXT NOT NULL, name TEXT NOT NULL, cap TEXT NOT NULL, spent TEXT NOT NULL, spent_units BIGINT NOT NULL, "
        "cap_units BIGINT NOT NULL, PRIMARY KEY (spender, name), CHECK (spent_units BETWEEN 0 AND cap_units)"
    ),
    "format": "version INTEGER NOT NULL",
}
# made with the first series: see `store.SERIES`
_SERIES_TABLES = {
    "series": (
        "name TEXT PRIMARY KEY, charge BIGINT NOT NULL, opened BIGINT NOT NULL, secret TEXT NOT NULL, seal TEXT NOT NULL"
    ),
    "series_steps": ("series TEXT NOT NULL, step BIGINT NOT NULL, entry BIGINT NOT NULL, PRIMARY KEY (series, step)"),
}
_GUARDS = (
    f"CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $${_STAY}$$",
    f"CREATE FUNCTION require_next() RETURNS trigger LANGUAGE plpgsql AS $${_FOLLOW}$$",
    "CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries EXECUTE FUNCTION refuse_change()",
    "CREATE TRIGGER entries_follow BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION require_next()",
    "CREATE INDEX charges_by_question ON charges (question)",
)
# the triggers as the server writes them, which name their table's schema, with their functions and the functions' bodies
_GUARDED = (
    (
        "CREATE TRIGGER entries_stay BEFORE DELETE OR UPDATE OR TRUNCATE ON {}.entries FOR EACH STATEMENT",
        "refuse_change",
        _STAY,
    ),
    ("CREATE TRIGGER entries_follow BEFORE INSERT ON {}.entries FOR EACH ROW", "require_next", _FOLLOW),
)
_WITHIN = "CHECK (((spent_units >= 0) AND (spent_units <= cap_units)))"
_STATES = "CHECK ((state = ANY (ARRAY['reserved'::text, 'committed'::text, 'failed'::text])))"
# as the server writes them
_CONSTRAINTS = {
    "entries": ["PRIMARY KEY (seq)"],
    "state": ["CHECK ((one = 1))", "PRIMARY KEY (one)"],
    "budget": [_WITHIN, "PRIMARY KEY (name)"],
    "charges": [_STATES, "EXCLUDE USING hash (request WITH =)", "PRIMARY KEY (number)"],
    "declarations": ["PRIMARY KEY (name)"],
    "shares": [_WITHIN, "PRIMARY KEY (spender, name)"],
    "series": ["PRIMARY KEY (name)"],
    "series_steps": ["PRIMARY KEY (series, step)"],
}
_OF_SCHEMA = "relnamespace = current_schema()::regnamespace"
# queries of what the schema holds: its tables, columns, constraints and triggers
_SHAPE = (
    "SELECT relname, relpersistence::text, relrowsecurity, relhasrules, relhassubclass OR relispartition FROM pg_class "
    f"WHERE relkind NOT IN ('i', 'S', 't') AND {_OF_SCHEMA}",
    "SELECT relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, atthasdef FROM pg_attribute "
    "JOIN pg_class ON pg_class.oid = attrelid "
    f"WHERE relkind = 'r' AND attnum > 0 AND NOT attisdropped AND {_OF_SCHEMA}",
    "SELECT relname, pg_get_constraintdef(pg_constraint.oid), convalidated AND NOT condeferrable FROM pg_constraint "
    f"JOIN pg_class ON pg_class.oid = conrelid WHERE contype <> 'n' AND {_OF_SCHEMA}",
    "SELECT pg_get_triggerdef(pg_trigger.oid), tgenabled::text, prosrc FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid "
    f"JOIN pg_class ON pg_class.oid = tgrelid WHERE NOT tgisinternal AND {_OF_SCHEMA}",
)
_SETTINGS = (
    f"lock_timeout = '{_PATIENCE}'",
    "statement_timeout = '120s'",
    f"idle_in_transaction_session_timeout = '{_PATIENCE}'",
    "tcp_keepalives_idle = 20",
    "tcp_keepalives_interval = 5",
    # with these a host that is gone frees its lock within a minute
    "tcp_keepalives_count = 3",
    "client_encoding = 'UTF8'",
)
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on"
# one round trip each
_BEGINS = {
    "BEGIN": "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "BEGIN IMMEDIATE": f"{_WRITE}; LOCK TABLE state IN EXCLUSIVE MODE",
}
_REACH = (
    "its server cannot be reached, or refuses this user: see that it runs; credentials come from PGPASSWORD, ~/.pgpass or a "
    "service file"
)
_MEANINGS = {
    "55P03": "another program holds it; close that program",
    "57014": "another program holds it; close that program",
    "53100": "the disk is full; nothing was charged",
    "42501": "it cannot be written; let this user write its schema",
    "25006": "its server allows no writing; name the primary",
    "42P01": "its tables are missing; restore a sound copy",
    "P0001": "a guard inside it refused what was to be written",
}


class ServerFault(sqlite3.OperationalError):
    """An error of the server, a subclass of SQLite's so that the ledger treats both alike; `meaning` is its text here."""

    def __init__(self, meaning: str) -> None:
        super().__init__(meaning)
        self.meaning = meaning


class ServerConnection:
    """A connection for the SQLite ledger's statements on a server; if broken, it is opened anew when a transaction begins."""

    def __init__(self, place: ServerPlace) -> None:
        self._place = place
        self._db = _open(place)

    @property
    def schema(self) -> str:
        """The schema that holds the ledger."""
        return self._place.schema

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is under way; False where the connection is gone, and the server has ended it or will."""
        return not self._db.closed and self._db.info.transaction_status.name != "IDLE"

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any:
        """Run one statement with `?` for values; raise ServerFault where the server refuses or is gone."""
        with _hide_words(self._db):
            if sql not in _BEGINS:
                return self._db.execute(sql.replace("?", "%s"), values or None)
        return self.begin(_BEGINS[sql])

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Any:
        """Run one statement for each row."""
        with _hide_words(self._db), self._db.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), list(rows))

    def begin(self, words: str) -> None:
        """Begin a transaction by these statements, on a new connection where the old one is gone; it is begun whole or not."""
        try:
            with _hide_words(self._db):
                self._db.execute(words)
        except ServerFault:
            if not self._db.closed:
                if self.in_transaction:
                    self.execute("ROLLBACK")
                raise
            # no transaction was under way, so nothing is in doubt
            self._db = _open(self._place)
            with _hide_words(self._db):
                self._db.execute(words)

    def close(self) -> None:
        """End the connection."""
        self._db.close()


def connect_server(place: ServerPlace) -> ServerConnection:
    """Open a ledger that is there; raise LedgerError where it is not one, or its tables and guards were altered."""
    db = ServerConnection(place)
    try:
        if not _has_tables(db, place):
            raise LedgerError(f"the ledger {place} cannot be opened: it is missing; put it back")
        version = db.execute("SELECT version FROM format").fetchall()
        if version != [(_VERSION,)]:
            raise LedgerError(f"the ledger {place} cannot be opened: it is of a format that this Sordino does not read")
        check_schema(db)
    except BaseException:
        db.close()
        raise
    return db


def is_there(place: ServerPlace) -> bool:
    """Return whether the server holds this ledger; raise LedgerError or ServerFault where it cannot be asked."""
    with contextlib.closing(ServerConnection(place)) as db:
        return _has_tables(db, place)


@contextmanager
def create_tables_once(place: ServerPlace) -> Iterator[ServerConnection | None]:
    """Yield a connection whose open transaction created the tables; None where they exist. The caller commits."""
    with contextlib.closing(ServerConnection(place)) as db:
        db.begin(_WRITE)
        db.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        if _has_tables(db, place):
            db.execute("ROLLBACK")
            yield None
            return
        if not db.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (place.schema,)).fetchall():
            db.execute(f'CREATE SCHEMA "{place.schema}"')
        for name, columns in _TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns})")
        db.execute("INSERT INTO format VALUES (?)", (_VERSION,))
        for statement in _GUARDS:
            db.execute(statement)
        # closed without a commit, it leaves nothing
        yield db


def check_schema(db: ServerConnection) -> None:
    """Raise LedgerError where tables, columns, constraints or triggers are not those that this program makes.

    Constraints and triggers are compared as the server writes them: one that lets more through has another text.
    """
    shape = [tuple(line) for query in _SHAPE for line in db.execute(query).fetchall()]
    tables = _TABLES | (_SERIES_TABLES if any(line[0] == "series" for line in shape) else {})
    if sorted(map(repr, shape)) != sorted(map(repr, _sound_shape(db.schema, tables))):
        raise LedgerError("the ledger's tables or triggers were altered; restore a sound copy of the ledger")


def _sound_shape(schema: str, tables: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """Yield what the queries of `_SHAPE` return for a sound ledger."""
    for table, words in tables.items():
        yield table, "p", False, False, False
        parts = (part for part in words.split(", ") if part.split()[0].islower() and " " in part)
        for place, part in enumerate(parts, 1):
            name, kind, *_ = part.lower().split()
            yield table, place, name, kind, "NOT NULL" in part or "PRIMARY KEY" in part, False
        for text in _CONSTRAINTS.get(table, ()):
            yield table, text, True
    for text, function, source in _GUARDED:
        yield f"{text.format(schema)} EXECUTE FUNCTION {function}()", "O", source


def _has_tables(db: ServerConnection, place: ServerPlace) -> bool:
    select = "SELECT count(*) FROM pg_tables WHERE schemaname = ? AND tablename IN ('entries', 'state')"
    return bool(db.execute(select, (place.schema,)).fetchone()[0])


def _open(place: ServerPlace) -> Any:
    """Return a connection whose commits are on disk; raise LedgerError where this server cannot promise that."""
    try:
        import psycopg
    except ImportError:
        raise LedgerError("a ledger on a PostgreSQL server needs psycopg: pip install 'sordino[postgres]'") from None
    try:
        db = psycopg.connect(place.address, autocommit=True, connect_timeout=10, application_name="sordino ledger")
    except psycopg.Error:
        raise ServerFault(_REACH) from None
    try:
        with _hide_words(db):
            for setting in (f'search_path = "{place.schema}", pg_temp', *_SETTINGS):
                db.execute(f"SET {setting}")
            facts = "SELECT current_setting('fsync'), current_setting('server_encoding'), pg_is_in_recovery()"
            settings = db.execute(facts).fetchone()
        if settings != ("on", "UTF8", False):
            raise ServerFault("its server must be a primary with fsync = on, and its database in UTF8")
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def _hide_words(db: Any) -> Iterator[None]:
    """Turn an error of psycopg into a ServerFault: psycopg's text may quote what was written, or the address."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if db.closed:
            meaning = "its server ended the connection; ask again"
        elif state.startswith("23"):
            meaning = _MEANINGS["P0001"]
        else:
            meaning = _MEANINGS.get(state, "its server refused a statement")
        raise ServerFault(meaning) from None
