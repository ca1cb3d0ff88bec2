"""Neighboring tables that Spark reads from Parquet: one unit, changed in two tables at once, moves no answer further than stated.

The unit's rows lie in files of their own, so that files' bounds, which leave NaN out, differ among neighbors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import sordino as sd
from ask.curator.extremes import declare
from ask.engines.every_kind import DAYS, FIXED, KIN, MOMENTS, PUBLIC, WORDS
from ask.engines.test_postgres_neighbors import PARTS, compare
from ask.engines.test_spark_every_kind import KINDS, fill_all
from sordino.core.neighbors import Relation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def worlds(
    spark: SparkSession, url: str, directory: Path, relation: Relation, rng: random.Random
) -> Iterator[sd.Curator]:
    """Give the table t of two tables without a unit, then with each state of it; each state has rows in both tables."""
    domains = {}
    for table in ("t", "u"):
        kinds = {f"c{i}": rng.choice(KINDS) for i in range(5)} | {"n": "BIGINT", "id": "VARCHAR"}
        kinds |= {DAYS: "DATE", MOMENTS: "TIMESTAMPTZ", WORDS: "VARCHAR", KIN: "VARCHAR"}
        fill_all(url, directory, kinds, rng, table)
        domains[table] = sd.Domain({n: declare(rng) for n in kinds if n not in FIXED} | FIXED, row_ceiling=10**6)
        cells = ", ".join("'changed' AS id" if name == "id" else name for name in kinds)
        with duckdb.connect(str(directory / "both.duckdb"), read_only=True) as held:
            held.execute("SET TimeZone = 'UTC'")
            for part in PARTS:
                some = f"ORDER BY rowid LIMIT {rng.randrange(1, 7)} OFFSET {rng.randrange(30)}"
                place = directory / f"{table}-{part}.parquet"
                held.execute(f"COPY (SELECT {cells} FROM {table} {some}) TO '{place}'")
    unit = sd.PrivacyUnit("id", max_rows=rng.choice([1, 2]), max_groups=rng.choice([None, 1]), of="person")
    for part in (0, *PARTS):
        files = {table: [str(directory / table), str(directory / f"{table}-{part}.parquet")] for table in domains}
        yield sd.protect(
            {table: spark.read.parquet(*(places if part else places[:1])) for table, places in files.items()},
            domain=domains,
            neighbors=relation,
            privacy_unit=dict.fromkeys(domains, unit),
            budget=sd.ApproxDP(10**9, "0.9"),
            ledger=None,
            public={"plain": PUBLIC},
        ).table("t")


@pytest.mark.deep
@pytest.mark.parametrize(("relation", "seed"), [("add_remove", 40), ("replace", 41)])
def test_random_questions_never_beat_the_sensitivity(
    relation: Relation, seed: int, spark: SparkSession, postgres_database: str, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    held = list(worlds(spark, postgres_database, tmp_path, relation, rng))
    found = compare(held, relation, rng, 1)
    assert found["as far as stated"], found
    assert len(found) > 5, found
