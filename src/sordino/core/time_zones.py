"""Moments in a stated time zone: literals in ISO form, seconds since 1970 in UTC, and a zone's offsets as a public table.

It knows no data and no machine: a zone is one of the tz database by its name, so that wherever a question is asked the same
wall clock means the same moment. Where the clock is set forward, a time that it skips is read with the offset before; where
it is set back, a time that it shows twice is the first of the two (RFC 5545, 3.3.5; Python's fold = 0).
"""

from __future__ import annotations

import bisect
import datetime
import functools
import math
import re
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.core.cell_grammar import BLANKS, DAY
from sordino.core.columns import LISTED, TiledColumn, read_tiles, write_tiles
from sordino.core.errors import DeclarationError, QuestionRefused, nearest

EPOCH = datetime.date(1970, 1, 1)
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_SECONDS = 86_400
# names of the machine's own setting, which is no declaration
_MACHINE = frozenset({"localtime", "posixrules", "local"})
_LITERAL = re.compile(DAY)
_MICRO = Fraction(1, 1_000_000)


@dataclass(frozen=True, slots=True)
class Offsets:
    """A zone's offsets from UTC in seconds: `values[i]` from `starts[i - 1]` on, in seconds since 1970 in UTC.

    >>> berlin = offsets("Europe/Berlin", 1577836800, 1609459200)
    >>> berlin.values, berlin.starts
    ((3600, 7200, 3600), (1585443600, 1603587600))
    """

    starts: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def local_starts(self) -> tuple[int, ...]:
        """The wall-clock time from which each offset is the one to subtract.

        A change from offset a to b at u shows the wall clock u + a before and u + b after it: times skipped (a < b) are
        read with a, up to u + b, and of times shown twice (a > b) the first is meant, with a, up to u + a.
        """
        changes = zip(self.starts, self.values, self.values[1:], strict=False)
        return tuple(start + max(a, b) for start, a, b in changes)

    def at(self, seconds: Fraction) -> int:
        """Return the offset at a moment."""
        return self.values[bisect.bisect_right(self.starts, seconds)]

    def utc(self, local: Fraction) -> Fraction:
        """Return the moment, in seconds since 1970 in UTC, that a wall clock shows as `local`."""
        return local - self.values[bisect.bisect_right(self.local_starts, local)]


@functools.cache
def time_zone(name: str) -> datetime.tzinfo:
    """Return a zone of the tz database by its name; raises DeclarationError for an unknown one, or the machine's.

    >>> time_zone("Europe/Berlin").utcoffset(datetime.datetime(2020, 7, 1))
    datetime.timedelta(seconds=7200)
    """
    if name == "UTC":
        return zoneinfo.ZoneInfo("UTC") if "UTC" in _known_zones() else datetime.UTC
    if name not in _known_zones() or name in _MACHINE:
        raise DeclarationError(
            f'must be a name of the tz database, such as "UTC" or "Europe/Berlin", not {name!r}; '
            f"{nearest(name, sorted(_known_zones() - _MACHINE))}",
            key="zone",
        )
    return zoneinfo.ZoneInfo(name)


@functools.lru_cache(maxsize=64)
def offsets(zone: str, first: int, last: int) -> Offsets:
    """Return the offsets of a zone between two moments, in seconds since 1970 in UTC, and a few days around them.

    Days are compared with the next; between two that differ the change is found by bisection.
    """
    if zone == "UTC":
        # Two centuries are 73,000 days to compare, a tenth of a second for each declared column.
        return Offsets((), (0,))
    clock = time_zone(zone)

    def offset(seconds: int) -> int:
        difference = (_START + datetime.timedelta(seconds=seconds)).astimezone(clock).utcoffset()
        return 0 if difference is None else int(difference.total_seconds())

    start = first - 3 * _DAY_SECONDS
    end = last + 3 * _DAY_SECONDS
    starts: list[int] = []
    values = [offset(start)]
    for day in range(start, end, _DAY_SECONDS):
        low = day
        high = day + _DAY_SECONDS
        if offset(high) == values[-1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == values[-1] else (low, middle)
        starts.append(high)
        values.append(offset(day + _DAY_SECONDS))
    return Offsets(tuple(starts), tuple(values))


def parse_moment(text: str) -> datetime.date | datetime.datetime:
    """Parse a text in ISO form: a day, or a time of a day, with its offset from UTC where it has one.

    Raises ValueError for another text.

    >>> parse_moment("2020-01-31"), parse_moment("2020/01/31 10:30")
    (datetime.date(2020, 1, 31), datetime.datetime(2020, 1, 31, 10, 30))
    >>> parse_moment("2020-01-31T10:30:00,5 +02").isoformat()
    '2020-01-31T10:30:00.500000+02:00'
    """
    plain = text.strip(BLANKS)
    if _LITERAL.fullmatch(plain):
        plain = plain[:10].replace("/", "-") + plain[10:].replace("UTC", "Z").replace(",", ".")
        plain = plain[:11] + plain[11:].replace(" ", "")
    if re.fullmatch(r"[0-9]{4}-?(?:W[0-9]{2}(?:-?[0-9])?|[0-9]{2}-?[0-9]{2})", plain):
        return datetime.date.fromisoformat(plain)
    return datetime.datetime.fromisoformat(plain)


def seconds_since(moment: datetime.date, zone: str) -> Fraction:
    """Return a moment in seconds since 1970 in UTC; a day, or a time without an offset, is read in `zone`.

    >>> seconds_since(datetime.date(1970, 1, 2), "UTC"), seconds_since(datetime.date(1970, 1, 1), "Europe/Berlin")
    (Fraction(86400, 1), Fraction(-3600, 1))
    """
    if not isinstance(moment, datetime.datetime):
        moment = datetime.datetime(moment.year, moment.month, moment.day)
    aware = moment.utcoffset() is not None
    since = moment - (_START if aware else _START.replace(tzinfo=None))
    seconds = Fraction(since // datetime.timedelta(microseconds=1), 1_000_000)
    if aware or zone == "UTC":
        return seconds
    return offsets(zone, int(seconds), int(seconds)).utc(seconds)


def local_time(seconds: Fraction, zone: str) -> datetime.datetime:
    """Return a moment as the zone's own clock shows it, to the microsecond below.

    >>> local_time(Fraction(1577833200), "Europe/Berlin").isoformat()
    '2020-01-01T00:00:00+01:00'
    """
    return (_START + datetime.timedelta(microseconds=int(seconds // _MICRO))).astimezone(time_zone(zone))


def show_time(value: Fraction, kind: str, zone: str) -> datetime.date:
    """Return days since 1970 as a date (kind "date"), or seconds since 1970 in UTC as a moment on a zone's clock.

    >>> show_time(Fraction(18262), "date", "")
    datetime.date(2020, 1, 1)
    """
    time: datetime.date | None = None
    try:
        time = EPOCH + datetime.timedelta(days=math.floor(value)) if kind == "date" else local_time(value, zone)
    except OverflowError:
        time = None
    if time is None:
        raise QuestionRefused("a date of this question may leave the years 1 to 9999: narrow its bounds")
    return time


def label_to_json(label: Any) -> Any:
    """Return a label as JSON data: a date or a moment as text, a moment with its zone after a blank; else the label.

    >>> label_to_json(local_time(Fraction(0), "Europe/Berlin"))
    '1970-01-01T01:00:00+01:00 Europe/Berlin'
    """
    if not isinstance(label, datetime.date):
        return label
    zone = getattr(getattr(label, "tzinfo", None), "key", "UTC") if isinstance(label, datetime.datetime) else ""
    return f"{label.isoformat()} {zone}".strip()


def label_from_json(text: Any) -> Any:
    """Return the date or moment that `label_to_json` wrote."""
    if not isinstance(text, str):
        return text
    iso, _, zone = text.partition(" ")
    return (
        datetime.datetime.fromisoformat(iso).astimezone(time_zone(zone)) if zone else datetime.date.fromisoformat(iso)
    )


def labels_to_dict(labels: Sequence[Any]) -> dict[str, Any]:
    """Return the labels of a key as JSON data, which says whether they are dates or moments."""
    if isinstance(labels, TiledColumn) and len(labels) > LISTED:
        return write_tiles(labels, labels_to_dict)
    if not any(issubclass(kind, datetime.date) for kind in set(map(type, labels))):
        return {"labels": list(labels)}
    return {"type": "time", "labels": [label_to_json(label) for label in labels]}


def labels_from_dict(data: Mapping[str, Any]) -> Sequence[Any]:
    """Return the labels that `labels_to_dict` wrote."""
    if "tiles" in data:
        return read_tiles(data, labels_from_dict)
    return tuple(map(label_from_json, data["labels"]) if data.get("type") == "time" else data["labels"])


@functools.cache
def _known_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
