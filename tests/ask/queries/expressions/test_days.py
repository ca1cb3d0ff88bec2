"""Parts of days: every day of four centuries against Python's calendar, and their declared ranges."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.keys import keys
from sordino.errors import QuestionRefused

PARTS = ["year", "quarter", "month", "day", "dow"]


def expected(day: datetime.date) -> tuple[int, ...]:
    return day.year, (day.month + 2) // 3, day.month, day.day, (day.weekday() + 1) % 7


def expressions() -> list[sd.Expr]:
    d = col("d")
    return [d.year(), d.quarter(), d.month(), d.day(), d.day_of_week()]


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.deep)])
def test_every_day_of_centuries(step: int) -> None:
    """The calendar repeats after 400 years; the first days and the last ones that Python knows are held besides."""
    first = datetime.date(1799, 12, 30)
    days = [first + datetime.timedelta(days=i) for i in range(0, 146_100, step)]
    days += [datetime.date(1, 1, 1) + datetime.timedelta(days=i) for i in range(800)]
    days += [datetime.date(9999, 12, 31) - datetime.timedelta(days=i) for i in range(800)]
    domain = sd.Domain({"d": sd.Date("0001-01-01", "9999-12-31")})
    engine = DuckDBEngine(pa.table({"d": days}), domain=domain, unit=None)
    from sqlglot import exp

    words = engine.primitives
    chosen = [
        exp.alias_(bind_number(e.node, domain).build(words), p) for e, p in zip(expressions(), PARTS, strict=True)
    ]
    chosen.append(exp.alias_(words.days("d", datetime.date(1, 1, 1), datetime.date(9999, 12, 31)), "at"))
    table = engine.run(exp.Select(expressions=chosen).from_(words.source()))
    engine.close()
    epoch = datetime.date(1970, 1, 1)
    found = zip(*(table.column(p).to_pylist() for p in PARTS), table.column("at").to_pylist(), strict=True)
    wrong = [row for row in found if row[:5] != expected(epoch + datetime.timedelta(days=row[5]))]
    assert wrong == []
    assert table.num_rows == len(days)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [("2000-01-31", "2000-02-02"), ("1999-12-30", "2000-01-05"), ("1999-01-01", "2001-12-31"), ("2024-02-29",) * 2],
)
def test_ranges_hold_every_declared_day_and_no_more(lower: str, upper: str) -> None:
    column = sd.Date(lower, upper)
    domain = sd.Domain({"d": column})
    days = [column.lower + datetime.timedelta(days=i) for i in range((column.upper - column.lower).days + 1)]
    for place, of in enumerate(expressions()):
        seen = [expected(day)[place] for day in days]
        found = bind_number(of.node, domain)
        assert [found.interval.lower, found.interval.upper] == [min(seen), max(seen)]
        assert keys(of.node, domain).labels == tuple(range(min(seen), max(seen) + 1))


def test_a_missing_day_has_no_part_and_may_be_a_key() -> None:
    domain = sd.Domain({"d": sd.Date("2000-01-01", "2000-03-01", missing="keep")})
    assert keys(col("d").month().node, domain).labels == (1, 2, 3, None)
    people = protect(pa.table({"d": [None, datetime.date(2000, 2, 9)]}), domain)
    found = people.ask(Selection().group_by(col("d").month()).agg(sd.count().alias("n")), epsilon=10**5)
    assert found.table.column("n").to_pylist() == [0, 1, 0, 1]


def test_a_number_has_no_parts() -> None:
    domain = sd.Domain({"x": sd.Integer(0, 9)})
    with pytest.raises(QuestionRefused, match="needs a date"):
        bind_number(col("x").year().node, domain)
