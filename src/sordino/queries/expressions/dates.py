"""Parts of a day - year, quarter, month, day of the month, day of the week - by whole-number arithmetic on day counts.

It may not know any engine: the words are + - * and whole division of numbers that are never below 0.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.queries.expressions.bound_number import EPOCH, BoundNumber
from sordino.queries.expressions.intervals import Interval
from sordino.queries.expressions.sql_trees import Build, whole

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["day_part"]

_ERA = 146_097  # days in 400 years
_SHIFT = 719_468  # days from 0000-03-01, where years begin here, to 1970-01-01
_ALL = 366  # days after which a part other than the year has taken every value
_RANGES = {"quarter": (1, 4), "month": (1, 12), "day": (1, 31), "dow": (0, 6)}


def day_part(part: str, of: BoundNumber) -> BoundNumber:
    """Return a part of a day that is held as days since 1970-01-01, with the range that the declared days allow.

    The calendar is the proleptic Gregorian one: in years that begin on March 1 the leap day is the last, so that month m
    (from 0) begins (153 m + 2) // 5 days into the year, and a year's place in its 400 years is
    (e - e // 1460 + e // 36524 - e // 146096) // 365 for the day's place e in them.
    """
    low, high = (int(b or 0) for b in (of.interval.lower, of.interval.upper))
    interval = Interval(*(Fraction(b) for b in _range(part, low, high)))
    return BoundNumber(Fraction(1), interval, interval, of.missable, _BUILDS[part](of.build))


def _range(part: str, low: int, high: int) -> tuple[int, int]:
    ends = [EPOCH + datetime.timedelta(days=d) for d in (low, high)]
    if part == "year":
        return ends[0].year, ends[1].year
    if high - low >= _ALL:
        return _RANGES[part]
    every = [_part(part, ends[0] + datetime.timedelta(days=d)) for d in range(high - low + 1)]
    return min(every), max(every)


def _part(part: str, day: datetime.date) -> int:
    return {"quarter": (day.month + 2) // 3, "month": day.month, "day": day.day, "dow": day.isoweekday() % 7}[part]


def _year(days: Build) -> Build:
    turned = _over(_year_day(days), 306)  # 1 from January 1 on, when the year of the calendar is the next
    return _plus(_plus(_year_of_era(days), _times(_over(_shift(days), _ERA), 400)), turned)


def _month(days: Build) -> Build:
    place = _month_place(days)
    return _minus(_plus(place, _constant(3)), _times(_over(place, 10), 12))


def _quarter(days: Build) -> Build:
    return _over(_plus(_month(days), _constant(2)), 3)


def _day(days: Build) -> Build:
    begun = _over(_plus(_times(_month_place(days), 153), _constant(2)), 5)
    return _plus(_minus(_year_day(days), begun), _constant(1))


def _weekday(days: Build) -> Build:
    shifted = _plus(_shift(days), _constant(3))  # 0000-03-01 was a Wednesday
    return _minus(shifted, _times(_over(shifted, 7), 7))


def _shift(days: Build) -> Build:
    return _plus(days, _constant(_SHIFT))


def _era_day(days: Build) -> Build:
    shifted = _shift(days)
    return _within(_minus(shifted, _times(_over(shifted, _ERA), _ERA)), _ERA - 1)


def _year_of_era(days: Build) -> Build:
    day = _era_day(days)
    years = _over(_minus(_plus(_minus(day, _over(day, 1_460)), _over(day, 36_524)), _over(day, 146_096)), 365)
    return _within(years, 399)


def _year_day(days: Build) -> Build:
    year = _year_of_era(days)
    begun = _minus(_plus(_times(year, 365), _over(year, 4)), _over(year, 100))
    return _within(_minus(_era_day(days), begun), 365)


def _month_place(days: Build) -> Build:
    """Return the month from 0 (March) to 11 (February)."""
    return _over(_plus(_times(_year_day(days), 5), _constant(2)), 153)


_BUILDS: dict[str, Callable[[Build], Build]] = {
    "year": _year,
    "quarter": _quarter,
    "month": _month,
    "day": _day,
    "dow": _weekday,
}


def _constant(number: int) -> Build:
    return lambda _: whole(number)


def _within(of: Build, most: int) -> Build:
    """Return a number that is never outside [0, most], clipped to it: an engine names what it clips, computed once."""
    return lambda on: on.clip(of(on), 0, most)


def _plus(one: Build, other: Build) -> Build:
    return lambda on: _combine("Add", one(on), other(on))


def _minus(one: Build, other: Build) -> Build:
    return lambda on: _combine("Sub", one(on), other(on))


def _times(one: Build, number: int) -> Build:
    return lambda on: _combine("Mul", one(on), whole(number))


def _over(one: Build, number: int) -> Build:
    return lambda on: _combine("IntDiv", one(on), whole(number))


def _combine(kind: str, one: exp.Expression, other: exp.Expression) -> exp.Expression:
    from sqlglot import exp

    made: exp.Expression = getattr(exp, kind)(this=one, expression=other)
    return exp.paren(made)
