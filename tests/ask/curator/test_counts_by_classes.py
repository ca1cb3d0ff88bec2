"""Counts of tables by classes of keys are those of the rows themselves, and classes are no finer than the tables ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from ask.engines.support import engine_of
from sordino.ask.curator.adaptive_session import CountCache
from sordino.ask.curator.plan import DataAccess
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, coarsest_grouping
from sordino.core.neighbors import Neighbors
from sordino.synth.encoded_column import encode_columns, encode_table

WIDE = sd.Domain({n: sd.Real(0, 100 * i, resolution=0.01, missing="keep") for i, n in enumerate("abc", start=1)})
COLUMNS = {c.name: c for c in encode_columns(WIDE, None, Neighbors("add_remove", None))}
RNG = np.random.default_rng(5)
ROWS = pa.table({n: [None if v < 3 else float(v) for v in RNG.uniform(0, 400, 500)] for n in "abc"})


def cut(parts: dict[str, int | None], shift: int = 0) -> ContingencyTable:
    """Return a table of so many runs of keys of each column, cut elsewhere by each `shift`; None for each key by itself."""
    axes = []
    for name, count in parts.items():
        size = COLUMNS[name].size
        codes = None if count is None else (np.arange(size) + shift) * count // (size + shift)
        axes.append(COLUMNS[name].axis(codes))
    return ContingencyTable(tuple(axes))


def count_rows(tables: list[ContingencyTable]) -> list[list[int]]:
    """Return the counts of each table from the rows."""
    keys = dict(zip(COLUMNS, encode_table(ROWS, tuple(COLUMNS.values())), strict=True))
    found = []
    for table in tables:
        held = [keys[axis.column] for axis in table.axes]
        kept = np.all([k >= 0 for k in held], axis=0)
        sparse = np.stack([k[kept] for k in held], axis=1), np.ones(int(kept.sum()), dtype=np.int64)
        found.append(table.encode(sparse, WIDE).tolist())
    return found


ASKED: dict[str, list[ContingencyTable]] = {
    "one table": [cut({"a": 2, "b": 3, "c": 2})],
    "tables cut at other keys": [cut({"a": 2, "b": 2, "c": 2}, at) for at in (0, 5, 30)],
    "the same columns in another order": [cut({"a": 2, "b": 2, "c": 2}), cut({"c": 3, "a": 2, "b": 4}, 7)],
    "one with each key of a column by itself": [cut({"a": 2, "b": 2, "c": 2}), cut({"a": None, "b": 3, "c": 2}, 9)],
    "fewer columns": [cut({"a": 2, "b": 2, "c": 2}), cut({"a": 3, "b": None}), cut({"c": 4}), cut({"b": 7, "a": 2}, 4)],
}


@pytest.mark.each(4)
@pytest.mark.parametrize("name", ASKED)
def test_counts_by_classes_are_those_of_the_rows(name: str) -> None:
    tables = ASKED[name]
    engine = engine_of(ROWS, WIDE)
    try:
        cache = CountCache(DataAccess(engine), WIDE)
        for asked in (tables, tables[::-1], [cut({"a": 5, "b": 2, "c": 3}, 11), *tables]):
            counts = cache.count(asked)
            made = [t.encode(c, WIDE).tolist() for t, c in zip(asked, counts, strict=True)]
            assert made == count_rows(asked)
        alone = [next(CountCache(DataAccess(engine), WIDE).count([t])) for t in tables]
        assert [t.encode(c, WIDE).tolist() for t, c in zip(tables, alone, strict=True)] == count_rows(tables)
    finally:
        engine.close()


@pytest.mark.parametrize("name", ["one table", "tables cut at other keys"])
def test_a_class_holds_just_the_keys_that_no_table_tells_apart(name: str) -> None:
    tables = ASKED[name]
    for i, axis in enumerate(coarsest_grouping(tables[0].grouping(), tables, WIDE)):
        told: list[tuple[Any, ...]] = list(zip(*(t.axes[i].codes or () for t in tables), strict=True))
        assert axis.codes is not None
        assert len(told) == len(axis.codes)
        assert len(set(zip(axis.codes, told, strict=True))) == len(set(axis.codes)) == len(set(told))


def test_keys_are_counted_by_themselves_where_few_cells_can_be_or_runs_are_many() -> None:
    small = cut({"a": 2, "b": 2})
    assert coarsest_grouping(small.grouping(), [small], WIDE) == small.grouping()
    domain = sd.Domain({"x": sd.Integer(0, 3999), "y": sd.Integer(0, 3999)})
    often, seldom = (tuple(i // run % 2 for i in range(4000)) for run in (2, 500))
    table = ContingencyTable((Axis("x", None, often), Axis("y", None, seldom)))
    x, y = coarsest_grouping(table.grouping(), [table], domain)
    assert x.codes is None
    assert y.codes == seldom
