"""The one interpreter of released arithmetic: against DuckDB over random trees, total, and three-valued in shares too."""

from __future__ import annotations

import datetime
import math
import random
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest

from sordino.core.estimates.evaluation import OF_ONE, OPERATORS, Truth, evaluate, evaluate_truth

ROWS = 40
_COMPARISONS = {op: "<>" if op == "!=" else op for op in OPERATORS if op not in "+-*"}


def _columns(rng: random.Random) -> dict[str, list[Any]]:
    return {
        "n": [rng.choice([-2, 0, 1, 4, 7]) for _ in range(ROWS)],
        "m": [rng.choice([None, -1.5, 0.25, 3.0]) for _ in range(ROWS)],
        "job": [rng.choice([None, "a", "b", "c"]) for _ in range(ROWS)],
        "day": [rng.choice([None, *(datetime.date(2020, 1, d) for d in (1, 2, 3))]) for _ in range(ROWS)],
        "moment": [
            rng.choice([None, datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2, 9)]) for _ in range(ROWS)
        ],
        "yes": [rng.choice([None, True, False]) for _ in range(ROWS)],
    }


def _cells(values: list[Any]) -> Any:
    return np.fromiter(values, dtype=object, count=len(values))


def _value(value: Any) -> list[Any]:
    return ["value", np.array(value, dtype=object)]


class Trees:
    """Draw trees over the columns, each with the SQL that means the same."""

    def __init__(self, rng: random.Random, columns: dict[str, list[Any]]) -> None:
        self._rng = rng
        self._columns = {name: ["value", _cells(values)] for name, values in columns.items()}

    def number(self, depth: int) -> tuple[list[Any], str]:
        kind = self._rng.choice(("column", "constant", "both", "abs", "if")) if depth else "column"
        if kind == "column":
            name = self._rng.choice("nm")
            return self._columns[name], name
        if kind == "constant":
            value = self._rng.choice([Fraction(0), Fraction(2), Fraction(-3), Fraction(1, 4)])
            return _value(value), f"({float(value)})"
        if kind == "abs":
            tree, text = self.number(depth - 1)
            return ["abs", tree], f"abs({text})"
        left, right = self.number(depth - 1), self.number(depth - 1)
        if kind == "if":
            condition = self.condition(depth - 1)
            return [
                "if",
                condition[0],
                left[0],
                right[0],
            ], f"CASE WHEN {condition[1]} THEN {left[1]} ELSE {right[1]} END"
        op = self._rng.choice("+-*")
        return [op, left[0], right[0]], f"({left[1]} {op} {right[1]})"

    def condition(self, depth: int) -> tuple[list[Any], str]:
        kind = self._rng.choice(
            ("number", "text", "day", "truth", "and", "or", "not", "missing") if depth else ("truth",)
        )
        op, sign = self._rng.choice(list(_COMPARISONS.items()))
        if kind == "truth":
            return self._columns["yes"], "yes"
        if kind in ("text", "day"):
            pairs: dict[str, tuple[tuple[str, Any], ...]] = {
                "text": (("job", "job"), ("job", "b"), ("job", "z")),
                "day": (
                    ("day", "moment"),
                    ("moment", "day"),
                    ("day", datetime.date(2020, 1, 2)),
                    ("moment", "2020-01-02"),
                ),
            }
            name, value = self._rng.choice(pairs[kind])
            side = self._columns[value] if value in self._columns else _value(value)
            words = value if value in self._columns else f"'{value}'"
            return [op, self._columns[name], side], f"{name} {sign} {words}"
        if kind in ("not", "missing"):
            tree, text = self.condition(depth - 1)
            return [kind, tree], f"NOT ({text})" if kind == "not" else f"({text}) IS NULL"
        one, other = (self.number(depth - 1) if kind == "number" else self.condition(depth - 1) for _ in "ab")
        operation, word = (op, sign) if kind == "number" else (kind, kind)
        return [operation, one[0], other[0]], f"({one[1]} {word} {other[1]})"


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_it_means_what_sql_means(seed: int, connection: duckdb.DuckDBPyConnection) -> None:
    rng = random.Random(seed)
    columns = _columns(rng)
    connection.execute(
        "CREATE OR REPLACE TABLE t (n DECIMAL(9, 2), m DOUBLE, job VARCHAR, day DATE, moment TIMESTAMP, yes BOOLEAN)"
    )
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", list(zip(*columns.values(), strict=True)))
    trees = Trees(rng, columns)
    for _ in range(25):
        number, text = trees.number(3)
        condition, where = trees.condition(3)
        met = evaluate_truth(condition)
        made = np.broadcast_to(np.asarray(evaluate(number), dtype=float), (ROWS,))
        rows = connection.execute(f"SELECT CAST({text} AS DOUBLE), {where} FROM t").fetchall()
        true, false = (np.broadcast_to(part, (ROWS,)) for part in met)
        assert true.tolist() == [w is True for _, w in rows], where
        assert false.tolist() == [w is False for _, w in rows], where
        wanted = [math.nan if value is None else value for value, _ in rows]
        np.testing.assert_allclose(made, wanted, rtol=1e-12, atol=1e-12, err_msg=text)


_ANY: list[Any] = [
    None,
    0,
    -3,
    2**60 + 1,
    0.5,
    -1e300,
    math.nan,
    Fraction(1, 3),
    True,
    "a",
    "2020-01-01",
    "9999-12-31T23:59",
]
_ANY += [datetime.date(1, 1, 1), datetime.datetime(2020, 1, 1, 5), datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)]


def _any_tree(rng: random.Random, depth: int) -> list[Any]:
    if depth == 0 or rng.random() < 0.2:
        huge = ["number", rng.choice([str(10**400), str(-(10**400)), "1/3", "0"])]
        many = ["value", _cells([rng.choice(_ANY) for _ in range(5)])]
        doubles = ["value", np.array([rng.choice([math.nan, -1.0, 0.0, 1e308]) for _ in range(5)])]
        return rng.choice([huge, many, doubles, _value(rng.choice([*_ANY, Fraction(10) ** 400]))])
    name = rng.choice(
        [
            *OF_ONE,
            *OPERATORS,
            "/",
            "abs",
            "modulo",
            "remainder",
            "least",
            "greatest",
            "nothing",
            "and",
            "or",
            "not",
            "missing",
            "if",
        ]
    )
    two = {*OPERATORS, "/", "remainder", "modulo", "least", "greatest", "and", "or"}
    count = 0 if name == "nothing" else 3 if name == "if" else 2 if name in two else 1
    return [name, *(_any_tree(rng, depth - 1) for _ in range(count))]


@pytest.mark.parametrize("trees", [200, pytest.param(1_000, marks=pytest.mark.deep)])
def test_no_tree_fails_whatever_the_cells_hold(trees: int) -> None:
    rng = random.Random(5)
    for _ in range(trees):
        tree = _any_tree(rng, 4)
        true, false = (np.asarray(part) for part in evaluate_truth(tree))
        assert not np.any((true == 1) & (false == 1))
        numbers = np.asarray(evaluate(tree))
        assert numbers.dtype.kind in "fO", tree


def test_whole_numbers_and_fractions_stay_exact() -> None:
    counts = ["value", _cells([3, 2**60 + 1, None])]
    tenth = _value(Fraction(1, 10))
    # in doubles, 3 * 0.1 is above 0.3, and 2 ** 60 + 1 is 2 ** 60
    assert evaluate_truth([">", ["*", counts, tenth], _value(Fraction(3, 10))]).true.tolist() == [False, True, False]
    assert evaluate(["-", counts, _value(2**60)]).tolist() == [3 - 2**60, 1, None]


def test_shares_are_combined_as_truths_are() -> None:
    # parts of a run meet either condition, independently; a third is unknown
    one = ["value", Truth(np.array([0.25, 1.0, 0.0]), np.array([0.75, 0.0, 0.0]))]
    other = ["value", Truth(np.array([0.5, 0.5, 0.5]), np.array([0.5, 0.5, 0.5]))]
    assert [part.tolist() for part in evaluate_truth(["and", one, other])] == [[0.125, 0.5, 0.0], [0.875, 0.5, 0.5]]
    assert [part.tolist() for part in evaluate_truth(["or", one, other])] == [[0.625, 1.0, 0.5], [0.375, 0.0, 0.0]]
    assert evaluate_truth(["missing", one]).true.tolist() == [False, False, True]


def test_functions_are_those_of_numbers() -> None:
    doubles = ["column", 0]
    for name in OF_ONE:
        made = evaluate([name, doubles], [np.array([4.0, math.nan])])
        assert math.isfinite(made[0])
        assert math.isnan(made[1])
    assert evaluate(["round", doubles, ["number", "1"]], [np.array([2.25])]).tolist() == [2.3]
    assert math.isnan(float(evaluate(["/", ["number", "1"], ["number", "0"]])))
