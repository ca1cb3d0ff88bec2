"""Cells that are Python objects, read one by one as DuckDB reads the same cell from a column of one kind.

A frame of mixed objects is what one odd row makes of a column: the other rows must count as they did before.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.cell_grammar import BLANKS, DAY, DECIMAL, FALSE, TRUE, WHOLE
from sordino.domain import STORED, Boolean, Category, Column, Date, DateTime, Identifier, Integer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["reader"]

_WHOLE, _DECIMAL, _DAY = re.compile(WHOLE), re.compile(DECIMAL), re.compile(DAY)
_EXACT = 2**53
_NONE = datetime.timedelta(0)
_VAST = Fraction(10**300)


def reader(column: Column) -> tuple[Callable[[Any], Any], pa.DataType]:
    """Return how one object is read as declared, None for what is missing or cannot be, and the Arrow type of the cells.

    What is returned is a total function: no object makes it raise.
    """
    import pyarrow as pa

    if isinstance(column, Category) and isinstance(column.values[0], str):
        return _total(_text), pa.string()
    if isinstance(column, Identifier):
        return _total(_text), pa.string()
    if isinstance(column, Boolean):
        return _total(_truth), pa.bool_()
    if isinstance(column, Date):
        return _total(_day), pa.date32()
    if isinstance(column, DateTime):
        return _total(_moment), pa.string()
    if isinstance(column, (Category, Integer)):
        return _total(_integer), pa.int64()
    return _total(_real), pa.float64()


def _total(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def cell(value: Any) -> Any:
        try:
            value = value.item() if type(value).__module__ == "numpy" else value
            return None if value is None or value != value else read(value)  # NaN and NaT differ from themselves
        except Exception:  # an object of an unforeseen kind
            return None

    return cell


def _integer(value: Any) -> int | None:
    if isinstance(value, str):
        text = value.strip(BLANKS)
        return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None
    if isinstance(value, float) and math.isinf(value):
        return STORED if value > 0 else -STORED
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
    if isinstance(value, str):
        value.encode()  # half a surrogate is no text: it is missing
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, float) and value == math.floor(value) and abs(value) < _EXACT:
        return str(int(value))
    if isinstance(value, Decimal):
        return f"{value:f}"  # never with an exponent, as no engine writes one
    return str(value) if isinstance(value, (int, float, datetime.date)) or _is_period(value) else None


def _truth(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip(BLANKS).lower()
        return True if word in TRUE else False if word in FALSE else None
    if isinstance(value, (bool, int, float, Decimal)) and value in (0, 1):
        return bool(value)
    return None


def _day(value: Any) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    if _is_period(value):
        return _day(value.start_time.to_pydatetime())
    text = value.strip(BLANKS) if isinstance(value, str) else ""
    return datetime.date.fromisoformat(text[:10].replace("/", "-")) if _DAY.fullmatch(text) else None


def _moment(value: Any) -> str | None:
    """Return a moment as text, which the engine reads as it reads other text; an offset from UTC is taken out of it."""
    if isinstance(value, str):
        return value
    if _is_period(value):
        return _moment(value.start_time.to_pydatetime())
    if isinstance(value, datetime.datetime) and (away := value.utcoffset()) is not None:
        bare = value.replace(tzinfo=None)
        first, last = datetime.datetime.min, datetime.datetime.max
        utc = (
            last
            if away < _NONE and bare > last + away
            else first
            if away > _NONE and bare < first + away
            else bare - away
        )
        return utc.isoformat(" ") + "Z"
    return value.isoformat() if isinstance(value, datetime.date) else None


def _is_period(value: Any) -> bool:
    """Return whether an object is a period of pandas, such as a month: a date is its first day, a text its name."""
    return type(value).__name__ == "Period" and type(value).__module__.split(".")[0] == "pandas"
