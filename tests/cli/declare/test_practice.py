"""`sordino dummy` and `sordino ask --dry-run`: practice that neither reads the data nor spends; `--dialect`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow.parquet as pq

from cli.support import Run, read_json

_BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


def test_a_made_up_table_has_the_declared_columns_and_needs_no_data(census: Path, run: Run) -> None:
    (census / "census.parquet").unlink()
    done = run("dummy", "--rows", "20", "--seed", "3")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert done.code == 0, done.err
    assert len(rows) == 20
    assert set(rows[0]) == {
        "household",
        "region",
        "sex",
        "age",
        "education_num",
        "hours_per_week",
        "gain",
        "occupation",
    }
    assert run("dummy", "--rows", "20", "--seed", "3").out == done.out


def test_a_made_up_table_is_written_as_parquet(census: Path, run: Run) -> None:
    done = run("dummy", "--rows", "7", "-o", "practice.parquet")
    assert done.code == 0, done.err
    assert pq.read_table(census / "practice.parquet").num_rows == 7
    assert run("dummy", "-o", "practice.txt").code == 2


def test_a_dry_run_answers_and_charges_nothing(census: Path, run: Run) -> None:
    del census
    done = run("ask", _BY_SEX, "--epsilon", "0.5", "--dry-run")
    assert done.code == 0, done.err
    assert "DUMMY DATA" in done.out
    assert read_json(run("ask", _BY_SEX, "--epsilon", "0.5", "--dry-run", "--format", "json"))["practice"] is True
    assert "c-0001" not in run("releases").out
    assert run("ask", _BY_SEX, "--epsilon", "0.5").code == 0
    assert "c-0001" in run("releases").out


def test_a_dialect_is_named(census: Path, run: Run) -> None:
    del census
    text = 'SELECT COUNT(*) AS n FROM people WHERE sex = "Male"'
    assert run("plan", text, "--epsilon", "0.1").code == 3
    assert run("plan", text, "--epsilon", "0.1", "--dialect", "bigquery").code == 0
    assert "did you mean 'bigquery'" in run("plan", text, "--epsilon", "0.1", "--dialect", "big-query").err
