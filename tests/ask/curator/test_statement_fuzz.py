"""Random statements around private questions: each is refused before the charge, or answered as DuckDB answers it."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from sordino.errors import QuestionRefused

DOMAIN = sd.Domain(
    {
        "u": sd.Identifier(),
        "m": sd.Category([0, 1]),
        "g": sd.Category(["a", "b", "c"]),
        "x": sd.Integer(0, 100),
        "y": sd.Integer(2018, 2024),
    }
)
KEYS = ["g", "m", "y", "y % 3", "CASE WHEN x > 50 THEN 'hi' ELSE 'lo' END", "UPPER(g)", "m = 1"]
AGGREGATES = [
    "COUNT(*)",
    "SUM(x)",
    "AVG(x)",
    "COUNT(DISTINCT u)",
    "SUM(CASE WHEN m = 1 THEN 1 ELSE 0 END)",
    "COUNT(*) FILTER (WHERE x > 10)",
    "AVG(x + y)",
    "STDDEV(x)",
]
WINDOWS = [
    "RANK() OVER (ORDER BY {} DESC)",
    "SUM({0}) OVER ()",
    "{0} - MAX({0}) OVER ()",
    "100.0 * {0} / SUM({0}) OVER ()",
    "{0} - AVG({0}) OVER ()",
    "PERCENT_RANK() OVER (ORDER BY {0})",
]
OUTSIDE = ["AVG(n)", "MAX(n)", "SUM(n)", "COUNT(*)", "STDDEV_POP(n)", "MIN(n) + 1", "COUNT(*) FILTER (WHERE n > 100)"]


def group(draw: random.Random, key: str, aggregate: str) -> str:
    where = draw.choice(["", " WHERE x > 20", " WHERE g <> 'b'"])
    return f"SELECT {key} AS k, {aggregate} AS n FROM data{where} GROUP BY {draw.choice(['1', 'k', 'ALL'])}"


def statement(draw: random.Random) -> str:
    key, one, other = draw.choice(KEYS), draw.choice(AGGREGATES), draw.choice(AGGREGATES)
    window = draw.choice(WINDOWS)
    forms = [
        f"SELECT {key} AS k, {window.format(one)} AS w FROM data GROUP BY {key}",
        f"SELECT {draw.choice(OUTSIDE)} AS z FROM ({group(draw, key, one)}) t",
        f"WITH t AS ({group(draw, key, one)}) SELECT k, n, {window.format('n')} AS w FROM t ORDER BY k",
        f"{group(draw, key, one)} UNION ALL {group(draw, key, one)}",
        f"SELECT g, m, {one} AS n FROM data GROUP BY {draw.choice(['ROLLUP', 'CUBE'])}(g, m)",
        f"SELECT (SELECT {one} FROM data) {draw.choice('+-*/')} (SELECT {other} FROM data WHERE m = 1) AS z",
        f"SELECT a.k, a.n, b.n AS other FROM ({group(draw, 'g', one)}) a LEFT JOIN ({group(draw, 'g', other)}) b ON a.k = b.k",
        f"SELECT {key} AS k, {one} AS n FROM data GROUP BY 1 QUALIFY {WINDOWS[draw.choice([1, 3])].format(one)} > 1",
        f"SELECT k, CASE WHEN n > 100 THEN 'big' ELSE 'small' END AS size, ROUND(n / 7, 2) AS r FROM ({group(draw, key, one)}) t",
        f"SELECT {key} AS k, {one} AS n FROM data GROUP BY k HAVING {one} > (SELECT MIN(n) FROM ({group(draw, key, one)}) q)",
    ]
    return draw.choice(forms)


def is_near(cell: Any, other: Any) -> bool:
    if cell is None or other is None or isinstance(other, (str, bool)) or isinstance(cell, str):
        return bool(cell == other)
    return abs(float(cell) - float(other)) <= 0.02 + 1e-4 * abs(float(other))


@pytest.mark.parametrize(
    ("seed", "statements"), [(0, 3), *(pytest.param(seed, 6, marks=pytest.mark.deep) for seed in range(40))]
)
def test_a_random_statement_is_refused_or_answered_as_by_duckdb(seed: int, statements: int) -> None:
    draw = random.Random(seed)
    cells = [
        (f"u{u}", draw.randint(0, 1), draw.choice("abc"), draw.randint(0, 100), draw.randint(2018, 2024))
        for u in range(300)
        for _ in range(draw.randint(1, 6))
    ]
    rows = pa.table({name: [row[i] for row in cells] for i, name in enumerate("umgxy")})
    data: Any = sd.protect(
        rows,
        domain=DOMAIN,
        neighbors="add_remove",
        privacy_unit=sd.PrivacyUnit("u", max_rows=6),
        budget=sd.PureDP(10**9),
        ledger=None,
        name="data",
        rng=sd.Rng.seeded(seed),
    )
    connection = duckdb.connect()
    connection.register("data", rows)
    refused = 0
    for _ in range(statements):
        text = statement(draw)
        right = connection.execute(text).fetchall()
        try:
            # So much that no noise shows: what is compared is SQL.
            release = data.ask(sd.sql(text), epsilon=900_000)
        except QuestionRefused:
            refused += 1
            continue
        answer = [tuple(row.values()) for row in release.table.to_pylist()] if release.parts else []
        assert len(answer) == len(right), text
        for other in right:
            match = next((row for row in answer if all(map(is_near, row, other))), None)
            assert match is not None, (text, other, answer)
            answer.remove(match)
    assert refused < statements - 1
