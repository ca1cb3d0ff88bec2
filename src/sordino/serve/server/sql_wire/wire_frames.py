"""The frames of the PostgreSQL protocol, version 3: bytes to messages and back. It knows no session and no network.

Every length and count is checked against what is there and against a limit; whatever does not fit is a BrokenFrame.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

TLS = 80877103
GSS = 80877104
CANCEL = 80877102
VERSION = 3
# In bytes, as in PostgreSQL.
LONGEST_STARTUP = 10_000
LONGEST_FRAME = 1 << 20
# Parameters of a statement.
_MOST = 1000


class BrokenFrame(Exception):
    """Say that bytes are no frame of the protocol; the connection ends."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an answer: its name, and the number and size of its type."""

    name: str
    oid: int
    size: int


@dataclass(frozen=True, slots=True)
class Parse:
    """A statement to prepare: its name, text, and the types stated for its parameters."""

    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """A prepared statement with its parameters; formats are 0 for text and 1 for binary."""

    portal: str
    statement: str
    values: tuple[tuple[int, bytes | None], ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Execute:
    """A portal to run, and how many rows are wanted at most (0 for all)."""

    portal: str
    most: int


@dataclass(frozen=True, slots=True)
class Close:
    """A statement ("S") or portal ("P") by its name."""

    kind: str
    name: str


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def text(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise BrokenFrame
        raw = self._body[self._at : end]
        self._at = end + 1
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise BrokenFrame from None

    def whole(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def count(self, most: int = _MOST) -> int:
        count = self.whole(2)
        if not 0 <= count <= most:
            raise BrokenFrame
        return count

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._body):
            raise BrokenFrame
        self._at += size
        return self._body[self._at - size : self._at]

    def formats(self) -> tuple[int, ...]:
        formats = tuple(self.whole(2) for _ in range(self.count()))
        if not set(formats) <= {0, 1}:
            raise BrokenFrame
        return formats

    def end(self) -> None:
        if self._at != len(self._body):
            raise BrokenFrame


def read_startup(body: bytes) -> dict[str, str]:
    """Return the parameters of a startup packet, which follow its version."""
    reader = _Reader(body)
    parameters = dict[str, str]()
    while name := reader.text():
        parameters[name] = reader.text()
    reader.end()
    return parameters


def read_text(body: bytes) -> str:
    """Return the one text of a frame, such as Query."""
    reader = _Reader(body)
    text = reader.text()
    reader.end()
    return text


def read_sasl_first(body: bytes) -> tuple[str, bytes]:
    """Return the mechanism that a client chose, and its first message."""
    reader = _Reader(body)
    mechanism = reader.text()
    message = reader.take(reader.whole(4))
    reader.end()
    return mechanism, message


def read_parse(body: bytes) -> Parse:
    """Return a statement to prepare."""
    reader = _Reader(body)
    name = reader.text()
    text = reader.text()
    types = tuple(reader.whole(4) & 0xFFFFFFFF for _ in range(reader.count()))
    reader.end()
    return Parse(name, text, types)


def read_bind(body: bytes) -> Bind:
    """Return a prepared statement with its parameters."""
    reader = _Reader(body)
    portal = reader.text()
    statement = reader.text()
    formats = reader.formats()
    count = reader.count()
    if len(formats) not in (0, 1, count):
        raise BrokenFrame
    values = []
    for place in range(count):
        size = reader.whole(4)
        values.append((_format(formats, place), None if size == -1 else reader.take(size)))
    results = reader.formats()
    reader.end()
    return Bind(portal, statement, tuple(values), results)


def read_execute(body: bytes) -> Execute:
    """Return a portal to run."""
    reader = _Reader(body)
    execute = Execute(reader.text(), max(0, reader.whole(4)))
    reader.end()
    return execute


def read_target(body: bytes) -> Close:
    """Return what Describe or Close is about."""
    reader = _Reader(body)
    kind = reader.take(1).decode("latin-1")
    name = reader.text()
    reader.end()
    if kind not in "SP":
        raise BrokenFrame
    return Close(kind, name)


def frame(kind: str, body: bytes = b"") -> bytes:
    """Return a message to a client.

    >>> frame("Z", b"I")
    b'Z\\x00\\x00\\x00\\x05I'
    """
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def row_description(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """Return the columns that rows will have."""
    body = struct.pack("!h", len(columns))
    for place, one in enumerate(columns):
        body += _text(one.name) + struct.pack("!ihihih", 0, 0, one.oid, one.size, -1, _format(formats, place))
    return frame("T", body)


def parameter_description(types: Sequence[int]) -> bytes:
    """Return the types of a statement's parameters."""
    return frame("t", struct.pack("!h", len(types)) + b"".join(struct.pack("!I", one) for one in types))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """Return a row, its cells encoded already."""
    body = struct.pack("!h", len(cells))
    for cell in cells:
        body += struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell
    return frame("D", body)


def copy_start(columns: int, *, binary: bool = False) -> bytes:
    """Return that lines of text follow, or binary tuples, of so many columns."""
    return frame("H", struct.pack("!bh", binary, columns) + struct.pack("!h", binary) * columns)


def command_complete(tag: str) -> bytes:
    """Return that a statement is done."""
    return frame("C", _text(tag))


def report(kind: str, fields: Mapping[str, str]) -> bytes:
    """Return an error (kind "E") or a notice (kind "N") by its fields."""
    return frame(kind, b"".join(key.encode() + _text(value) for key, value in fields.items()) + b"\0")


def _text(text: str) -> bytes:
    return text.replace("\0", "?").encode("utf-8", "replace") + b"\0"


def _format(formats: Sequence[int], place: int) -> int:
    return 0 if not formats else formats[0] if len(formats) == 1 else formats[place]
