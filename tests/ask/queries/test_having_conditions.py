"""HAVING against DuckDB: conditions on an answer mean what they mean there, and what is no condition is refused as in WHERE."""

from __future__ import annotations

import itertools
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import QuestionRefused

# each key has a count of its own, from 1 up
_KEYS = list(itertools.product((True, False, None), (0, 1), (0, 1, 2)))
_ROWS = [
    {"g": g, "m": m, "d": d, "f": None if g is None else not g}
    for i, (g, m, d) in enumerate(_KEYS)
    for _ in range(i + 1)
]
_TABLE = pa.Table.from_pylist(
    _ROWS, pa.schema([("g", pa.bool_()), ("m", pa.int64()), ("d", pa.int64()), ("f", pa.bool_())])
)
_DOMAIN = sd.Domain(
    {"g": sd.Boolean(missing="keep"), "m": sd.Integer(0, 1), "d": sd.Integer(0, 2), "f": sd.Boolean(missing="keep")}
)
_EXACT = 10**6  # at this epsilon noise is 0 but with a chance below 1e-100


@pytest.fixture(scope="module")
def table() -> sd.Curator:
    return protect(_TABLE, _DOMAIN, budget=sd.PureDP(10**12), name="data")


def _number(draw: random.Random) -> str:
    return draw.choice(("m", "d", "n", "n - 3", "d + m", "COUNT(*)", "7", "CASE WHEN g THEN n ELSE 2 END"))


def _condition(draw: random.Random, depth: int) -> tuple[str, bool]:
    """Return a condition, and whether all that stands where a truth is needed is one."""
    kind = draw.choice(("compare", "truth", "in", "null", "number") if depth == 0 else ("not", "and", "or", "case"))
    if kind == "number":
        return draw.choice(("m", "n", "d", "COUNT(*)")), False
    if kind == "compare":
        op = draw.choice(("<", "<=", ">", ">=", "=", "<>"))
        return f"{_number(draw)} {op} {_number(draw)}", True
    if kind == "truth":
        return draw.choice(("g", "(NOT g)", "TRUE", "(n > 9)", "g = TRUE", "big")), True
    if kind == "in":
        return f"{draw.choice(('m', 'd', 'n'))} IN (1, 4, 6)", True
    if kind == "null":
        return f"g IS {draw.choice(('', 'NOT '))}NULL", True
    one, is_one = _condition(draw, depth - 1)
    if kind == "not":
        return f"NOT ({one})", is_one
    other, is_other = _condition(draw, draw.randrange(depth))
    if kind == "case":
        third, is_third = _condition(draw, 0)
        return f"CASE WHEN {one} THEN {other} ELSE {third} END", is_one and is_other and is_third
    return f"({one}) {kind.upper()} ({other})", is_one and is_other


def _shown(table: sd.Curator, having: str) -> Any:
    text = f"SELECT g, m, d, COUNT(*) AS n, COUNT(*) > 9 AS big FROM data GROUP BY g, m, d HAVING {having}"
    expected = _connection().execute(text).fetchall()
    found = [(r["g"], r["m"], r["d"], r["n"]) for r in table.ask(sd.sql(text), epsilon=_EXACT).rows]
    return sorted(map(repr, found)), sorted(repr(row[:4]) for row in expected)


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("data", _TABLE)
    return connection


@pytest.mark.parametrize(
    ("seed", "conditions"), [(2, 8), *(pytest.param(seed, 14, marks=pytest.mark.deep) for seed in range(4))]
)
def test_having_keeps_the_rows_that_duckdb_keeps_or_is_refused(table: sd.Curator, seed: int, conditions: int) -> None:
    draw = random.Random(seed)
    refused = 0
    for _ in range(conditions):
        having, is_condition = _condition(draw, draw.randrange(4))
        if not is_condition:
            refused += 1
            with pytest.raises(QuestionRefused, match="condition"):
                _shown(table, having)
            continue
        found, expected = _shown(table, having)
        assert found == expected, having
    assert 0 < refused < conditions - 2


@pytest.mark.parametrize("having", ["m", "n", "NOT m", "m OR n > 10000", "1", "COUNT(*)", "d AND TRUE"])
def test_a_number_is_no_condition(table: sd.Curator, having: str) -> None:
    """As WHERE refuses it: DuckDB casts it, other dialects do not."""
    for text in (
        f"SELECT g, m, d, COUNT(*) AS n FROM data GROUP BY g, m, d HAVING {having}",
        f"SELECT * FROM (SELECT g, m, d, COUNT(*) AS n FROM data GROUP BY g, m, d) AS t WHERE {having}",
    ):
        with pytest.raises(QuestionRefused, match="condition"):
            table.plan(sd.sql(text.replace("COUNT(*) AS n", "COUNT(*) AS n")), epsilon=1)
    with pytest.raises(QuestionRefused, match="condition"):
        table.plan(table.group_by("m").agg(sd.count().alias("n")).having(sd.col("m")), epsilon=1)


@pytest.mark.parametrize("text", ["CASE WHEN COUNT(*) THEN 5 END", "CASE WHEN NOT COUNT(*) THEN 5 ELSE 6 END"])
def test_a_formula_of_the_answer_takes_conditions_alone(table: sd.Curator, text: str) -> None:
    with pytest.raises(QuestionRefused, match="a condition is needed"):
        table.plan(sd.sql(f"SELECT {text} AS z FROM data"), epsilon=1)


def test_a_truth_beside_what_is_missing_decides(table: sd.Curator) -> None:
    """TRUE OR NULL is true, FALSE AND NULL is false: also where the answer computes them."""
    nothing = "COUNT(*) / (COUNT(*) - COUNT(*)) > 1"
    text = (
        f"SELECT CASE WHEN COUNT(*) > 1 OR {nothing} THEN 5 ELSE 6 END AS a, "
        f"CASE WHEN NOT (COUNT(*) < 1 AND {nothing}) THEN 7 ELSE 8 END AS b, "
        f"CASE WHEN NOT ({nothing}) THEN 1 ELSE 2 END AS c FROM data"
    )
    assert table.ask(sd.sql(text), epsilon=_EXACT).rows == [{"a": 5, "b": 7, "c": 2}]
