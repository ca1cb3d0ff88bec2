"""`/` of two whole numbers: cut towards 0 where the dialect cuts it, and what is whole there is what PostgreSQL says."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import postgres_server as postgres
import sordino as sd
from protecting import protect
from sordino.ask.queries.sql.text import DIALECTS
from sordino.ask.queries.sql.whole_division import ColumnKinds, cut_quotients

CUTTING = {"postgres", "redshift", "sqlite", "tsql", "trino"}
KINDS: ColumnKinds = {"t": {"a": "whole", "b": "whole", "x": "other", "d": "day", "e": "day"}}
ROWS = [
    {"a": a, "b": b, "x": x, "d": f"2024-01-{d:02}", "e": "2024-02-10"}
    for a, b, x, d in [(7, -3, 2.5, 1), (-8, 3, -1.5, 20), (0, 5, 4.0, 9), (9, 2, 0.5, 31)]
]
VALUES = ", ".join(f"({r['a']}, {r['b']}, {r['x']}::float, DATE '{r['d']}', DATE '{r['e']}')" for r in ROWS)
TABLE = f"(VALUES {VALUES}) AS t(a, b, x, d, e)"


@pytest.fixture(scope="module")
def curator() -> sd.Curator:
    table = pa.table({"n": [i % 15 for i in range(600)], "x": [i % 8 / 2 for i in range(600)]})
    return protect(table, sd.Domain({"n": sd.Integer(0, 14), "x": sd.Real(0, 4, resolution=0.5)}), name="t")


@pytest.mark.deep
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_dialect_divides_as_it_does(dialect: str, curator: sd.Curator) -> None:
    text = (
        "SELECT COUNT(*) / 7 AS w, SUM(x) / 7 AS r, SUM(n / 7) AS rows, (SELECT COUNT(*) / 7 FROM t) AS inner_w FROM t"
    )
    (row,) = curator.ask(sd.sql(text, dialect=dialect), epsilon=200).rows
    sums = (
        (sum(i % 15 // 7 for i in range(600)), 85, 85) if dialect in CUTTING else (600 / 7 + 514.2857, 600 / 7, 600 / 7)
    )
    assert (row["r"], row["w"], row["inner_w"]) == pytest.approx((150.0, *sums[1:]), rel=1e-2)
    assert (row["rows"] == sums[0]) == (dialect in CUTTING)


def random_number(rng: random.Random, depth: int) -> str:
    """Return an expression of numbers in PostgreSQL's SQL, with quotients in it; no divisor is 0."""
    if depth == 0:
        return rng.choice(
            ["a", "b", "x", "3", "2.0", "(e - d)", "t.a", "LENGTH('abc')", "CAST(x AS integer)", "7::float"]
        )
    one, other = (random_number(rng, depth - 1) for _ in range(2))
    return rng.choice(
        [
            f"({one} / NULLIF({other}, 0))",
            f"({one} / NULLIF({other}, 0))",
            f"({one} + {other})",
            f"({one} * {other})",
            f"(-{one})",
            f"COALESCE({one}, {other})",
            f"CASE WHEN a > {other} THEN {one} ELSE {other} END",
            f"CASE WHEN a > 0 THEN {one} END",
            f"GREATEST({one}, {other})",
            f"ABS({one})",
            f"ROUND(({one})::numeric, 3)",
        ]
    )


def random_query(rng: random.Random) -> str:
    number = random_number(rng, 3)
    aggregate = rng.choice(["SUM", "MIN", "MAX", "AVG", "COUNT"])
    half = random_number(rng, 1)
    return rng.choice(
        [
            f"SELECT {number} AS v FROM {TABLE} ORDER BY a",
            f"SELECT {aggregate}({number}) / 2 AS v FROM {TABLE}",
            f"SELECT {aggregate}(a + 2) / 2 AS v FROM {TABLE}",
            f"SELECT SUM(v) / 2 AS v FROM (SELECT {number} AS v FROM {TABLE}) q",
            f"WITH q(v, w) AS (SELECT {number}, a FROM {TABLE}) SELECT v / 2 AS v FROM q ORDER BY w",
            f"SELECT {aggregate}({number}) OVER () / 3 AS v FROM {TABLE} ORDER BY a",
            f"SELECT v / 2 AS v FROM (SELECT 1 AS w, {half} AS v FROM {TABLE} UNION ALL SELECT 2, {half} FROM {TABLE}) q "
            "ORDER BY v",
            f"SELECT (SELECT COUNT(*) FROM {TABLE}) / 3 * {half} AS v FROM {TABLE} ORDER BY a",
            f"SELECT a / 2 AS v, COUNT(*) AS n FROM {TABLE} GROUP BY a / 2 HAVING COUNT(*) / 1 > 0 ORDER BY a / 2",
        ]
    )


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(15))
def test_what_is_whole_is_what_postgresql_says(seed: int, postgres_server: postgres.Server) -> None:
    """DuckDB gives PostgreSQL's answer to the cut text, in rows, aggregates, windows, WITH, unions and sub-queries."""
    psycopg = pytest.importorskip("psycopg")
    rng = random.Random(seed)
    texts = [random_query(rng) for _ in range(20)]
    with psycopg.connect(f"{postgres_server.url}/postgres") as connection:
        answered = [[row[0] for row in connection.execute(text.encode()).fetchall()] for text in texts]
    for text, expected in zip(texts, answered, strict=True):
        tree = cut_quotients(sqlglot.parse_one(text, read="postgres"), KINDS)
        cut = tree.transform(_truncate).sql(dialect="duckdb")
        answers = [row[0] for row in duckdb.execute(cut).fetchall()]
        assert [_float(v) for v in answers] == pytest.approx([_float(v) for v in expected], rel=1e-6, abs=1e-6), text


def _truncate(node: Any) -> Any:
    """Write // as TRUNC, since DuckDB's own goes by the types of its operands once more."""
    if not isinstance(node, exp.IntDiv):
        return node
    return exp.Trunc(this=exp.Div(this=exp.cast(node.this, "double"), expression=node.expression))


def _float(value: Any) -> float:
    return -1e300 if value is None else float(value)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("SELECT u.n / 2 FROM t, UNNEST(ARRAY[1]) u(n)", "u.n / 2"),
        ("SELECT q.n / 2 FROM (SELECT * FROM t) q", "q.n / 2"),
        ("SELECT q.a / 2 FROM (SELECT * FROM t) q", "q.a // 2"),
        ("SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.k = t.a / 2)", "t.a // 2"),
        ("SELECT COUNT(*) FROM t WHERE a IN (SELECT a / 2 FROM t)", "a // 2"),
        ("SELECT v.k / 2 FROM t AS v(k)", "v.k // 2"),
        ("SELECT COUNT(*) FROM public.t WHERE CLIP(a, 0, 5) / 2 > 1", "CLIP(a, 0, 5) // 2"),
        ("SELECT EXTRACT(YEAR FROM d) / 2 FROM t", "EXTRACT(YEAR FROM d) / 2"),
        ("SELECT (d + 7 - e) / 2, (d - 1) / 2 FROM t", "(d + 7 - e) // 2, (d - 1) / 2"),
        ("SELECT SUM(a) FILTER (WHERE a / 2 = 1) / 2 FROM t", "SUM(a) FILTER(WHERE a // 2 = 1) // 2"),
    ],
)
def test_names_are_followed_to_their_columns(text: str, cut: str) -> None:
    assert cut in cut_quotients(sqlglot.parse_one(text, read="postgres"), KINDS).sql(dialect="duckdb")
