"""Neighbor pairs through real Parquet: statistics leave NaN out, and one row must not decide whether others count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import ask, assert_within_sensitivity, engine_of, exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors

NAN = float("nan")
S = Selection()
X = col("x")
DOMAIN = sd.Domain({"x": sd.Real(0, 5000, resolution=1)})
QUESTIONS = [
    S.where(X > 1000).agg(sd.count(), sd.sum("x")),
    S.where(~(X <= 1000)).agg(sd.count(), sd.mean("x")),
    S.where(X.is_null()).agg(sd.count()),
    S.where(~X.is_null()).agg(sd.count(), sd.sum("x")),
    S.where((X >= 2000) | (X == 1)).agg(sd.count()),
    S.group_by(X.bin([0, 1000, 5000])).agg(sd.count(), sd.sum("x")),
    sd.count("x"),
    sd.mean(X.clip(10, 3000)),
]
TABLES: dict[str, list[float | None]] = {
    "the published pair": [1.0, *[NAN] * 100],
    "only NaN": [NAN] * 50,
    "NULL and NaN": [None, NAN] * 40,
    "infinities": [1.0, float("inf"), -float("inf"), NAN],
}
ADDED = [2000.0, NAN, None, float("inf"), -float("inf"), -0.0, 1e308, 1e-320, 5000.0, -5.0]


def answers(path: Path) -> list[Any]:
    engine = engine_of(path, DOMAIN)
    try:
        return [ask(engine, DOMAIN, q) for q in QUESTIONS]
    finally:
        engine.close()


def write(path: Path, values: list[Any], *, kind: pa.DataType, rows: int) -> Path:
    pq.write_table(pa.table({"x": pa.array(values, kind)}), path, row_group_size=rows)
    return path


@pytest.mark.deep
@pytest.mark.attack(
    "let one row decide which others an engine skips",
    source="seen in DuckDB 2.0 and Spark 4.0: Parquet statistics leave NaN out",
)
@pytest.mark.each(17)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("rows", [1000, 7])
@pytest.mark.parametrize("name", TABLES)
def test_one_added_row_moves_no_other(tmp_path: Path, name: str, rows: int, kind: pa.DataType) -> None:
    table = TABLES[name]
    d = write(tmp_path / "d.parquet", table, kind=kind, rows=rows)
    before = answers(d)
    for added in ADDED if (rows == 7) == (kind == pa.float64()) else ADDED[:1]:
        other = write(tmp_path / "e.parquet", [*table, added] if rows == 7 else [added, *table], kind=kind, rows=rows)
        for asked, was, now in zip(QUESTIONS, before, answers(other), strict=True):
            assert_within_sensitivity(DOMAIN, asked, was, now, Neighbors("add_remove", None))


@pytest.mark.deep
@pytest.mark.attack("let one row decide which others an engine skips")
def test_across_files_of_a_glob(tmp_path: Path) -> None:
    write(tmp_path / "a1.parquet", [1.0, *[NAN] * 50], kind=pa.float64(), rows=100)
    write(tmp_path / "a2.parquet", [NAN] * 50, kind=pa.float64(), rows=100)
    before = answers(tmp_path / "a*.parquet")
    write(tmp_path / "a3.parquet", [2000.0], kind=pa.float64(), rows=100)
    for asked, was in zip(QUESTIONS, before, strict=True):
        assert_within_sensitivity(
            DOMAIN, asked, was, exact(tmp_path / "a*.parquet", DOMAIN, asked), Neighbors("add_remove", None)
        )
    assert before[0][0] == [0]
    assert exact(tmp_path / "a*.parquet", DOMAIN, QUESTIONS[0])[0] == [1]


@pytest.mark.attack("let one row decide which others an engine skips")
def test_plain_duckdb_does_fall_into_the_trap(tmp_path: Path) -> None:
    """With its optimizers on, the published pair goes from 0 to 101: the tests above guard against something real."""
    counts: list[int] = []
    for values in ([1.0, *[NAN] * 100], [1.0, *[NAN] * 100, 2000.0]):
        path = write(tmp_path / "d.parquet", values, kind=pa.float64(), rows=1000)
        counts += duckdb.execute(f"SELECT count(*) FROM '{path}' WHERE x > 1000").fetchall()[0]
    assert counts == [0, 101]


def test_the_optimizers_are_off_on_our_connection(tmp_path: Path) -> None:
    engine = engine_of(write(tmp_path / "d.parquet", [1.0], kind=pa.float64(), rows=10), DOMAIN)
    found = engine._connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0][0]
    assert {"statistics_propagation", "filter_pushdown", "join_filter_pushdown"} <= set(found.split(","))
    engine.close()


def test_files_of_different_types_are_read_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "other": ["a", "b"]}), tmp_path / "a1.parquet")
    pq.write_table(pa.table({"other": ["a"], "x": [3.0]}), tmp_path / "a2.parquet")
    assert exact(tmp_path / "a*.parquet", DOMAIN, sd.sum("x")) == [[6]]
