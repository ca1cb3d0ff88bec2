"""Cells that are Python objects, read one by one as SQL reads the same cell from a column of one physical type.

All rows of a column decide which type a container gives it (objects, or one type for all). So the two readings agree for every
kind of cell: one odd row makes a column of objects, and all other rows must count as they did before.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.moment_cells import DAY_NANOS, FIRST_MICROS, LAST_MICROS
from sordino.core.cell_grammar import BLANKS, DAY, DECIMAL, FALSE, TRUE, WHOLE
from sordino.core.domain import STORED, Boolean, Category, Column, Date, DateTime, Identifier, Integer

if TYPE_CHECKING:
    import pyarrow as pa

# whole numbers below it are not merged with others where a container makes floats of them
EXACT_IN_FLOAT = 2**53
_WHOLE = re.compile(WHOLE)
_DECIMAL = re.compile(DECIMAL)
_DAY = re.compile(DAY)
_VAST = Fraction(10**300)
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
# in nanoseconds
_SECOND = 10**9
_DAYS_OF_400_YEARS = 146_097
# the largest number of a timestamp's microseconds; it and its negative stand for the infinities
_WIDEST = 2**63 - 1
_ENDLESS = 2**200
# in attoseconds
_TICKS = {
    "W": 604_800 * 10**18,
    "D": 86_400 * 10**18,
    "h": 3_600 * 10**18,
    "m": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A timestamp: nanoseconds since 1970, in UTC if it is zoned, else of a clock that it does not name."""

    nanos: int
    zoned: bool

    @property
    def day(self) -> datetime.date:
        """Its day, a zoned one's in UTC, within the years 1 to 9999."""
        ordinal = _EPOCH_DAY + self.nanos // DAY_NANOS
        return datetime.date.fromordinal(max(1, min(datetime.date.max.toordinal(), ordinal)))

    @property
    def text(self) -> str:
        """The text that DuckDB writes of it, a zoned one's in UTC."""
        if abs(self.nanos) >= _ENDLESS:
            return "infinity" if self.nanos > 0 else "-infinity"
        days, rest = divmod(self.nanos, DAY_NANOS)
        seconds, fraction = divmod(rest, _SECOND)
        # Python's years end at 9999, and the calendar repeats itself every 400 years.
        cycles, day = divmod(_EPOCH_DAY + days - 1, _DAYS_OF_400_YEARS)
        date = datetime.date.fromordinal(day + 1)
        year = date.year + 400 * cycles
        # the year before 1 is 1 BC
        years = f"{year:04d}" if year > 0 else f"{1 - year:04d}"
        era = "" if year > 0 else " (BC)"
        time = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        places = f".{fraction:09d}".rstrip("0") if fraction else ""
        return f"{years}-{date:%m-%d}{era} {time}{places}{'+00' if self.zoned else ''}"

    def clip(self) -> Moment:
        """Return the moment within the years 1 to 9999, as SQL reads one of a column of timestamps."""
        return Moment(max(FIRST_MICROS * 1000, min(LAST_MICROS * 1000, self.nanos)), self.zoned)


def reader(column: Column, *, below: int | None = None) -> tuple[Callable[[Any], Any], pa.DataType]:
    """Return the function that reads one object as declared, and the Arrow type of its results.

    It is total: it returns None for an object that is missing or cannot be read, and never raises. With `below`, whole numbers
    and floats from there on are missing: for names in a container that makes floats of whole numbers if one is missing.
    """
    import pyarrow as pa

    if isinstance(column, Identifier) or (isinstance(column, Category) and isinstance(column.values[0], str)):
        return _total(_text, below), pa.string()
    if isinstance(column, Boolean):
        return _total(_truth, below), pa.bool_()
    if isinstance(column, Date):
        return _total(_day, below), pa.date32()
    if isinstance(column, DateTime):
        return _total(_moment, below), pa.string()
    if isinstance(column, (Category, Integer)):
        return _total(_integer, below), pa.int64()
    return _total(_real, below), pa.float64()


def numpy_moment(value: Any, *, zoned: bool) -> Moment | None:
    """Return a datetime64 of NumPy as a Moment, which is in UTC if it is zoned; None for NaT and for moments out of range.

    As in Arrow, the ends of 64 bits are the infinities, and all other moments are within the range of microseconds.
    """
    import numpy as np

    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value = value.astype("datetime64[D]")
        unit = "D"
        count = 1
    number = int(value.astype(np.int64))
    if number == -(2**63) or unit not in _TICKS:
        return None
    if abs(number) == _WIDEST:
        return Moment(_ENDLESS if number > 0 else -_ENDLESS, zoned)
    attos = number * count * _TICKS[unit]
    return None if abs(attos) > _WIDEST * _TICKS["us"] else Moment(attos // _TICKS["ns"], zoned)


def _total(read: Callable[[Any], Any], below: int | None) -> Callable[[Any], Any]:
    def cell(value: Any) -> Any:
        try:
            value = _plain(value)
            if below is not None and isinstance(value, (int, float)) and below <= abs(value) < math.inf:
                return None
            return None if value is None else read(value)
        except Exception:
            # an object of an unforeseen type
            return None

    return cell


def _plain(value: Any) -> Any:
    """Return an object as a plain Python value or a Moment, None if no declared type reads it.

    An array does not keep the classes of its cells, so neither do objects: an enum is its number or its text.
    """
    if type(value).__module__ == "numpy":
        import numpy as np

        if isinstance(value, np.datetime64):
            return numpy_moment(value, zoned=False)
        if isinstance(value, (np.timedelta64, np.ndarray)):
            return None
        value = float(value) if isinstance(value, np.floating) else value.item()
    if isinstance(value, str):
        text = str.__str__(value)
        # raises for a lone surrogate, which is no text: the cell is missing
        text.encode()
        return text
    # NaN and NaT differ from themselves
    if value is None or value != value:
        return None
    if isinstance(value, complex):
        # Beside one of these, numbers are complex too.
        return value.real if value.imag == 0 else None
    if isinstance(value, Decimal):
        return float(value) if value.is_infinite() else value
    if isinstance(value, datetime.datetime):
        return _clock_moment(value)
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    return value if isinstance(value, (datetime.date, uuid.UUID)) or _is_period(value) else None


def _clock_moment(value: datetime.datetime) -> Moment | None:
    """Return a timestamp as a Moment: one of pandas has nanoseconds, and may be in a year that Python does not have."""
    offset = value.utcoffset()
    if type(value).__module__.split(".")[0] == "pandas":
        return numpy_moment(value.asm8, zoned=offset is not None)  # type: ignore[attr-defined]
    since = value.replace(tzinfo=None) - _EPOCH
    if offset is not None:
        since -= offset
    return Moment((since // datetime.timedelta(microseconds=1)) * 1000, offset is not None)


def _integer(value: Any) -> int | None:
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None
    if isinstance(value, float) and math.isinf(value):
        return STORED if value > 0 else -STORED
    if isinstance(value, Decimal):
        # SQL asks the float of a decimal whether it is whole, and then rounds the decimal itself.
        whole = float(value).is_integer()
        value = value.to_integral_value(ROUND_HALF_UP) if whole else None
    if isinstance(value, (int, float, Decimal)) and value == int(value):
        return max(-STORED, min(STORED, int(value)))
    return None


def _real(value: Any) -> float | None:
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return float(text) if _DECIMAL.fullmatch(text) else None
    if isinstance(value, (int, Decimal)):
        return float(max(-_VAST, min(_VAST, Fraction(value))))
    return value if isinstance(value, float) else None


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_IN_FLOAT:
        return str(int(value))
    if isinstance(value, Decimal):
        # Without an exponent, and without zeros at its end: how many there are a column of decimals decides by all rows.
        text = f"{value:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    return value.text if isinstance(value, Moment) else str(value)


def _truth(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip(BLANKS).lower()
        return True if word in TRUE else False if word in FALSE else None
    if isinstance(value, (bool, int, float, Decimal)) and value in (0, 1):
        return bool(value)
    return None


def _day(value: Any) -> datetime.date | None:
    if isinstance(value, datetime.date):
        return value
    if _is_period(value):
        value = _plain(value.start_time)
    if isinstance(value, Moment):
        return value.day
    text = value.strip(BLANKS) if isinstance(value, str) else ""
    return datetime.date.fromisoformat(text[:10].replace("/", "-")) if _DAY.fullmatch(text) else None


def _moment(value: Any) -> str | None:
    """Return a moment as text, which the engine reads as it reads other text; an offset from UTC is taken out of it."""
    if isinstance(value, str):
        return value
    if _is_period(value):
        value = _plain(value.start_time)
    if isinstance(value, Moment):
        return value.clip().text
    return value.isoformat() if isinstance(value, datetime.date) else None


def _is_period(value: Any) -> bool:
    """Return whether an object is a period of pandas, such as a month: a date is its first day, a text its name."""
    return type(value).__name__ == "Period" and type(value).__module__.split(".")[0] == "pandas"
