"""Dates and moments in expressions: truncation, parts, zones, formats."""

from __future__ import annotations

import bisect
import calendar
import datetime
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.ask.queries.expressions.bound_number import BoundNumber, Interval, common_unit, grid_constant, rescale
from sordino.ask.queries.expressions.declared_values import DeclaredValues
from sordino.ask.queries.expressions.nodes import Constant, Value
from sordino.ask.queries.expressions.sql_trees import Build, add, constant, divide, multiply, plus, subtract, within
from sordino.ask.queries.expressions.sql_trees import constant as whole_constant
from sordino.core.errors import QuestionRefused
from sordino.core.loss import format_number
from sordino.core.primitives import Primitives
from sordino.core.time_zones import EPOCH, Offsets, local_time, offsets, parse_moment, seconds_since, show_time

if TYPE_CHECKING:
    from sqlglot import exp

# ---- The calendar of days by whole-number arithmetic: parts of a day, months counted, the first day of a month
#
# A day is held as days since 1970-01-01. It may not know any engine: the words are + - * and whole division of numbers that
# are never below 0. The calendar is the proleptic Gregorian one; weeks are those of ISO 8601, which begin on Monday.

# days in 400 years
_ERA = 146_097
# days from 0000-03-01, where years begin here, to 1970-01-01
_SHIFT = 719_468
# days after which a part that comes again each year has taken every value
_ALL = 366
# days from a Monday to 1970-01-01
_MONDAY = 3


def day_part(part: str, of: BoundNumber) -> BoundNumber:
    """Return a part of a day, with the range that the declared days allow.

    In years that begin on March 1 the leap day is the last, so that month m (from 0) begins (153 m + 2) // 5 days into the
    year, and a year's place in its 400 years is (e - e // 1460 + e // 36524 - e // 146096) // 365 for the day's place e
    in them. A week of ISO 8601 belongs to the year of its Thursday.
    """
    low, high = (int(b or 0) for b in (of.interval.lower, of.interval.upper))
    return whole_number(of, _range(part, low, high), _tabulate(of, _BUILDS[part]))


def _tabulate(days: BoundNumber, function: Callable[[Build], Build]) -> Build:
    """Return a function of days, which an engine may compute once for each declared day in place of each row."""
    return lambda on: on.tabulate(days.build(on), days.ends, lambda rows, day: function(lambda _: day.copy())(rows))


def whole_number(of: BoundNumber, ends: tuple[int, int], build: Build) -> BoundNumber:
    """Return a whole number made of another number, within stated ends, missing where that is."""
    interval = Interval(Fraction(ends[0]), Fraction(ends[1]))
    return BoundNumber(Fraction(1), interval, interval, of.missable, build)


def month_number(days: Build) -> Build:
    """Return 12 times the year plus the month from 0."""
    return add(multiply(_year(days), 12), subtract(_month(days), constant(1)))


def first_of_month(months: Build) -> Build:
    """Return the first day of a month, given as 12 times the year plus the month from 0."""
    # months since March of year 0
    since = within(subtract(months, constant(2)), 0, 12 * 10_000)
    year = divide(since, 12)
    place = subtract(since, multiply(year, 12))
    begun = divide(add(multiply(place, 153), constant(2)), 5)
    leaps = add(subtract(divide(year, 4), divide(year, 100)), divide(year, 400))
    return add(add(add(multiply(year, 365), leaps), begun), constant(-_SHIFT))


def first_or_last_day(of: BoundNumber) -> Build:
    """Return 1 for the first day of a month, 2 for that of a year, 3 and 4 for the last ones, 0 for any other day."""

    def is_one(place: Build) -> Build:
        return subtract(constant(1), within(subtract(place, constant(1)), 0, 1))

    def build(days: Build) -> Build:
        after = add(days, constant(1))
        first = add(is_one(_day(days)), is_one(_day_of_year(days)))
        last = add(multiply(is_one(_day(after)), 3), is_one(_day_of_year(after)))
        return add(first, last)

    return _tabulate(of, build)


def first_days(low: int, high: int) -> tuple[list[int], list[int]]:
    """Return the first days of the months from that of `low` to the one after that of `high`, and those of the years.

    They are days since 1970-01-01. The month after the last that a date may be in begins too.
    """
    months = range(_month_index(low), _month_index(high) + 2)
    begun = [_month_begin(m) for m in months[:-1]]
    last = _calendar(begun[-1])
    begun.append(begun[-1] + calendar.monthrange(last.year, last.month)[1])
    return begun, [day for month, day in zip(months, begun, strict=True) if month % 12 == 0]


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
    # 1 from January 1 on, when the year of the calendar is the next
    turned = divide(_year_day(days), 306)
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
    # 0000-03-01 was a Wednesday
    shifted = add(_shift(days), constant(3 if sunday == 0 else 2))
    weekday = subtract(shifted, multiply(divide(shifted, 7), 7))
    return weekday if sunday == 0 else add(weekday, constant(1))


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


# ---- Dates and moments of a row as numbers: constants, parts by a zone's clock, truncation, shifts and differences
#
# A date is held as days since 1970-01-01, a moment as steps since 1970 in UTC. What a zone's clock shows follows from its
# public table of offsets (`time_zones.offsets`), which the SQL carries. Every function is total, and its value lies within the
# interval that it states: calendars and clocks are whole-number arithmetic, exact on every engine.

TIMES = frozenset({"date", "datetime"})
LENGTHS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 7 * 86_400}
CLOCK_PARTS = {"hour": (3600, 86_400), "minute": (60, 3600), "second": (1, 60)}
_CLOCKS_SINCE = {"hours since 1970": 3600, "minutes since 1970": 60, "seconds since 1970": 1}
_DAY = 86_400
# a Monday: weeks, and lengths of days and hours, are counted from it
_ORIGIN_DAY = datetime.date(2000, 1, 3)
# lengths of months are counted from 2000-01
_ORIGIN_MONTH = 2000 * 12
_DAYS_OF = {"day": 1, "week": 7}
_MONTHS_OF = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
_SECONDS_OF = {"second": 1, "minute": 60, "hour": 3600}


def moment_constant(value: Value, of: BoundNumber) -> Fraction:
    """Return a constant in the units of a date (days, the time of day a fraction) or of a datetime (seconds).

    A constant without an offset from UTC is read by the column's clock; beside a date it is read as it is written.
    """
    moment: datetime.date | None = None
    try:
        moment = parse_moment(value) if isinstance(value, str) else value if isinstance(value, datetime.date) else None
        if moment is not None and of.kind == "datetime":
            return seconds_since(moment, of.zone)
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        what = f"{value[:30]!r}" if isinstance(value, str) else "a number"
        raise QuestionRefused(
            f"a day is written as 2000-01-31, and a moment as 2000-01-31 10:30:00 or with an offset, +01:00 or Z: {what} is "
            "neither"
        )
    day = Fraction((datetime.date(moment.year, moment.month, moment.day) - EPOCH).days)
    if isinstance(moment, datetime.datetime):
        within_day = datetime.timedelta(
            hours=moment.hour, minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond
        )
        return day + Fraction(within_day // datetime.timedelta(microseconds=1), _DAY * 1_000_000)
    return day


def constant_like(value: Value, of: BoundNumber) -> BoundNumber:
    """Return a constant as a date or a moment, whichever `of` is."""
    at = moment_constant(value, of)
    unit = Fraction(1, at.denominator) if of.kind == "date" else common_unit(of.unit, at or of.unit)
    return replace(grid_constant(at, unit, of.kind), zone=of.zone)


def constant_time(node: Constant) -> BoundNumber:
    """Return a constant by itself as a date or a moment; without an offset from UTC it is read as in UTC."""
    beside = "datetime" if isinstance(node.value, str) and len(node.value.strip()) > 10 else "date"
    kind = "datetime" if isinstance(node.value, datetime.datetime) else beside
    like = BoundNumber(
        Fraction(1), Interval.point(Fraction(0)), Interval.point(Fraction(0)), False, whole_constant(0), kind
    )
    return constant_like(node.value, replace(like, zone="UTC" if kind == "datetime" else ""))


def clip_bound(bound: Value | None, of: BoundNumber) -> Fraction | None:
    """Return the bound of a clip in the units of the clipped expression."""
    if bound is None or of.kind in TIMES:
        return None if bound is None else moment_constant(bound, of)
    if isinstance(bound, Fraction) and not isinstance(bound, bool):
        return bound
    raise QuestionRefused("a number is clipped to numbers, a date to dates")


def as_moment(of: BoundNumber, zone: str) -> BoundNumber:
    """Return a date as the moment of a zone at which it begins; a moment stays as it is."""
    return of if of.kind == "datetime" else _begin_of_day(of, zone)


def day_of(of: BoundNumber) -> BoundNumber:
    """Return the day on which a moment falls by its zone's clock; a date stays as it is."""
    if of.kind == "date":
        return of
    local = _local(of)
    per_day = _whole(_DAY / of.unit, of)
    ends = tuple(math.floor(Fraction(local.ends[side]) / per_day) for side in (0, 1))
    # days before 1970 that no declared moment passes
    far = 800_000
    build = add(_divide_local(of, local, far * per_day, per_day), whole_constant(-far))
    return replace(whole_number(of, (ends[0], ends[1]), build), kind="date")


def part_of_time(part: str, of: BoundNumber) -> BoundNumber:
    """Return a part of a date, or of a moment by its zone's clock, as a whole number."""
    if part == "date":
        return day_of(of)
    if part in DAY_PARTS:
        return day_part(part, day_of(of))
    if part == "epoch":
        return replace(rescale(_seconds(of), common_unit(of.unit * _per(of), Fraction(1))), kind="number", zone="")
    if part in _CLOCKS_SINCE:
        return _clocks_since(_CLOCKS_SINCE[part], of)
    step, cycle = CLOCK_PARTS[part]
    if of.kind == "date":
        return whole_number(of, (0, 0), subtract(of.build, of.build))
    return _clock_part(step, cycle, of)


def length_of_time(function: str, of: BoundNumber) -> BoundNumber:
    """Return a difference of dates or moments as a number of seconds, minutes, hours, days or weeks."""
    factor = Fraction(of.seconds, LENGTHS[function])
    if not factor:
        raise QuestionRefused(
            f'.{function}() counts the time between two moments: (col("end") - col("start")).{function}()'
        )
    return replace(of, unit=of.unit * factor, seconds=0)


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncated date or moment: `value` is the begin of its part, `index` counts the parts, `label` gives the begin of one."""

    value: BoundNumber
    index: BoundNumber
    label: Callable[[int], datetime.date]


def truncate_time(unit: str, count: int, of: BoundNumber) -> Truncation:
    """Return a date or moment truncated to `count` units: weeks begin on Monday, several of them are counted from 2000.

    Theorem: the values are those of a function of the row's own cell, and rise with it; so the parts from that of the lower
    bound to that of the upper are all that a row may have, and they are public.
    """
    if of.kind not in TIMES:
        raise QuestionRefused(f"only dates and datetimes are truncated to a {unit}")
    if unit in _SECONDS_OF:
        return _truncate_clock(_SECONDS_OF[unit] * count, of) if of.kind == "datetime" else _truncate_days(1, of)
    if unit in _MONTHS_OF:
        return _truncate_months(_MONTHS_OF[unit] * count, of)
    return _truncate_days(_DAYS_OF[unit] * count, of)


def shift_time(months: int, seconds: Fraction, days: int, of: BoundNumber) -> BoundNumber:
    """Return a date or moment moved by whole months (to the month's last day where it is shorter), days, then seconds.

    Months and days are those of the zone's clock, seconds pass everywhere alike.
    """
    if of.kind not in TIMES:
        raise QuestionRefused("an INTERVAL is added to a date or a datetime")
    if of.kind == "date":
        if seconds % _DAY:
            raise QuestionRefused("an INTERVAL of hours, minutes or seconds is added to a datetime, not to a date")
        return _shift_days(_shift_months(of, months), days + int(seconds // _DAY))
    moved = of
    if months or days:
        day = day_of(of)
        since = subtract(_local(of).build, multiply(day.build, _whole(_DAY / of.unit, of)))
        shifted = _shift_days(_shift_months(day, months), days)
        local = add(multiply(shifted.build, _whole(_DAY / of.unit, of)), since)
        ends = [_shift_moment(of.ends[side] * of.unit, months, days, of.zone) for side in (0, 1)]
        moved = _from_local(of, local, ends[0], ends[1])
    unit = common_unit(of.unit, seconds or of.unit)
    moved = rescale(moved, unit)
    by = Interval.point(seconds / unit)
    interval = moved.interval.plus(by)
    return replace(
        moved, interval=interval, stored=interval, build=add(moved.build, whole_constant(int(seconds / unit)))
    )


def time_label(steps: int, of: BoundNumber) -> datetime.date:
    """Return a date or a moment, on its zone's clock, from its steps."""
    return show_time(steps * of.unit, of.kind, of.zone)


# ---- clocks


def _offsets(of: BoundNumber) -> Offsets:
    low, high = (of.ends[side] * of.unit for side in (0, 1))
    return offsets(of.zone, math.floor(low), math.ceil(high))


def _local(of: BoundNumber) -> BoundNumber:
    """Return what the zone's clock shows, in the steps of the moment."""
    zone = _offsets(of)
    starts = [math.ceil(start / of.unit) for start in zone.starts]
    # the clock's distance from UTC from each start on
    away = [_whole(value / of.unit, of) for value in map(Fraction, zone.values)]
    if len(away) == 1:
        build: Build = lambda on: plus(of.build(on), away[0])  # noqa: E731
    else:
        build = lambda on: on.clip(of.build(on), *of.ends)  # noqa: E731
        named = build
        build = add(named, lambda on: on.look_up(named(on), starts, away))
    ends = [end + away[bisect.bisect_right(starts, end)] for end in of.ends]
    # where the clock changes it shows its least and its last for a while
    for place, start in enumerate(starts):
        if of.ends[0] < start <= of.ends[1]:
            ends += [start - 1 + away[place], start + away[place + 1]]
    interval = Interval(Fraction(min(ends)), Fraction(max(ends)))
    return replace(of, interval=interval, stored=interval, build=build)


def _from_local(of: BoundNumber, local: Build, low: Fraction, high: Fraction) -> BoundNumber:
    """Convert local wall-clock time to UTC steps of `of`, clipped to the converted bounds."""
    zone = offsets(of.zone, math.floor(low), math.ceil(high))
    starts = [math.ceil(start / of.unit) for start in zone.local_starts]
    away = [_whole(value / of.unit, of) for value in map(Fraction, zone.values)]
    ends = (math.floor(low / of.unit), math.ceil(high / of.unit))
    # three days of slack, more than any zone's clock is away from UTC
    slack = 3 * _whole(_DAY / of.unit, of)
    named = within(local, ends[0] - slack, ends[1] + slack)
    moment = subtract(named, lambda on: on.look_up(named(on), starts, away))
    interval = Interval(Fraction(ends[0]), Fraction(ends[1]))
    return replace(of, interval=interval, stored=interval, build=within(moment, *ends))


def _begin_of_day(of: BoundNumber, zone: str) -> BoundNumber:
    """Return when days begin by a zone's clock, in steps of which offsets are whole numbers."""
    if of.unit != 1:
        raise QuestionRefused("a date with a time of day is compared with moments as a datetime")
    days = [EPOCH + datetime.timedelta(days=of.ends[side]) for side in (0, 1)]
    low, high = (seconds_since(day, zone) for day in days)
    unit = Fraction(math.gcd(*offsets(zone, int(low), int(high)).values, _DAY))
    moments = replace(of, unit=unit, kind="datetime", zone=zone)
    return _from_local(moments, multiply(of.build, int(_DAY / unit)), low, high)


def _seconds(of: BoundNumber) -> BoundNumber:
    """Return a date as seconds to its begin in UTC; a moment as it is."""
    return replace(of, unit=of.unit * _per(of), kind="datetime", zone=of.zone or "UTC")


def _per(of: BoundNumber) -> int:
    return _DAY if of.kind == "date" else 1


def _clocks_since(step: int, of: BoundNumber) -> BoundNumber:
    """Return how many whole hours, minutes or seconds of UTC passed since 1970."""
    moment = _seconds(of)
    if moment.unit % step == 0:
        return replace(rescale(replace(moment, unit=moment.unit / step), Fraction(1)), kind="number", zone="")
    return _floor(moment, step)


def _floor(of: BoundNumber, step: int, by: int = 0) -> BoundNumber:
    """Return the whole number of times that `step` seconds fit into a moment, moved by `by` seconds."""
    size = _whole(step / of.unit, of)
    moved = _whole(by / of.unit, of)
    ends = tuple((of.ends[side] + moved) // size for side in (0, 1))
    low = ends[0]
    build = add(lambda on: on.quotient(of.build(on), moved - low * size, size), whole_constant(low))
    return replace(whole_number(of, (ends[0], ends[1]), build), kind="number", zone="")


def _clock_part(step: int, cycle: int, of: BoundNumber) -> BoundNumber:
    if of.unit % cycle == 0:
        return whole_number(of, (0, 0), subtract(of.build, of.build))
    local = _local(of)
    round_trip = _whole(cycle / of.unit, of)
    far = 800_000 * _whole(_DAY / of.unit, of)
    # parts of the clock since a day that no declared moment passes, in steps where these are no finer
    coarse = of.unit % step == 0
    parts = _divide_local(of, local, far, 1 if coarse else _whole(step / of.unit, of))
    around = round_trip if coarse else cycle // step
    named: Build = lambda on: on.name(parts(on))  # noqa: E731
    build = multiply(subtract(named, multiply(divide(named, around), around)), int(of.unit / step) if coarse else 1)
    low, high = (math.floor(local.ends[side] * of.unit / step) for side in (0, 1))
    most = cycle // step - 1
    every = {n % (most + 1) for n in range(low, high + 1)} if high - low < most else {0, most}
    return whole_number(of, (min(every), max(every)), build)


def _divide_local(of: BoundNumber, local: BoundNumber, moved: int, size: int) -> Build:
    """Return the whole quotient of what a moment's clock shows, moved so that it is never below 0."""
    values = _offsets(of).values
    if len(values) > 1:
        return lambda on: on.quotient(local.build(on), moved, size)
    # A clock that stays is moved with the rest.
    away = _whole(Fraction(values[0]) / of.unit, of)
    return lambda on: on.quotient(of.build(on), moved + away, size)


def _whole(ratio: Fraction, of: BoundNumber) -> int:
    if ratio.denominator != 1:
        raise QuestionRefused(f"this needs a finer resolution than {format_number(of.unit)} seconds")
    return int(ratio)


# ---- truncation


def _truncate_days(width: int, of: BoundNumber) -> Truncation:
    day = day_of(of)
    origin = (_ORIGIN_DAY - EPOCH).days
    ends = tuple((day.ends[side] - origin) // width for side in (0, 1))
    low = ends[0]
    build = add(divide(add(day.build, whole_constant(-origin - low * width)), width), whole_constant(low))
    index = whole_number(of, (ends[0], ends[1]), build)
    begin = add(multiply(index.build, width), whole_constant(origin))
    return _truncation(of, index, begin, lambda i: origin + i * width)


def _truncate_months(width: int, of: BoundNumber) -> Truncation:
    day = day_of(of)
    months = [_month_index(day.ends[side]) - _ORIGIN_MONTH for side in (0, 1)]
    low, high = (m // width for m in months)
    shift = whole_constant(-_ORIGIN_MONTH - low * width)
    index = whole_number(
        of,
        (low, high),
        _tabulate(day, lambda days: add(divide(add(month_number(days), shift), width), whole_constant(low))),
    )
    begin = first_of_month(add(multiply(index.build, width), whole_constant(_ORIGIN_MONTH)))
    return _truncation(of, index, begin, lambda i: _month_begin(_ORIGIN_MONTH + i * width))


def _truncation(of: BoundNumber, index: BoundNumber, begin: Build, day_at: Callable[[int], int]) -> Truncation:
    """Return a truncation to days: `begin` is the first of its days, `day_at` the same of an index."""
    ends = (day_at(index.ends[0]), day_at(index.ends[1]))
    for end in ends:
        show_time(Fraction(end), "date", "")
    day = replace(whole_number(of, ends, begin), kind="date")
    if of.kind == "date":
        return Truncation(day, index, lambda i: time_label(day_at(i), day))
    value = _begin_of_day(day, of.zone)

    def label(i: int) -> datetime.date:
        first = seconds_since(EPOCH + datetime.timedelta(days=day_at(i)), of.zone)
        return local_time(first, of.zone)

    return Truncation(value, index, label)


def _truncate_clock(width: int, of: BoundNumber) -> Truncation:
    """Return a truncation to hours, minutes or seconds.

    Where all offsets of the zone leave the same rest, parts are lengths of time, and an hour that the clock shows twice is
    two of them; else they are those of the clock.
    """
    # every value is at such a begin already
    if of.unit % width == 0:
        index = rescale(replace(of, unit=of.unit / width, kind="number", zone=""), Fraction(1))
        return Truncation(of, index, lambda i: local_time(Fraction(i * width), of.zone))
    size = _whole(width / of.unit, of)
    origin = int(seconds_since(_ORIGIN_DAY, "UTC"))
    rests = {value % width for value in _offsets(of).values}
    if len(rests) == 1:
        by = rests.pop() - origin
        index = _floor(of, width, by)
        ends = tuple(index.ends[side] * size - _whole(by / of.unit, of) for side in (0, 1))
        interval = Interval(Fraction(ends[0]), Fraction(ends[1]))
        build = add(multiply(index.build, size), whole_constant(-_whole(by / of.unit, of)))
        value = replace(of, interval=interval, stored=interval, build=build)
        return Truncation(value, index, lambda i: local_time(Fraction(i * width - by), of.zone))
    index = _floor(_local(of), width, -origin)
    zone = _offsets(of)
    low, high = (zone.utc(Fraction(index.ends[side] * width + origin)) for side in (0, 1))
    local = add(multiply(index.build, size), whole_constant(_whole(origin / of.unit, of)))
    value = _from_local(of, local, low, high)
    return Truncation(value, index, lambda i: local_time(zone.utc(Fraction(i * width + origin)), of.zone))


# ---- shifts


def _shift_days(of: BoundNumber, days: int) -> BoundNumber:
    interval = of.interval.plus(Interval.point(Fraction(days)))
    for side in (0, 1):
        show_time(Fraction(of.ends[side] + days), "date", "")
    return replace(of, interval=interval, stored=interval, build=add(of.build, whole_constant(days)))


def _shift_months(of: BoundNumber, months: int) -> BoundNumber:
    """Return a date some months on: the same day of that month, or its last where it is shorter."""
    if not months:
        return of
    ends = [_shift_date(of.ends[side], months) for side in (0, 1)]
    named = within(of.build, *of.ends)
    index = month_number(named)
    begun = subtract(named, first_of_month(index))
    then = add(index, whole_constant(months))
    first = first_of_month(then)
    after = first_of_month(add(then, whole_constant(1)))
    last = subtract(subtract(after, first), whole_constant(1))
    over = within(subtract(begun, last), 0, 31)
    build = add(first, subtract(begun, over))
    return replace(whole_number(of, (ends[0], ends[1]), build), kind="date")


def _shift_date(days: int, months: int) -> int:
    day = EPOCH + datetime.timedelta(days=days)
    first = _month_begin(_month_index(days) + months)
    last = _month_begin(_month_index(days) + months + 1) - 1
    return min(first + day.day - 1, last)


def _shift_moment(seconds: Fraction, months: int, days: int, zone: str) -> Fraction:
    local = local_time(seconds, zone).replace(tzinfo=None)
    day = _shift_date((local.date() - EPOCH).days, months) + days
    show_time(Fraction(day), "date", "")
    moved = datetime.datetime.combine(EPOCH + datetime.timedelta(days=day), local.time())
    return seconds_since(moved, zone)


def _month_index(days: int) -> int:
    day = EPOCH + datetime.timedelta(days=days)
    return 12 * day.year + day.month - 1


def _month_begin(months: int) -> int:
    if not 12 <= months < 120_000:
        raise QuestionRefused("a date of this question may leave the years 1 to 9999: narrow its bounds")
    return (datetime.date(months // 12, months % 12 + 1, 1) - EPOCH).days


# ---- Dates and moments as text: a format such as %Y-%m makes declared values, one for each part that a row may fall in

_MOST = 100_000
_CODE = re.compile("%[-]?.")
# the codes that a format may have, and the truncation of which each text is one value
_UNITS = (
    ("Y", "year"),
    ("YmbB", "month"),
    ("GV", "week"),
    ("YmbBdejFaAuwGV", "day"),
    ("YmbBdejFaAuwGVH", "hour"),
    ("YmbBdejFaAuwGVHMR", "minute"),
    ("YmbBdejFaAuwGVHMRST", "second"),
)
_PARTS = {"m": "month", "b": "month", "B": "month", "d": "day", "j": "doy", "a": "dow", "A": "dow", "w": "dow"} | {
    "u": "isodow",
    "H": "hour",
    "M": "minute",
    "S": "second",
    "V": "week",
}
# a moment of which a part has this value
_SAMPLES = {
    "month": lambda n: datetime.datetime(2000, n, 1),
    "day": lambda n: datetime.datetime(2000, 1, n),
    "doy": lambda n: datetime.datetime(2000, 1, 1) + datetime.timedelta(days=n - 1),
    "dow": lambda n: datetime.datetime(2000, 1, 2) + datetime.timedelta(days=n),
    "isodow": lambda n: datetime.datetime(2000, 1, 2) + datetime.timedelta(days=n),
    "hour": lambda n: datetime.datetime(2000, 1, 1, n),
    "minute": lambda n: datetime.datetime(2000, 1, 1, 0, n),
    "second": lambda n: datetime.datetime(2000, 1, 1, 0, 0, n),
    "week": lambda n: datetime.datetime.fromisocalendar(2004, n, 1),
}


def format_time(form: str, of: BoundNumber) -> DeclaredValues:
    """Return the texts that a format makes of what a row may hold; raises QuestionRefused for an unknown format."""
    if of.kind not in TIMES:
        raise QuestionRefused("only dates and datetimes are formatted")
    codes = {c[-1] for c in _CODE.findall(form) if c[-1] != "%"}
    if codes and not codes & set("YGF"):
        # A time of day is its parts.
        form = form.replace("%T", "%H:%M:%S").replace("%R", "%H:%M")
        codes = {c[-1] for c in _CODE.findall(form) if c[-1] != "%"}
    parts = list(dict.fromkeys(_PARTS.get(c[-1]) for c in _CODE.findall(form) if c[-1] != "%"))
    if parts and None not in parts:
        return _of_parts(form, [part for part in parts if part is not None], of)
    unit = next((unit for letters, unit in _UNITS if codes and codes <= set(letters) and codes & set("YGF")), None)
    if unit is None:
        raise QuestionRefused(
            f"the format {form[:40]!r} is not supported: use %Y, %m, %d, %H, %M, %S, %b, %B, %a, %A, %j, %G-%V"
        )
    truncation = truncate_time("day" if unit == "week day" else unit, 1, of)
    low, high = int(truncation.index.interval.lower or 0), int(truncation.index.interval.upper or 0)
    if high - low >= _MOST:
        raise QuestionRefused(
            f"the format {form[:40]!r} has {high - low + 1} values here, above {_MOST}: truncate further"
        )
    texts = tuple(_write(form, truncation.label(i)) for i in range(low, high + 1))
    return DeclaredValues(texts, lambda on: plus(truncation.index.build(on), -low))


def _of_parts(form: str, parts: Sequence[str], of: BoundNumber) -> DeclaredValues:
    """Return the texts of all combinations of some parts: those that no day has are no keys, as no row can have them."""
    numbers = [part_of_time(part, of) for part in parts]
    ranges = [range(int(n.interval.lower or 0), int(n.interval.upper or 0) + 1) for n in numbers]
    if (size := math.prod(map(len, ranges))) >= _MOST:
        raise QuestionRefused(f"the format {form[:40]!r} has {size} values here, above {_MOST}: leave some parts out")

    def write(combination: tuple[int, ...]) -> str:
        numbers_of = dict(zip(parts, combination, strict=True))
        return _CODE.sub(lambda code: _write_part(code.group(), numbers_of), form)

    texts = tuple(write(combination) for combination in itertools.product(*ranges))

    def build(on: Primitives) -> exp.Expression:
        index = constant(0)
        for number, values in zip(numbers, ranges, strict=True):
            index = add(multiply(index, len(values)), subtract(number.build, constant(values[0])))
        return index(on)

    if len(parts) == 1:
        return DeclaredValues(texts, lambda on: plus(numbers[0].build(on), -ranges[0][0]))
    return DeclaredValues(texts, build)


def _write_part(code: str, numbers: Mapping[str, int]) -> str:
    """Return the text of one code, of a moment that has the part which it shows."""
    part = _PARTS.get(code[-1])
    return _write(code, datetime.datetime(2000, 1, 1) if part is None else _SAMPLES[part](numbers[part]))


def _write(form: str, moment: datetime.date) -> str:
    """Return a moment as text; a year has four digits, and names are English whatever the machine's language."""
    names = {
        "%Y": f"{moment.year:04d}",
        "%G": f"{moment.isocalendar().year:04d}",
        "%F": f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}",
        "%B": _MONTHS[moment.month - 1],
        "%b": _MONTHS[moment.month - 1][:3],
        "%A": _DAYS[moment.weekday()],
        "%a": _DAYS[moment.weekday()][:3],
    }
    return _CODE.sub(lambda code: names.get(code.group()) or moment.strftime(code.group()), form)


_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
