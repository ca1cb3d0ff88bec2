"""PostgreSQL gives the exact answers that DuckDB gives, and no stored value makes a question fail there either."""

from __future__ import annotations

import doctest
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlglot import exp

import postgres_server as postgres
import sordino as sd
from ask.engines.support import engine_of
from places import ROOT
from sordino import col
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.curator.plan import DataAccess
from sordino.ask.engines.postgres import PostgresEngine
from sordino.ask.project.proposal import propose_project
from sordino.ask.queries.aggregation import Grouping, compile_query
from sordino.ask.queries.bucket_lines import BucketLines
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.gradient_vector import (
    CurvatureMatrix,
    GradientVector,
    ScoreCounts,
    SteppedRegression,
    compile_steps,
)
from sordino.ask.queries.moment_matrix import FirstLook, Frame, MomentMatrix, MomentVector
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import source_from

S = Selection()
PEOPLE = sd.Domain(
    {
        "id": sd.Identifier(),
        "age": sd.Integer(0, 125),
        "gain": sd.Real(0, 111, resolution=0.01),
        "sex": sd.Category(["F", "M"], missing="keep"),
        "due": sd.Date("2020-01-01", "2021-12-31"),
        "seen": sd.DateTime("2020-01-01", "2020-12-31", zone="Europe/Berlin", resolution="minute"),
        "member": sd.Boolean(),
    }
)
CELLS = """
    SELECT CAST(i % 211 AS VARCHAR) AS id, CAST(i % 140 - 5 AS INTEGER) AS age,
        CAST(i % 777 AS DOUBLE PRECISION) / 7 AS gain, CASE i % 3 WHEN 0 THEN 'F' WHEN 1 THEN ' M ' END AS sex,
        CAST('2019-12-20' AS DATE) + CAST(i % 800 AS INTEGER) AS due,
        CAST('2020-03-20 00:00:00+00' AS TIMESTAMPTZ) + i * INTERVAL '97 seconds' AS seen, i % 5 = 0 AS member
    FROM generate_series(1, 5000) AS numbers(i)
"""
QUESTIONS: dict[str, Any] = {
    "count": S.agg(sd.count()),
    "by": S.group_by("sex").agg(sd.count(), sd.sum("age"), sd.mean("gain"), sd.variance("gain")),
    "where": S.where((col("age") > 30) & ~col("member")).agg(sd.sum(col("age") * 2 - col("gain"))),
    "bins": S.group_by(col("age").bin(width=10)).agg(sd.count()),
    "days": S.group_by(col("due").month()).agg(sd.count("due"), sd.count_distinct("due")),
    "hours": S.group_by(col("seen").hour()).agg(sd.count()),
    "moments": S.where(col("seen") >= "2020-03-22 12:00").agg(sd.count(), sd.mean("seen")),
    "roots": S.agg(sd.sum(col("age").sqrt()), sd.sum((col("gain") + 1).ln()), sd.sum(col("age") / (col("gain") + 1))),
    "id": S.where(col("id").is_in(["7", "8", "a\0b", "it's"])).agg(sd.count()),
    "texts": S.where(col("id").like("1_")).agg(sd.count()),
}


@pytest.fixture
def people(postgres_server: postgres.Server, postgres_database: str, tmp_path: Path) -> tuple[str, Path]:
    """The same rows on a server and in a DuckDB file."""
    name = postgres_database.rpartition("/")[2]
    postgres_server.execute(f"CREATE TABLE people AS {CELLS}", database=name)
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE people AS {CELLS}")
    return postgres_database, path


def postgres_engine(
    url: str, domain: sd.Domain, *, relation: str = "people", unit: PrivacyUnit | None = None
) -> PostgresEngine:
    return PostgresEngine(source_from(url, relation=relation), domain=domain, unit=unit)


def run_section(name: str, globs: dict[str, Any]) -> int:
    """Run the examples of one section of the page about engines; returns how many there are."""
    page = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    text = next(part for part in page.split("\n## ") if part.startswith(f"{name}\n"))
    found = doctest.DocTestParser().get_doctest(text, globs, name, "engines.md", 0)
    done = doctest.DocTestRunner().run(found)
    assert done.failed == 0
    return done.attempted


def exact_parts(engine: Any, domain: sd.Domain, question: Any) -> list[list[Fraction]]:
    """Return the exact parts of a question, in its own units."""
    found = compile_query(as_aggregation(question), domain)
    flat = [part for several in found.parts for part in several]
    vectors = exact_vectors(engine.run(found.select(engine.primitives)), found)
    return [[x * part.unit for x in vector] for part, vector in zip(flat, vectors, strict=True)]


def exact_lines(engine: Any) -> list[tuple[int, int]]:
    """Return the lines of gain on age, of which cells are missing or beyond the bounds, in 60 buckets three times."""
    step = BucketLines(Name("age"), Name("gain"), 60, 3, -1000, 1500)
    access = DataAccess(engine).follow((step,), PEOPLE)
    on = access.primitives()
    columns = [exp.column(name) for name in step.names]
    table = access.run(access.write(exp.Select(expressions=columns).from_(on.source())))
    engine.close()
    return sorted(zip(*(map(int, table.column(name).to_pylist()) for name in step.names), strict=True))


def test_the_page_about_engines_is_true(postgres_server: postgres.Server, postgres_database: str) -> None:
    postgres_server.execute(
        "CREATE TABLE visits AS SELECT i % 80 AS age, 'North' AS region FROM generate_series(1, 500) AS n(i)",
        database=postgres_database.rpartition("/")[2],
    )
    assert run_section("PostgreSQL", {"url": postgres_database}) > 3


def test_init_writes_a_project_file_and_check_reads_it(
    postgres_server: postgres.Server, postgres_database: str, tmp_path: Path
) -> None:
    postgres_server.execute(
        "CREATE TABLE visits (age INT, cost NUMERIC(8, 2), region TEXT, seen TIMESTAMPTZ, day DATE, member BOOLEAN)",
        database=postgres_database.rpartition("/")[2],
    )
    proposal = propose_project(postgres_database, relation="public.visits")
    assert f'source = "{postgres_database}"' in proposal.text
    assert 'age = {type = "integer"' in proposal.text
    assert (proposal.table, proposal.columns) == ("visits", 6)
    text = proposal.text.partition("[tables.visits.columns]")[0] + '[tables.visits.columns]\nage = {type = "integer"}\n'
    text = text.replace('epsilon = "FILL IN"', "epsilon = 1").replace('neighbors = "FILL IN"', 'neighbors = "replace"')
    (tmp_path / "sordino.toml").write_text(text.replace('privacy_unit = "FILL IN"', 'privacy_unit = "row"'))
    assert sd.check_project(tmp_path / "sordino.toml") == []
    held = sd.connect(tmp_path / "sordino.toml")
    assert held.table("visits").ask(sd.count(), epsilon=1).charge == "c-0001"
    held.table("visits").close()


@pytest.mark.each(11)
@pytest.mark.parametrize("name", QUESTIONS)
def test_exact_answers_are_those_of_duckdb(name: str, people: tuple[str, Path]) -> None:
    url, path = people
    one, other = postgres_engine(url, PEOPLE), engine_of(path, PEOPLE, relation="people")
    try:
        found = exact_parts(one, PEOPLE, QUESTIONS[name])
        assert found == exact_parts(other, PEOPLE, QUESTIONS[name])
        assert any(any(vector) for vector in found)
    finally:
        one.close()
        other.close()


def exact_model_vectors(engine: Any, folds: int, *, few: bool = False) -> list[list[list[int]]]:
    """Return every whole number of first looks, moments and gradients: with weights, folds, products and counts by values.

    With `few` of weighted moments alone.
    """
    groups = [Grouping(name, Name(name)) for name in ("age", "gain", "sex", "member")]
    moments = MomentMatrix(tuple(groups[:2]), tuple(groups[2:]), folds)
    weighted = MomentMatrix(tuple(groups[:2]), tuple(groups[2:]), folds, groups[1])
    frame = Frame((-500, 1200), (900, 300), Fraction(27, 4))
    logistic = SteppedRegression(groups[3], "logistic", tuple(groups[:2]), tuple(groups[2:3]), folds, groups[1])
    counts = SteppedRegression(groups[1], "poisson", (groups[0],), tuple(groups[2:]))
    near = Frame(frame.centers[:1], frame.scales[:1], frame.limit)
    queries: list[Any] = [query for of in (moments, weighted) for query in (FirstLook(of), MomentVector(of, frame))]
    for regression, where in ((logistic, frame), (counts, near)):
        size = compile_steps(regression, PEOPLE).cells
        coefficients = tuple((-1) ** i * (i << 31) for i in range(size))
        queries.append(GradientVector(regression, where, coefficients, 700))
        queries.append(CurvatureMatrix(regression, where, coefficients, 700))
    if folds > 1:
        queries.append(ScoreCounts(logistic, frame, queries[4].coefficients))
    access = DataAccess(engine)
    exact = []
    for query in queries[3:4] if few else queries:
        tables = [access.run(access.write(scan.select(access.primitives()))) for scan in query.scans(PEOPLE)]
        exact.append([[int(x) for x in vector] for vector in query.exact_vectors(tables, PEOPLE)])
    engine.close()
    return exact


@pytest.mark.deep
@pytest.mark.parametrize("unit", [PrivacyUnit("id", max_rows=7), None], ids=["person", "row"])
@pytest.mark.parametrize("few", [True, False], ids=["few", "all"])
def test_moments_are_those_of_duckdb(unit: PrivacyUnit | None, few: bool, people: tuple[str, Path]) -> None:
    # Where a row is the unit its fold is a hash of its cells, whose stored types differ between the two.
    folds = 1 if unit is None else 3
    exact = exact_model_vectors(engine_of(people[1], PEOPLE, unit=unit, relation="people"), folds, few=few)
    assert exact == exact_model_vectors(postgres_engine(people[0], PEOPLE, unit=unit), folds, few=few)
    assert all(any(map(any, vectors)) for vectors in exact)


@pytest.mark.deep
def test_lines_of_buckets_are_those_of_duckdb(people: tuple[str, Path]) -> None:
    unit = PrivacyUnit("id", max_rows=7)
    lines = exact_lines(engine_of(people[1], PEOPLE, unit=unit, relation="people"))
    assert lines == exact_lines(postgres_engine(people[0], PEOPLE, unit=unit))
    assert len(lines) > 100


def test_scans_are_shared_by_processes_and_steps_are_computed_once(people: tuple[str, Path]) -> None:
    engine = postgres_engine(people[0], PEOPLE)
    question = S.group_by("sex").agg(sd.count(), sd.mean("age"), sd.sum("gain"))
    try:
        with engine.snapshot() as held:
            for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
                held.connection.execute(f"SET LOCAL {name} = 0".encode())
            text = compile_query(as_aggregation(question), PEOPLE).select(held.primitives)
            rows = f"WITH {held.layout.source} AS NOT MATERIALIZED (SELECT * FROM people)"
            made = f"EXPLAIN (VERBOSE) {rows} {text.sql(dialect=held.primitives.dialect)}"
            plan = "\n".join(line for (line,) in held.connection.execute(made.encode()))
    finally:
        engine.close()
    assert "Parallel Seq Scan" in plan
    assert "Partial HashAggregate" in plan  # each process sums its own rows
    scan = plan.rpartition("Parallel Seq Scan")[2]
    assert scan.count("CASE WHEN ((people.age ") == 1  # a mean takes it for the sum and for the count
