"""Counts of many tables in arrays are those of the rows, whatever the kind of file, the cells and the widths of keys."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import engine_of
from protecting import protect
from sordino.ask.curator.adaptive_session import CountCache
from sordino.ask.curator.plan import DataAccess
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.engine import EngineFailed, Statement
from sordino.ask.engines.instances import _BLOCK
from sordino.ask.engines.table_counts import CountingTables, KeyColumn
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable
from sordino.ask.queries.adaptive.round_values import sets_of
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.nodes import Name
from sordino.core.neighbors import Neighbors
from sordino.synth.encoded_column import encode_columns, encode_table

# Numbers of keys about those at which a key, or a cell, takes another byte.
SIZES = (1, 3, 254, 255, 256, 257, 65_534, 65_535, 65_536)


def counted(keys: list[Any], tables: list[list[KeyColumn]]) -> list[list[int]]:
    """Return the cells of each table, row by row."""
    found = []
    for table in tables:
        cells = np.zeros([c.width for c in table], dtype=np.int64)
        for row in zip(*(keys[c.place] for c in table), strict=True):
            if all(key < c.size for key, c in zip(row, table, strict=True)):
                cells[tuple(k if c.classes is None else c.classes[k] for k, c in zip(row, table, strict=True))] += 1
        found.append(cells.ravel().tolist())
    return found


@pytest.mark.deep
@pytest.mark.parametrize("size", SIZES)
def test_keys_of_every_width_are_counted_in_blocks(size: int) -> None:
    rng = np.random.default_rng(size)
    sizes = (size, 3)
    keys = [rng.integers(0, n + 1, 300) for n in sizes]
    for n, column in zip(sizes, keys, strict=True):
        column[:2] = n - 1, n
    classes = tuple(int(c) for c in [1, *rng.integers(0, 2, size)][:size])
    one, other = KeyColumn(0, size), KeyColumn(1, 3)
    tables = [[one], [one, other], [other, one], [KeyColumn(0, size, classes), other]]
    counting = CountingTables(tables)
    narrow = np.uint8 if size < 2**8 else np.uint16 if size < 2**16 else np.uint32
    for part in (slice(0, 7), slice(7, 7), slice(7, 300)):
        counting.add({0: keys[0][part].astype(narrow), 1: keys[1][part].astype(np.uint8)})
    counts = counting.counts()
    assert [c.shape for c in counts] == [tuple(k.width for k in table) for table in tables]
    assert [c.ravel().tolist() for c in counts] == counted(keys, tables)


ROUND_COLUMNS: dict[str, Any] = {
    "whole": sd.Integer(-5_000, 100_000),
    "cents": sd.Real(0, 1_000, resolution="0.01"),
    "days": sd.Date("1999-06-01", "2031-02-01"),
    "seconds": sd.DateTime("2010-01-01 00:00:00", "2012-01-01 00:00:00", zone="UTC"),
    "narrow": sd.Integer(0, 3),
}


@pytest.mark.parametrize("name", ROUND_COLUMNS)
def test_round_values_are_counted_by_the_smallest_set_that_holds_them(name: str) -> None:
    of = bind_number(Name("x"), sd.Domain({"x": ROUND_COLUMNS[name]}))
    sets, (low, high) = sets_of(of), of.ends
    edges = (low, low + (high - low) // 3, high)
    rng = np.random.default_rng(1)
    round_steps = [one.at(one.ordinal(rng.integers(low, high, 30))) for one in sets]
    steps = np.clip(np.concatenate([rng.integers(low, high + 1, 300), *round_steps, [low, high]]), low, high)
    size = 2 * (1 + len(sets))
    expected = np.zeros(size, dtype=np.int64)
    for step in steps.tolist():
        # Of two sets that hold a value the later is the smaller.
        smallest = max((n for n, one in enumerate(sets, 1) if one.count(step, step)), default=0)
        expected[(1 + len(sets)) * (step >= edges[1]) + smallest] += 1
    cells = np.concatenate([steps, [KeyColumn(0, 2, None, edges).none] * 5, [low - 1] * 3])
    classes = tuple(int(c) for c in [1, *rng.integers(0, 2, size)][:size])
    tables = [
        [KeyColumn(0, size, None, edges, sets)],
        [KeyColumn(0, size, classes, edges, sets)],
        [KeyColumn(0, 2, None, edges)],
    ]
    counting = CountingTables(tables)
    counting.add({0: cells})
    by_key, by_class, by_bin = counting.counts()
    assert by_key.tolist() == expected.tolist()
    assert by_class.tolist() == np.bincount(classes, expected, 2).tolist()
    assert by_bin.tolist() == expected.reshape(2, -1).sum(axis=1).tolist()


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("edges", [(0, 1), (-5, -5, 0, 7), (-(2**62), 3, 4, 2**62), tuple(range(0, 900, 3))])
def test_steps_are_cut_at_edges(edges: tuple[int, ...], more: int) -> None:
    """Bins are closed below, the last above too; what lies beyond, and NULL, has the key after them, if there is one."""
    steps = np.array([e + d for e in edges for d in (-1, 0, 1)] + [-(2**62), 2**62, edges[-1] + 1])
    size = len(edges) - 1 + more
    classes = (*(i % 2 for i in range(size - 1)), 2)
    tables = [[KeyColumn(0, size, None, edges)], [KeyColumn(0, size, classes, edges), KeyColumn(1, 2)]]
    counting = CountingTables(tables)
    counting.add({0: steps, 1: np.zeros(len(steps), dtype=np.uint8)})
    expected = np.zeros(size, dtype=np.int64)
    for step in steps.tolist():
        inside = [i for i, (a, b) in enumerate(itertools.pairwise(edges)) if a <= step < b]
        if step == edges[-1]:
            inside = [len(edges) - 2]
        if inside or more:
            expected[inside[0] if inside else size - 1] += 1
    one, pair = counting.counts()
    assert one.tolist() == expected.tolist()
    assert pair[:, 0].tolist() == [int(expected[np.array(classes) == c].sum()) for c in range(3)]
    assert not pair[:, 1].any()


DOMAIN = sd.Domain(
    {
        "i": sd.Integer(-3, 4, missing="keep"),
        "far": sd.Integer(0, 99_999),
        "r": sd.Real(-1, 5, resolution="0.25"),
        "k": sd.Category(["p", "q"], other="z", missing="keep"),
        "t": sd.Boolean(missing=sd.Fill(True)),
        "day": sd.Date("1900-01-01", "2010-01-01", missing="keep"),
        "filled": sd.Real(-(10**6), 10**6, resolution="0.001", missing=sd.Fill(5)),
        "beyond": sd.Integer(-(2**62), 2**62),
    }
)


def rows(count: int) -> pa.Table:
    """Return rows whose cells are missing, out of bounds or no declared value here and there."""
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "i": pa.array(rng.integers(-5, 8, count), mask=rng.random(count) < 0.1),
            "far": pa.array(rng.integers(0, 120_000, count), mask=rng.random(count) < 0.1),
            "r": pa.array(np.where(rng.random(count) < 0.1, np.nan, rng.uniform(-2, 6, count))),
            "k": pa.array(rng.choice(["p", "q", "w"], count), mask=rng.random(count) < 0.1),
            "t": pa.array(rng.random(count) < 0.5, mask=rng.random(count) < 0.1),
            "day": pa.array(rng.integers(-30_000, 16_000, count), pa.int32(), mask=rng.random(count) < 0.1).cast(
                pa.date32()
            ),
            "filled": pa.array(rng.normal(size=count) * 10**6, mask=rng.random(count) < 0.1),
            "beyond": pa.array(rng.integers(-(2**52), 2**52, count), mask=rng.random(count) < 0.1),
        }
    )


def tables_of(domain: sd.Domain) -> list[ContingencyTable]:
    """Return the tables of all columns by themselves and of all pairs."""
    columns = encode_columns(domain, None, Neighbors("add_remove", None))
    several = [*((c,) for c in columns), *itertools.combinations(columns, 2)]
    return [ContingencyTable(tuple(c.axis() for c in one)) for one in several]


def exact(engine: DuckDBEngine, tables: list[ContingencyTable], domain: sd.Domain) -> list[list[int]]:
    counts = CountCache(DataAccess(engine), domain).count(tables)
    return [t.encode(c, domain).tolist() for t, c in zip(tables, counts, strict=True)]


def from_rows(table: pa.Table, tables: list[ContingencyTable], domain: sd.Domain) -> list[list[int]]:
    columns = encode_columns(domain, None, Neighbors("add_remove", None))
    keys = dict(zip((c.name for c in columns), encode_table(table, tuple(columns)), strict=True))
    found = []
    for one in tables:
        held = [keys[axis.column] for axis in one.axes]
        kept = np.all([k >= 0 for k in held], axis=0)
        sparse = np.stack([k[kept] for k in held], axis=1), np.ones(int(kept.sum()), dtype=np.int64)
        found.append(one.encode(sparse, domain).tolist())
    return found


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["frame", "parquet", "csv", "duckdb"])
def test_counts_in_arrays_are_those_of_the_rows(kind: str, tmp_path: Path) -> None:
    """More rows than a block has."""
    table = rows(_BLOCK + 1000)
    source: Any = table
    if kind == "parquet":
        pq.write_table(table, source := tmp_path / "rows.parquet", row_group_size=30_000)
    elif kind == "csv":
        duckdb.from_arrow(table).write_csv(str(source := tmp_path / "rows.csv"), header=True)
    elif kind == "duckdb":
        with duckdb.connect(str(source := tmp_path / "rows.duckdb")) as store:
            store.register("incoming", table).execute("CREATE TABLE people AS SELECT * FROM incoming")
    engine = engine_of(
        source,
        DOMAIN,
        csv=sd.Csv(header=True) if kind == "csv" else None,
        relation="people" if kind == "duckdb" else None,
    )
    try:
        tables = tables_of(DOMAIN)
        assert exact(engine, tables, DOMAIN) == from_rows(table, tables, DOMAIN)
    finally:
        engine.close()


def test_no_rows_are_counted() -> None:
    engine = engine_of(rows(0), DOMAIN)
    try:
        tables = tables_of(DOMAIN)
        assert all(not any(counts) for counts in exact(engine, tables, DOMAIN))
    finally:
        engine.close()


def test_bad_text_in_a_file_takes_its_own_cell(tmp_path: Path) -> None:
    """DuckDB fails at bytes of a Parquet file that are not UTF-8; the file is read once more, with such cells missing."""
    texts = pa.array([b"p", b"q", b"\xff", b"p"] * 20, pa.binary())
    field = pa.field("k", pa.string())
    table = pa.table(
        [pa.Array.from_buffers(pa.string(), len(texts), texts.buffers()), pa.array(range(80))],
        schema=pa.schema([field, pa.field("n", pa.int64())]),
    )
    pq.write_table(table, tmp_path / "rows.parquet", use_dictionary=False)
    domain = sd.Domain({"k": sd.Category(["p", "q"]), "n": sd.Integer(0, 79)})
    engine = engine_of(tmp_path / "rows.parquet", domain)
    try:
        tables = [ContingencyTable((Axis("k"),)), ContingencyTable((Axis("n"),))]
        assert exact(engine, tables, domain) == [[40, 20], [1] * 80]
    finally:
        engine.close()


def test_a_failure_says_nothing_of_the_engine_and_leaves_no_result_open() -> None:
    engine = engine_of(rows(200_000), DOMAIN)
    try:
        failing = Statement("SELECT CASE WHEN i = 3 THEN error('of a cell') ELSE 0 END AS k0 FROM source")
        with pytest.raises(EngineFailed) as failed:
            engine.count_tables(failing, [[KeyColumn(0, 9)]])
        assert "cell" not in str(failed.value)
        assert failed.value.__cause__ is None
        (counts,) = engine.count_tables(Statement("SELECT 4 AS k0 FROM source"), [[KeyColumn(0, 9)]])
        assert counts.tolist() == [0, 0, 0, 0, 200_000, 0, 0, 0, 0]
    finally:
        engine.close()


def test_a_file_that_was_written_to_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n\n" + "1\n" * 100)
    domain = sd.Domain({"n": sd.Integer(0, 9)})
    engine = engine_of(path, domain, csv=sd.Csv(header=True))
    try:
        with path.open("a") as file:
            file.write("2\n" * 100)
        with pytest.raises(EngineFailed, match="changed while it was read"):
            exact(engine, [ContingencyTable((Axis("n"),))], domain)
    finally:
        engine.close()


@pytest.mark.deep
@pytest.mark.parametrize(
    "loss", [{"epsilon": 1, "delta": "1e-6"}, pytest.param({"epsilon": 2}, marks=pytest.mark.deep)], ids=str
)
def test_a_fit_is_the_same_whether_tables_are_counted_in_arrays_or_by_sql(
    loss: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts are exact either way, and nothing else depends on how they were counted: bit for bit the same rows."""
    rng = np.random.default_rng(4)
    hidden = rng.normal(size=1000)
    cells = {f"c{i}": ((hidden + rng.normal(size=1000)) * (2 + 3 * i)).astype(np.int64) for i in range(2)}
    domain = sd.Domain({n: sd.Integer(-40, 40, missing="keep") for n in cells} | {"far": sd.Real(0, 10**5)})
    cells["far"] = np.exp(hidden * 2 + 3)
    drawn = []
    for in_arrays in (True, False):
        if not in_arrays:
            monkeypatch.delattr(DuckDBEngine, "count_tables")
        table = protect(pa.table(cells), domain, budget=sd.ApproxDP(10, "1e-3"), seed=5)
        model = sd.synth.fit(table, rng=sd.Rng.seeded(6), **loss)
        drawn.append(model.sample(500, rng=sd.Rng.seeded(7)))
    assert drawn[0].equals(drawn[1])
