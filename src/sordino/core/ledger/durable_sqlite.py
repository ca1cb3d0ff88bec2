"""A SQLite file whose commits are on disk when they return: made for its owner alone, recognised by its format, written
in whole transactions.

It knows no tables: the ledger, a device's ledger and a collector's store each keep a format of their own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Database(Protocol):
    """What a ledger needs of a connection: SQLite's own, or one that speaks its words to a server."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, values: Any = ..., /) -> Any: ...
    def executemany(self, sql: str, rows: Any, /) -> Any: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FileFormat:
    """State a kind of SQLite file: its application id, its version, and the statements that make its tables."""

    application: int
    version: int
    schema: Sequence[str]


def make_private(path: Path) -> None:
    """Make an empty file that its owner alone can read and write, unless one is there; raise OSError where that fails.

    A file that is there is never opened here: to close a descriptor of it would drop the locks that this process holds on
    it through SQLite, and with them the write-ahead log, which the next program to leave would take for its own.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def open_sqlite(
    path: Path, *, patience: float, check_same_thread: bool, kind: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """Open a file that is there; `patience` is how many seconds to wait for another program that holds it."""
    name, same = path.absolute().as_uri() + "?mode=rw", check_same_thread
    return kind(name, uri=True, isolation_level=None, check_same_thread=same, timeout=patience)


def read_format(db: sqlite3.Connection) -> tuple[int, int, bool]:
    """Return the application id, the version, and whether the file is empty; raise sqlite3.Error for no database."""
    application, version, pages = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version", "page_count")
    )
    return application, version, not pages


def make_durable(db: sqlite3.Connection) -> bool:
    """Make each commit wait for the disk, with a write-ahead log; False where the disk allows no such log."""
    for setting in ("synchronous = FULL", "fullfsync = 1", "checkpoint_fullfsync = 1", "trusted_schema = 0"):
        db.execute(f"PRAGMA {setting}")
    return bool(db.execute("PRAGMA journal_mode = WAL").fetchone()[0] == "wal")


def create_tables(db: sqlite3.Connection, kind: FileFormat) -> None:
    """Make the tables of a format and stamp the file with it, within the transaction under way."""
    for statement in kind.schema:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {kind.application}")
    db.execute(f"PRAGMA user_version = {kind.version}")


@contextmanager
def transact(db: Any, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[Any]:
    """Give a cursor whose work is on disk, all or nothing, when the block ends; PostgreSQL's connections do as well."""
    cursor = db.cursor()
    cursor.execute(begin)
    try:
        yield cursor
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    cursor.execute("COMMIT")
