"""Names and order of the answer's columns: HAVING, ORDER BY and SELECT as DuckDB has them, and names in Python."""

from __future__ import annotations

import functools
import io
import itertools
import random
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import sordino as sd
from protecting import protect
from sordino import col
from sordino.cli.ask.render_release import encode_release
from sordino.cli.shared.options import AnswerFormat
from sordino.core.release import Release
from sordino.errors import QuestionRefused
from sordino.reporting.release_text import table_lines

DOMAIN = sd.Domain(
    {
        "sex": sd.Integer(0, 1),
        "educ": sd.Integer(1, 4),
        "age": sd.Integer(0, 90),
        "d": sd.Date("2000-01-01", "2001-12-31"),
    }
)


@functools.cache
def table() -> pa.Table:
    rng = random.Random(4)
    days = pa.array([10957 + rng.randrange(731) for _ in range(400)], pa.int32()).cast(pa.date32())
    cells = {
        n: [rng.randrange(a, b) for _ in range(400)] for n, a, b in (("sex", 0, 2), ("educ", 1, 5), ("age", 0, 91))
    }
    return pa.table({**cells, "d": days})


@pytest.fixture(scope="module")
def people() -> Any:
    return protect(table(), DOMAIN, budget=sd.PureDP(10**9), name="pums")


@functools.cache
def plain_rows() -> duckdb.DuckDBPyConnection:
    return duckdb.connect().register("pums", table())


def plainly(text: str) -> pa.Table:
    return plain_rows().execute(text).to_arrow_table()


SWAPPED = "SELECT sex AS educ, educ AS sex, COUNT(*) AS n FROM pums GROUP BY sex, educ"


@pytest.mark.deep
@pytest.mark.parametrize(
    "after",
    [
        "HAVING educ > 2",
        "HAVING sex > 0",
        "HAVING sex = 0 AND educ < 3",
        "HAVING n > 50",
        "HAVING pums.educ > 2",
        "HAVING educ > 2 ORDER BY sex, educ",
        "ORDER BY educ DESC, sex",
        "ORDER BY sex DESC, educ DESC LIMIT 3",
        "ORDER BY educ + 0, sex + 0",
        "ORDER BY 0 - educ, sex * 2 LIMIT 5",
        "ORDER BY 2, 1",
    ],
)
def test_a_column_goes_before_an_alias_where_sql_says_so(people: Any, after: str) -> None:
    found = people.ask(sd.sql(f"{SWAPPED} {after}"), epsilon=10**5).table
    truth = plainly(f"{SWAPPED} {after}")
    assert found.column_names == truth.column_names
    rows, wanted = ([tuple(r.values()) for r in t.to_pylist()] for t in (found, truth))
    assert (rows if "ORDER" in after else sorted(rows)) == (wanted if "ORDER" in after else sorted(wanted))


ITEMS = ["COUNT(*) AS c", "sex AS m", "SUM(age) AS s", "educ"]


@pytest.mark.deep
@pytest.mark.parametrize("items", list(itertools.permutations(ITEMS)), ids=lambda i: " ".join(x.split()[-1] for x in i))
def test_every_view_of_an_answer_has_the_columns_as_select_orders_them(people: Any, items: tuple[str, ...]) -> None:
    text = f"SELECT {', '.join(items)} FROM pums GROUP BY sex, educ"
    release = people.ask(sd.sql(text), epsilon=10**6)
    names = plainly(text).column_names
    assert names == [i.split()[-1] for i in items]
    again = Release.from_dict(release.to_dict())
    for one in (release, again):
        assert (
            list(one.columns) == one.table.column_names == list(one.to_pandas().columns) == list(one.rows[0]) == names
        )
        assert one.to_dict()["columns"] == names
        assert [n for n in one.interval(0.95).column_names if not n.endswith("_upper")] == [
            f"{n}_lower" if n in ("c", "s") else n for n in names
        ]
        assert one.error(0.95).column_names == names
        assert [
            w for w in table_lines(one, confidence=0.95)[0].replace("95% interval", "").split() if w in names
        ] == names
        heads = one._repr_html_().split("<th>")[1:]
        assert [h.split("<")[0] for h in heads if "interval" not in h.split("<")[0]] == names
        written = pacsv.read_csv(io.BytesIO(encode_release(one, AnswerFormat.csv, confidence=0.95)))
        assert [n for n in written.column_names if not n.endswith(("_lower", "_upper"))] == names
    assert again == release
    key = {(r["m"], r["educ"]): r["c"] for r in release.rows}
    assert key == {(r["m"], r["educ"]): r["c"] for r in plainly(text).to_pylist()}
    before = names[: names.index("educ")]
    at = len(before) + sum(n in ("c", "s") for n in before)  # an interval stands beside each value
    assert {row[at] for row in release.display_rows(0.9)} == {"1", "2", "3", "4"}


def test_a_group_that_is_not_selected_is_not_shown(people: Any) -> None:
    release = people.ask(sd.sql("SELECT COUNT(*) AS c FROM pums GROUP BY sex"), epsilon=10**6)
    assert release.columns == ("c",)
    assert sorted(row["c"] for row in release.rows) == sorted(
        row["c"] for row in plainly("SELECT COUNT(*) AS c FROM pums GROUP BY sex").to_pylist()
    )
    again = Release.from_dict(release.to_dict())
    for one in (release, again):
        assert one.table.column_names == ["c"]
        assert one.interval(0.95).column_names == ["c_lower", "c_upper"]
        assert "sex" not in table_lines(one, confidence=0.95)[0]
        assert "<th>sex" not in one._repr_html_()
        assert encode_release(one, AnswerFormat.csv, confidence=0.95).split(b"\n")[0].strip() == b"c,c_lower,c_upper"


UNNAMED = [
    "COUNT(*)",
    "count( * )",
    "SUM(age)",
    "Sum(AGE) + 1",
    "AVG(age) FILTER (WHERE sex = 1)",
    "COUNT(DISTINCT educ)",
    "ROUND(AVG(age), 1)",
    "SUM(CASE WHEN sex = 1 THEN age ELSE 0 END)",
    "-COUNT(*)",
    "COUNT(*) * 100.0 / 7",
    "CAST(COUNT(*) AS DOUBLE)",
    "MEDIAN(age)",
    "STDDEV(age)",
    "'all'",
]


@pytest.mark.deep
@pytest.mark.parametrize("item", UNNAMED)
def test_a_column_without_as_has_duckdbs_name(people: Any, item: str) -> None:
    """Whatever else stands beside it, with keys and without."""
    for text in (
        f"SELECT {item}, COUNT(age) AS n FROM pums",
        f"SELECT sex, {item}, YEAR(d), COUNT(age) FROM pums GROUP BY sex, YEAR(d)",
        f"SELECT {item}, educ AS e, age // 50 FROM pums GROUP BY educ, 3 ORDER BY 2, 3",
    ):
        assert people.ask(sd.sql(text), epsilon=1).table.column_names == plainly(text).column_names


def test_columns_of_one_name_are_numbered(people: Any) -> None:
    text = "SELECT COUNT(*), COUNT(*), sex FROM pums GROUP BY sex"
    assert people.ask(sd.sql(text), epsilon=1).columns == ("count_star()", "count_star()_1", "sex")


def test_several_quantiles_keep_their_place(people: Any) -> None:
    text = "SELECT QUANTILE_CONT(age, [0.25, 0.75]) AS q, sex, COUNT(*) AS n FROM pums GROUP BY sex"
    assert people.ask(sd.sql(text), epsilon=1).columns == ("q_0.25", "q_0.75", "sex", "n")


def test_the_order_of_columns_is_no_part_of_the_question(people: Any) -> None:
    one, other = (
        people.plan(sd.sql(f"SELECT {a} FROM pums GROUP BY sex"), epsilon=1)
        for a in ("sex, COUNT(*) AS n", "COUNT(*) AS n, sex")
    )
    assert one.identity() == other.identity()


@pytest.mark.deep
def test_group_by_keys_have_names(people: Any) -> None:
    d = col("d")
    for question, names in (
        (people.group_by(d.year(), d.month()).agg(sd.count()), ["year(d)", "month(d)", "count"]),
        (people.group_by(year=d.year(), month=d.month()).agg(n=sd.count()), ["year", "month", "n"]),
        (people.group_by(d.year().alias("y"), "sex", m=d.month()).agg(sd.count()), ["y", "sex", "m", "count"]),
        (people.group_by(d.year()).agg(sd.count()), ["d", "count"]),
        (sd.sql("SELECT YEAR(d), MONTH(d), COUNT(*) AS n FROM pums GROUP BY 1, 2"), ['"year"(d)', '"month"(d)', "n"]),
        (sd.sql("SELECT YEAR(d) AS y, MONTH(d) AS m, COUNT(*) AS n FROM pums GROUP BY 1, 2"), ["y", "m", "n"]),
    ):
        assert people.ask(question, epsilon=10**4).table.column_names == names
    found = people.ask(people.group_by(year=d.year(), month=d.month()).agg(n=sd.count()), epsilon=10**5).table
    truth = plainly("SELECT year(d) AS year, month(d) AS month, COUNT(*) AS n FROM pums GROUP BY 1, 2 ORDER BY 1, 2")
    assert [tuple(r.values()) for r in found.to_pylist()] == [tuple(r.values()) for r in truth.to_pylist()]


def test_names_that_cannot_be(people: Any) -> None:
    for wrong, words in (
        (lambda: people.group_by(col("d").alias("")), "not empty"),
        (lambda: sd.sum(col("age").alias("a")), r"sd.sum\(...\).alias"),
        (lambda: people.agg(n="count"), r"agg\(n=sd.mean"),
        (lambda: people.plan(people.group_by(sex=col("sex")).agg(sex=sd.count()), epsilon=1), r"with \.alias"),
        (lambda: people.plan(sd.sql("SELECT sex, COUNT(*) AS sex FROM pums GROUP BY sex"), epsilon=1), "name with AS$"),
    ):
        with pytest.raises(QuestionRefused, match=words):
            wrong()


def test_what_frames_do_is_refused_with_what_to_do(people: Any) -> None:
    habits: list[tuple[Callable[[], object], str]] = [
        (lambda: people["age"], r"sd.mean\(\"age\"\)"),
        (lambda: people.head(), "rows are never released"),
    ]
    for habit, words in habits:
        with pytest.raises(QuestionRefused, match=words):
            habit()


def test_a_median_has_one_name(people: Any) -> None:
    one, other = sd.sql("SELECT MEDIAN(age) AS median_age FROM pums"), sd.median("age")
    assert people.plan(one, epsilon=1).identity() == people.plan(other, epsilon=1).identity()
    assert people.ask(one, epsilon=1).columns == ("median_age",)
