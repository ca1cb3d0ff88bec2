"""Other ways to write the same question: each is read as the question that is written in our own way."""

from __future__ import annotations

import pytest

from sordino.ask.queries.sql.parse import parse_question, sql
from sordino.errors import QuestionRefused

COLUMNS = ("age", "job", "state")
PUBLIC = {"regions": ("state", "zone")}


def read(text: str, dialect: str | None = None) -> object:
    return parse_question(sql(text, dialect=dialect), table="people", columns=COLUMNS, public=PUBLIC)


JOINED = "SELECT zone, COUNT(*) AS n FROM people JOIN regions ON people.state = regions.state GROUP BY zone"


@pytest.mark.each(3)
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
        *(
            (f"SELECT COUNT(*) FROM people WHERE {a}", f"SELECT COUNT(*) FROM people WHERE {b}")
            for a, b in (
                ("job = ANY(ARRAY['a', 'b'])", "job IN ('a', 'b')"),
                ("job = ANY(['a'])", "job IN ('a')"),
                ("NOT (age = ANY((ARRAY[1, -2.5])))", "age NOT IN (1, -2.5)"),
                ("job = SOME(ARRAY['a'])", "job IN ('a')"),
                ("job = ANY(ARRAY['a', 'b']::text[])", "job IN ('a', 'b')"),
                ("job = ANY(ARRAY['a'::varchar, 'b'])", "job IN ('a', 'b')"),
                ("job <> ALL(ARRAY['a', 'b'])", "job NOT IN ('a', 'b')"),
            )
        ),
        (
            "SELECT COUNT(*) FILTER (WHERE job = ANY(ARRAY['a', 'b'])) AS n FROM people",
            "SELECT COUNT(*) FILTER (WHERE job IN ('a', 'b')) AS n FROM people",
        ),
        (
            "SELECT COUNT(*) FILTER (WHERE WIDTH_BUCKET(age, 0, 90, 9) > 3) AS n FROM people",
            "SELECT COUNT(CASE WHEN WIDTH_BUCKET(age, 0, 90, 9) > 3 THEN 1 END) AS n FROM people",
        ),
        (
            "SELECT SUM(NVL2(job, age, 0)) AS s FROM people",
            "SELECT SUM(CASE WHEN job IS NOT NULL THEN age ELSE 0 END) AS s FROM people",
        ),
        ("SELECT VAR(age) AS v FROM people", "SELECT VAR_SAMP(age) AS v FROM people"),
        ("SELECT STD(age) AS s FROM people", "SELECT STDDEV(age) AS s FROM people"),
        ("SELECT STDEV(age) AS s FROM people", "SELECT STDDEV_SAMP(age) AS s FROM people"),
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
        ("spark", "SELECT percentile(age, 0.5) AS q FROM people", "SELECT QUANTILE_CONT(age, 0.5) AS q FROM people"),
        (
            "postgres",
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) AS q FROM people WHERE job ~ '^c'",
            "SELECT QUANTILE_CONT(age, 0.5) AS q FROM people WHERE regexp_matches(job, '^c')",
        ),
        (
            "snowflake",
            "SELECT SUM(DECODE(job, 'a', 1, NULL, 2, 0)) AS s FROM people",
            "SELECT SUM(CASE WHEN job = 'a' THEN 1 WHEN job IS NULL THEN 2 ELSE 0 END) AS s FROM people",
        ),
        *(
            (
                dialect,
                f"SELECT COUNT(*) FROM people WHERE {condition}",
                f"SELECT COUNT(*) FROM people WHERE {same}",
            )
            for dialect, condition, same in (
                ("snowflake", "job LIKE ANY ('a%', 'b%') AND age > 3", "(job LIKE 'a%' OR job LIKE 'b%') AND age > 3"),
                ("bigquery", "NOT (job LIKE ANY ('a%', 'b%'))", "NOT (job LIKE 'a%' OR job LIKE 'b%')"),
                ("spark", "job NOT LIKE ALL ('a%', 'b%')", "job NOT LIKE 'a%' AND job NOT LIKE 'b%'"),
                ("snowflake", "job ILIKE ANY ('a%')", "job ILIKE 'a%'"),
                ("postgres", "job ILIKE ANY(ARRAY['a%', 'b%']::text[])", "job ILIKE 'a%' OR job ILIKE 'b%'"),
                ("postgres", "job ~~ ALL(ARRAY['a%', '%b'])", "job LIKE 'a%' AND job LIKE '%b'"),
                ("spark", "isnull(job) OR isnotnull(age)", "job IS NULL OR age IS NOT NULL"),
                ("spark", "NOT isnull(job)", "job IS NOT NULL"),
            )
        ),
        (
            "redshift",
            "SELECT SUM(DECODE(job, state, 1)) AS s FROM people",
            "SELECT SUM(CASE WHEN job IS NOT DISTINCT FROM state THEN 1 END) AS s FROM people",
        ),
        (
            "postgres",
            "SELECT COUNT(*) FROM people WHERE job ~* '^c' AND job !~* 'k$'",
            "SELECT COUNT(*) FROM people WHERE regexp_matches(job, '(?i)^c') AND NOT regexp_matches(job, '(?i)k$')",
        ),
        ("DuckDB", "SELECT COUNT(*) FROM people", "SELECT COUNT(*) FROM people"),
    ],
)
def test_a_dialect_is_read_as_the_same_question(dialect: str, text: str, same: str) -> None:
    assert read(text, dialect) == read(same)


def test_a_dialect_that_is_not_read_is_refused_with_the_nearest() -> None:
    with pytest.raises(QuestionRefused, match="'big query' is not a known dialect; did you mean 'bigquery'"):
        sql("SELECT 1", dialect="big query")


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (
            "job = ANY('{a,{b}}')",
            r"line 1, column 41: ANY takes a list of constants: x = ANY\(ARRAY\['a', 'b'\]\), x IN",
        ),
        ("age > ANY(ARRAY[1, 2])", "join other comparisons by OR"),
        ("job <> ANY(ARRAY['a'])", "join other comparisons by OR"),
        ("job = ALL(ARRAY['a'])", r"x <> ALL\(ARRAY\['a', 'b'\]\), x NOT IN .* by AND"),
        ("job LIKE ANY(ARRAY['a%', NULL])", "join other comparisons by OR"),
        ("job NOT LIKE ANY(ARRAY['a%', 'b%'])", r"dialects differ: .* write NOT \(x LIKE ANY"),
        ("job LIKE ANY(ARRAY['a$%']) ESCAPE '$'", "ESCAPE is not supported with a list of patterns"),
        ("job LIKE ANY('{a%}')", "join other comparisons by OR"),
        ("job = ANY(ARRAY['abc']::varchar(2)[])", "ANY takes a list of constants"),  # which cuts the text
        ("age = ANY(ARRAY['1']::int[])", "ANY takes a list of constants"),
        ("job = ANY(ARRAY[NULL, 'a'])", "write IS NULL"),
        ("job = ANY(ARRAY(SELECT x FROM other))", "a sub-query of rows is not supported here"),
        ("'a' = ANY(job)", r"read a list column by FROM table, UNNEST\(column\)"),
        ("job = ANY($1)", "write the value itself"),
    ],
)
def test_a_quantifier_without_a_plain_list_is_refused_with_what_is_read(condition: str, says: str) -> None:
    with pytest.raises(QuestionRefused, match=says):
        read(f"SELECT COUNT(*) FROM people WHERE {condition}", "postgres")


@pytest.mark.parametrize("word", ["ANY", "ALL"])
def test_not_like_of_a_list_is_refused_in_snowflake_too(word: str) -> None:
    with pytest.raises(QuestionRefused, match="dialects differ"):
        read(f"SELECT COUNT(*) FROM people WHERE job NOT LIKE {word} ('a%', 'b%')", "snowflake")


def test_quotes_inside_texts_decide_nothing() -> None:
    text = "SELECT COUNT(*) FROM people WHERE job = '`a` [b] TOP' -- [c] `d`"
    assert read(text) == read("SELECT COUNT(*) FROM people WHERE job = '`a` [b] TOP'")


@pytest.mark.parametrize("text", ["SELECT DISTINCT COUNT(*) FROM people GROUP BY job"])
def test_distinct_that_changes_the_answer_is_refused(text: str) -> None:
    with pytest.raises(QuestionRefused, match="DISTINCT is not supported"):
        read(text)
