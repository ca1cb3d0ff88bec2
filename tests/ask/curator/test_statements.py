"""Statements around private questions: their answers are those of SQL, at the price of their blocks, and nothing else is read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from sordino.ask.curator.question_reading import determines
from sordino.ask.curator.statement_procedure import StatementProcedure
from sordino.ask.engines import outer
from sordino.errors import QuestionRefused, UnknownName

VISITS = sd.Domain(
    {
        "person": sd.Identifier(),
        "member": sd.Boolean(),
        "store": sd.Category(["north", "south", "west"]),
        "amount": sd.Integer(0, 100),
        "year": sd.Integer(2018, 2024),
    }
)
# Each is written by us in the style of a dashboard, a report or a textbook.
FREE = [
    "SELECT AVG(n) FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) AS t",
    "SELECT MAX(n) AS most, MIN(n) AS least FROM (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) AS t",
    "SELECT MEDIAN(n) AS middle FROM (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) AS t",
    "SELECT year, n, n - LAG(n) OVER (ORDER BY year) AS change FROM"
    " (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) t ORDER BY year",
    "SELECT year, SUM(COUNT(*)) OVER (ORDER BY year) AS running FROM visits GROUP BY year ORDER BY year",
    "SELECT store, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY store",
    "SELECT store, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY store",
    "SELECT store, COUNT(*) AS n, SUM(amount) AS total, ROW_NUMBER() OVER (ORDER BY SUM(amount) DESC) AS place"
    " FROM visits GROUP BY store ORDER BY place",
    "WITH a AS (SELECT store, COUNT(*) n FROM visits GROUP BY store),"
    " b AS (SELECT store, AVG(amount) v FROM visits GROUP BY store)"
    " SELECT a.store, a.n, b.v FROM a JOIN b ON a.store = b.store",
    "WITH t AS (SELECT year, COUNT(*) AS n FROM visits GROUP BY year)"
    " SELECT now.year, now.n - past.n AS more FROM t AS now JOIN t AS past ON now.year = past.year + 1 ORDER BY now.year",
    "SELECT UPPER(store) AS name, COUNT(*) AS n FROM visits GROUP BY store",
    "SELECT store || ' store' AS label, COUNT(*) FROM visits GROUP BY store",
    "SELECT CASE WHEN COUNT(*) > 100 THEN 'many' ELSE 'few' END AS size, store FROM visits GROUP BY store",
    "SELECT store, member, COUNT(*) AS n FROM visits GROUP BY ROLLUP(store, member)",
    "SELECT store, member, SUM(amount) AS n FROM visits GROUP BY CUBE(store, member)",
    "SELECT store, year, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((store), (year), ())",
    "SELECT store, COUNT(*) AS n FROM visits GROUP BY store UNION ALL SELECT 'all', COUNT(*) FROM visits",
    "SELECT (SELECT COUNT(*) FROM visits WHERE member) * 1.0 / (SELECT COUNT(*) FROM visits) AS share",
    "SELECT store, COUNT(*) AS n FROM visits GROUP BY store HAVING COUNT(*) >"
    " (SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY store) q)",
    "SELECT store, COUNT(*) AS n FROM visits GROUP BY store QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) = 1",
    "SELECT store, AVG(amount) - (SELECT AVG(amount) FROM visits) AS apart FROM visits GROUP BY store",
    "SELECT store, NTILE(2) OVER (ORDER BY COUNT(*)) AS half FROM visits GROUP BY store",
    "WITH old AS (SELECT * FROM visits WHERE year < 2021)"
    " SELECT store, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM old GROUP BY store",
    "SELECT COUNT(*) AS stores FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) t WHERE n > 10",
    "SELECT store, year, n, FIRST_VALUE(n) OVER (PARTITION BY store ORDER BY year) AS first FROM"
    " (SELECT store, year, COUNT(*) AS n FROM visits GROUP BY store, year) t ORDER BY store, year",
    "SELECT store, ROUND(SUM(amount) * 100.0 / SUM(SUM(amount)) OVER (), 1) AS pct FROM visits GROUP BY 1 ORDER BY 2 DESC",
    "SELECT year % 2 = 0 AS even, SUM(n) AS n FROM (SELECT year, COUNT(*) AS n FROM visits GROUP BY year) t GROUP BY 1",
    "SELECT *, n + 1 AS more FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) t",
    "SELECT *, n AS same FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) t",
    "WITH t AS (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) SELECT t.*, t.n AS same FROM t",
    "SELECT * FROM (SELECT store, member, COUNT(*) AS n FROM visits GROUP BY store, member) t"
    " PIVOT (SUM(n) FOR member IN (TRUE, FALSE)) ORDER BY store",
    "WITH t(n, total) AS (SELECT SUM(amount) AS total, COUNT(*) AS n FROM visits) SELECT n, total FROM t",
    "SELECT store, n FROM (SELECT SUM(amount) AS total, COUNT(*) AS n, store FROM visits GROUP BY store) AS t(n, total, store)",
    "WITH t AS (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) SELECT store, n FROM (t)",
    "SELECT STDDEV_POP(n) AS spread FROM (SELECT year, SUM(amount) AS n FROM visits GROUP BY year) t",
]
REFUSED = [
    "SELECT * FROM duckdb_settings()",
    "SELECT store, COUNT(*) FROM visits GROUP BY store UNION ALL SELECT current_setting('memory_limit'), 1",
    "SELECT store, RANDOM() AS r, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT * FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) t, read_csv('/etc/passwd')",
    "SELECT * FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) t JOIN '/etc/passwd' p ON true",
    "SELECT amount, RANK() OVER (ORDER BY amount) FROM visits",
    "SELECT store, amount - AVG(amount) OVER (PARTITION BY store) FROM visits",
    "WITH RECURSIVE a AS (SELECT COUNT(*) AS n FROM visits UNION ALL SELECT n + 1 FROM a) SELECT * FROM a",
    "SELECT n FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) a,"
    " LATERAL (SELECT COUNT(*) AS k FROM visits WHERE amount > a.n) b",
    "SELECT REPEAT('x', COUNT(*)) AS text, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT query('SELECT 1'), RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT MAX(amount) - MIN(amount), RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT store, CURRENT_USER AS who, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT store, TIME '10:00' AS t, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT store, [COUNT(*)] AS l, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT nothing, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "SELECT SPACE(COUNT(*)) AS text, RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY store",
    "WITH a AS (SELECT * FROM sqlite_master), sqlite_master AS (SELECT COUNT(*) AS n FROM visits) SELECT * FROM a",
    "WITH tables AS (SELECT COUNT(*) AS n FROM visits) SELECT * FROM tables, information_schema.tables",
    "SELECT store, COUNT(*) \ud800 FROM visits GROUP BY store",
    "SELECT store, COUNT(*) AS n, '\ud800' AS t, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY store",
]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    draw = random.Random(7)
    cells = [
        (
            f"p{person}",
            draw.random() < 0.6,
            draw.choice(["north", "south", "south", "west"]),
            draw.randint(0, 100),
            year,
        )
        for person in range(300)
        for year in draw.sample(range(2018, 2025), draw.randint(1, 5))
    ]
    return pa.table({name: [row[i] for row in cells] for i, name in enumerate(VISITS.stored)})


def open_visits(rows: pa.Table, *, budget: int = 10**7, ledger: Path | None = None) -> Any:
    return sd.protect(
        rows,
        domain=VISITS,
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("person", max_rows=5),
        budget=sd.PureDP(budget),
        ledger=ledger,
        name="visits",
    )


def cells_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def is_near(cell: Any, other: Any) -> bool:
    if cell is None or other is None or isinstance(other, (str, bool)):
        return bool(cell == other)
    return abs(float(cell) - float(other)) <= 0.005 * max(1.0, abs(float(other)))


def answer_and_duckdb(held: Any, text: str, **tables: pa.Table) -> tuple[list[Any], list[Any]]:
    """Return the rows of the answer, and those of DuckDB over the tables; their columns have the same names."""
    release = held.ask(sd.sql(text), epsilon=900_000)
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    expected = connection.sql(text)
    assert list(release.columns) == expected.columns
    return cells_of(release.table), [tuple(row) for row in expected.fetchall()]


@pytest.mark.each(38)
@pytest.mark.parametrize("text", FREE)
def test_answers_are_those_of_duckdb(rows: pa.Table, text: str) -> None:
    """At an epsilon of 100,000 a block, in values, names and, where ORDER BY says so, order."""
    answer, right = answer_and_duckdb(open_visits(rows), text, visits=rows)
    assert len(answer) == len(right)
    if "ORDER BY" in text.rsplit(")", 1)[-1]:
        assert all(all(map(is_near, row, other)) for row, other in zip(answer, right, strict=True)), (answer, right)
    for other in right:
        match = next((row for row in answer if all(map(is_near, row, other))), None)
        assert match is not None, (other, answer)
        answer.remove(match)


@pytest.mark.parametrize("text", REFUSED)
def test_what_reads_anything_but_answers_is_refused_and_costs_nothing(rows: pa.Table, text: str) -> None:
    visits = open_visits(rows)
    with pytest.raises((QuestionRefused, UnknownName)):
        visits.ask(sd.sql(text), epsilon=1)
    assert visits.spent == sd.PureDP(0) or visits.spent.amounts()["epsilon"] == 0


@pytest.mark.deep
def test_blocks_share_the_loss_and_equal_ones_are_asked_once(rows: pa.Table) -> None:
    visits = open_visits(rows)
    two = visits.plan(sd.sql(FREE[8]), epsilon=1)
    assert two.cost == sd.PureDP(1)
    assert [plan.cost for plan in two.procedure.plans] == [sd.PureDP("0.5"), sd.PureDP("0.5")]
    again = visits.plan(sd.sql(FREE[9]), epsilon=1)
    assert isinstance(again.procedure, StatementProcedure)
    assert len(again.procedure.plans) == 1
    visits.ask(two)
    assert visits.spent == sd.PureDP(1)


@pytest.mark.deep
def test_a_text_of_another_dialect_runs_nothing_after_it(rows: pa.Table) -> None:
    # BigQuery's \\' is a quote within a string, and DuckDB's ends it.
    hidden = (
        "SELECT 'x\\'); CREATE MACRO max(x) AS 42; SELECT (1 --' AS t, store, RANK() OVER (ORDER BY COUNT(*)) AS place"
    )
    other = (
        "SELECT 'x\\'; CREATE MACRO max(x) AS 42; SELECT 1 --' AS t, store, RANK() OVER (ORDER BY COUNT(*)) AS place"
    )
    most = sd.sql("SELECT MAX(n) AS most FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) AS t")
    visits = open_visits(rows)
    for text in (hidden, other):
        visits.ask(sd.sql(f"{text} FROM visits GROUP BY store", dialect="bigquery"), epsilon=1)
    assert visits.ask(most, epsilon=1000).value > 100


def test_columns_without_a_name_are_named_after_the_statement_in_duckdbs_sql(rows: pa.Table) -> None:
    text = "SELECT 'it\\'s' AS t, COUNT(*), RANK() OVER (ORDER BY COUNT(*)) AS place FROM visits GROUP BY store"
    answer = open_visits(rows).ask(sd.sql(text, dialect="bigquery"), epsilon=1)
    assert list(answer.rows[0]) == ["t", "count_star()", "place"]


def test_the_instance_around_questions_takes_one_statement() -> None:
    with pytest.raises(QuestionRefused, match="one SELECT"):
        outer.describe("SELECT 1 AS one; CREATE MACRO max(x) AS 42", {})


def test_rho_and_delta_are_shared_too(rows: pa.Table) -> None:
    visits = sd.protect(
        rows,
        domain=VISITS,
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("person", max_rows=5),
        budget=sd.ZCDP(10, slack="1e-6"),
        ledger=None,
        name="visits",
    )
    plan = visits.plan(sd.sql(FREE[8]), rho="0.5")
    assert plan.cost.amounts()["rho"] == sd.ZCDP("0.5").rho
    visits.ask(plan)


def test_a_released_column_keeps_its_interval_and_a_computed_one_has_none(rows: pa.Table) -> None:
    text = "SELECT store, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY store ORDER BY place"
    visits = open_visits(rows)
    plan = visits.plan(sd.sql(text), epsilon=1)
    release = visits.ask(plan)
    ends = release.interval(0.95).to_pylist()
    assert all(row["n_lower"] < value["n"] < row["n_upper"] for row, value in zip(ends, release.rows, strict=True))
    assert all(row["place_lower"] is None for row in ends)
    assert plan.error(0.95)["n"] > 0
    assert plan.error(0.95)["place"] is None
    # Of rows that noisy values chose, the intervals of all groups hold together, in the plan as in the answer.
    some = sd.sql(text.replace(" ORDER BY place", " QUALIFY place < 3 ORDER BY place"))
    selected = visits.ask(some, epsilon=1)
    ends = selected.interval(0.95).to_pylist()
    every = release.interval(1 - 0.05 / 3).to_pylist()
    assert {row["n_upper"] - row["n_lower"] for row in ends} == {row["n_upper"] - row["n_lower"] for row in every}
    assert visits.plan(some, epsilon=1).error(0.95)["n"] == plan.error(1 - 0.05 / 3)["n"]
    assert any("chose these rows" in note for note in selected.notes)


@pytest.mark.parametrize("answers", [10, pytest.param(200, marks=pytest.mark.deep)])
def test_intervals_of_the_largest_of_many_equal_counts_cover_them(answers: int) -> None:
    """Alone at 80%, the largest of 40 equal counts is within its interval in .9^40 of answers, 1.5%; together in 8 of 10."""
    equal = pa.table({"shop": [f"s{i % 40:02}" for i in range(4000)]})
    shops = sd.protect(
        equal,
        domain=sd.Domain({"shop": sd.Category([f"s{i:02}" for i in range(40)])}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**6),
        ledger=None,
        rng=sd.Rng.seeded(8),
        name="shops",
    )
    ranked = "SELECT shop, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM shops GROUP BY shop"
    top = f"SELECT shop, n FROM ({ranked}) AS t WHERE r < 2"
    covered = 0
    for _ in range(answers):
        shown = shops.ask(sd.sql(top), epsilon=1).to_arrow(intervals=True, confidence=0.8).to_pylist()
        covered += all(row["n_lower"] <= 100 <= row["n_upper"] for row in shown)
    # 8 of 10 or more are expected, within three deviations: at least 5 of 10, 143 of 200.
    assert covered >= 0.8 * answers - 3 * (0.16 * answers) ** 0.5


def test_it_is_stored_and_read_again_and_a_request_is_answered_once(rows: pa.Table, tmp_path: Path) -> None:
    visits = open_visits(rows, ledger=tmp_path / "budget.ledger")
    question = sd.sql(FREE[5])
    first = visits.ask(question, epsilon=1, request_id="one")
    again = visits.ask(question, epsilon=1, request_id="one")
    assert again.rows == first.rows
    assert visits.spent == sd.PureDP(1)
    assert sd.Release.from_dict(json.loads(first.to_json())).to_json() == first.to_json()
    assert visits.release(first.charge).rows == first.rows


def test_what_noise_makes_impossible_is_missing(rows: pa.Table) -> None:
    release = open_visits(rows).ask(
        sd.sql(
            "SELECT store, LN(COUNT(*) - 1000000) AS l, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY store"
        ),
        epsilon=10,
    )
    assert [row["l"] for row in release.rows] == [None, None, None]


def test_no_variable_of_the_caller_is_a_table(rows: pa.Table) -> None:
    secret = pa.table({"x": [1]})
    assert secret.num_rows == 1
    with pytest.raises(QuestionRefused):
        open_visits(rows).ask(
            sd.sql("SELECT a.n FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) a JOIN secret ON true"),
            epsilon=1,
        )


STORES = pa.table({"store": ["north", "south", "west"], "city": ["Oslo", "Rome", None], "area": [10.5, 20.0, 40.25]})
WITH_PUBLIC = [
    "SELECT * FROM stores ORDER BY area",
    "SELECT city, SUM(area) AS area FROM stores GROUP BY city",
    "SELECT s.city, t.n / s.area AS density FROM (SELECT store, COUNT(*) AS n FROM visits GROUP BY store) t"
    " JOIN stores s ON s.store = t.store",
    "SELECT store, COUNT(*) / (SELECT SUM(area) FROM stores) AS density, RANK() OVER (ORDER BY COUNT(*)) AS place"
    " FROM visits GROUP BY store",
    "SELECT COUNT(*) AS n FROM visits WHERE amount > (SELECT 2 * AVG(area) FROM stores)",
    "SELECT COUNT(*) AS n FROM visits WHERE store IN (SELECT store FROM stores WHERE area > 15)",
    "WITH big AS (SELECT store FROM stores WHERE area > 15), t AS (SELECT store, COUNT(*) AS n FROM visits GROUP BY store)"
    " SELECT t.store, n FROM t JOIN big USING (store)",
]


@pytest.mark.each(5)
@pytest.mark.parametrize("text", WITH_PUBLIC)
def test_public_tables_are_read_outside_of_the_blocks_for_free(rows: pa.Table, text: str) -> None:
    domain = sd.Domain(
        {
            "store": sd.Category(["north", "south", "west"]),
            "city": sd.Category(["Oslo", "Rome"]),
            "area": sd.Real(0, 100, resolution="0.01"),
        }
    )
    visits = sd.protect(
        rows,
        domain=VISITS,
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("person", max_rows=5),
        budget=sd.PureDP(10**7),
        ledger=None,
        name="visits",
        public={"stores": sd.public(STORES, key="store", columns=domain)},
    )
    answer, right = answer_and_duckdb(visits, text, visits=rows, stores=STORES)
    for other in right:
        match = next((row for row in answer if all(map(is_near, row, other))), None)
        assert match is not None, (other, answer)
        answer.remove(match)
    assert not answer
    assert (visits.spent == sd.PureDP(0)) == ("visits" not in text)


def test_a_released_group_without_rows_is_said_where_groups_are_combined(rows: pa.Table) -> None:
    said = "what is computed across groups takes in every declared key, also one without rows, whose count is noise around 0"
    visits = open_visits(rows)
    assert said in visits.plan(sd.sql(FREE[0]), epsilon=1).notes
    assert said not in visits.plan(sd.sql(FREE[9]), epsilon=1).notes


def test_truths_of_aggregates_are_truths(rows: pa.Table) -> None:
    text = "SELECT store, COUNT(*) > 300 AS many FROM visits GROUP BY store"
    answer, right = answer_and_duckdb(open_visits(rows), text, visits=rows)
    assert sorted(answer) == sorted(right)
    assert {type(row[1]) for row in answer} == {bool}


def test_weights_share_the_loss_of_the_private_questions(rows: pa.Table) -> None:
    visits = open_visits(rows)
    plan = visits.plan(sd.sql(FREE[8]), epsilon=1, weights=[3, 1])
    assert [part.cost for part in plan.procedure.plans] == [sd.PureDP("0.75"), sd.PureDP("0.25")]
    assert plan.cost == sd.PureDP(1)
    assert plan.identity() != visits.plan(sd.sql(FREE[8]), epsilon=1).identity()
    assert "epsilon 0.75 for" in plan.notes[-1]
    visits.ask(plan)
    with pytest.raises(sd.errors.DeclarationError, match="2 private questions: state one weight for each, not 3"):
        visits.plan(sd.sql(FREE[8]), epsilon=1, weights=[3, 1, 1])


def test_a_hint_weighs_the_private_questions_of_its_select(rows: pa.Table) -> None:
    visits = open_visits(rows)
    text = "SELECT (SELECT /*+ WEIGHT(3) */ COUNT(*) FROM visits WHERE member) * 1.0 / (SELECT COUNT(*) FROM visits) AS share"
    plan = visits.plan(sd.sql(text), epsilon=1)
    costs = {"member" in part.question.describe(): part.cost for part in plan.procedure.plans}
    assert costs == {True: sd.PureDP("0.75"), False: sd.PureDP("0.25")}
    assert plan.identity() != visits.plan(sd.sql(text.replace("/*+ WEIGHT(3) */", "")), epsilon=1).identity()
    assert (
        plan.identity()
        == visits.plan(sd.sql(text.replace("/*+ WEIGHT(3) */", "")), epsilon=1, weights=[1, 3]).identity()
    )
    visits.ask(plan)
    for wrong, words in (
        (text.replace("WEIGHT(3)", "WEIGHT(0)"), "above 0"),
        (text.replace("WEIGHT(3)", "MAX_ROWS(2)"), "go with one question"),
        (text.replace(" WHERE member", ""), "give them one weight"),
    ):
        with pytest.raises(QuestionRefused, match=words):
            visits.plan(sd.sql(wrong), epsilon=1)


@pytest.mark.each(2)
@pytest.mark.parametrize("weights", [None, [1, 5], [3, 1]])
def test_what_is_answered_from_declarations_alone_takes_no_share(rows: pa.Table, weights: list[int] | None) -> None:
    """Declared keys cost nothing, so the question beside them has the whole loss and the error of it."""
    listed = "(SELECT DISTINCT store FROM visits) t"
    text = f"SELECT STRING_AGG(store, ',') AS stores, (SELECT COUNT(*) FROM visits) AS n FROM {listed}"
    visits = open_visits(rows)
    plan = visits.plan(sd.sql(text), epsilon=1, weights=weights)
    assert plan.cost == sd.PureDP(1)
    assert "epsilon 1 for the number of rows" in plan.describe()
    assert "nothing for which keys there are" in plan.describe()
    visits.ask(sd.sql(text), epsilon=1, weights=weights)
    assert visits.spent == sd.PureDP(1)


def test_a_statement_of_declared_keys_alone_costs_nothing(rows: pa.Table) -> None:
    visits = open_visits(rows)
    release = visits.ask(
        sd.sql("SELECT UPPER(store) AS s FROM (SELECT DISTINCT store FROM visits) t ORDER BY s"), epsilon=1
    )
    assert release.table.column("s").to_pylist() == ["NORTH", "SOUTH", "WEST"]
    assert visits.spent == sd.PureDP(0)


@pytest.mark.parametrize("given", [("x",), ("x", "y"), ("y",)])
def test_columns_determine_another_where_no_two_rows_say_otherwise(given: tuple[str, ...]) -> None:
    """Against the definition: pairs of rows, among them one without a match, that agree in the columns agree in z."""
    draw = random.Random(5)
    found = []
    for _ in range(300):
        table = [[draw.choice([None, "a", "b"]) for _ in "xyz"] for _ in range(draw.randrange(5))]
        made = pa.table({name: pa.array([row[i] for row in table], pa.string()) for i, name in enumerate("XYZ")})
        every = [*(dict(zip("xyz", row, strict=True)) for row in table), dict.fromkeys("xyz")]
        pairs = [(one, other) for one in every for other in every if all(one[name] == other[name] for name in given)]
        found.append(all(one["z"] == other["z"] for one, other in pairs))
        assert determines({"t": made}, "t", given, "z") == found[-1]
    assert True in found
    assert False in found
