"""Spark gives the exact answers that DuckDB gives, through Parquet files that both read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import sordino as sd
from ask.engines.support import engine_of
from ask.engines.test_postgres import (
    CELLS,
    PEOPLE,
    QUESTIONS,
    S,
    exact_lines,
    exact_model_vectors,
    exact_parts,
    run_section,
)
from sordino import col
from sordino.ask.engines.spark import SparkEngine
from sordino.ask.project.proposal import propose_project
from sordino.ask.queries.aggregation import compile_query
from sordino.core.neighbors import ContributionBounds, PrivacyUnit
from sordino.core.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5,000 rows in two Parquet files."""
    folder = tmp_path_factory.mktemp("people")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE people AS {CELLS}")
        for part in (0, 1):
            name = folder / f"part-{part}.parquet"
            connection.execute(f"COPY (SELECT * FROM people WHERE age % 2 = {part}) TO '{name}'")
    return folder


def spark_engine(place: Path, domain: Any, *, unit: Any = None) -> SparkEngine:
    return SparkEngine(Source(str(place), "parquet", engine="spark"), domain=domain, unit=unit)


@pytest.mark.deep
def test_the_page_about_engines_is_true(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(500).selectExpr("CAST(id % 80 AS INT) AS age", "'North' AS region")
    rows.write.parquet(str(tmp_path / "lake"))
    assert run_section("Spark", {"spark": spark, "lake": str(tmp_path / "lake")}) > 5


def test_init_writes_a_project_file(spark: SparkSession) -> None:
    columns = "1 AS age, CAST(2 AS DECIMAL(8, 2)) AS cost, 'a' AS region, now() AS seen, current_date() AS day, true AS member"
    spark.sql(f"SELECT {columns}").createOrReplaceTempView("visits_to_declare")
    proposal = propose_project("spark:visits_to_declare")
    assert 'source = "spark:visits_to_declare"' in proposal.text
    assert 'age = {type = "integer"' in proposal.text
    assert (proposal.table, proposal.columns) == ("visits_to_declare", 6)


@pytest.mark.parametrize(
    "name",
    [name if name == "by" else pytest.param(name, marks=pytest.mark.deep) for name in QUESTIONS],
)
def test_exact_answers_are_those_of_duckdb(name: str, people: Path, spark: SparkSession) -> None:
    assert spark.version.startswith("4.")
    one, other = spark_engine(people, PEOPLE), engine_of(people / "*.parquet", PEOPLE)
    try:
        found = exact_parts(one, PEOPLE, QUESTIONS[name])
        assert found == exact_parts(other, PEOPLE, QUESTIONS[name])
        assert any(any(vector) for vector in found)
    finally:
        one.close()
        other.close()


@pytest.mark.deep
@pytest.mark.parametrize("few", [True, False], ids=["few", "all"])
def test_moments_and_gradients_are_those_of_duckdb(few: bool, people: Path, spark: SparkSession) -> None:
    del spark
    unit = PrivacyUnit("id", max_rows=3)
    exact = exact_model_vectors(engine_of(people / "*.parquet", PEOPLE, unit=unit), 3, few=few)
    assert exact == exact_model_vectors(spark_engine(people, PEOPLE, unit=unit), 3, few=few)
    assert all(any(map(any, vectors)) for vectors in exact)


@pytest.mark.deep
@pytest.mark.parametrize("unit", [PrivacyUnit("id", max_rows=3), None], ids=["person", "row"])
def test_lines_of_buckets_are_those_of_duckdb(unit: PrivacyUnit | None, people: Path, spark: SparkSession) -> None:
    del spark
    lines = exact_lines(engine_of(people / "*.parquet", PEOPLE, unit=unit))
    assert lines == exact_lines(spark_engine(people, PEOPLE, unit=unit))
    assert len(lines) > 100


@pytest.mark.parametrize("same", [True, pytest.param(False, marks=pytest.mark.deep)], ids=["types", "other types"])
@pytest.mark.parametrize(
    ("by", "bounds"),
    [
        pytest.param("sex", None, marks=pytest.mark.deep),
        pytest.param(col("due").month(), ContributionBounds(max_groups=1), marks=pytest.mark.deep),
        pytest.param("id", ContributionBounds(max_groups=1), marks=pytest.mark.deep),
        (10, ContributionBounds(max_groups=2)),
    ],
    ids=["all", "months", "one", "bins"],
)
def test_row_caps_keep_the_rows_that_duckdb_keeps(
    by: Any, bounds: ContributionBounds | None, same: bool, people: Path, spark: SparkSession
) -> None:
    unit = PrivacyUnit("id", max_rows=3)
    one, other = spark_engine(people, PEOPLE, unit=unit), engine_of(people / "*.parquet", PEOPLE, unit=unit)
    if not same:
        one.close()
        kinds = {"id": "DECIMAL(20, 0)", "age": "DOUBLE", "due": "TIMESTAMP_NTZ", "member": "INT"}
        cells = [f"CAST({n} AS {kinds[n]}) AS {n}" if n in kinds else n for n in PEOPLE]
        one = SparkEngine(spark.read.parquet(str(people)).selectExpr(*cells), domain=PEOPLE, unit=unit)
    try:
        # A count alone ranks no rows.
        more = () if isinstance(by, int) else (sd.sum("age"), sd.sum("gain"))
        question = S.group_by(col("age").bin(width=by) if isinstance(by, int) else by).agg(sd.count(), *more)
        found = replace(compile_query(question, PEOPLE), bounds=bounds)
        answers = [engine.run(found.select(engine.primitives)).to_pylist() for engine in (one, other)]
        rows = [Counter(tuple(map(str, row.values())) for row in answer) for answer in answers]
        assert rows[0] == rows[1]
        assert rows[0]
    finally:
        one.close()
        other.close()
