"""Tables of the same people through the real engine: how far one unit, changed in both at once, moves an answer.

Worlds are pairs of tables. Every pair of neighbors among them is compared: a unit's rows in both tables are added, removed
or exchanged together, beside a unit that stays and has rows in both.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import BoundQuestions, Exact, ask
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.sql_text import people_name
from sordino.ask.engines.table_layout import PeopleTable
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.row_steps import step_domain, step_neighbors
from sordino.ask.queries.same_people import mark_units
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.core.source import Csv, PrivateTable, Source

S = Selection()
VISITS = sd.Domain({"member": sd.Identifier(), "x": sd.Integer(-4, 5), "kind": sd.Category(["a", "b"], missing="keep")})
PERSON = sd.Domain({"id": sd.Identifier(), "y": sd.Integer(0, 3), "sex": sd.Category(["f", "m"], missing="keep")})
CAPS = {"member": 2, "id": 2}
UNITS = {name: PrivacyUnit(name, max_rows=most, of="person") for name, most in CAPS.items()}
SCHEMAS = {
    "visits": pa.schema([("member", pa.string()), ("x", pa.int64()), ("kind", pa.string())]),
    "person": pa.schema([("id", pa.int64()), ("y", pa.int64()), ("sex", pa.string())]),
}
J = S.join("person")
QUESTIONS: list[Any] = [
    J.agg(sd.count(), sd.sum("x"), sd.sum("y")),
    J.group_by("sex").agg(sd.count(), sd.sum(col("x") * col("y"))),
    S.join("person", how="left").group_by("sex", "kind").agg(sd.count(), sd.sum("x")),
    S.join("person").group_by("sex").agg(sd.count(), sd.sum("y")).bound_contributions(max_rows=1),
    S.join("person").agg(sd.count(), sd.mean("x")).bound_contributions(max_rows=3),
    S.where(sd.exists("person", col("y") > 1)).agg(sd.count(), sd.sum("x")),
    S.where(~sd.exists("person")).group_by("kind").agg(sd.count()),
    S.group_by(sd.exists("person", col("sex") == "f")).agg(sd.count(), sd.sum("x")),
    S.agg(sd.sum(sd.when(sd.exists("visits", col("x") > 0), col("x")).otherwise(-4))),
    S.per_unit(sd.sum("x").clip(-4, 5).alias("t")).join("person").agg(sd.count(), sd.sum("t")),
    J.where(sd.exists("visits", col("kind") == "a"))
    .group_by("sex")
    .agg(sd.count_distinct("member"), sd.count_distinct("y")),
]
Rows = tuple[tuple[Any, ...], ...]
World = tuple[Rows, Rows]
HERE: list[Rows] = [
    (),
    ((5, "a"),),
    ((5, "a"), (5, "a")),
    ((-4, "a"), (5, "b"), (5, None)),
    ((None, "b"), (-4, "b"), (0, "z")),
]
THERE: list[Rows] = [(), ((3, "f"),), ((3, "f"), (3, "f"), (1, "m")), ((None, None), (3, "m"))]
STAYS: World = (((5, "a"), (1, "b"), (2, "b")), ((2, "f"), (3, "m"), (3, "m")))


def tables(units: dict[int | None, World]) -> dict[str, pa.Table]:
    """Return the two tables of these units; a unit None has rows that name nobody."""
    here = [{"member": None if u is None else str(u), "x": x, "kind": k} for u, w in units.items() for x, k in w[0]]
    there = [{"id": u, "y": y, "sex": s} for u, w in units.items() for y, s in w[1]]
    return {
        "visits": pa.Table.from_pylist(here, SCHEMAS["visits"]),
        "person": pa.Table.from_pylist(there, SCHEMAS["person"]),
    }


def private(neighbors: Relation) -> tuple[PrivateTable, PrivateTable]:
    here = PrivateTable(VISITS, Neighbors(neighbors, UNITS["member"]), {})
    return here, PrivateTable(PERSON, Neighbors(neighbors, UNITS["id"]), {})


def asked_of(question: Any, neighbors: Relation = "add_remove") -> Aggregation:
    own, other = private(neighbors)
    asked = mark_units(as_aggregation(question), {"person": other}, "visits", own)
    return bind_names(
        asked,
        public={},
        table="visits",
        domain=VISITS,
        names="written",
        private={"person": other},
        neighbors=own.neighbors,
    )


def engine_on(held: dict[str, Any]) -> DuckDBEngine:
    people = {"person": PeopleTable(held["person"], PERSON, UNITS["id"])}
    return DuckDBEngine(held["visits"], domain=VISITS, unit=UNITS["member"], people=people, reads=["person"])


def answers(held: dict[str, Any], questions: Sequence[Any] = tuple(QUESTIONS)) -> list[Exact]:
    """Return the exact parts of each question, in its own units."""
    engine = engine_on(held)
    try:
        return [ask(engine, VISITS, asked_of(question)) for question in questions]
    finally:
        engine.close()


@functools.cache
def bound_questions() -> BoundQuestions:
    """Bind each question once for all tables in memory: that takes four times as long as to ask it of a few rows."""
    empty = tables({})
    asked = [asked_of(question) for question in QUESTIONS]
    return BoundQuestions(
        engine_on(empty), VISITS, asked, source=empty["visits"], **{people_name("person"): empty["person"]}
    )


def ask_bound(held: dict[str, pa.Table]) -> list[Exact]:
    """Return the exact parts of each question of tables in memory."""
    return bound_questions().ask(source=held["visits"], **{people_name("person"): held["person"]})


@functools.cache
def bounds(place: int, neighbors: Relation) -> list[Any]:
    asked = asked_of(QUESTIONS[place], neighbors)
    meant = compile_query(asked, step_domain(VISITS, asked.steps))
    wider = step_neighbors(private(neighbors)[0].neighbors, asked.steps)
    return [s for several in meant.bound(wider).sensitivities for s in several]


def check(one: Any, other: Any, neighbors: Relation) -> list[Fraction]:
    """Hold every part of every question to its sensitivity; return the largest share of it reached by each question."""
    reached = []
    for place, (a, b) in enumerate(zip(one, other, strict=True)):
        shares = [Fraction(0)]
        for most, v, w in zip(bounds(place, neighbors), a, b, strict=True):
            moved = [abs(x - y) for x, y in zip(v, w, strict=True)]
            assert sum(moved) <= most.l1, (place, most, v, w)
            assert sum(m * m for m in moved) <= most.l2_squared, (place, most, v, w)
            assert max(moved) <= most.linf, (place, most, v, w)
            assert sum(1 for m in moved if m) <= most.l0, (place, most, v, w)
            shares.append(sum(moved, Fraction(0)) / most.l1 if most.l1 else Fraction(0))
        reached.append(max(shares))
    return reached


@functools.cache
def worlds() -> dict[World | None, Any]:
    """Return the answers for each state of one unit, None for its absence, beside a unit that stays."""
    states: list[World | None] = [None, *itertools.product(HERE, THERE)]
    stays: dict[int | None, World] = {7: STAYS}
    held = {s: tables(stays if s is None else {**stays, 8: s}) for s in states}
    found = {s: ask_bound(both) for s, both in held.items()}
    assert answers(held[states[-1]]) == found[states[-1]]
    return found


def test_a_unit_that_comes_or_goes_in_both_tables_never_beats_the_sensitivity() -> None:
    reached = [check(worlds()[None], found, "add_remove") for found in worlds().values()]
    most = [max(of) for of in zip(*reached, strict=True)]
    assert [m == 1 for m in most[:9]] == [True] * 9, most


def test_a_unit_that_is_exchanged_in_both_tables_never_beats_the_sensitivity() -> None:
    states = [found for state, found in worlds().items() if state is not None]
    reached = [check(a, b, "replace") for a, b in itertools.combinations(states, 2)]
    most = [max(of) for of in zip(*reached, strict=True)]
    assert min(most[:9]) >= Fraction(1, 2), most


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_the_rows_that_count_follow_from_the_units_own_rows_alone(seed: int) -> None:
    """The order of both tables, other units and rows that name nobody change nothing but what they add themselves."""
    rng = random.Random(seed)
    pick = [rng.choice(HERE) for _ in range(3)], [rng.choice(THERE) for _ in range(3)]
    units: dict[int | None, World] = {u: (pick[0][u], pick[1][u]) for u in range(3)}
    whole = ask_bound(tables(units))
    alone = [ask_bound(tables({u: w})) for u, w in units.items()]
    assert whole == [
        [[sum(cells, Fraction(0)) for cells in zip(*vectors, strict=True)] for vectors in zip(*parts, strict=True)]
        for parts in zip(*alone, strict=True)
    ]
    held = tables({**units, None: STAYS})
    shuffled = {n: t.take(rng.sample(range(len(t)), len(t))) for n, t in held.items()}
    assert ask_bound(shuffled) == whole


@pytest.mark.deep
def test_what_is_joined_is_what_sql_joins() -> None:
    held = tables({1: (((5, "a"), (4, "b")), ((3, "f"),)), 2: (((1, "a"),), ()), 3: ((), ((2, "m"),))})
    found = answers(held)
    assert found[0] == [[Fraction(2)], [Fraction(9)], [Fraction(6)]]
    assert found[1][0] == [2, 0, 0]  # by sex: f, m, missing
    assert found[2][0] == [1, 1, 0, 0, 0, 0, 1, 0, 0]  # by sex and kind: unit 2 has no person
    assert found[5] == [[Fraction(2)], [Fraction(9)]]
    assert found[6] == [[Fraction(1), Fraction(0), Fraction(0)]]


@pytest.mark.deep
def test_files_of_any_kind_can_be_the_other_table(tmp_path: Path) -> None:
    small: World = (((5, "a"), (None, "b")), ((2, "f"), (None, None)))  # no bound acts, so that no choice differs
    units: dict[int | None, World] = {7: small, 8: (HERE[1], THERE[1]), 9: (HERE[2], ()), 10: ((), THERE[1])}
    held, expected = tables(units), ask_bound(tables(units))
    pq.write_table(held["person"], tmp_path / "person.parquet")
    lines = [",".join("NA" if c is None else f" {c} " for c in row.values()) for row in held["person"].to_pylist()]
    (tmp_path / "person.csv").write_text("id,y,sex\n" + "".join(f"{line}\n" for line in lines))
    pq.write_table(held["visits"], tmp_path / "visits.parquet")
    parquet = Source(str(tmp_path / "person.parquet"), "parquet")
    rules = Csv(header=True, null_values=("NA",))
    others = (parquet, Source(str(tmp_path / "person.csv"), "csv", None, rules))
    for own, other in zip((held["visits"], Source(str(tmp_path / "visits.parquet"), "parquet")), others, strict=True):
        # Joined and searched; the third and fourth question choose rows by how their cells are held.
        found = answers({"visits": own, "person": other}, [QUESTIONS[place] for place in (1, 2, 7)])
        assert found == [expected[place] for place in (1, 2, 7)]


@pytest.mark.deep
def test_bad_text_in_the_other_parquet_file_fails_no_question(tmp_path: Path) -> None:
    held = tables({7: STAYS})
    bad = held["person"].set_column(2, "sex", pa.array([b"f", b"\xff", b"m"]).view(pa.string()))
    pq.write_table(bad, tmp_path / "person.parquet")
    other = Source(str(tmp_path / "person.parquet"), "parquet")
    assert sum(answers({"visits": held["visits"], "person": other})[1][0], Fraction(0)) == 4


@pytest.mark.deep
def test_tables_of_one_duckdb_file_are_joined(tmp_path: Path) -> None:
    import duckdb

    units: dict[int | None, World] = {7: STAYS, 8: (HERE[4], THERE[3])}
    held = tables(units)
    with duckdb.connect(str(tmp_path / "all.duckdb")) as store:
        for name, table in held.items():
            store.register("t", table)
            store.execute(f"CREATE TABLE {name} AS SELECT * FROM t")
    sources = {name: Source(str(tmp_path / "all.duckdb"), "duckdb", name) for name in held}
    assert answers(sources, QUESTIONS[::3]) == ask_bound(held)[::3]
