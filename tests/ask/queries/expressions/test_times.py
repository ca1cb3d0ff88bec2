"""Dates and moments as numbers: parts, truncations, shifts and differences against Python's own calendar and zones."""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import ask, engine_of
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.keys import keys
from sordino.core.time_zones import offsets
from sordino.errors import QuestionRefused

S = Selection()
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Australia/Lord_Howe")
T = col("t")
Moment = datetime.datetime


def moments(zone: str) -> list[Moment]:
    """Return moments around the ends, each change of the clock, leap days and 1970, on the zone's clock."""
    clock = zoneinfo.ZoneInfo(zone)
    low, high = (int(Moment(y, 1, 1, tzinfo=clock).timestamp()) for y in (1968, 1974))
    starts = [s for s in offsets(zone, low, high).starts if low < s < high]
    seconds = [s + d for s in starts for d in (-3601, -1, 0, 1799, 3600)] + list(range(low, high, 5_234_577))
    seconds += [low, high - 1, 0, -1, 68_169_600 - 1, 68_169_600]
    return [Moment.fromtimestamp(s, datetime.UTC).astimezone(clock) for s in seconds]


def domain_of(zone: str) -> sd.Domain:
    return sd.Domain(
        {"t": sd.DateTime("1968-01-01", "1973-12-31", zone=zone), "d": sd.Date("1968-01-01", "1973-12-31")}
    )


def table_of(cells: list[Moment]) -> pa.Table:
    return pa.table({"t": pa.array(cells, pa.timestamp("us", "UTC")), "d": [c.date() for c in cells]})


def midnight(t: Moment, month: int = 0, day: int = 0) -> Moment:
    """Return the moment at which a day of the clock begins, as sd shows it."""
    return Moment(t.year, month or t.month, day or t.day, tzinfo=t.tzinfo).astimezone(datetime.UTC).astimezone(t.tzinfo)


KEYS: list[tuple[Expr, Callable[[Moment], Any]]] = [
    (T.year(), lambda t: t.year),
    (T.quarter(), lambda t: (t.month + 2) // 3),
    (T.month(), lambda t: t.month),
    (T.day(), lambda t: t.day),
    (T.day_of_week(), lambda t: t.isoweekday() % 7),
    (T.iso_day_of_week(), lambda t: t.isoweekday()),
    (T.day_of_year(), lambda t: t.timetuple().tm_yday),
    (T.week(), lambda t: t.isocalendar().week),
    (T.hour(), lambda t: t.hour),
    (T.minute(), lambda t: t.minute),
    (T.second(), lambda t: t.second),
    (T.date(), lambda t: t.date()),
    (T.truncate("year"), lambda t: midnight(t, month=1, day=1)),
    (T.truncate("quarter"), lambda t: midnight(t, month=(t.month - 1) // 3 * 3 + 1, day=1)),
    (T.truncate("month"), lambda t: midnight(t, day=1)),
    (T.truncate("week"), lambda t: midnight(t - datetime.timedelta(days=t.weekday()))),
    (T.truncate("day"), midnight),
    (T.bin(days=7), lambda t: t.date() - datetime.timedelta(days=(t.date() - datetime.date(1968, 1, 1)).days % 7)),
    (T.strftime("%Y-%m"), lambda t: f"{t:%Y-%m}"),
    (T.strftime("%G-W%V"), lambda t: f"{t:%G-W%V}"),
    (T.strftime("%A"), lambda t: f"{t:%A}"),
    (T.strftime("%Y %d"), lambda t: f"{t:%Y %d}"),
]


@pytest.mark.parametrize(
    ("zone", "every"), [(ZONES[0], 2), *(pytest.param(zone, 1, marks=pytest.mark.deep) for zone in ZONES)]
)
def test_keys_are_what_python_says(zone: str, every: int) -> None:
    cells, domain = moments(zone), domain_of(zone)
    engine = engine_of(table_of(cells), domain)
    for key, of in KEYS[::every]:
        labels = keys(key.node, domain).labels
        counts = [int(c) for c in ask(engine, domain, S.group_by(k=key).agg(sd.count()))[0]]
        found = {label: n for label, n in zip(labels, counts, strict=True) if n}
        wanted: dict[Any, int] = {}
        for cell in cells:
            wanted[of(cell)] = wanted.get(of(cell), 0) + 1
        assert found == wanted, str(key)
        assert len(set(labels)) == len(labels)
    engine.close()


@pytest.mark.each(5)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_hours_are_keys_too(zone: str) -> None:
    """Where changes of the clock are whole hours an hour is an hour; elsewhere the clock's own hours are the keys."""
    cells = [c for c in moments(zone) if c.year == 1972]
    domain = sd.Domain({"t": sd.DateTime("1972-01-01", "1972-12-31", zone=zone)})
    engine = engine_of(pa.table({"t": pa.array(cells, pa.timestamp("us", "UTC"))}), domain)
    for count in (1, 6):
        key = T.truncate("hour", count=count)
        labels = keys(key.node, domain).labels
        counts = ask(engine, domain, S.group_by(k=key).agg(sd.count()))[0]
        found = {label for label, n in zip(labels, counts, strict=True) if n}
        assert sum(counts) == len(cells)
        assert {(c.date(), c.hour // count * count) for c in cells} == {(f.date(), f.hour) for f in found}
    engine.close()


NUMBERS: list[tuple[Expr, Callable[[Moment], Fraction]]] = [
    ((T - "1970-01-01T00:00:00Z").seconds(), lambda t: Fraction(int(t.timestamp()))),
    ((T - Moment(1970, 1, 1, tzinfo=datetime.UTC)).days(), lambda t: Fraction(int(t.timestamp()), 86400)),
    (
        (datetime.date(1973, 12, 31) - col("d")).days(),
        lambda t: Fraction((datetime.date(1973, 12, 31) - t.date()).days),
    ),
    ((T - col("d")).hours(), lambda t: Fraction(int((t - midnight(t)).total_seconds()), 3600)),
    ((col("d").shift(months=1) - col("d")).days(), lambda t: Fraction((add_months(t.date(), 1) - t.date()).days)),
    (
        (col("d").shift(months=-13, days=3) - col("d")).days(),
        lambda t: Fraction((add_months(t.date(), -13) - t.date()).days + 3),
    ),
    (
        (T.shift(days=1) - T).seconds(),
        lambda t: Fraction(
            int((wall(t) + datetime.timedelta(days=1)).replace(tzinfo=t.tzinfo).timestamp() - t.timestamp())
        ),
    ),
    ((T.shift(hours=1) - T).seconds(), lambda _: Fraction(3600)),
    ((T.truncate("month") - T).seconds(), lambda t: Fraction(int((midnight(t, day=1)).timestamp() - t.timestamp()))),
    (
        (T.clip("1970-01-01", "1971-01-01").date() - col("d").clip("1970-01-01", "1971-01-01")).days(),
        lambda _: Fraction(0),
    ),
]


def wall(t: Moment) -> Moment:
    return t.replace(tzinfo=None, fold=0)


def add_months(day: datetime.date, months: int) -> datetime.date:
    at = day.year * 12 + day.month - 1 + months
    first = datetime.date(at // 12, at % 12 + 1, 1)
    after = datetime.date((at + 1) // 12, (at + 1) % 12 + 1, 1)
    return first + datetime.timedelta(days=min(day.day, (after - first).days) - 1)


@pytest.mark.each(5)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "America/Sao_Paulo"])
def test_lengths_of_time_are_what_python_says(zone: str) -> None:
    """Each value is exact and lies within its stated interval, at the bounds and at changes of the clock too."""
    cells = [c for c in moments(zone) if c.year < 1973][::7]
    domain = sd.Domain({**domain_of(zone).columns, "i": sd.Integer(0, len(cells) - 1)})
    engine = engine_of(table_of(cells).append_column("i", pa.array(range(len(cells)))), domain)
    for expression, of in NUMBERS:
        found = bind_number(expression.node, domain).values
        assert found.lower is not None
        assert found.upper is not None
        values = ask(engine, domain, S.group_by("i").agg(sd.sum(expression)))[0]
        assert values == [of(cell) for cell in cells], str(expression)
        assert found.lower <= min(values) <= max(values) <= found.upper
    engine.close()


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (lambda: col("n").truncate("month"), "needs a date or a datetime"),
        (lambda: col("d") + col("d"), "computes with a date"),
        (lambda: col("d") * 2, "computes with a date"),
        (lambda: col("d").shift(hours=1), "added to a datetime"),
        (lambda: col("n").days(), "between two moments"),
        (lambda: T + 3, "computes with a date"),
        (lambda: col("d").shift(months=120_000), "years 1 to 9999"),
    ],
)
def test_refusals_say_what_and_why(made: Callable[[], Expr], match: str) -> None:
    domain = sd.Domain({**domain_of("UTC").columns, "n": sd.Integer(0, 9)})
    with pytest.raises(QuestionRefused, match=match):
        bind_number(made().node, domain)


def test_a_date_key_shows_every_declared_day() -> None:
    assert keys(col("d").node, domain_of("UTC")).labels[:2] == (datetime.date(1968, 1, 1), datetime.date(1968, 1, 2))
    with pytest.raises(QuestionRefused, match="coarser part"):
        keys(T.node, domain_of("UTC"))
    kept = sd.Domain({"d": sd.Date("2020-01-01", "2020-03-01", missing="keep")})
    assert keys(col("d").truncate("month").node, kept).labels[-2:] == (datetime.date(2020, 3, 1), None)
