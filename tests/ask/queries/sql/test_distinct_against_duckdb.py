"""COUNT(DISTINCT) of several columns as DuckDB counts it: a combination with a missing part is none, a row value is one."""

from __future__ import annotations

import datetime
import random

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import col
from sordino.errors import QuestionRefused

_DRAW = random.Random(4)
_ROWS = [
    {
        "id": f"u{_DRAW.randrange(40)}",
        "a": _DRAW.choice([None, 1, 2, 3]),
        "b": _DRAW.choice([None, "x", "y"]),
        "d": _DRAW.choice([None, datetime.date(2020, 1, 31), datetime.date(2021, 2, 1)]),
        "g": _DRAW.choice([True, False]),
    }
    for _ in range(60)
]
_TABLE = pa.Table.from_pylist(
    _ROWS,
    pa.schema([("id", pa.string()), ("a", pa.int64()), ("b", pa.string()), ("d", pa.date32()), ("g", pa.bool_())]),
)
_DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "a": sd.Integer(0, 5),
        "b": sd.Category(["x", "y"]),
        "d": sd.Date("2020-01-01", "2021-12-31"),
        "g": sd.Boolean(),
    }
)
_COUNTED = [
    "a, b",
    "b, a, YEAR(d)",
    "(a, b)",
    "(YEAR(d), b)",
    "(a // 2, d, g)",
    "(a, id)",
    "MONTH(d), a % 2",
    "(CASE WHEN g THEN a END, b)",
]


@pytest.mark.each(28)
@pytest.mark.parametrize("unit", ["row", sd.PrivacyUnit("id", max_rows=60)], ids=["rows", "people"])
@pytest.mark.parametrize("counted", _COUNTED)
def test_combinations_are_those_of_duckdb(counted: str, unit: str | sd.PrivacyUnit) -> None:
    held = protect(_TABLE, _DOMAIN, unit=unit, budget=sd.PureDP(10**12), name="data")
    connection = duckdb.connect()
    connection.register("data", _TABLE)
    oracle = f"COUNT(DISTINCT {counted})"
    if not counted.startswith("("):
        # DuckDB counts one argument alone, MySQL and Spark several: those without a missing part
        present = " AND ".join(f"({part}) IS NOT NULL" for part in counted.split(", "))
        oracle = f"COUNT(DISTINCT ({counted})) FILTER (WHERE {present})"
    for text in (
        f"SELECT COUNT(DISTINCT {counted}) AS n FROM data",
        f"SELECT g, COUNT(DISTINCT {counted}) AS n FROM data GROUP BY g ORDER BY g",
    ):
        expected = connection.execute(text.replace(f"COUNT(DISTINCT {counted})", oracle)).fetchall()
        found = [tuple(row.values()) for row in held.ask(sd.sql(text), epsilon=10**6).rows]
        assert found == expected


def test_the_two_ways_are_two_questions() -> None:
    held = protect(_TABLE, _DOMAIN, budget=sd.PureDP(10**12), name="data")
    whole = held.plan(sd.count_distinct("a", "b"), epsilon=1)
    rows = held.plan(sd.count_distinct("a", "b", missing=True), epsilon=1)
    assert whole.identity() != rows.identity()
    assert "missing ones too" in rows.words
    assert (
        rows.question.identity()
        == held.plan(sd.sql("SELECT COUNT(DISTINCT (a, b)) AS distinct_a_b FROM data"), epsilon=1).question.identity()
    )
    with pytest.raises(QuestionRefused, match="combinations of several columns"):
        sd.count_distinct(col("a"), missing=True)


@pytest.mark.each(22)
@pytest.mark.parametrize("unit", ["row", sd.PrivacyUnit("id", max_rows=60)], ids=["rows", "people"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT SUM(DISTINCT a) AS n FROM data",
        "SELECT g, SUM(DISTINCT a) AS n, SUM(a) AS m FROM data GROUP BY g ORDER BY g",
        "SELECT SUM(DISTINCT a) FILTER (WHERE g) AS n FROM data",
        "SELECT SUM(DISTINCT a - 3) AS n FROM data",
        "SELECT AVG(DISTINCT a) AS n FROM data",
        "SELECT AVG(DISTINCT a) FILTER (WHERE a < 3) AS n FROM data",
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT a, b FROM data) AS t",
        "SELECT SUM(CAST(1 AS BIGINT)) AS n FROM data",
        "SELECT COUNT(*) AS n FROM (SELECT a, b FROM data WHERE g GROUP BY a, b) AS t",
    ],
)
def test_different_values_are_those_of_duckdb(text: str, unit: str | sd.PrivacyUnit) -> None:
    held = protect(_TABLE, _DOMAIN, unit=unit, budget=sd.PureDP(10**12), name="data")
    connection = duckdb.connect()
    connection.register("data", _TABLE)
    expected = connection.execute(text).fetchall()
    found = [tuple(row.values()) for row in held.ask(sd.sql(text), epsilon=10**6).rows]
    assert [pytest.approx(row, abs=0.001) for row in expected] == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT MEDIAN(DISTINCT a) FROM data", "COUNT, VARIANCE and STDDEV of DISTINCT values are"),
        ("SELECT VAR_POP(DISTINCT free) FROM data", "no bounded sensitivity"),
        ("SELECT SUM(DISTINCT wide) FROM data", "64 bits"),
        ("SELECT SUM(DISTINCT free) FROM data", "no bounded sensitivity"),
    ],
)
def test_sums_of_different_values_that_are_refused(text: str, message: str) -> None:
    domain = sd.Domain(
        {**{name: _DOMAIN[name] for name in _DOMAIN}, "wide": sd.Integer(0, 2**40), "free": sd.Integer()}
    )
    table = _TABLE.append_column("wide", _TABLE["a"]).append_column("free", _TABLE["a"])
    held = protect(table, domain, budget=sd.PureDP(10**12), name="data")
    with pytest.raises(QuestionRefused, match=message):
        held.plan(sd.sql(text), epsilon=1)
