"""Random questions of extreme cells: no row makes one fail on Spark, and each has the answer that DuckDB gives.

Neighboring tables in Parquet differ by no more than declared, and each primitive is written as it was.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import parse_one

import sordino as sd
from ask.curator.extremes import CELLS, Questions, declare
from ask.engines.support import engine_of
from ask.engines.test_parquet_neighbors import ADDED, TABLES
from ask.engines.test_postgres import exact_parts
from ask.engines.test_postgres_extremes import MORE, answer
from ask.engines.test_spark import spark_engine
from protecting import protect
from sordino import col
from sordino.ask.engines.spark import SordinoSpark, SparkEngine, SparkPrimitives
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.core.neighbors import Neighbors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


S = Selection()
X = col("x")
DATES = date(2000, 1, 1), date(2001, 1, 1)
KINDS = ["BIGINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(38,0)", "DECIMAL(38,38)", "DECIMAL(18,3)", "VARCHAR"]
KINDS += ["BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMPTZ"]
ROWS = 40
DAYS = [  # what Parquet holds of days and moments: neither is infinite there
    "0001-01-01",
    "1582-10-04",
    "1582-10-14",
    "9999-12-31",
    "2000-02-29",
]


def fill(path: Path, kinds: dict[str, str], rng: random.Random) -> None:
    """Write rows of extreme cells into two Parquet files."""
    path.mkdir(exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE t ({', '.join(f'{n} {k}' for n, k in kinds.items())})")
        good: dict[str, list[str | None]] = {}
        for kind in kinds.values():
            times = DAYS if kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ") else []
            good[kind] = [None, *([] if times and kind == "DATE" else CELLS[kind]), *MORE.get(kind, []), *times]
            good[kind] = [text for text in good[kind] if text is None or "infinity" not in text or not times]
        for _ in range(ROWS):
            listed = ", ".join(f"TRY_CAST(? AS {kind})" for kind in kinds.values())
            connection.execute(f"INSERT INTO t SELECT {listed}", [rng.choice(good[kind]) for kind in kinds.values()])
        for part in (0, 1):
            connection.execute(f"COPY (SELECT * FROM t WHERE rowid % 2 = {part}) TO '{path}/{part}.parquet'")


def run(spark: SparkSession, path: Path, seed: int, count: int) -> Counter[str]:
    """Ask the same random questions of both engines; those that order by an engine's own hash are left out."""
    rng, seen = random.Random(seed), Counter[str]()
    kinds = {f"c{i}": rng.choice(KINDS) for i in range(9)} | {"n": "BIGINT", "id": "VARCHAR"}
    columns = {name: declare(rng) for name in kinds} | {"n": sd.Integer(0, 125), "id": sd.Identifier()}
    domain = sd.Domain(columns, row_ceiling=rng.choice([2**40, 10**6]))
    fill(path / "t", kinds, rng)
    unit: Any = rng.choice(["row", sd.PrivacyUnit("id", max_rows=ROWS)])
    budget = sd.ApproxDP(10**9, "0.9")
    places = [spark.read.parquet(str(path / "t")), path / "t" / "*.parquet"]
    one, other = (protect(place, domain, unit=unit, budget=budget, name="data") for place in places)
    made = Questions(domain, rng)
    for i in range(count):
        question = made.sql() if rng.random() < 0.3 else made.question()
        groups = [domain.columns.get(getattr(g.of, "name", "")) for g in getattr(question, "groups", ())]
        private = any(isinstance(column, sd.Identifier) for column in groups)
        if type(question).__name__ == "Robust" or private or (isinstance(question, str) and "GROUP BY" in question):
            continue
        found = answer(one, question, i)
        assert found == answer(other, question, i), question
        seen["refused" if found == "refused" else "answered"] += 1
    one.close()
    other.close()
    return seen


def test_random_questions_have_the_answers_of_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    assert run(spark, tmp_path, 2, 6)["answered"] > 0


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(100, 105))
def test_many_random_questions_have_the_answers_of_duckdb(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, seed, 30)


PLACES = [(name, added) for name in TABLES for added in [[], *([a] for a in ADDED)]]
DOMAIN = sd.Domain({"x": sd.Real(0, 5000, resolution=1), "part": sd.Category(list(range(len(PLACES))))})
PAIRS = [  # by the file that a row lies in: so one scan asks of all neighbors
    S.where(X > 1000).group_by("part").agg(sd.count(), sd.sum("x")),
    S.where(~(X <= 1000)).group_by("part").agg(sd.count(), sd.mean("x")),
    S.where(X.is_null()).group_by("part").agg(sd.count()),
    S.where((X >= 2000) | (X == 1)).group_by("part", X.bin([0, 1000, 5000])).agg(sd.count(), sd.count_distinct("x")),
]


@pytest.mark.deep
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_one_added_row_moves_no_other_through_parquet(kind: pa.DataType, spark: SparkSession, tmp_path: Path) -> None:
    """Each part is a file of its own: a table, and that table with one row added; both are as DuckDB has them."""
    assert spark.version
    for part, (name, added) in enumerate(PLACES):
        cells = pa.array([*TABLES[name], *added], kind)
        pq.write_table(pa.table({"x": cells, "part": [part] * len(cells)}), tmp_path / f"{part}.parquet")
    engine, other = spark_engine(tmp_path, DOMAIN), engine_of(tmp_path / "*.parquet", DOMAIN)
    for question in PAIRS:
        compiled = compile_query(as_aggregation(question), DOMAIN)
        bounds = [s for several in compiled.bound(Neighbors("add_remove", None)).sensitivities for s in several]
        found = exact_parts(engine, DOMAIN, question)
        assert found == exact_parts(other, DOMAIN, question), question
        for sensitivity, vector in zip(bounds, found, strict=True):
            bound, width = sensitivity.l1, len(vector) // (len(PLACES) + 1)
            first: list[Fraction] = []
            for place, (name, added) in enumerate(PLACES):
                at = vector[place * width : (place + 1) * width]
                first = at if not added else first
                assert sum(abs(a - b) for a, b in zip(first, at, strict=True)) <= bound, (question, name, added)
    engine.close()
    other.close()


def test_no_nan_leaves_a_file_and_no_condition_reaches_one(spark: SparkSession, tmp_path: Path) -> None:
    """Each of the two is enough for the pairs above: so each is looked at alone, with the settings as a session has them."""
    pq.write_table(pa.table({"x": [1.0, float("nan"), None], "n": [1, 2, 3], "b": [True] * 3}), tmp_path / "d.parquet")
    domain = sd.Domain({"x": sd.Real(0, 5000, resolution=1), "n": sd.Integer(0, 9), "b": sd.Boolean()})
    engine = spark_engine(tmp_path, domain)
    question = compile_query(as_aggregation(S.where((X > 0) & (col("n") > 1) & col("b")).agg(sd.count())), domain)
    text = question.select(engine.primitives).sql(dialect=SordinoSpark)
    spark.conf.set("spark.sql.parquet.filterPushdown", "true")
    spark.conf.set("spark.sql.constraintPropagation.enabled", "true")
    held: Any = spark.sql(text)
    assert "PushedFilters: []" in held._jdf.queryExecution().toString()
    view = spark.table(engine.primitives.source().this.name)
    assert [tuple(row) for row in view.orderBy("n").collect()] == [(1.0, 1, True), (None, 2, True), (None, 3, True)]
    engine.close()


@pytest.mark.deep
def test_plain_spark_does_fall_into_the_trap(spark: SparkSession, tmp_path: Path) -> None:
    """With filters pushed into Parquet, the published pair goes from 0 to 101: the test above guards against something real."""
    spark.conf.set("spark.sql.parquet.filterPushdown", "true")
    counts = []
    for values in ([1.0, *[float("nan")] * 100], [1.0, *[float("nan")] * 100, 2000.0]):
        pq.write_table(pa.table({"x": values}), tmp_path / "d.parquet")
        counts.append(spark.read.parquet(str(tmp_path / "d.parquet")).where("x > 1000").count())
    assert counts == [0, 101]


@pytest.mark.parametrize(
    ("a", "b"), [(10**37 - 1, 7), (10**37, 10**36 + 1), (2**62 + 5, 2), (0, 3), (5 * 10**36, 2**62)]
)
def test_a_wide_quotient_is_whole(a: int, b: int, spark: SparkSession) -> None:
    """Spark's own DIV of decimals keeps 64 bits of these, without a word."""
    text = f"SELECT CAST('{a}' AS HUGEINT) // CAST('{b}' AS HUGEINT) AS q"
    assert int(spark.sql(parse_one(text, dialect="duckdb").sql(dialect=SordinoSpark)).collect()[0][0]) == a // b


def test_a_decimal_next_to_a_whole_number_is_that_number(spark: SparkSession, tmp_path: Path) -> None:
    """As DuckDB and PostgreSQL have it; a cast of Spark's cuts the digits off."""
    cells = [Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38), Decimal("0." + "9" * 38), Decimal("0.5"), None]
    pq.write_table(pa.table({"x": pa.array(cells, pa.decimal128(38, 38))}), tmp_path / "x.parquet")
    domain, asked = sd.Domain({"x": sd.Integer(-5, 5)}), S.agg(sd.sum("x"), sd.count("x"))
    engine, other = spark_engine(tmp_path / "x.parquet", domain), engine_of(tmp_path / "x.parquet", domain)
    assert spark.version
    assert exact_parts(engine, domain, asked) == exact_parts(other, domain, asked) == [[1], [3]]
    engine.close()
    other.close()


def words() -> SparkPrimitives:
    kinds = {"i": "INTEGER", "d": "DOUBLE", "t": "VARCHAR", "w": "TIMESTAMPTZ", "u": "VARCHAR"}
    columns = {name: sd.Identifier() for name in kinds}
    return SparkPrimitives(TableLayout(kinds, sd.Domain(columns), sd.PrivacyUnit("u", max_rows=2), None))


@pytest.mark.parametrize(
    ("build", "golden"),
    [
        (lambda on: on.integer("i", 0, 9), "CAST(`i` AS BIGINT) AS sordino_"),
        (lambda on: on.integer("d", 0, 9), "ISNAN(`d`) OR RINT(`d`) <> `d` THEN NULL"),
        (lambda on: on.integer("d", 0, 9), "ELSE TRY_CAST(`d` AS BIGINT) END"),
        (
            lambda on: on.lattice("d", Fraction(1, 100), 0, 9),
            "CASE WHEN NOT ISNAN(`d`) THEN FLOOR(`d` * CAST('100.0' AS DOUBLE)",
        ),
        (lambda on: on.lattice("t", Fraction(1), 0, 9), r"RLIKE '\\A(?:[+-]?"),
        (lambda on: on.code_of(on.raw("t"), ["a'\\b", "c"], 2), r"WHEN 'a\'\\b' THEN 0 WHEN 'c' THEN 1 END"),
        (lambda on: on.code_of(on.raw("t"), [f"v{i}" for i in range(40)], None), "CASE CRC32(TRIM("),
        (lambda on: on.code_of(on.raw("i"), [3, -4], None), "WHEN CAST('-4' AS BIGINT) THEN 1 END"),
        (lambda on: on.label(on.raw("i"), ["a", None]), "GET(ARRAY('a', NULL), CAST(`i` AS INT))"),
        (lambda on: on.like(on.raw("t"), "like", r"!a\_%"), r"LIKE '!a\\_%' ESCAPE '#'"),
        (lambda on: on.like(on.raw("t"), "part", "b%"), "CONTAINS(`t`, 'b%')"),
        (lambda on: on.truth("t"), "IN ('true', 't', 'yes', 'y', 'on', '1', '1.0') THEN TRUE"),
        (lambda on: on.wide(on.raw("i")), "CAST(`i` AS DECIMAL(38, 0))"),
        (lambda on: on.moments("w", "UTC", Fraction(60), 0, 9), "UNIX_MICROS(CAST(`w` AS TIMESTAMP))"),
        (lambda on: on.days("t", *DATES), "TRY_CAST(REPLACE(LEFT(sordino_"),
        (lambda on: on.real_function("log2", on.raw("i"), Fraction(1), Fraction(1), 0, 9), "THEN LOG2(sordino_"),
        (lambda on: on.unit_total(on.raw("i")), "SUM(CAST(`i` AS DECIMAL(38, 0))) OVER (PARTITION BY `u`)"),
        (lambda on: on.unit_total(on.raw("i")), "ROW_NUMBER() OVER (PARTITION BY `u` ORDER BY 1)"),
    ],
)
def test_a_primitive_is_written_as_it_was(build: Any, golden: str) -> None:
    on = words()
    on.bound_contributions((), None, totals=False)
    cell = build(on)
    text = f"{cell.sql(dialect=SordinoSpark)} FROM {on.source().sql(dialect=SordinoSpark)}"
    assert golden in text, text


@pytest.mark.parametrize("ceiling", [10**6, 2**40, 2**48])
def test_a_sum_is_exact_whatever_it_is_parted_in(ceiling: int, spark: SparkSession, tmp_path: Path) -> None:
    assert spark.version
    rng = random.Random(3)
    cells = [rng.choice([1, -1]) * (2**61 - rng.randrange(2**40)) for _ in range(999)] + [2**61] * 9 + [-1, 0, 1]
    pq.write_table(pa.table({"x": cells}), tmp_path / "x.parquet")
    domain = sd.Domain({"x": sd.Integer(-(2**61), 2**61)}, row_ceiling=ceiling)
    engine = spark_engine(tmp_path / "x.parquet", domain)
    compiled = compile_query(as_aggregation(sd.sum("x")), domain)
    text = compiled.select(engine.primitives).sql(dialect=SordinoSpark)
    assert "SHIFTRIGHT" in text
    found = exact_parts(engine, domain, sd.sum("x"))
    engine.close()
    assert found == [[sum(cells)]]


@pytest.mark.parametrize("ceiling", [1, 1000, 10**6, 2**40, 2**48])
def test_no_part_of_a_sum_leaves_64_bits(ceiling: int) -> None:
    """So many rows, each with all bits of a part set, sum up to 2^62 at most; and so do rows of the largest number left."""
    largest = 2**61
    domain = sd.Domain({"i": sd.Integer(-largest, largest)}, row_ceiling=ceiling)
    on = SparkPrimitives(TableLayout({"i": "BIGINT"}, domain, None, None))
    text = on.total(on.raw("i"), Fraction(largest)).sql(dialect=SordinoSpark)
    masks = [int(mask) for mask in re.findall(r"& (\d+)\)", text)]
    shift = max([0, *map(int, re.findall(r"SHIFTRIGHT\(.*?, (\d+)\)", text))])
    assert all(ceiling * mask <= 2**62 for mask in masks), text
    assert ceiling * (largest >> shift) <= 2**62, text


def test_text_is_compared_by_its_bytes_whatever_its_collation(spark: SparkSession) -> None:
    frame = spark.sql("SELECT t COLLATE UTF8_LCASE AS t FROM VALUES ('a'), ('A'), ('b') AS rows(t)")
    domain = sd.Domain({"t": sd.Category(["a", "b"])})
    engine = SparkEngine(frame, domain=domain, unit=None)
    assert exact_parts(engine, domain, S.group_by("t").agg(sd.count())) == [[1, 1]]
    engine.close()
