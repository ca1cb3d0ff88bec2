"""CAST to whole numbers rounds as DuckDB does: halves of decimals away from 0, of doubles to the even number."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import QuestionRefused

_HALVES = [Decimal(i) / 2 for i in range(-7, 8)]
# each value has a count of its own
_ROWS = [
    {"dec": half, "dbl": float(half), "i": int(2 * half), "b": place % 2 == 0}
    for place, half in enumerate(_HALVES)
    for _ in range(place + 1)
]
_TABLE = pa.Table.from_pylist(
    _ROWS,
    pa.schema([("dec", pa.decimal128(9, 2)), ("dbl", pa.float64()), ("i", pa.int32()), ("b", pa.bool_())]),
)
_DOMAIN = sd.Domain(
    {
        "dec": sd.Real(-4, 4, resolution="0.01"),
        "dbl": sd.Real(-4, 4, resolution="0.01"),
        "i": sd.Integer(-8, 8),
        "b": sd.Boolean(),
    }
)
_EXPRESSIONS = [
    "CAST(dec AS INT)",
    "CAST(dbl AS INT)",
    "dec::BIGINT",
    "TRY_CAST(dbl AS BIGINT)",
    "CAST(i * 0.5 AS INT)",
    "CAST(0.5 * i + 1 AS INT)",
    "CAST(i / 2 AS INT)",
    "CAST(dec + dbl AS INT)",
    "CAST(dec + i * 2 AS INT)",
    "CAST(-dec AS INT)",
    "CAST(ABS(dec) AS INT)",
    "CAST(ROUND(dec * 5, 1) AS INT)",
    "CAST(CASE WHEN b THEN dec ELSE 0.5 END AS INT)",
    "CAST(CASE WHEN b THEN dec ELSE dbl END AS INT)",
    "CAST(COALESCE(dec, 0) AS INT)",
    "CAST(SQRT(i * i) / 2 AS INT)",
    "CAST(dec AS INT) * 2",
]
_PLACES = [
    "SELECT SUM({}) AS x FROM data",
    "SELECT COUNT(*) AS x FROM data WHERE {} = 2",
    "SELECT COUNT(*) AS x FROM data WHERE {} < -1",
    "SELECT {} AS k, COUNT(*) AS x FROM data GROUP BY 1",
]
# Keys tell all values apart; of the numbers in the other places each third is tried, and all by the deep test.
_TRIED = [(place, tuple(_EXPRESSIONS[i::3])) for i, place in enumerate(_PLACES[:3])] + [
    (_PLACES[3], tuple(_EXPRESSIONS))
]
_ALL = [pytest.param(place, tuple(_EXPRESSIONS), marks=pytest.mark.deep) for place in _PLACES[:3]]


@pytest.mark.deep
@pytest.mark.parametrize(("place", "expressions"), [*_TRIED, *_ALL], ids=lambda v: v if isinstance(v, str) else len(v))
def test_a_cast_rounds_by_the_type_of_its_column(place: str, expressions: tuple[str, ...]) -> None:
    held = protect(_TABLE, _DOMAIN, budget=sd.PureDP(10**12), name="data")
    connection = duckdb.connect()
    connection.register("data", _TABLE)
    wrong = []
    for expression in expressions:
        text = place.format(expression)
        expected = [row for row in connection.execute(text).fetchall() if row[-1]]
        found = [tuple(row.values()) for row in held.ask(sd.sql(text), epsilon=10**6).rows if row["x"]]
        if sorted(found) != sorted(expected):
            wrong.append((expression, found, expected))
    assert not wrong


_RELEASED = [
    "COUNT(*) * 0.5125",
    "-COUNT(*) * 0.5125",
    "COUNT(*) * 5.125e-1",
    "COUNT(*) / 80 * 41",
    "COUNT(*) * CAST(0.5125 AS DOUBLE)",
    "COUNT(*) * CAST(0.5125 AS DECIMAL(9, 4))",
    "ROUND(COUNT(*) * 0.5125, 1)",
    "ABS(SUM(i) * 0.5) + 0.5",
    "SUM(i) * 0.5",
    "SUM(dec * 0 + 0.5)",
    "SUM(CASE WHEN b THEN 0.25 ELSE 0.25 END) + COUNT(*) * 0.2625",
    "AVG(i * 0 + 2.5)",
    "AVG(dec * 0 + 2.5)",
    "SQRT(COUNT(*) * 0 + 6.25)",
    "CASE WHEN COUNT(*) > 2 THEN 2.5 * SIGN(COUNT(*)) ELSE 1 END",
    "CASE WHEN COUNT(*) > 2 THEN 2.5 * SIGN(COUNT(*)) ELSE 1e0 END",
    "CASE WHEN AVG(i) < 1e9 THEN 2.5 * SIGN(COUNT(*)) ELSE 1 END",
    "GREATEST(COUNT(*) * 0.5125, 1)",
    "COUNT(DISTINCT i) * 0.1 + 1",
    "COUNT(*) FILTER (WHERE i / 2 < 1e9) * 0.5125",
]


@pytest.mark.each(3)
@pytest.mark.parametrize("rows", [40, 120])
def test_a_cast_of_released_values_rounds_as_that_of_rows(rows: int) -> None:
    table = pa.concat_tables([_TABLE, _TABLE]).slice(0, rows)
    held = protect(table, _DOMAIN, budget=sd.PureDP(10**12), name="data")
    connection = duckdb.connect()
    connection.register("data", table)
    wrong = []
    halves = 0
    for expression in _RELEASED:
        value, cast = connection.execute(f"SELECT {expression}, CAST({expression} AS INT) FROM data").fetchone() or ()
        halves += float(value) % 1 == 0.5
        answer = held.ask(sd.sql(f"SELECT CAST({expression} AS INT) AS x FROM data"), epsilon=10**6).value
        if answer != cast:
            wrong.append((expression, answer, cast))
    assert not wrong
    assert halves >= 10


def test_filter_beside_distinct_rows_is_refused_with_what_works() -> None:
    held = protect(_TABLE, _DOMAIN, budget=sd.PureDP(10), name="data")
    with pytest.raises(QuestionRefused, match="write the condition in WHERE"):
        held.plan(sd.sql("SELECT COUNT(DISTINCT (i, b)) FILTER (WHERE i > 1) FROM data"), epsilon=1)
