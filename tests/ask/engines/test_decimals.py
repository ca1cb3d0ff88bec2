"""Decimals: cells and constants of a real column live on one grid, so that conditions and bins say what plain SQL says."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.engines.support import FLOAT_BOUNDS, ask, engine_of, exact, float_cells, float_steps
from protecting import protect
from sordino import col
from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.table_layout import TableLayout
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.cases import when
from sordino.core.source import Csv

RESOLUTIONS = ["0.1", "0.01", "0.001", "0.05", "0.25"]
PLACES = 3
OPS: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def decimals(resolution: str, rng: random.Random) -> list[Decimal]:
    """Return 200 multiples of a resolution, with many ties."""
    step = Decimal(resolution)
    return [step * rng.choice([rng.randrange(-50, 51), rng.randrange(-5000, 5001)]) for _ in range(200)]


def sources(cells: list[Decimal], folder: Path) -> dict[str, Any]:
    """Return the same cells as people hold them."""
    written = folder / "cells.csv"
    written.write_text("x\n" + "".join(f"{c}\n" for c in cells))
    reals = [float(c) for c in cells]
    return {
        "double": pa.table({"x": pa.array(reals, pa.float64())}),
        "float": pa.table({"x": pa.array(reals, pa.float32())}),
        "decimal": pa.table({"x": pa.array(cells, pa.decimal128(10, PLACES))}),
        "wide decimal": pa.table({"x": pa.array(cells, pa.decimal128(38, 20))}),
        "text": pa.table({"x": [str(c) for c in cells]}),
        "csv": written,
    }


@pytest.mark.deep
@pytest.mark.parametrize("held", [(4, 2), (9, 0), (12, 2), (18, 4), (18, 12), (18, 18), (19, 2)])
@pytest.mark.parametrize("limit", [3, 50, 10**7])
@pytest.mark.parametrize("stored", ["frame", "parquet"])
def test_sums_of_decimals_are_exact_up_to_their_largest(
    held: tuple[int, int], limit: int, stored: str, tmp_path: Path
) -> None:
    digits, places = held
    step, rng = Fraction(1, 10**places), random.Random(f"{held}")
    ends = [10**digits - 1, 1 - 10**digits, 0, 1, -1, limit, limit + 1, -limit, -limit - 1]
    steps = [n for n in ends + [rng.randrange(-2 * limit, 2 * limit) for _ in range(200)] if abs(n) < 10**digits]
    cells = [None, *(Decimal(n).scaleb(-places, Context(prec=40)) for n in steps), None]
    table = pa.table({"x": pa.array(cells, pa.decimal128(*held))})
    pq.write_table(table, tmp_path / "t.parquet")
    for low, high in ((-limit, limit), (limit, 2 * limit), (-2 * limit, -limit)):
        domain = sd.Domain({"x": sd.Real(low * step, high * step, resolution=step)})
        found = exact(table if stored == "frame" else tmp_path / "t.parquet", domain, [sd.sum("x"), sd.count("x")])
        assert found == [[sum(max(low, min(high, n)) for n in steps) * step], [len(steps)]]


@pytest.mark.each(40)
@pytest.mark.parametrize("kind", ["double", "float", "decimal", "wide decimal", "text", "csv"])
@pytest.mark.parametrize("resolution", RESOLUTIONS)
def test_conditions_and_cases_say_what_plain_sql_says(resolution: str, kind: str, tmp_path: Path) -> None:
    rng = random.Random(f"{resolution} {kind}")
    cells = decimals(resolution, rng)
    domain = sd.Domain({"x": sd.Real(-5000, 5000, resolution=resolution)}, unreadable_rows=kind == "csv")
    csv = Csv(header=True) if kind == "csv" else None
    engine = engine_of(sources(cells, tmp_path)[kind], domain, csv=csv)
    x = col("x")
    for _ in range(4):
        at, to = sorted(
            [rng.choice(cells), rng.choice(cells) + rng.choice([Decimal(0), Decimal("0.0004"), Decimal("1e-9")])]
        )
        conditions = [
            (x == at, OPS["="]), (x != at, OPS["!="]), (x < at, OPS["<"]),
            (x <= at, OPS["<="]), (x > at, OPS[">"]), (x >= at, OPS[">="]),
        ]  # fmt: skip
        pairs = [(made, [op(c, at) for c in cells]) for made, op in conditions]
        pairs.append(((x >= at) & (x <= to), [at <= c <= to for c in cells]))
        pairs.append((x.is_in([at, to, 7]), [c in (at, to, 7) for c in cells]))
        pairs.append(((x * 2 - 1 >= at), [c * 2 - 1 >= at for c in cells]))
        case = when(x <= at, 1).otherwise(0)
        pairs.append((case == 1, [c <= at for c in cells]))
        counted = [when(made, 1).otherwise(0) for made, _ in pairs]
        question = Selection().agg([sd.sum(c.clip(0, 1)).alias(f"n{i}") for i, c in enumerate(counted)])
        found = ask(engine, domain, question)
        assert [v[0] for v in found] == [sum(truth) for _, truth in pairs], (at, to)
    engine.close()


@pytest.mark.each(7)
@pytest.mark.parametrize("kind", ["double", "float", "decimal", "text"])
@pytest.mark.parametrize(("resolution", "width"), [("0.1", "0.1"), ("0.1", "0.5"), ("0.01", "0.1"), ("0.05", "0.15")])
def test_bins_hold_what_they_say(resolution: str, width: str, kind: str, tmp_path: Path) -> None:
    rng = random.Random(width)
    cells = [Decimal(resolution) * rng.randrange(int(6 / Decimal(resolution)) + 1) for _ in range(300)]
    domain = sd.Domain({"x": sd.Real(0, 6, resolution=resolution)})
    engine = engine_of(sources(cells, tmp_path)[kind], domain)
    edges = [Decimal(width) * i for i in range(int(6 / Decimal(width)) + 1)]
    truth = [sum(a <= c < b or (b == 6 and c == b) for c in cells) for a, b in itertools.pairwise(edges)]
    assert ask(engine, domain, sd.histogram("x", width=width)) == [truth]
    uneven = [edges[0], edges[1], edges[4], edges[-1]]
    truth = [sum(a <= c < b or (b == edges[-1] and c == b) for c in cells) for a, b in itertools.pairwise(uneven)]
    assert ask(engine, domain, sd.histogram("x", edges=[str(e) for e in uneven])) == [truth]
    engine.close()


@pytest.mark.parametrize("kind", ["double", "decimal", "text"])
def test_sums_and_bounds_are_exact_decimals(kind: str, tmp_path: Path) -> None:
    cells = decimals("0.01", random.Random(3))
    domain = sd.Domain({"x": sd.Real("-49.99", "49.99", resolution="0.01")})
    engine = engine_of(sources(cells, tmp_path)[kind], domain)
    bound = Decimal("49.99")
    total = sum(min(max(c, -bound), bound) for c in cells)
    assert ask(engine, domain, sd.sum("x")) == [[Fraction(total)]]
    squares = sum(min(max(c, -bound), bound) ** 2 for c in cells)
    assert ask(engine, domain, sd.sum(col("x") * col("x"))) == [[Fraction(squares)]]
    engine.close()


@pytest.mark.parametrize(("digits", "places"), [(5, 2), (12, 2), (38, 20)])
def test_a_decimal_beyond_its_bounds_counts_as_the_bound(digits: int, places: int) -> None:
    """Of a column with as many places as its resolution, which DuckDB clips as a DECIMAL, and of others."""
    cells = [Decimal("999.99"), Decimal("-999.99"), Decimal("50.00"), Decimal("1.25")]
    table = pa.table({"x": pa.array(cells, pa.decimal128(digits, places))})
    domain = sd.Domain({"x": sd.Real("-10", "49.99", resolution="0.01")})
    assert exact(table, domain, sd.sum("x")) == [[Fraction("91.23")]]


def test_the_price_of_the_finding() -> None:
    prices = pa.table({"price": [9.99] * 300 + [1.0] * 300 + [12.5] * 400})
    domain = sd.Domain({"price": sd.Real(0, 1000, resolution=".01")})
    table = protect(prices, domain)
    for condition, truth in [
        ("= 9.99", 300),
        ("<= 9.99", 600),
        ("> 9.99", 400),
        ("IN (9.99, 12.5)", 700),
        ("BETWEEN 9.99 AND 12", 300),
    ]:
        asked = table.ask(sd.sql(f"SELECT COUNT(*) AS n FROM data WHERE price {condition}"), epsilon=1000)
        assert asked.value == truth, condition
    total = table.ask(sd.sum("price"), epsilon=10**5).value
    assert abs(total - 8297) < 0.3
    assert total == round(total, 2)


def test_a_real_without_a_resolution_has_a_stated_one() -> None:
    assert sd.Real(-1, 4).step == Fraction(1, 10**11)
    assert sd.Real(0, 10**12).step == 1
    assert sd.Real(0, 0).step == Fraction(1, 10**12)
    assert sd.Real(0).step is None
    rng = random.Random(5)
    for _ in range(300):
        high = Fraction(rng.randrange(1, 10**6), rng.randrange(1, 10**6)) * Fraction(10) ** rng.randrange(-30, 31)
        step = sd.Real(-high / 3, high).step
        assert step is not None
        assert step / 10 < high / 10**12 <= step
    domain = sd.Domain({"x": sd.Real(0, 100)}, row_ceiling=1000)
    engine = engine_of(pa.table({"x": [9.99, 0.1, 100.0]}), domain)
    assert ask(engine, domain, Selection().where(col("x") == Decimal("9.99")).agg(sd.count())) == [[1]]
    assert ask(engine, domain, sd.sum("x")) == [[Fraction("110.09")]]
    engine.close()


def test_an_equality_that_no_row_can_meet_is_pointed_out() -> None:
    domain = sd.Domain(
        {"price": sd.Real(0, 1000, resolution=".01"), "age": sd.Integer(0, 99), "c": sd.Category([1, 2])}
    )
    table = protect(pa.table({"price": [9.99], "age": [3], "c": [1]}), domain)
    for condition, said in [
        ("price = 9.995", ["price = 9.995 is true for no row: price is read in steps of 0.01"]),
        ("price IN (9.99, 9.995) OR age = 2.5", ["age = 2.5", "price = 9.995"]),
        ("price * 2 = 9.99", ["price * 2 = 9.99"]),
        ("price = 9.99 AND price <= 9.995 AND c = 1 AND age != 3", []),
        ("CASE WHEN price != 0.001 THEN 1 ELSE 0 END = 1", ["price = 0.001"]),
    ]:
        plan = table.plan(sd.sql(f"SELECT COUNT(*) AS n FROM data WHERE {condition}"), epsilon=1)
        notes = [n for n in plan.notes if "for no row" in n]
        assert [n.startswith(s) for n, s in zip(notes, said, strict=True)] == [True] * len(said), condition
        assert all(n in plan.describe() for n in notes)
        assert [n for n in table.ask(plan).notes if "for no row" in n] == notes


def test_a_resolution_may_be_added_while_nothing_is_spent(tmp_path: Path) -> None:
    def curator_of(column: sd.Real) -> Any:
        return protect(
            pa.table({"x": [9.99]}), sd.Domain({"x": column}), budget=sd.PureDP(10), ledger=tmp_path / "x.ledger"
        )

    with pytest.raises(sd.errors.QuestionRefused, match="no declared resolution"):
        curator_of(sd.Real()).ask(sd.mean(col("x").clip(0, 10)), epsilon=1)
    assert curator_of(sd.Real(resolution="0.01")).ask(sd.mean(col("x").clip(0, 10)), epsilon=1).cost == sd.PureDP(1)


def test_a_decimal_without_digits_before_the_point_is_one_text_everywhere(postgres_database: str) -> None:
    """DuckDB writes .500 for a DECIMAL(3, 3), other engines write 0.500; how many zeros end it, other rows decide."""
    cells = pa.array([Decimal("-0.5"), Decimal("0.25"), Decimal(0), Decimal("0.25"), None], pa.decimal128(3, 3))
    domain = sd.Domain({"x": sd.Identifier()})
    with psycopg.connect(postgres_database, autocommit=True) as server:
        server.execute(
            "CREATE TABLE held AS SELECT x::numeric(3, 3) FROM unnest(ARRAY[-0.5, 0.25, 0, 0.25, NULL]) AS t(x)"
        )
    asked = Selection().group_by("x", keys=["-0.5", "0.25", "0", "0.250"]).agg(sd.count())
    held = protect(pa.table({"x": cells}), domain), protect(postgres_database, domain, relation="held")
    for one in held:
        assert [round(row["count"]) for row in one.ask(asked, epsilon=10**6).rows] == [1, 2, 1, 0]
        one.close()


@pytest.mark.each(7)
@pytest.mark.parametrize(("step", "lower", "upper"), FLOAT_BOUNDS)
def test_steps_of_floats_are_those_of_python(step: str, lower: int, upper: int) -> None:
    unit = Fraction(step)
    numbers = float_cells(unit, lower, upper)
    made = ", ".join(f"(CAST('{x!r}' AS DOUBLE), {i})" for i, x in enumerate(numbers))
    layout = TableLayout(
        {"d": "DOUBLE"}, sd.Domain({"d": sd.Real()}), None, None, source=f"(VALUES {made}) AS made(d, place)"
    )
    on = DuckDBPrimitives(layout)
    cell = on.lattice("d", unit, lower, upper).sql(dialect="duckdb")
    text = f"SELECT {cell} FROM {on.source().sql(dialect='duckdb')} ORDER BY place"
    found = duckdb.connect().execute(text).fetchall()
    assert [n for (n,) in found] == [float_steps(x, unit, lower, upper) for x in numbers]


@pytest.mark.parametrize("bound", [2**53, 2**53 - 2, 2**52 + 4])
def test_a_decimal_just_above_a_bound_counts_as_the_bound(bound: int) -> None:
    """The float of such a decimal is the bound itself, and the decimal was cast past it."""
    cells = [Decimal(bound) + Decimal(n) / 2 for n in (-1, 0, 1, 2, 3)]
    cells += [-cell for cell in cells]
    table = pa.table({"x": pa.array(cells, pa.decimal128(20, 1))})
    domain = sd.Domain({"x": sd.Integer(-bound, bound)})
    [[above]] = exact(table, domain, Selection().where(col("x") > bound - 1).agg(sd.count()))
    [[total]] = exact(table, domain, Selection().where(col("x") > bound - 1).agg(sd.sum("x")))
    assert above > 0
    assert total <= bound * above
