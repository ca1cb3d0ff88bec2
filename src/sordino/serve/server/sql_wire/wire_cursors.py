"""Cursors and copies of an answer, as clients ask for them: DECLARE, FETCH, MOVE, CLOSE, and COPY (SELECT ...) TO STDOUT.

The question within is asked, and charged, once: when the cursor is declared. Rows are then fetched of the answer, forward
alone. It knows no service: the session asks.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot.tokenizer_core import TokenType

from sordino.serve.server.sql_wire.sqlstates import WireError
from sordino.serve.server.sql_wire.wire_frames import Column
from sordino.serve.server.sql_wire.wire_statements import Statement
from sordino.serve.server.sql_wire.wire_values import encode_cell

_MOST_CURSORS = 50
_FORWARD = "cursors go forward alone: FETCH NEXT, FETCH 100, FETCH FORWARD ALL, FETCH ALL"


@dataclass(frozen=True, slots=True)
class CursorName:
    """Hold what a DECLARE names: the cursor, and whether it outlives the transaction."""

    name: str
    outlives: bool


@dataclass(frozen=True, slots=True)
class CopyForm:
    """Hold how a COPY writes: as PostgreSQL's text, as CSV, or as binary tuples; with a line of names or not."""

    is_csv: bool = False
    names: bool = False
    is_binary: bool = False


@dataclass
class _Cursor:
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    outlives: bool
    at: int = 0


class WireCursors:
    """Hold the open cursors of one session."""

    def __init__(self) -> None:
        self._open: dict[str, _Cursor] = {}

    def check_free(self, name: str) -> None:
        """Raise WireError where a cursor of this name is open, or too many are: before its question is asked."""
        if name in self._open:
            raise WireError("42P03", "there is a cursor of this name already", hint="CLOSE it first.")
        if len(self._open) >= _MOST_CURSORS:
            raise WireError("53400", f"a session holds {_MOST_CURSORS} cursors: close some")

    def open(self, named: CursorName, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> None:
        """Keep an answer under a name."""
        self._open[named.name] = _Cursor(columns, rows, named.outlives)

    def columns(self, name: str) -> Sequence[Column]:
        """Return the columns of a cursor; raises WireError where there is none of that name."""
        return self._find(name).columns

    def fetch(self, statement: Statement) -> tuple[Sequence[Column], Sequence[Sequence[Any]]]:
        """Return the next rows of a cursor, as many as the FETCH or MOVE says; raises WireError for any other way."""
        name, count = read_fetch(statement)
        cursor = self._find(name)
        rows = cursor.rows[cursor.at :] if count is None else cursor.rows[cursor.at : cursor.at + count]
        cursor.at += len(rows)
        return cursor.columns, rows

    def close(self, statement: Statement) -> None:
        """Close the cursor that a CLOSE names, or ALL; raises WireError where there is none of that name."""
        if statement.words[1:] == ("ALL",):
            self._open.clear()
            return
        name = _name_at(statement, 1)
        self._find(name)
        del self._open[name]

    def end(self, *, undo: bool) -> None:
        """Close what a transaction's end closes: all on ROLLBACK, those WITHOUT HOLD on COMMIT."""
        self._open = {} if undo else {name: cursor for name, cursor in self._open.items() if cursor.outlives}

    def _find(self, name: str) -> _Cursor:
        if name not in self._open:
            raise WireError("34000", "there is no cursor of this name", hint="DECLARE name CURSOR FOR SELECT ...")
        return self._open[name]


def read_declare(statement: Statement) -> tuple[CursorName, Statement]:
    """Return the name that a DECLARE gives, and its question; raises WireError where it scrolls, or is no DECLARE."""
    words = statement.words
    at = words.index("FOR") if "FOR" in words else 0
    head = words[2:at]
    if "CURSOR" not in head:
        raise WireError("42601", "write DECLARE name CURSOR FOR SELECT ...")
    if "SCROLL" in head and "NO" not in head:
        raise WireError("0A000", _FORWARD, hint="DECLARE it without SCROLL.")
    return CursorName(_name_at(statement, 1), head[-2:] == ("WITH", "HOLD")), statement.part(at + 1)


def read_copy(statement: Statement) -> tuple[CopyForm, Statement]:
    """Return how a COPY is written, and its question; raises WireError for all but COPY (SELECT ...) TO STDOUT."""
    words = statement.words
    depth = 0
    end = 0
    for place, word in enumerate(words[1:], 1):
        depth += (word == "(") - (word == ")")
        if not depth:
            end = place
            break
    if words[1:2] != ("(",) or words[end + 1 : end + 3] != ("TO", "STDOUT"):
        raise WireError(
            "0A000", "a table is asked, never copied", hint="COPY (SELECT ...) TO STDOUT (FORMAT csv, HEADER)"
        )
    options = [word for word in words[end + 3 :] if word not in ("WITH", "(", ")", ",", "FORMAT", "AS")]
    form = CopyForm("CSV" in options, "HEADER" in options, "BINARY" in options)
    if set(options) - {"CSV", "TEXT", "BINARY", "HEADER", "TRUE", "ON"} or (
        form.is_binary and set(options) != {"BINARY"}
    ):
        raise WireError(
            "0A000", "COPY is written as text or CSV, with HEADER or without, or as binary", hint="(FORMAT csv, HEADER)"
        )
    return form, statement.part(2, end)


def copy_lines(form: CopyForm, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return the lines of a copy, in UTF-8, each with its end; or its binary tuples, between a header and a trailer."""
    if form.is_binary:
        tuples = [*(_write_tuple(row, columns) for row in rows), struct.pack("!h", -1)]
        # the header is in one message with what follows it, as PostgreSQL sends it
        return [b"PGCOPY\n\xff\r\n\0" + bytes(8) + tuples[0], *tuples[1:]]
    lines: list[list[str | None]] = [[column.name for column in columns]] if form.names else []
    lines += [[_text(cell, column) for cell, column in zip(row, columns, strict=True)] for row in rows]
    return [(_write_csv(line) if form.is_csv else _write_text(line)).encode() for line in lines]


def _write_tuple(row: Sequence[Any], columns: Sequence[Column]) -> bytes:
    cells = [encode_cell(cell, column.oid, 1) for cell, column in zip(row, columns, strict=True)]
    sized = [struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells]
    return struct.pack("!h", len(cells)) + b"".join(sized)


def _text(cell: Any, column: Column) -> str | None:
    encoded = encode_cell(cell, column.oid, 0)
    return None if encoded is None else encoded.decode()


def _write_csv(cells: Sequence[str | None]) -> str:
    """Return a line in which a missing cell is empty, as PostgreSQL writes it, and empty text a pair of quotes."""
    return ",".join("" if cell is None else _quote(cell) for cell in cells) + "\n"


def _quote(cell: str) -> str:
    bare = cell and not set(cell) & set(',"\r\n')
    return cell if bare else '"' + cell.replace('"', '""') + '"'


def _write_text(cells: Sequence[str | None]) -> str:
    escapes = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    return "\t".join("\\N" if cell is None else cell.translate(escapes) for cell in cells) + "\n"


def _name_at(statement: Statement, place: int) -> str:
    """Return a name as PostgreSQL reads it: in small letters where it is not in quotes."""
    if place >= len(statement.tokens):
        raise WireError("42601", "name the cursor", hint="FETCH 100 FROM name")
    token = statement.tokens[place]
    return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()


def read_fetch(statement: Statement) -> tuple[str, int | None]:
    """Return the cursor that a FETCH or MOVE names, and how many rows: None for all; raises WireError for any other way."""
    words = statement.words
    way = [word for word in words[1:-1] if word not in ("FROM", "IN", "FORWARD", "NEXT")]
    if way == ["ALL"]:
        return _name_at(statement, len(words) - 1), None
    if len(words) < 2 or len(way) > 1 or (way and not way[0].isdigit()):
        raise WireError("55000", _FORWARD)
    return _name_at(statement, len(words) - 1), int(way[0]) if way else 1
