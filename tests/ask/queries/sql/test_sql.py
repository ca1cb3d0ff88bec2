"""SQL: the same questions as in Python, and everything else refused by its name and place, in one line."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st
from sqlglot import Dialect

import sordino as sd
from sordino import col
from sordino.ask.queries.aggregates.quantile import quantile
from sordino.ask.queries.aggregation import Aggregation, Grouping
from sordino.ask.queries.build import (
    Selection,
    as_aggregation,
    correlation,
    count_distinct,
    covariance,
    std,
    variance,
)
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Apply, TextFunction
from sordino.ask.queries.sql.parse import SqlText, parse_sql
from sordino.ask.queries.sql.text import split_statements
from sordino.errors import QuestionRefused, UnknownName
from trying import examples

S = Selection()
AND = S.where((col("age") > 3) & (col("gain") < 9))
COLUMNS = ("age", "occ", "gain", "married", "born", "two words")


def _whole(name: str) -> Expr:
    """Return a column cast to whole numbers."""
    return Expr(Apply("to_whole", TextFunction("number", col(name).node)))


def parse(text: str) -> Aggregation:
    return parse_sql(text, table="adult", columns=COLUMNS)


@pytest.mark.each(3)
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
        ("SELECT SUM(age / 2) FROM adult", sd.sum(col("age") / 2)),
        ("SELECT SUM(ROUND(age / 3, 1)) FROM adult", sd.sum((col("age") / 3).round(1))),
        ("SELECT SUM(age // 10) FROM adult", sd.sum((col("age") / 10).truncate())),
        ("SELECT SUM(FLOOR(age)), SUM(gain::INT) FROM adult", [sd.sum(col("age").floor()), sd.sum(_whole("gain"))]),
        ("SELECT SUM(POWER(age, 2)) FROM adult", sd.sum(col("age") ** 2)),
        ("SELECT SUM(LN(age)) FROM adult", sd.sum(col("age").ln())),
        ("SELECT COUNT(*) FROM adult WHERE occ LIKE 'a%'", S.where(col("occ").like("a%")).agg(sd.count())),
        ("SELECT COUNT(*) FROM adult WHERE occ NOT ILIKE 'a%'", S.where(~col("occ").ilike("a%")).agg(sd.count())),
        ("SELECT COUNT(*) FROM adult WHERE UPPER(occ) = 'A'", S.where(col("occ").upper() == "A").agg(sd.count())),
        (
            "SELECT COUNT(*) FROM adult WHERE SUBSTR(occ, 1, 2) = 'a'",
            S.where(col("occ").substr(1, 2) == "a").agg(sd.count()),
        ),
        ("SELECT occ || '-', COUNT(*) FROM adult GROUP BY 1", S.group_by(col("occ").concat("-")).agg(sd.count())),
        ("SELECT SUM(NULLIF(age, 0)) FROM adult", sd.sum(when(col("age") != 0, col("age")).otherwise(None))),
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
        ("SELECT COUNT(DISTINCT occ) FROM adult", count_distinct("occ")),
        ("SELECT VAR_POP(age), VAR_SAMP(gain) FROM adult", [variance("age"), variance("gain", ddof=1)]),
        ("SELECT STDDEV_POP(age), STDDEV(gain) FROM adult", [std("age"), std("gain", ddof=1)]),
        (
            "SELECT CORR(age, gain), COVAR_POP(age, gain) FROM adult",
            [correlation("age", "gain"), covariance("age", "gain")],
        ),
        ("SELECT COVAR_SAMP(age, gain) FROM adult", covariance("age", "gain", ddof=1)),
        ("SELECT MEDIAN(age) FROM adult", sd.median("age")),
        ("SELECT QUANTILE_CONT(age, 0.9) FROM adult", quantile("age", 0.9)),
        ("SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age) FROM adult", quantile("age", 0.9)),
        ("SELECT SUM(YEAR(born)) FROM adult", sd.sum(col("born").year())),
        ("SELECT SUM(EXTRACT(DOW FROM born)) FROM adult", sd.sum(col("born").day_of_week())),
        ("SELECT SUM(DATE_PART('month', born)) FROM adult", sd.sum(col("born").month())),
        (
            "SELECT SUM(CASE WHEN age > 30 THEN 1 WHEN married THEN gain END) FROM adult",
            sd.sum(when(col("age") > 30, 1).when(col("married"), col("gain")).otherwise(None)),
        ),
        ("SELECT SUM(CASE occ WHEN 'a' THEN 1 ELSE 0 END) FROM adult", sd.sum(when(col("occ") == "a", 1).otherwise(0))),
        ("SELECT SUM(COALESCE(age, 0)) FROM adult", sd.sum(when(col("age").is_null(), 0).otherwise(col("age")))),
        (
            "SELECT CASE WHEN age < 18 THEN 'minor' ELSE 'adult' END AS band, COUNT(*) FROM adult GROUP BY band",
            replace(
                S.group_by(when(col("age") < 18, "minor").otherwise("adult")).agg(sd.count()),
                groups=(Grouping("band", when(col("age") < 18, "minor").otherwise("adult").node),),
            ),
        ),
        (
            "SELECT occ, COUNT(*) AS n FROM adult GROUP BY occ HAVING n > 30 ORDER BY COUNT(*) DESC, 1 LIMIT 5",
            S.group_by("occ").agg(sd.count().alias("n")).having(col("n") > 30).order_by(-col("n"), "occ").limit(5),
        ),
        ("SELECT COUNT(*) FROM (SELECT * FROM adult WHERE age > 3) WHERE gain < 9", AND.agg(sd.count())),
        (
            "SELECT COUNT(*) FROM (SELECT age AS a, gain FROM adult WHERE age > 3) AS s WHERE s.gain < 9",
            AND.agg(sd.count()),
        ),
        (
            "WITH w AS (SELECT *, age * 2 AS twice FROM adult), v AS (SELECT * FROM w WHERE age > 3) "
            "SELECT SUM(twice) FROM v WHERE gain < 9",
            AND.agg(sd.sum(col("age") * 2)),
        ),
        (
            "WITH adult AS (SELECT * FROM adult WHERE age > 3) SELECT COUNT(*) FROM adult a WHERE a.gain < 9",
            AND.agg(sd.count()),
        ),
    ],
)
def test_sql_and_python_are_one_question(text: str, question: Any) -> None:
    assert parse(text).identity() == as_aggregation(question).identity()


def test_aliases_of_groups_and_aggregates() -> None:
    found = parse("SELECT occ AS job, AVG(age) AS age FROM adult GROUP BY job")
    assert [g.alias for g in found.groups] == ["job"]
    assert [a.alias for a in found.aggregates] == ["age"]
    assert SqlText("SELECT COUNT(*) FROM Adult").parse().table == "Adult"


def test_names_that_a_sub_query_gives() -> None:
    found = parse("SELECT job, SUM(x) AS s FROM (SELECT occ AS job, age + 1 AS x FROM adult) GROUP BY job")
    assert [g.alias for g in found.groups] == ["job"]
    assert found.identity().count('"occ"') == 1
    assert SqlText("WITH w AS (SELECT * FROM Adult) SELECT COUNT(*) FROM (SELECT * FROM w)").parse().table == "Adult"
    with pytest.raises(UnknownName, match="column 'age' is not declared"):
        parse("SELECT SUM(age) FROM (SELECT gain FROM adult)")
    with pytest.raises(UnknownName, match="table 'secret' is not declared"):
        parse("WITH adult AS (SELECT * FROM secret) SELECT COUNT(*) FROM adult")


def test_a_sample_is_a_share_of_the_units() -> None:
    found = parse("SELECT COUNT(*) FROM adult TABLESAMPLE BERNOULLI (12.5 PERCENT) WHERE age > 1")
    assert found.sample == Fraction(1, 8)
    assert "a sample of 12.5%" in found.describe()
    assert found.identity() != parse("SELECT COUNT(*) FROM adult WHERE age > 1").identity()


C, F = "SELECT COUNT(*) FROM adult ", "SELECT COUNT(*) FROM "
REFUSED = [  # what is written, the name it is refused by, the column it stands at (0: no place)
    (C + "JOIN b ON age = x", "JOIN with 'b' is not supported", 33),
    (C + "LEFT JOIN b ON age = x", "JOIN with 'b' is not supported", 38),
    (F + "adult, adult b", "JOIN without a condition is not supported", 27),
    (C + "HAVING age > 1", "age is not a column of the answer", 35),
    (C + "ORDER BY 2", "ORDER BY 2: there is no such column", 37),
    (C + "ORDER BY 1 NULLS FIRST", "NULLS FIRST is not supported", 39),
    (C + "LIMIT 3 PERCENT", "LIMIT takes a number of rows", 28),
    (C + "LIMIT age", "LIMIT takes a number of rows", 28),
    (C + "QUALIFY 3 = 3", "QUALIFY is not supported", 28),
    (C + "QUALIFY 1", "QUALIFY is not supported", 28),
    (C + "WINDOW w AS (PARTITION BY age)", "WINDOW is not supported", 28),
    (C + "TABLESAMPLE 10%", "SAMPLE is not supported like this", 28),
    (C + "TABLESAMPLE BERNOULLI (0 PERCENT)", "above 0", 28),
    (C + "TABLESAMPLE BERNOULLI (10 ROWS)", "SAMPLE is not supported like this", 28),
    (C + "USING SAMPLE 10%", "SAMPLE is not supported", 34),
    (C + "FOR UPDATE", "FOR is not supported", 28),
    ("WITH a AS (SELECT 1) " + C, "names its table", 0),
    ("WITH RECURSIVE a AS (SELECT * FROM adult) " + C, "WITH RECURSIVE is not supported", 6),
    ("WITH a AS MATERIALIZED (SELECT * FROM adult) SELECT COUNT(*) FROM a", "MATERIALIZED is not supported", 11),
    (
        "WITH a AS (SELECT * FROM adult), a AS (SELECT * FROM adult) SELECT COUNT(*) FROM a",
        "gives two queries the same name",
        1,
    ),
    (C + "UNION " + C, "UNION is not supported", 1),
    (C + "EXCEPT " + C, "EXCEPT is not supported", 1),
    (F + "(SELECT * FROM adult LIMIT 3)", "LIMIT is not supported inside a sub-query", 43),
    (F + "(SELECT * FROM adult ORDER BY age)", "ORDER BY is not supported inside a sub-query", 43),
    (F + "(SELECT COUNT(*) AS n FROM adult)", "add GROUP BY and the privacy unit", 30),
    (F + "(SELECT age + 1 FROM adult)", "needs a name", 36),
    (F + "(SELECT age, age FROM adult)", "two columns named 'age'", 35),
    (F + "(SELECT * FROM adult UNION SELECT * FROM adult)", "UNION is not supported in a sub-query", 43),
    (F + "(SELECT * FROM adult JOIN b ON age = x)", "JOIN with 'b' is not supported", 48),
    (F + "(SELECT * FROM adult) AS s(a, b)", "renames columns", 0),
    (F + "(VALUES (1))", "nothing else", 0),
    (C + "WHERE age IN (SELECT 1)", "sub-query is not supported", 34),
    (C + "WHERE EXISTS (SELECT 1)", "sub-query is not supported", 34),
    ("SELECT (SELECT 1), COUNT(*) FROM adult", "sub-query of rows is not supported", 16),
    ("SELECT COUNT(*) OVER () FROM adult", "a window over rows of persons", 8),
    ("SELECT DISTINCT COUNT(*) FROM adult", "DISTINCT is not supported", 8),
    ("SELECT QUANTILE_CONT(DISTINCT age, 0.5) FROM adult", r"\(DISTINCT", 36),
    ("SELECT MIN(age) FROM adult", "MIN is not supported", 12),
    ("SELECT MAX(age) FROM adult", "MAX is not supported", 12),
    ("SELECT MODE(age) FROM adult", "MODE is not supported", 0),
    ("SELECT MEDIAN(DISTINCT age) FROM adult", r"MEDIAN\(DISTINCT\) is not supported", 8),
    ("SELECT QUANTILE_CONT(age, gain) FROM adult", "a number is needed", 27),
    ("SELECT SUM(SUM(age)) FROM adult", "SUM is not supported here", 12),
    ("SELECT SUM(EXTRACT(MILLENNIUM FROM born)) FROM adult", r"EXTRACT\(MILLENNIUM\) is not supported", 12),
    ("SELECT SUM(random()) FROM adult", "RANDOM is not supported", 12),
    (C + "WHERE pg_sleep(9) = 1", "PG_SLEEP is not supported", 34),
    (C + "WHERE age = NULL", "write IS NULL", 40),
    (C + "WHERE age = ?", "PLACEHOLDER is not supported", 40),
    (F + "read_csv('secret.csv')", "FROM takes the name of a declared table", 22),
    (F + "'secret.csv'", "'secret.csv' is not declared", 22),
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
    (C + "GROUP BY 7", "no such column", 37),
    ("SELECT * FROM adult", r"SELECT \* is refused: rows are never released", 8),
    ("SELECT age FROM adult", "SELECT age is refused: it is a value of a single row, and rows are never released", 8),
    ("SELECT age, COUNT(*) FROM adult", "or GROUP BY age", 8),
    ("SELECT COUNT(*)", "names its table", 0),
    ("SELECT FROM WHERE", "this SQL cannot be parsed", 17),
    ("SELECT COUNT(* FROM adult", "this SQL cannot be parsed", 19),
    ("SELECT 'open FROM adult", "a quote is not closed", 0),
    (C + "QUALIFY 3 = 3 -- $$it's$$ E'a\\'b'", "QUALIFY is not supported", 28),
    ("", "one SELECT", 0),
    (";;", "one SELECT", 0),
]


@pytest.mark.parametrize(("text", "match", "place"), REFUSED, ids=[t[0][:70] for t in REFUSED])
def test_everything_else_is_refused_by_name_and_place(text: str, match: str, place: int, caplog: Any) -> None:
    with pytest.raises(QuestionRefused, match=match) as refusal:
        parse(text)
    said = str(refusal.value)
    assert "\n" not in said
    assert len(said) < 400
    assert not caplog.records  # the parser's own warnings would be a second line on the terminal
    if place:
        assert said.startswith(f"line 1, column {place}: "), said


def test_the_place_counts_lines() -> None:
    with pytest.raises(QuestionRefused, match=r"^line 3, column 2: QUALIFY"):
        parse("SELECT COUNT(*)\nFROM adult\n QUALIFY 3 = 3")


def test_unknown_names_say_what_is_near() -> None:
    with pytest.raises(UnknownName, match=r"line 1, column 12: column 'agee' is not declared.*did you mean 'age'"):
        parse("SELECT SUM(agee) FROM adult")
    with pytest.raises(UnknownName, match="did you mean 'adult'"):
        parse("SELECT COUNT(*) FROM adults")


@pytest.mark.parametrize(
    "text",
    ['SELECT "a\nb" FROM adult', "SELECT 'a\nb' FROM adult", 'SELECT COUNT(*) FROM "a\nb"', '" "', "' '", '" \t"'],
)
def test_messages_stay_one_line_whatever_the_text(text: str) -> None:
    with pytest.raises(QuestionRefused) as refusal:
        parse(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["x = $$it's$$", "x = E'a\\'b'"])
def test_quotes_of_the_dialect_do_not_break_the_place(text: str) -> None:
    with pytest.raises(QuestionRefused):
        parse(f"SELECT DISTINCT COUNT(*) FROM adult WHERE occ = {text}")


HUGE = {
    "parentheses": C + "WHERE " + "(" * 10_000 + "age > 1" + ")" * 10_000,
    "nots": C + "WHERE " + "NOT " * 10_000 + "married",
    "minuses": "SELECT SUM(" + "- " * 10_000 + "age) FROM adult",
    "functions": "SELECT SUM(" + "ABS(" * 10_000 + "age" + ")" * 10_000 + ") FROM adult",
    "ands": C + "WHERE " + " AND ".join(["age > 1"] * 9_000),
    "pluses": "SELECT SUM(" + " + ".join(["age"] * 9_000) + ") FROM adult",
    "brackets": C + "WHERE age = " + "[" * 10_000,
    "sub-queries": F + "(SELECT * FROM " * 2_000,
    "doubled": "WITH a0 AS (SELECT age + age AS x FROM adult)"
    + "".join(f", a{i} AS (SELECT x + x AS x FROM a{i - 1})" for i in range(1, 60))
    + " SELECT SUM(x) FROM a59",
    "cases": "SELECT SUM(" + "CASE WHEN age > 1 THEN 1 ELSE " * 300 + "1" + " END" * 300 + ") FROM adult",
    "a long name": C + "WHERE " + "a" * 90_000 + " > 1",
    "a long table": "SELECT COUNT(*) FROM " + "a" * 90_000,
    "a long function": "SELECT " + "f" * 90_000 + "(age) FROM adult",
    "too long": C + " " * 100_001,
}


@pytest.mark.deep
@pytest.mark.attack("exhaust the reader of questions")
@pytest.mark.each(11)
@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_huge_questions_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(QuestionRefused) as refusal:
        parse(text)
    assert len(str(refusal.value)) < 400
    assert "\n" not in str(refusal.value)


@pytest.mark.deep
def test_a_long_list_is_fine() -> None:
    found = parse(C + "WHERE age IN (" + ", ".join(map(str, range(3_000))) + ")")
    assert len(found.identity()) > 10_000


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1;"]),
        (" ;; SELECT 1; /* a; b */ ; SELECT ';' -- c;", ["SELECT 1", "SELECT ';' -- c;"]),
        ('SELECT "a;b"; SELECT `c;d`', ['SELECT "a;b"', "SELECT `c;d`"]),
        ("SELECT 'never closed; SELECT 2", ["SELECT 'never closed; SELECT 2"]),
    ],
)
def test_a_text_is_cut_into_its_statements(text: str, parts: list[str]) -> None:
    found = sd.sql(text).statements()
    assert [one.text.strip() for one in found] == parts
    assert sum(len(one.text) for one in found) <= len(text)
    assert all(text[one.start[1] :].startswith(one.text) for one in found)


@examples(
    20, 100, st.lists(st.sampled_from(["SELECT 1", "\n", " ", "SELECT\n", ";", "'a;\n'", "-- c;\n", "/* ;\n */", "é"]))
)
def test_a_statement_begins_where_it_stands_in_the_whole_text(parts: list[str]) -> None:
    text = "".join(parts) or ";"
    lines = text.split("\n")
    for one in split_statements(text):
        line, column = one[1]
        assert "\n".join([lines[line][column:], *lines[line + 1 :]]).startswith(one[0])


@pytest.mark.deep
def test_each_character_of_a_batch_is_lexed_a_few_times_however_many_statements_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lexed = list[int]()
    tokenize = Dialect.tokenize

    def count(self: Dialect, text: str) -> Any:
        lexed.append(len(text))
        return tokenize(self, text)

    monkeypatch.setattr(Dialect, "tokenize", count)
    for statements in (10, 50):
        lexed.clear()
        text = ";\n".join(f"SELECT COUNT(*) FROM t WHERE x = {statements + i}" for i in range(statements))
        for one in sd.sql(text).statements():
            one.parse(["x"])
        assert sum(lexed) < 6 * len(text)


def test_an_error_of_a_later_statement_names_its_place_in_the_whole_text() -> None:
    *_, last = sd.sql("SELECT COUNT(*) FROM t;\nSELECT 1; SELECT COUNT( FROM t").statements()
    with pytest.raises(QuestionRefused, match="line 2, column "):
        last.parse()
    *_, last = sd.sql("SELECT COUNT(*) FROM t;\nSELECT 1; DELETE FROM t").statements()
    with pytest.raises(QuestionRefused, match="line 2, column 11: DELETE"):
        last.parse()
