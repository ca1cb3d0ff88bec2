"""SQL: the same questions as in Python, and everything else refused by its name and place, in one line."""

from __future__ import annotations

from typing import Any

import pytest

import sordino as sd
from sordino import col
from sordino.errors import QuestionRefused, UnknownName
from sordino.queries.aggregation import Aggregation
from sordino.queries.build import Selection, as_aggregation
from sordino.queries.sql import parse_sql, table_of

S = Selection()
COLUMNS = ("age", "occ", "gain", "married", "born", "two words")


def parsed(text: str) -> Aggregation:
    return parse_sql(text, table="adult", columns=COLUMNS)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("SELECT COUNT(*) FROM adult", sd.count()),
        ("select count(*) from ADULT", sd.count()),
        ("SELECT COUNT(1) FROM adult;", sd.count()),
        ("SELECT COUNT(age) AS n FROM adult", sd.count("age").alias("n")),
        ("SELECT SUM(AGE) FROM adult", sd.sum("age")),
        ("SELECT AVG(a.age) FROM adult AS a", sd.mean("age")),
        ("SELECT COUNT(*), AVG(age) FROM adult", [sd.count(), sd.mean("age")]),
        ('SELECT SUM("two words") FROM "adult"', sd.sum("two words")),
        ("SELECT COUNT(*) /* note */ FROM adult -- end", sd.count()),
        ("SELECT SUM(CLIP(age, 0, 90)) FROM adult", sd.sum(col("age").clip(0, 90))),
        ("SELECT SUM(LEAST(age, 90)) FROM adult", sd.sum(col("age").clip(None, 90))),
        ("SELECT SUM(GREATEST(0, age, 5)) FROM adult", sd.sum(col("age").clip(5, None))),
        ("SELECT SUM(-age + 2 * gain - 1.5) FROM adult", sd.sum(-col("age") + 2 * col("gain") - 1.5)),
        ("SELECT SUM(ABS(age)) FROM adult", sd.sum(abs(col("age")))),
        ("SELECT COUNT(*) FROM adult WHERE age > 30", S.where(col("age") > 30).agg(sd.count())),
        ("SELECT COUNT(*) FROM adult WHERE 30 < age", S.where(col("age") > 30).agg(sd.count())),
        ("SELECT COUNT(*) FROM adult WHERE age > -0.5", S.where(col("age") > -0.5).agg(sd.count())),
        (
            "SELECT COUNT(*) FROM adult WHERE occ IN ('a','b') AND NOT age = 3 OR married",
            S.where(col("occ").is_in(["b", "a"]) & ~(col("age") == 3) | col("married")).agg(sd.count()),
        ),
        (
            "SELECT COUNT(*) FROM adult WHERE age BETWEEN 1 AND 9 AND occ IS NOT NULL",
            S.where(col("age").is_between(1, 9) & ~col("occ").is_null()).agg(sd.count()),
        ),
        ("SELECT COUNT(*) FROM adult WHERE occ <> 'it''s'", S.where(col("occ") != "it's").agg(sd.count())),
        ("SELECT COUNT(*) FROM adult WHERE married = TRUE", S.where(col("married") == True).agg(sd.count())),  # noqa: E712
        ("SELECT COUNT(*) FROM adult WHERE born > '2000-01-31'", S.where(col("born") > "2000-01-31").agg(sd.count())),
        ("SELECT occ, COUNT(*) FROM adult GROUP BY occ", S.group_by("occ").agg(sd.count())),
        ("SELECT COUNT(*), occ FROM adult GROUP BY occ", S.group_by("occ").agg(sd.count())),
        ("SELECT occ, COUNT(*) FROM adult GROUP BY 1", S.group_by("occ").agg(sd.count())),
        ("SELECT BIN(age, 10), COUNT(*) FROM adult GROUP BY 1", S.group_by(col("age").bin(width=10)).agg(sd.count())),
        (
            "SELECT BIN(age, [0, 18, 65]), COUNT(*) FROM adult GROUP BY BIN(age, 0, 18, 65)",
            S.group_by(col("age").bin([0, 18, 65])).agg(sd.count()),
        ),
    ],
)
def test_sql_and_python_are_one_question(text: str, question: Any) -> None:
    assert parsed(text).identity() == as_aggregation(question).identity()


def test_aliases_of_groups_and_aggregates() -> None:
    found = parsed("SELECT occ AS job, AVG(age) AS age FROM adult GROUP BY job")
    assert [g.alias for g in found.groups] == ["job"]
    assert [a.alias for a in found.aggregates] == ["age"]
    assert table_of("SELECT COUNT(*) FROM Adult") == "Adult"


C, F = "SELECT COUNT(*) FROM adult ", "SELECT COUNT(*) FROM "
REFUSED = [  # what is written, the name it is refused by, the column it stands at (0: no place)
    (C + "JOIN b ON age = x", "JOIN is not supported", 28),
    (C + "LEFT JOIN b ON age = x", "JOIN is not supported", 33),
    (F + "adult, adult b", "JOIN is not supported", 27),
    (C + "HAVING COUNT(*) > 1", "HAVING is not supported", 28),
    (C + "ORDER BY 1", "ORDER BY is not supported", 28),
    (C + "LIMIT 3", "LIMIT is not supported", 28),
    (C + "OFFSET 3", "OFFSET is not supported", 28),
    (C + "QUALIFY 1", "QUALIFY is not supported", 28),
    (C + "WINDOW w AS (PARTITION BY age)", "WINDOW is not supported", 28),
    (C + "TABLESAMPLE 10%", "SAMPLE is not supported", 22),
    (C + "FOR UPDATE", "FOR is not supported", 28),
    ("WITH a AS (SELECT 1) " + C, "WITH is not supported", 1),
    (C + "UNION " + C, "UNION is not supported", 1),
    (C + "EXCEPT " + C, "EXCEPT is not supported", 1),
    (F + "(SELECT * FROM adult)", "FROM takes the name of a declared table", 30),
    (C + "WHERE age IN (SELECT 1)", "sub-query is not supported", 34),
    (C + "WHERE EXISTS (SELECT 1)", "sub-query is not supported", 49),
    ("SELECT (SELECT 1), COUNT(*) FROM adult", "sub-query is not supported", 16),
    ("SELECT COUNT(*) OVER () FROM adult", "OVER is not supported", 8),
    ("SELECT COUNT(*) FILTER (WHERE age > 1) FROM adult", "FILTER is not supported", 17),
    ("SELECT DISTINCT COUNT(*) FROM adult", "DISTINCT is not supported", 8),
    ("SELECT COUNT(DISTINCT age) FROM adult", r"COUNT\(DISTINCT\) is not supported", 23),
    ("SELECT SUM(DISTINCT age) FROM adult", r"SUM\(DISTINCT\) is not supported", 8),
    ("SELECT MIN(age) FROM adult", "MIN is not supported", 12),
    ("SELECT MAX(age) FROM adult", "MAX is not supported", 12),
    ("SELECT MEDIAN(age) FROM adult", "MEDIAN is not supported", 8),
    ("SELECT COUNT(*) + 1 FROM adult", "COUNT is not supported here", 8),
    ("SELECT SUM(SUM(age)) FROM adult", "SUM is not supported here", 12),
    ("SELECT SUM(CASE WHEN age > 1 THEN 1 END) FROM adult", "CASE is not supported", 12),
    ("SELECT SUM(CAST(age AS INT)) FROM adult", "CAST is not supported", 12),
    ("SELECT SUM(age::INT) FROM adult", "CAST is not supported", 15),
    ("SELECT SUM(age / 2) FROM adult", "division is not supported", 18),
    ("SELECT SUM(random()) FROM adult", "RANDOM is not supported", 12),
    (C + "WHERE pg_sleep(9) = 1", "PG_SLEEP is not supported", 34),
    (C + "WHERE age % 2 = 0", "MOD is not supported", 40),
    (C + "WHERE occ LIKE 'a%'", "LIKE is not supported", 43),
    (C + "WHERE age BETWEEN SYMMETRIC 9 AND 1", "SYMMETRIC is not supported", 46),
    (C + "WHERE age = NULL", "write IS NULL", 40),
    (C + "WHERE age = ?", "PLACEHOLDER is not supported", 40),
    (F + "read_csv('secret.csv')", "FROM takes the name of a declared table", 22),
    (F + "'secret.csv'", "'secret.csv' is not declared", 22),
    (F + "main.adult", "name the declared table alone", 27),
    (F + "adult AS a(occ, age)", "renames columns", 22),
    (C + "WHERE b.age > 1", "not the table asked about", 36),
    (C + "; " + C, "not 2 statements", 0),
    ("DROP TABLE adult", "DROP is not supported", 1),
    ("CREATE TABLE x AS SELECT 1", "CREATE is not supported", 1),
    ("INSERT INTO adult VALUES (1)", "INSERT is not supported", 1),
    ("UPDATE adult SET age = 1", "UPDATE is not supported", 1),
    ("DELETE FROM adult", "DELETE is not supported", 1),
    ("COPY adult TO 'x.csv'", "COPY is not supported", 1),
    ("ATTACH 'x.db'", "ATTACH is not supported", 1),
    ("PRAGMA database_list", "PRAGMA is not supported", 1),
    ("SET x = 1", "SET is not supported", 1),
    ("CALL f()", "CALL is not supported", 1),
    ("EXPLAIN " + C, "EXPLAIN is not supported", 1),
    ("INSTALL httpfs", "INSTALL is not supported", 1),
    ("LOAD httpfs", "LOAD is not supported", 1),
    (C + "GROUP BY ROLLUP(occ)", "ROLLUP is not supported", 44),
    (C + "GROUP BY ALL", "GROUP BY ALL is not supported", 37),
    (C + "GROUP BY 7", "no such column", 37),
    ("SELECT * FROM adult", r"SELECT \* is refused: rows never leave", 8),
    ("SELECT age FROM adult", "SELECT age is refused: it is a value of single rows, and rows never leave", 8),
    ("SELECT age, COUNT(*) FROM adult", "or GROUP BY age", 8),
    ("SELECT occ FROM adult GROUP BY occ", "needs an aggregate", 0),
    ("SELECT COUNT(*)", "names its table", 0),
    ("SELECT FROM WHERE", "not SQL that can be read", 17),
    ("SELECT COUNT(* FROM adult", "not SQL that can be read", 19),
    ("SELECT 'open FROM adult", "unfinished quote", 0),
    (C + "LIMIT 3 -- $$it's$$ E'a\\'b'", "LIMIT is not supported", 28),
    ("", "one SELECT", 0),
    (";;", "one SELECT", 0),
]


@pytest.mark.parametrize(("text", "match", "place"), REFUSED, ids=[t[0][:70] for t in REFUSED])
def test_everything_else_is_refused_by_name_and_place(text: str, match: str, place: int, caplog: Any) -> None:
    with pytest.raises(QuestionRefused, match=match) as refusal:
        parsed(text)
    said = str(refusal.value)
    assert "\n" not in said
    assert len(said) < 400
    assert not caplog.records  # the parser's own warnings would be a second line on the terminal
    if place:
        assert said.startswith(f"line 1, column {place}: "), said


def test_the_place_counts_lines() -> None:
    with pytest.raises(QuestionRefused, match=r"^line 3, column 2: LIMIT"):
        parsed("SELECT COUNT(*)\nFROM adult\n LIMIT 3")


def test_unknown_names_say_what_is_near() -> None:
    with pytest.raises(UnknownName, match=r"line 1, column 12: column 'agee' is not declared.*did you mean 'age'"):
        parsed("SELECT SUM(agee) FROM adult")
    with pytest.raises(UnknownName, match="did you mean 'adult'"):
        parsed("SELECT COUNT(*) FROM adults")


@pytest.mark.parametrize(
    "text", ['SELECT "a\nb" FROM adult', "SELECT 'a\nb' FROM adult", 'SELECT COUNT(*) FROM "a\nb"']
)
def test_messages_stay_one_line_whatever_the_text(text: str) -> None:
    with pytest.raises(QuestionRefused) as refusal:
        parsed(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["x = $$it's$$", "x = E'a\\'b'"])
def test_quotes_of_the_dialect_do_not_break_the_place(text: str) -> None:
    with pytest.raises(QuestionRefused):
        parsed(f"SELECT DISTINCT COUNT(*) FROM adult WHERE occ = {text}")


HUGE = {
    "parentheses": C + "WHERE " + "(" * 10_000 + "age > 1" + ")" * 10_000,
    "nots": C + "WHERE " + "NOT " * 10_000 + "married",
    "minuses": "SELECT SUM(" + "- " * 10_000 + "age) FROM adult",
    "functions": "SELECT SUM(" + "ABS(" * 10_000 + "age" + ")" * 10_000 + ") FROM adult",
    "ands": C + "WHERE " + " AND ".join(["age > 1"] * 9_000),
    "pluses": "SELECT SUM(" + " + ".join(["age"] * 9_000) + ") FROM adult",
    "brackets": C + "WHERE age = " + "[" * 10_000,
    "sub-queries": F + "(SELECT * FROM " * 2_000,
    "too long": C + " " * 100_001,
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_huge_questions_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(QuestionRefused) as refusal:
        parsed(text)
    assert len(str(refusal.value)) < 400
    assert "\n" not in str(refusal.value)


def test_a_long_list_is_fine() -> None:
    found = parsed(C + "WHERE age IN (" + ", ".join(map(str, range(10_000))) + ")")
    assert len(found.identity()) > 10_000
