"""What is computed once for each of few values is what it is row by row; bounds applied once are those of each scan."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp

import sordino as sd
from ask.engines.support import ask, engine_of
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.duckdb_primitives import DuckDBPrimitives
from sordino.ask.engines.engine import Statement
from sordino.ask.engines.sql_primitives import SqlPrimitives
from sordino.ask.queries.aggregates.quantile import Quantile, bin_select
from sordino.ask.queries.aggregation import Aggregation, compile_query
from sordino.ask.queries.build import as_aggregation
from sordino.ask.queries.expressions.compile import bind_number
from sordino.ask.queries.expressions.nodes import Node
from sordino.ask.queries.sql.parse import parse_sql
from sordino.core.neighbors import ContributionBounds, PrivacyUnit

EPOCH = datetime.date(1970, 1, 1)
TEXTS = tuple(f"Item {i % 7} of {i}" for i in range(60))
DOMAIN = sd.Domain(
    {
        "id": sd.Identifier(),
        "day": sd.Date("2019-12-30", "2021-01-04"),
        "kept": sd.Date("2020-02-25", "2020-03-04", missing="keep"),
        "filled": sd.Date("1999-12-31", "2001-01-01", missing={"fill": "2000-02-29"}),
        "old": sd.Date("0001-01-01", "9999-12-31"),
        "at": sd.DateTime("2020-02-28", "2020-03-02", zone="UTC"),
        "east": sd.DateTime("2020-02-28", "2020-03-02", zone="Asia/Kolkata", resolution="minute"),
        "berlin": sd.DateTime("2020-03-28", "2020-03-30", zone="Europe/Berlin"),
        "aware": sd.DateTime("2020-02-28", "2020-03-02", zone="UTC"),
        "text": sd.Category(TEXTS),
        "x": sd.Integer(0, 10**6),
    }
)
MOMENTS = ("at", "east", "berlin", "aware")
KEYS = [
    *(
        f"{f}({c})"
        for c in ("day", "kept", "filled")
        for f in ("YEAR", "MONTH", "ISODOW", "DOW", "WEEK", "DAYOFYEAR", "QUARTER")
    ),
    *(f"DATE_TRUNC('{u}', {c})" for c in ("day", "kept", "at", "berlin") for u in ("month", "week", "quarter", "year")),
    *(f"{f}({c})" for c in MOMENTS for f in ("HOUR", "DAY", "ISODOW", "MONTH", "MINUTE")),
    *(f"DATE_TRUNC('{u}', {c})" for c in MOMENTS for u in ("day", "hour")),
    "STRFTIME(day, '%Y-%m')",
    "LEFT(text, 6)",
    "LENGTH(text)",
]
CONDITIONS = [
    "MONTH(day) = 2",
    "ISODOW(day) >= 6",
    "YEAR(filled) = 2000 AND DAYOFYEAR(kept) > 59",
    "YEAR(old) > 1970",
    "HOUR(at) = 23 OR HOUR(berlin) = 2",
    "DATE_TRUNC('month', at) = '2020-03-01'",
    "text LIKE '%7%'",
    "UPPER(text) = 'ITEM 3 OF 3'",
    "NOT (text LIKE 'Item 1%')",
    "LEFT(text, 6) IN ('Item 1', 'Item 2')",
]


class RowByRow(DuckDBPrimitives):
    """DuckDB's primitives that compute each function for each row, and group rows by their keys at once."""

    tabulate = SqlPrimitives.tabulate
    moments = SqlPrimitives.moments
    quotient = SqlPrimitives.quotient

    @property
    def has_units(self) -> bool:
        """Whether rows are grouped by keys, not by the cells that these are made of."""
        return True

    def is_code(self, code: exp.Expression, codes: Sequence[int], *, below: int | None = None) -> exp.Expression:
        """Return whether a code is one of several, by a comparison with each."""
        del below
        return SqlPrimitives.is_code(self, code, codes)

    def bound_contributions(
        self, keys: Sequence[exp.Expression], requested: ContributionBounds | None, *, totals: bool
    ) -> list[exp.Expression]:
        """Bound nothing."""
        del requested, totals
        self._is_bounded = True
        return list(keys)


def _ask_by_row(engine: DuckDBEngine, question: Any) -> list[list[Fraction]]:
    """Return the exact parts of a question by a plan that computes each function for each row."""
    compiled = compile_query(question, DOMAIN)
    parts = [part for several in compiled.parts for part in several]
    vectors = exact_vectors(engine.run(compiled.select(RowByRow(engine._layout))), compiled)
    return [[x * part.unit for x in vector] for part, vector in zip(parts, vectors, strict=True)]


def draw_table(seed: int, rows: int = 400) -> pa.Table:
    """Return rows with cells on, beside and far beyond the bounds, and missing ones."""
    rng = random.Random(seed)

    def days(low: str, high: str) -> pa.Array:
        first, last = ((datetime.date.fromisoformat(d) - EPOCH).days for d in (low, high))
        odd = [None, first - 1, last + 1, -719_162, 2_932_896, -(2**31) + 2, 2**31 - 2]
        cells = [rng.choice(odd) if rng.random() < 0.2 else rng.randint(first, last) for _ in range(rows)]
        return pa.array(cells, pa.int32()).cast(pa.date32())

    def moments(kind: pa.DataType, per_second: int) -> pa.Array:
        first = 1_582_848_000 * per_second
        # The largest number of microseconds stands for no end of time; Parquet holds seconds as milliseconds.
        most = (2**63 - 1) // (1000 if per_second == 1 else 1)
        odd = [None, first - 1, most, -most, -62_135_596_800 * per_second, 253_402_300_799 * per_second]
        span = 32 * 86_400 * per_second
        cells = [rng.choice(odd) if rng.random() < 0.2 else first + rng.randrange(span) for _ in range(rows)]
        return pa.array(cells, pa.int64()).cast(kind)

    texts = [rng.choice([None, "", "other", f" {TEXTS[3]} ", *TEXTS]) for _ in range(rows)]
    return pa.table(
        {
            "id": pa.array([rng.choice([None, *range(40)]) for _ in range(rows)], pa.int64()),
            "day": days("2019-12-30", "2021-01-04"),
            "kept": days("2020-02-25", "2020-03-04"),
            "filled": days("1999-12-31", "2001-01-01"),
            "old": days("0001-01-02", "9999-12-30"),
            "at": moments(pa.timestamp("us"), 10**6),
            "east": moments(pa.timestamp("s"), 1),
            "berlin": moments(pa.timestamp("us"), 10**6),
            "aware": moments(pa.timestamp("us", "UTC"), 10**6),
            "text": pa.array(texts, pa.string()),
            "x": pa.array([rng.choice([None, -1, 10**9, rng.randrange(1000)]) for _ in range(rows)], pa.int64()),
        }
    )


def _read(text: str) -> Any:
    return parse_sql(text, table="t", columns=tuple(DOMAIN))


@pytest.fixture(scope="module", params=["memory", "parquet"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBEngine]:
    table = draw_table(3)
    source: Any = table
    if request.param == "parquet":
        source = tmp_path_factory.mktemp("few") / "t.parquet"
        pq.write_table(table, source, row_group_size=100)
    opened = engine_of(source, DOMAIN)
    yield opened
    opened.close()


@pytest.mark.deep
@pytest.mark.parametrize("key", KEYS)
def test_groups_by_functions_of_few_values_are_those_of_each_row(engine: DuckDBEngine, key: str) -> None:
    question = _read(f"SELECT {key} AS k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k")
    assert ask(engine, DOMAIN, question) == _ask_by_row(engine, question)


@pytest.mark.each(9)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_on_functions_of_few_values_are_those_of_each_row(engine: DuckDBEngine, condition: str) -> None:
    question = _read(f"SELECT COUNT(*) AS n, SUM(x) AS s FROM t WHERE {condition}")
    counted = ask(engine, DOMAIN, question)
    assert counted == _ask_by_row(engine, question)
    # each condition is met by some rows and by others not
    assert 0 < counted[0][0] < 400


# ---- Bounds, once


BOUNDED = [
    "SELECT MEDIAN(x) AS m FROM t",
    "SELECT ISODOW(day) AS k, MEDIAN(x) AS m FROM t WHERE MONTH(kept) = 3 GROUP BY k",
    "SELECT LEFT(text, 6) AS k, MEDIAN(x) AS m FROM t WHERE text <> 'Item 0 of 0' GROUP BY k",
    "SELECT HOUR(at) AS k, MEDIAN(x + 1) AS m FROM t GROUP BY k",
]


def _median_of(question: Aggregation) -> Node:
    (median,) = question.aggregates
    assert isinstance(median, Quantile)
    return median.of


@pytest.mark.deep
@pytest.mark.parametrize("unit", [PrivacyUnit("id", max_rows=2), PrivacyUnit("id", max_rows=6, max_groups=2)])
@pytest.mark.parametrize("text", BOUNDED)
def test_bounded_rows_that_are_kept_answer_as_those_of_each_scan(text: str, unit: PrivacyUnit, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(draw_table(5), path, row_group_size=100)
    engine = engine_of(path, DOMAIN, unit=unit)
    try:
        aggregation = as_aggregation(_read(text))
        compiled = compile_query(aggregation, DOMAIN)
        measure = bind_number(_median_of(aggregation), DOMAIN)
        kept = engine.keep_bounded()
        written = []
        for width, within in ((1000, None), (10, [(0, 99), (500, 999)]), (1, [(7, 7)])):
            select = bin_select(
                engine.primitives,
                compiled,
                measure,
                low=0,
                width=width,
                within=within,
                parent=1000 if width == 10 else 10,
            )
            statement = engine.write(select)
            assert statement.bounded is not None
            written.append(statement)
            rows = sorted(map(str, engine.run(statement).to_pylist()))
            assert sorted(map(str, kept.run(statement).to_pylist())) == rows
        # one table for all of them, of fewer columns than the relation has
        assert len({s.bounded.text for s in written if s.bounded is not None}) == 1
        names = [name for name in kept.tables.values() if name is not None]
        assert len(names) == 1
        columns = engine.run(Statement(f'SELECT * FROM "{names[0]}"')).num_columns
        assert columns < len(DOMAIN.columns)
        kept.close()
        assert not kept.tables
    finally:
        engine.close()


@pytest.mark.deep
def test_different_units_are_those_that_bounded_rows_have(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = draw_table(7)
    pq.write_table(table, path, row_group_size=100)
    engine = engine_of(path, DOMAIN, unit=PrivacyUnit("id", max_rows=1))
    by_text = engine_of(path, DOMAIN)
    try:
        for where in ("", " WHERE x > 100", " WHERE MONTH(day) = 2"):
            question = _read(f"SELECT COUNT(DISTINCT id) AS n FROM t{where}")
            counted = ask(engine, DOMAIN, question)
            assert counted == ask(by_text, DOMAIN, question)
            text = engine.write(compile_query(as_aggregation(question), DOMAIN).select(engine.primitives)).text
            assert "OVER" not in text
        # beside another aggregate the bounds count
        both = compile_query(as_aggregation(_read("SELECT COUNT(DISTINCT id) AS n, SUM(x) AS m FROM t")), DOMAIN)
        assert "OVER" in engine.write(both.select(engine.primitives)).text
    finally:
        engine.close()
        by_text.close()
