"""The few types that answers have on the wire: columns of a release as PostgreSQL's types, cells as text and as binary.

Parameters of a statement become literals of SQL here. It sees released values and public ones alone.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
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
VARCHAR = 1043
NUMERIC = 1700
OID = 26
UNKNOWN = 705
# What a kind of cell is on the wire: the type and its size.
TYPES = {
    "truth": (BOOL, 1),
    "whole": (INT8, 8),
    "real": (FLOAT8, 8),
    "text": (TEXT, -1),
    "day": (DATE, 4),
    "moment": (TIMESTAMP, 8),
}
_SIZES = {INT2: 2, INT4: 4, INT8: 8, OID: 4}
# The elements of the arrays that the catalog has.
_ELEMENTS = {1009: TEXT, 1016: INT8}
_DAY_ZERO = datetime.date(2000, 1, 1)
_ZERO = datetime.datetime(2000, 1, 1)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_NUMBERS = frozenset({INT2, INT4, INT8, OID, FLOAT4, FLOAT8, NUMERIC})


def column_of_kind(name: str, kind: str) -> Column:
    """Return the column of this name whose cells are of a kind."""
    return Column(name, *TYPES[kind])


def encode_cell(value: Any, oid: int, form: int) -> bytes | None:
    """Return a cell in the text (0) or binary (1) form of a type.

    A whole number past 64 bits becomes the last that fits: noise has no bounds, a type has.
    """
    if value is None:
        return None
    fits = _fit(value, oid)
    if form == 0:
        return _as_text(fits).encode("utf-8", "replace")
    if isinstance(fits, list):
        return _array(fits, _ELEMENTS[oid])
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
        return value.isoformat(" ")
    if isinstance(value, list):
        return "{" + ",".join("NULL" if one is None else _element(one) for one in value) + "}"
    return str(value)


def _element(value: Any) -> str:
    text = _as_text(value)
    if re.fullmatch(r"[A-Za-z0-9_.+-]+", text) and text.upper() != "NULL":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def literal_of(value: bytes | None, form: int, oid: int) -> str:
    """Return a parameter as a literal of SQL: a number, TRUE, FALSE, NULL, or text in quotes; raises DeclarationError.

    >>> literal_of(b"it's", 0, 25), literal_of(b"-5", 0, 20), literal_of(None, 0, 0)
    ("'it''s'", '-5', 'NULL')
    """
    if value is None:
        return "NULL"
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
    return "'" + text.replace("'", "''") + "'"


def _truth(text: str) -> str:
    if text not in ("t", "true", "1", "on", "yes", "f", "false", "0", "off", "no"):
        raise DeclarationError("is not true or false, as its type says", key="a parameter")
    return "TRUE" if text in ("t", "true", "1", "on", "yes") else "FALSE"


def _plain(value: bytes, form: int, oid: int) -> Any:
    try:
        if form == 0 or oid in (0, TEXT, VARCHAR, UNKNOWN):
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
