"""SQL over a release: what DuckDB gives over its table, at no cost, and nothing but that table is read."""

from __future__ import annotations

import datetime
import json
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from sordino import col
from sordino.errors import QuestionRefused

DOMAIN = sd.Domain(
    {
        "region": sd.Category(["north", "south", "west"], missing="keep"),
        "member": sd.Boolean(),
        "year": sd.Integer(2020, 2023),
        "amount": sd.Integer(0, 100),
        "day": sd.Date("2024-01-01", "2024-03-31"),
        "begin": sd.DateTime("2024-01-01", "2024-03-31", zone="Europe/Berlin", resolution="minute"),
    }
)
START = datetime.datetime(2024, 1, 5, 22, 30, tzinfo=datetime.UTC)
# Answered as DuckDB answers over the released table.
ANSWERED = [
    "SELECT region, n / SUM(n) OVER () AS share FROM answer",
    "SELECT region, year, n FROM answer",
    "SELECT * FROM answer",
    "FROM answer",
    "SELECT *, total / NULLIF(n, 0) AS mean FROM answer ORDER BY n DESC, region, year",
    "SELECT answer.*, n * 2 FROM answer",
    "SELECT * EXCLUDE (total) FROM answer",
    "SELECT region AS where_it_was, SUM(n) AS n FROM answer GROUP BY region ORDER BY region NULLS LAST",
    "SELECT region, year, n, n - LAG(n) OVER (PARTITION BY region ORDER BY year) AS more FROM answer ORDER BY region, year",
    "SELECT region, year, RANK() OVER (ORDER BY n DESC) AS place FROM answer QUALIFY place <= 3 ORDER BY place",
    "WITH sums AS (SELECT region, SUM(n) AS n FROM answer GROUP BY region) SELECT AVG(n) FROM sums",
    "SELECT now.region, now.n - past.n AS more FROM answer now JOIN answer past"
    " ON now.region = past.region AND now.year = past.year + 1 ORDER BY now.region, now.year",
    "SELECT MAX(n), MIN(n), MEDIAN(n), COUNT(*) FROM answer",
    "SELECT COALESCE(UPPER(region), 'none') AS name, n > 30 AS many FROM answer WHERE year = 2021 ORDER BY name",
    "SELECT region, n FROM answer WHERE n > 1000000",
    "SELECT region, n FROM answer UNION ALL SELECT 'all', SUM(n) FROM answer ORDER BY n, region",
    "(SELECT n FROM answer ORDER BY n LIMIT 2)",
    "SELECT * FROM (SELECT region, year, n FROM answer) PIVOT (SUM(n) FOR year IN (2020, 2021)) ORDER BY region",
    "SELECT CAST(n AS VARCHAR) || ' rows' AS words, ROUND(n / 3.0, 2) AS third FROM answer",
    "SELECT 1 + 1 AS two",
    # Names that mean another column than they did.
    "WITH b(n, total, region) AS (SELECT total, n, region FROM answer) SELECT region, n FROM b",
    "SELECT region, n FROM (SELECT total, n, region FROM answer) AS b(n, total, region)",
    "SELECT a, n FROM answer AS b(a, n, c, d)",
    "WITH b AS (SELECT region, n AS a, total AS a FROM answer) SELECT region, a FROM b",
    "SELECT region, total AS n, n AS total FROM answer",
    "WITH b AS (SELECT region, -n AS n FROM answer) SELECT region, n FROM b",
    "SELECT region, total, v FROM answer UNPIVOT (v FOR name IN (n))",
    "SELECT * FROM answer PIVOT (SUM(n) FOR year IN (2020, 2021)) ORDER BY ALL",
    "SELECT region, n FROM (answer)",
    "WITH b AS (SELECT region, n FROM answer) SELECT region, n FROM (b)",
    "SELECT region, (SELECT AVG(n) FROM answer) AS middle FROM answer",
]
HIDDEN = pa.table({"secret": [1, 2, 3]})
REFUSED = [
    "SELECT * FROM visits",
    "SELECT * FROM data",
    "SELECT * FROM HIDDEN",
    "SELECT * FROM hidden_here",
    "SELECT n FROM answer, hidden_here",
    "SELECT (SELECT MAX(secret) FROM hidden_here) FROM answer",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM query('SELECT * FROM answer')",
    "SELECT query('SELECT 1') FROM answer",
    "SELECT * FROM query_table('hidden_here')",
    "SELECT getenv('HOME') FROM answer",
    "SELECT getvariable('x') FROM answer",
    "SELECT current_setting('memory_limit') FROM answer",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_tables",
    "SELECT * FROM sqlite_master",
    "WITH a AS (SELECT * FROM sqlite_master), sqlite_master AS (SELECT 1 AS x) SELECT * FROM a",
    "WITH tables AS (SELECT 1 AS x) SELECT * FROM information_schema.tables",
    "SELECT * FROM (WITH pg_tables AS (SELECT 1 AS x) SELECT x FROM pg_tables) t, pg_tables",
    "SELECT n FROM answer; SELECT n FROM answer",
    "SELECT n FROM answer; DROP TABLE answer",
    "DROP TABLE answer",
    "CREATE TABLE x AS SELECT * FROM answer",
    "COPY answer TO '/tmp/x.csv'",
    "ATTACH '/tmp/x.db' AS x",
    "SET memory_limit = '1TB'",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "EXPLAIN SELECT * FROM answer",
    "DESCRIBE answer",
    "SELECT RANDOM() FROM answer",
    "SELECT UUID() FROM answer",
    "SELECT NOW() FROM answer",
    "SELECT CURRENT_DATE FROM answer",
    "SELECT CURRENT_USER FROM answer",
    "SELECT VERSION() FROM answer",
    "SELECT REPEAT('x', 1000000000) FROM answer",
    "SELECT SPACE(1000000000) FROM answer",
    "SELECT LPAD('x', 1000000000, 'y') FROM answer",
    "SELECT RANGE(1000000000) FROM answer",
    "SELECT * FROM range(1000000000)",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT UNNEST([1, 2]) FROM answer",
    "SELECT LIST_RESIZE([1], 1000000000) FROM answer",
    "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT * FROM a",
    "WITH answer AS (SELECT 1 AS n) SELECT * FROM answer",
    "WITH sordino_block_0 AS (SELECT 1 AS n) SELECT * FROM sordino_block_0",
    "SELECT region, n FROM answer WHERE n",
    "SELECT nothing FROM answer",
    "SELECT [n, total] FROM answer",
    "SELECT answer FROM answer",
    "SELECT STRUCT_PACK(a := n) FROM answer",
    "SELECT TIME '10:00' AS t, INTERVAL 1 DAY AS i FROM answer",
    "SELECT n, n FROM answer",
    "SELECT region, n, AVG(n) FROM answer",
    "SELECT /*+ weight(1) */ n FROM answer",
    "SELECT 'x\\'); CREATE MACRO max(x) AS 42; SELECT (1 --' AS t, `n` FROM answer",
    "SELECT n \ud800 FROM answer",
    "SELECT (",
    "",
]


@pytest.fixture(scope="module")
def people() -> Any:
    rows = 1200
    table = pa.table(
        {
            "region": [["north", "south", "south", "west", None][i % 5] for i in range(rows)],
            "member": [i % 3 == 0 for i in range(rows)],
            "year": [2020 + i % 7 % 4 for i in range(rows)],
            "amount": [i % 101 for i in range(rows)],
            "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 90) for i in range(rows)],
            "begin": [START + datetime.timedelta(hours=i) for i in range(rows)],
        }
    )
    return sd.protect(
        table,
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**6),
        ledger=None,
        name="visits",
        rng=sd.Rng.seeded(5),
    )


@pytest.fixture(scope="module")
def release(people: Any) -> Any:
    return people.ask(people.group_by("region", "year").agg(n=sd.count(), total=sd.sum("amount")), epsilon=1)


def truth(release: Any, text: str) -> pa.Table:
    connection = duckdb.connect()
    connection.register("answer", release.table)
    return connection.sql(text).to_arrow_table()


def cells_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(map(plain, row.values())) for row in table.to_pylist()]


def plain(cell: Any) -> Any:
    """Return a cell as a number of one type; what is no number is missing, as in every statement."""
    if isinstance(cell, (str, bool, datetime.date)) or cell is None:
        return cell
    return None if cell != cell else float(round(cell, 9))


@pytest.mark.deep
@pytest.mark.parametrize("text", ANSWERED)
def test_it_is_what_duckdb_gives_over_the_released_table(release: Any, text: str) -> None:
    answer = release.query(text)
    expected = truth(release, text)
    assert list(answer.columns) == expected.column_names
    assert cells_of(answer.table) == cells_of(expected)


@pytest.mark.parametrize("text", REFUSED)
def test_nothing_else_is_read(release: Any, text: str) -> None:
    hidden_here = HIDDEN
    with pytest.raises(QuestionRefused):
        release.query(text)
    assert hidden_here.num_rows == 3


def test_a_query_that_was_refused_leaves_the_next_as_it_is(release: Any) -> None:
    for text in REFUSED[::9]:
        with pytest.raises(QuestionRefused):
            release.query(text)
        assert release.query("SELECT MAX(n) FROM answer").value == max(row["n"] for row in release.rows)


def test_it_is_free_and_stays_what_was_charged(people: Any, release: Any) -> None:
    before = people.spent
    answer = release.query("SELECT region, year, n FROM answer")
    assert people.spent == before
    assert (answer.cost, answer.event, answer.charge) == (release.cost, release.event, release.charge)
    assert answer.question == f"SELECT region, year, n FROM answer, where answer is {release.question}"
    assert f"computed from the answer of charge {release.charge}, at no cost" in answer.notes
    assert sd.Release.from_dict(answer.to_dict()).to_dict() == answer.to_dict()
    assert sd.Release.from_dict(release.to_dict()).query("SELECT region, year, n FROM answer").rows == answer.rows


def test_a_released_column_keeps_its_interval(release: Any) -> None:
    ordered = release.query("SELECT region, n AS rows, year, total / 2 AS half FROM answer ORDER BY rows")
    own = {(row["region"], row["year"]): row for row in release.interval(0.9).to_pylist()}
    shown = ordered.interval(0.9).to_pylist()
    assert len(shown) == 16
    for row in shown:
        expected = own[row["region"], row["year"]]
        assert (row["rows_lower"], row["rows_upper"]) == (expected["n_lower"], expected["n_upper"])
        low, high = (
            own[row["region"], row["year"]]["total_lower"] / 2,
            own[row["region"], row["year"]]["total_upper"] / 2,
        )
        assert (row["half_lower"], row["half_upper"]) == (
            pytest.approx(low, abs=(high - low) / 4),
            pytest.approx(high, abs=(high - low) / 4),
        )
    # Of rows that were chosen by their noise, the intervals of all 16 hold together.
    wider = {(row["region"], row["year"]): row["n_lower"] for row in release.interval(1 - 0.1 / 16).to_pylist()}
    for text in (
        "SELECT region, year, n FROM answer ORDER BY n DESC LIMIT 3",
        "SELECT region, year, n FROM answer WHERE n > 30",
        "SELECT region, year, n FROM answer WHERE year > 2020 QUALIFY RANK() OVER (ORDER BY n) < 4",
        "SELECT region, year, n FROM (SELECT * FROM answer ORDER BY 3 LIMIT 4) AS few",
    ):
        chosen = release.query(text).interval(0.9).to_pylist()
        assert chosen, text
        assert all(row["n_lower"] == wider[row["region"], row["year"]] for row in chosen), text
    # A limit of as many rows as there are leaves none out.
    full = release.query("SELECT region, year, n FROM answer ORDER BY n DESC LIMIT 16").interval(0.9).to_pylist()
    assert all(row["n_lower"] == own[row["region"], row["year"]]["n_lower"] for row in full)
    # What is made of several rows that are not told apart has none.
    for text in (
        "SELECT region, MAX(n) AS n FROM answer GROUP BY region",
        "SELECT region, year, n FROM answer UNION ALL SELECT region, year, total FROM answer",
    ):
        assert {row["n_lower"] for row in release.query(text).interval(0.9).to_pylist()} == {None}, text


@pytest.mark.parametrize("answers", [6, pytest.param(200, marks=pytest.mark.deep)])
def test_computed_columns_cover_the_truth(people: Any, answers: int) -> None:
    """At 80%, within four deviations: of the 24 sums of 4 regions in 6 answers 12 or more are covered, 595 to 685 of 800."""
    years = people.group_by("region", "year").agg(n=sd.count())
    by_region = "SELECT region, SUM(n) AS n FROM answer GROUP BY region"
    exact = people.ask(years, epsilon=10_000).query(by_region)
    truth = {row["region"]: row["n"] for row in exact.rows}
    covered = 0
    for _ in range(answers):
        sums = people.ask(years, epsilon=1).query(by_region)
        ends = sums.interval(0.8)
        covered += sum(row["n_lower"] <= truth[row["region"]] <= row["n_upper"] for row in ends.to_pylist())
    assert sd.Release.from_dict(json.loads(sums.to_json())).interval(0.8) == ends
    assert abs(covered - 3.2 * answers) < 4 * (0.64 * answers) ** 0.5


def test_what_noise_chose_has_no_interval_and_says_why(people: Any) -> None:
    """Rows that a threshold or HAVING chose are no fixed ones."""
    some = people.ask(people.group_by("region", "year").agg(n=sd.count()).having(col("n") > 20), epsilon=1)
    for text in ("SELECT SUM(n) AS n FROM answer", "SELECT COUNT(*) AS n FROM answer"):
        answer = some.query(text)
        assert answer.interval(0.9) == (None, None), text
        assert "no interval" in str(answer), text
    halves = some.query("SELECT region, year, n / 2 AS n FROM answer").interval(0.9)
    assert {row["n_lower"] for row in halves.to_pylist()} == {None}


def test_sums_over_private_keys_have_no_interval() -> None:
    """What a threshold hides is missing from them, by how much follows from the data."""
    towns = sd.protect(
        pa.table({"town": [f"town {i % 9}" for i in range(900)], "age": [i % 90 for i in range(900)]}),
        domain=sd.Domain({"town": sd.Identifier(), "age": sd.Integer(0, 90)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ApproxDP(10, 1e-3),
        ledger=None,
        rng=sd.Rng.seeded(2),
    )
    shown = towns.ask(towns.group_by("town").agg(n=sd.count(), total=sd.sum("age")), epsilon=1, delta=1e-6)
    assert shown.query("SELECT SUM(total) AS s FROM answer").interval(0.9) == (None, None)
    assert "private keys" in str(shown.query("SELECT SUM(total) AS s FROM answer"))
    halves = shown.query("SELECT town, total / 2 AS half FROM answer").interval(0.9).to_pylist()
    assert all(row["half_lower"] < row["half_upper"] for row in halves)


@pytest.mark.deep
def test_rows_of_a_statement_keep_their_own_intervals_in_another_order(people: Any) -> None:
    text = "SELECT region, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY region"
    statement = people.ask(sd.sql(text), epsilon=1)
    own = {row["region"]: row["share_lower"] for row in statement.interval(0.9).to_pylist()}
    for order in ("ASC", "DESC"):
        turned = statement.query(f"SELECT region, share FROM answer ORDER BY region {order}")
        assert {row["region"]: row["share_lower"] for row in turned.interval(0.9).to_pylist()} == own
        again = sd.Release.from_dict(json.loads(turned.to_json()))
        assert again.interval(0.9) == turned.interval(0.9)


def test_answers_of_one_row_and_of_statements_can_be_queried(people: Any) -> None:
    one = people.ask(sd.count().alias("n"), epsilon=1)
    assert one.query("SELECT n FROM answer").interval(0.95) == one.interval(0.95)
    assert one.query("SELECT n + 1 AS more FROM answer").value == one.value + 1
    statement = people.ask(
        sd.sql("SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*)) AS place FROM visits GROUP BY region"),
        epsilon=1,
    )
    again = statement.query("SELECT region, n, place FROM answer ORDER BY place")
    assert sorted(map(str, again.rows)) == sorted(map(str, statement.rows))
    assert again.query("SELECT MAX(place) FROM answer").value == 4


def test_moments_are_those_of_their_own_clock(people: Any) -> None:
    months = people.ask(people.group_by(col("begin").truncate("month")).agg(n=sd.count()), epsilon=1)
    answer = months.query("SELECT begin, MONTH(begin) AS month, HOUR(begin) AS hour, n FROM answer")
    assert [row["month"] for row in answer.rows] == [1, 2, 3]
    assert {row["hour"] for row in answer.rows} == {0}
    assert [row["begin"] for row in answer.rows] == [row["begin"] for row in months.rows]
    text = "SELECT DATE_TRUNC('month', begin) AS month, SUM(COUNT(*)) OVER () AS n FROM visits GROUP BY 1 ORDER BY 1"
    assert people.ask(sd.sql(text), epsilon=1).rows[1]["month"] == datetime.datetime(2024, 2, 1)


def test_days_and_truths_keep_their_types(people: Any) -> None:
    release = people.ask(
        people.group_by("member", col("day").truncate("month").alias("month")).agg(n=sd.count()), epsilon=1
    )
    answer = release.query("SELECT month, member, month + INTERVAL 1 DAY AS next, n FROM answer WHERE member")
    assert answer.table.column("month").type == pa.date32()
    assert answer.table.column("next").type == pa.timestamp("us")
    assert [row["member"] for row in answer.rows] == [True] * 3
    shown = release.query("SELECT month, member, n FROM answer").table.schema
    assert {f.name: f.type for f in shown} == {f.name: f.type for f in release.table.schema}


def test_what_has_no_table_is_refused(people: Any) -> None:
    with pytest.raises(QuestionRefused, match="no table"):
        people.find_bounds("amount", epsilon=1).query("SELECT * FROM answer")
    with pytest.raises(QuestionRefused, match="takes SQL"):
        people.ask(sd.count(), epsilon=1).query(sd.sql("SELECT 1"))


def test_a_made_up_answer_stays_one(people: Any) -> None:
    practice = people.ask(people.group_by("region").agg(n=sd.count()), epsilon=1, on="dummy")
    assert practice.query("SELECT region, n FROM answer").practice


def test_what_takes_too_long_is_refused_and_costs_nothing(release: Any) -> None:
    many = ", ".join(f"answer a{i}" for i in range(7))
    with pytest.raises(QuestionRefused, match="passes a limit"):
        release.query(f"SELECT a0.n FROM {many}")
