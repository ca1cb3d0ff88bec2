"""Exact sums: equal to sums of Fractions on the public grid, whatever the order of rows, their size and the threads."""

from __future__ import annotations

import math
import operator
import random
from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import ask, engine_of, exact
from sordino import col
from sordino.ask.engines.duckdb import _fetch_row
from sordino.ask.queries.build import Selection


def on_grid(value: float, unit: Fraction, low: int, high: int) -> Fraction:
    if math.isnan(value):
        return Fraction(0)
    if math.isinf(value):
        return Fraction(high if value > 0 else low)
    return max(Fraction(low), min(Fraction(high), unit * math.floor(Fraction(value) / unit + Fraction(1, 2))))


@pytest.mark.deep
@pytest.mark.attack("move a sum of floats by more than its sensitivity")
def test_sums_of_reals_are_sums_of_fractions_in_any_order() -> None:
    rng = random.Random(7)
    values = [
        rng.choice([rng.uniform(-9, 9), 1e308, -1e308, 1e-320, -0.0, 0.1 * rng.randrange(99)]) for _ in range(5_000)
    ]
    values += [0.125 * n for n in range(-50, 50)]  # half of them lie midway between two hundredths: ties go up
    domain = sd.Domain({"x": sd.Real(-10, 10, resolution="0.01")})
    expected = sum((on_grid(v, Fraction(1, 100), -10, 10) for v in values), Fraction(0))
    for _ in range(3):
        assert exact(pa.table({"x": values}), domain, sd.sum("x")) == [[expected]]
        rng.shuffle(values)


@pytest.mark.attack("move a sum of floats by more than its sensitivity")
@pytest.mark.parametrize("m", [2**53, 2**60, 2**62])
def test_m_and_m_plus_1(m: int) -> None:
    domain = sd.Domain({"x": sd.Integer(-m, m)}, row_ceiling=10**6)
    table = [m, m - 1, m - 2, -m, 1] * 1000
    assert exact(pa.table({"x": pa.array(table, pa.int64())}), domain, sd.sum("x")) == [[sum(table)]]
    more = [*table, 1]
    assert exact(pa.table({"x": pa.array(more, pa.int64())}), domain, sd.sum("x")) == [[sum(table) + 1]]


@pytest.mark.each(28)
@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64(), pa.float64()], ids=str
)
@pytest.mark.parametrize("bounds", [(3, 60), (-5, 9), (0, 0), (-70_000, 70_000)])
def test_dictionaries_of_parquet_clip_as_frames_do(tmp_path: Path, kind: pa.DataType, bounds: tuple[int, int]) -> None:
    low, high = bounds
    least = 0 if str(kind).startswith("u") else -128
    most = {pa.uint64(): 2**64 - 1, pa.int64(): 2**63 - 1}.get(kind, 127)
    cells = [None, 7, least, most, None, 5, 61, 2] * 500
    groups = ["missing" if cell is None else "there" for cell in cells[:-8]] + ["both"] * 8
    pq.write_table(table := pa.table({"x": pa.array(cells, kind), "g": groups}), tmp_path / "t.parquet")
    domain = sd.Domain({"x": sd.Integer(low, high), "g": sd.Category(["missing", "there", "both"])})
    by_group = Selection().where(col("x").is_null() | (col("x") < high)).group_by("g")
    for question in (
        [sd.sum("x"), sd.count("x"), sd.mean("x")],
        by_group.agg(sd.sum("x"), sd.count("x"), sd.variance("x")),
    ):
        assert exact(tmp_path / "t.parquet", domain, question) == exact(table, domain, question)
    clipped = [min(max(cell, low), high) for cell in cells if cell is not None]
    assert exact(tmp_path / "t.parquet", domain, [sd.sum("x"), sd.count("x")]) == [[sum(clipped)], [len(clipped)]]


@pytest.mark.deep
@pytest.mark.parametrize("kind", [pa.int16(), pa.int64(), pa.float64(), pa.string()], ids=str)
@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons_are_with_the_clipped_cell(kind: pa.DataType, op: str) -> None:
    cells = [None, -5, 0, 1, 2, 9, 10, 11, 99]
    held = [None if cell is None else str(cell) for cell in cells] if kind == pa.string() else cells
    engine = engine_of(pa.table({"x": pa.array(held, kind)}), domain := sd.Domain({"x": sd.Integer(1, 10)}))
    compare = {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }[op]
    for steps in range(-1, 13):
        clipped = [min(max(cell, 1), 10) for cell in cells if cell is not None]
        kept = [cell for cell in clipped if compare(cell, steps)]
        where = Selection().where(compare(col("x"), steps)).agg(sd.count(), sd.sum("x"))
        assert ask(engine, domain, where) == [[len(kept)], [sum(kept)]], (op, steps)
    engine.close()


@pytest.mark.attack("move a sum of floats by more than its sensitivity")
def test_products_past_64_bits() -> None:
    x, m = col("x"), 2**29
    domain = sd.Domain({"x": sd.Integer(-m, m)}, row_ceiling=1000)
    table = [m, -m, m - 1, 3]
    found = exact(pa.table({"x": table}), domain, [sd.sum(x * x), sd.sum(x * x * x + x).alias("b")])
    assert found == [[sum(v * v for v in table)], [sum(v**3 + v for v in table)]]
    where = Selection().where(x * x > (m - 1) ** 2).agg(sd.count())
    assert exact(pa.table({"x": table}), domain, where) == [[2]]


def test_units_that_do_not_divide_each_other() -> None:
    domain = sd.Domain({"x": sd.Integer(0, 9), "r": sd.Real(0, 1, resolution="0.25")})
    table = pa.table({"x": [1, 2, 9], "r": [0.25, 0.5, 1.0]})
    third = col("x") * Fraction(1, 3) + col("r") * Fraction(1, 7) - Fraction(1, 5)
    expected = sum(Fraction(x, 3) + Fraction(r) / 7 - Fraction(1, 5) for x, r in [(1, 0.25), (2, 0.5), (9, 1.0)])
    assert exact(table, domain, sd.sum(third)) == [[expected]]


@pytest.mark.attack("learn from the order or the files of the rows")
def test_many_threads_give_one_answer() -> None:
    values = [i * 0.1 for i in range(300_000)]
    domain = sd.Domain({"x": sd.Real(0, 1000, resolution="0.001")})
    engine = engine_of(pa.table({"x": values}), domain)
    found = ask(engine, domain, [sd.sum("x"), sd.mean("x")])
    assert all(ask(engine, domain, [sd.sum("x"), sd.mean("x")]) == found for _ in range(3))
    engine.close()
    expected = sum((on_grid(v, Fraction(1, 1024), 0, 1000) for v in values[::100]), Fraction(0))
    assert exact(pa.table({"x": values[::100]}), domain, sd.sum("x")) == [[expected]]


@pytest.mark.each(2)
@pytest.mark.parametrize(
    "cells", ["[1, 2]", "[9223372036854775807, 9]", "[]", "[NULL]", "[-9999999999999999999999999999999999999]"]
)
def test_an_answer_of_one_row_is_the_table_that_duckdb_gives(cells: str) -> None:
    text = f"SELECT count(x) AS t0, sum(x) AS t1, count(*) AS t2 FROM (SELECT CAST(unnest({cells}) AS HUGEINT) AS x)"
    with duckdb.connect() as connection:
        found, beside = _fetch_row(connection, text), connection.sql(text).to_arrow_table()
        assert found.to_pylist() == beside.to_pylist()
        assert found.schema.names == beside.schema.names
        assert found.schema.types[0] == pa.int64()
        with pytest.raises(duckdb.Error):
            _fetch_row(connection, "SELECT sum(CAST(x AS INTEGER)) FROM (SELECT unnest(['1', 'a']) AS x)")
        assert _fetch_row(connection, text).equals(found)  # the connection answers on
