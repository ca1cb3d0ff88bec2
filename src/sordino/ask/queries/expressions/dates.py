"""The calendar of days by whole-number arithmetic: parts of a day, months counted, the first day of a month.

A day is held as days since 1970-01-01. It may not know any engine: the words are + - * and whole division of numbers that
are never below 0. The calendar is the proleptic Gregorian one; weeks are those of ISO 8601, which begin on Monday.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from fractions import Fraction

from sordino.ask.queries.expressions.bound_number import BoundNumber, Interval
from sordino.ask.queries.expressions.sql_trees import Build, add, constant, divide, multiply, subtract, within
from sordino.core.time_zones import EPOCH

_ERA = 146_097  # days in 400 years
_SHIFT = 719_468  # days from 0000-03-01, where years begin here, to 1970-01-01
_ALL = 366  # days after which a part that comes again each year has taken every value
_MONDAY = 3  # days from a Monday to 1970-01-01


def day_part(part: str, of: BoundNumber) -> BoundNumber:
    """Return a part of a day, with the range that the declared days allow.

    In years that begin on March 1 the leap day is the last, so that month m (from 0) begins (153 m + 2) // 5 days into the
    year, and a year's place in its 400 years is (e - e // 1460 + e // 36524 - e // 146096) // 365 for the day's place e
    in them. A week of ISO 8601 belongs to the year of its Thursday.
    """
    low, high = (int(b or 0) for b in (of.interval.lower, of.interval.upper))
    return whole_number(of, _range(part, low, high), _BUILDS[part](of.build))


def whole_number(of: BoundNumber, ends: tuple[int, int], build: Build) -> BoundNumber:
    """Return a whole number made of another number, within stated ends, missing where that is."""
    interval = Interval(Fraction(ends[0]), Fraction(ends[1]))
    return BoundNumber(Fraction(1), interval, interval, of.missable, build)


def month_number(days: Build) -> Build:
    """Return 12 times the year plus the month from 0."""
    return add(multiply(_year(days), 12), subtract(_month(days), constant(1)))


def first_of_month(months: Build) -> Build:
    """Return the first day of a month, given as 12 times the year plus the month from 0."""
    since = within(subtract(months, constant(2)), 0, 12 * 10_000)  # months since March of year 0
    year = divide(since, 12)
    place = subtract(since, multiply(year, 12))
    begun = divide(add(multiply(place, 153), constant(2)), 5)
    leaps = add(subtract(divide(year, 4), divide(year, 100)), divide(year, 400))
    return add(add(add(multiply(year, 365), leaps), begun), constant(-_SHIFT))


def _range(part: str, low: int, high: int) -> tuple[int, int]:
    number = _NUMBERS[part]
    if part in _RISING:
        return number(_calendar(low)), number(_calendar(high))
    if high - low >= _ALL:
        return _CYCLES[part]
    every = [number(_calendar(low + n)) for n in range(high - low + 1)]
    return min(every), max(every)


def _calendar(days: int) -> datetime.date:
    return EPOCH + datetime.timedelta(days=days)


def _year(days: Build) -> Build:
    turned = divide(_year_day(days), 306)  # 1 from January 1 on, when the year of the calendar is the next
    return add(add(_year_of_era(days), multiply(divide(_shift(days), _ERA), 400)), turned)


def _month(days: Build) -> Build:
    place = _month_place(days)
    return subtract(add(place, constant(3)), multiply(divide(place, 10), 12))


def _quarter(days: Build) -> Build:
    return divide(add(_month(days), constant(2)), 3)


def _day(days: Build) -> Build:
    begun = divide(add(multiply(_month_place(days), 153), constant(2)), 5)
    return add(subtract(_year_day(days), begun), constant(1))


def _weekday(days: Build, sunday: int) -> Build:
    """Return the day of the week from `sunday` (0 or 7) on: 0 to 6 from Sunday, or 1 to 7 from Monday."""
    shifted = add(_shift(days), constant(3 if sunday == 0 else 2))  # 0000-03-01 was a Wednesday
    found = subtract(shifted, multiply(divide(shifted, 7), 7))
    return found if sunday == 0 else add(found, constant(1))


def _day_of_year(days: Build) -> Build:
    return add(subtract(days, _new_year(_year(days))), constant(1))


def _new_year(year: Build) -> Build:
    """Return January 1 of a year, as days since 1970-01-01."""
    before = within(subtract(year, constant(1)), 0, 10_000)
    leaps = add(subtract(divide(before, 4), divide(before, 100)), divide(before, 400))
    return add(add(multiply(before, 365), leaps), constant(306 - _SHIFT))


def _thursday(days: Build) -> Build:
    return add(multiply(_week_number(days), 7), constant(3 - _MONDAY))


def _iso_week(days: Build) -> Build:
    thursday = _thursday(days)
    return add(divide(subtract(thursday, _new_year(_year(thursday))), 7), constant(1))


def _week_number(days: Build) -> Build:
    """Return weeks, from Monday on, since the week of 1970-01-01."""
    whole = 7 * 110_000
    return subtract(divide(add(days, constant(_MONDAY + whole)), 7), constant(whole // 7))


def _shift(days: Build) -> Build:
    return add(days, constant(_SHIFT))


def _era_day(days: Build) -> Build:
    shifted = _shift(days)
    return within(subtract(shifted, multiply(divide(shifted, _ERA), _ERA)), 0, _ERA - 1)


def _year_of_era(days: Build) -> Build:
    day = _era_day(days)
    years = divide(subtract(add(subtract(day, divide(day, 1_460)), divide(day, 36_524)), divide(day, 146_096)), 365)
    return within(years, 0, 399)


def _year_day(days: Build) -> Build:
    year = _year_of_era(days)
    begun = subtract(add(multiply(year, 365), divide(year, 4)), divide(year, 100))
    return within(subtract(_era_day(days), begun), 0, 365)


def _month_place(days: Build) -> Build:
    """Return the month from 0 (March) to 11 (February)."""
    return divide(add(multiply(_year_day(days), 5), constant(2)), 153)


_BUILDS: dict[str, Callable[[Build], Build]] = {
    "year": _year,
    "quarter": _quarter,
    "month": _month,
    "day": _day,
    "dow": lambda days: _weekday(days, 0),
    "isodow": lambda days: _weekday(days, 7),
    "doy": _day_of_year,
    "week": _iso_week,
    "isoyear": lambda days: _year(_thursday(days)),
    "days since 1970": lambda days: days,
    "weeks since 1970": _week_number,
    "months since 0": month_number,
    "quarters since 0": lambda days: divide(month_number(days), 3),
}
_NUMBERS: dict[str, Callable[[datetime.date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "dow": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "doy": lambda day: day.timetuple().tm_yday,
    "week": lambda day: day.isocalendar().week,
    "isoyear": lambda day: day.isocalendar().year,
    "days since 1970": lambda day: (day - EPOCH).days,
    "weeks since 1970": lambda day: ((day - EPOCH).days + _MONDAY) // 7,
    "months since 0": lambda day: 12 * day.year + day.month - 1,
    "quarters since 0": lambda day: 4 * day.year + (day.month - 1) // 3,
}
_CYCLES = {
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "dow": (0, 6),
    "isodow": (1, 7),
    "doy": (1, 366),
    "week": (1, 53),
}
_RISING = frozenset(_NUMBERS) - frozenset(_CYCLES)
DAY_PARTS = frozenset(_BUILDS)
