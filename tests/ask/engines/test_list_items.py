"""Lists, item by item, through the real engine: how far one unit moves an answer, and that no stored list matters to others."""

from __future__ import annotations

import datetime
import itertools
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import BoundQuestions, Exact, ask, assert_within_sensitivity, bounds
from protecting import protect
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.ask.queries.joined_names import bind_names
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.errors import DeclarationError

MOST = 2
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "x": sd.Integer(-4, 5),
        "tags": sd.List(sd.Category(["a", "b"], missing="keep"), max_items=MOST),
        "n": sd.List(sd.Integer(-3, 4, missing=sd.Fill(1)), max_items=MOST),
    }
)
SCHEMA = pa.schema(
    [("id", pa.string()), ("x", pa.int64()), ("tags", pa.list_(pa.string())), ("n", pa.list_(pa.int32()))]
)
S = Selection()
QUESTIONS: list[Aggregation] = [
    as_aggregation(question)
    for question in [
        S.unnest("tags").agg(sd.count(), sd.sum("x"), sd.count("tags")),
        S.unnest("tags").group_by("tags").agg(sd.count(), sd.sum("x")),
        S.unnest("tags").where(col("tags") == "a").agg(sd.count(), sd.mean("x")),
        S.unnest("n").agg(sd.count(), sd.sum("n"), sd.sum(col("n") * col("x"))),
        S.unnest("n").unnest("tags").group_by("tags").agg(sd.count(), sd.sum("n")),
        S.unnest("tags").agg(sd.count_distinct("tags")),
    ]
]
LISTS: list[tuple[Any, Any]] = [
    (None, None),
    ([], []),
    ([None], [None, 99]),
    (["a", "a", "a"], [4, 4, 4]),
    (["a", "b"], [-3]),
    (["zz", "b", "a"], [-3, -99, 5]),
    (["b"] * 50, list(range(50))),
]
ROWS: list[dict[str, Any]] = [{"tags": t, "n": n, "x": x} for (t, n), x in itertools.product(LISTS, [5, -9, None])]


def asked_of(question: Aggregation) -> Aggregation:
    return bind_names(question, public={}, table="posts", domain=DOMAIN, names="written")


def answers(table: list[dict[str, Any]], unit: PrivacyUnit | None) -> list[Exact]:
    engine = DuckDBEngine(pa.Table.from_pylist(table, schema=SCHEMA), domain=DOMAIN, unit=unit)
    try:
        return [ask(engine, DOMAIN, asked_of(question)) for question in QUESTIONS]
    finally:
        engine.close()


def check(one: list[Exact], other: list[Exact], neighbors: Neighbors) -> list[Fraction]:
    """Hold every part to its sensitivity; return the largest share of it that the first part of each question reached."""
    each = zip(map(asked_of, QUESTIONS), one, other, strict=True)
    return [assert_within_sensitivity(DOMAIN, asked, a, b, neighbors)[0] for asked, a, b in each]


@pytest.mark.deep
def test_brute_force_of_single_rows_never_beats_the_sensitivity_and_reaches_it() -> None:
    base = [{"id": "a", **ROWS[9]}]
    tables = [
        pa.Table.from_pylist([*base, *more], schema=SCHEMA) for more in ([], *([{"id": "c", **row}] for row in ROWS))
    ]
    engine = DuckDBEngine(tables[0], domain=DOMAIN, unit=None)
    bound = BoundQuestions(engine, DOMAIN, [asked_of(question) for question in QUESTIONS], source=tables[0])
    before, *after = [bound.ask(source=table) for table in tables]
    engine.close()
    assert before == answers(base, None)
    added = [check(before, one, Neighbors("add_remove", None)) for one in after]
    assert [max(r[i] for r in added) for i in (0, 1, 3)] == [1, 1, 1]
    swapped = [check(a, b, Neighbors("replace", None)) for a, b in itertools.combinations(after, 2)]
    assert [max(r[i] for r in swapped) for i in (0, 1)] == [1, 1]


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(6))
def test_units_of_two_rows_move_by_twice_the_items(seed: int) -> None:
    rng, unit = random.Random(seed), PrivacyUnit("id", max_rows=2)
    table = [{"id": f"u{i % 3}", **rng.choice(ROWS)} for i in range(7)]
    one, other = ([{"id": name, **rng.choice(ROWS)} for _ in range(rng.choice([1, 2, 5]))] for name in "vw")
    before, with_one, with_other = (answers(t, unit) for t in (table, [*one, *table], [*table, *other]))
    check(before, with_one, Neighbors("add_remove", unit))
    check(with_one, with_other, Neighbors("replace", unit))


def test_a_unit_of_full_lists_reaches_its_bound_and_never_more() -> None:
    unit = PrivacyUnit("id", max_rows=2)
    rows = [{"id": "v", "tags": ["a"] * 9, "n": [4] * 9, "x": i} for i in range(5)]
    assert answers(rows, unit)[0][0] == [4]
    assert bounds(DOMAIN, asked_of(QUESTIONS[0]), Neighbors("add_remove", unit))[0].l1 == 4
    assert (
        bounds(DOMAIN, asked_of(QUESTIONS[0]), Neighbors("replace", unit))[0].l1 == 4
    )  # lists differ in length, so a count moves under replace too


def test_items_are_the_first_of_the_list_as_plain_python_counts_them() -> None:
    table = [{"id": str(i), **row} for i, row in enumerate(ROWS)]
    items = [i if i in ("a", "b") else None for row in table for i in (row["tags"] or [])[:MOST]]
    expected = Counter(items)
    assert answers(table, None)[1][0] == [expected["a"], expected["b"], expected[None]]
    assert answers(table, None)[0][0] == [len(items)]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("of", "kind", "cells"),
    [
        (sd.Integer(0, 9), pa.float64(), [[float("nan"), float("inf"), 1e300, 2.5, 3]]),
        (sd.Integer(0, 9), pa.string(), [["7", "x", "", None, "9" * 40]]),
        (sd.Real(0, 1, resolution=0.25), pa.decimal128(38, 2), [[10, None]]),
        (sd.Real(0, 1, resolution=0.25), pa.uint64(), [[2**64 - 1, 0]]),
        (sd.Boolean(), pa.bool_(), [[True, None, False]]),
        (sd.Date("2000-01-01", "2000-12-31"), pa.date32(), [[datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]]),
        (sd.Category([1, 2]), pa.int64(), [[2**63 - 1, -(2**63), 1]]),
        (sd.Category(["a", "b"]), pa.string(), [["a" * 100_000, "a", "\x00"], ["b"] * 10_000]),
    ],
)
def test_no_stored_list_makes_a_question_fail(of: Any, kind: pa.DataType, cells: list[Any]) -> None:
    table = pa.table({"x": pa.array([1] * (len(cells) + 2)), "l": pa.array([*cells, None, []], pa.list_(kind))})
    domain = sd.Domain({"x": sd.Integer(0, 1), "l": sd.List(of, max_items=5)})
    asked = protect(table, domain, budget=sd.PureDP(10**9)).unnest("l").agg(sd.count().alias("n"), sd.count("l"))
    release = protect(table, domain, budget=sd.PureDP(10**9)).ask(asked, epsilon=10**6)
    assert release.rows[0]["n"] == sum(min(len(c), 5) for c in cells)


@pytest.mark.deep
def test_a_list_with_text_that_is_not_utf8_is_missing_however_it_is_read(tmp_path: Path) -> None:
    """From Arrow, from Parquet, and from Parquet that Arrow reads because of another row's moment too far away."""
    bad = pa.ListArray.from_arrays(
        pa.array([0, 2, 2, 3, 5], pa.int32()),
        pa.Array.from_buffers(pa.string(), 5, pa.array([b"a", b"\xff", b"a", b"b", b"a"]).buffers()),
        mask=pa.array([False, True, False, False]),
    )
    domain = sd.Domain({"x": sd.Integer(0, 9), "l": sd.List(sd.Category(["a", "b"]), max_items=2)})
    table = pa.table({"x": [1, 2, 3, 4], "l": bad})
    asked = Selection().unnest("l").group_by("l").agg(sd.count().alias("n"))
    held = protect(table, domain, budget=sd.PureDP(10**9))
    assert [r["n"] for r in held.ask(asked, epsilon=10**6).rows] == [2, 1]
    for moment in (0, 2**62):
        at = pa.array([0, 0, moment, 0], pa.int64()).cast(pa.timestamp("ms"))
        pq.write_table(table.append_column("at", at), tmp_path / f"{moment}.parquet")
        dated = sd.Domain({**domain.columns, **domain.lists, "at": sd.Date("1960-01-01", "2020-01-01")})
        held = protect(tmp_path / f"{moment}.parquet", dated, budget=sd.PureDP(10**9))
        assert [r["n"] for r in held.ask(asked, epsilon=10**6).rows] == [2, 1]


@pytest.mark.parametrize("kind", ["list", "large", "dictionary", "string_view"])
def test_text_that_is_not_utf8_is_missing_in_every_kind_of_arrow_list(kind: str) -> None:
    items: Any = pa.Array.from_buffers(pa.string(), 3, pa.array([b"\xff", b"a", b"b"]).buffers())
    if kind == "large":
        lists: Any = pa.LargeListArray.from_arrays([0, 2, 3], items)
    elif kind == "string_view":
        lists = pa.ListArray.from_arrays(
            [0, 2, 3], pa.array([b"\xff", b"a", b"b"], pa.binary_view()).view(pa.string_view())
        )
    elif kind == "dictionary":
        lists = pa.ListArray.from_arrays([0, 2, 3], pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), items))
    else:
        lists = pa.ListArray.from_arrays([0, 2, 3], items)
    domain = sd.Domain({"x": sd.Integer(0, 9), "l": sd.List(sd.Category(["a", "b"]), max_items=2)})
    held = protect(pa.table({"x": [1, 2], "l": lists}), domain, budget=sd.PureDP(10**9))
    asked = Selection().unnest("l").group_by("l").agg(sd.count().alias("n"))
    assert [r["n"] for r in held.ask(asked, epsilon=10**6).rows] == [0, 1]


def test_views_of_lists_are_refused() -> None:
    views = pa.ListViewArray.from_arrays([0, 2], [2, 1], pa.array(["a", "b", "a"]))
    domain = sd.Domain({"x": sd.Integer(0, 9), "l": sd.List(sd.Category(["a", "b"]), max_items=2)})
    with pytest.raises(DeclarationError, match="'l' holds views of lists"):
        protect(pa.table({"x": [1, 2], "l": views}), domain)


def test_lists_of_parquet_and_duckdb_files_are_read_and_others_refused(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "f.duckdb")) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS x, ['a', NULL, 'b'] AS l, [[1]] AS nested, 'a' AS text")
        made.execute(f"COPY t TO '{tmp_path / 'f.parquet'}'")
    asked = Selection().unnest("l").agg(sd.count().alias("n"))
    domain = sd.Domain({"x": sd.Integer(0, 9), "l": sd.List(sd.Category(["a", "b"]), max_items=2)})
    for source, relation in ((tmp_path / "f.parquet", None), (tmp_path / "f.duckdb", "t")):
        held = protect(source, domain, budget=sd.PureDP(10**9), relation=relation)
        assert held.ask(asked, epsilon=10**6).rows == [{"n": 2}]
        for name in ("nested", "text"):
            other = sd.Domain({"x": sd.Integer(0, 9), name: sd.List(sd.Integer(0, 9), max_items=2)})
            with pytest.raises(DeclarationError, match=f"{name!r} is declared as a list, but is not held as a list"):
                protect(source, other, relation=relation)
    (tmp_path / "f.csv").write_text("x,l\n1,a\n")
    with pytest.raises(DeclarationError, match="a CSV file holds none"):
        protect(tmp_path / "f.csv", domain, csv=sd.Csv(header=True))
