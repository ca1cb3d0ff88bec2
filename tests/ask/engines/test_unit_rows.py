"""One row a person through the real engine: what each value is, how far one unit moves an answer, and hostile cells."""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import random
import statistics
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import BoundQuestions, Exact, ask
from ask.queries import reference
from sordino import col
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import AggregateExpr, Selection
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import When
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.per_unit import PerUnit, UnitValue
from sordino.ask.queries.row_steps import step_domain, step_neighbors
from sordino.ask.queries.unit_aggregates import mode
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation
from sordino.core.source import Csv, source_from
from sordino.errors import QuestionRefused

S = Selection()
UNIT = PrivacyUnit("id", max_rows=1, max_groups=1)  # neither acts
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "x": sd.Integer(-4, 5),
        "f": sd.Integer(0, 3, missing=sd.Fill(2)),
        "free": sd.Integer(),
        "r": sd.Real(-1, 2, resolution=0.25),
        "c": sd.Category(["b", "a", "d"]),
        "k": sd.Category([7, 5], missing="keep"),
        "t": sd.Boolean(),
        "d": sd.Date("1999-12-30", "2000-01-05"),
    }
)
SCHEMA = pa.schema(
    [
        *(("id", pa.string()), ("x", pa.int32()), ("f", pa.int64()), ("free", pa.int64()), ("r", pa.float64())),
        *(("c", pa.string()), ("k", pa.int64()), ("t", pa.bool_()), ("d", pa.date32())),
    ]
)
DAYS = [None, *(datetime.date(1999, 12, 25) + datetime.timedelta(days=n) for n in range(0, 20, 3))]
POOL: dict[str, list[Any]] = {
    "x": [None, -9, -4, -1, 0, 3, 5, 100],
    "f": [None, -1, 0, 3, 9],
    "free": [None, -(2**63) + 1, -5, 0, 3, 2**62],
    "r": [None, float("nan"), float("inf"), -float("inf"), -0.3, 0.25, 1.9, 1e300],
    "c": [None, "a", "b", "d", "q", ""],
    "k": [None, 7, 5, 9],
    "t": [None, True, False],
    "d": DAYS,
}
Row = dict[str, Any]
ANY_ROW = col("x") > 1
VALUES: dict[str, AggregateExpr] = {
    "rows": sd.count(),
    "count": sd.count("x"),
    "kinds": sd.count_distinct("c"),
    "steps": sd.count_distinct("r"),
    "sum": sd.sum("x"),
    "sum_r": sd.sum("r"),
    "sum_f": sd.sum(col("f") * col("x")),
    "mean": sd.mean("x"),
    "mean_r": sd.mean("r"),
    "min": sd.min("x"),
    "max_r": sd.max("r"),
    "median": sd.median("x"),
    "median_r": sd.median("r"),
    "variance": sd.variance("x", ddof=1),
    "variance_r": sd.variance("r"),
    "mode": mode("f"),
    "first": sd.first("x", by="d"),
    "last": sd.last("r", by="f"),
    "day": sd.max("d"),
    "case": sd.sum(when(col("c") == "a", col("x")).otherwise(1)),
    "free": sd.sum(col("free").clip(-100, 100)),
}


def bind(asked: Aggregation) -> Aggregation:
    return bind_names(
        asked, public={}, table="visits", domain=DOMAIN, names="written", neighbors=Neighbors("add_remove", UNIT)
    )


def answers(source: Any, questions: Sequence[Aggregation], unit: PrivacyUnit = UNIT) -> list[Exact]:
    """Return the exact parts of each question, in its own units, from one engine."""
    table = pa.Table.from_pylist(source, schema=SCHEMA) if isinstance(source, list) else source
    engine = DuckDBEngine(table, domain=DOMAIN, unit=unit)
    try:
        return [ask(engine, DOMAIN, bind(asked)) for asked in questions]
    finally:
        engine.close()


def answers_of_each(tables: Sequence[list[Row]], questions: Sequence[Aggregation]) -> list[list[Exact]]:
    """Return the same of each of several tables, with questions that are bound once; the engine itself answers for the last."""
    empty = SCHEMA.empty_table()
    engine = DuckDBEngine(empty, domain=DOMAIN, unit=UNIT)
    try:
        bound = BoundQuestions(engine, DOMAIN, [bind(asked) for asked in questions], source=empty)
        found = [bound.ask(source=pa.Table.from_pylist(table, schema=SCHEMA)) for table in tables]
    finally:
        engine.close()
    assert answers(tables[-1], questions[-1:]) == found[-1][-1:]
    return found


def units_of(table: Sequence[Row]) -> dict[Any, list[Row]]:
    """Return the rows of each unit, in order."""
    found: dict[Any, list[Row]] = {}
    for row in table:
        if row["id"] is not None:
            found.setdefault(row["id"], []).append(row)
    return found


def value_of(of: UnitValue, rows: Sequence[Row]) -> Any:
    """Return a unit's value in plain Python and Fractions; None where it is missing."""
    if of.kind == "rows":
        return Fraction(len(rows))
    assert of.of is not None
    if of.kind in ("any", "all"):
        truths = [reference.truth(of.of, row, DOMAIN) for row in rows]
        known = [t for t in truths if t is not None]
        return None if not known else any(known) if of.kind == "any" else all(known)
    cells = [reference.value(of.of, row, DOMAIN) for row in rows]
    if of.kind in ("first", "last"):
        assert of.by is not None
        by = [reference.value(of.by, row, DOMAIN) for row in rows]
        pairs = [(b, c) for b, c in zip(by, cells, strict=True) if b is not None and c is not None]
        return None if not pairs else (min(pairs) if of.kind == "first" else max(pairs))[1]
    some = [c for c in cells if c is not None]
    if of.kind in ("count", "distinct"):
        return Fraction(len(some) if of.kind == "count" else len(set(some)))
    if not some:
        return None
    if of.kind == "mode":
        return min(set(some), key=lambda cell: (-some.count(cell), cell))
    if of.kind == "median":
        return Fraction(statistics.median(some))
    if of.kind in ("variance", "variance_pop"):
        return variance_of(some, Fraction(1, 4) if "r" in str(of.of) else Fraction(1), of.kind == "variance")
    if of.kind == "mean":
        step = Fraction(1, 4000) if "r" in str(of.of) else Fraction(1, 1000)
        return step * math.floor(sum(some, Fraction(0)) / len(some) / step + Fraction(1, 2))
    return sum(some, Fraction(0)) if of.kind == "sum" else min(some) if of.kind == "min" else max(some)


def variance_of(cells: Sequence[Fraction], unit: Fraction, is_sample: bool) -> Fraction | None:
    """Return a variance to a part of 1000 of a square step, of which the one that is lost in a division is rounded up."""
    count = len(cells)
    if count < 1 + is_sample:
        return None
    mean = sum(cells, Fraction(0)) / count
    away = math.floor(mean / unit)
    squares = sum((cell / unit - away) ** 2 for cell in cells)
    rest = (mean / unit - away) * count
    apart = 1000 * squares - math.floor(1000 * rest**2 / count)
    return unit**2 / 1000 * math.floor(apart / (count - is_sample) + Fraction(1, 2))


def rows(count: int, rng: random.Random, ids: Sequence[Any] = ("u", "v", "w", None)) -> list[Row]:
    return [{"id": rng.choice(ids), **{name: rng.choice(pool) for name, pool in POOL.items()}} for _ in range(count)]


@pytest.mark.each(2)
@pytest.mark.parametrize("where", [ANY_ROW, None], ids=["where", "all"])
def test_each_value_is_what_plain_python_says(where: Expr | None) -> None:
    rng = random.Random(5)
    chosen = S if where is None else S.where(where)
    questions = []
    for name, value in VALUES.items():
        number = col("v").day() if name == "day" else col("v").clip(-(10**6), 10**6)
        questions.append(chosen.per_unit(value.alias("v")).agg(sd.count("v"), sd.sum(number)))
    tables = [rows(rng.randrange(1, 12), rng) for _ in range(5)]
    for table, answer in zip(tables, answers_of_each(tables, questions), strict=True):
        used = [r for r in table if where is None or reference.truth(where.node, r, DOMAIN) is True]
        for asked, exact in zip(questions, answer, strict=True):
            step = bind(asked).steps[0]
            assert isinstance(step, PerUnit)
            found = [value_of(step.values[0], of) for of in units_of(used).values()]
            known = [v.day if isinstance(v, datetime.date) else v for v in found if v is not None]
            assert exact == [[len(known)], [sum(known, Fraction(0))]], (step.values[0].describe(), table)


@pytest.mark.each(6)
@pytest.mark.parametrize(
    ("value", "keys"),
    [
        (sd.first("c", by="x"), ["b", "a", "d"]),
        (sd.last("k", by="d"), [7, 5, None]),
        (sd.max("c"), ["b", "a", "d"]),
        (sd.min("k"), [7, 5, None]),
        (sd.any(col("x") > 1), [False, True]),
        (sd.all("t"), [False, True]),
        (sd.max("t"), [False, True]),
        (sd.first(col("c").upper(), by="x"), ["B", "A", "D"]),
        (sd.last(when(col("x") > 0, "up").otherwise("down"), by="d"), ["up", "down"]),
    ],
    ids=lambda v: v.aggregate.describe() if isinstance(v, AggregateExpr) else "",
)
def test_a_value_is_a_key_of_the_units(value: AggregateExpr, keys: list[Any]) -> None:
    rng = random.Random(9)
    asked = S.per_unit(value.alias("v")).group_by("v").agg(sd.count())
    step = bind(asked).steps[0]
    assert isinstance(step, PerUnit)
    compiled = compile_query(bind(asked), step_domain(DOMAIN, (step,)))
    assert list(compiled.keys[0].labels) == keys
    tables = [rows(rng.randrange(1, 14), rng) for _ in range(6)]
    for table, answer in zip(tables, answers_of_each(tables, [asked]), strict=True):
        found = [_unit_key(step.values[0], of) for of in units_of(table).values()]
        assert answer[0][0] == [found.count(key) for key in keys], table


def _unit_key(of: UnitValue, table: Sequence[Row]) -> Any:
    """Return a unit's value; the oracle of numbers does not read a choice between texts."""
    if not isinstance(of.of, When) or of.by is None:
        return value_of(of, table)
    pairs = [(reference.value(of.by, r, DOMAIN), reference.cell("x", r, DOMAIN)) for r in table]
    named = [(d, "up" if x is not None and x > 0 else "down") for d, x in pairs if d is not None]
    return max(named)[1] if named else None


# ---- sensitivity

TOTAL = S.per_unit(
    sd.sum("x").clip(-3, 6).alias("total"),
    sd.count().clip(0, 4).alias("n"),
    sd.mean("x").alias("mean"),
    sd.max("x").alias("most"),
    sd.any(ANY_ROW).alias("high"),
    sd.last("c", by="x").alias("last"),
    sd.count_distinct("c").alias("kinds"),
)
PART = S.where(ANY_ROW).per_unit(sd.sum("x").clip(0, 6).alias("total"), sd.count().clip(0, 4).alias("n"))
QUESTIONS = [
    TOTAL.agg(sd.count(), sd.sum("total"), sd.mean("n")),
    TOTAL.agg(
        sd.sum("mean"), sd.sum("most"), sd.variance("total"), sd.count_distinct("kinds"), sd.count_distinct("id")
    ),
    TOTAL.where(col("n") >= 2).agg(sd.count(), sd.sum("total")),
    TOTAL.group_by("high").agg(sd.count(), sd.sum("total")),
    TOTAL.group_by("last").agg(sd.count(), sd.sum("n")),
    TOTAL.group_by(col("n").bin([0, 2, 3, 4])).agg(sd.count(), sd.correlation("total", "most")),
    PART.agg(sd.count(), sd.sum("total")),
    PART.group_by("n").agg(sd.count(), sd.count_distinct("total")),
]
ONE_UNIT = [
    {"x": x, "c": c, "f": 1, "free": 0, "r": 0.0, "k": 7, "t": True, "d": datetime.date(2000, 1, 1)}
    for x, c in [(-9, "b"), (2, "d"), (100, "q"), (None, "a")]
]
SETS = [
    list(rows_of)
    for size in range(4)
    for rows_of in (
        itertools.combinations_with_replacement(ONE_UNIT, size)
        if size < 3
        else [(ONE_UNIT[1],) * 5, (ONE_UNIT[2],) * 3]
    )
]


@functools.cache
def all_answers() -> list[list[Exact]]:
    """Return what each question says of a table in which one unit has each of the sets of rows."""
    others: list[Row] = [{"id": "o", **ONE_UNIT[1]}, {"id": "o", **ONE_UNIT[2]}, {"id": None, **ONE_UNIT[2]}]
    return answers_of_each([[*others, *({"id": "u", **r} for r in of)] for of in SETS], QUESTIONS)


def check(relation: Relation) -> list[list[Fraction]]:
    """Hold all pairs of one unit's rows against each part's sensitivity; return each part's largest l1 distance."""
    neighbors, found = Neighbors(relation, UNIT), all_answers()
    pairs = (
        [(found[0], other) for other in found] if relation == "add_remove" else list(itertools.combinations(found, 2))
    )
    largest: list[list[Fraction]] = []
    for i, asked in enumerate(QUESTIONS):
        bound = bind(asked)
        compiled, wider = compile_query(bound, step_domain(DOMAIN, bound.steps)), step_neighbors(neighbors, bound.steps)
        sizes = [s for several in compiled.bound(wider).sensitivities for s in several]
        moves = [Fraction(0)] * len(sizes)
        for (one, other), (j, bounds) in itertools.product(pairs, enumerate(sizes)):
            moved = [abs(a - b) for a, b in zip(one[i][j], other[i][j], strict=True)]
            assert sum(moved) <= bounds.l1, (asked.describe(), relation, bounds)
            assert sum(m * m for m in moved) <= bounds.l2_squared, (asked.describe(), relation, bounds)
            assert max(moved) <= bounds.linf, (asked.describe(), relation, bounds)
            moves[j] = max(moves[j], sum(moved, Fraction(0)))
        largest.append(moves)
    return largest


@pytest.mark.deep
def test_no_unit_moves_an_answer_further_than_stated_by_add_remove() -> None:
    largest = check("add_remove")
    assert largest[0][:2] == [1, 6], "and the bounds are reached: one unit, its whole clipped total"
    assert largest[3] == [1, 6]
    assert largest[6] == [1, 6]


def test_no_unit_moves_an_answer_further_than_stated_by_replace() -> None:
    largest = check("replace")
    assert largest[0][1] == 9
    assert largest[3] == [2, 9], "from one group to another, -3 to 6"
    assert largest[4][0] == 2


# ---- rows


def test_all_rows_of_a_unit_count_though_one_is_the_cap_of_rows() -> None:
    table = [{"id": "u", **ONE_UNIT[2]}] * 50 + [{"id": "v", **ONE_UNIT[2]}]
    asked = S.per_unit(sd.count().clip(0, 100).alias("n")).agg(sd.sum("n"), sd.count())
    assert answers(table, [asked])[0] == [[51], [2]]


@pytest.mark.deep
def test_the_order_of_rows_is_nothing() -> None:
    rng = random.Random(3)
    table = rows(40, rng)
    asked = [S.per_unit(v.alias("v")).agg(sd.count("v")) for v in VALUES.values()]
    asked += [S.per_unit(sd.last("c", by="f").alias("v")).group_by("v").agg(sd.count())]
    found = answers(table, asked)
    for _ in range(2):
        rng.shuffle(table)
        assert answers(table, asked) == found


def test_extreme_cells_fail_no_value_and_sums_do_not_overflow() -> None:
    """A sum of the largest whole numbers is far past 64 bits: it is exact, then clipped."""
    many = [{"id": "u", "free": n} for n in [2**63 - 1] * 30_000 + [-(2**63) + 1] * 29_999]
    asked = [
        S.per_unit(sd.sum("free").clip(-5, 5).alias("v")).agg(sd.sum("v")),
        S.per_unit(sd.mean("free").clip(-(10**15), 10**15).alias("v")).agg(sd.sum("v")),
        S.per_unit(sd.max("free").clip(-5, 5).alias("v"), sd.min("free").alias("w"))
        .where(col("w") < 0)
        .agg(sd.sum("v")),
    ]
    found = answers(many, asked)
    assert found[0] == [[5]]  # 2^62 once more than -2^62
    assert found[1] == [[Fraction(math.floor(Fraction(1000 * 2**62, 59_999) + Fraction(1, 2)), 1000)]]
    assert found[2] == [[5]]
    near = [{"id": "u", "free": n} for n in (2**60 + 1, -(2**60), 2)]  # a float loses the 1
    assert answers(near, asked[:2]) == [[[3]], [[1]]]


def test_a_value_that_no_engine_can_hold_is_refused_at_plan() -> None:
    wide = col("free") * col("free")
    for value in (sd.sum(wide), sd.mean(wide)):
        with pytest.raises(QuestionRefused, match="37 digits"):
            step_domain(DOMAIN, bind(S.per_unit(value.alias("v")).agg(sd.count())).steps)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_every_source_answers_alike(kind: str, tmp_path: Path) -> None:
    import duckdb

    rng = random.Random(17)
    table = [{**r, "id": None if r["id"] is None else str(ord(r["id"]))} for r in rows(60, rng)]
    table = [r for r in table if not (isinstance(r["r"], float) and not math.isfinite(r["r"])) and r["c"] != ""]
    arrow = pa.Table.from_pylist(table, schema=SCHEMA)
    asked = [
        TOTAL.agg(sd.count(), sd.sum("total"), sd.sum("mean"), sd.sum("n")),
        TOTAL.group_by("last").agg(sd.count()),
        S.per_unit(sd.max("d").alias("v")).group_by(col("v").day()).agg(sd.count()),
        S.per_unit(sd.min("k").alias("v")).group_by("v").agg(sd.count_distinct("id")),
    ]
    path = tmp_path / f"visits.{kind}"
    if kind == "csv":
        pacsv.write_csv(arrow, path, pacsv.WriteOptions(quoting_style="none"))
        source: Any = source_from(str(path), csv=Csv(header=True))
    elif kind == "parquet":
        pq.write_table(arrow, path)
        source = source_from(str(path))
    else:
        with duckdb.connect(str(path)) as made:
            made.register("a", arrow)
            made.execute("CREATE TABLE visits AS SELECT * FROM a")
        source = source_from(str(path), relation="visits")
    assert answers(source, asked) == answers(arrow, asked)
