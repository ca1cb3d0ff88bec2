"""Spark gives the exact answers that DuckDB gives, through Parquet files that both read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from engines.support import engine_of
from engines.test_postgres import CELLS, PEOPLE, QUESTIONS, exact_parts
from sordino.engines.spark import SparkEngine
from sordino.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")  # one worker, so that one session serves all


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


@pytest.mark.parametrize("name", QUESTIONS)
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
