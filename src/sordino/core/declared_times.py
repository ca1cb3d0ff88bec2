"""Days, moments and steps of time in declarations: parsed, or refused with the key that is wrong."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

from sordino.core.errors import DeclarationError, nearest
from sordino.core.loss import Number, to_fraction
from sordino.core.time_zones import offsets, parse_moment, seconds_since


def declared_day(value: datetime.date | str, *, name: str) -> datetime.date:
    """Return a day; raises DeclarationError unless it is one."""
    if isinstance(value, datetime.datetime):
        raise DeclarationError("must be a day without a time", key=name)
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise DeclarationError(f"must be a day such as 2000-01-31, not {value!r}", key=name) from None


def declared_moment(value: object, zone: str, *, name: str) -> Fraction:
    """Return a moment in seconds since 1970 in UTC; raises DeclarationError unless it is one of the years 1000 to 2999."""
    moment: datetime.date | None = None
    try:
        moment = value if isinstance(value, datetime.date) else parse_moment(str(value))
        seconds = seconds_since(moment, zone)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or not 1000 <= moment.year < 3000:
        raise DeclarationError(
            f"must be a moment such as 2000-01-31 10:30:00 of the years 1000 to 2999, not {str(value)!r}", key=name
        )
    return seconds


def declared_step(resolution: object) -> Fraction:
    """Return a resolution in seconds; raises DeclarationError unless it is a known word, or a number that divides a day."""
    word = resolution if isinstance(resolution, str) else ""
    if word in _TIME_STEPS:
        return _TIME_STEPS[word]
    if isinstance(resolution, str) and not word[:1].isdigit():
        raise DeclarationError(f"{nearest(word, _TIME_STEPS)}, or a number of seconds", key="resolution")
    if not isinstance(resolution, Number):
        raise DeclarationError("must be a word such as second, or a number of seconds", key="resolution")
    step = to_fraction(resolution, name="resolution")
    if step <= 0 or (86_400 / step).denominator != 1 or (step * 1_000_000).denominator != 1:
        raise DeclarationError("must be a number of seconds that divides a day, such as 60 or 0.001", key="resolution")
    return step


def check_offsets(low: Fraction, high: Fraction, zone: str, step: Fraction) -> None:
    """Raise DeclarationError unless every offset of the zone is a whole number of steps, so that steps are those of its clock."""
    values = offsets(zone, math.floor(low), math.ceil(high)).values
    if any((offset / step).denominator != 1 for offset in values):
        most = math.gcd(*values, 86_400)
        raise DeclarationError(
            f"must divide the offsets of {zone} from UTC between these bounds: at most {most} seconds", key="resolution"
        )


_TIME_STEPS = {
    "microsecond": Fraction(1, 1_000_000),
    "millisecond": Fraction(1, 1000),
    "second": Fraction(1),
    "minute": Fraction(60),
    "hour": Fraction(3600),
    "day": Fraction(86_400),
}
