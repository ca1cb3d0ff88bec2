"""Random questions of extreme cells: no row makes one fail on PostgreSQL, and each has the answer that DuckDB gives.

Neighboring tables on the server differ by no more than declared, and each primitive is written as it was.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import duckdb
import psycopg
import pytest

import postgres_server as postgres
import sordino as sd
from ask.curator.extremes import CELLS, Questions, declare
from ask.engines.every_kind import DAYS, FIXED, KIN, MOMENTS, ONE_KIN, PUBLIC, WORDS, EveryKind
from ask.engines.support import FLOAT_BOUNDS, assert_within_sensitivity, float_cells, float_steps
from ask.engines.test_postgres import exact_parts, postgres_engine
from protecting import protect
from sordino import col
from sordino.ask.engines.postgres import PostgresPrimitives
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.queries.build import Selection
from sordino.core.neighbors import Neighbors
from sordino.errors import DeclarationError, QuestionRefused, SourceError

S = Selection()
BOTH = {  # DuckDB's type and the server's
    "BIGINT": "BIGINT",
    "TINYINT": "SMALLINT",
    "HUGEINT": "NUMERIC(39, 0)",
    "DOUBLE": "DOUBLE PRECISION",
    "FLOAT": "REAL",
    "DECIMAL(38,0)": "NUMERIC(38, 0)",
    "DECIMAL(38,38)": "NUMERIC(38, 38)",
    "DECIMAL(18,3)": "NUMERIC(18, 3)",
    "VARCHAR": "TEXT",
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMPTZ",
    "UUID": "UUID",
}
ALONE = {  # types and cells that only the server has
    "NUMERIC": ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "77", "-0.0", "9" * 60],
    "CHAR(6)": ["a", "77", "m  ", "it's"],
    "DATE ": ["infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", "0001-01-01", "2000-02-29"],
    "TIMESTAMP ": [
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "2000-02-29 12:00",
    ],
    "TIMESTAMPTZ ": ["infinity", "-infinity", "4713-01-01 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"],
}
MORE = {
    "VARCHAR": [
        "2000-02-29 12:30:01.25+02",
        "1999-12-31T23:59Z",
        "2000-02-30",
        "0.5",
        "-1e-400",
        "+5.0",
        "1e9999",
        "É",
    ],
    "DOUBLE": ["0.05", "0.15", "2.5", "1e-300", "-0.005"],
    "TIMESTAMP": ["2000-02-29 12:34:56.789", "0001-01-01 00:00:00", "9999-12-31 23:59:59.5"],
}
ROWS = 40


def fill(url: str, path: Path, kinds: dict[str, str], rng: random.Random, table: str = "t") -> None:
    """Put the same rows of extreme cells into a table on the server, and in DuckDB where it has the types."""
    import psycopg

    held = {name: BOTH.get(kind, kind) for name, kind in kinds.items()}
    shared = all(kind in BOTH for kind in kinds.values())
    cast = ", ".join(f"CAST(%s AS {kind})" for kind in held.values())
    with psycopg.connect(url, autocommit=True) as server, duckdb.connect(str(path)) as other:
        server.execute("SET TimeZone = 'UTC'")
        other.execute("SET TimeZone = 'UTC'")
        server.execute(f"CREATE TABLE {table} ({', '.join(f'{n} {k}' for n, k in held.items())})".encode())
        if shared:
            other.execute(f"CREATE TABLE {table} ({', '.join(f'{n} {k}' for n, k in kinds.items())})")
        good: dict[str, list[str | None]] = {kind: [None] for kind in kinds.values()}
        for kind, cells in good.items():
            for text in ALONE.get(kind) or [*CELLS[kind], *MORE.get(kind, [])]:
                try:
                    server.execute(f"SELECT CAST(%s AS {BOTH.get(kind, kind)})".encode(), [text])
                    cells += [text, text]
                except psycopg.Error:  # no cell of that type
                    continue
        for _ in range(ROWS):
            row = [rng.choice(good[kind]) for kind in kinds.values()]
            server.execute(f"INSERT INTO {table} VALUES ({cast})".encode(), row)
            if shared:
                listed = ", ".join(f"TRY_CAST(? AS {kind})" for kind in kinds.values())
                other.execute(f"INSERT INTO {table} SELECT {listed}", row)
        if KIN in kinds:
            server.execute(f"UPDATE {table} SET {KIN} = {ONE_KIN}".encode())
            other.execute(f"UPDATE {table} SET {KIN} = {ONE_KIN}")


def domain_of(kinds: dict[str, str], rng: random.Random) -> sd.Domain:
    columns = {name: declare(rng) for name in kinds} | {"n": sd.Integer(0, 125), "id": sd.Identifier()}
    return sd.Domain(columns, row_ceiling=rng.choice([2**40, 10**6]))


def open_t(place: str | Path, domain: sd.Domain, unit: Any) -> sd.Curator:
    return protect(place, domain, relation="t", unit=unit, budget=sd.ApproxDP(10**9, "0.9"), name="data")


def answer(curator: sd.Curator, question: Any, seed: int, *, epsilon: int = 1000) -> Any:
    """Return what a question's release says, or that it is refused; a ChargedError goes up."""
    curator._rng = sd.Rng.seeded(seed)
    try:
        release = curator.ask(question, epsilon=epsilon, delta="1e-9")
    except (QuestionRefused, DeclarationError):
        return "refused"
    return {key: value for key, value in release.to_dict().items() if key in ("keys", "rows", "intervals", "estimates")}


def run(url: str, directory: Path, seed: int, each: int, apart: int = 1) -> Counter[str]:
    """Ask so many random questions of each `apart`-th kind in both places; return how many of each had answers."""
    rng, seen = random.Random(seed), Counter[str]()
    path, domains = directory / "both.duckdb", {}
    for table in ("t", "u"):
        kinds = {f"c{i}": rng.choice(list(BOTH)) for i in range(7)} | {"n": "BIGINT", "id": "VARCHAR"}
        kinds |= {DAYS: "DATE", MOMENTS: "TIMESTAMPTZ", WORDS: "VARCHAR", KIN: "VARCHAR"}
        fill(url, path, kinds, rng, table)
        ceiling = rng.choice([2**40, 10**6])
        domains[table] = sd.Domain({n: declare(rng) for n in kinds if n not in FIXED} | FIXED, row_ceiling=ceiling)
    unit = sd.PrivacyUnit("id", max_rows=ROWS, of="person")  # test_row_hash.py asks under caps that act
    relation: Any = rng.choice(["add_remove", "replace"])
    one, other = (
        sd.protect(
            dict.fromkeys(domains, place),
            domain=domains,
            neighbors=relation,
            privacy_unit=dict.fromkeys(domains, unit),
            budget=sd.ApproxDP(10**9, "0.9"),
            ledger=None,
            relation={table: table for table in domains},
            rng=sd.Rng.seeded(0),
            public={"plain": PUBLIC},
        ).table("t")
        for place in (url, str(path))
    )
    made = EveryKind(domains["t"], rng)
    for i in range(each):
        for kind, make in list(made.kinds.items())[::apart]:
            try:
                question = make()
            except (QuestionRefused, DeclarationError):  # no one could ask it
                continue
            epsilon = (
                10**6 if kind == "keys by weights" else 1000
            )  # weights are drawn in the engine's order: without noise
            found, beside = (answer(held, question, i, epsilon=epsilon) for held in (one, other))
            if epsilon > 1000 and "refused" not in (found, beside):  # a key of few units shows by chance
                here, there = ({row[KIN]: round(row["count"]) for row in said["rows"]} for said in (found, beside))
                found, beside = ([rows[k] for k in sorted({*here} & {*there})] for rows in (here, there))
            assert found == beside, (kind, question)
            seen[kind] += found != "refused"
    one.close()
    other.close()
    return seen


def test_random_questions_have_the_answers_of_duckdb(postgres_database: str, tmp_path: Path) -> None:
    found = run(postgres_database, tmp_path, 1, 1, apart=4)
    assert sum(found.values()) > 2


@pytest.mark.deep
def test_many_random_questions_have_the_answers_of_duckdb(postgres_server: postgres.Server, tmp_path: Path) -> None:
    """More than 150 that have answers, of every kind."""
    found = Counter[str]()
    for seed in range(100, 106):
        postgres_server.execute(f"CREATE DATABASE d{seed} TEMPLATE template0 ENCODING 'UTF8'")
        directory = tmp_path / str(seed)
        directory.mkdir()
        found += run(f"{postgres_server.url}/d{seed}", directory, seed, 4)
    assert sum(found.values()) > 150
    assert set(found) == set(EveryKind(sd.Domain(FIXED), random.Random(0)).kinds), found


@pytest.mark.deep
@pytest.mark.parametrize("questions", [3, 40])
def test_what_only_the_server_holds_makes_no_question_fail(
    questions: int, postgres_database: str, tmp_path: Path
) -> None:
    rng, seen = random.Random(5), Counter[str]()
    kinds = {f"c{i}": kind for i, kind in enumerate([*ALONE, "NUMERIC", "DOUBLE"])} | {"n": "BIGINT", "id": "VARCHAR"}
    fill(postgres_database, tmp_path / "t.duckdb", kinds, rng)
    for unit in ("row", sd.PrivacyUnit("id", max_rows=2), sd.PrivacyUnit("id", max_rows=2, max_groups=1)):
        domain = domain_of(kinds, rng)
        curator, made = open_t(postgres_database, domain, unit), Questions(domain, rng)
        for i in range(questions):
            found = answer(curator, sd.sql(made.sql()) if rng.random() < 0.3 else made.question(), i)
            seen["refused" if found == "refused" else "answered"] += 1
        curator.close()
    assert seen["answered"] > questions


PAIRS: list[tuple[Any, str]] = [
    (S.agg(sd.count(), sd.sum("x"), sd.variance("x")), "'NaN'"),
    (S.where(col("x") > 50).agg(sd.count(), sd.sum("x")), "1e308"),
    (S.where(col("x") <= 0).agg(sd.count("x")), "'-Infinity'"),
    (S.group_by(col("x").bin(width=25)).agg(sd.count(), sd.sum("x")), "'Infinity'"),
    (S.agg(sd.sum(col("x") * col("x")), sd.count_distinct("x")), "99.995"),
]


@pytest.mark.deep
@pytest.mark.parametrize(("question", "cell"), PAIRS)
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_one_row_moves_an_exact_answer_by_no_more_than_declared(
    question: Any,
    cell: str,
    relation: Literal["add_remove", "replace"],
    postgres_server: postgres.Server,
    postgres_database: str,
) -> None:
    domain = sd.Domain({"x": sd.Real(0, 100, resolution=0.01)})
    added = "" if relation == "add_remove" else " UNION ALL SELECT 7"
    postgres_server.execute(
        "CREATE TABLE one AS SELECT CAST('NaN' AS DOUBLE PRECISION) AS x FROM generate_series(1, 100) UNION ALL SELECT 1"
        + added,
        f"CREATE TABLE other AS SELECT x FROM one WHERE x <> 7 UNION ALL SELECT CAST({cell} AS DOUBLE PRECISION)",
        database=postgres_database.rpartition("/")[2],
    )
    found = []
    for table in ("one", "other"):
        engine = postgres_engine(postgres_database, domain, relation=table)
        found.append(exact_parts(engine, domain, question))
        engine.close()
    assert_within_sensitivity(domain, question, found[0], found[1], Neighbors(relation, None))


def words() -> PostgresPrimitives:
    kinds = {"i": "INTEGER", "d": "DOUBLE", "t": "VARCHAR", "w": "TIMESTAMPTZ"}
    domain = sd.Domain(
        {"i": sd.Integer(0, 9), "d": sd.Real(0, 9, resolution=1), "t": sd.Identifier(), "w": sd.Identifier()}
    )
    return PostgresPrimitives(TableLayout(kinds, domain, None, None, source='"sordino_source"'))


@pytest.mark.parametrize(
    ("build", "golden"),
    [
        (
            lambda on: on.integer("i", 0, 9),
            "CASE WHEN \"i\" BETWEEN CAST('0' AS BIGINT) AND CAST('9' AS BIGINT) THEN \"i\"",
        ),
        (
            lambda on: on.lattice("d", Fraction(1), 0, 9),
            "FLOOR(\"d\" * CAST('1.0' AS DOUBLE PRECISION) + CAST('0.5' AS DOUBLE",
        ),
        (lambda on: on.is_text(on.text("t"), ["it's", "a\0"]), "(\"t\" IN ('it''s'))"),
        (lambda on: on.like(on.text("t"), "like", "a\\%_"), "(\"t\" LIKE 'a\\%_' ESCAPE '')"),
        (
            lambda on: on.code_of(on.text("t"), ["a", "b"], None),
            "FROM \"t\") WHEN 'a' THEN 0 WHEN 'b' THEN 1 END AS BIGINT)",
        ),
        (lambda on: on.place_of(on.text("t"), [f"v{i}" for i in range(40)]), 'AS JSONB) ->> "t" AS BIGINT)'),
        (lambda on: on.place_of(on.strip(on.text("t")), ["a"]), "FROM \"t\") WHEN 'a' THEN 0 END AS BIGINT)"),
        (lambda on: on.label(on.integer("i", 0, 9), ["a", None]), "(CAST(ARRAY['a', NULL] AS TEXT[]))[CAST("),
        (lambda on: on.wide(on.integer("i", 0, 9)), "AS NUMERIC)"),
        (lambda on: on.bin(on.integer("i", 0, 9), [0, 2, 4, 6]), "DIV("),
        (lambda on: on.chunk(7), "AS INT)) % CAST('7' AS BIGINT)"),
        (lambda on: on.chunk(7), "CAST(CAST('x' || SUBSTRING(MD5(\"t\") FROM 1 FOR 15) AS BIT(60)) AS BIGINT)"),
        (lambda on: on.moments("w", "UTC", Fraction(60), 0, 9), 'EXTRACT(EPOCH FROM "w") * 1000000 AS BIGINT)'),
    ],
)
def test_a_primitive_is_written_as_it_was(build: Any, golden: str) -> None:
    on = words()
    cell = build(on)
    text = cell.sql(dialect=on.dialect) + " FROM " + on.source().sql(dialect=on.dialect)
    assert golden in text, text


@pytest.mark.each(11)
@pytest.mark.parametrize(("step", "lower", "upper"), FLOAT_BOUNDS)
@pytest.mark.parametrize("kind", ["DOUBLE", "DECIMAL"])
def test_steps_of_numbers_are_those_of_python(
    kind: str, step: str, lower: int, upper: int, postgres_database: str
) -> None:
    unit = Fraction(step)
    numbers = float_cells(unit, lower, upper)
    wanted = [float_steps(x, unit, lower, upper) for x in numbers]
    if kind == "DECIMAL":  # of 400 digits after the point too, of which no float holds one
        wanted += [float_steps(x, unit, lower, upper) for x in (0.0, 0.0, math.inf)]
    cells = [*map(repr, numbers), "1e-400", "-1e-400", "1e400"][: len(wanted)]
    written = {"DOUBLE": "DOUBLE PRECISION", "DECIMAL": "NUMERIC"}[kind]
    table = ", ".join(f"(CAST('{x}' AS {written}), {i})" for i, x in enumerate(cells))
    domain = sd.Domain({"d": sd.Real()})
    on = PostgresPrimitives(TableLayout({"d": kind}, domain, None, None, source=f"(VALUES {table}) AS made(d, place)"))
    cell = on.lattice("d", unit, lower, upper).sql(dialect=on.dialect)
    text = f"SELECT {cell} FROM {on.source().sql(dialect=on.dialect)} ORDER BY place"
    with psycopg.connect(postgres_database) as held:
        assert [n for (n,) in held.execute(text.encode()).fetchall()] == wanted


@pytest.mark.deep
@pytest.mark.parametrize(
    ("written", "step", "multiplied"),
    [
        ("NUMERIC(9, 3)", "0.001", True),
        ("NUMERIC(30, 2)", "0.01", True),
        ("NUMERIC(9, 3)", "0.01", False),  # a tie would be rounded elsewhere than its float
        ("NUMERIC(6, -2)", "100", False),
        ("NUMERIC", "0.01", False),
    ],
)
def test_decimals_of_stated_digits_have_the_steps_of_their_floats(
    written: str, step: str, multiplied: bool, postgres_server: postgres.Server, postgres_database: str
) -> None:
    rng, unit = random.Random(15), Fraction(step)
    texts = [f"{rng.choice('+-')}{rng.randrange(10 ** rng.randint(0, 6))}.{rng.randrange(1000):03}" for _ in range(400)]
    texts += ["NaN", "0", "-0.001", "0.005", "999999.99", "999999.999", "-999999.999"]
    cells = ", ".join(f"(CAST('{text}' AS {written}), {i})" for i, text in enumerate(texts))
    name = postgres_database.rpartition("/")[2]
    postgres_server.execute(
        f"CREATE TABLE costs (d {written}, place INT)", f"INSERT INTO costs VALUES {cells}", database=name
    )
    domain = sd.Domain({"d": sd.Real(), "place": sd.Integer()})
    engine = postgres_engine(postgres_database, domain, relation="costs")
    try:
        with engine.snapshot() as held:
            stored = [x for (x,) in held.connection.execute("SELECT d FROM costs ORDER BY place")]
            for lower, upper in ((-(10**9), 10**9), (0, 99_999), (-5, 5), (2**49 - 3, 2**49), (-7, -7)):
                words = held.primitives
                cell = words.lattice("d", unit, lower, upper).sql(dialect=words.dialect)
                rows = words.source().sql(dialect=words.dialect)
                assert multiplied != ("DOUBLE" in rows)
                text = f"WITH {held.layout.source} AS (SELECT * FROM costs) SELECT {cell} FROM {rows} ORDER BY place"
                found = [n for (n,) in held.connection.execute(text.encode())]
                assert found == [float_steps(float(x), unit, lower, upper) for x in stored]
    finally:
        engine.close()


def test_a_column_of_other_digits_than_it_had_is_refused(
    postgres_server: postgres.Server, postgres_database: str
) -> None:
    name = postgres_database.rpartition("/")[2]
    postgres_server.execute("CREATE TABLE costs AS SELECT CAST(1 AS NUMERIC(9, 3)) AS d", database=name)
    engine = postgres_engine(postgres_database, sd.Domain({"d": sd.Real(0, 9, resolution=0.001)}), relation="costs")
    try:
        postgres_server.execute("ALTER TABLE costs ALTER COLUMN d TYPE NUMERIC(9, 4)", database=name)
        with pytest.raises(SourceError, match="not as it was"), engine.snapshot():
            pass
    finally:
        engine.close()
