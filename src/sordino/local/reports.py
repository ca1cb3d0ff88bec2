"""Reports: a batch of randomised answers as fixed-width rows, its wire format, and support counts that add up.

It may not know how a report was made; whoever reads one says, through `Wire`, which rows can be.

Wire format of a batch, little-endian: magic "SRDL" (4 bytes), version 1 (1), kind (1), bytes a report (2), SHA-256 of the
canonical JSON of the protocol's parameters (32), number of reports (8), then the reports one after another.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.local.labels import canonical

Rows = np.ndarray[Any, np.dtype[np.uint8]]
Parameters = dict[str, int | str | None]

_HEAD = struct.Struct("<4sBBH32sQ")
_MAGIC = b"SRDL"
_VERSION = 1
HEADER_BYTES = _HEAD.size


class Wire(Protocol):
    """What a batch of reports must know of its protocol."""

    @property
    def width(self) -> int:
        """Bytes of one report."""

    @property
    def number(self) -> int:
        """The protocol's number in the wire format: 1 to 127 for Sordino's own, 128 to 255 for registered ones."""

    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""

    def check(self, rows: Rows) -> None:
        """Raise DeclarationError where a row is no report of this protocol."""


def parameters_hash(parameters: Mapping[str, Any]) -> bytes:
    """Return the SHA-256 of the canonical JSON of a protocol's parameters: 32 bytes."""
    return hashlib.sha256(canonical(dict(parameters))).digest()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reports:
    """Hold a batch of reports of one protocol: `rows` has a report a row, each of the same number of bytes.

    `kind`, its `number` on the wire and `task` (the hash of the parameters) say which protocol they belong to;
    `bit_count` is how many bits a report has where each bit stands for itself, None where it is a number.
    """

    kind: str
    number: int
    task: bytes
    rows: Rows
    bit_count: int | None = None

    @classmethod
    def of(cls, wire: Wire, rows: Rows) -> Reports:
        """Return rows as reports of a protocol, unchecked: for rows that the protocol made itself."""
        rows.flags.writeable = False
        parameters = wire.parameters()
        return cls(
            str(parameters["kind"]), wire.number, parameters_hash(parameters), rows, getattr(wire, "bit_count", None)
        )

    @classmethod
    def from_bytes(cls, data: bytes, wire: Wire) -> Reports:
        """Return the batch that `to_bytes` wrote, checked against its protocol.

        Raises DeclarationError where it is cut, too long, of another version, protocol or task, or a row is impossible.
        """
        if len(data) < HEADER_BYTES or data[:4] != _MAGIC:
            raise DeclarationError("these bytes are not a batch of reports: they must begin with SRDL and a header")
        _, version, number, width, task, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise DeclarationError(f"these reports have format {version}; this program reads {_VERSION}")
        kind = str(wire.parameters()["kind"]) if number == wire.number else f"number {number}"
        _check_task(kind, task, wire)
        if width != wire.width or len(data) != HEADER_BYTES + width * count:
            raise DeclarationError(
                f"a batch of {count} reports has {wire.width} bytes each; these bytes are cut or padded"
            )
        return cls.from_rows(data[HEADER_BYTES:], wire)

    @classmethod
    def from_rows(cls, data: bytes, wire: Wire) -> Reports:
        """Return bare report bytes, one after another, as a batch; each is checked.

        Raises DeclarationError where they are no whole number of reports, or a row is impossible.
        """
        if len(data) % wire.width:
            raise DeclarationError(f"reports of this task have {wire.width} bytes each; {len(data)} bytes are not that")
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, wire.width)
        wire.check(rows)
        return cls.of(wire, rows)

    def bits(self) -> Rows:
        """Return the bits of each report, a row of 0s and 1s in the order of the labels.

        Raises DeclarationError where a report is a number, not bits.
        """
        if self.bit_count is None:
            raise DeclarationError(f"a report of {self.kind} is a number, not a bit a label: protocol.count reads it")
        return np.unpackbits(self.rows, axis=1, bitorder="little")[:, : self.bit_count]

    def to_bytes(self) -> bytes:
        """Return the batch in the wire format, to be read by `from_bytes`."""
        count, width = self.rows.shape
        return _HEAD.pack(_MAGIC, _VERSION, self.number, width, self.task, count) + self.rows.tobytes()

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __add__(self, more: Reports) -> Reports:
        if not isinstance(more, Reports):
            return NotImplemented
        if more.task != self.task:
            raise DeclarationError("these reports belong to different tasks: count each by its own protocol")
        rows = np.concatenate([self.rows, more.rows])
        rows.flags.writeable = False
        return Reports(self.kind, self.number, self.task, rows, self.bit_count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reports):
            return NotImplemented
        return self.task == other.task and np.array_equal(self.rows, other.rows)

    __hash__ = None  # type: ignore[assignment]  # a batch is data, not a key

    def __repr__(self) -> str:
        return f"<Reports {self.kind}: {len(self):,} of {self.rows.shape[1]} bytes>"


@dataclass(frozen=True, slots=True)
class SupportCounts:
    """Hold how many of `n` reports support each label; counts of one task add up, in any order.

    >>> SupportCounts(b"t", (3, 1), 4) + SupportCounts(b"t", (1, 1), 2)
    SupportCounts(task=b't', supports=(4, 2), n=6)
    """

    task: bytes
    supports: tuple[int, ...]
    n: int

    def __add__(self, more: SupportCounts) -> SupportCounts:
        if not isinstance(more, SupportCounts):
            return NotImplemented
        if more.task != self.task:
            raise DeclarationError("these counts belong to different tasks: estimate each by its own protocol")
        summed = tuple(a + b for a, b in zip(self.supports, more.supports, strict=True))
        return SupportCounts(self.task, summed, self.n + more.n)


def count_support(reports: Reports, supports: Iterable[Any]) -> SupportCounts:
    """Return support counts of a batch."""
    return SupportCounts(reports.task, tuple(int(c) for c in supports), len(reports))


def own(reports: Reports, wire: Wire) -> Rows:
    """Return the rows of a batch of this very protocol; raises DeclarationError for another's."""
    _check_task(reports.kind, reports.task, wire)
    return reports.rows


def own_numbers(reports: Reports, wire: Wire) -> np.ndarray[Any, Any]:
    """Return the rows of a batch of this very protocol as whole numbers; raises DeclarationError for another's."""
    return numbers_of(own(reports, wire), wire.width)


def check_numbers(rows: Rows, below: int, *, width: int, what: str) -> None:
    """Raise DeclarationError where a row is a number from `below` on; `what` says what such a number names."""
    if rows.size and int(numbers_of(rows, width).max()) >= below:
        raise DeclarationError(f"a report names a {what} beyond the last, number {below - 1}")


def check_padding(rows: Rows, bits: int) -> None:
    """Raise DeclarationError where packed bits are set beyond the first `bits` of a row."""
    spare = -bits % 8
    if rows.size and spare and int(rows[:, -1].max()) >> (8 - spare):
        raise DeclarationError("a report sets bits beyond the last")


def rows_of(numbers: np.ndarray[Any, Any], width: int) -> Rows:
    """Return whole numbers as little-endian rows of 1, 2 or 4 bytes."""
    return numbers.astype(f"<u{width}").view(np.uint8).reshape(-1, width)


def numbers_of(rows: Rows, width: int) -> np.ndarray[Any, Any]:
    """Return the numbers that `rows_of` wrote."""
    return np.ascontiguousarray(rows).view(f"<u{width}").reshape(-1)


def _check_task(kind: str, task: bytes, wire: Wire) -> None:
    parameters = wire.parameters()
    if kind != parameters["kind"]:
        raise DeclarationError(f"these are reports of the protocol {kind}, not of {parameters['kind']}")
    if task != parameters_hash(parameters):
        raise DeclarationError("these reports belong to another task: its labels, thresholds or epsilon differ")
