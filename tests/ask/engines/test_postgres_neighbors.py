"""Neighboring tables on a PostgreSQL server: one unit, changed in all tables at once, moves no exact answer further than stated.

Tables are small and random, of extreme cells; questions are random ones of every kind, under caps, and joins by the unit.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import postgres_server as postgres
import sordino as sd
from ask.curator.extremes import declare
from ask.engines.every_kind import DAYS, FIXED, KIN, MOMENTS, PUBLIC, WORDS, EveryKind
from ask.engines.test_postgres_extremes import BOTH, fill
from ask.engines.test_same_people import HERE, PERSON, QUESTIONS, STAYS, THERE, UNITS, VISITS, World, asked_of, check
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.engines.postgres import PostgresEngine
from sordino.ask.engines.table_layout import PeopleTable
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.row_steps import apply_steps, step_domain, step_neighbors
from sordino.core.neighbors import Relation
from sordino.core.source import source_from
from sordino.errors import DeclarationError, QuestionRefused

STATES: list[World | None] = [None, (HERE[1], THERE[1]), (HERE[2], THERE[2]), (HERE[3], THERE[3]), (HERE[4], ())]
CELLS = {5: "'Infinity'", -4: "-1e308", 0: "'-0.0'", 1: "0.5", 2: "1.5"}  # what is held where a number is meant
PARTS = range(1, 5)  # other states of the unit that changes
KINDS: tuple[str, ...] = (
    "aggregates",
    "units",
    "values of a unit",
    "joined people",
    "units elsewhere",
    "times",
    "listed keys",
    "functions",
)
KINDS += ("public table", "formulas")


def exact(engine: Any, asked: Aggregation, domain: sd.Domain) -> list[list[Fraction]]:
    """Return the exact parts of a question, in its own units."""
    meant = compile_query(asked, step_domain(domain, asked.steps))
    wider = engine.open_tables(asked.reads)
    found = exact_vectors(wider.run(meant.select(apply_steps(wider.primitives, asked.steps, domain))), meant)
    flat = [p for several in meant.parts for p in several]
    return [[v * p.unit for v in vector] for p, vector in zip(flat, found, strict=True)]


def store(server: postgres.Server, url: str) -> None:
    """Put each state of one unit, beside one that stays, into two tables; column world says which."""
    rows: dict[str, list[str]] = {"visits": [], "person": []}
    for world, state in enumerate(STATES):
        for unit, both in ((7, STAYS), (8, state)):
            for x, kind in () if both is None else both[0]:
                text = "NULL" if kind is None else f"' {kind}\t'"
                rows["visits"].append(
                    f"({world}, '{unit}', {CELLS.get(x or 0, x) if x is not None else chr(39) + 'NaN' + chr(39)}, {text})"
                )
            for y, sex in () if both is None else both[1]:
                rows["person"].append(
                    f"({world}, {unit}, {'NULL' if y is None else y}, {'NULL' if sex is None else repr(sex)})"
                )
    server.execute(
        "CREATE TABLE visits (world INT, member TEXT, x DOUBLE PRECISION, kind TEXT)",
        "CREATE TABLE person (world INT, id BIGINT, y NUMERIC, sex CHAR(3))",
        *(f"INSERT INTO {table} VALUES {', '.join(made)}" for table, made in rows.items()),
        database=url.rpartition("/")[2],
    )


@pytest.mark.deep
def test_a_unit_of_two_tables_never_beats_the_sensitivity(
    postgres_server: postgres.Server, postgres_database: str
) -> None:
    store(postgres_server, postgres_database)
    found = []
    for world in range(len(STATES)):
        visits, person = (
            source_from(postgres_database, relation=f"SELECT * FROM {table} WHERE world = {world}")
            for table in ("visits", "person")
        )
        people = {"person": PeopleTable(person, PERSON, UNITS["id"])}
        engine = PostgresEngine(visits, domain=VISITS, unit=UNITS["member"], people=people)
        found.append([exact(engine, asked_of(question), VISITS) for question in QUESTIONS])
        engine.close()
    added = [check(found[0], other, "add_remove") for other in found[1:]]
    exchanged = [check(a, b, "replace") for a, b in itertools.combinations(found[1:], 2)]
    assert [max(of) > 0 for of in zip(*added, strict=True)] == [True] * len(QUESTIONS)
    assert max(map(max, added)) == 1
    assert max(map(max, exchanged)) > Fraction(1, 2)


def worlds(url: str, path: Path, relation: Relation, rng: random.Random) -> Iterator[sd.Curator]:
    """Give the table t of two tables without a unit, then with each state of it; each state has rows in both tables."""
    import psycopg

    domains = {}
    for table in ("t", "u"):
        kinds = {f"c{i}": rng.choice(list(BOTH)) for i in range(5)} | {"n": "BIGINT", "id": "VARCHAR"}
        kinds |= {DAYS: "DATE", MOMENTS: "TIMESTAMPTZ", WORDS: "VARCHAR", KIN: "VARCHAR"}
        fill(url, path, kinds, rng, table)
        domains[table] = sd.Domain({n: declare(rng) for n in kinds if n not in FIXED} | FIXED, row_ceiling=10**6)
        cells = ", ".join("'changed'" if name == "id" else name for name in kinds)
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f"ALTER TABLE {table} ADD part INT DEFAULT 0".encode())
            for part in PARTS:
                some = f"ORDER BY ctid OFFSET {rng.randrange(30)} LIMIT {rng.randrange(1, 7)}"
                server.execute(
                    f"INSERT INTO {table} SELECT {cells}, {part} FROM {table} WHERE part = 0 {some}".encode()
                )
    unit = sd.PrivacyUnit("id", max_rows=rng.choice([1, 2]), max_groups=rng.choice([None, 1]), of="person")
    for part in (0, *PARTS):
        yield sd.protect(
            dict.fromkeys(domains, url),
            domain=domains,
            neighbors=relation,
            privacy_unit=dict.fromkeys(domains, unit),
            budget=sd.ApproxDP(10**9, "0.9"),
            ledger=None,
            relation={table: f"SELECT * FROM {table} WHERE part IN (0, {part})" for table in domains},
            public={"plain": PUBLIC},
        ).table("t")


def compare(held: Sequence[sd.Curator], relation: Relation, rng: random.Random, each: int) -> Counter[str]:
    """Hold random questions to their sensitivity on every pair of neighbors; count those that a unit moved.

    The first table lacks the unit, the others hold different states of it.
    """
    moved = Counter[str]()
    made = EveryKind(held[0].domain, rng)
    for kind in [k for k in KINDS for _ in range(each)]:
        try:
            asked = held[0].plan(made.kinds[kind](), epsilon=100, delta="1e-9").question
        except (QuestionRefused, DeclarationError):
            continue
        if not isinstance(asked, Aggregation):
            continue
        domain = held[0].domain
        meant = compile_query(asked, step_domain(domain, asked.steps))
        if meant.private_keys or not meant.terms:
            continue
        wider = step_neighbors(held[0].neighbors, asked.steps)
        bounds = [s for several in meant.bound(wider).sensitivities for s in several]
        found = [exact(curator._engine, asked, domain) for curator in held]
        pairs = [(found[0], other) for other in found[1:]]
        for one, other in pairs if relation == "add_remove" else itertools.combinations(found[1:], 2):
            for most, a, b in zip(bounds, one, other, strict=True):
                steps = [abs(x - y) for x, y in zip(a, b, strict=True)]
                assert sum(steps) <= most.l1, (kind, asked, most)
                assert sum(s * s for s in steps) <= most.l2_squared, (kind, asked, most)
                assert max(steps) <= most.linf, (kind, asked, most)
                moved[kind] += any(steps)
                moved["as far as stated"] += sum(steps) == most.l1
    for curator in held:
        curator.close()
    return moved


@pytest.mark.parametrize("relation", ["replace", pytest.param("add_remove", marks=pytest.mark.deep)])
def test_random_questions_never_beat_the_sensitivity(
    relation: Relation, postgres_database: str, tmp_path: Path
) -> None:
    rng = random.Random(3)
    held = list(worlds(postgres_database, tmp_path / "t.duckdb", relation, rng))
    assert sum(compare(held, relation, rng, 1).values()) > 10


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_many_random_questions_never_beat_the_sensitivity(
    relation: Relation, postgres_server: postgres.Server, tmp_path: Path
) -> None:
    found = Counter[str]()
    for seed in range(20, 30):
        name = f"n{relation[:3]}{seed}"
        postgres_server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        rng = random.Random(seed)
        held = list(worlds(f"{postgres_server.url}/{name}", tmp_path / f"{seed}.duckdb", relation, rng))
        found += compare(held, relation, rng, 4)
    assert set(found) == {*KINDS, "as far as stated"}, found
