"""Joins with public tables through the real engine: what matches, how far one unit moves an answer, and who cannot matter."""

from __future__ import annotations

import datetime
import itertools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import BoundQuestions, Exact, ask, assert_within_sensitivity
from sordino import col
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.public import public_cells
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.row_steps import apply_steps, step_domain, step_neighbors
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.core.source import Csv, PublicTable, public, source_from
from sordino.errors import DeclarationError, SourceError

S = Selection()
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "state": sd.Category(["NY", "CA", "TX"], other="??"),
        "code": sd.Integer(0, 9, missing=sd.Fill(0)),
        "day": sd.Date("2000-01-01", "2000-01-09"),
        "flag": sd.Boolean(),
        "x": sd.Integer(-4, 5),
        "r": sd.Real(0, 1, resolution=0.25),
    }
)
SCHEMA = pa.schema(
    [
        *(("id", pa.string()), ("state", pa.string()), ("code", pa.int32()), ("day", pa.date32())),
        *(("flag", pa.bool_()), ("x", pa.int64()), ("r", pa.float64())),
    ]
)
REGIONS = pa.table(
    {
        "state": ["NY", "CA", "NY", None, "??", "ny", "WA"],
        "size": [3, 5, None, 9, 2, 7, 7],
        "kind": ["big", "small", "odd", "big", "big", "big", "big"],
        "share": [0.5, float("nan"), float("inf"), 0.1, 0.2, 0.3, 0.3],
    }
)
RATES = pa.table(
    {
        "state": ["NY", "NY", "NY", "CA", "CA", None, "TX"],
        "code": [1, 1, 12, 0, None, 1, 9],
        "rate": [2, 3, 4, 5, 6, 7, -9],
    }
)
CODES = pa.table({"code": [0, 1, 1, 9, 12, None], "weight": [1, 2, 4, 8, 16, 32]})
PUBLIC = {
    "regions": public(
        REGIONS,
        key="state",
        max_rows=2,
        columns=sd.Domain(
            {
                "state": sd.Identifier(),
                "size": sd.Integer(0, 8),
                "kind": sd.Category(["big", "small"], missing="keep"),
                "share": sd.Real(0, 1, resolution=0.25),
            }
        ),
    ),
    "rates": public(
        RATES,
        key=("state", "code"),
        max_rows=2,
        columns=sd.Domain({"state": sd.Identifier(), "code": sd.Integer(0, 9), "rate": sd.Integer(-5, 5)}),
    ),
    "codes": public(
        CODES,
        key="code",
        max_rows=2,
        columns=sd.Domain({"code": sd.Integer(0, 9), "weight": sd.Integer(0, 100, missing=sd.Fill(50))}),
    ),
}
J = S.join("regions", on="state")
QUESTIONS: list[Any] = [
    J.agg(sd.count(), sd.sum("size"), sd.sum("x")),
    J.group_by("kind").agg(sd.count(), sd.sum(col("x") * col("size"))),
    J.where(col("size") > 2).group_by("state").agg(sd.sum("regions.share"), sd.mean("x")),
    S.join("regions", on="state", how="left").group_by("kind").agg(sd.count(), sd.sum("x"), sd.sum("size")),
    S.join("codes", on="code").agg(sd.count(), sd.sum("weight")),
    J.join("codes", on="code", how="left").group_by("kind").agg(sd.count(), sd.sum("weight")),
    S.join("rates", on=["state", "code"]).agg(sd.count(), sd.sum("rate"), sd.sum("x")),
    S.join("rates", on=["code", "state"], how="left").group_by("state").agg(sd.count(), sd.sum("rate")),
]
ODD: list[dict[str, Any]] = [
    {"state": s, "code": c, "x": x, "r": 0.5, "day": datetime.date(2000, 1, 2), "flag": True}
    for s, c, x in [
        ("NY", 1, 5),
        ("CA", 0, -4),
        ("TX", 9, 100),
        ("zz", None, 3),
        (None, 1, -100),
        ("ny", -7, 1),
        ("??", 99, None),
        ("NY", 12, -4),
    ]
]
Row = dict[str, Any]


def asked_of(question: Any) -> Aggregation:
    return bind_names(as_aggregation(question), public=PUBLIC, table="people", domain=DOMAIN, names="written")


def answers(
    table: Any, questions: list[Any], *, unit: PrivacyUnit | None, tables: dict[str, PublicTable] | None = None
) -> list[Exact]:
    """Return the exact parts of each question, in its own units, from one engine."""
    source = pa.Table.from_pylist(table, schema=SCHEMA) if isinstance(table, list) else table
    engine = DuckDBEngine(source, domain=DOMAIN, unit=unit, public=public_cells(tables or PUBLIC))
    try:
        return [ask(engine, DOMAIN, asked_of(question)) for question in questions]
    finally:
        engine.close()


def check(one: list[Exact], other: list[Exact], neighbors: Neighbors) -> list[Fraction]:
    """Hold every part of every question to its sensitivity; return the largest ratio reached of each question."""
    each = zip(map(asked_of, QUESTIONS), one, other, strict=True)
    return [max(assert_within_sensitivity(DOMAIN, asked, a, b, neighbors)) for asked, a, b in each]


@pytest.mark.deep
def test_brute_force_of_single_rows_never_beats_the_sensitivity_and_reaches_it() -> None:
    """All rows with odd keys put in or exchanged, beside two others: with max_rows 2 a count moves by 2."""
    base = [{"id": "a", **ODD[1]}, {"id": "b", **ODD[0]}]
    tables = [pa.Table.from_pylist([*base, *more], schema=SCHEMA) for more in ([], *([{"id": "c", **r}] for r in ODD))]
    engine = DuckDBEngine(tables[0], domain=DOMAIN, unit=None, public=public_cells(PUBLIC))
    bound = BoundQuestions(engine, DOMAIN, [asked_of(question) for question in QUESTIONS], source=tables[0])
    before, *after = [bound.ask(source=table) for table in tables]
    engine.close()
    assert before == answers(base, QUESTIONS, unit=None)
    reached = [check(before, one, Neighbors("add_remove", None)) for one in after]
    assert max(r[0] for r in reached) == 1
    swapped = [check(a, b, Neighbors("replace", None)) for a, b in itertools.combinations(after, 2)]
    assert max(r[0] for r in swapped) == 1


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_units_of_many_rows_move_by_their_cap_times_the_public_rows(seed: int) -> None:
    rng = random.Random(seed)
    unit = PrivacyUnit("id", max_rows=2)
    table = [{"id": f"u{i % 4}", **rng.choice(ODD)} for i in range(12)]
    one = [{"id": "v", **rng.choice(ODD)} for _ in range(rng.choice([1, 3, 6]))]
    other = [{"id": "w", **rng.choice(ODD)} for _ in range(rng.choice([1, 4]))]
    before, with_one, with_other = (answers(t, QUESTIONS, unit=unit) for t in (table, [*one, *table], [*table, *other]))
    check(before, with_one, Neighbors("add_remove", unit))
    check(with_one, with_other, Neighbors("replace", unit))


def test_a_unit_in_the_fullest_key_moves_a_count_by_cap_times_max_rows() -> None:
    unit = PrivacyUnit("id", max_rows=3)
    rows = [{"id": "v", **ODD[0], "r": i / 10} for i in range(9)]
    assert answers(rows, [QUESTIONS[0]], unit=unit)[0][0] == [6]
    wider = step_neighbors(Neighbors("add_remove", unit), asked_of(QUESTIONS[0]).steps)
    assert wider.contributions == 6


@pytest.mark.deep
def test_what_matches_is_what_the_keys_mean_as_declared() -> None:
    """NY has two rows; another state counts as ?? and matches it; no case folding; missing cells match nothing."""
    table = [{"id": str(i), **r} for i, r in enumerate(ODD)]
    count, size, _ = answers(table, [J.agg(sd.count(), sd.sum("size"), sd.sum("x"))], unit=None)[0]
    # NY twice by two rows each, CA one, "zz", "ny" and "??" are ?? in the declaration: one each
    assert count == [4 + 1 + 3]
    assert size == [2 * 3 + 5 + 3 * 2]
    left = S.join("regions", on="state", how="left").agg(sd.count(), sd.count("size"))
    assert answers(table, [left], unit=None)[0] == [[8 + 2], [6]]  # TX and the missing state are kept, sizes missing
    codes = S.join("codes", on="code").agg(sd.count(), sd.sum("weight"))
    # cells: 1 (2 rows), 0, 9 and 12 and 99 (clipped to 9, as is public 12: 2 rows), None (filled: 0), 1, -7 (clipped: 0)
    assert answers(table, [codes], unit=None)[0] == [
        [2 + 1 + 2 + 1 + 2 + 1 + 2 + 2],
        [6 + 1 + 24 + 1 + 6 + 1 + 24 + 24],
    ]


def test_unmatched_rows_have_missing_cells_and_fills_count_for_them() -> None:
    table = [{"id": "a", **ODD[0], "code": 5}]
    left = S.join("codes", on="code", how="left").agg(sd.sum("weight"), sd.count())
    assert answers(table, [left], unit=None)[0] == [[50], [1]]


@pytest.mark.each(2)
@pytest.mark.parametrize("how", ["inner", "left"])
def test_days_and_truths_are_keys_too(how: Any) -> None:
    days = public(
        pa.table({"on": [datetime.date(2000, 1, 2), None], "n": [7, 8]}),
        key="on",
        columns=sd.Domain({"on": sd.Date("2000-01-01", "2000-01-09"), "n": sd.Integer(0, 9)}),
    )
    flags = public(
        pa.table({"is": [True, False], "m": [2, 3]}),
        key="is",
        columns=sd.Domain({"is": sd.Boolean(), "m": sd.Integer(0, 9)}),
    )
    tables = {"days": days, "flags": flags}
    asked = S.join("days", on="day", how=how).join("flags", on="flag", how=how).agg(sd.sum("n"), sd.sum("m"))
    made = bind_names(asked, public=tables, table="people", domain=DOMAIN, names="written")
    whole = step_domain(DOMAIN, made.steps)
    rows = [{"id": "a", **ODD[0]}, {"id": "b", **ODD[0], "flag": None}, {"id": "c", **ODD[0], "day": None}]
    engine = DuckDBEngine(
        pa.Table.from_pylist(rows, schema=SCHEMA), domain=DOMAIN, unit=None, public=public_cells(tables)
    )
    meant = compile_query(made, whole)
    exact = exact_vectors(engine.run(meant.select(apply_steps(engine.primitives, made.steps, DOMAIN))), meant)
    engine.close()
    assert exact == ([[7], [2]] if how == "inner" else [[14], [4]])


@pytest.mark.deep
@pytest.mark.parametrize("number", [1, 3])
def test_poison_in_either_table_changes_no_other_rows_counting(number: int, tmp_path: Path) -> None:
    """Neighbors through real Parquet, NaN and infinities beside every key: each row adds its own matches and no more."""
    path, public_path = tmp_path / "t.parquet", tmp_path / "p.parquet"
    pq.write_table(REGIONS, public_path, row_group_size=2)
    declared = PUBLIC["regions"]
    tables = {**PUBLIC, "regions": PublicTable(source_from(public_path), "state", declared.columns, 2)}
    base = [{"id": str(i), **r, "r": float("nan")} for i, r in enumerate(ODD[:3] * 20)]
    poison = [{"id": "p", **ODD[i], "r": r} for i, r in ((4, float("inf")), (5, -1e308), (0, 2000.0))][:number]

    def through(rows: list[Row]) -> list[Exact]:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path, row_group_size=16)
        return answers(source_from(path), QUESTIONS, unit=None, tables=tables)

    before = through(base)
    assert before == answers(base, QUESTIONS, unit=None)  # a file and a frame agree
    for row in poison:
        own, both = answers([row], QUESTIONS, unit=None), through([*base, row])
        for rest, one, whole in zip(before, own, both, strict=True):
            assert [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(rest, one, strict=True)] == whole


@pytest.mark.deep
def test_csv_public_tables_are_trimmed_and_their_null_words_match_nothing(tmp_path: Path) -> None:
    path = tmp_path / "regions.csv"
    path.write_text("state,size\n NY , 3\nNA,9\n,9\nCA,5\n")
    table = public(
        path,
        key="state",
        columns=sd.Domain({"state": sd.Identifier(), "size": sd.Integer(0, 8)}),
        csv=Csv(header=True, null_values=("NA",)),
    )
    cells = public_cells({"regions": table})["regions"]
    assert sorted(cells["sordino_key_0"].to_pylist()) == ["CA", "NY"]
    asked = [J.agg(sd.count(), sd.sum("size"))]
    rows = [{"id": str(i), **r} for i, r in enumerate(ODD)]
    assert answers(rows, asked, unit=None, tables={**PUBLIC, "regions": table})[0] == [[3], [11]]


def test_a_category_key_is_compared_as_its_value() -> None:
    columns: dict[str, sd.domain.Column] = {"state": sd.Category(["TX", "NY"], other="??"), "size": sd.Integer(0, 8)}
    table = public(pa.table({"state": ["NY", "TX", "zz"], "size": [1, 2, 4]}), key="state", columns=sd.Domain(columns))
    rows = [{"id": str(i), **r} for i, r in enumerate(ODD)]
    asked = [J.agg(sd.count(), sd.sum("size"))]
    assert answers(rows, asked, unit=None, tables={**PUBLIC, "regions": table})[0] == [[6], [2 + 2 + 3 * 4]]


@pytest.mark.parametrize(
    ("cells", "columns", "message"),
    [
        ({"k": ["a", "b", "a", "a"]}, {"k": sd.Identifier()}, "3 of its rows share one 'k', and max_rows = 1"),
        ({"k": [1.0, 1.5, 50.0, 60.0]}, {"k": sd.Integer(0, 9)}, "2 of its rows share"),  # both are clipped to 9
        ({"z": [1]}, {"k": sd.Integer(0, 9)}, "no such column"),
    ],
)
def test_a_key_with_more_rows_than_declared_is_refused_when_opened(cells: Any, columns: Any, message: str) -> None:
    table = public(pa.table(cells), key="k", columns=sd.Domain(columns))
    with pytest.raises(DeclarationError, match=message):
        public_cells({"regions": table})


def test_a_missing_public_file_is_named_in_the_error(tmp_path: Path) -> None:
    table = public(tmp_path / "none.parquet", key="k", columns=sd.Domain({"k": sd.Identifier()}))
    with pytest.raises(SourceError, match=r"public table 'regions': source .* is missing"):
        public_cells({"regions": table})
