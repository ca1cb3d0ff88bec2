"""Row caps keep the same rows on every engine: the hash agrees to the bit, is fair among a unit's rows, and is total."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from sqlglot import exp as sql

import postgres_server as postgres
import sordino as sd
from ask.engines.support import engine_of
from battery import chi_square_tail
from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.postgres import PostgresEngine, PostgresPrimitives
from sordino.ask.engines.row_hash import CellNumber, _factor, hash_cells
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import ContributionBounds, PrivacyUnit
from sordino.core.source import source_from

EXTREMES = [None, 0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1]
ROWS = """
    SELECT CAST(i AS INTEGER) AS n, 'p' || (i * i % 211) AS id, CAST(i % 7 - 3 AS SMALLINT) AS small,
        CASE i % 9 WHEN 0 THEN CAST('NaN' AS DOUBLE PRECISION) WHEN 1 THEN CAST('Infinity' AS DOUBLE PRECISION)
            WHEN 2 THEN -0.0 WHEN 3 THEN 1e308 WHEN 4 THEN NULL ELSE CAST(i % 777 AS DOUBLE PRECISION) / 8 END AS gain,
        CASE i % 5 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN NULL ELSE i END AS large,
        CAST(i % 1000 AS DECIMAL(10, 2)) / 100 AS cost, CASE i % 3 WHEN 0 THEN 'F' WHEN 1 THEN ' M ' END AS sex,
        CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'é' || (i % 13) ELSE 'w' || (i % 17) END AS word,
        CAST('2019-12-20' AS DATE) + CAST(i % 800 AS INTEGER) AS due,
        CAST('2020-03-20 00:00:00+00' AS TIMESTAMPTZ) + i * INTERVAL '97 seconds' AS seen, i % 5 = 0 AS member,
        CAST(i % 5 AS CODED) AS code, CAST(i % 3 AS CODED) AS flag, CAST(i % 29 AS WIDE) AS name, CAST(i % 31 AS WIDE) AS far
    FROM generate_series(1, 2000) AS numbers(i)
"""
DOMAIN = sd.Domain(
    {
        "n": sd.Integer(1, 2000),
        "id": sd.Identifier(),
        "small": sd.Integer(-2, 2),
        "gain": sd.Real(0, 90, resolution=0.01),
        "large": sd.Integer(),
        "cost": sd.Real(resolution=0.01),
        "sex": sd.Category(["F", "M"], missing="keep"),
        "word": sd.Identifier(),
        "due": sd.Date("2020-01-01", "2021-12-31"),
        "seen": sd.DateTime("2020-01-01", "2020-12-31", zone="Europe/Berlin", resolution="minute"),
        "member": sd.Boolean(),
        "code": sd.Category([1, 2, 3], missing="keep"),
        "flag": sd.Boolean(),
        "name": sd.Identifier(),
        "far": sd.Real(),
    }
)
HELD: dict[str, tuple[str, Any, str]] = {  # each column's value, declaration and types that hold it, in DuckDB's words
    "n": ("i", sd.Integer(1, 2000), "SMALLINT INTEGER BIGINT HUGEINT DOUBLE DECIMAL(9,0) VARCHAR"),
    "id": ("CAST(i AS BIGINT) * i % 211 - 9", sd.Identifier(), "SMALLINT BIGINT HUGEINT DECIMAL(20,0) DOUBLE VARCHAR"),
    "name": (
        "CASE i % 7 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -1000000000000000000 WHEN 2 THEN NULL ELSE i % 19 END",
        sd.Identifier(),
        "BIGINT HUGEINT DECIMAL(20,0) VARCHAR",
    ),
    "far": ("CAST(i % 31 - 5 AS BIGINT) * 1000000", sd.Real(), "INTEGER BIGINT HUGEINT DECIMAL(20,0) DOUBLE VARCHAR"),
    "cost": ("CAST(i % 1000 AS DECIMAL(9, 2)) / 8", sd.Real(resolution=0.01), "DECIMAL(9,3) DOUBLE VARCHAR"),
    "part": ("CAST(i % 64 AS DECIMAL(9, 2)) / 8", sd.Real(), "DECIMAL(9,3) DOUBLE VARCHAR"),
    "large": ("CAST(i AS BIGINT) * i", sd.Integer(), "BIGINT HUGEINT DECIMAL(20,0) DOUBLE VARCHAR"),
    "code": ("i % 5", sd.Category([1, 2, 3], missing="keep"), "SMALLINT BIGINT HUGEINT DOUBLE VARCHAR"),
    "flag": ("i % 2", sd.Boolean(), "SMALLINT BIGINT HUGEINT DOUBLE VARCHAR"),
    "due": (
        "CAST('2019-12-20' AS DATE) + CAST(i % 800 AS INTEGER)",
        sd.Date("2020-01-01", "2021-12-31"),
        "DATE TIMESTAMP VARCHAR",
    ),
    "seen": (
        "CAST('2020-03-20 00:00:00' AS TIMESTAMP) + i * INTERVAL '97 seconds'",
        sd.DateTime("2020-01-01", "2020-12-31", zone="UTC", resolution="minute"),
        "TIMESTAMP TIMESTAMPTZ VARCHAR",
    ),
}
ANY_TYPE = sd.Domain({name: declared for name, (_, declared, _) in HELD.items()})
KEPT = Selection().group_by("n").agg(sd.count())


def hash_of(cells: list[int | None]) -> int:
    """Return the hash in whole numbers of any length, as its docstring states it."""
    terms = [_factor("rows")]
    for i, cell in enumerate(cells):
        factors = [_factor(f"c{i} {half}") for half in (0, 1)]
        terms += [
            f >> 1 if cell is None else ((cell >> s) & (2**31 - 1)) * f for f, s in zip(factors, (0, 31), strict=True)
        ]
    while len(terms) > 8:
        terms = [sum(terms[:8]) & (2**59 - 1), *terms[8:]]
    found = sum(terms)
    for factor in (0x7FEB352D, 0x68E31DA5):
        found = ((found ^ (found >> 31)) & (2**32 - 1)) * factor
    return (found ^ (found >> 31)) & (2**31 - 1)


def _rows(*, wide: str, coded: str) -> str:
    return ROWS.replace("WIDE", wide).replace("CODED", coded)


@pytest.fixture
def people(postgres_server: postgres.Server, postgres_database: str, tmp_path: Path) -> tuple[Path, str]:
    """The same rows in a DuckDB file and on a server; numbers are held in other types."""
    postgres_server.execute(
        f"CREATE TABLE people AS {_rows(wide='NUMERIC', coded='NUMERIC')}",
        database=postgres_database.rpartition("/")[2],
    )
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE people AS {_rows(wide='HUGEINT', coded='SMALLINT')}")
    return path, postgres_database


def engines_of(people: tuple[Path, str], unit: PrivacyUnit | None) -> list[Any]:
    path, url = people
    server = PostgresEngine(source_from(url, relation="people"), domain=DOMAIN, unit=unit)
    return [engine_of(path, DOMAIN, unit=unit, relation="people"), server]


@pytest.mark.deep
@pytest.mark.parametrize("width", [3, 1, 11])
def test_the_hash_agrees_to_the_bit_and_never_overflows(width: int, postgres_database: str) -> None:
    draws = random.Random(width)
    rows = [[draws.choice([*EXTREMES, draws.randrange(-(2**63), 2**63)]) for _ in range(width)] for _ in range(200)]
    rows += [[cell] * width for cell in EXTREMES]
    names = [f'"c{i}"' for i in range(width)]
    written = [["NULL" if cell is None else f"'{cell}'" for cell in row] for row in rows]
    cells = [", ".join(f"CAST({cell} AS BIGINT)" for cell in row) for row in written]
    shown = ", ".join(f"({row}, {place})" for place, row in enumerate(cells))
    table = f"(VALUES {shown}) AS made({', '.join(names)}, place)"
    layout = TableLayout({}, DOMAIN, None, None, source=table)
    answers = []
    for kind in (DuckDBPrimitives, PostgresPrimitives):
        words = kind(layout)
        made = hash_cells([CellNumber(f"c{i}", n) for i, n in enumerate(names)], words, purpose="rows")
        tree = words._tree(words.let(made))
        text = f"SELECT {words._words(tree)} FROM {words._words(words.source())} ORDER BY place"
        if kind is DuckDBPrimitives:
            answers.append([n for (n,) in duckdb.execute(text).fetchall()])
        else:
            with psycopg.connect(postgres_database) as held:
                answers.append([n for (n,) in held.execute(text.encode()).fetchall()])
    assert answers[0] == answers[1] == [hash_of(row) for row in rows]


@pytest.mark.each(2)
@pytest.mark.parametrize("kind", ["numbers", "texts", "near numbers"])
def test_each_row_of_a_unit_is_kept_as_often(kind: str) -> None:
    """Of 20,000 units with the same five rows each row is kept as often as the others: chi-square, a false alarm in 10^6."""
    kinds: dict[str, list[Any]] = {"numbers": [0, 1, 2, 3, 10**6], "texts": ["a", "b", "", "B", "aa"]}
    cells = kinds.get(kind, [1, 2, 3, 4, 5])
    domain = sd.Domain({"id": sd.Integer(), "x": sd.Identifier() if kind == "texts" else sd.Integer()})
    table = pa.table({"id": [i for i in range(20_000) for _ in cells], "x": cells * 20_000})
    for most in (1, 2):
        engine = engine_of(table, domain, unit=PrivacyUnit("id", max_rows=most))
        how = Selection().group_by("x") if kind == "texts" else Selection().group_by(sd.col("x").clip(0, 6))
        found = compile_query(how.agg(sd.count()), domain)
        counts = sorted(engine.run(found.select(engine.primitives)).column("t0").to_pylist())
        engine.close()
        assert len(counts) == 5
        assert sum(counts) == most * 20_000
        expected = most * 20_000 / 5
        assert chi_square_tail(sum((n - expected) ** 2 for n in counts) / expected, 4) > 1e-6 / 6


@pytest.mark.deep
@pytest.mark.parametrize(
    ("question", "bounds"),
    [
        (KEPT, None),
        (KEPT, ContributionBounds(max_rows=1)),
        (Selection().group_by("word").agg(sd.count(), sd.sum("n")), ContributionBounds(max_groups=1)),
        (
            Selection().group_by("sex").agg(sd.count(), sd.sum("n")),
            ContributionBounds(max_groups=1, max_rows_per_group=2),
        ),
        (Selection().where(sd.col("gain") >= 1).agg(sd.sum("n")), None),
    ],
    ids=["rows", "one row", "private keys", "rows of groups", "where"],
)
def test_the_same_rows_are_kept_in_postgresql(
    question: Any, bounds: ContributionBounds | None, people: tuple[Path, str]
) -> None:
    found = replace(compile_query(question, DOMAIN), bounds=bounds)
    answers = []
    for engine in engines_of(people, PrivacyUnit("id", max_rows=3)):
        answer = engine.run(found.select(engine.primitives))
        answers.append(Counter(tuple(map(str, row.values())) for row in answer.to_pylist()))
        engine.close()
    assert answers[0] == answers[1]
    assert answers[0]


@pytest.mark.deep
@pytest.mark.parametrize("unit", [None, PrivacyUnit("id", max_rows=3)], ids=["rows", "people"])
def test_units_fall_in_the_same_chunks_in_postgresql(unit: PrivacyUnit | None, people: tuple[Path, str]) -> None:
    answers = []
    for engine in engines_of(people, unit):
        words = engine.primitives
        chosen = [sql.alias_(words.chunk(7), "k0"), sql.alias_(words.raw("n"), "n")]
        answer = engine.run(sql.Select(expressions=chosen).from_(words.source()))
        answers.append(Counter(tuple(row.values()) for row in answer.to_pylist()))
        engine.close()
    assert answers[0] == answers[1]
    assert {chunk for chunk, _ in answers[0]} == set(range(7))


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5))
def test_how_a_cell_is_held_does_not_matter(
    seed: int, postgres_server: postgres.Server, postgres_database: str, tmp_path: Path
) -> None:
    """The same values, in types drawn at random here and on a server, have the same hash to the bit and the same rows kept."""
    rng = random.Random(seed)
    made = []
    for _ in range(2):
        kinds = {name: rng.choice(types.split()) for name, (_, _, types) in HELD.items()}
        cells = (f'CAST({value} AS {kinds[name]}) AS "{name}"' for name, (value, _, _) in HELD.items())
        made.append(f"SELECT {', '.join(cells)} FROM generate_series(1, 2000) AS numbers(i)")
    on_server = made[1].replace("HUGEINT", "NUMERIC").replace("DOUBLE", "DOUBLE PRECISION")
    postgres_server.execute(
        "SET TimeZone = 'UTC'", f"CREATE TABLE held AS {on_server}", database=postgres_database.rpartition("/")[2]
    )
    path = tmp_path / "held.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE held AS {made[0]}")
    source = source_from(postgres_database, relation="held")
    answers = []
    for unit in (None, PrivacyUnit("id", max_rows=3)):
        engines = (
            engine_of(path, ANY_TYPE, unit=unit, relation="held"),
            PostgresEngine(source, domain=ANY_TYPE, unit=unit),
        )
        for engine in engines:
            words = engine.primitives
            chosen = [sql.alias_(words.chunk(2**31), "k0"), sql.alias_(words.integer("n", 1, 2000), "n")]
            answer = engine.run(sql.Select(expressions=chosen).from_(words.source()))
            answers.append(sorted((row["n"], row["k0"]) for row in answer.to_pylist()))
            engine.close()
    assert answers[0] == answers[1]
    assert len({hashed for _, hashed in answers[0]}) > 1990
    assert answers[2] == answers[3]
    assert len(answers[2]) == 3 * 106
