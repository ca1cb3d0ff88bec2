"""How a cell is read is decided by the cell and its declaration alone: in every container, and whatever the other rows are."""

from __future__ import annotations

import datetime
import decimal
import enum
import itertools
import math
import random
import sqlite3
import uuid
import zoneinfo
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import sordino as sd
from ask.engines.support import exact
from sordino import col
from sordino.ask.engines.compare import _reading
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.frames import arrow_of
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import source_from

S = Selection()
BRISBANE, NEW_YORK = "Australia/Brisbane", "America/New_York"
D, TS = decimal.Decimal, pd.Timestamp


class Grade(enum.IntEnum):
    """A number that has a name."""

    GOOD = 1


class Shade(enum.StrEnum):
    """A text that has a name."""

    RED = "a"


def clock(zone: datetime.tzinfo | None = None) -> list[datetime.datetime]:
    """Return moments whose day depends on the zone, and some far away."""
    hours: list[Any] = [
        (2020, 1, 1, 5),
        (2020, 1, 1, 20),
        (2019, 12, 31, 23, 59, 59, 999999),
        (1969, 12, 31, 23, 59, 59, 1),
    ]
    return [datetime.datetime(*h).replace(tzinfo=zone) for h in hours] + [
        datetime.datetime(1, 1, 1, 3, tzinfo=zone),
        datetime.datetime(9999, 12, 31, 20, tzinfo=zone),
        datetime.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=zone),
    ]


CELLS: dict[str, list[Any]] = {
    "truths": [True, False],
    "whole numbers": [1, 0, -5, 2, 2**31, 2**53 - 1],
    "large numbers": [2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, -(2**63)],
    "unsigned numbers": [2**63 + 1, 2**64 - 1, 1],
    "vast numbers": [2**64, 10**30, -(10**30), 1],
    "small integers of numpy": [np.int8(1), np.int8(-5)],
    "floats": [0.1, 1.0, 2.5, -0.0, math.inf, -math.inf, 1e300, 5e-324, 1e15, 1e-7, 123456.789],
    "large floats": [2.0**53, 2.0**60, 1e16, 1e22],
    "floats of 32 bits": [np.float32(0.1), np.float32(1), np.float32(2.5), np.float32(1e-7)],
    "floats of 16 bits": [np.float16(0.1), np.float16(1)],
    "decimals": [D("1"), D("2.50"), D("-0.05"), D("0.00"), D("100"), D("12.345")],
    "whole decimals": [D("1"), D("2"), D("-5"), D(10**20)],
    "texts": ["a", "1", "1.0", " 2 ", "true", "T", "2.5", "1e3", "", "2020-01-01", "2020-01-01 05:00:00", "?"],
    "zoned texts": ["2020-01-01 05:00:00+10:00", "2020-01-01T05:00:00Z", "2019-12-31 19:00:00+00"],
    "days": [
        datetime.date(2020, 1, 1),
        datetime.date(1, 1, 1),
        datetime.date(9999, 12, 31),
        datetime.date(1969, 12, 31),
    ],
    "moments": clock(),
    "moments in one zone": clock(zoneinfo.ZoneInfo(BRISBANE))[:4],
    "moments in another zone": clock(zoneinfo.ZoneInfo(NEW_YORK))[:4],
    "moments with an offset": clock(datetime.timezone(datetime.timedelta(hours=2)))[:4],
    "moments of pandas": [TS("2020-01-01 05:00", tz=BRISBANE), TS("2020-01-01 20:00", tz=BRISBANE)],
    "finer moments": [TS("2020-01-01 05:00:00.123456789"), TS("1969-12-31 23:59:59.999999999"), TS("2020-01-01")],
    "finer zoned moments": [TS("2020-01-01 05:00:00.123456789", tz=BRISBANE), TS("2020-01-01 05:00", tz=BRISBANE)],
    "moments in seconds": [TS("2020-01-01").as_unit("s"), TS(2**40, unit="s").as_unit("s")],
    "moments of numpy": [np.datetime64("2020-01-01T05:00", "s"), np.datetime64("1969-12-31T23:59:59.5", "ns")],
    "months": [pd.Period("2020-01"), pd.Period("1969-12")],
    "quarters": [pd.Period("2020Q1"), pd.Period("1969Q4")],
    "bytes": [b"1", b"a", b"\xff"],
    "times": [datetime.time(1), datetime.time(0)],
    "durations": [datetime.timedelta(1), np.timedelta64(1, "ns")],
    "names of a machine": [uuid.UUID(int=1), uuid.UUID(int=2**127)],
    "enums": [Grade.GOOD, Shade.RED],
    "complex numbers": [1j, 1 + 0j],
    "nested": [[1], {"a": 1}, (1,)],
    "missing": [None, math.nan, pd.NaT, pd.NA],
    "other objects": [object(), Fraction(1, 2), range(2)],
}
TEXTS = [
    "a",
    "1",
    "0",
    "true",
    "false",
    "0.1",
    "2.5",
    "12.345",
    "-0.05",
    "2020-01",
    "2020Q1",
    "2020-01-01",
    "0.10000000149011612",
]
TEXTS += ["2020-01-01 05:00:00", "2019-12-31 19:00:00+00", "2020-01-01 05:00:00.123456789", "2020-01-01 05:00:00+10:00"]
DECLARED: dict[str, Any] = {
    "integer": sd.Integer(-(2**53), 2**53),
    "narrow": sd.Integer(0, 9),
    "real": sd.Real(-10, 1000, resolution="0.001"),
    "far real": sd.Real(resolution=1),
    "text": sd.Category(TEXTS, other="else"),
    "codes": sd.Category([0, 1, 2], other=9),
    "truth": sd.Boolean(),
    "day": sd.Date("0001-01-01", "9999-12-31"),
    "moment": sd.DateTime("1960-01-01", "2030-12-31", zone="Asia/Kolkata", resolution="0.001"),
    "far moment": sd.DateTime("1000-01-01", "2999-12-31", zone="UTC", resolution="second"),
    "name": sd.Identifier(),
}
DOMAIN = sd.Domain({"i": sd.Integer(0, 10**6), **DECLARED})
NAMES = ("text", "name")  # what pandas reads below 2^53 only
Codes = dict[str, list[Any]]


_READ: dict[tuple[str, bool, str, str], list[Any]] = {}  # codes of arrays that were read before


def read(source: Any, declared: Iterable[str] = tuple(DECLARED), **keywords: Any) -> Codes:
    """Return the code of each cell by what it is declared as, in the order of rows."""
    domain = sd.Domain({"i": DOMAIN["i"], **{name: DOMAIN[name] for name in declared}})
    if isinstance(source, Path):
        return run(source_from(source, **keywords), domain)
    table = arrow_of(source, domain)
    codes = {}
    for name in declared:
        cells = table.column(name).combine_chunks()
        key = name, False, str(cells.type), contents(cells)
        if key not in _READ:
            _READ[key] = run(table.select(["i", name]), sd.Domain({n: DOMAIN[n] for n in ("i", name)}))[name]
        codes[name] = _READ[key]
    return codes


def contents(cells: Any) -> str:
    """Return what an array holds, as text; Python has no moments of far years."""
    return repr((cells.cast(pa.int64()) if pa.types.is_timestamp(cells.type) else cells).to_pylist())


def run(held: Any, domain: sd.Domain) -> Codes:
    """Return the codes of an engine that reads a source, one column at a time, as such questions plan fastest."""
    engine = DuckDBEngine(held, domain=domain, unit=None)
    codes = {}
    for name in domain.columns:
        if name == "i":
            continue
        on = engine.primitives
        chosen = [exp.alias_(on.integer("i", 0, 10**6), "i"), exp.alias_(reading(on, name), "code")]
        rows = engine.run(exp.Select(expressions=chosen).from_(on.source())).to_pylist()
        codes[name] = [row["code"] for row in sorted(rows, key=lambda row: int(row["i"]))]
    engine.close()
    return codes


def reading(on: Any, name: str) -> Any:
    """Return the code of a cell in an engine's words."""
    column = DOMAIN[name]
    if isinstance(column, sd.DateTime):
        return on.moments(name, column.zone, column.resolution, *column.steps)
    if isinstance(column, sd.Integer):
        assert column.lower is not None
        assert column.upper is not None
        return on.integer(name, column.lower, column.upper)
    return _reading(on, name, column)[0]


def unit_names(frame: Any, name: str, count: int) -> list[Any]:
    """Return the text by which each of the first rows' units is told from others, where the column is the unit."""
    domain, unit = sd.Domain({n: DOMAIN[n] for n in ("i", name)}), PrivacyUnit(name, max_rows=1)
    table = arrow_of(frame, domain, unit=name).slice(0, count)
    cells = table.column(name).combine_chunks()
    key = name, True, str(cells.type), contents(cells)
    if key not in _READ:
        engine = DuckDBEngine(table, domain=domain, unit=unit)
        on = engine.primitives
        chosen = [exp.alias_(on.integer("i", 0, 10**6), "i"), exp.alias_(on._tree(on._unit_text()), "unit")]
        rows = engine.run(exp.Select(expressions=chosen).from_(on.source())).to_pylist()
        engine.close()
        _READ[key] = [row["unit"] for row in sorted(rows, key=lambda row: int(row["i"]))]
    return _READ[key]


def in_pandas(cells: Sequence[Any], *, dtype: Any = None) -> pd.DataFrame:
    """Return a frame that holds the cells once under each declaration, as pandas infers their type."""
    series = pd.Series(list(cells), dtype=dtype)
    return pd.DataFrame({"i": range(len(cells)), **dict.fromkeys(DECLARED, series)})


def in_rows(cells: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a list of dicts that holds the cells once under each declaration."""
    return [{"i": i, **dict.fromkeys(DECLARED, cell)} for i, cell in enumerate(cells)]


def in_arrow(array: Any) -> pa.Table:
    """Return an Arrow table that holds an array once under each declaration."""
    return pa.table({"i": range(len(array)), **dict.fromkeys(DECLARED, array)})


@pytest.mark.deep
@pytest.mark.attack("poison an answer by one row")
@pytest.mark.parametrize("odd", ["?", TS("2020-01-01"), TS("2020-01-01", tz="UTC"), datetime.date(2020, 1, 1), None])
def test_one_row_of_another_kind_moves_the_day_of_no_other(odd: Any) -> None:
    """Finding: a column of zoned moments was read by its day in UTC, one of objects by the day of each zone: 0 was 400."""
    day = TS("2020-01-01 05:00", tz=BRISBANE)
    domain = sd.Domain({"d": sd.Date("2019-01-01", "2021-01-01")})
    asked = S.where(col("d") >= datetime.date(2020, 1, 1)).agg(sd.count())
    assert exact(pd.DataFrame({"d": [day] * 400}), domain, asked) == [[0]]
    assert exact(pd.DataFrame({"d": [day] * 400 + [odd]}), domain, asked)[0][0] <= 1


def pairs() -> Iterator[tuple[str, str]]:
    yield from itertools.product(CELLS, repeat=2)


SAMPLE = random.Random("readings").sample(sorted(pairs()), 20)


def check_pair(kind: str, other: str, declared: Iterable[str]) -> None:
    """Hold the codes of one kind of cell to be the same beside each cell of another kind, however pandas infers a type."""
    cells, count = CELLS[kind], len(CELLS[kind])
    alone = read(in_pandas(cells), declared)
    named = {name: unit_names(in_pandas(cells), name, count) for name in declared}
    for odd in CELLS[other]:
        frame = in_pandas([*cells, odd])
        parts = [in_pandas(cells), in_pandas([odd]).assign(i=count)]
        frames = [frame]
        with suppress(pd.errors.OutOfBoundsDatetime):  # pandas joins no far moments with finer ones
            frames.append(pd.concat(parts, ignore_index=True))
        # Of truths and numbers in two frames pandas makes numbers, before Sordino sees them.
        dtypes = {str(held["name"].dtype) for held in (*parts, frames[-1])}
        for held in frames[:1] if "bool" in dtypes and dtypes != {"bool"} else frames:
            assert read(held.head(count), declared) == alone, (kind, odd)
        for name, texts in named.items():
            assert unit_names(frame, name, count) == texts, (kind, odd, name)


@pytest.mark.each(20)
@pytest.mark.parametrize("pair", SAMPLE, ids=" beside ".join)
def test_one_odd_cell_changes_how_no_other_is_read_in_pandas(pair: tuple[str, str]) -> None:
    check_pair(*pair, random.Random(str(pair)).sample(sorted(DECLARED), 3))


@pytest.mark.deep
@pytest.mark.parametrize("kind", CELLS)
def test_no_odd_cell_of_any_kind_changes_how_another_is_read_in_pandas(kind: str) -> None:
    for place, other in enumerate(CELLS, list(CELLS).index(kind)):
        check_pair(kind, other, sorted(DECLARED)[place % 3 :: 3])


def arrow_types(kind: str) -> list[Any]:
    """Return the Arrow types that hold cells of a kind without loss."""
    few: dict[str, list[Any]] = {
        "truths": [pa.bool_()],
        "whole numbers": [pa.int64(), pa.float64(), pa.decimal128(20, 0), pa.decimal128(30, 5)],
        "large numbers": [pa.int64(), pa.decimal128(20, 0), pa.decimal128(38, 3)],
        "unsigned numbers": [pa.uint64(), pa.decimal128(20, 0)],
        "vast numbers": [pa.decimal128(38, 0)],
        "small integers of numpy": [pa.int8(), pa.int32(), pa.int64()],
        "floats": [pa.float64()],
        "large floats": [pa.float64()],
        "floats of 32 bits": [pa.float32(), pa.float64()],
        "floats of 16 bits": [pa.float32(), pa.float64()],
        "decimals": [pa.decimal128(6, 3), pa.decimal128(18, 4), pa.decimal128(38, 10)],
        "whole decimals": [pa.decimal128(21, 0), pa.decimal128(38, 2)],
        "texts": [pa.string(), pa.large_string(), pa.string_view()],
        "zoned texts": [pa.string()],
        "days": [pa.date32(), pa.date64()],
        "moments": [pa.timestamp("us")],
        "finer moments": [pa.timestamp("ns")],
        "finer zoned moments": [pa.timestamp("ns", "UTC"), pa.timestamp("ns", BRISBANE)],
        "moments of pandas": [pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in ("UTC", NEW_YORK)],
        "missing": [pa.null(), pa.string(), pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.bool_()],
    }
    zoned = [pa.timestamp("us", "UTC"), pa.timestamp("us", BRISBANE), pa.timestamp("us", "+02:00")]
    return few.get(kind, zoned if kind.startswith("moments ") and "seconds" not in kind and "numpy" not in kind else [])


def arrow_array(kind: str, held: Any) -> Any:
    cells = CELLS[kind]
    if kind == "missing":
        return pa.nulls(len(cells), held)
    if kind.startswith("finer"):
        numbers = [cell.as_unit("ns").asm8.astype(np.int64).item() for cell in cells]
        return pa.array(numbers, pa.int64()).cast(held)
    plain = [cell.item() if isinstance(cell, np.generic) else cell for cell in cells]
    if pa.types.is_floating(held):
        plain = [float(cell) for cell in plain]
    elif pa.types.is_decimal(held):
        plain = [D(cell) for cell in plain]
    return pa.array(plain, held)


def containers(kind: str, folder: Path) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield each container that holds cells of a kind, by its name."""
    cells = CELLS[kind]
    yield "objects of pandas", in_pandas(cells, dtype=object), {}
    yield "pandas", in_pandas(cells), {}
    if all(isinstance(cell, Hashable) for cell in cells) and kind not in ("missing", "floats of 16 bits"):
        yield "categories of pandas", in_pandas(cells, dtype="category"), {}
    if kind in SQLITE:
        yield "SQLite", in_sqlite(cells, folder / "s.sqlite"), {"relation": "t"}
    for number, held in enumerate(arrow_types(kind)):
        table = in_arrow(arrow_array(kind, held))
        yield f"Arrow {held}", table, {}
        if held not in (pa.string_view(), pa.null()):
            yield f"dictionary {held}", in_arrow(table["name"].combine_chunks().dictionary_encode()), {}
            yield f"pandas {held}", table.to_pandas(types_mapper=pd.ArrowDtype), {}
        if held not in (pa.date64(), pa.string_view()) and not (pa.types.is_decimal(held) and held.precision > 30):
            yield f"polars {held}", pl.from_arrow(table), {}
        yield f"relation {held}", duckdb.from_arrow(table), {}
        if number:
            continue
        pq.write_table(table, folder / "t.parquet")
        yield f"Parquet {held}", folder / "t.parquet", {}
        store = folder / "t.duckdb"
        with duckdb.connect(str(store)) as made:
            made.register("t", table)
            made.execute("CREATE TABLE held AS SELECT * FROM t")
        yield f"DuckDB {held}", store, {"relation": "held"}


SQLITE = ("whole numbers", "large numbers", "floats", "large floats", "texts", "zoned texts", "bytes")


def in_sqlite(cells: Sequence[Any], path: Path) -> Path:
    names = ["i", *DECLARED]
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (" + ", ".join(f'"{name}"' for name in names) + ")")
        rows = [[i] + [cell] * len(DECLARED) for i, cell in enumerate(cells)]
        made.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", rows)
    made.close()
    return path


def check_containers(kind: str, declared: Sequence[str], folder: Path) -> None:
    """Hold the codes of cells of one kind to be those of a list of dicts in every container."""
    wanted = read(in_rows(CELLS[kind]), declared)
    for held, source, keywords in containers(kind, folder):
        for name, codes in read(source, declared, **keywords).items():
            # A number from 2^53 on is no name in pandas' own dtypes.
            lost = name in NAMES and held.endswith("pandas")
            assert codes == [
                code if lost and isinstance(cell, (int, float)) and abs(cell) >= 2**53 and math.isfinite(cell) else want
                for code, want, cell in zip(codes, wanted[name], CELLS[kind], strict=True)
            ], (held, name)


@pytest.mark.each(60)
@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_is_read_alike_in_every_container(tmp_path: Path, kind: str) -> None:
    check_containers(kind, sorted({"day", *random.Random(kind).sample(sorted(DECLARED), 2)}), tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("kind", CELLS)
def test_a_cell_of_each_declared_type_is_read_alike_in_every_container(tmp_path: Path, kind: str) -> None:
    check_containers(kind, sorted(DECLARED), tmp_path)
