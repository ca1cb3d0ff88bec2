"""Cells that are Python objects, read one by one as SQL reads the same cell from a column of one physical type.

All rows of a column decide which type a container gives it (objects, or one type for all). So the two readings agree for every
kind of cell: one odd row makes a column of objects, and all other rows must count as they did before.

Moments, in timestamps of each type, in days and in text, are whole steps since 1970 in UTC. No SQL here needs the ICU
extension or a session's time zone: a zone's offsets are a public table in the SQL itself.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from sordino.core.cell_grammar import DAY
from sordino.core.time_zones import offsets

if TYPE_CHECKING:
    import pyarrow as pa
import re
import uuid
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

from sordino.core.cell_grammar import BLANKS, DECIMAL, FALSE, TRUE, WHOLE
from sordino.core.domain import STORED, Boolean, Category, Column, Date, DateTime, Identifier, Integer

if TYPE_CHECKING:
    import pyarrow as pa


MOMENTS = frozenset(["TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMPTZ", "TIMESTAMPTZ_NS"])
_TIMES = MOMENTS | {"DATE"}
_MICROS = 1_000_000
_DAY_MICROS = 86_400 * _MICROS
DAY_NANOS = 1000 * _DAY_MICROS
# the years 1 to 9999
FIRST_MICROS = -62_135_596_800 * _MICROS
LAST_MICROS = 253_402_300_799 * _MICROS
# the largest number of a timestamp's microseconds; it and its negative stand for the infinities
_WIDEST = 2**63 - 1
# the sign and digits after a time; the day before it has a - too
_OFFSET = "^.{16}[^+-]*([+-].*)$"


class TimeWords(Protocol):
    """The SQL of one engine for naming a part of a SELECT, and for parsing days and moments."""

    def let(self, text: str) -> str:
        """Return the name of a part, computed once."""

    def matches(self, text: str, pattern: str) -> str:
        """Return whether all of a text matches a regular expression."""

    def extract(self, text: str, pattern: str) -> str:
        """Return the one group of the first match; empty or NULL where there is none."""

    def parse_day(self, text: str) -> str:
        """Return the DATE of the first ten characters of a text, which matched; NULL where there is no such day."""

    def parse_digits(self, text: str) -> str:
        """Return up to 18 digits as BIGINT, NULL for none."""

    def bisect(self, cell: str, starts: Sequence[int], results: Sequence[str]) -> str:
        """Return the result of the last start that is not above a cell that is not missing."""

    def read_day(self, kind: str, cell: str) -> str:
        """Return the DATE, perhaps an infinite one, of a day or of a timestamp of a physical type."""

    def read_micros(self, kind: str, cell: str) -> str:
        """Return the microseconds since 1970 of a timestamp, those of its own clock, within the years 1 to 9999."""


def day_steps(kind: str, cell: str, on: TimeWords, lower: datetime.date, upper: datetime.date) -> str:
    """Return the SQL of a cell of a physical type in days since 1970-01-01, clipped."""
    if kind == "VARCHAR":
        day = on.let(on.parse_day(on.let(f"CASE WHEN {on.matches(cell, DAY)} THEN {cell} END")))
    elif kind in _TIMES:
        day = on.let(on.read_day(kind, cell))
    else:
        return "CAST(NULL AS BIGINT)"
    low, high = (f"CAST('{d.isoformat()}' AS DATE)" for d in (lower, upper))
    clipped = on.let(f"CASE WHEN {day} < {low} THEN {low} WHEN {day} > {high} THEN {high} ELSE {day} END")
    return f"CAST({clipped} - CAST('1970-01-01' AS DATE) AS BIGINT)"


def moment_steps(kind: str, cell: str, on: TimeWords, zone: str, step: Fraction, lower: int, upper: int) -> str:
    """Return the SQL of a cell of a physical type in whole steps, rounded down and clipped.

    Total: infinities and moments out of range are clipped, text that is no moment is missing.
    """
    step_micros = int(step * _MICROS)
    low = lower * step_micros
    high = (upper + 1) * step_micros - 1
    shift: str | None
    if kind == "VARCHAR":
        local, shift = _read_text(cell, on)
    elif kind in _TIMES:
        local = _day_micros(cell, on) if kind == "DATE" else on.read_micros(kind, cell)
        shift = "0" if kind.startswith("TIMESTAMPTZ") else None
    else:
        return "CAST(NULL AS BIGINT)"
    at = on.let(local)
    zone_offsets = offsets(zone, math.floor(lower * step), math.ceil(upper * step))
    starts = [start * _MICROS for start in zone_offsets.local_starts]
    zone_offset = on.bisect(at, starts, [str(value * _MICROS) for value in zone_offsets.values])
    offset = zone_offset if shift is None else f"COALESCE({shift}, {zone_offset})"
    moment = on.let(f"{at} - ({offset})")
    clipped = on.let(f"CASE WHEN {moment} < {low} THEN {low} WHEN {moment} > {high} THEN {high} ELSE {moment} END")
    # the difference is not negative, so the whole quotient rounds down
    return f"CAST(({clipped} - ({low})) // {step_micros} + ({lower}) AS BIGINT)"


def clock_bounds(kind: str, zone: str, step: Fraction, lower: int, upper: int) -> tuple[int, int] | None:
    """Return the first and the last microsecond of the bounds as cells of a type show them; None where a clock changes between.

    Theorem: where the cells' clock is always as far from UTC, within the bounds and beyond, a moment is clipped alike by its
    own clock and by UTC.
    """
    if kind not in ("TIMESTAMP", "TIMESTAMPTZ"):
        return None
    away: tuple[int, ...] = (0,)
    if kind == "TIMESTAMP":
        away = offsets(zone, math.floor(lower * step), math.ceil(upper * step)).values
    step_micros = int(step * _MICROS)
    first = lower * step_micros + away[0] * _MICROS
    last = (upper + 1) * step_micros - 1 + away[0] * _MICROS
    return (first, last) if len(away) == 1 and first > FIRST_MICROS and last < LAST_MICROS else None


def refine_times(table: pa.Table) -> pa.Table:
    """Return an Arrow table whose moments in seconds or milliseconds are in microseconds, those out of range missing.

    DuckDB converts such moments as it scans, and one out of its range would fail the whole question. The others are converted as
    DuckDB does, so that it does not matter which of the two reads a Parquet file.
    """
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit in ("s", "ms"):
            table = table.set_column(place, field.name, _refine(table.column(place)))
    return table


def _refine(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    factor = _MICROS if column.type.unit == "s" else 1000
    most, end, none = (pa.scalar(n, pa.int64()) for n in (_WIDEST // factor, _WIDEST, None))
    numbers = column.cast(pa.int64())
    near = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, pc.negate(most)))
    micros = pc.multiply(pc.if_else(near, numbers, none), pa.scalar(factor, pa.int64()))
    # as DuckDB's own readers do
    infinite = pc.or_(pc.equal(numbers, end), pc.equal(numbers, pc.negate(end)))
    return pc.if_else(infinite, numbers, micros).cast(pa.timestamp("us", column.type.tz))


def bisect_steps(cell: str, starts: Sequence[int], results: Sequence[object]) -> str:
    """Return the result of the last start that is not above the cell, by halving: about log2 comparisons a row."""
    if not starts:
        return str(results[0])
    middle = len(starts) // 2
    low = bisect_steps(cell, starts[:middle], results[: middle + 1])
    high = bisect_steps(cell, starts[middle + 1 :], results[middle + 1 :])
    return f"CASE WHEN {cell} < {_constant(starts[middle])} THEN {low} ELSE {high} END"


def _constant(number: int) -> str:
    return f"CAST('{number}' AS {'BIGINT' if abs(number) < 2**63 else 'HUGEINT'})"


def duckdb_micros(kind: str, cell: str, let: Callable[[str], str]) -> str:
    """Return `TimeWords.read_micros` in DuckDB's SQL."""
    if kind.endswith("_NS"):
        # DuckDB's casts to microseconds round towards 0
        nanos = let(f"epoch_ns({cell})")
        micros = let(f"(({nanos} // 1000) - CASE WHEN {nanos} % 1000 < 0 THEN 1 ELSE 0 END)")
    else:
        # seconds and milliseconds become microseconds, and may be out of their range
        moment = let(f"TRY_CAST({cell} AS {kind})")
        micros = let(f"CASE WHEN isfinite({moment}) THEN epoch_us({moment}) END")
    # a moment without microseconds is infinite
    day = let(f"TRY_CAST({cell} AS DATE)")
    end = f"CASE WHEN {day} > CAST('1970-01-01' AS DATE) THEN {LAST_MICROS} WHEN {day} IS NOT NULL THEN {FIRST_MICROS} END"
    return f"COALESCE({clip_micros(micros)}, {end})"


def clip_micros(micros: str) -> str:
    """Return microseconds since 1970 clipped to the years 1 to 9999."""
    low = f"WHEN {micros} < {FIRST_MICROS} THEN {FIRST_MICROS}"
    high = f"WHEN {micros} > {LAST_MICROS} THEN {LAST_MICROS}"
    return f"CASE {low} {high} ELSE {micros} END"


def _day_micros(cell: str, on: TimeWords) -> str:
    """Return the microseconds since 1970 of a DATE, within the years 1 to 9999."""
    first = "CAST('0001-01-01' AS DATE)"
    last = "CAST('9999-12-31' AS DATE)"
    day = on.let(f"CASE WHEN {cell} < {first} THEN {first} WHEN {cell} > {last} THEN {last} ELSE {cell} END")
    return f"CAST({day} - CAST('1970-01-01' AS DATE) AS BIGINT) * {_DAY_MICROS}"


def _read_text(cell: str, on: TimeWords) -> tuple[str, str]:
    """Return the microseconds since 1970 of a text's time, and its offset from UTC in microseconds, NULL without one."""
    let = on.let
    text = let(f"CASE WHEN {on.matches(cell, DAY)} AND left({cell}, 4) <> '0000' THEN {cell} END")
    day = let(on.parse_day(text))

    def number(words: str) -> str:
        return f"COALESCE({on.parse_digits(words)}, 0)"

    hour = let(number(f"substr({text}, 12, 2)"))
    minute = let(number(f"substr({text}, 15, 2)"))
    second = let(number(on.extract(text, "^.{16}:([0-9]{2})")))
    digits = f"left(concat({on.extract(text, '[.,]([0-9]+)')}, '000000'), 6)"
    offset = let(on.extract(text, _OFFSET))
    hours = let(number(f"substr({offset}, 2, 2)"))
    minutes = let(number(f"right(replace({offset}, ':', ''), -3)"))
    sound = f"{hour} <= 23 AND {minute} <= 59 AND {second} <= 59 AND {hours} <= 23 AND {minutes} <= 59"
    seconds = f"{hour} * 3600 + {minute} * 60 + {second}"
    days = f"CAST({day} - CAST('1970-01-01' AS DATE) AS BIGINT) * {_DAY_MICROS}"
    local = f"CASE WHEN {sound} THEN {days} + ({seconds}) * {_MICROS} + {number(digits)} END"
    sign = f"CASE WHEN left({offset}, 1) = '-' THEN -1 ELSE 1 END"
    shift = let(
        f"CASE WHEN {offset} <> '' THEN {sign} * ({hours} * 60 + {minutes}) * {60 * _MICROS} "
        f"WHEN right({text}, 1) = 'Z' OR right({text}, 3) = 'UTC' THEN 0 END"
    )
    return local, shift


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
