"""The few types that answers have on the wire: columns of a release as PostgreSQL's types, cells as text and as binary.

Parameters of a statement become literals of SQL here. It sees released values and public ones alone.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import uuid
from collections.abc import Sequence
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.serve.server.sql_wire.wire_frames import Column

BOOL = 16
INT8 = 20
INT2 = 21
INT4 = 23
TEXT = 25
FLOAT4 = 700
FLOAT8 = 701
DATE = 1082
TIMESTAMP = 1114
TIMESTAMPTZ = 1184
BPCHAR = 1042
VARCHAR = 1043
NAME = 19
NUMERIC = 1700
OID = 26
UUID = 2950
UNKNOWN = 705
# What a kind of cell is on the wire: the type and its size.
TYPES = {
    "truth": (BOOL, 1),
    "whole": (INT8, 8),
    "real": (FLOAT8, 8),
    "text": (TEXT, -1),
    "day": (DATE, 4),
    "moment": (TIMESTAMP, 8),
    "moment in a zone": (TIMESTAMPTZ, 8),
}
_SIZES = {INT2: 2, INT4: 4, INT8: 8, OID: 4}
# The elements of the arrays that clients send, and that the catalog has.
ELEMENTS = {
    1000: BOOL, 1003: NAME, 1005: INT2, 1007: INT4, 1009: TEXT, 1014: BPCHAR, 1015: VARCHAR, 1016: INT8, 1021: FLOAT4,
    1022: FLOAT8, 1028: OID, 1115: TIMESTAMP, 1182: DATE, 1185: TIMESTAMPTZ, 1231: NUMERIC, 2951: UUID,
}  # fmt: skip
ARRAYS = {element: array for array, element in ELEMENTS.items()}
# The names of elements in a cast of an empty array, which has none to tell its type.
_ARRAY_NAMES = {BOOL: "boolean", DATE: "date", TIMESTAMP: "timestamp", TIMESTAMPTZ: "timestamptz", FLOAT4: "real"}
_MOST_ELEMENTS = 10_000
_DAY_ZERO = datetime.date(2000, 1, 1)
_ZERO = datetime.datetime(2000, 1, 1)
# How JDBC's driver writes a day: with the offset of the client's zone, which says nothing of a day.
_DAY_WITH_OFFSET = re.compile(r"(\d{4}-\d{2}-\d{2})\s*[+-]\d{2}(:?\d{2})?")
_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]+))\s*(,|$)', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NUMBERS = frozenset({INT2, INT4, INT8, OID, FLOAT4, FLOAT8, NUMERIC})


def column_of_kind(name: str, kind: str) -> Column:
    """Return the column of this name whose cells are of a kind; of "moment UTC" and its like, moments in a zone."""
    word, _, zone = kind.partition(" ")
    return Column(name, *TYPES["moment in a zone" if word == "moment" and zone else kind])


def encode_cell(value: Any, oid: int, form: int) -> bytes | None:
    """Return a cell in the text (0) or binary (1) form of a type.

    A whole number past 64 bits becomes the last that fits: noise has no bounds, a type has.
    """
    if value is None:
        return None
    fits = _fit(value, oid)
    if form == 0:
        # a moment of the catalog is in UTC, and says so
        zone = "+00" if oid == TIMESTAMPTZ and fits.tzinfo is None else ""
        return (_as_text(fits) + zone).encode("utf-8", "replace")
    if isinstance(fits, list):
        return _array(fits, ELEMENTS[oid])
    if isinstance(fits, bool):
        return b"\1" if fits else b"\0"
    if oid in _SIZES:
        return int(fits).to_bytes(_SIZES[oid], "big", signed=oid != OID)
    if oid == FLOAT8:
        return struct.pack("!d", fits)
    if oid == DATE:
        return struct.pack("!i", (fits - _DAY_ZERO).days)
    if oid == TIMESTAMP:
        return struct.pack("!q", (fits - _ZERO) // datetime.timedelta(microseconds=1))
    if oid == TIMESTAMPTZ:
        return struct.pack("!q", (_in_utc(fits) - _ZERO) // datetime.timedelta(microseconds=1))
    return _as_text(fits).encode("utf-8", "replace")


def _array(cells: Sequence[Any], oid: int) -> bytes:
    encoded = struct.pack("!iiI", 1 if cells else 0, 1, oid) + (struct.pack("!ii", len(cells), 1) if cells else b"")
    for one in cells:
        cell = encode_cell(one, oid, 1)
        encoded += struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell
    return encoded


def _fit(value: Any, oid: int) -> Any:
    if oid == FLOAT8:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if oid in _SIZES and not isinstance(value, bool):
        least, most = (0, 2**32 - 1) if oid == OID else (-(2 ** (8 * _SIZES[oid] - 1)), 2 ** (8 * _SIZES[oid] - 1) - 1)
        return max(least, min(most, round(value)))
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        named = {math.inf: "Infinity", -math.inf: "-Infinity"}
        return "NaN" if math.isnan(value) else named.get(value) or repr(value).removesuffix(".0")
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ") if value.tzinfo is None else f"{_in_utc(value).isoformat(' ')}+00"
    if isinstance(value, list):
        return "{" + ",".join("NULL" if one is None else _element(one) for one in value) + "}"
    return str(value)


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    """Return what the clock of UTC shows, which is the zone of every session."""
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _element(value: Any) -> str:
    text = _as_text(value)
    if re.fullmatch(r"[A-Za-z0-9_.+-]+", text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def literal_of(value: bytes | None, form: int, oid: int) -> str:
    """Return a parameter as a literal of SQL: a number, TRUE, FALSE, NULL, text in quotes, or an ARRAY of these.

    Raises DeclarationError for what is not of its type.

    >>> literal_of(b"it's", 0, 25), literal_of(b"-5", 0, 20), literal_of(None, 0, 0), literal_of(b"{1,2}", 0, 1016)
    ("'it''s'", '-5', 'NULL', 'ARRAY[1, 2]')
    """
    if value is None:
        return "NULL"
    if oid in ELEMENTS:
        element = ELEMENTS[oid]
        elements = read_array(value) if form == 0 else _read_binary_array(value, element)
        if not elements:
            kind = _ARRAY_NAMES.get(
                element, "bigint" if element in _SIZES else "numeric" if element in _NUMBERS else "text"
            )
            return f"ARRAY[]::{kind}[]"
        return f"ARRAY[{', '.join(literal_of(each, form, element) for each in elements)}]"
    plain = _plain(value, form, oid)
    if isinstance(plain, bool):
        return "TRUE" if plain else "FALSE"
    if isinstance(plain, (int, float)):
        if not math.isfinite(plain):
            raise DeclarationError("is not a finite number", key="a parameter")
        return repr(plain)
    text = str(plain)
    if oid in _NUMBERS:
        if _NUMBER.fullmatch(text.strip()) is None or len(text) > 400:
            raise DeclarationError("is not a number, as its type says", key="a parameter")
        return text.strip().removeprefix("+")
    if oid == BOOL:
        return _truth(text.strip().lower())
    if oid == DATE and (day := _DAY_WITH_OFFSET.fullmatch(text.strip())):
        text = day[1]
    return "'" + text.replace("'", "''") + "'"


def read_array(value: bytes) -> list[bytes | None]:
    """Return the elements of an array of one dimension, as PostgreSQL writes it: {1,NULL,"a b"}; raises DeclarationError."""
    text = _plain(value, 0, TEXT).strip()
    inner = text[1:-1].strip()
    elements: list[bytes | None] = []
    at = 0
    if text[:1] != "{" or text[-1:] != "}":
        raise DeclarationError("is not an array, such as {1,2}", key="a parameter")
    while at < len(inner) or (elements and inner[-1:] == ","):
        match = _ELEMENT.match(inner, at)
        if match is None or len(elements) >= _MOST_ELEMENTS:
            raise DeclarationError(
                f"is not an array of one dimension and at most {_MOST_ELEMENTS:,} elements", key="a parameter"
            )
        quoted, plain, _ = match.groups()
        if quoted is None:
            elements.append(None if plain.strip().upper() == "NULL" else plain.strip().encode())
        else:
            elements.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL).encode())
        at = match.end()
    return elements


def _read_binary_array(value: bytes, oid: int) -> list[bytes | None]:
    """Return the elements of an array of one dimension in PostgreSQL's binary form."""
    elements: list[bytes | None] = []
    try:
        dimensions, _, stated = struct.unpack("!iiI", value[:12])
        count = struct.unpack("!i", value[12:16])[0] if dimensions else 0
        if stated != oid or dimensions not in (0, 1) or not 0 <= count <= _MOST_ELEMENTS:
            raise ValueError
        at = 20 if dimensions else 12
        for _ in range(count):
            size = struct.unpack("!i", value[at : at + 4])[0]
            at += 4
            if size < -1 or at + max(0, size) > len(value):
                raise ValueError
            elements.append(None if size < 0 else value[at : at + size])
            at += max(0, size)
        if at != len(value):
            raise ValueError
    except (ValueError, struct.error):
        rule = f"is not an array of one dimension and at most {_MOST_ELEMENTS:,} elements"
        raise DeclarationError(rule, key="a parameter") from None
    return elements


def _truth(text: str) -> str:
    if text not in ("t", "true", "1", "on", "yes", "f", "false", "0", "off", "no"):
        raise DeclarationError("is not true or false, as its type says", key="a parameter")
    return "TRUE" if text in ("t", "true", "1", "on", "yes") else "FALSE"


def _plain(value: bytes, form: int, oid: int) -> Any:
    try:
        if form == 0 or oid in (0, TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN):
            text = value.decode("utf-8")
            if "\0" in text:
                raise ValueError
            return text
        if oid in _SIZES and len(value) == _SIZES[oid]:
            return int.from_bytes(value, "big", signed=oid != OID)
        if oid in (FLOAT4, FLOAT8):
            return struct.unpack("!f" if oid == FLOAT4 else "!d", value)[0]
        if oid == BOOL and len(value) == 1:
            return value != b"\0"
        if oid == DATE:
            return (_DAY_ZERO + datetime.timedelta(days=struct.unpack("!i", value)[0])).isoformat()
        if oid == TIMESTAMP:
            return (_ZERO + datetime.timedelta(microseconds=struct.unpack("!q", value)[0])).isoformat(" ")
        if oid == TIMESTAMPTZ:
            return (_ZERO + datetime.timedelta(microseconds=struct.unpack("!q", value)[0])).isoformat(" ") + "+00:00"
        if oid == UUID and len(value) == 16:
            return str(uuid.UUID(bytes=value))
        if oid == NUMERIC:
            return _numeric(value)
    except (ValueError, struct.error, OverflowError):
        raise DeclarationError("is not of the type that is stated for it", key="a parameter") from None
    raise DeclarationError("is of a type that cannot be sent in binary: send it as text", key="a parameter")


def _numeric(value: bytes) -> str:
    """Return PostgreSQL's binary numeric as text: digits of base 10,000 after count, weight, sign and scale."""
    count, weight, sign, scale = struct.unpack("!hhHh", value[:8])
    digits: Sequence[int] = struct.unpack(f"!{count}h", value[8:])
    if sign not in (0, 0x4000) or not -1000 < weight < 1000 or not 0 <= scale < 1000 or count > 1000:
        raise ValueError
    if any(not 0 <= digit < 10_000 for digit in digits):
        raise ValueError
    whole = sum(digit * 10_000 ** (weight - place + 1000 + count) for place, digit in enumerate(digits))
    shifted = str(whole).rjust(4 * (1000 + count) + 1, "0")
    cut = len(shifted) - 4 * (1000 + count)
    text = shifted[:cut] + ("." + shifted[cut : cut + scale] if scale else "")
    return ("-" if sign else "") + (text.lstrip("0") if text.lstrip("0")[:1].isdigit() else "0" + text.lstrip("0"))
