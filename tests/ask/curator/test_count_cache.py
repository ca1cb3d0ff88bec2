"""CountCache: exact counts for every code, by scans that return few cells however many cells the keys have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from sordino.ask.curator import adaptive_session
from sordino.ask.curator.adaptive_session import CountCache
from sordino.ask.curator.plan import DataAccess
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.table_counts import KeyColumn
from sordino.ask.queries.adaptive.marginal import MOST_AXES, Axis, ContingencyTable

SIZE = 101
DOMAIN = sd.Domain({name: sd.Integer(0, SIZE - 1, missing="keep" if name == "b" else "drop") for name in "abc"})
DRAWS = np.random.default_rng(15)
ROWS = pa.table(
    {name: pa.array([None if n > SIZE else int(n) for n in DRAWS.integers(0, 105, 5000)]) for name in "abc"}
)


class Watch(DataAccess):
    """Remember how many cells each scan returned; `in_arrays` False hides that the engine can count in arrays."""

    def __init__(self, engine: DuckDBEngine, *, in_arrays: bool) -> None:
        super().__init__(engine)
        self.in_arrays = in_arrays
        self.returned: list[int] = []

    @property
    def table_counter(self) -> Any:
        """Return what counts tables in arrays, and remembers it."""
        return self._count if self.in_arrays else None

    def _count(self, keys: Statement, tables: Sequence[Sequence[KeyColumn]]) -> Any:
        counter = super().table_counter
        assert counter is not None
        found = counter(keys, tables)
        self.returned.append(sum(counts.size for counts in found))
        return found

    def run(self, statement: Statement) -> pa.Table:
        """Run a scan, and remember it."""
        found = super().run(statement)
        self.returned.append(found.num_rows)
        return found


def _table(names: str, codes: list[tuple[int, ...] | None]) -> ContingencyTable:
    return ContingencyTable(tuple(Axis(n, None, c) for n, c in zip(names, codes, strict=True)))


def _count(table: ContingencyTable) -> np.ndarray:
    """Return the cells of a table, row by row."""
    cells = np.zeros(table.shape(DOMAIN), dtype=np.int64)
    for row in ROWS.to_pylist():
        place = []
        for axis in table.axes:
            value = row[axis.column]
            if value is None and axis.column != "b":
                break
            key = SIZE if value is None else min(value, SIZE - 1)
            place.append(key if axis.codes is None else axis.codes[key])
        else:
            cells[tuple(place)] += 1
    return cells.ravel()


def _codes(name: str, parts: int, kind: str) -> tuple[int, ...]:
    size = SIZE + (name == "b")
    if kind == "cut":
        return tuple(int(n) for n in np.arange(size) >= DRAWS.integers(1, size))
    return tuple(int(n) for n in DRAWS.integers(0, parts, size))


@pytest.mark.deep
@pytest.mark.parametrize("in_arrays", [True, False])
@pytest.mark.parametrize("kind", ["cut", "scattered"])
def test_tables_of_many_keys_are_counted_by_what_they_tell_apart(kind: str, in_arrays: bool) -> None:
    engine = DuckDBEngine(ROWS, domain=DOMAIN, unit=None)
    try:
        watch = Watch(engine, in_arrays=in_arrays)
        cache = CountCache(watch, DOMAIN)
        tables = [_table(names, [_codes(n, 3, kind) for n in names]) for names in ("abc", "cba", "bca")]
        pair = _table("ab", [None, None])
        for table, counts in zip([*tables, pair], cache.count([*tables, pair]), strict=True):
            assert np.array_equal(table.encode(counts, DOMAIN), _count(table))
        (returned,) = watch.returned
        codes = [[next(a.codes or () for a in t.axes if a.column == n) for t in tables] for n in "abc"]
        classes = [len(set(zip(*several, strict=True))) for several in codes]
        if in_arrays:
            assert returned == np.prod(classes) + SIZE * (SIZE + 1)
        else:
            by_keys = len({(r["a"], r["b"]) for r in ROWS.to_pylist()})
            assert returned <= np.prod([n + (name != "b") for name, n in zip("abc", classes, strict=True)]) + by_keys
            assert (
                returned < len({tuple(r.values()) for r in ROWS.to_pylist()}) + by_keys
            )  # else this would show nothing
    finally:
        engine.close()


@pytest.mark.each(2)
@pytest.mark.parametrize("in_arrays", [True, False])
def test_a_table_that_tells_more_apart_is_counted_anew_and_a_coarser_one_is_not(in_arrays: bool) -> None:
    engine = DuckDBEngine(ROWS, domain=DOMAIN, unit=None)
    try:
        watch = Watch(engine, in_arrays=in_arrays)
        cache = CountCache(watch, DOMAIN)
        fine = tuple(n // 10 for n in range(SIZE))
        coarse = tuple(n // 50 for n in range(SIZE))
        crossing = tuple(int(n > 33) for n in range(SIZE))
        by_b = _codes("b", 2, "cut")
        for codes, scans in ((fine, 1), (coarse, 1), (crossing, 2), (fine, 3), (None, 4), (crossing, 4), (fine, 4)):
            table = _table("abc", [codes, by_b, fine])
            (counts,) = cache.count([table])
            assert np.array_equal(table.encode(counts, DOMAIN), _count(table))
            assert len(watch.returned) == scans
    finally:
        engine.close()


@pytest.mark.parametrize(("in_arrays", "scans"), [(True, 1), (False, 2)])
def test_a_scan_has_no_more_axes_than_an_engine_takes(in_arrays: bool, scans: int) -> None:
    names = [f"c{i}" for i in range(40)]
    domain = sd.Domain({name: sd.Boolean() for name in names})
    rows = pa.table({name: [True, False, True] for name in names})
    engine = DuckDBEngine(rows, domain=domain, unit=None)
    try:
        watch = Watch(engine, in_arrays=in_arrays)
        tables = [ContingencyTable((Axis(a), Axis(b))) for a, b in zip(names[::2], names[1::2], strict=True)]
        for table, counts in zip(tables, CountCache(watch, domain).count(tables), strict=True):
            assert table.encode(counts, domain).tolist() == [1, 0, 0, 2]
        assert len(watch.returned) == scans
        with pytest.raises(sd.errors.QuestionRefused, match=f"{MOST_AXES} columns at most"):
            ContingencyTable(tuple(Axis(name) for name in names)).shape(domain)
    finally:
        engine.close()


def test_what_has_too_many_cells_for_arrays_is_counted_by_sql() -> None:
    """Beside it, what has few is counted in arrays; and arrays of one scan stay within their bound."""
    engine = DuckDBEngine(ROWS, domain=DOMAIN, unit=None)
    try:
        watch = Watch(engine, in_arrays=True)
        tables = [_table("abc", [None] * 3), _table("ab", [None] * 2), _table("c", [None])]
        for table, counts in zip(tables, CountCache(watch, DOMAIN).count(tables), strict=True):
            assert np.array_equal(table.encode(counts, DOMAIN), _count(table))
        in_arrays, by_sql = watch.returned
        assert in_arrays == SIZE * (SIZE + 1) + SIZE
        assert by_sql <= 5000
    finally:
        engine.close()


def test_arrays_of_many_tables_are_counted_in_several_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_session, "_MOST_AT_ONCE", SIZE * (SIZE + 1))
    engine = DuckDBEngine(ROWS, domain=DOMAIN, unit=None)
    try:
        watch = Watch(engine, in_arrays=True)
        tables = [_table(names, [None] * len(names)) for names in ("ab", "bc", "ac", "a", "b", "c")]
        for table, counts in zip(tables, CountCache(watch, DOMAIN).count(tables), strict=True):
            assert np.array_equal(table.encode(counts, DOMAIN), _count(table))
        assert len(watch.returned) == 4
        assert max(watch.returned) == SIZE * (SIZE + 1)
    finally:
        engine.close()
