"""Releases of tables on Spark say what plain SQL says of the same rows in DuckDB: a question of each kind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from answers.plain_answers import compare
from answers.plain_questions import Questions
from answers.plain_shapes import EVERY_KIND, draw_question
from answers.town_tables import Plain, dictionary_parquet, people_rows, protect_tables, visit_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.deep
def test_releases_say_what_plain_sql_says(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(8)
    people = people_rows(300, rng)
    tables = {"people": people, "visits": visit_rows(300, people, rng)}
    frames = {name: spark.read.parquet(dictionary_parquet(tmp_path, name, rows)) for name, rows in tables.items()}
    connection, plain = protect_tables(frames, 8, lists=True), Plain(people, tables["visits"])
    drawn = Questions(rng)
    found = [compare(draw_question(drawn, kind), connection, plain.rows) for kind in EVERY_KIND]
    wrong = [f"{c.question.text}\n  {c.question.groups}\n  {c.found}" for c in found if c.found]
    assert not wrong, "\n".join(wrong[:5])
    assert sum(c.near for c in found) >= 0.98 * sum(c.cells for c in found) > len(found)
