"""NOW() and CURRENT_DATE: read once, when a question is planned, inside private questions and around them."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.curator import curator
from sordino.ask.queries.sql.parse import parse_sql
from sordino.ask.queries.sql.time_functions import put_moment, reads_clock
from sordino.errors import QuestionRefused

DOMAIN = sd.Domain(
    {
        "g": sd.Category(["a", "b"]),
        "d": sd.Date("2024-01-01", "2024-12-31"),
        "t": sd.DateTime("2024-01-01", "2024-12-31 23:59:59", zone="Europe/Berlin"),
    }
)
DAYS = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(366)]
# A moment of each day, at 23:30 in UTC: in Berlin it is the next day.
MOMENTS = [datetime.datetime.combine(day, datetime.time(23, 30), datetime.UTC) for day in DAYS[:-1]]
NOW = datetime.datetime(2024, 6, 30, 23, 30, 15, 900_000, datetime.UTC)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(curator, "current_moment", lambda: NOW)
    rows = pa.table({"g": ["a", "b"] * 183, "d": DAYS, "t": [*MOMENTS, None]})
    return protect(rows, DOMAIN, budget=sd.PureDP(10**9), name="people")


@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("d < CURRENT_DATE", 181),
        ("d <= CURRENT_DATE", 182),
        ("d = TODAY()", 1),
        ("d >= CURRENT_DATE - INTERVAL 7 DAY AND d < CURRENT_DATE", 7),
        ("t < NOW()", 182),
        ("t <= CURRENT_TIMESTAMP - INTERVAL '1 day'", 181),
        ("t > GETDATE() - INTERVAL '12 hours' AND t < NOW()", 1),
        ("DATE_DIFF('day', d, CURRENT_DATE) BETWEEN 1 AND 30", 30),
        ("DATE_TRUNC('month', d) = DATE_TRUNC('month', CURRENT_DATE)", 30),
    ],
)
def test_the_clock_is_that_of_utc_whatever_a_columns_zone(held: Any, condition: str, count: int) -> None:
    release = held.ask(sd.sql(f"SELECT COUNT(*) AS n FROM people WHERE {condition}"), epsilon=10**6)
    assert release.value == count


@pytest.mark.deep
def test_it_is_read_once_and_stands_in_the_plan_and_the_record(held: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT NOW() AS at, CURRENT_DATE AS day, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS all_n FROM people WHERE t < NOW()"
    plan = held.plan(sd.sql(text), epsilon=10**6)
    single = held.plan(sd.sql("SELECT COUNT(*) AS n FROM people WHERE d < CURRENT_DATE"), epsilon=10**6)
    assert "2024-06-30 23:30:15 UTC" in plan.question.describe()
    assert "d < 2024-06-30" in single.question.describe()
    later = NOW + datetime.timedelta(days=30)
    monkeypatch.setattr(curator, "current_moment", lambda: later)
    # A plan that is kept means the moment at which it was made, and a new one another: it is another question.
    release = held.ask(plan)
    [row] = release.rows
    assert (row["at"].replace(tzinfo=None), row["day"]) == (NOW.replace(microsecond=0, tzinfo=None), NOW.date())
    assert (row["n"], row["all_n"]) == (182, 182)
    assert "2024-06-30 23:30:15 UTC" in release.question
    assert held.ask(single).value == 181
    assert held.plan(sd.sql(text), epsilon=10**6).identity() != plan.identity()
    again = held.plan(sd.sql("SELECT COUNT(*) AS n FROM people WHERE d < CURRENT_DATE"), epsilon=1)
    assert again.identity() != single.identity()
    assert held.ask(sd.sql(text), epsilon=10**6).rows[0]["n"] == 212


def test_a_question_without_it_is_the_same_whenever_it_is_planned(held: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = sd.sql("SELECT g, COUNT(*) AS n FROM people WHERE d > DATE '2024-02-01' GROUP BY g")
    before = held.plan(text, epsilon=1).identity()
    monkeypatch.setattr(curator, "current_moment", lambda: NOW + datetime.timedelta(days=1))
    assert held.plan(text, epsilon=1).identity() == before


def test_a_column_of_such_a_name_and_a_text_are_left_alone() -> None:
    import sqlglot

    text = "SELECT 'NOW()', \"now\", COUNT(*) FROM t WHERE c = 'current_date'"
    assert reads_clock(text)
    tree = sqlglot.parse_one(text, read="duckdb")
    assert put_moment(tree.copy(), NOW) == tree


def test_where_nothing_is_planned_it_is_refused_with_what_to_write() -> None:
    with pytest.raises(QuestionRefused, match="write the day"):
        parse_sql("SELECT COUNT(*) AS n FROM people WHERE d < CURRENT_DATE", table="people", columns=DOMAIN.stored)
