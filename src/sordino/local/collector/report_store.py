"""The collector's store: tasks, reports in chunks, running counts and hashed tokens, in SQLite or PostgreSQL.

It knows bytes, not what a report says. What `append` returns from is on disk. A chunk holds the reports of one commit
sorted by their random ids, so the file reveals nothing finer about their order, and it holds no time and no address.
"""

from __future__ import annotations

import fcntl
import hashlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sordino.core.errors import DeclarationError
from sordino.core.ledger.store import (
    FileFormat,
    create_tables,
    make_durable,
    make_private,
    open_sqlite,
    read_format,
    transact,
)

# The lock of the one collector on a PostgreSQL database.
_LOCK = 0x536F7264
# Seconds to wait for the store.
_PATIENCE = 3.0
_UNUSABLE = "used: see its disk, or that its server runs"
_UNWRITTEN = "written; nothing of this was kept"
_SCHEMA = (
    "CREATE TABLE tasks (number {serial}, task TEXT NOT NULL UNIQUE, manifest TEXT NOT NULL,"
    " closed INTEGER NOT NULL, counts TEXT NOT NULL)",
    "CREATE TABLE chunks (number {serial}, task INTEGER NOT NULL, ids {blob} NOT NULL, reports {blob} NOT NULL)",
    "CREATE INDEX chunks_of_task ON chunks (task, number)",
    "CREATE TABLE tokens (number {serial}, role TEXT NOT NULL CHECK (role IN ('respondent', 'admin')),"
    " hash {blob} NOT NULL UNIQUE)",
)
# How many reports a token sent to a task, where a collector limits that: a number, no link to any report.
_SENT = (
    "CREATE TABLE IF NOT EXISTS sent (task INTEGER NOT NULL, token {blob} NOT NULL, reports BIGINT NOT NULL,"
    " PRIMARY KEY (task, token))"
)
# The application id is "SorC"; no version is written.
_FORMAT = FileFormat(
    0x536F7243, 0, [s.format(serial="INTEGER PRIMARY KEY AUTOINCREMENT", blob="BLOB") for s in _SCHEMA]
)


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as stored: its number, its signed manifest as text, whether it is closed, and its counts as text."""

    number: int
    task: str
    manifest: str
    closed: bool
    counts: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Reports of one commit: their ids and their bytes, each one after another in the same order."""

    ids: bytes
    reports: bytes


@dataclass(frozen=True, slots=True)
class Addition:
    """What one commit adds to a task: a chunk, and the task's counts with it; how many each limited token sent by now."""

    task: int
    chunk: Chunk
    counts: str
    sent: Mapping[bytes, int] = field(default_factory=dict)


def token_hash(token: str) -> bytes:
    """Return what is kept of a token. A token is 32 random bytes, so a plain hash of it cannot be turned back."""
    return hashlib.sha256(b"sordino collector token " + token.encode()).digest()


class Store:
    """Read and write one store. One collector at a time writes reports; commands may read and add beside it.

    Made by `Store.open(url)`, where the url is a path, `sqlite:///PATH` or `postgresql://...`.
    """

    def __init__(self, db: Any, *, marker: str, where: str, path: Path | None) -> None:
        self._db = db
        self._marker = marker
        self._where = where
        self._path = path
        self._lock: IO[bytes] | None = None

    @classmethod
    def open(cls, url: str) -> Store:
        """Open the store, made if it is missing; raise DeclarationError where that cannot be done."""
        if url.startswith(("postgresql://", "postgres://")):
            return cls._postgres(url)
        path = Path(url.removeprefix("sqlite:///")).expanduser().absolute()
        if "://" in url and not url.startswith("sqlite:///"):
            raise DeclarationError("the store must be a path, sqlite:///PATH or postgresql://USER@HOST/NAME")
        return cls._sqlite(path)

    @classmethod
    def _sqlite(cls, path: Path) -> Store:
        if not path.parent.is_dir():
            raise DeclarationError(
                f"the store {path} cannot be made: its directory is missing; make the directory first"
            )
        # Reports are for the collector's own user.
        make_private(path)
        try:
            db = open_sqlite(path, patience=30, check_same_thread=False)
            application, _, empty = read_format(db)
            if application != _FORMAT.application and (application or not empty):
                raise DeclarationError(f"{path} is a database, but not a collector's store; name another file")
            make_durable(db)
        except sqlite3.DatabaseError:
            raise DeclarationError(f"{path} exists but is not a store; name another file") from None
        store = cls(db, marker="?", where=str(path), path=path)
        with store._transaction():
            if not read_format(db)[0]:
                create_tables(db, _FORMAT)
            db.execute(_SENT.format(blob="BLOB"))
        return store

    @classmethod
    def _postgres(cls, url: str) -> Store:
        try:
            import psycopg
        except ImportError:
            raise DeclarationError("a PostgreSQL store needs psycopg: pip install 'sordino[postgres]'") from None
        try:
            db = psycopg.connect(url, autocommit=True, connect_timeout=10)
        except psycopg.OperationalError:
            raise DeclarationError(
                "the PostgreSQL store cannot be reached; see that it runs and the url is right"
            ) from None
        store = cls(db, marker="%s", where="in PostgreSQL", path=None)
        with store._transaction() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK + 1,))
            cursor.execute("SELECT to_regclass('tokens'), to_regclass('chunks')")
            tables = cursor.fetchone()
            if None in tables:
                for statement in _SCHEMA:
                    cursor.execute(statement.format(serial="BIGSERIAL PRIMARY KEY", blob="BYTEA"))
            cursor.execute(_SENT.format(blob="BYTEA"))
        store._run("SET synchronous_commit = on")
        return store

    def hold(self) -> None:
        """Become the one collector on this store until `close`; raise DeclarationError where another is."""
        if self._path is None:
            locked = self._try_server_lock()
        else:
            self._lock = self._path.with_name(self._path.name + "-collector").open("ab")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
            except OSError:
                locked = False
        if not locked:
            raise DeclarationError(f"another collector serves the store {self._where}; stop it, or name another store")

    def _try_server_lock(self) -> bool:
        """Ask PostgreSQL for the lock, for some seconds: it frees that of a connection a moment after its end."""
        until = time.monotonic() + _PATIENCE
        while not self._run("SELECT pg_try_advisory_lock(?)", (_LOCK,)).fetchone()[0]:
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def close(self) -> None:
        """Close the store and stop holding it."""
        self._db.close()
        if self._lock is not None:
            self._lock.close()

    # ---- tasks

    def add_task(self, task: str, manifest: str, counts: str) -> StoredTask:
        """Add a task, or find it as it was added; raise DeclarationError where its manifest is another by now."""
        with self._transaction() as cursor:
            insert = "INSERT INTO tasks (task, manifest, closed, counts) VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING"
            cursor.execute(self._words(insert), (task, manifest, counts))
        stored = self.task(task)
        if stored.manifest != manifest:
            rule = f"the store holds the task {task!r} with another manifest, and its reports belong to that one"
            raise DeclarationError(f"{rule}; give a changed task a new name, or its own store")
        return stored

    def task(self, task: str) -> StoredTask:
        """Return a stored task; raise DeclarationError where there is none of that name."""
        for one in self.tasks():
            if one.task == task:
                return one
        names = ", ".join(repr(one.task) for one in self.tasks()) or "none"
        raise DeclarationError(f"the store holds no task {task!r}; it holds: {names}")

    def tasks(self) -> list[StoredTask]:
        """Return all stored tasks."""
        rows = self._run("SELECT number, task, manifest, closed, counts FROM tasks ORDER BY number").fetchall()
        return [StoredTask(int(n), t, m, bool(c), k) for n, t, m, c, k in rows]

    def close_task(self, task: str) -> None:
        """Close a task permanently and durably; no report is accepted afterwards."""
        self.task(task)
        with self._transaction() as cursor:
            cursor.execute(self._words("UPDATE tasks SET closed = 1 WHERE task = ?"), (task,))

    def list_closed(self) -> set[int]:
        """Return the numbers of the closed tasks."""
        return {int(n) for (n,) in self._run("SELECT number FROM tasks WHERE closed = 1").fetchall()}

    # ---- reports

    def append(self, additions: Sequence[Addition]) -> None:
        """Add reports and set the counts that include them, in one durable transaction."""
        with self._transaction() as cursor:
            for one in additions:
                insert = self._words("INSERT INTO chunks (task, ids, reports) VALUES (?, ?, ?)")
                cursor.execute(insert, (one.task, one.chunk.ids, one.chunk.reports))
                update = self._words("UPDATE tasks SET counts = ? WHERE number = ? AND closed = 0")
                cursor.execute(update, (one.counts, one.task))
                if cursor.rowcount != 1:
                    raise DeclarationError("a task was closed before these reports came; nothing of this was kept")
                upsert = (
                    "INSERT INTO sent (task, token, reports) VALUES (?, ?, ?) ON CONFLICT (task, token) DO UPDATE SET "
                )
                upsert = self._words(upsert + "reports = excluded.reports")
                cursor.executemany(upsert, [(one.task, token, count) for token, count in one.sent.items()])

    def chunks(self, task: int) -> Iterator[Chunk]:
        """Return the chunks of a task, oldest first, read as they are asked for."""
        after = 0
        while True:
            select = "SELECT number, ids, reports FROM chunks WHERE task = ? AND number > ? ORDER BY number LIMIT 256"
            rows = self._run(select, (task, after)).fetchall()
            for _, ids, reports in rows:
                yield Chunk(bytes(ids), bytes(reports))
            if not rows:
                return
            after = int(rows[-1][0])

    def sent(self, task: int) -> dict[bytes, int]:
        """Return how many reports each limited token sent to a task."""
        rows = self._run("SELECT token, reports FROM sent WHERE task = ?", (task,)).fetchall()
        return {bytes(token): int(count) for token, count in rows}

    # ---- tokens

    def add_tokens(self, role: str, tokens: Sequence[str]) -> None:
        """Keep the hashes of new tokens of a role, `respondent` or `admin`."""
        with self._transaction() as cursor:
            insert = self._words("INSERT INTO tokens (role, hash) VALUES (?, ?)")
            cursor.executemany(insert, [(role, token_hash(token)) for token in tokens])

    def tokens(self, *, after: int) -> list[tuple[int, str, bytes]]:
        """Return (number, role, hash) of the tokens added after a number."""
        select = "SELECT number, role, hash FROM tokens WHERE number > ? ORDER BY number"
        return [(int(n), r, bytes(h)) for n, r, h in self._run(select, (after,)).fetchall()]

    # ---- SQL

    def _words(self, sql: str) -> str:
        return sql if self._marker == "?" else sql.replace("?", self._marker)

    def _run(self, sql: str, values: Sequence[Any] = ()) -> Any:
        with self._hide_database_errors(_UNUSABLE):
            return self._db.execute(self._words(sql), values)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Give a cursor whose work is on disk, all or nothing, when the block ends."""
        begin = "BEGIN IMMEDIATE" if self._path is not None else "BEGIN"
        unusable = self._hide_database_errors(_UNUSABLE)
        unwritten = self._hide_database_errors(_UNWRITTEN)
        with unusable, transact(self._db, begin=begin) as cursor, unwritten:
            yield cursor

    @contextmanager
    def _hide_database_errors(self, what: str) -> Iterator[None]:
        """Say in one line that the store cannot be used or written, without any of the database's own words."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, sqlite3.Error) and not type(error).__module__.startswith("psycopg"):
                raise
            raise DeclarationError(f"the store {self._where} cannot be {what}") from None
