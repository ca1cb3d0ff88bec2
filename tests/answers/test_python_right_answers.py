"""Questions in Python say what plain SQL says: one of each thing that is asked in another way than in SQL."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

import sordino as sd
from answers.plain_answers import compare
from answers.plain_pieces import KEYS, START, YES_NO, Key
from answers.plain_questions import Output, Question
from answers.town_tables import JOBS, Plain, open_tables
from sordino import col
from sordino.ask.queries.build import Selection

S = Selection()
BY = {key.text: key for key in KEYS}
COUNT = Output("", "COUNT(*)", "count")
MONTHS = tuple(f"{2019 + (11 + i) // 12}-{1 + (11 + i) % 12:02}" for i in range(15))
FIRSTS = """(SELECT "Person Id", BOOL_OR(age > 60) AS old,
    (array_agg(level ORDER BY joined, level) FILTER (WHERE joined IS NOT NULL))[1] AS f FROM people GROUP BY "Person Id") AS t"""
VISITED = 'EXISTS (SELECT 1 FROM visits WHERE visits.member_id = people."Person Id"'


def plain(
    asked: Any,
    names: tuple[str, ...],
    keys: tuple[Key, ...],
    outputs: tuple[Output, ...],
    source: str = "people",
    **more: Any,
) -> Any:
    """Return the case of a question in Python with the plain SQL of its keys and answers."""
    values = [*(k.plain for k in keys), *(o.plain for o in outputs), 'COUNT(DISTINCT "Person Id")']
    groups = f"SELECT {', '.join(values)} FROM {source}"
    groups += " GROUP BY " + ", ".join(k.plain for k in keys) if keys else ""
    return pytest.param(
        Question("Python", asked.describe(), groups, names, keys, outputs, asked=asked, **more),
        id=asked.describe()[:60],
    )


CASES = [
    plain(S.agg(n=sd.count(), total=sd.sum("age")), ("n", "total"), (), (COUNT, Output("", "SUM(age)", "sum"))),
    plain(S.where(col("age") > 40).agg(sd.count()), ("count",), (), (COUNT,), "people WHERE age > 40"),
    plain(
        S.where(~col("member") | col("age").is_null()).agg(sd.count("age")),
        ("count_age",),
        (),
        (Output("", "COUNT(age)", "count"),),
        "people WHERE NOT member OR age IS NULL",
    ),
    plain(
        S.group_by("job").agg(sd.mean(col("age").clip(18, 90))),
        ("job", "mean_age"),
        (BY["job"],),
        (Output("", "AVG(CASE WHEN age < 18 THEN 18 WHEN age > 90 THEN 90 ELSE age END)", "mean"),),
    ),
    plain(S.group_by(years=col("joined").year()).agg(n=sd.count()), ("years", "n"), (BY["YEAR(joined)"],), (COUNT,)),
    plain(
        S.group_by("member", "level").agg(n=sd.count_distinct("job", "town")),
        ("member", "level", "n"),
        (BY["member"], BY["level"]),
        (
            Output(
                "",
                "COUNT(DISTINCT CASE WHEN job IS NOT NULL AND town IS NOT NULL THEN job || '/' || town END)",
                "count",
            ),
        ),
    ),
    plain(
        S.group_by(col("age").bin([0, 18, 65, 125]).alias("b")).agg(n=sd.count()),
        ("b", "n"),
        (BY["BIN(age, [0, 18, 65, 125])"],),
        (COUNT,),
    ),
    plain(sd.histogram("age", width=25), ("age", "count"), (BY["BIN(age, 25)"],), (COUNT,)),
    plain(
        S.group_by(month=col("joined").strftime("%Y-%m")).agg(n=sd.count()),
        ("month", "n"),
        (Key("", "strftime(joined, '%Y-%m')", (*MONTHS, None)),),
        (COUNT,),
    ),
    plain(
        S.group_by("job", keys=["nurse", "-1", "two\nlines"]).agg(n=sd.count()),
        ("job", "n"),
        (BY["job"],),
        (COUNT,),
        listed=(("nurse",), ("-1",), ("two\nlines",)),
    ),
    plain(
        S.group_by("member", "job", keys=[(True, "nurse"), (False, "-1"), (None, None)]).agg(n=sd.count()),
        ("member", "job", "n"),
        (BY["member"], BY["job"]),
        (COUNT,),
        listed=((True, "nurse"), (False, "-1"), (None, None)),
    ),
    plain(
        S.group_by("town").agg(n=sd.count_distinct("Person Id"), a=sd.mean("age")),
        ("town", "n", "a"),
        (Key("", "town", None),),
        (Output("", 'COUNT(DISTINCT "Person Id")', "count"), Output("", "AVG(age)", "mean")),
    ),
    plain(S.group_by("town").keys(), ("town",), (Key("", "town", None),), ()),
    plain(
        S.agg(sd.quantiles("age", [0.1, 0.5, 0.9])),
        ("quantile_age_0.1", "quantile_age_0.5", "quantile_age_0.9"),
        (),
        tuple(Output("", "array_agg(age)", "quantile", q) for q in (0.1, 0.5, 0.9)),
    ),
    plain(
        S.agg(s=sd.sum("age") / sd.count(), p=(100 * sd.count("age") / sd.count()).round(1)),
        ("s", "p"),
        (),
        (
            Output("", "SUM(age) / COUNT(*)", "formula"),
            Output("", "ROUND(100.0 * COUNT(age) / COUNT(*), 1)", "formula"),
        ),
    ),
    plain(
        S.agg(
            v=sd.variance("score"),
            d=sd.std("score", ddof=1),
            c=sd.covariance("age", "score"),
            r=sd.correlation("age", "level"),
        ),
        ("v", "d", "c", "r"),
        (),
        tuple(
            Output("", p, "spread")
            for p in ("VAR_POP(score)", "STDDEV_SAMP(score)", "COVAR_POP(age, score)", "CORR(age, level)")
        ),
    ),
    plain(
        S.where(sd.exists("visits", col("cost") > 50)).agg(n=sd.count()),
        ("n",),
        (),
        (COUNT,),
        f"people WHERE {VISITED} AND cost > 50)",
    ),
    plain(S.where(~sd.exists("visits")).agg(n=sd.count()), ("n",), (), (COUNT,), f"people WHERE NOT {VISITED})"),
    plain(S.join("visits", how="anti").agg(n=sd.count()), ("n",), (), (COUNT,), f"people WHERE NOT {VISITED})"),
    plain(
        S.join("shops", on="town", how="left").group_by("shops.Kind").agg(n=sd.count(), t=sd.sum("shops.tax")),
        ("shops.Kind", "n", "t"),
        (Key("", 'shops."Kind"', ("small", "big", None)),),
        (COUNT, Output("", "SUM(shops.tax)", "sum")),
        "people LEFT JOIN shops ON people.town = shops.town",
    ),
    plain(
        S.join("visits").group_by("visits.kind").agg(n=sd.count(), t=sd.sum("visits.cost")),
        ("visits.kind", "n", "t"),
        (Key("", "visits.kind", ("er", "gp", "x-ray")),),
        (COUNT, Output("", "SUM(visits.cost)", "sum")),
        'people JOIN visits ON people."Person Id" = visits.member_id',
    ),
    plain(
        S.per_unit(sd.max("age").alias("oldest"), rows=sd.count())
        .where(col("rows") >= 2)
        .agg(n=sd.count(), a=sd.mean("oldest")),
        ("n", "a"),
        (),
        (COUNT, Output("", "AVG(oldest)", "mean")),
        '(SELECT "Person Id", MAX(age) AS oldest, COUNT(*) AS rows FROM people GROUP BY "Person Id") AS t WHERE rows >= 2',
    ),
    plain(
        S.per_unit(sd.first("level", by="joined").alias("f"), sd.any(col("age") > 60).alias("old"))
        .group_by("old")
        .agg(n=sd.count("f"), s=sd.sum("f")),
        ("old", "n", "s"),
        (Key("", "old", YES_NO, "bool"),),
        (Output("", "COUNT(f)", "count"), Output("", "SUM(f)", "sum")),
        FIRSTS,
    ),
    plain(
        S.agg(d=sd.mean("joined"), m=sd.median("joined")),
        ("d", "m"),
        (),
        (
            Output("", f"AVG(joined - {START})", "mean", type="date32[day]"),
            Output("", f"array_agg(joined - {START})", "quantile", type="date32[day]"),
        ),
    ),
    plain(
        S.agg(s=sd.mean((col("joined").shift(months=1) - col("joined")).days().clip(27, 32))),
        ("s",),
        (),
        (Output("", "AVG(CAST(joined + INTERVAL 1 MONTH AS DATE) - joined)", "mean"),),
    ),
    plain(
        S.where(col("seen") < datetime.datetime(2024, 7, 1, tzinfo=datetime.UTC)).agg(n=sd.count()),
        ("n",),
        (),
        (COUNT,),
        "people WHERE seen < TIMESTAMP '2024-07-01 02:00:00'",
    ),
    plain(
        S.agg(q=sd.sum(col("age") // 7), r=sd.sum((col("age") - 40) % 7)),
        ("q", "r"),
        (),
        (
            Output("", "SUM(CAST(FLOOR(age / 7.0) AS INT))", "sum"),
            Output("", "SUM(age - 40 - 7 * CAST(FLOOR((age - 40) / 7.0) AS INT))", "sum"),
        ),
    ),
    plain(
        S.group_by(band=sd.when(col("age") < 18, "minor").when(col("age") < 65, "adult").otherwise(None)).agg(
            n=sd.count()
        ),
        ("band", "n"),
        (Key("", "CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' END", ("minor", "adult", None)),),
        (COUNT,),
    ),
    plain(
        sd.most_common("job", k=3),
        ("job", "count"),
        (Key("", "job", (*JOBS, None)),),
        (COUNT,),
        order='"count" DESC',
        limit="3",
    ),
    plain(
        S.group_by("member", "level").agg(n=sd.count()).order_by("member", -col("n")).limit(8),
        ("member", "level", "n"),
        (BY["member"], BY["level"]),
        (COUNT,),
        order="member, n DESC",
        limit="8",
    ),
    plain(
        S.group_by("job").agg(n=sd.count()).having(col("n") > 10).order_by(-col("n"), "job").limit(4),
        ("job", "n"),
        (BY["job"],),
        (COUNT,),
        having="n > 10",
        order="n DESC, job",
        limit="4",
    ),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[sd.Connection, Plain]:
    return open_tables("arrow", tmp_path_factory.mktemp("python"), seed=9)


@pytest.mark.each(11)
@pytest.mark.parametrize("question", CASES)
def test_a_question_in_python_says_what_plain_sql_says(question: Question, tables: tuple[sd.Connection, Plain]) -> None:
    connection, plain_tables = tables
    found = compare(question, connection, plain_tables.rows)
    assert not found.found, f"{question.groups}\n{found.found}"
    assert found.near == found.cells
