"""Words that dialects mean otherwise: each is read as what it means there, in the words of DuckDB, or refused."""

from __future__ import annotations

import pytest

from sordino.ask.queries.sql.parse import parse_question, sql
from sordino.errors import QuestionRefused

DAY = "DAYOFWEEK(joined)"
ISO = "EXTRACT(WEEK FROM joined)"
CUT = "TRUNC(CAST(x AS DOUBLE))"
BETWEEN = "DATEDIFF('day', joined, left_on)"


def read(value: str, dialect: str) -> object:
    text = f"SELECT SUM({value}) AS s FROM people"
    return parse_question(sql(text, dialect=dialect), table="people", columns=("joined", "left_on", "seen", "x", "job"))


@pytest.mark.each(11)
@pytest.mark.parametrize(
    ("dialect", "value", "meaning"),
    [
        *((d, DAY, f"{DAY} + 1") for d in ("bigquery", "mysql", "spark")),
        *((d, DAY, DAY) for d in ("snowflake", "duckdb")),
        ("postgres", "EXTRACT(DOW FROM joined)", DAY),
        ("redshift", "DATE_PART(dow, joined)", DAY),
        ("bigquery", "EXTRACT(DAYOFWEEK FROM joined)", f"{DAY} + 1"),
        ("spark", "EXTRACT(DOW FROM joined)", f"{DAY} + 1"),
        ("spark", "date_part('dow', joined)", f"{DAY} + 1"),
        ("tsql", "DATEPART(weekday, joined)", f"{DAY} + 1"),
        ("tsql", "DATEPART(dw, joined)", f"{DAY} + 1"),
        ("trino", "EXTRACT(DOW FROM joined)", "ISODOW(joined)"),
        ("mysql", "WEEKDAY(joined)", "ISODOW(joined) - 1"),
        ("spark", "weekday(joined)", "ISODOW(joined) - 1"),
        ("duckdb", "WEEKDAY(joined)", DAY),
        ("bigquery", "EXTRACT(ISOWEEK FROM joined)", ISO),
        ("mysql", "WEEK(joined, 3)", ISO),
        ("mysql", "WEEKOFYEAR(joined)", ISO),
        ("mysql", "YEARWEEK(joined, 3)", "YEARWEEK(joined)"),
        ("tsql", "DATEPART(iso_week, joined)", ISO),
        ("spark", "weekofyear(joined)", ISO),
        ("bigquery", "LENGTH(DATE_TRUNC(joined, WEEK(MONDAY)))", "LENGTH(DATE_TRUNC('week', joined))"),
        ("mysql", "DATEDIFF(left_on, joined)", BETWEEN),
        ("spark", "DATEDIFF(left_on, joined)", BETWEEN),
        ("bigquery", "DATE_DIFF(left_on, joined, DAY)", BETWEEN),
        ("trino", "DATE_DIFF('day', joined, left_on)", BETWEEN),
        ("snowflake", "DATEDIFF(month, joined, left_on)", "DATEDIFF('month', joined, left_on)"),
        ("snowflake", "DATEDIFF(week, joined, left_on)", "DATEDIFF('isoweek', joined, left_on)"),
        ("redshift", "DATEDIFF(week, joined, left_on)", "DATEDIFF('isoweek', joined, left_on)"),
        ("bigquery", "DATE_DIFF(left_on, joined, WEEK(MONDAY))", "DATEDIFF('isoweek', joined, left_on)"),
        ("bigquery", "DATE_DIFF(left_on, joined, ISOWEEK)", "DATEDIFF('isoweek', joined, left_on)"),
        ("duckdb", "DATE_DIFF('weeks', joined, left_on)", "TRUNC(DATEDIFF('day', joined, left_on) / 7)"),
        ("bigquery", "DATE_DIFF(left_on, joined, MONTH)", "DATEDIFF('month', joined, left_on)"),
        ("snowflake", "LENGTH(DAYNAME(joined))", "LENGTH(STRFTIME(joined, '%a'))"),
        ("spark", "LENGTH(monthname(joined))", "LENGTH(STRFTIME(joined, '%b'))"),
        ("mysql", "CHAR_LENGTH(DAYNAME(joined))", "LENGTH(DAYNAME(joined))"),
        *((d, "CAST(x AS INT)", CUT) for d in ("spark", "tsql", "sqlite")),
        *((d, "CAST(x AS INT)", "CAST(x AS INT)") for d in ("postgres", "trino", "snowflake")),
        ("tsql", "CONVERT(INT, x)", CUT),
        ("spark", "x::INT", CUT),
        ("spark", "CAST(DAYOFWEEK(joined) / 2 AS INT)", f"TRUNC(CAST(({DAY} + 1) / 2 AS DOUBLE))"),
        ("tsql", "ROUND(x, 0, 1)", "TRUNC(x)"),
        ("tsql", "ROUND(x, 1)", "ROUND(x, 1)"),
        ("tsql", "LEN(job)", "LENGTH(RTRIM(CAST(job AS TEXT)))"),
        ("mysql", "CHAR_LENGTH(job)", "LENGTH(job)"),
        ("bigquery", "LENGTH(job)", "LENGTH(job)"),
        ("snowflake", "IFF(REGEXP_LIKE(job, 'n.*'), 1, 0)", "IF(REGEXP_MATCHES(job, '^(?:n.*)$'), 1, 0)"),
        ("snowflake", "IFF(job RLIKE 'n', 1, 0)", "IF(REGEXP_MATCHES(job, '^(?:n)$'), 1, 0)"),
        ("spark", "IF(job RLIKE 'n', 1, 0)", "IF(REGEXP_MATCHES(job, 'n'), 1, 0)"),
        ("snowflake", "IFF(EQUAL_NULL(job, 'n'), 1, 0)", "IF(job IS NOT DISTINCT FROM 'n', 1, 0)"),
        ("spark", "DAY(add_months(joined, 2))", "DAY(DATE_ADD(joined, INTERVAL 2 MONTH))"),
        ("sqlite", "IIF(job LIKE 'n%', 1, 0)", "IF(job ILIKE 'n%', 1, 0)"),
        ("mysql", "IF(job LIKE 'n%', 1, 0)", "IF(job LIKE 'n%', 1, 0)"),
        ("mysql", "IF(job REGEXP 'n', 1, 0)", "IF(REGEXP_MATCHES(job, 'n'), 1, 0)"),
    ],
)
def test_a_word_is_read_as_the_dialect_means_it(dialect: str, value: str, meaning: str) -> None:
    assert read(value, dialect) == read(meaning, "duckdb")


@pytest.mark.parametrize(
    ("dialect", "value", "says"),
    [
        ("mysql", "WEEK(joined)", r"write WEEK\(x, 3\)"),
        ("mysql", "WEEK(joined, 0)", r"write WEEK\(x, 3\)"),
        ("mysql", "YEARWEEK(joined)", r"write YEARWEEK\(x, 3\)"),
        ("bigquery", "EXTRACT(WEEK FROM joined)", "write ISOWEEK"),
        ("bigquery", "DATE_DIFF(left_on, joined, WEEK)", "write ISOWEEK"),
        ("bigquery", "LENGTH(DATE_TRUNC(joined, WEEK))", "write ISOWEEK"),
        ("tsql", "DATEPART(week, joined)", "write ISO_WEEK"),
        ("tsql", "DATEDIFF(week, joined, left_on)", "begins on Sunday"),
        ("mysql", "TIMESTAMPDIFF(MONTH, joined, left_on)", "those that have passed whole"),
        ("mysql", "TIMESTAMPDIFF(DAY, joined, left_on)", "count days, by DATEDIFF"),
        ("spark", "DATEDIFF(MONTH, joined, left_on)", "those that have passed whole"),
        ("trino", "DATE_DIFF('month', joined, left_on)", "those that have passed whole"),
        ("bigquery", "TIMESTAMP_DIFF(left_on, seen, HOUR)", "those that have passed whole"),
        ("mysql", "LENGTH(job)", "write CHAR_LENGTH"),
        ("tsql", "ROUND(x, 2, 1)", "cuts digits off"),
        ("tsql", "IIF(job LIKE '[nN]%', 1, 0)", r"LIKE with \[\.\.\.\]"),
    ],
)
def test_a_word_without_its_meaning_here_is_refused(dialect: str, value: str, says: str) -> None:
    with pytest.raises(QuestionRefused, match=says):
        read(value, dialect)
