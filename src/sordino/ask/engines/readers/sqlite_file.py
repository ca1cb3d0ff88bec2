"""A SQLite file opened for reading, and the columns that its tables state of themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sordino.core.errors import DeclarationError, nearest


def sqlite_columns(path: str, relation: str | None) -> tuple[str, list[tuple[str, str]]]:
    """Return the name of a table of a SQLite file, its only one without `relation`, and its columns as they are declared there.

    Raises DeclarationError where the table is not there or not the only one.
    """
    with open_sqlite(path) as connection:
        tables = [
            _name(row[0])
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            if not _name(row[0]).startswith("sqlite_")
        ]
        if relation is not None and relation not in tables:
            raise DeclarationError(f"{path!r} has no table {relation!r}; {nearest(relation, tables)}")
        if relation is None and len(tables) != 1:
            raise DeclarationError(f"say which table with --relation; {nearest('', tables)}")
        table = relation or tables[0]
        rows = connection.execute(f"PRAGMA table_xinfo({_quote(table)})").fetchall()
    return table, [(_name(row[1]), _name(row[2])) for row in rows]


@contextmanager
def open_sqlite(path: str) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file for reading alone; a text comes as it is where it is UTF-8, else as bytes, which nothing reads."""
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    try:
        connection.text_factory = _decode
        yield connection
    finally:
        connection.close()


def _decode(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _name(text: object) -> str:
    return text if isinstance(text, str) else ""


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
