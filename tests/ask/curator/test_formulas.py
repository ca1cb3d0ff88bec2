"""Arithmetic on what is released, in Python and in SQL: priced by its parts, exact at a huge epsilon, stored and read back."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect

TABLE = pa.table(
    {
        "a": [-7, -3, 0, 2, 5, None, 9] * 30,
        "b": [4, 8, 0, 2, 5, 3, 9] * 30,
        "job": ["a", "b", "a", "b", "c", "a", "b"] * 30,
        "ok": [True, False, True, True, None, False, True] * 30,
    }
)
DOMAIN = sd.Domain(
    {"a": sd.Integer(-10, 10), "b": sd.Integer(0, 10), "job": sd.Category(["a", "b", "c"]), "ok": sd.Boolean()}
)


def open_table() -> Any:
    return protect(TABLE, DOMAIN, budget=sd.PureDP(10**12), name="people")


SAME = [
    "SELECT SUM(a) / SUM(b) AS r FROM people",
    "SELECT 100.0 * COUNT(*) / 50 AS p FROM people",
    "SELECT ROUND(AVG(b), 1) AS m FROM people",
    "SELECT (SUM(a)) AS s FROM people",
    "SELECT CASE WHEN COUNT(*) > 10 THEN AVG(b) ELSE 0 END AS m FROM people",
    "SELECT SQRT(ABS(SUM(a))) AS m, LN(SUM(b)) AS l, LEAST(SUM(b), 10) AS z FROM people",
    "SELECT job, SUM(a) / COUNT(*) AS r, COUNT(*) AS n FROM people GROUP BY job ORDER BY job",
    "SELECT job, AVG(b) AS m FROM people GROUP BY job HAVING COUNT(*) > 40 ORDER BY SUM(a) DESC",
    "SELECT job FROM people GROUP BY job HAVING COUNT(*) > 40 ORDER BY SUM(b)",
    "SELECT job, COUNT(*) AS n FROM people GROUP BY job HAVING SUM(a) / COUNT(*) > 0 ORDER BY n",
    "SELECT job, COUNT(*) AS n FROM people GROUP BY job ORDER BY SUM(b) / COUNT(*) DESC LIMIT 2",
    "SELECT COUNT(*), COUNT(*) FROM people",
    "SELECT SUM(a), SUM(a) AS x, AVG(a) FROM people",
    "SELECT 'all' AS who, 1 AS one, COUNT(*) AS n FROM people",
    "SELECT ok, COUNT(*) AS n FROM people GROUP BY ok HAVING ok",
    "SELECT STDDEV(a) / AVG(b) AS cv FROM people",
    "SELECT SUM(a) + 3 AS d, -COUNT(*) AS m FROM people",
    "SELECT ROUND(100.0 * COUNT(*) FILTER (WHERE ok) / COUNT(*), 2) AS pct FROM people",
]


@pytest.mark.each(10)
@pytest.mark.parametrize("text", SAME)
def test_at_a_huge_epsilon_a_formula_is_what_plain_sql_says(text: str) -> None:
    plain = duckdb.connect()
    plain.register("people", TABLE)
    release = open_table().ask(sd.sql(text), epsilon=10**6)
    expected = plain.execute(text).fetchall()
    assert [tuple(row.values()) for row in release.rows] == [
        tuple(pytest.approx(v, rel=1e-3) if isinstance(v, (int, float)) else v for v in row) for row in expected
    ]
    assert sd.Release.from_dict(release.to_dict()).to_dict() == release.to_dict()


def test_python_writes_the_same_formulas() -> None:
    people = open_table()
    by_text = people.plan(sd.sql("SELECT SUM(a) / SUM(b) AS r, COUNT(*) AS n FROM people"), epsilon=1)
    by_call = people.plan([(sd.sum("a") / sd.sum("b")).alias("r"), sd.count().alias("n")], epsilon=1)
    assert by_text.sentence() == by_call.sentence() == "the number of rows and the sum of a / the sum of b"
    assert by_text.question.identity() == by_call.question.identity()


def test_parts_are_released_once_and_share_the_loss_equally() -> None:
    people = open_table()
    alone = people.plan([sd.sum("a"), sd.sum("b")], epsilon=1)
    formula = people.plan([sd.sum("a") / sd.sum("b"), sd.sum("a") - sd.sum("b"), sd.sum("b")], epsilon=1)
    assert formula.cost == alone.cost
    assert formula.event == alone.event


def test_the_interval_of_a_quotient_holds_its_value_and_has_no_ends_at_zero() -> None:
    people = open_table()
    low, high = people.ask(sd.sum("a") / sd.sum("b"), epsilon=1).interval(0.95)
    assert low < 180 / 930 < high
    nothing = people.where(sd.col("b") > 9).agg(sd.sum("a") / sd.count())
    assert people.ask(nothing, epsilon=0.1).interval(0.95) == (None, None)


def test_a_plan_says_that_a_formula_is_free() -> None:
    plan = open_table().plan(sd.sum("a") / sd.sum("b"), epsilon=1)
    assert "sum_a / sum_b free: its error follows from what it is computed from" in plan.describe()
    assert [c["name"] for c in plan.to_dict()["columns"]] == ["sum_a", "sum_b", "sum_a / sum_b"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sd.median("b") / 2, "a quantile is chosen"),
        (lambda: sd.sql("SELECT SUM(a) / a FROM people"), "a value of a single row beside an aggregate"),
        (lambda: sd.sum("a") / sd.col("a"), "a value of each row"),
        (lambda: [sd.count(), sd.count()], "two columns of the answer are named 'count'"),
        (
            lambda: sd.sql("SELECT SUM(a) * SUM(b) AS n, COUNT(*) AS n FROM people"),
            "two columns of the answer are named 'n'",
        ),
    ],
)
def test_what_has_no_honest_interval_or_name_is_refused(make: Any, words: str) -> None:
    with pytest.raises(sd.errors.QuestionRefused, match=words):
        open_table().plan(make(), epsilon=1)


def test_formulas_hold_for_each_unit_with_many_rows_and_under_replace() -> None:
    for relation in ("add_remove", "replace"):
        unit = sd.PrivacyUnit("a", max_rows=3)
        people = protect(TABLE, DOMAIN, neighbors=relation, unit=unit, budget=sd.ZCDP(1000), name="people")
        plan = people.plan(sd.sum("b") / sd.count(), rho=0.5)
        assert [c.names for c in plan.procedure.columns(0.95)] == [("sum_b",), ("count",), ("sum_b / count",)]
        assert people.ask(plan).error(0.95) is not None


def test_a_formula_of_too_many_groups_is_refused_before_the_charge() -> None:
    domain = sd.Domain({"a": sd.Integer(0, 400), "b": sd.Integer(0, 400)})
    people = protect(pa.table({"a": [1], "b": [2]}), domain, name="people")
    asked = people.group_by("a", "b").agg(sd.sum("a") / sd.count())
    with pytest.raises(sd.errors.QuestionRefused, match="means and formulas of 160801 groups"):
        people.plan(asked, epsilon=1)


def measure_intervals(
    text: str, truth: dict[int, float], table: pa.Table, *, asks: int, **loss: Any
) -> tuple[float, float]:
    """Return how often intervals at 95% hold the truth, and their half width as a multiple of the 95% error."""
    domain = sd.Domain({"k": sd.Integer(0, 39), "x": sd.Integer(0, 100), "y": sd.Integer(0, 100)})
    people = protect(table, domain, budget=sd.ZCDP(10**6) if "rho" in loss else sd.PureDP(10**6), name="people")
    held: list[bool] = []
    widths: list[float] = []
    errors: list[float] = []
    for _ in range(asks):
        ends = people.ask(sd.sql(text), **loss).to_arrow(intervals=True)
        for row in ends.to_pylist():
            true = truth[row["k"]]
            held.append(row["v_lower"] <= true <= row["v_upper"])
            widths.append(row["v_upper"] - row["v_lower"])
            errors.append(abs(row["v"] - true))
    return float(np.mean(held)), float(np.mean(widths)) / 2 / float(np.quantile(errors, 0.95))


@pytest.mark.each(20)
@pytest.mark.parametrize("asks", [6, pytest.param(20, marks=pytest.mark.deep)])
@pytest.mark.parametrize("loss", [{"rho": "0.1"}, {"epsilon": 1}], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize(
    "formula",
    ["COUNT(*) * AVG(x)", "AVG(x) - AVG(y)", "SUM(x * y) / COUNT(*) - AVG(x) * AVG(y)", "SUM(y) / SUM(x)"],
)
def test_proofs_and_error_wider_than_need_be(formula: str, loss: dict[str, Any], asks: int) -> None:
    """40 groups of 50 rows: intervals had 1.01 to 1.92 times the 95% error, with coverage up to .999, where factors pass 0."""
    draw = np.random.default_rng(1)
    k, x, y = draw.integers(0, 40, 2_000), draw.integers(0, 100, 2_000), draw.integers(0, 100, 2_000)
    table = pa.table({"k": k, "x": x, "y": y})
    text = f"SELECT k, {formula} AS v FROM people GROUP BY k"
    truth = dict(duckdb.connect().register("people", table).execute(text).fetchall())
    coverage, width = measure_intervals(text, truth, table, asks=asks, **loss)
    # 2.6 deviations either way of .95, and .985 at most of 800 intervals
    slack = 2.6 * (0.95 * 0.05 / (40 * asks)) ** 0.5
    assert 0.95 - slack <= coverage <= 0.965 + slack
    # The quantile of 240 errors has a deviation of 6%, that of 800 one of 3%.
    wide = (20 / asks) ** 0.5
    assert 1 - 0.1 * wide <= width <= 1 + 0.15 * wide
