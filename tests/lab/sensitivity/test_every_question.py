"""Whatever question is handed to the laboratory has a worst-case sensitivity, or is refused in a sentence."""

from __future__ import annotations

import random

import pytest

import sordino as sd
from answers.plain_questions import Questions
from answers.plain_shapes import EVERY_KIND, draw_question
from answers.town_tables import DOMAINS
from sordino.errors import QuestionRefused, SordinoError
from sordino.lab.sensitivity.worst_case import worst_case_sensitivity

DOMAIN = sd.Domain({"x": sd.Integer(0, 9), "y": sd.Integer(0, 5), "c": sd.Category(["a", "b"])})
# Every aggregate and every other question of Python.
QUESTIONS = {
    "count": sd.count(),
    "count of values": sd.count("x"),
    "distinct": sd.count_distinct("x"),
    "sum": sd.sum("x"),
    "mean": sd.mean("x"),
    "variance": sd.variance("x"),
    "std": sd.std("x"),
    "covariance": sd.covariance("x", "y"),
    "correlation": sd.correlation("x", "y"),
    "least": sd.min("x"),
    "largest": sd.max("x"),
    "median": sd.median("x"),
    "quantile": sd.quantile("x", 0.25),
    "quantiles": sd.quantiles("x", [0.25, 0.5]),
    "iqr": sd.iqr("x"),
    "histogram": sd.histogram("x"),
    "most common": sd.most_common("c"),
    "smooth": sd.smooth("mean", "x"),
    "formula": sd.sum("x") / sd.count(),
    "list": [sd.count(), sd.sum("y")],
    "list with a choice": [sd.count(), sd.median("x")],
    "rows": sd.col("x"),
    "a word": "x",
    "nothing": None,
    "SQL": sd.sql("SELECT c, SUM(x) FROM t GROUP BY c"),
    "SQL of a median": sd.sql("SELECT MEDIAN(x) FROM t"),
    "SQL of a mode": sd.sql("SELECT MODE(c) FROM t"),
    "SQL of rows": sd.sql("SELECT x FROM t"),
    "SQL around a question": sd.sql("SELECT n + 1 FROM (SELECT COUNT(*) AS n FROM t)"),
    "two of SQL": sd.sql("SELECT COUNT(*) FROM t; SELECT SUM(x) FROM t"),
    "no SQL": sd.sql("SELEC"),
}


def is_answered(question: object, domain: sd.Domain, neighbors: str, n: int | None = None) -> bool:
    try:
        worst_case_sensitivity(question, domain, neighbors=neighbors, privacy_unit="row", n=n)
    except SordinoError:
        return False
    return True


@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_question_of_python_has_one_or_is_refused(name: str, neighbors: str) -> None:
    answered = is_answered(QUESTIONS[name], DOMAIN, neighbors)
    is_answered(QUESTIONS[name], DOMAIN, neighbors, n=9)
    if name in ("count", "sum", "variance", "std", "covariance", "histogram", "formula", "list", "SQL"):
        assert answered
    if name in ("median", "quantile", "quantiles", "list with a choice", "most common", "smooth", "SQL of a median"):
        with pytest.raises(QuestionRefused, match="and no noise of a sensitivity is added to it"):
            worst_case_sensitivity(QUESTIONS[name], DOMAIN, neighbors=neighbors, privacy_unit="row")


@pytest.mark.each(4)
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_of_sql_has_one_or_is_refused(kind: str) -> None:
    drawn = Questions(random.Random(kind))
    for _ in range(5):
        question = draw_question(drawn, kind)
        for domain in DOMAINS.values():
            is_answered(sd.sql(question.text, dialect=question.dialect), domain, "add_remove")


def test_sql_has_the_sensitivity_of_the_same_question_in_python() -> None:
    written = sd.sql("SELECT COUNT(*) AS count, SUM(x) AS sum_x FROM anything")
    ours = worst_case_sensitivity([sd.count(), sd.sum("x")], DOMAIN, neighbors="replace", privacy_unit="row")
    assert worst_case_sensitivity(written, DOMAIN, neighbors="replace", privacy_unit="row") == ours
