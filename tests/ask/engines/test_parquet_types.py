"""Several Parquet files (sordino.ask.engines.parquet): one file never decides how the rows of another are read."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import ask, assert_within_sensitivity, engine_of, exact
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Apply
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.errors import DeclarationError, SourceError

S = Selection()
ROW = Neighbors("add_remove", None)
NIGHT = dt.datetime(2020, 1, 1, 0, 30)
LARGE = [2**60 + k for k in range(40)]
HALVES = [k + 0.5 for k in range(40)]
CELLS: dict[str, pa.Array] = {
    "int8": pa.array(range(40), pa.int8()),
    "uint8": pa.array(range(40), pa.uint8()),
    "int32": pa.array([2**30 + 1 + k for k in range(40)], pa.int32()),
    "uint32": pa.array([2**31 + 1 + k for k in range(40)], pa.uint32()),
    "int64": pa.array(LARGE),
    "uint64": pa.array([2**63 + k for k in range(40)], pa.uint64()),
    "float16": pa.array(np.array(HALVES, np.float16)),
    "float32": pa.array(HALVES, pa.float32()),
    "float64": pa.array([k / 10 for k in range(40)]),
    "decimal": pa.array([Decimal(k) / 4 for k in range(40)], pa.decimal128(10, 2)),
    "fine decimal": pa.array([Decimal(k) / 8 for k in range(40)], pa.decimal128(38, 30)),
    "text": pa.array([f"0{k}" for k in range(40)]),
    "dictionary": pa.array([f"0{k % 9}" for k in range(40)]).dictionary_encode(),
    "boolean": pa.array([k % 2 == 0 for k in range(40)]),
    "date": pa.array([dt.date(2020, 1, 1)] * 40),
    "milliseconds": pa.array([NIGHT] * 40, pa.timestamp("ms")),
    "microseconds": pa.array([NIGHT] * 40, pa.timestamp("us")),
    "nanoseconds": pa.array([NIGHT] * 40, pa.timestamp("ns")),
    "zoned": pa.array([NIGHT] * 40, pa.timestamp("us", "UTC")),
    "zoned elsewhere": pa.array([NIGHT] * 40, pa.timestamp("us", "America/New_York")),
    "nothing": pa.nulls(40),
}
TOTALS = S.agg(sd.count(), sd.sum("x"))
CASTS = S.agg(sd.sum(Expr(Apply("to_whole", (col("x") * 0.5).node))))
NAMES = S.agg(sd.count_distinct("x"))
DECLARED: dict[str, tuple[sd.Domain, list[Any]]] = {
    "real": (sd.Domain({"x": sd.Real(0, 2**31, resolution=0.1)}), [TOTALS, CASTS]),
    "integer": (sd.Domain({"x": sd.Integer(0, 2**31)}), [TOTALS, CASTS]),
    "large integer": (sd.Domain({"x": sd.Integer(2**60, 2**60 + 40)}), [TOTALS]),
    "category": (
        sd.Domain({"x": sd.Category([0, 1, 2**30 + 1], missing="keep", other=-1)}),
        [S.group_by("x").agg(sd.count())],
    ),
    "boolean": (sd.Domain({"x": sd.Boolean(missing="keep")}), [S.group_by("x").agg(sd.count())]),
    "words": (
        sd.Domain({"x": sd.Category(["07", "7", "true", "2020-01-01 00:30:00"], missing="keep", other="?")}),
        [S.group_by("x").agg(sd.count())],
    ),
    "identifier": (sd.Domain({"x": sd.Identifier()}), [NAMES]),
    "date": (
        sd.Domain({"x": sd.Date("2019-01-01", "2021-01-01")}),
        [S.where(col("x") >= "2020-01-01").agg(sd.count())],
    ),
    "datetime": (
        sd.Domain({"x": sd.DateTime("2019-01-01", "2021-01-01", zone="America/New_York")}),
        [S.where(col("x") >= "2020-01-01 00:00").agg(sd.count())],
    ),
}


def write(folder: Path, name: str, cells: pa.Array) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": cells}), folder / f"{name}.parquet")


def answers(folder: Path, domain: sd.Domain, questions: list[Any]) -> list[Any]:
    engine = engine_of(f"{folder}/", domain)
    try:
        return [ask(engine, domain, question) for question in questions]
    finally:
        engine.close()


def check_joining(declared: str, first: str, others: list[str], folder: Path) -> None:
    """Require that a file of each of the other types is refused, or leaves the rows of the first file as they count."""
    domain, questions = DECLARED[declared]
    write(folder / "alone", "b", CELLS[first])
    before = answers(folder / "alone", domain, questions)
    for second in others:
        joined = folder / second
        write(joined, "b", CELLS[first])
        write(joined, "a", CELLS[second][3:4])
        try:
            after = answers(joined, domain, questions)
        except DeclarationError:
            assert first != second
            continue
        for question, was, now in zip(questions, before, after, strict=True):
            assert_within_sensitivity(domain, question, was, now, ROW)


@pytest.mark.deep
@pytest.mark.attack("let one row decide how others are read", source="an added Parquet file of another type")
@pytest.mark.each(2)
@pytest.mark.parametrize(("declared", "first"), list(itertools.product(DECLARED, CELLS))[::50])
def test_a_file_that_joins_moves_no_row_of_another(declared: str, first: str, tmp_path: Path) -> None:
    """Of some declarations and types of a first file, one type of the second; the deep test tries every pair of types."""
    check_joining(declared, first, [random.Random(f"{declared} {first}").choice(sorted(CELLS))], tmp_path)


@pytest.mark.deep
@pytest.mark.attack("let one row decide how others are read", source="an added Parquet file of another type")
@pytest.mark.parametrize("first", CELLS)
@pytest.mark.parametrize("declared", DECLARED)
def test_no_file_of_any_type_that_joins_moves_a_row_of_another(declared: str, first: str, tmp_path: Path) -> None:
    """Each type joins each under two or three of seven declarations: of the three, each two are tried together."""
    turn = list(DECLARED).index(declared) + list(CELLS).index(first)
    check_joining(declared, first, list(CELLS)[turn % 3 :: 3], tmp_path)


@pytest.mark.each(7)
@pytest.mark.parametrize(
    ("declared", "first", "second"),
    [
        ("identifier", "int64", "int32"),
        ("identifier", "int32", "float64"),
        ("identifier", "dictionary", "text"),
        ("identifier", "zoned", "zoned elsewhere"),
        ("identifier", "zoned", "nothing"),
        ("datetime", "milliseconds", "microseconds"),
        ("real", "int64", "float64"),
        ("integer", "int64", "float64"),
        ("category", "int64", "float64"),
    ],
)
def test_files_whose_cells_are_read_alike_are_one_table(declared: str, first: str, second: str, tmp_path: Path) -> None:
    domain = DECLARED[declared][0]
    write(tmp_path / "t", "a", CELLS[first])
    write(tmp_path / "t", "b", CELLS[second])
    assert exact(f"{tmp_path}/t/", domain, sd.count()) == [[80]]


@pytest.mark.each(2)
@pytest.mark.parametrize(
    ("declared", "first", "second"),
    [
        ("identifier", "int64", "float64"),
        ("large integer", "int64", "float64"),
        ("real", "int64", "float32"),
        ("real", "float64", "decimal"),
        ("datetime", "microseconds", "zoned"),
        ("identifier", "text", "int8"),
        ("identifier", "boolean", "int8"),
    ],
)
def test_other_files_are_refused_before_a_row_is_read(declared: str, first: str, second: str, tmp_path: Path) -> None:
    domain = DECLARED[declared][0]
    refusals = set()
    for rows in (0, 40):
        write(tmp_path / "t", "a", CELLS[first])
        write(tmp_path / "t", "b", CELLS[second][:rows])
        with pytest.raises(DeclarationError) as refused:
            exact(f"{tmp_path}/t/", domain, sd.count())
        refusals.add(str(refused.value))
    assert len(refusals) == 1


def test_a_column_that_names_units_is_a_name_whatever_it_is_declared_as(tmp_path: Path) -> None:
    domain = sd.Domain({"x": sd.Integer(0, 9)})
    write(tmp_path / "t", "a", pa.array(LARGE))
    write(tmp_path / "t", "b", pa.array([0.5]))
    assert exact(f"{tmp_path}/t/", domain, sd.sum("x")) == [[9 * 40]]
    with pytest.raises(DeclarationError, match="differ among the files"):
        exact(f"{tmp_path}/t/", domain, sd.sum("x"), unit=PrivacyUnit("x", max_rows=1))


def test_nested_and_absent_columns_and_other_cases_of_a_name(tmp_path: Path) -> None:
    domain = sd.Domain({"x": sd.Identifier()})
    nested = pa.array([{"x": 0.5, "y": [1]}])
    pq.write_table(pa.table({"n": nested, "x": pa.array([2**60])}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": ["a"]}), tmp_path / "b.parquet")
    assert exact(f"{tmp_path}/", domain, sd.count_distinct("x")) == [[1]]
    pq.write_table(pa.table({"X": [0.5]}), tmp_path / "c.parquet")
    with pytest.raises(DeclarationError, match="differ among the files, BIGINT, DOUBLE"):
        exact(f"{tmp_path}/", domain, sd.count_distinct("x"))


@pytest.mark.deep
def test_lists_are_of_one_type(tmp_path: Path) -> None:
    domain = sd.Domain({"x": sd.List(sd.Integer(0, 9), max_items=2)})
    write(tmp_path / "t", "a", pa.array([[1]]))
    write(tmp_path / "t", "b", pa.array([[1], None]))
    assert exact(f"{tmp_path}/t/", domain, sd.count()) == [[3]]
    write(tmp_path / "t", "c", pa.array([["a"]]))
    with pytest.raises(DeclarationError, match="differ among the files"):
        exact(f"{tmp_path}/t/", domain, sd.count())


@pytest.mark.deep
@pytest.mark.parametrize("second", ["float64", "int32"])
def test_a_file_of_another_type_that_joins_later(second: str, tmp_path: Path) -> None:
    write(tmp_path / "t", "a", CELLS["int64"])
    domain = sd.Domain({"x": sd.Identifier()})
    how: dict[str, Any] = {"neighbors": "add_remove", "privacy_unit": "row", "ledger": None}
    people = sd.protect(f"{tmp_path}/t/", domain=domain, budget=sd.PureDP(10**8), **how)
    write(tmp_path / "t", "b", CELLS[second])
    if second == "int32":
        assert people.ask(NAMES, epsilon=10**6).rows == [{"distinct_x": 80}]
        return
    with pytest.raises(SourceError, match="other columns, types"):
        people.ask(NAMES, epsilon=10**6)
    assert people.spent == sd.PureDP(0)


def test_a_row_that_the_first_reader_fails_at_makes_no_question_fail(tmp_path: Path) -> None:
    """Arrow then reads the files, and must join the same types as DuckDB does."""
    moments = {"a": pa.array([2**62], pa.timestamp("ms")), "b": pa.array([NIGHT], pa.timestamp("us"))}
    words = {"a": pa.array(["w"]), "b": pa.array(["w"], pa.large_string())}
    zones = {
        "a": pa.array([NIGHT], pa.timestamp("us", "UTC")),
        "b": pa.array([NIGHT], pa.timestamp("us", "Asia/Tokyo")),
    }
    numbers = {"a": pa.array([2**53 + 1]), "b": pa.array([0.5])}
    for name in ("a", "b"):
        table = pa.table({"at": moments[name], "w": words[name], "z": zones[name], "x": numbers[name]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    domain = sd.Domain(
        {
            "at": sd.Date("2019-01-01", "2021-01-01", missing="keep"),
            "w": sd.Category(["w"]),
            "z": sd.Date("2019-01-01", "2021-01-01"),
            "x": sd.Real(0, 10, resolution=0.5),
        }
    )
    asked = S.where(~col("at").is_null()).group_by("w").agg(sd.count(), sd.sum("x"))
    assert exact(f"{tmp_path}/", domain, asked) == [[1], [Decimal("0.5")]]
    asked = S.where(col("at").is_null() | (col("z") >= "2020-01-01")).agg(sd.sum("x"))
    assert exact(f"{tmp_path}/", domain, asked) == [[Decimal("10.5")]]


@pytest.mark.attack("let one row decide how others are read")
def test_one_missing_cell_rounds_no_other_half() -> None:
    """Beside a missing cell pandas makes floats of whole numbers, whose halves a cast rounds to the even one."""
    domain = sd.Domain({"x": sd.Real(0, 100, resolution=1)})
    whole = pd.DataFrame({"x": [1, 5, 9] * 40})
    missing = pd.DataFrame({"x": [1, 5, 9] * 40 + [None]})
    assert whole["x"].dtype != missing["x"].dtype
    assert exact(whole, domain, CASTS) == exact(missing, domain, CASTS)


@pytest.mark.attack("let one row decide how others are read")
def test_another_file_of_floats_rounds_no_other_half(tmp_path: Path) -> None:
    """Whole numbers in a file, which a second file makes floats of, round as they did alone."""
    domain = sd.Domain({"x": sd.Real(0, 100, resolution=1)})
    pq.write_table(pa.table({"x": [1, 5, 9] * 40}), tmp_path / "a.parquet")
    alone = exact(f"{tmp_path}/", domain, CASTS)
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "b.parquet")
    assert exact(f"{tmp_path}/", domain, CASTS) == alone
