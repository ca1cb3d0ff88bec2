"""A private question inside another: its released value is a constant there, and shape and noise follow from its range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from sordino.ask.queries.expressions.nodes import Released
from sordino.ask.queries.expressions.released import TOKEN, ReleasedValues
from sordino.errors import QuestionRefused
from tests.ask.curator.test_statements import cells_of, is_near, open_visits, rows  # noqa: F401

INSIDE = [
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT AVG(amount) FROM visits)",
    "SELECT store, COUNT(*) AS n FROM visits WHERE amount >= (SELECT MEDIAN(amount) + 0.5 FROM visits) GROUP BY store",
    "SELECT store, COUNT(*) AS n FROM visits WHERE amount > 1.2 * (SELECT AVG(amount) FROM visits) AND member GROUP BY store",
    "SELECT SUM(CASE WHEN amount > (SELECT AVG(amount) FROM visits) THEN 1 ELSE 0 END) AS above FROM visits",
    "SELECT COUNT(*) FILTER (WHERE amount > (SELECT AVG(amount) FROM visits WHERE member)) AS n FROM visits",
    "SELECT AVG(amount - (SELECT AVG(amount) FROM visits WHERE member)) AS apart FROM visits WHERE NOT member",
    "SELECT year, COUNT(*) AS n FROM visits WHERE store = (SELECT store FROM visits GROUP BY store"
    " ORDER BY COUNT(*) DESC LIMIT 1) GROUP BY year ORDER BY year",
    "SELECT store, SUM(amount) AS n FROM visits WHERE store IN (SELECT store FROM visits GROUP BY store"
    " ORDER BY COUNT(*) DESC LIMIT 2) GROUP BY store",
    "SELECT COUNT(*) AS n FROM visits WHERE store NOT IN (SELECT store FROM visits GROUP BY store HAVING COUNT(*) > 300)",
    "SELECT COUNT(*) AS n FROM visits WHERE year IN (SELECT year FROM visits GROUP BY year HAVING COUNT(*) > 100)",
    "SELECT COUNT(*) AS n FROM visits WHERE year = (SELECT MAX(year) FROM (SELECT year, COUNT(*) AS n FROM visits"
    " GROUP BY year) t WHERE n > 100)",
    "WITH a AS (SELECT AVG(amount) AS mean FROM visits) SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT mean FROM a)",
    "WITH a AS (SELECT AVG(amount) AS mean FROM visits) SELECT COUNT(*) AS n FROM visits, a WHERE amount > a.mean",
    "WITH a AS (SELECT AVG(amount) AS mean FROM visits) SELECT COUNT(*) AS n FROM visits CROSS JOIN a WHERE amount > a.mean",
    "WITH high AS (SELECT * FROM visits WHERE amount > (SELECT AVG(amount) FROM visits))"
    " SELECT store, COUNT(*) AS n FROM high GROUP BY store",
    "SELECT store, COUNT(*) AS n FROM (SELECT * FROM visits WHERE amount > (SELECT AVG(amount) FROM visits)) t GROUP BY store",
    "SELECT amount > (SELECT AVG(amount) FROM visits) AS above, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT CASE WHEN amount > (SELECT AVG(amount) FROM visits) THEN 'high' ELSE 'low' END AS size, COUNT(*) AS n"
    " FROM visits GROUP BY 1",
    "SELECT COUNT(*) AS n FROM visits WHERE amount BETWEEN (SELECT AVG(amount) - STDDEV_POP(amount) FROM visits)"
    " AND (SELECT AVG(amount) + STDDEV_POP(amount) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount * 100 > (SELECT COUNT(*) FROM visits)",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT AVG(amount) FROM visits WHERE amount >"
    " (SELECT AVG(amount) FROM visits))",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT MAX(m) FROM (SELECT store, AVG(amount) AS m FROM visits"
    " GROUP BY store) t)",
    "SELECT COUNT(*) AS n FROM (SELECT person, SUM(amount) AS s FROM visits GROUP BY person) t"
    " WHERE s > 2 * (SELECT AVG(amount) FROM visits)",
]


@pytest.mark.parametrize("text", INSIDE)
def test_answers_are_those_of_duckdb(rows: pa.Table, text: str) -> None:  # noqa: F811
    release = open_visits(rows).ask(sd.sql(text), epsilon=900_000)
    connection = duckdb.connect()
    connection.register("visits", rows)
    expected = connection.sql(text)
    assert list(release.columns) == expected.columns
    answer = cells_of(release.table)
    right = {row[:-1]: row for row in expected.fetchall()}
    for row in answer:
        # A declared key that no row has is there, with a count of about 0.
        assert all(map(is_near, row, right.pop(row[:-1], (*row[:-1], 0)))), (text, row)
    assert not right
