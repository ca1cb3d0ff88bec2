"""Every kind of question of a table on Spark has the answer that it has of the same rows in DuckDB, with the same noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import sordino as sd
from ask.engines.test_postgres_questions import (
    AGES,
    DOMAINS,
    KINDS,
    OF_BOTH,
    OF_DAYS,
    OF_MOMENTS,
    PEOPLE,
    PUBLIC,
    QUESTIONS,
    QUOTIENTS,
    TAGS,
    UNITS,
    VISITS,
    content,
)
from protecting import protect
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.errors import QuestionRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


S = Selection()
ASKED: dict[str, Callable[[sd.Curator], Any]] = {
    "bounds": lambda visits: visits.find_bounds("cost", epsilon=50).value,
    "contributions": lambda visits: visits.find_contribution_bounds(by="day", epsilon=50).value,
    "most common": lambda visits: visits.ask(sd.most_common(col("day").month()), epsilon=50).value,
    "synthetic": lambda visits: sd.synth.fit(visits, columns=["cost", "day"], epsilon=50).answer(sd.count()).value,
    "keys": lambda visits: content(
        visits.ask(
            S.group_by("kind", keys="weighted").agg(sd.count(), sd.sum("cost"), sd.median("cost")),
            epsilon=50,
            delta=1e-6,
        )
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of people and of visits in a DuckDB file and in Parquet files."""
    place = tmp_path_factory.mktemp("same")
    with duckdb.connect(str(place / "people.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people AS {PEOPLE}")
        connection.execute(f"CREATE TABLE visits AS {VISITS.format(tags=TAGS['duckdb'])}")
        for table in DOMAINS:
            connection.execute(f"COPY {table} TO '{place / table}.parquet'")
    return place


@pytest.fixture(scope="module")
def both(folder: Path, spark: SparkSession) -> list[sd.Connection]:
    """The same two tables of the same people in DuckDB and on Spark."""
    there = {"people": str(folder / "people.duckdb"), "visits": str(folder / "people.duckdb")}
    frames = {table: spark.read.parquet(str(folder / f"{table}.parquet")) for table in DOMAINS}
    return [
        sd.protect(
            source,
            domain=DOMAINS,
            neighbors="add_remove",
            privacy_unit=UNITS,
            budget=sd.ApproxDP(10**9, "0.9"),
            ledger=None,
            relation={table: table for table in DOMAINS} if source is there else None,
            rng=sd.Rng.seeded(7),
            public={"regions": PUBLIC, "kinds": KINDS, "ages": AGES},
        )
        for source in (there, frames)
    ]


def seed(connection: sd.Connection, number: int) -> sd.Connection:
    for table in DOMAINS:
        connection.table(table)._rng = sd.Rng.seeded(number)
    return connection


def rarely(cases: Sequence[Any], often: Sequence[int]) -> list[Any]:
    """Return the cases, all but a few of them for the deep run: each takes Spark half a second of planning."""
    return [pytest.param(case, marks=() if at in often else pytest.mark.deep) for at, case in enumerate(cases)]


@pytest.mark.parametrize("question", rarely(QUESTIONS, [0]))
def test_each_question_has_the_answer_of_duckdb(question: str, both: list[sd.Connection]) -> None:
    found = []
    for one in both:
        release = seed(one, 7).ask(sd.sql(question), epsilon=200, delta="1e-9")
        assert isinstance(release, sd.Release)
        found.append(content(release))
    assert found[0] == found[1]
    assert found[0]["rows"]


@pytest.mark.parametrize("key", rarely([*QUOTIENTS, *OF_DAYS, *OF_MOMENTS, *OF_BOTH], []))
def test_keys_of_days_and_moments_are_those_of_duckdb_where_rows_are_units(
    key: str, folder: Path, spark: SparkSession
) -> None:
    frame = spark.read.parquet(str(folder / "visits.parquet"))
    found = []
    for source in (folder / "visits.parquet", frame):
        visits = protect(source, DOMAINS["visits"], budget=sd.PureDP(10**6), name="visits")
        found.append(
            content(
                visits.ask(
                    sd.sql(f"SELECT {key} AS k, COUNT(*) FROM visits GROUP BY k", dialect="postgres"), epsilon=10**5
                )
            )
        )
        visits.close()
    assert found[0] == found[1]
    assert found[0]["rows"]


@pytest.mark.parametrize("name", rarely(list(ASKED), [1]))
def test_what_is_asked_in_python_has_the_answer_of_duckdb(name: str, both: list[sd.Connection]) -> None:
    one, other = (ASKED[name](seed(held, 7).table("visits")) for held in both)
    assert one == other


@pytest.mark.deep
def test_a_session_and_a_sample_are_answered(both: list[sd.Connection]) -> None:
    held = both[1]
    with held.table("people").above_threshold(count=1, epsilon=50) as session:
        assert session.above(sd.count(), threshold=100)
    sampled = held.table("people").ask(S.sample("1/2").agg(sd.count(), sd.median("age")), epsilon=50, delta="1e-9")
    assert 130 < sampled.rows[0]["count"] < 270  # of 400: a false alarm in 10^12
    robust = held.table("people").ask(
        sd.sample_and_aggregate("median", "age", chunks=20, default=0), epsilon=50, delta="1e-9"
    )
    assert 20 < robust.value < 80


def test_rows_that_are_alike_are_sampled_one_by_one(spark: SparkSession) -> None:
    rows = protect(spark.range(4000).selectExpr("1 AS n"), sd.Domain({"n": sd.Integer(0, 1)}))
    found = rows.ask(S.sample("1/4").agg(sd.count(), sd.median("n")), epsilon=50).rows[0]["count"]
    assert 800 < found < 1200
    rows.close()


def test_a_table_elsewhere_is_not_joined(folder: Path, spark: SparkSession) -> None:
    held = sd.protect(
        {"people": spark.read.parquet(str(folder / "people.parquet")), "visits": str(folder / "people.duckdb")},
        domain=DOMAINS,
        neighbors="add_remove",
        privacy_unit=UNITS,
        budget=sd.PureDP(10),
        ledger=None,
        relation={"visits": "visits"},
    )
    for text in (
        "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM visits WHERE visits.id = people.id)",
        "SELECT COUNT(*) FROM visits JOIN people USING (id)",
    ):
        for attempt in (held.plan, held.ask):
            with pytest.raises(QuestionRefused, match="lies elsewhere"):
                attempt(sd.sql(text), epsilon=1)
    assert held.budgets()[0].spent.amounts() == {"epsilon": 0}


@pytest.mark.deep
def test_the_data_are_compared_with_the_declaration(folder: Path, spark: SparkSession) -> None:
    spark.read.parquet(str(folder / "people.parquet")).createOrReplaceTempView("people_of_a_view")
    domain = sd.Domain({"age": sd.Integer(0, 50), "region": sd.Category(["North", "SOUTH"]), "id": sd.Real(0, 1)})
    found = sd.check_against_data("spark:people_of_a_view", domain=domain)
    counts = found.columns
    assert (found.rows, counts["age"].above, counts["age"].below) == (400, 184, 0)
    assert (counts["region"].undeclared, counts["region"].other_case, counts["region"].missing) == (200, 100, 100)
    assert counts["id"].unreadable == 400
    # Spark keeps no order of rows
    assert counts["age"].first == ()
