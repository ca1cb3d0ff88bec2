"""CAST to whole numbers rounds as DuckDB does: halves of decimals away from 0, of doubles to the even number."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect

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


@pytest.mark.parametrize("place", _PLACES, ids=["sum", "equal", "below", "keys"])
def test_a_cast_rounds_by_the_type_of_its_column(place: str) -> None:
    held = protect(_TABLE, _DOMAIN, budget=sd.PureDP(10**12), name="data")
    connection = duckdb.connect()
    connection.register("data", _TABLE)
    wrong = []
    for expression in _EXPRESSIONS:
        text = place.format(expression)
        expected = [row for row in connection.execute(text).fetchall() if row[-1]]
        found = [tuple(row.values()) for row in held.ask(sd.sql(text), epsilon=10**6).rows if row["x"]]
        if sorted(found) != sorted(expected):
            wrong.append((expression, found, expected))
    assert not wrong
