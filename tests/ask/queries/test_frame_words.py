"""The words of polars and pandas: each builds the question that today's spelling builds, and others name the word to use."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from sordino import col
from sordino.ask.queries.question_records import question_from_json, question_to_json
from sordino.errors import QuestionRefused, SordinoError

DOMAIN = sd.Domain(
    {
        "person": sd.Identifier(),
        "age": sd.Integer(0, 99),
        "hours": sd.Integer(0, 60),
        "job": sd.Category(["cook", "nurse", "chef de partie"], missing="keep"),
        "day": sd.Date("2024-01-01", "2024-12-31"),
        "begin": sd.DateTime("2024-01-01", "2024-02-01", zone="Europe/Berlin", resolution="minute"),
        "end": sd.DateTime("2024-01-01", "2024-02-02", zone="Europe/Berlin", resolution="minute"),
    }
)
Questions = list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]


def untyped(name: str) -> Any:
    """Return a column whose unknown words no type checker sees."""
    return col(name)


def untyped_module() -> Any:
    """Return the module, whose unknown words no type checker sees."""
    return sd


def per(key: Any) -> Callable[[Any], Any]:
    return lambda t: t.group_by(key=key).agg(sd.count())


SAME: Questions = [
    # rows
    ("filter", lambda t: t.filter(col("age") > 30).agg(sd.count()), lambda t: t.where(col("age") > 30).agg(sd.count())),
    (
        "where of several",
        lambda t: t.where(col("age") > 30, col("job") == "cook", col("hours") < 9).agg(sd.count()),
        lambda t: t.where(col("age") > 30).where(col("job") == "cook").where(col("hours") < 9).agg(sd.count()),
    ),
    (
        "filter of several",
        lambda t: t.filter(col("age") > 30, col("job") == "cook").agg(sd.count()),
        lambda t: t.where((col("age") > 30) & (col("job") == "cook")).agg(sd.count()),
    ),
    (
        "filter after group_by",
        lambda t: t.group_by("job").filter(col("age") > 30).agg(sd.count()),
        lambda t: t.group_by("job").where(col("age") > 30).agg(sd.count()),
    ),
    (
        "filter by values",
        lambda t: t.filter(col("age") > 30, job="cook").agg(sd.count()),
        lambda t: t.where(col("age") > 30, col("job") == "cook").agg(sd.count()),
    ),
    (
        "filter by values after group_by",
        lambda t: t.group_by("job").filter(age=30).agg(sd.count()),
        lambda t: t.group_by("job").where(col("age") == 30).agg(sd.count()),
    ),
    (
        "when then otherwise",
        per(sd.when(col("age") > 60).then("old").when(col("age") > 18, "adult").otherwise("young")),
        per(sd.when(col("age") > 60, "old").when(col("age") > 18).then("adult").otherwise("young")),
    ),
    (
        "shift by a row",
        lambda t: t.with_columns(b=col("age").shift().over("person", order_by="day")).agg(sd.mean("b")),
        lambda t: t.with_columns(b=col("age").shift(1).over("person", order_by="day")).agg(sd.mean("b")),
    ),
    ("select", lambda t: t.select(col("age").mean(), n=sd.count()), lambda t: t.agg(sd.mean("age"), n=sd.count())),
    # columns
    (
        "with_columns as a key",
        lambda t: t.with_columns(decade=col("age") // 10).group_by("decade").agg(sd.count()),
        lambda t: t.group_by(decade=col("age") // 10).agg(sd.count()),
    ),
    (
        "with_columns in a condition, by alias",
        lambda t: t.with_columns((col("age") * 2).alias("twice")).where(col("twice") > 30).agg(sd.count()),
        lambda t: t.where(col("age") * 2 > 30).agg(sd.count()),
    ),
    (
        "with_columns in an aggregate",
        lambda t: t.with_columns(twice=col("age") * 2).agg(sd.mean("twice"), sd.quantile("twice", 0.25)),
        lambda t: t.agg(
            sd.mean(col("age") * 2).alias("mean_twice"), sd.quantile(col("age") * 2, 0.25).alias("quantile_0.25_twice")
        ),
    ),
    (
        "with_columns in a formula",
        lambda t: t.with_columns(twice=col("age") * 2).agg(share=sd.sum("twice") / sd.sum("hours")),
        lambda t: t.agg(share=sd.sum(col("age") * 2).alias("sum_twice") / sd.sum("hours")),
    ),
    (
        "with_columns over a column of its name: conditions before keep theirs",
        lambda t: (
            t.where(col("age") > 90)
            .with_columns(age=col("age").clip(20, 60))
            .where(col("age") > 30)
            .agg(sd.mean("age"))
        ),
        lambda t: t.where(col("age") > 90, col("age").clip(20, 60) > 30).agg(sd.mean(col("age").clip(20, 60))),
    ),
    (
        "with_columns of with_columns; those of one call see the columns before it",
        lambda t: (
            t.with_columns(a=col("age") + 1).with_columns(a=col("a") * 2, b=col("a") * 3).agg(sd.sum("a"), sd.sum("b"))
        ),
        lambda t: t.agg(sd.sum((col("age") + 1) * 2).alias("sum_a"), sd.sum((col("age") + 1) * 3).alias("sum_b")),
    ),
    (
        "with_columns of a column by its name",
        lambda t: t.with_columns(work="job").group_by("work").agg(sd.count()),
        lambda t: t.group_by(work="job").agg(sd.count()),
    ),
    (
        "with_columns before per_unit",
        lambda t: t.with_columns(twice=col("age") * 2).per_unit(m=sd.max("twice")).agg(sd.mean("m")),
        lambda t: t.per_unit(m=sd.max(col("age") * 2)).agg(sd.mean("m")),
    ),
    (
        "with_columns after per_unit",
        lambda t: t.per_unit(m=sd.max("age")).with_columns(decade=col("m") // 10).group_by("decade").agg(sd.count()),
        lambda t: t.per_unit(m=sd.max("age")).group_by(decade=col("m") // 10).agg(sd.count()),
    ),
    # aggregates
    ("count", lambda t: t.agg(col("age").count()), lambda t: t.agg(sd.count("age"))),
    ("sum", lambda t: t.agg(col("age").sum()), lambda t: t.agg(sd.sum("age"))),
    (
        "sum per_unit",
        lambda t: t.agg(col("age").sum(per_unit=(0, 50))),
        lambda t: t.agg(sd.sum("age", per_unit=(0, 50))),
    ),
    ("mean", lambda t: t.agg(col("age").clip(18, 60).mean()), lambda t: t.agg(sd.mean(col("age").clip(18, 60)))),
    ("median", lambda t: t.group_by("job").agg(col("age").median()), lambda t: t.group_by("job").agg(sd.median("age"))),
    ("quantile", lambda t: t.agg(col("age").quantile(0.9)), lambda t: t.agg(sd.quantile("age", 0.9))),
    ("std", lambda t: t.agg(col("age").std()), lambda t: t.agg(sd.std("age", ddof=1))),
    ("std of rows", lambda t: t.agg(col("age").std(ddof=0)), lambda t: t.agg(sd.std("age"))),
    ("var", lambda t: t.agg(col("age").var()), lambda t: t.agg(sd.variance("age", ddof=1))),
    ("n_unique", lambda t: t.agg(col("job").n_unique()), lambda t: t.agg(sd.count_distinct("job"))),
    (
        "names and formulas",
        lambda t: t.agg(col("age").sum().alias("a"), b=col("age").sum() / col("hours").sum()),
        lambda t: t.agg(sd.sum("age").alias("a"), b=sd.sum("age") / sd.sum("hours")),
    ),
    (
        "values of a person",
        lambda t: (
            t.per_unit(
                a=col("age").max(),
                b=col("age").min(),
                c=(col("age") > 30).any(),
                d=(col("age") > 30).all(),
                e=col("age").first(by="day"),
                f=col("age").last(by="day"),
            )
            .where(col("c"), col("d"))
            .agg(sd.mean("a"), sd.mean("b"), sd.mean("e"), sd.mean("f"))
        ),
        lambda t: (
            t.per_unit(
                a=sd.max("age"),
                b=sd.min("age"),
                c=sd.any(col("age") > 30),
                d=sd.all(col("age") > 30),
                e=sd.first("age", by="day"),
                f=sd.last("age", by="day"),
            )
            .where(col("c"))
            .where(col("d"))
            .agg(sd.mean("a"), sd.mean("b"), sd.mean("e"), sd.mean("f"))
        ),
    ),
    # values
    (
        "is_not_null",
        lambda t: t.where(col("job").is_not_null()).agg(sd.count()),
        lambda t: t.where(~col("job").is_null()).agg(sd.count()),
    ),
    (
        "fill_null",
        per(col("job").fill_null("none")),
        per(sd.when(col("job").is_null(), "none").otherwise(col("job"))),
    ),
    ("dt.year", per(col("day").dt.year()), per(col("day").year())),
    ("dt.quarter", per(col("day").dt.quarter()), per(col("day").quarter())),
    ("dt.month", per(col("day").dt.month()), per(col("day").month())),
    ("dt.week", per(col("day").dt.week()), per(col("day").week())),
    ("dt.day", per(col("day").dt.day()), per(col("day").day())),
    ("dt.weekday", per(col("day").dt.weekday()), per(col("day").iso_day_of_week())),
    ("dt.ordinal_day", per(col("day").dt.ordinal_day()), per(col("day").day_of_year())),
    ("dt.hour", per(col("begin").dt.hour()), per(col("begin").hour())),
    ("dt.minute", per(col("begin").dt.minute()), per(col("begin").minute())),
    ("dt.second", per(col("begin").dt.second()), per(col("begin").second())),
    ("dt.date", per(col("begin").dt.date()), per(col("begin").date())),
    ("dt.truncate month", per(col("begin").dt.truncate("1mo")), per(col("begin").truncate("month"))),
    ("dt.truncate week", per(col("day").dt.truncate("1w")), per(col("day").truncate("week"))),
    ("dt.truncate hours", per(col("begin").dt.truncate("6h")), per(col("begin").truncate("hour", count=6))),
    ("dt.strftime", per(col("day").dt.strftime("%Y-%m")), per(col("day").strftime("%Y-%m"))),
    ("dt.to_string", per(col("day").dt.to_string("%Y-%m")), per(col("day").strftime("%Y-%m"))),
    (
        "dt.total_seconds",
        lambda t: t.agg(sd.mean((col("end") - col("begin")).dt.total_seconds().clip(0, 900))),
        lambda t: t.agg(sd.mean((col("end") - col("begin")).seconds().clip(0, 900))),
    ),
    ("str.to_uppercase", per(col("job").str.to_uppercase()), per(col("job").upper())),
    ("str.to_lowercase", per(col("job").str.to_lowercase()), per(col("job").lower())),
    ("str.upper", per(col("job").str.upper()), per(col("job").upper())),
    ("str.lower", per(col("job").str.lower()), per(col("job").lower())),
    ("str.strip_chars", per(col("job").str.strip_chars()), per(col("job").trim())),
    ("str.strip", per(col("job").str.strip()), per(col("job").trim())),
    ("str.starts_with", per(col("job").str.starts_with("c")), per(col("job").starts_with("c"))),
    ("str.startswith", per(col("job").str.startswith("c")), per(col("job").starts_with("c"))),
    ("str.ends_with", per(col("job").str.ends_with("e")), per(col("job").ends_with("e"))),
    ("str.endswith", per(col("job").str.endswith("e")), per(col("job").ends_with("e"))),
    ("str.contains text", per(col("job").str.contains("oo")), per(col("job").contains("oo"))),
    ("str.contains a pattern", per(col("job").str.contains("^c.*k$")), per(col("job").matches("^c.*k$"))),
    ("str.contains literally", per(col("job").str.contains("c.", literal=True)), per(col("job").contains("c."))),
    ("str.replace_all", per(col("job").str.replace_all("oo", "u")), per(col("job").replace("oo", "u"))),
    ("str.slice", per(col("job").str.slice(0, 2)), per(col("job").substr(1, 2))),
    ("str.slice from the end", per(col("job").str.slice(-2)), per(col("job").substr(-2))),
    ("str.len_chars", per(col("job").str.len_chars()), per(col("job").length())),
    ("str.len", per(col("job").str.len()), per(col("job").length())),
    # answers
    (
        "sort and head",
        lambda t: t.group_by("job").agg(n=sd.count()).sort("n", descending=True).head(2),
        lambda t: t.group_by("job").agg(n=sd.count()).order_by(-col("n")).limit(2),
    ),
    (
        "sort by several",
        lambda t: t.group_by("job").agg(n=sd.count()).sort("n", "job", descending=[True, False]),
        lambda t: t.group_by("job").agg(n=sd.count()).order_by(-col("n"), "job"),
    ),
    (
        "head alone",
        lambda t: t.group_by("job").agg(sd.count()).head(),
        lambda t: t.group_by("job").agg(sd.count()).limit(5),
    ),
    (
        "filter of an answer",
        lambda t: t.group_by("job").agg(n=sd.count()).filter(col("n") > 3, col("n") < 9),
        lambda t: t.group_by("job").agg(n=sd.count()).having(col("n") > 3).having(col("n") < 9),
    ),
    ("value_counts", lambda t: t.value_counts("job"), lambda t: t.group_by("job").agg(sd.count())),
    (
        "value_counts of an expression",
        lambda _: col("age").bin(width=10).value_counts(),
        lambda _: sd.histogram("age", width=10),
    ),
    (
        "value_counts of some rows, sorted",
        lambda t: t.where(col("age") > 30).value_counts("job", sort=True),
        lambda t: t.where(col("age") > 30).group_by("job").agg(sd.count()).order_by(-col("count")),
    ),
    (
        "describe",
        lambda t: t.describe("age"),
        lambda t: t.agg(sd.count("age"), sd.mean("age"), sd.std("age", ddof=1), sd.quantiles("age", [0.25, 0.5, 0.75])),
    ),
    ("describe of all numbers", lambda t: t.describe(), lambda t: t.describe("age", "hours")),
]


@pytest.fixture(scope="module")
def people() -> Any:
    moment = datetime.datetime(2024, 1, 3, 9, tzinfo=datetime.UTC)
    rows = 400
    table = pa.table(
        {
            "person": [f"p{i % 200}" for i in range(rows)],
            "age": [i % 100 for i in range(rows)],
            "hours": [i % 61 for i in range(rows)],
            "job": [["cook", "nurse", None, "chef de partie"][i % 4] for i in range(rows)],
            "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 366) for i in range(rows)],
            "begin": [moment + datetime.timedelta(hours=i) for i in range(rows)],
            "end": [moment + datetime.timedelta(hours=i, minutes=i % 30) for i in range(rows)],
        }
    )
    return sd.protect(
        table,
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("person", max_rows=2),
        budget=sd.PureDP(10**9),
        ledger=None,
    )


@pytest.mark.each(6)
@pytest.mark.parametrize(("word", "new", "today"), SAME, ids=[word for word, _, _ in SAME])
def test_a_word_builds_the_question_of_today(
    people: Any, word: str, new: Callable[[Any], Any], today: Callable[[Any], Any]
) -> None:
    del word
    question, expected = new(people), today(people)
    assert question == expected
    assert question.identity() == expected.identity()
    assert question_to_json(question) == question_to_json(expected)
    assert question_from_json(question_to_json(question)) == question
    assert people.plan(question, epsilon=1, assume_rows=400).cost == sd.PureDP(1)


def test_the_answers_are_those_of_the_rows(people: Any) -> None:
    asked = (
        people.filter(col("age") >= 30, col("job").is_not_null())
        .with_columns(kind=col("job").str.to_uppercase(), decade=col("age") // 10 * 10)
        .group_by("kind")
        .agg(n=sd.count(), age=col("decade").mean())
        .sort("n", descending=True)
        .head(2)
    )
    rows = people.ask(asked, epsilon=10**6).rows
    exact: dict[str, list[int]] = {}
    for i in range(400):
        job = ["cook", "nurse", None, "chef de partie"][i % 4]
        if i % 100 >= 30 and job is not None:
            exact.setdefault(job.upper(), []).append(i % 100 // 10 * 10)
    assert len(rows) == 2
    for row in rows:
        own = exact[row["kind"]]
        assert row["n"] == len(own)
        assert row["age"] == pytest.approx(sum(own) / len(own), abs=0.01)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda _: untyped("age").isnull(), r"did you mean is_null\(\)"),
        (lambda _: untyped("age").isin([1]), r"did you mean is_in\("),
        (lambda _: untyped("age").fillna(1), r"did you mean fill_null"),
        (lambda _: untyped("age").nunique(), r"did you mean n_unique"),
        (lambda _: untyped("age").meen(), "did you mean mean"),
        (lambda _: untyped("age").rank(), r"release\.query"),
        (lambda _: untyped("age").cast(int), "declared type; leave it out"),
        (lambda _: untyped("day").dt.dayofweek(), "did you mean weekday"),
        (lambda _: untyped("job").str.replace("a", "b"), "did you mean replace_all"),
        (lambda t: t.groupby("job"), "did you mean group_by"),
        (lambda t: t.group_by_dynamic("day", every="1mo"), "dt.truncate"),
        (lambda t: t.resample("M"), "dt.truncate"),
        (lambda t: t.rename({"age": "years"}), "did you mean with_columns"),
        (lambda t: t.crosstab("age", "job"), "did you mean group_by"),
        (lambda t: t.drop("age"), "write agg"),
        (lambda t: t.lazy(), "leave it out"),
        (lambda t: t.plot(), r"write sd\.plot"),
        (lambda t: t.apply(len), "did you mean with_columns"),
        (lambda _: untyped("age").eq(3), "did you mean =="),
        (lambda _: untyped_module().len(), r"write sd\.count\(\)"),
        (lambda _: untyped_module().n_unique("job"), r"write sd\.count_distinct"),
        (lambda _: untyped_module().lit(3), "as they are"),
        (lambda t: t.assign(a=1), "did you mean with_columns"),
        (lambda t: t.where(col("age") > 3).aggregate(), "did you mean agg"),
        (lambda t: t.group_by("job").size(), r"did you mean count\(\)"),
        (lambda t: t.where(col("age") > 3).collect(), "rows are never released; write agg"),
        (lambda t: t.agg(sd.count()).sort_values("count"), "did you mean sort"),
        (lambda t: t.agg(sd.count()).collect(), r"did you mean table\.ask"),
        (lambda _: untyped("age").sum().cumsum(), r"release\.query"),
        (lambda _: untyped("age").value_count(), "did you mean value_counts"),
        (lambda t: t.nothing_of_the_kind(), r"nothing_of_the_kind': use ask\("),
    ],
)
def test_an_unknown_word_names_the_one_that_exists(people: Any, ask: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        ask(people)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda _: untyped("age").over("job"), r"release\.query"),
        (lambda t: t.agg(col("age").sum().over("job")), r"release\.query"),
        (lambda t: t.agg(col("age")), "value of each row, and rows are never released"),
        (lambda t: t.select("age"), "takes aggregates"),
        (lambda t: t.agg({"age": "mean"}), r"not a dict: write agg\(sd\.mean"),
        (lambda _: sd.when(col("age") > 3).otherwise(0), "needs its value"),
        (lambda _: sd.when(col("age") > 3, 1).then(0), "each condition has one value"),
        (lambda t: t.group_by("job").select(sd.count()), r"end group_by with \.agg"),
        (lambda t: t.group_by("job").with_columns(a=col("age")), "before group_by"),
        (lambda t: t.with_columns(col("age") + 1), "named expressions"),
        (lambda t: t.with_columns(a=3), "takes expressions"),
        (lambda t: t.with_columns(a=col("age").mean()), "takes expressions"),
        (lambda t: t.with_columns(a=col("age")).where(sd.exists("visits", col("a") > 3)), "another way"),
        (lambda t: t.with_columns(a=col("age")).agg(sd.count(where=sd.exists("visits", col("a") > 3))), "another way"),
        (lambda t: t.where(), "where takes conditions"),
        (lambda t: t.filter("age > 3"), "where takes conditions"),
        (lambda t: t.agg(sd.count()).filter(), "filter takes conditions"),
        (lambda t: t.agg(sd.count()).sort(), "sort takes columns"),
        (lambda t: t.agg(sd.count()).sort("count", descending=[True, False]), "sort takes columns"),
        (lambda t: t.where(col("age") > 3).describe(), "describe takes columns"),
        (lambda t: t.head(), "rows are never released"),
        (lambda _: untyped("day").dt.truncate("2mo"), "dt.truncate takes"),
        (lambda _: untyped("begin").dt.truncate("7h"), "dt.truncate takes"),
        (lambda _: untyped("begin").dt.truncate("0h"), "dt.truncate takes"),
        (lambda _: untyped("day").dt.truncate("month"), "dt.truncate takes"),
        (lambda _: untyped("job").str.replace_all("a.", "b"), "literal=True"),
        (lambda _: untyped("job").str.slice(0.5), "whole offset"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(people: Any, ask: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(QuestionRefused, match=words):
        ask(people)


def test_the_package_names_the_word_that_was_meant() -> None:
    with pytest.raises(AttributeError, match="did you mean count_distinct"):
        vars(sd)["__getattr__"]("count_distnct")


def test_an_unknown_attribute_is_cheap_and_copies_work(people: Any) -> None:
    import copy
    import pickle

    question = people.agg(sd.count())
    assert not hasattr(question, "nothing")
    assert copy.deepcopy(question) == question == pickle.loads(pickle.dumps(question))
    assert str(copy.copy(col("age"))) == "age"


def orders() -> Any:
    day = datetime.date(2024, 1, 1)
    rows = [
        {"id": f"u{i % 40}", "x": i * i % 11, "kind": "ab"[i * i % 7 % 2], "day": day + datetime.timedelta(days=i % 97)}
        for i in range(160)
    ]
    return sd.protect(
        pa.Table.from_pylist(rows),
        domain=sd.Domain(
            {
                "id": sd.Identifier(),
                "x": sd.Integer(0, 10),
                "kind": sd.Category(["a", "b"]),
                "day": sd.Date("2024-01-01", "2024-12-31"),
            }
        ),
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("id", max_rows=4),
        budget=sd.PureDP(10**9),
        ledger=None,
        name="orders",
        rng=sd.Rng.seeded(1),
    )


OVER: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda t: t.with_columns(gap=col("day").diff().over("id", order_by="day")).agg(sd.sum("gap"), sd.count("gap")),
        "SELECT SUM(gap) AS sum_gap, COUNT(gap) AS count_gap FROM"
        " (SELECT day - LAG(day) OVER (PARTITION BY id ORDER BY day) AS gap FROM orders) t",
    ),
    (
        lambda t: (
            t.filter(col("x") > 1)
            .with_columns(before=col("x").shift(2).over("id", "kind", order_by=["day", "x"]))
            .filter(col("before") > col("x"))
            .agg(n=sd.count())
        ),
        "SELECT COUNT(*) AS n FROM (SELECT x, LAG(x, 2) OVER (PARTITION BY id, kind ORDER BY day, x) AS before FROM orders"
        " WHERE x > 1) t WHERE before > x",
    ),
    (
        lambda t: (
            t.with_columns(m=col("x").mean().over("id")).filter(col("x") > col("m")).group_by("kind").agg(n=sd.count())
        ),
        "SELECT kind, COUNT(*) AS n FROM (SELECT kind, x, AVG(x) OVER (PARTITION BY id) AS m FROM orders) t WHERE x > m"
        " GROUP BY kind",
    ),
    (
        lambda t: (
            t.with_columns(
                next=col("kind").shift(-1).over("id", order_by="day", descending=True),
                s=(col("x").cum_sum() - col("x").cum_count()).over("id", order_by="day"),
                n=sd.count().over("id"),
            )
            .group_by("next")
            .agg(a=sd.sum(col("s").clip(0, 40)), b=sd.sum(col("n").clip(0, 4)))
        ),
        "SELECT next, SUM(CLIP(s - c, 0, 40)) AS a, SUM(CLIP(n, 0, 4)) AS b FROM (SELECT LEAD(kind) OVER (PARTITION BY id ORDER"
        " BY day DESC) AS next, SUM(x) OVER (PARTITION BY id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS"
        " s, COUNT(x) OVER (PARTITION BY id ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c, COUNT(*) OVER"
        " (PARTITION BY id) AS n FROM orders) t GROUP BY next",
    ),
]


@pytest.mark.each(4)
@pytest.mark.parametrize(("words", "text"), OVER)
def test_windows_in_python_are_those_of_sql(words: Callable[[Any], Any], text: str) -> None:
    """The same numbers at an epsilon of a million, and the same price and errors."""
    asked = [words(orders()), sd.sql(text)]
    held = orders()
    plans = [held.plan(question, epsilon=1).to_dict() for question in asked]
    assert [c["parts"] for c in plans[0]["columns"]] == [c["parts"] for c in plans[1]["columns"]]
    one, other = (held.ask(question, epsilon=10**6).table.to_pylist() for question in asked)
    assert one == other


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (lambda t: t.with_columns(a=col("x").shift(1)), "end it with .over"),
        (lambda t: t.with_columns(a=col("x").shift(1).over("id")), "depends on the order of rows"),
        (lambda t: t.with_columns(a=col("x").shift(1).over(order_by="day")), "names the privacy unit"),
        (
            lambda t: t.plan(t.with_columns(a=sd.count().over("kind")).agg(sd.sum("a")), epsilon=1),
            "privacy unit's column 'id'",
        ),
        (
            lambda t: t.plan(t.agg(sd.sum(col("x").shift(1).over("id", order_by="day"))), epsilon=1),
            "inside with_columns",
        ),
        (lambda _: sd.median("x").over("id"), "count, sum, mean, min and max"),
        (lambda _: col("x").shift(0), "a number of rows up to"),
        (lambda t: t.per_unit(n=sd.count()).with_columns(a=col("n").shift(1).over("id", order_by="n")), "before it"),
        (lambda t: t.agg(sd.count().over("id")), r"release\.query"),
    ],
)
def test_what_is_no_window_of_a_person_is_refused(words: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(QuestionRefused, match=message):
        words(orders())


def test_windows_are_sent_to_servers_as_they_are_written_and_others_are_refused() -> None:
    held = orders()
    for words, _ in OVER:
        asked = words(held)
        data = json.loads(json.dumps(question_to_json(asked)))
        assert question_from_json(data) == asked
    data = json.loads(json.dumps(question_to_json(OVER[0][0](held))))
    value = data["steps"][0]["values"][0]
    hostile: tuple[dict[str, Any], ...] = (
        {"kind": "lag(x) --"},
        {"kind": "row_number"},
        {"offset": 10**6},
        {"offset": -1},
        {"order": []},
        {"frame": [0, 1]},
        {"of": None},
        {"partition": "id"},
    )
    for changed in hostile:
        other = {**data, "steps": [{**data["steps"][0], "values": [{**value, **changed}]}]}
        with pytest.raises(SordinoError):
            held.plan(question_from_json(other), epsilon=1)
