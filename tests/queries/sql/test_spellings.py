"""Other ways to write the same question: each is read as the question that is written in our own way."""

from __future__ import annotations

import pytest

from sordino.errors import QuestionRefused
from sordino.queries.sql.parse import parse_question, sql

COLUMNS = ("age", "job", "state")
PUBLIC = {"regions": ("state", "zone")}


def read(text: str, dialect: str | None = None) -> object:
    return parse_question(sql(text, dialect=dialect), table="people", columns=COLUMNS, public=PUBLIC)


JOINED = "SELECT zone, COUNT(*) AS n FROM people JOIN regions ON people.state = regions.state GROUP BY zone"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("SELECT COUNT(*) FROM shop.people", "SELECT COUNT(*) FROM people"),
        ("SELECT COUNT(*) FROM lake.shop.people AS p WHERE p.age > 3", "SELECT COUNT(*) FROM people WHERE age > 3"),
        ("SELECT AVG(`age`) FROM `people`", "SELECT AVG(age) FROM people"),
        ('SELECT COUNT(*) FROM `people` WHERE job = "cook"', "SELECT COUNT(*) FROM people WHERE job = 'cook'"),
        ("SELECT AVG([age]) FROM [dbo].[people]", "SELECT AVG(age) FROM people"),
        ("SELECT COUNT(*) FROM (people)", "SELECT COUNT(*) FROM people"),
        ("SELECT COUNT(*) FROM ((people)) AS p WHERE p.age > 3", "SELECT COUNT(*) FROM people WHERE age > 3"),
        (
            "SELECT TOP 3 job, COUNT(*) AS n FROM people GROUP BY job ORDER BY n DESC",
            "SELECT job, COUNT(*) AS n FROM people GROUP BY job ORDER BY n DESC LIMIT 3",
        ),
        ("SELECT DISTINCT job, COUNT(*) FROM people GROUP BY 1", "SELECT job, COUNT(*) FROM people GROUP BY job"),
        ("SELECT job, COUNT(*) FROM people GROUP BY ALL", "SELECT job, COUNT(*) FROM people GROUP BY job"),
        ("SELECT COUNT(*) FROM people GROUP BY ALL", "SELECT COUNT(*) FROM people"),
        ("WITH w(a) AS (SELECT age FROM people) SELECT SUM(a) AS s FROM w", "SELECT SUM(age) AS s FROM people"),
        ("SELECT SUM(a) AS s FROM (SELECT age FROM people) AS w(a)", "SELECT SUM(age) AS s FROM people"),
        ("SELECT COUNT(ALL age) FROM people", "SELECT COUNT(age) FROM people"),
        ("SELECT VAR(age) FROM people", "SELECT VAR_SAMP(age) FROM people"),
        ("SELECT STD(age) FROM people", "SELECT STDDEV(age) FROM people"),
        ("SELECT STDEV(age) FROM people", "SELECT STDDEV_SAMP(age) FROM people"),
        ("SELECT COUNT_IF(age > 3) AS n FROM people", "SELECT COUNT(CASE WHEN age > 3 THEN 1 END) AS n FROM people"),
        ("SELECT COUNTIF(age > 3) AS n FROM people", "SELECT COUNT(CASE WHEN age > 3 THEN 1 END) AS n FROM people"),
        (
            "SELECT COUNT(*) FILTER (WHERE age > 3) AS n FROM people",
            "SELECT COUNT(CASE WHEN age > 3 THEN 1 END) AS n FROM people",
        ),
        (
            "SELECT SUM(age) FILTER (WHERE job = 'cook') AS s FROM people",
            "SELECT SUM(CASE WHEN job = 'cook' THEN age END) AS s FROM people",
        ),
        (
            "SELECT MEDIAN(age) FILTER (WHERE job = 'cook') AS m FROM people",
            "SELECT MEDIAN(CASE WHEN job = 'cook' THEN age END) AS m FROM people",
        ),
        ("SELECT zone, COUNT(*) AS n FROM people JOIN regions ON (people.state = regions.state) GROUP BY zone", JOINED),
        ("SELECT zone, COUNT(*) AS n FROM regions JOIN people ON people.state = regions.state GROUP BY zone", JOINED),
        ("SELECT zone, COUNT(*) AS n FROM people, regions WHERE people.state = regions.state GROUP BY zone", JOINED),
        ("SELECT zone, COUNT(*) AS n FROM regions, people WHERE people.state = regions.state GROUP BY zone", JOINED),
        (
            "SELECT zone, COUNT(*) AS n FROM regions RIGHT JOIN people ON people.state = regions.state GROUP BY zone",
            JOINED.replace("JOIN", "LEFT JOIN"),
        ),
        (
            "SELECT zone, COUNT(*) AS n FROM people p, regions r WHERE p.age > 3 AND p.state = r.state GROUP BY zone",
            JOINED.replace("GROUP", "WHERE age > 3 GROUP"),
        ),
    ],
)
def test_a_spelling_is_read_as_the_same_question(text: str, same: str) -> None:
    assert read(text) == read(same)


@pytest.mark.parametrize(
    ("dialect", "text", "same"),
    [
        (
            "bigquery",
            'SELECT COUNT(*) FROM people WHERE job = "cook"',
            "SELECT COUNT(*) FROM people WHERE job = 'cook'",
        ),
        ("tsql", "SELECT STDEV([age]) FROM people", "SELECT STDDEV(age) FROM people"),
        ("spark", "SELECT percentile(age, 0.5) FROM people", "SELECT QUANTILE_CONT(age, 0.5) FROM people"),
        (
            "postgres",
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM people WHERE job ~ '^c'",
            "SELECT QUANTILE_CONT(age, 0.5) FROM people WHERE regexp_matches(job, '^c')",
        ),
        ("DuckDB", "SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM people"),
    ],
)
def test_a_dialect_is_read_as_the_same_question(dialect: str, text: str, same: str) -> None:
    assert read(text, dialect) == read(same)


def test_a_dialect_that_is_not_read_is_refused_with_the_nearest() -> None:
    with pytest.raises(QuestionRefused, match="'big query' is not a known dialect; did you mean 'bigquery'"):
        sql("SELECT 1", dialect="big query")


def test_quotes_inside_texts_decide_nothing() -> None:
    text = "SELECT COUNT(*) FROM people WHERE job = '`a` [b] TOP' -- [c] `d`"
    assert read(text) == read("SELECT COUNT(*) FROM people WHERE job = '`a` [b] TOP'")


@pytest.mark.parametrize("text", ["SELECT DISTINCT COUNT(*) FROM people GROUP BY job"])
def test_distinct_that_changes_the_answer_is_refused(text: str) -> None:
    with pytest.raises(QuestionRefused, match="DISTINCT is not supported"):
        read(text)
