"""Dates and times as SQL writes them: literals, casts, parts, truncation, buckets, formats, intervals and differences.

It knows no column. Weeks are those of ISO 8601, which begin on Monday; DAYOFWEEK and DOW count from Sunday, 0, as in DuckDB.
DATEDIFF counts the parts that begin in between, but weeks as DuckDB does since 2.0: sevens of days. NOW() and CURRENT_DATE
are read once, when a question is planned, so that its plan and its record say which moment it was.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import (
    Apply,
    Arithmetic,
    Constant,
    DateFormat,
    DatePart,
    DateTrunc,
    Node,
    Shift,
)
from sordino.ask.queries.expressions.sql_trees import trees
from sordino.core.errors import QuestionRefused
from sordino.core.time_zones import parse_moment

Read = Callable[[Any], Expr]

_DATES = {"DATE", "DATE32"}
_TIMES = {"TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "TIMESTAMPLTZ", "DATETIME", "DATETIME2"}
# of EXTRACT and DATE_PART, where they differ from ours
_WORDS = {
    "dayofweek": "dow", "weekday": "dow", "dayofmonth": "day", "dayofyear": "doy", "weekofyear": "week", "isoweek": "week",
    "dayofweekiso": "isodow", "dayofweek_iso": "isodow", "years": "year", "months": "month", "days": "day",
    "hours": "hour", "minutes": "minute", "seconds": "second", "weeks": "week", "quarters": "quarter",
}  # fmt: skip
PARTS = (
    "year",
    "quarter",
    "month",
    "day",
    "dow",
    "isodow",
    "doy",
    "week",
    "isoyear",
    "hour",
    "minute",
    "second",
    "epoch",
    "date",
)
_KINDS = {
    "Year": "year", "Quarter": "quarter", "Month": "month", "Day": "day", "DayOfMonth": "day", "DayOfWeek": "dow",
    "DayOfWeekIso": "isodow", "DayOfYear": "doy", "Week": "week", "WeekOfYear": "week", "Hour": "hour", "Minute": "minute",
    "Second": "second", "YearOfWeek": "isoyear", "YearOfWeekIso": "isoyear",
}  # fmt: skip
_TRUNCATED = {
    "mm": "month",
    "mon": "month",
    "yyyy": "year",
    "yy": "year",
    "dd": "day",
    "isoweek": "week",
    "q": "quarter",
}
# of intervals: months, days, seconds
_UNITS = {
    "year": (12, 0, 0), "quarter": (3, 0, 0), "month": (1, 0, 0), "week": (0, 7, 0), "day": (0, 1, 0), "hour": (0, 0, 3600),
    "minute": (0, 0, 60), "second": (0, 0, 1), "decade": (120, 0, 0), "century": (1200, 0, 0),
}  # fmt: skip
_COUNTS = {
    "year": "year", "quarter": "quarters since 0", "month": "months since 0", "week": "weeks since 1970",
    "day": "days since 1970", "hour": "hours since 1970", "minute": "minutes since 1970", "second": "seconds since 1970",
}  # fmt: skip
_AMOUNT = re.compile(r"([+-]?[0-9]+(?:\.[0-9]+)?) *([a-z]+)")
_NOW = ("CurrentDate", "CurrentTimestamp", "CurrentTime", "CurrentDatetime", "Localtimestamp")


def read_time(item: Any, read: Read) -> Expr | None:
    """Return what SQL about dates and times means; None for other SQL. `read` translates its operands."""
    name = type(item).__name__
    if name in _NOW or (name == "Anonymous" and str(item.this).upper() in ("NOW", "TODAY", "GETDATE", "SYSDATE")):
        raise QuestionRefused(
            f"{_spell(item)} is read where a question is planned, and not here: write the day, DATE '2020-01-31'"
        )
    if name == "AtTimeZone":
        raise QuestionRefused('AT TIME ZONE is not supported: the zone of a datetime column is declared, zone = "..."')
    if name in _KINDS:
        return _part(_KINDS[name], item.this, read)
    return _READERS[name](item, read) if name in _READERS else None


def _spell(item: Any) -> str:
    name = str(item.this) if isinstance(item, trees().Anonymous) else item.sql_name()
    return name.upper()


def _part(word: str, of: Any, read: Read) -> Expr:
    """Return a part of a date; of a difference its seconds (EPOCH), or its whole days, hours, minutes."""
    part = _WORDS.get(word.lower(), word.lower())
    inner = _unwrap(of)
    if _is_age(inner):
        return _part_of_age(part, inner, read)
    if isinstance(inner, trees().Sub) and read_interval(inner.expression, read) is None:
        if part == "epoch":
            return Expr(Apply("seconds", read(inner).node))
        if part == "day":
            return Expr(Apply("truncate", Apply("days", read(inner).node)))
        raise QuestionRefused(
            "from a difference only EPOCH and DAY can be extracted; or count parts with DATEDIFF('hour', a, b)"
        )
    if part not in PARTS:
        raise QuestionRefused(f"the part {word[:20]!r} of a date is not supported: {', '.join(PARTS)}")
    return Expr(DatePart(part, read(inner).node))


def _extract(item: Any, read: Read) -> Expr | None:
    """EXTRACT(part FROM x); None for an unsupported part, which is refused with its place."""
    word = item.this.name.lower()
    return _part(word, item.expression, read) if _WORDS.get(word, word) in PARTS else None


def _cast(item: Any, read: Read) -> Expr | None:
    """CAST to a date or a timestamp: a literal becomes a constant, a datetime the day that it falls on."""
    kind = str(item.to.this.value if hasattr(item.to.this, "value") else item.to.this).upper()
    if kind not in _DATES | _TIMES:
        return None
    inner = item.this
    if isinstance(inner, trees().Literal) and inner.is_string:
        return _literal(inner.this, "DATE" if kind in _DATES else "TIMESTAMP")
    of = read(inner).node
    return Expr(_day_of(of) if kind in _DATES else Shift(of, Fraction(0), Fraction(0), Fraction(0)))


def _literal(text: str, kind: str) -> Expr:
    moment: datetime.date | None = None
    try:
        moment = parse_moment(text)
    except ValueError:
        moment = None
    if moment is None:
        raise QuestionRefused("a day is written as DATE '2000-01-31', a moment as TIMESTAMP '2000-01-31 10:30:00'")
    if kind == "DATE" and isinstance(moment, datetime.datetime):
        moment = moment.date()
    return Expr(Constant(moment))


def _date(item: Any, read: Read) -> Expr | None:
    """DATE(x) and TO_DATE(x)."""
    if item.this is None:
        return None
    inner = _unwrap(item.this)
    if isinstance(inner, trees().Literal) and inner.is_string:
        return _literal(inner.this, "DATE")
    return Expr(_day_of(read(inner).node))


def _day_of(of: Node) -> Node:
    """Return the day of a moment or a date; that of the start of a week, a month and so on is the start of its day's.

    The day comes first, as what is computed of a whole month's start by the clock and by its day again is long.
    """
    if isinstance(of, DateTrunc) and of.unit in ("day", "week", "month", "quarter", "year") and of.count == 1:
        return DateTrunc(of.unit, DatePart("date", of.of))
    return DatePart("date", of)


def _timestamp(item: Any, read: Read) -> Expr:
    inner = _unwrap(item.this)
    if isinstance(inner, trees().Literal) and inner.is_string:
        return _literal(inner.this, "TIMESTAMP")
    return Expr(Shift(read(inner).node, Fraction(0), Fraction(0), Fraction(0)))


def _from_parts(item: Any, read: Read) -> Expr:
    """MAKE_DATE(2000, 1, 31), or MAKE_DATE(YEAR(d), MONTH(d), 1): a day whose parts are those of another from the year on."""
    parts = [read(item.args[key]).node for key in ("year", "month", "day")]
    numbers = [p.value for p in parts if isinstance(p, Constant) and isinstance(p.value, Fraction)]
    try:
        return Expr(Constant(datetime.date(*(int(n) for n in numbers))))
    except (TypeError, ValueError):
        pass
    first = Constant(Fraction(1))
    for unit, names in (("year", ("year",)), ("month", ("year", "month")), ("day", ("year", "month", "day"))):
        dates = [
            part.of
            for part, name in zip(parts, names, strict=False)
            if part == DatePart(name, getattr(part, "of", first))
        ]
        if len(dates) == len(names) and len(set(dates)) == 1 and all(p == first for p in parts[len(names) :]):
            return Expr(_day_of(dates[0] if unit == "day" else DateTrunc(unit, DatePart("date", dates[0]))))
    raise QuestionRefused(
        "a date is made of three constants, make_date(2000, 1, 31), or of the parts of one date, make_date(YEAR(d), MONTH(d), 1)"
    )


_ORACLE = {
    "YYYY": "%Y",
    "MM": "%m",
    "DD": "%d",
    "HH24": "%H",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "FF6": "%f",
    "FF3": "%f",
}
_ORACLE_WORDS = re.compile("|".join(_ORACLE), re.IGNORECASE)


def _parse_time(kind: str) -> Callable[[Any, Read], Expr]:
    """STRPTIME('2024-05-01', '%Y-%m-%d'), and TO_DATE and TO_TIMESTAMP of a text, by a format as Oracle writes it."""

    def parse(item: Any, read: Read) -> Expr:
        arguments = (
            item.expressions
            if isinstance(item, trees().Anonymous)
            else [item.this, item.args.get("format") or item.args.get("scale")]
        )
        words = [
            _unwrap(part).this
            for part in arguments
            if isinstance(_unwrap(part), trees().Literal) and _unwrap(part).is_string
        ]
        if not words or len(words) != sum(part is not None for part in arguments):
            return _of_column(arguments, kind, read)
        if len(words) == 1:
            return _literal(words[0], kind)
        form = words[1]
        if "%" not in form:
            form = _ORACLE_WORDS.sub(lambda word: _ORACLE[word.group().upper()], form)
        moment: datetime.datetime | None = None
        try:
            moment = datetime.datetime.strptime(words[0], form)
        except ValueError:
            moment = None
        if moment is None:
            raise QuestionRefused(
                f"the text {words[0][:40]!r} is no day by the format {words[1][:40]!r}: write DATE '2000-01-31'"
            )
        return Expr(Constant(moment.date() if kind == "DATE" else moment))

    return parse


def _of_column(arguments: list[Any], kind: str, read: Read) -> Expr:
    """TO_DATE(x) of a date or a moment; of text it would be another day for each text."""
    if len([part for part in arguments if part is not None]) == 1 and kind == "DATE":
        return Expr(_day_of(read(_unwrap(arguments[0])).node))
    raise QuestionRefused(
        "a text that the question states is read as a day, STRPTIME('2024-05-01', '%Y-%m-%d'); declare a column of days as a date"
    )


# More than the seconds of any month: what stands behind months in one number.
_MONTH = 32 * 86_400


def _place_in_calendar(of: Node) -> Expr:
    """Return a day or moment as seconds, in months of 32 days each: months come before days, and days before the clock."""
    if isinstance(of, Constant) and isinstance(of.value, datetime.date):
        day = of.value
        seconds = 0
        if isinstance(day, datetime.datetime):
            seconds = day.hour * 3600 + day.minute * 60 + day.second
        return Expr(Constant(Fraction((12 * day.year + day.month - 1) * _MONTH + day.day * 86_400 + seconds)))
    clock = Expr(DatePart("hour", of)) * 3600 + Expr(DatePart("minute", of)) * 60 + Expr(DatePart("second", of))
    return Expr(DatePart("months since 0", of)) * _MONTH + Expr(DatePart("day", of)) * 86_400 + clock


def _part_of_age(part: str, item: Any, read: Read) -> Expr:
    """EXTRACT(YEAR FROM AGE(a, b)): the whole years between two days, and of MONTH the whole months beside them.

    As in PostgreSQL and DuckDB a month has passed where the later day of the month, and its time, have come: of the difference
    of places in a calendar of equal months the whole ones, rounded towards 0.
    """
    if len(item.expressions) != 2:
        raise QuestionRefused("AGE takes two days, the later one first: AGE(DATE '2024-12-31', born)")
    later, earlier = (_place_in_calendar(read(_unwrap(day)).node) for day in item.expressions)
    apart = (later - earlier).node
    if part == "year":
        return Expr(Apply("truncate", Apply("divide", apart, Constant(Fraction(12 * _MONTH)))))
    if part == "month":
        months = Apply("truncate", Apply("divide", apart, Constant(Fraction(_MONTH))))
        return Expr(Apply("remainder", months, Constant(Fraction(12))))
    raise QuestionRefused("from AGE only YEAR and MONTH can be extracted; or count days with DATEDIFF('day', a, b)")


def _is_age(item: Any) -> bool:
    return isinstance(item, trees().Anonymous) and str(item.this).upper() == "AGE"


def _later_or_earlier(item: Any, read: Read) -> Expr | None:
    """GREATEST and LEAST of days: those that stand in the question clip the others; None where no day stands there."""
    kinds = trees()
    parts = [read(part) for part in (item.this, *item.expressions)]
    days = [p.node.value for p in parts if isinstance(p.node, Constant) and isinstance(p.node.value, datetime.date)]
    others = [p for p in parts if not isinstance(p.node, Constant)]
    if not days or len(days) + len(others) != len(parts) or not others:
        return None
    least = isinstance(item, kinds.Least)
    extreme = extreme_of(others, least=least)
    return extreme.clip(None, min(days)) if least else extreme.clip(max(days), None)


def extreme_of(values: Sequence[Expr], *, least: bool) -> Expr:
    """Return the least or the largest of one or more values of a row, missing where all are missing."""
    extreme = values[0]
    for value in values[1:]:
        comes_first = extreme <= value if least else extreme >= value
        extreme = when(comes_first | value.is_null(), extreme).otherwise(value)
    return extreme


def _truncate(item: Any, read: Read) -> Expr:
    unit = str(item.args["unit"].name).lower()
    return read(_unwrap(item.this)).truncate(_TRUNCATED.get(unit, unit))


def _bucket(item: Any, read: Read) -> Expr:
    """TIME_BUCKET(INTERVAL '7 days', d): lengths of days and hours from Monday 2000-01-03 on, of months from 2000-01."""
    interval = read_interval(item.this, read)
    if isinstance(item.this, trees().Literal):
        interval = _amounts(str(item.this.this))
    if interval is None or item.args.get("zone") is not None or sum(n != 0 for n in interval) != 1:
        raise QuestionRefused("TIME_BUCKET takes one length of time and a column: TIME_BUCKET(INTERVAL '7 days', d)")
    months, days, seconds = interval
    if seconds.denominator != 1:
        raise QuestionRefused("TIME_BUCKET takes whole seconds")
    count, unit = next((n, u) for n, u in ((months, "month"), (days, "day"), (seconds, "second")) if n)
    return read(_unwrap(item.expression)).truncate(unit, count=int(count))


def _format(item: Any, read: Read) -> Expr:
    form = item.args["format"]
    if not isinstance(form, trees().Literal):
        raise QuestionRefused("a format is a text that the question states: STRFTIME(d, '%Y-%m')")
    return Expr(DateFormat(str(form.this).removesuffix("strict"), read(_unwrap(item.this)).node))


def _name(form: str) -> Callable[[Any, Read], Expr]:
    return lambda item, read: Expr(DateFormat(form, read(_unwrap(item.this)).node))


def _difference(item: Any, read: Read) -> Expr:
    """DATEDIFF('day', a, b): how many parts begin after a and up to b; of weeks, how many sevens of days.

    The weeks of other dialects, which begin on Monday, are written as ISOWEEK.
    """
    word = str(item.args["unit"].name).lower() if item.args.get("unit") is not None else "day"
    unit = _TRUNCATED.get(word, word).removesuffix("s")
    if unit not in _COUNTS:
        raise QuestionRefused(f"DATEDIFF counts one of {', '.join(_COUNTS)}, not {unit[:20]}")
    is_sevens = unit == "week" and word != "isoweek"
    count = _COUNTS["day" if is_sevens else unit]
    later = DatePart(count, read(_unwrap(item.this)).node)
    earlier = DatePart(count, read(_unwrap(item.expression)).node)
    difference = Arithmetic("-", later, earlier)
    if is_sevens:
        return Expr(Apply("truncate", Apply("divide", difference, Constant(Fraction(7)))))
    return Expr(difference)


def _shift(item: Any, read: Read) -> Expr | None:
    """d + INTERVAL '1 month', d - INTERVAL 3 DAY."""
    for of, by in ((item.this, item.expression), (item.expression, item.this)):
        interval = read_interval(by, read)
        if interval is not None:
            return _move(read(of), interval, -1 if isinstance(item, trees().Sub) else 1)
    return None


def _compare(item: Any, read: Read) -> Expr | None:
    """b - a > INTERVAL '2 hours': the time between two moments against a length in seconds."""
    for of, by, swapped in ((item.this, item.expression, False), (item.expression, item.this, True)):
        interval = read_interval(by, read)
        if interval is not None:
            months, days, seconds = interval
            if months:
                raise QuestionRefused("months differ in length: compare with days, hours, minutes or seconds")
            pair = (Expr(Apply("seconds", read(of).node)), Expr(Constant(days * 86_400 + seconds)))
            one, other = reversed(pair) if swapped else pair
            return _COMPARISONS[type(item).__name__](one, other)
    return None


def _add_interval(sign: int) -> Callable[[Any, Read], Expr]:
    def add(item: Any, read: Read) -> Expr:
        interval = read_interval(item.expression, read)
        if interval is None:
            count = read(item.expression).node
            unit = item.args.get("unit")
            number = count.value if isinstance(count, Constant) else None
            text = number if not isinstance(number, str) else Fraction(number) if number.lstrip("-").isdigit() else None
            if not isinstance(text, Fraction):
                raise QuestionRefused("a date is moved by a constant: DATE_ADD(d, INTERVAL 3 DAY)")
            interval = _amounts(f"{text} {'day' if unit is None else unit.name}")
        return _move(read(_unwrap(item.this)), interval, sign)

    return add


def _move(of: Expr, by: tuple[Fraction, Fraction, Fraction], sign: int) -> Expr:
    return Expr(Shift(of.node, by[0] * sign, by[1] * sign, by[2] * sign))


def _last_day(item: Any, read: Read) -> Expr:
    return read(_unwrap(item.this)).truncate("month").shift(months=1).shift(days=-1)


def read_interval(item: Any, read: Read) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return the months, days and seconds of an INTERVAL, or of a multiple of one; None for any other expression."""
    kinds = trees()
    inner = _unwrap(item)
    if isinstance(inner, kinds.Neg):
        amounts = read_interval(inner.this, read)
        return None if amounts is None else (-amounts[0], -amounts[1], -amounts[2])
    if isinstance(inner, kinds.Mul):
        for one, other in ((inner.this, inner.expression), (inner.expression, inner.this)):
            amounts = read_interval(one, read)
            factor = _unwrap(other)
            if amounts is not None and isinstance(factor, kinds.Literal) and not factor.is_string:
                times = Fraction(str(factor.this))
                return amounts[0] * times, amounts[1] * times, amounts[2] * times
        return None
    if not isinstance(inner, kinds.Interval):
        return None
    value = _unwrap(inner.this)
    sign = "-" if isinstance(value, kinds.Neg) else ""
    value = value.this if isinstance(value, kinds.Neg) else value
    unit = inner.args.get("unit")
    return _amounts(f"{sign}{value.this}" + ("" if unit is None else f" {unit.name}"))


def _amounts(text: str) -> tuple[Fraction, Fraction, Fraction]:
    """Return the months, days and seconds that an interval's text states."""
    amounts = _AMOUNT.findall(text.lower())
    total = [Fraction(0)] * 3
    for number, word in amounts:
        unit = _UNITS.get(word.removesuffix("s"))
        if unit is None:
            break
        total = [t + Fraction(number) * n for t, n in zip(total, unit, strict=True)]
    else:
        if amounts and not _AMOUNT.sub("", text.lower()).strip(" ,") and all(t.denominator == 1 for t in total[:2]):
            return total[0], total[1], total[2]
    raise QuestionRefused("an INTERVAL states whole units: INTERVAL 3 DAY, INTERVAL '1 month', INTERVAL '2 hours'")


def _anonymous(item: Any, read: Read) -> Expr | None:
    name = str(item.this).upper()
    arguments = item.expressions
    if name in ("DATE_PART", "DATEPART") and len(arguments) == 2 and isinstance(arguments[0], trees().Literal):
        return _part(str(arguments[0].this), arguments[1], read)
    if len(arguments) == 1 and name.lower() in (*_WORDS, *PARTS):
        return _part(name, arguments[0], read)
    if name == "YEARWEEK" and len(arguments) == 1:
        of = read(arguments[0]).node
        return Expr(DatePart("isoyear", of)) * 100 + Expr(DatePart("week", of))
    if name in ("TO_DATE", "TO_TIMESTAMP") and arguments:
        return _parse_time("DATE" if name == "TO_DATE" else "TIMESTAMP")(item, read)
    if name == "AGE":
        raise QuestionRefused(
            "AGE gives months and days: take its years, EXTRACT(YEAR FROM AGE(a, b)), or count DATEDIFF('day', b, a)"
        )
    if name in ("DATESUB", "DATE_SUB") and len(arguments) == 3 and isinstance(arguments[0], trees().Literal):
        unit = str(arguments[0].this).lower().removesuffix("s") + "s"
        if unit not in ("weeks", "days", "hours", "minutes", "seconds"):
            raise QuestionRefused(
                "DATE_SUB counts whole weeks, days, hours, minutes or seconds; DATEDIFF counts months"
            )
        return Expr(Apply("truncate", Apply(unit, (read(arguments[2]) - read(arguments[1])).node)))
    return None


def _unwrap(item: Any) -> Any:
    """Return an operand without its parentheses, and without what a dialect reads around it."""
    while type(item).__name__ in ("Paren", "TsOrDsToDate", "TimeStrToTime", "TsOrDsToTimestamp", "StrToTime"):
        item = item.this
    return item


_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "GT": lambda a, b: a > b,
    "GTE": lambda a, b: a >= b,
    "LT": lambda a, b: a < b,
    "LTE": lambda a, b: a <= b,
}
_READERS: dict[str, Callable[[Any, Read], Expr | None]] = {
    "Add": _shift,
    "Anonymous": _anonymous,
    **dict.fromkeys(_COMPARISONS, _compare),
    "Cast": _cast,
    "Date": _date,
    "DateAdd": _add_interval(1),
    "DateBin": _bucket,
    "DateDiff": _difference,
    "DateFromParts": _from_parts,
    "DateSub": _add_interval(-1),
    "DateTrunc": _truncate,
    "Datetime": _timestamp,
    "DatetimeAdd": _add_interval(1),
    "DatetimeDiff": _difference,
    "DatetimeSub": _add_interval(-1),
    "DatetimeTrunc": _truncate,
    "Dayname": _name("%A"),
    "Extract": _extract,
    "Greatest": _later_or_earlier,
    "LastDay": _last_day,
    "Least": _later_or_earlier,
    "Monthname": _name("%B"),
    "Sub": _shift,
    "StrToDate": _parse_time("DATE"),
    "StrToTime": _parse_time("TIMESTAMP"),
    "TimeToStr": _format,
    "TimeToUnix": lambda item, read: _part("epoch", item.this, read),
    "Timestamp": _timestamp,
    "TimestampAdd": _add_interval(1),
    "TimestampDiff": _difference,
    "TimestampSub": _add_interval(-1),
    "TimestampTrunc": _truncate,
    "TryCast": _cast,
    "TsOrDsAdd": _add_interval(1),
    "TsOrDsDiff": _difference,
    "TsOrDsToDate": _date,
}
# read elsewhere too, or what dialects call another of these
_AS_OTHERS = frozenset(
    {
        *("Add", "Sub", "GT", "GTE", "LT", "LTE", "Anonymous", "Cast", "TryCast", "DateTrunc", "Datetime", "Timestamp"),
        *("Greatest", "Least", "StrToDate", "StrToTime"),
        *("DateSub", "TsOrDsAdd", "TsOrDsDiff", "TsOrDsToDate", "WeekOfYear", "YearOfWeek", "YearOfWeekIso"),
        *(f"{kind}{does}" for kind in ("Datetime", "Timestamp") for does in ("Add", "Sub", "Diff")),
        "DatetimeTrunc",
    }
)
FORMS = tuple(name for name in (*_KINDS, *_READERS) if name not in _AS_OTHERS)


_FUNCTIONS = (
    "NOW",
    "TODAY",
    "GETDATE",
    "GETUTCDATE",
    "SYSDATE",
    "SYSDATETIME",
    "SYSUTCDATETIME",
    "CURRENT_LOCALTIMESTAMP",
)
_DAYS = ("CurrentDate",)
_MOMENTS = ("CurrentTimestamp", "CurrentDatetime", "Localtimestamp", "UtcTimestamp", "CurrentTimestampLTZ")
_NOW_WORDS = re.compile(
    rf"\b({'|'.join(_FUNCTIONS)}|CURRENT_?(DATE|DATETIME|TIMESTAMP)|LOCALTIMESTAMP|UTC_TIMESTAMP)\b", re.IGNORECASE
)


def reads_clock(text: str) -> bool:
    """Return whether a text may ask what time it is.

    >>> reads_clock("SELECT COUNT(*) FROM t WHERE day > CURRENT_DATE - 7"), reads_clock("SELECT 1")
    (True, False)
    """
    return _NOW_WORDS.search(text) is not None


def put_moment(query: Any, moment: datetime.datetime | None) -> Any:
    """Return a tree in which NOW() and its kin are this moment, in UTC, and CURRENT_DATE its day; the tree is changed."""
    if moment is None:
        return query
    exp = trees()
    for node in reversed(list(query.walk())):
        name = type(node).__name__
        called = isinstance(node, exp.Anonymous) and not node.expressions and str(node.this).upper() in _FUNCTIONS
        # The name of a column is none of these words, unless it is quoted.
        if name in _DAYS or (called and str(node.this).upper() == "TODAY"):
            node.replace(exp.cast(exp.Literal.string(moment.date().isoformat()), "date"))
        elif name in _MOMENTS or called:
            text = moment.replace(microsecond=0, tzinfo=None).isoformat(" ")
            node.replace(exp.cast(exp.Literal.string(f"{text}+00:00"), "timestamptz"))
    return query


def current_moment() -> datetime.datetime:
    """Return what time it is, in UTC."""
    return datetime.datetime.now(datetime.UTC)
