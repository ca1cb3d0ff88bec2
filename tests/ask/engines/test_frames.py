"""Frames in memory: one odd cell changes no other row's reading, and all kinds of source give one exact answer."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import ask, assert_within_sensitivity, engine_of, exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors
from sordino.errors import DeclarationError, SourceError

S = Selection()
DAY = datetime.date(2000, 1, 1)
READ: dict[str, tuple[sd.Domain, Any]] = {
    "integer": (sd.Domain({"x": sd.Integer(0, 100)}), sd.sum("x")),
    "real": (sd.Domain({"x": sd.Real(-5, 5, resolution=0.5)}), sd.sum("x")),
    "text": (
        sd.Domain({"x": sd.Category(["1", "a", "2.5", "true"], other="z", missing="keep")}),
        S.group_by("x").agg(sd.count()),
    ),
    "codes": (sd.Domain({"x": sd.Category([1, 2], missing="keep")}), S.group_by("x").agg(sd.count())),
    "truth": (sd.Domain({"x": sd.Boolean(missing="keep")}), S.group_by("x").agg(sd.count())),
    "day": (sd.Domain({"x": sd.Date("1990-01-01", "2010-01-01")}), S.where(col("x") >= DAY).agg(sd.count())),
    "name": (sd.Domain({"x": sd.Identifier()}), S.where(col("x") == "1").agg(sd.count())),
}
COLUMNS: dict[str, list[Any]] = {
    "ints": [1, 2, 1] * 5,
    "floats": [1.0, 2.5, 1.0, float("inf")] * 5,
    "texts": ["1", "a", "true", "2000-01-01", "2.5", "39", "1e5", " 1"] * 3,
    "truths": [True, False, True] * 3,
    "days": [DAY] * 3,
    "times": [pd.Timestamp("2000-01-01 05:00")] * 3,
    "numpy": [np.int64(1)] * 3,
    "decimals": [decimal.Decimal(1), decimal.Decimal("2.5")],
    "none": [],
}
ODD: list[Any] = [None, float("nan"), float("inf"), "x", "1", "", 7, 2.5, True, DAY, pd.Timestamp("2000-01-01"), pd.NaT]
ODD += [
    decimal.Decimal("3"),
    decimal.Decimal("sNaN"),
    10**30,
    -(10**400),
    b"1",
    [1],
    pd.NA,
    object(),
    np.float32(1.5),
    1e300,
]


@pytest.mark.each(22)
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("name", COLUMNS)
def test_one_odd_object_in_pandas_moves_no_other_row(name: str, read: str) -> None:
    domain, asked = READ[read]
    dtype = object if read == "name" else None  # an identifier held as floats is refused
    before = exact(pd.DataFrame({"x": pd.Series(COLUMNS[name], dtype=dtype)}), domain, asked)
    turn = list(COLUMNS).index(name) + list(READ).index(read)
    for odd in ODD[turn % 4 :: 4]:  # each odd object meets each kind of column, and each reading
        after = exact(pd.DataFrame({"x": pd.Series([*COLUMNS[name], odd], dtype=dtype)}), domain, asked)
        assert_within_sensitivity(domain, asked, before, after, Neighbors("add_remove", None))


def test_pandas_categories_are_read_like_their_values() -> None:
    domain, asked = READ["codes"]
    for extra in ([], [None], ["x"], [1.5]):
        frame = pd.DataFrame({"x": pd.Series([1, 2, 1, *extra], dtype="category")})
        assert exact(frame, domain, asked)[0][:2] == [2, 1]


ROWS = 200
TABLE = pa.table(
    {
        "age": pa.array([None if i % 7 == 0 else i % 90 for i in range(ROWS)], pa.int64()),
        "gain": pa.array([i / 3 for i in range(ROWS)], pa.float64()),
        "occ": pa.array([["Sales", "Tech", None, "?"][i % 4] for i in range(ROWS)]),
    }
)
DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 80),
        "gain": sd.Real(0, 50, resolution=0.01),
        "occ": sd.Category(["Sales", "Tech"], missing="keep"),
    }
)
ASKED = S.where(col("gain") > 3).group_by("occ").agg(sd.count(), sd.mean("age"), sd.sum("gain"))


def sources(folder: Path) -> dict[str, Any]:
    pq.write_table(TABLE, folder / "one.parquet", row_group_size=64)
    pq.write_table(TABLE.slice(0, 50), folder / "many-1.parquet")
    pq.write_table(TABLE.slice(50), folder / "many-2.parquet")
    store = duckdb.connect(str(folder / "s.duckdb"))
    store.register("t", TABLE)
    store.execute('CREATE SCHEMA "my schema"; CREATE TABLE plain AS SELECT * FROM t')
    store.execute('CREATE TABLE "my schema"."od""d" AS SELECT * FROM t')
    store.close()
    pandas = TABLE.to_pandas()
    return {
        "parquet": (folder / "one.parquet", {}),
        "glob": (folder / "many-*.parquet", {}),
        "duckdb file": (folder / "s.duckdb", {"relation": "plain"}),
        "duckdb schema": (folder / "s.duckdb", {"relation": 'my schema.od"d'}),
        "arrow": (TABLE, {}),
        "pandas": (pandas, {}),
        "pandas objects": (pandas.astype(object), {}),
        "pandas nullable": (TABLE.to_pandas(types_mapper=pd.ArrowDtype), {}),
        "polars": (pl.from_arrow(TABLE), {}),
        "polars lazy": (pl.DataFrame(pl.from_arrow(TABLE)).lazy(), {}),
        "duckdb relation": (duckdb.from_arrow(TABLE), {}),
        "record batch": (TABLE.combine_chunks().to_batches()[0], {}),
        "reader": (TABLE.to_reader(max_chunksize=7), {}),
        "dataset": (ds.dataset(folder / "one.parquet"), {}),
        "dataset of files": (ds.dataset([str(folder / f"many-{i}.parquet") for i in (1, 2)]), {}),
        "stream": (Streamed(TABLE), {}),
        "narwhals": (nw.from_native(TABLE), {}),
        "narwhals of pandas": (nw.from_native(pandas.astype(object)), {}),
        "narwhals lazy": (nw.from_native(pl.DataFrame(pl.from_arrow(TABLE)).lazy()), {}),
        "rows": (TABLE.to_pylist(), {}),
    }


class Streamed:
    """What hands itself on as Arrow and is nothing else, as other libraries' tables do."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.deep
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("name", COLUMNS)
def test_one_odd_row_in_a_list_of_dicts_moves_no_other(name: str, read: str) -> None:
    domain, asked = READ[read]
    rows: list[Any] = [{"x": cell} for cell in COLUMNS[name]] or [{}]
    before = exact(rows, domain, asked)
    turn = list(COLUMNS).index(name) + list(READ).index(read)
    odd: list[Any] = [{"x": cell} for cell in ODD[turn % 4 :: 4]]
    strange: list[Any] = [{}, {"y": 1}, {None: 2}, None, 17, "x", [1]]
    for row in [*odd, *strange[turn % 2 :: 2]]:
        engine = engine_of([row, *rows], domain)
        after, counted = ask(engine, domain, asked), ask(engine, domain, sd.count())
        engine.close()
        assert_within_sensitivity(domain, asked, before, after, Neighbors("add_remove", None))
        assert counted[0] == [len(rows) + 1]


def test_a_list_of_no_rows_is_an_empty_table_and_columns_of_lists_are_refused() -> None:
    assert exact([], READ["text"][0], sd.count()) == [[0]]
    domain = sd.Domain({"x": sd.List(sd.Integer(0, 3), max_items=2)})
    with pytest.raises(DeclarationError, match="list of dicts does not hold"):
        exact([{"x": [1]}], domain, sd.count())


def test_a_dataset_of_text_files_is_refused_since_its_rows_decide_its_types(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n2\n")
    with pytest.raises(DeclarationError, match="name the file itself"):
        exact(ds.dataset(tmp_path / "x.csv", format="csv"), READ["integer"][0], sd.count())


def test_a_relation_whose_types_its_rows_decide_is_refused(tmp_path: Path) -> None:
    """Finding: DuckDB makes text of the objects of pandas where one is odd, and a zoned moment's day is then another."""
    (tmp_path / "x.csv").write_text("x\n1\n")
    (tmp_path / "x.json").write_text('{"x": 1}\n')
    moment = pd.Timestamp("2020-01-01 05:00", tz="Australia/Brisbane")
    found = []
    for cells in ([moment], [moment, "?"]):
        held = duckdb.from_df(pd.DataFrame({"x": pd.Series(cells, dtype=object)}))
        found.append(str(held.types[0]))
        for relation in (held, held.filter("x IS NOT NULL"), held.aggregate("count(*) AS x")):
            with pytest.raises(DeclarationError, match="hand on the frame itself"):
                exact(relation, READ["day"][0], sd.count())
    assert found == ["TIMESTAMP WITH TIME ZONE", "VARCHAR"]  # DuckDB's own, of two neighbors
    for text in ("x.csv", "x.json"):
        with pytest.raises(DeclarationError, match="name the file itself"):
            exact(duckdb.sql(f"SELECT * FROM '{tmp_path / text}'"), READ["integer"][0], sd.count())
    assert exact(duckdb.from_arrow(pa.table({"x": ["PANDAS_SCAN"]})), READ["text"][0], sd.count()) == [[1]]


def test_a_dataset_with_a_filter_is_refused_since_one_row_decides_whether_others_count(tmp_path: Path) -> None:
    wanted = ~(ds.field("x") <= 3)
    counts = []
    for number, more in enumerate(([], [9.0])):
        pq.write_table(pa.table({"x": [float("nan")] * 5 + [1.0, *more]}), tmp_path / f"{number}.parquet")
        counts.append(ds.dataset(tmp_path / f"{number}.parquet").to_table(filter=wanted).num_rows)
    assert counts == [0, 6]  # Arrow's own, of two neighbors
    filtered = ds.dataset(tmp_path / "1.parquet").filter(wanted)
    with pytest.raises(DeclarationError, match="put the condition into the question"):
        exact(filtered, READ["real"][0], sd.count())
    whole = ds.dataset(tmp_path / "1.parquet").to_table().filter(wanted)
    assert exact(whole, READ["real"][0], sd.count()) == [[6]]


def test_streams_that_break_say_nothing_of_their_cells() -> None:
    def batches() -> Any:
        yield pa.record_batch({"x": pa.array([1])})
        raise ValueError("S3CRET-9f")

    broken = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())
    for frame in (broken, Streamed(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]))):
        with pytest.raises(SourceError) as error:
            exact(frame, READ["integer"][0], sd.count())
        assert "S3CRET" not in repr(error.value)
        assert error.value.__cause__ is error.value.__context__ is None
    with pytest.raises(DeclarationError, match="no such column; known: 'y'"):
        exact(Streamed(pa.table({"y": [1]})), READ["integer"][0], sd.count())


class Panicking:
    """What panics, in Rust's word, when it is read: libraries written in it raise what is no Exception."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise pl.exceptions.PanicException("S3CRET-9f")


def test_a_library_that_panics_says_nothing_of_its_cells() -> None:
    assert not issubclass(pl.exceptions.PanicException, Exception)
    with pytest.raises(SourceError, match="the Arrow stream cannot be read") as error:
        exact(Panicking(), READ["integer"][0], sd.count())
    assert "S3CRET" not in repr(error.value)
    assert error.value.__cause__ is error.value.__context__ is None


def test_text_of_a_stream_that_is_not_utf8_is_missing() -> None:
    raw = pa.array([b"Sales", b"\xff\xfe", b"Tech"])
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    domain = sd.Domain({"x": sd.Category(["Sales", "Tech"], missing="keep")})
    asked = S.group_by("x").agg(sd.count())
    assert exact(Streamed(pa.table({"x": text})), domain, asked) == [[1, 1, 1]]


def test_all_sources_give_one_exact_answer(tmp_path: Path) -> None:
    found = {name: exact(source, DOMAIN, ASKED, **how) for name, (source, how) in sources(tmp_path).items()}
    assert all(answer == found["arrow"] for answer in found.values()), found


def test_a_column_of_nothing_is_missing_and_not_refused() -> None:
    for frame in (
        pa.table({"x": pa.nulls(3)}),
        pl.DataFrame({"x": [None, None, None]}),
        pd.DataFrame({"x": [None] * 3}),
    ):
        for domain, asked in READ.values():
            exact(frame, domain, asked)
        assert exact(frame, READ["codes"][0], READ["codes"][1]) == [[0, 0, 3]]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([b"S3CRET-9f"]),
        pa.array([["S3CRET-9f"]]),
        pa.array([{"a": "S3CRET-9f"}]),
        pa.array([datetime.time(1)]),
        pa.array([1], pa.duration("s")),
        pa.array([decimal.Decimal(1)], pa.decimal256(50, 2)),
        pa.array(np.array([1], dtype="float16")),
    ],
    ids=lambda a: str(a.type),
)
def test_physical_types_that_no_column_reads_are_refused_at_the_door(array: pa.Array) -> None:
    with pytest.raises(DeclarationError, match="store it as a number, text, a boolean or a day") as error:
        exact(pa.table({"x": array}), READ["text"][0], sd.count())
    assert "S3CRET" not in str(error.value)
    exact(pa.table({"x": array, "y": [1]}).select(["y"]), sd.Domain({"y": sd.Integer(0, 1)}), sd.count())


def test_frames_that_cannot_be_read_say_nothing_of_their_cells() -> None:
    huge = pl.DataFrame({"x": pl.Series([170141183460469231731687303715884105727], dtype=pl.Int128)})
    odd = pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)})
    for frame in (huge, odd):
        with pytest.raises(ValueError, match=r"store") as error:
            exact(frame, READ["integer"][0], sd.count())
        assert "17014118346" not in repr(error.value)
        assert error.value.__cause__ is None
        assert error.value.__context__ is None
    with pytest.raises(DeclarationError, match="not a list"):
        exact([1], READ["integer"][0], sd.count())
    with pytest.raises(DeclarationError, match="no such column; known: 'y'"):
        exact(pa.table({"y": [1]}), READ["integer"][0], sd.count())
    broken = duckdb.sql("SELECT CAST('S3CRET-9f' AS INTEGER) AS x FROM range(1)")
    with pytest.raises((SourceError, DeclarationError)) as said:
        exact(broken, READ["integer"][0], sd.count())
    assert "S3CRET" not in repr(said.value)
