"""HAVING, ORDER BY and LIMIT on released rows: against SQL itself, with missing values, ties and bins."""

from __future__ import annotations

import random
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sordino as sd
from ask.queries.support import DOMAIN, arrow
from protecting import protect
from sordino import col
from sordino.ask.queries.aggregates.quantile import quantiles
from sordino.ask.queries.aggregation import compile_query
from sordino.ask.queries.build import Selection
from sordino.ask.queries.expressions.expr import Expr
from sordino.ask.queries.expressions.nodes import Apply, Compare, Constant, Name
from sordino.ask.queries.post_processing import PostProcessing, select_rows
from sordino.core.estimates.evaluation import OF_ONE
from sordino.errors import QuestionRefused, UnknownName

S = Selection()
CONDITIONS: list[tuple[Expr, str]] = [
    (col("n") > 3, "n > 3"),
    ((col("n") * 2 - col("m") >= 1) & ~(col("job") == "b"), "n * 2 - m >= 1 AND NOT job = 'b'"),
    (col("job").is_null() | (abs(col("n")) < 2), "job IS NULL OR abs(n) < 2"),
    (col("job").is_in(["a", "c"]), "job IN ('a', 'c')"),
    (~(col("m") < 0.5), "NOT m < 0.5"),
]
ORDERS: list[tuple[tuple[tuple[Expr, bool], ...], str]] = [
    ((), "place"),
    (((col("n"), True), (col("job"), False)), "n DESC, job"),
    (((col("job"), True), (col("m"), False)), "job DESC, m"),
    (((col("n") + col("m"), False),), "n + m"),
]

CUTS: list[tuple[int | None, int]] = [(9, 0), (2, 1), (1, 1), (1, 2), (0, 1), (None, 3), (9, 35), (40, 0)]


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@pytest.mark.each(17)
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: c[1])
@pytest.mark.parametrize("order", ORDERS, ids=lambda o: o[1])
def test_it_means_what_sql_means(
    condition: tuple[Expr, str], order: Any, connection: duckdb.DuckDBPyConnection
) -> None:
    rng = random.Random(3)
    n = [rng.choice([-2, 0, 1, 4, 7]) for _ in range(40)]
    m = [rng.choice([None, -1.5, 0.25, 3.0]) for _ in range(40)]
    job = [rng.choice([None, "a", "b", "c"]) for _ in range(40)]
    columns: dict[str, list[Any]] = {"n": n, "m": m, "job": job}
    connection.execute("CREATE OR REPLACE TABLE t (place INT, n INT, m DOUBLE, job VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", list(zip(range(40), n, m, job, strict=True)))
    text = f"SELECT place FROM t WHERE {condition[1]} ORDER BY {order[1]} NULLS LAST, place"
    text = text.replace(", job NULLS", " NULLS LAST, job NULLS").replace(", m NULLS", " NULLS LAST, m NULLS")
    for limit, offset in CUTS:
        after = PostProcessing(condition[0].node, tuple((e.node, down) for e, down in order[0]), limit, offset)
        cut = f"LIMIT {'ALL' if limit is None else limit} OFFSET {offset}"
        assert select_rows(after, columns) == [p for (p,) in connection.execute(f"{text} {cut}").fetchall()], cut


def test_bins_are_ordered_by_their_lower_ends() -> None:
    labels = ["[100, 125]", "[0, 10)", "[-5, 0)", "[20, 100)", "[1/3, 20)"]
    assert select_rows(PostProcessing(None, ((col("b").node, False),)), {"b": labels}) == [2, 1, 4, 3, 0]


def test_it_is_part_of_the_question() -> None:
    asked = S.group_by("c").agg(sd.count().alias("n"))
    chosen = asked.having(col("n") > 3).order_by(-col("n"), "c").limit(2)
    assert asked.identity() != chosen.identity()
    assert chosen.describe().endswith("; of the answer, rows with n > 3, ordered by n descending, c, the first 2")
    assert compile_query(chosen, DOMAIN).parts[0][0].role == compile_query(asked, DOMAIN).parts[0][0].role
    assert asked.having(col("n") > 3).having(col("n") < 9) == asked.having((col("n") > 3) & (col("n") < 9))


@pytest.mark.parametrize(
    ("made", "error", "match"),
    [
        (lambda a: a.having(col("nn") > 3), UnknownName, "did you mean 'n'"),
        (lambda a: a.order_by("i"), UnknownName, "no column 'i'"),
        (lambda a: a.having(col("n") + 1), QuestionRefused, "needs a condition"),
        (lambda a: a.having(col("n").bin([0, 1]) > 0), QuestionRefused, "cannot be computed from an answer"),
        (lambda a: a.having("n > 3"), QuestionRefused, "takes a condition"),
        (lambda a: a.having(col("n").days() > 1), QuestionRefused, "cannot be computed from an answer"),
        (lambda a: a.order_by(col("n").seconds()), QuestionRefused, "cannot be computed from an answer"),
        (lambda a: a.limit(-1), QuestionRefused, "number of rows"),
        (lambda a: a.limit(True), QuestionRefused, "number of rows"),
    ],
)
def test_what_makes_no_sense_is_refused(made: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        compile_query(made(S.group_by("c").agg(sd.count().alias("n"))), DOMAIN)


def test_several_quantiles_are_columns_of_their_own() -> None:
    asked = S.group_by("c").agg(quantiles("i", [0.25, 0.75]).alias("q"))
    compile_query(asked.having(col("q_0.25") > 0).order_by("q_0.75"), DOMAIN)
    with pytest.raises(UnknownName, match="no column 'q'"):
        compile_query(asked.order_by("q"), DOMAIN)


def test_what_sql_says_of_the_answer_is_done_to_it() -> None:
    table = [dict.fromkeys(DOMAIN) | {"c": c, "i": 1} for c in "aab"]
    people = protect(arrow(table), DOMAIN, budget=sd.PureDP(10**9))
    text = "SELECT c, COUNT(*) AS n FROM data GROUP BY c HAVING n >= 0.5 ORDER BY n LIMIT 5"
    found = people.ask(sd.sql(text), epsilon=10**5)
    assert found.table.to_pydict() == {"c": ["b", "a"], "n": [1, 2]}


@pytest.mark.parametrize(
    ("cut", "shown"),
    [("LIMIT 2 OFFSET 1", "cb"), ("LIMIT 2", "dc"), ("OFFSET 1", "cba"), ("LIMIT 1 OFFSET 2", "b"), ("OFFSET 4", "")],
)
def test_limit_counts_the_rows_after_those_that_offset_skips(cut: str, shown: str) -> None:
    table = pa.table({"c": list("abbcccdddd")})
    people = protect(table, sd.Domain({"c": sd.Category(["a", "b", "c", "d"])}), budget=sd.PureDP(10**9))
    text = f"SELECT c, COUNT(*) AS n FROM data GROUP BY c ORDER BY n DESC {cut}"
    asked = S.group_by("c").agg(sd.count().alias("n")).order_by(-col("n"))
    limit, _, offset = cut.partition("OFFSET ")
    if limit:
        asked = asked.limit(int(limit.split()[1]), offset=int(offset or 0))
        assert "".join(people.ask(asked, epsilon=10**5).table["c"].to_pylist()) == shown
    assert "".join(people.ask(sd.sql(text), epsilon=10**5).table["c"].to_pylist()) == shown


def test_text_never_meets_a_number() -> None:
    after = PostProcessing((col("job") > 3).node, ((col("x").node, False),))
    assert select_rows(after, {"job": ["a", "b"], "x": ["1", None]}) == []
    assert select_rows(PostProcessing(None, ((col("x").node, False),)), {"x": ["b", 2, None, 1]}) == [3, 1, 0, 2]


def test_a_day_meets_a_moment_as_its_midnight() -> None:
    moments = [datetime(2020, 1, 1, 9), datetime(2020, 1, 2), None]
    columns: dict[str, list[Any]] = {"day": [date(2020, 1, 2)] * 3, "at": moments}
    for node, rows in ((col("at") < col("day"), [0]), (col("day") <= col("at"), [1]), (col("day") == col("at"), [1])):
        assert select_rows(PostProcessing(node.node), columns) == rows


def test_every_function_of_an_answer_is_computed_or_refused_before_the_charge() -> None:
    columns: dict[str, list[Any]] = {"n": [4, 0, -2], "m": [0.5, None, 1e308], "job": ["a", None, "b"]}
    lengths_of_time = ("weeks", "days", "hours", "minutes", "seconds")
    for function in (*OF_ONE, "divide", "modulo", "/", "abs", "to_whole", *lengths_of_time, "unheard_of"):
        for right in (None, Constant(Fraction(3))):
            for name in columns:
                node = Apply(function, Name(name), right)
                after = PostProcessing(Compare(">", node, Constant(Fraction(1))), ((node, True),))
                try:
                    after.check(list(columns))
                except QuestionRefused:
                    continue
                select_rows(after, columns)
