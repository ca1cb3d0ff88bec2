"""SQL about dates and times, at so large an epsilon that noise is none, beside plain DuckDB over the same table."""

from __future__ import annotations

import datetime
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from sordino.errors import QuestionRefused

START = datetime.datetime(2013, 1, 1)
LEFT = [START + datetime.timedelta(minutes=(i * 7919 * 13) % (365 * 1440)) for i in range(900)]
CAME = [t + datetime.timedelta(minutes=30 + (i * 37) % 770) for i, t in enumerate(LEFT)]
FLIGHTS = pa.table(
    {
        "date": [t.date() for t in LEFT],
        "dep": pa.array(LEFT, pa.timestamp("us")),
        "arr": pa.array(CAME, pa.timestamp("us")),
        "delay": [i % 120 - 20 for i in range(900)],
        "carrier": [("AA", "UA")[i % 2] for i in range(900)],
    }
)
DOMAIN = sd.Domain(
    {
        "date": sd.Date("2013-01-01", "2013-12-31"),
        "dep": sd.DateTime("2013-01-01", "2013-12-31", zone="UTC", resolution="minute"),
        "arr": sd.DateTime("2013-01-01", "2014-01-02", zone="UTC", resolution="minute"),
        "delay": sd.Integer(-60, 120),
        "carrier": sd.Category(["AA", "UA"]),
    }
)
ASKED = """\
SELECT date, COUNT(*) FROM flights GROUP BY date
SELECT MONTH(date), DAY(date), COUNT(*) FROM flights GROUP BY 1,2
SELECT DATE_TRUNC('month', date) AS m, AVG(delay) FROM flights GROUP BY m
SELECT DATE_TRUNC('hour', dep) AS h, COUNT(*) FROM flights GROUP BY 1
SELECT EXTRACT(HOUR FROM dep) AS h, COUNT(*) FROM flights GROUP BY 1
SELECT EXTRACT(week FROM date) AS w, COUNT(*) FROM flights GROUP BY 1
SELECT ISODOW(date), COUNT(*) FROM flights GROUP BY 1
SELECT DAYOFWEEK(date), COUNT(*) FROM flights GROUP BY 1
SELECT DATE_PART('hour', dep), COUNT(*) FROM flights GROUP BY 1
SELECT DAYNAME(date), COUNT(*) FROM flights GROUP BY 1
SELECT MONTHNAME(date) AS x, COUNT(*) FROM flights GROUP BY x
SELECT STRFTIME(date, '%Y-%m') AS ym, COUNT(*) AS n FROM flights GROUP BY ym
SELECT TIME_BUCKET(INTERVAL '7 days', date) AS b, COUNT(*) FROM flights GROUP BY b
SELECT TIME_BUCKET(INTERVAL '6 hours', dep) AS b, COUNT(*) FROM flights GROUP BY b
SELECT YEARWEEK(date), COUNT(*) FROM flights GROUP BY 1
SELECT AVG(DATEDIFF('minute', dep, arr)) FROM flights
SELECT AVG(DATEDIFF('day', dep, arr)), AVG(DATEDIFF('hour', dep, arr)) FROM flights
SELECT AVG(DATEDIFF('day', DATE '2013-01-01', date)) AS a FROM flights
SELECT AVG(date - DATE '2013-01-01') AS a FROM flights
SELECT AVG(EPOCH(arr - dep)) AS a FROM flights
SELECT AVG(DATE_SUB('hour', dep, arr)) AS a FROM flights
SELECT COUNT(*) FROM flights WHERE date BETWEEN '2013-02-01' AND DATE '2013-03-01'
SELECT COUNT(*) FROM flights WHERE dep < TIMESTAMP '2013-05-05 10:30:00' AND dep >= '2013-02-02'
SELECT COUNT(*) FROM flights WHERE date IN ('2013-02-01', DATE '2013-03-01')
SELECT COUNT(*) FROM flights WHERE date + INTERVAL 1 MONTH > DATE '2013-03-15'
SELECT COUNT(*) FROM flights WHERE date < DATE '2013-03-15' + INTERVAL '2 weeks'
SELECT COUNT(*) FROM flights WHERE CAST(dep AS DATE) = '2013-03-15'
SELECT COUNT(*) FROM flights WHERE dep::date > date - 1
SELECT COUNT(*) FROM flights WHERE STRFTIME(dep, '%H') IN ('08','09')
SELECT COUNT(*) FROM flights WHERE DATE_TRUNC('month', dep) = '2013-03-01'
SELECT COUNT(*) FROM flights WHERE YEAR(date) = 2013 AND HOUR(dep) >= 12
SELECT COUNT(*) FROM flights WHERE LAST_DAY(date) = date
SELECT COUNT(*) FROM flights WHERE arr - dep > INTERVAL '2 hours'
SELECT carrier, AVG(dep) AS a, MEDIAN(date) AS m FROM flights GROUP BY carrier
SELECT AVG(date) FROM flights
SELECT COUNT(DISTINCT date) FROM flights
SELECT COUNT(DISTINCT DATE_TRUNC('month', date)) FROM flights
SELECT COUNT(date) FROM flights
SELECT QUANTILE_CONT(dep, 0.25) FROM flights
SELECT CASE WHEN HOUR(dep) < 12 THEN 'am' ELSE 'pm' END AS x, COUNT(*) FROM flights GROUP BY x
SELECT date, COUNT(*) AS n FROM flights GROUP BY date HAVING date < '2013-01-05' ORDER BY date DESC
SELECT DATE_TRUNC('month', date) AS m, COUNT(*) AS n FROM flights GROUP BY m ORDER BY m DESC LIMIT 3
SELECT MONTH(dep) AS m, DAYOFWEEK(dep) AS d, COUNT(*) AS n FROM flights GROUP BY m, d
SELECT DATE(dep) AS d, COUNT(*) FROM flights GROUP BY d
SELECT AVG(CAST(EXTRACT(EPOCH FROM dep) AS DOUBLE)) AS e FROM flights
SELECT COUNT(*) FROM flights WHERE arr - dep <= INTERVAL '90 minutes'
"""
REFUSED = [
    ("SELECT SUM(date) FROM flights", "a sum of dates is not supported"),
    ("SELECT COUNT(*) FROM flights WHERE date > '31.1.2013'", "a day is written as"),
    (
        "SELECT COUNT(*) FROM flights WHERE dep AT TIME ZONE 'UTC' > '2013-01-01'",
        "the zone of a datetime column is declared",
    ),
    ("SELECT EXTRACT(EPOCH FROM dep) AS e, COUNT(*) FROM flights GROUP BY e", "too many keys"),
    ("SELECT AVG(date) + 1 FROM flights", "AVG of dates is a date"),
    ("SELECT STRFTIME(date, '%Q') AS x, COUNT(*) FROM flights GROUP BY x", "is not supported: use %Y"),
    ("SELECT COUNT(*) FROM flights WHERE date + INTERVAL 'soon' > '2013-01-01'", "states whole units"),
]


@pytest.fixture(scope="module")
def flights() -> Any:
    return sd.protect(
        FLIGHTS,
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**8),
        ledger=None,
        rng=sd.Rng.seeded(3),
        name="flights",
    )


def plain(value: Any) -> Any:
    """Return a date or a moment as a time without a zone: DuckDB has no zone for these."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return datetime.datetime(value.year, value.month, value.day) if isinstance(value, datetime.date) else value


def is_near(one: Any, other: Any) -> bool:
    if isinstance(one, datetime.datetime) and isinstance(other, datetime.datetime):
        return abs(one - other) <= datetime.timedelta(days=1)
    return bool(one == other or abs(one - other) <= 1e-2 * max(1, abs(other)))


@pytest.mark.each(20)
@pytest.mark.parametrize("text", ASKED.splitlines(), ids=lambda text: text[7:70])
def test_answers_are_those_of_duckdb(flights: Any, text: str) -> None:
    connection = duckdb.connect()
    connection.register("flights", FLIGHTS)
    wanted = [tuple(map(plain, row)) for row in connection.execute(text).fetchall()]
    release = flights.ask(sd.sql(text), epsilon=10_000)
    names = [k.name for k in release.keys]
    places = [release.columns.index(name) for name in names]
    rows = {tuple(plain(row[n]) for n in names): tuple(map(plain, row.values())) for row in release.rows}
    assert len(rows) >= len(wanted) > 0
    for row in wanted:
        mine = rows[tuple(row[i] for i in places)]
        assert all(is_near(a, b) for i, (a, b) in enumerate(zip(mine, row, strict=True)) if i not in places)


@pytest.mark.parametrize(("text", "match"), REFUSED, ids=[t[7:60] for t, _ in REFUSED])
def test_refusals_say_what_works(flights: Any, text: str, match: str) -> None:
    with pytest.raises(QuestionRefused, match=match):
        flights.plan(sd.sql(text), epsilon=1)


def test_a_release_of_dates_comes_back_from_json_and_as_columns(flights: Any) -> None:
    text = "SELECT DATE_TRUNC('month', dep) AS m, AVG(dep) AS t, MEDIAN(date) AS d FROM flights GROUP BY m"
    release = flights.ask(sd.sql(text), epsilon=10_000)
    again = sd.Release.from_dict(release.to_dict())
    assert again.table == release.table
    assert again.to_json() == release.to_json()
    assert [str(field.type) for field in release.table.schema] == ["timestamp[us, tz=UTC]"] * 2 + ["date32[day]"]
    low, high = release.interval(0.95)["t_lower"].to_pylist(), release.interval(0.95)["t_upper"].to_pylist()
    assert all(a <= row["t"] <= b for a, row, b in zip(low, release.rows, high, strict=True))
    assert "2013-01-01 00:00:00+00:00" in str(release)
    kept = flights.ask(
        sd.sql("SELECT date, COUNT(*) AS n FROM flights GROUP BY date HAVING date IN ('2013-01-05')"), epsilon=1
    )
    assert kept.table["date"].to_pylist() == [datetime.date(2013, 1, 5)]


@pytest.mark.deep
def test_weeks_between_two_days_are_duckdbs() -> None:
    middle = datetime.datetime(2013, 6, 5)
    hours = [(first, first + 25 * apart) for first in (0, 5, 40, 100, 167) for apart in range(-40, 41)]
    moments = [tuple(middle + datetime.timedelta(hours=h) for h in pair) for pair in hours]
    table = pa.table(
        {
            "dep": pa.array([pair[0] for pair in moments], pa.timestamp("us")),
            "arr": pa.array([pair[1] for pair in moments], pa.timestamp("us")),
            "began": [pair[0].date() for pair in moments],
            "ended": [pair[1].date() for pair in moments],
        }
    )
    clock = sd.DateTime("2013-01-01", "2013-12-31", zone="UTC", resolution="minute")
    calendar = sd.Date("2013-01-01", "2013-12-31")
    held = sd.protect(
        table,
        domain=sd.Domain({"dep": clock, "arr": clock, "began": calendar, "ended": calendar}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**12),
        name="trips",
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    connection = duckdb.connect()
    connection.register("trips", table)
    for weeks in (
        "DATE_DIFF('week', dep, arr)",
        "DATEDIFF('week', began, ended)",
        "DATE_DIFF('weeks', began, arr)",
        "DATE_DIFF('week', DATE '2013-06-09', ended)",
    ):
        text = f"SELECT {weeks} AS w, COUNT(*) AS n FROM trips GROUP BY w"
        answer = held.ask(sd.sql(text), epsilon=10**6)
        assert {row["w"]: row["n"] for row in answer.rows if row["n"]} == dict(connection.execute(text).fetchall()), (
            text
        )


@pytest.mark.each(4)
@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year"])
def test_the_day_of_a_truncation_is_that_of_the_clock(unit: str) -> None:
    """As Metabase writes it, over moments around midnight and the ends of months, by the clock of New York."""
    zone = ZoneInfo("America/New_York")
    start = datetime.datetime(2023, 12, 30, tzinfo=datetime.UTC)
    moments = [start + datetime.timedelta(hours=5 * i, minutes=7 * i) for i in range(400)]
    table = pa.table({"seen": pa.array(moments, pa.timestamp("us", tz="UTC"))})
    held = sd.protect(
        table,
        name="t",
        domain=sd.Domain({"seen": sd.DateTime("2023-12-01", "2024-12-31", zone="America/New_York")}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**6),
        ledger=None,
    )
    release = held.ask(
        sd.sql(f"SELECT CAST(DATE_TRUNC('{unit}', seen) AS DATE) AS d, COUNT(*) AS n FROM t GROUP BY d"), epsilon=10**5
    )
    right: dict[datetime.date, int] = {}
    for moment in moments:
        day = moment.astimezone(zone).date()
        first = {
            "day": day,
            "week": day - datetime.timedelta(days=day.weekday()),
            "month": day.replace(day=1),
            "quarter": day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1),
            "year": day.replace(day=1, month=1),
        }[unit]
        right[first] = right.get(first, 0) + 1
    assert {row["d"]: row["n"] for row in release.rows if row["n"]} == right
