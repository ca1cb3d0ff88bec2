"""Random questions of every kind of two tables of extreme cells: Spark, PostgreSQL and DuckDB say the same."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest

import sordino as sd
from ask.curator.extremes import declare
from ask.engines.every_kind import DAYS, FIXED, KIN, MOMENTS, PUBLIC, WORDS, EveryKind
from ask.engines.test_postgres_extremes import BOTH, ROWS, answer, fill
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.errors import DeclarationError, QuestionRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


KINDS = [kind for kind in BOTH if kind not in ("HUGEINT", "UUID")]  # Parquet has neither
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")


def fill_all(url: str, directory: Path, kinds: dict[str, str], rng: random.Random, table: str) -> None:
    """Put the same rows in all three places; a day or a moment that Parquet lacks is NULL."""
    path = directory / "both.duckdb"
    fill(url, path, kinds, rng, table)
    with psycopg.connect(url, autocommit=True) as server, duckdb.connect(str(path)) as other:
        other.execute("SET TimeZone = 'UTC'")
        for name, kind in kinds.items():
            if kind in TIMES:
                change = f"UPDATE {table} SET {name} = NULL WHERE NOT isfinite({name})"
                server.execute(change.encode())
                other.execute(change)
        (directory / table).mkdir()
        for part in (0, 1):
            place = directory / table / f"{part}.parquet"
            other.execute(f"COPY (SELECT * FROM {table} WHERE rowid % 2 = {part}) TO '{place}'")


def exact_rows(curator: sd.Curator, question: Any) -> Counter[tuple[str, ...]]:
    """Return the exact answer, in no order."""
    compiled = compile_query(as_aggregation(question), curator.domain)
    answer = curator._engine.run(compiled.select(curator._engine.primitives))
    return Counter(tuple(map(str, row.values())) for row in answer.to_pylist())


def run(spark: SparkSession, url: str, directory: Path, seed: int, each: int) -> Counter[str]:
    """Ask so many random questions of each kind in the three places; return how many of each had answers."""
    rng, seen = random.Random(seed), Counter[str]()
    domains = {}
    for table in ("t", "u"):
        kinds = {f"c{i}": rng.choice(KINDS) for i in range(7)} | {"n": "BIGINT", "id": "VARCHAR"}
        kinds |= {DAYS: "DATE", MOMENTS: "TIMESTAMPTZ", WORDS: "VARCHAR", KIN: "VARCHAR"}
        fill_all(url, directory, kinds, rng, table)
        ceiling = rng.choice([2**40, 10**6])
        domains[table] = sd.Domain({n: declare(rng) for n in kinds if n not in FIXED} | FIXED, row_ceiling=ceiling)
    unit = sd.PrivacyUnit("id", max_rows=ROWS, of="person")
    neighbors: Any = rng.choice(["add_remove", "replace"])
    duck = directory / "both.duckdb"
    places: list[dict[str, Any]] = [
        {table: spark.read.parquet(str(directory / table)) for table in domains},
        dict.fromkeys(domains, url),
        dict.fromkeys(domains, str(duck)),
    ]
    held = [
        sd.protect(
            place,
            domain=domains,
            neighbors=neighbors,
            privacy_unit=dict.fromkeys(domains, unit),
            budget=sd.ApproxDP(10**9, "0.9"),
            ledger=None,
            relation={table: table for table in domains} if place is not places[0] else None,
            rng=sd.Rng.seeded(0),
            public={"plain": PUBLIC},
        ).table("t")
        for place in places
    ]
    made = EveryKind(domains["t"], rng)
    for i in range(each):
        for kind, make in made.kinds.items():
            try:
                question = make()
            except (QuestionRefused, DeclarationError):  # no one could ask it
                continue
            epsilon = 10**6 if kind == "keys by weights" else 1000  # their noise is drawn in the engine's order
            found: list[Any] = [answer(one, question, i, epsilon=epsilon) for one in held]
            if (
                kind == "keys by a threshold" and "refused" not in found
            ):  # noise is drawn in the engine's order here too
                found = [exact_rows(one, question) for one in held]
            if epsilon > 1000 and "refused" not in found:  # a key of few units shows by chance
                counts = [{row[KIN]: round(row["count"]) for row in said["rows"]} for said in found]
                both = sorted(set(counts[0]).intersection(*counts))
                found = [[rows[key] for key in both] for rows in counts]
            assert found[0] == found[2], (kind, question)
            assert found[1] == found[2], (kind, question)
            seen[kind] += found[0] != "refused"
    for one in held:
        one.close()
    return seen


@pytest.mark.deep
@pytest.mark.parametrize("seed", [200])
def test_three_engines_say_the_same(seed: int, spark: SparkSession, postgres_database: str, tmp_path: Path) -> None:
    assert sum(run(spark, postgres_database, tmp_path, seed, 2).values()) > 12
