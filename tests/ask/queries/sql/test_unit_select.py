"""Sub-queries grouped by the privacy unit: the same questions as Python's per_unit, and refusals by name and place."""

from __future__ import annotations

from typing import Any

import pytest

import sordino as sd
from sordino import col
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import Selection, as_aggregation
from sordino.ask.queries.expressions.cases import when
from sordino.ask.queries.joined_names import bind_names
from sordino.ask.queries.row_steps import step_domain
from sordino.ask.queries.sql.parse import parse_sql
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.errors import QuestionRefused, UnknownName

S = Selection()
DOMAIN = sd.Domain(
    {
        "patient": sd.Identifier(),
        "cost": sd.Real(0, 300, resolution=0.01),
        "kind": sd.Category(["er", "gp"]),
        "region": sd.Category(["N", "S"]),
        "day": sd.Date("2024-01-01", "2024-12-31"),
    }
)
TOTAL = S.per_unit(sd.sum("cost").clip(0, 500).alias("total"))
N = S.per_unit(sd.count().alias("n"))
SAME: list[tuple[str, Any]] = [
    (
        "SELECT AVG(total) FROM (SELECT patient, CLIP(SUM(cost), 0, 500) AS total FROM visits GROUP BY patient)",
        TOTAL.agg(sd.mean("total")),
    ),
    (
        "WITH p AS (SELECT patient, CLIP(SUM(cost), 0, 500) AS total FROM visits GROUP BY 1) SELECT MEDIAN(total) FROM p",
        TOTAL.agg(sd.median("total")),
    ),
    (
        "SELECT COUNT(*) FROM (SELECT patient AS who, COUNT(*) AS n FROM visits GROUP BY who) WHERE n >= 3",
        N.where(col("n") >= 3).agg(sd.count()),
    ),
    (
        "SELECT COUNT(*) FROM (SELECT patient, COUNT(*) AS n FROM visits WHERE kind = 'er' GROUP BY patient HAVING n >= 3)",
        S.where(col("kind") == "er").per_unit(n=sd.count()).where(col("n") >= 3).agg(sd.count()),
    ),
    (
        "SELECT r, COUNT(*) FROM (SELECT patient, ARG_MAX(region, day) AS r FROM visits GROUP BY patient) GROUP BY r",
        S.per_unit(r=sd.last("region", by="day")).group_by("r").agg(sd.count()),
    ),
    (
        "SELECT r, COUNT(*) FROM (SELECT patient, FIRST(region ORDER BY day DESC) AS r FROM visits GROUP BY patient) GROUP BY r",
        S.per_unit(r=sd.last("region", by="day")).group_by("r").agg(sd.count()),
    ),
    (
        "SELECT AVG(m), AVG(hi) FROM (SELECT patient, AVG(cost) AS m, MAX(cost) AS hi FROM visits GROUP BY patient)",
        S.per_unit(m=sd.mean("cost"), hi=sd.max("cost")).agg(sd.mean("m"), sd.mean("hi")),
    ),
    (
        "SELECT COUNT(*) FROM (SELECT patient, BOOL_OR(kind = 'er') AS er FROM visits GROUP BY patient) WHERE er",
        S.per_unit(er=sd.any(col("kind") == "er")).where(col("er")).agg(sd.count()),
    ),
    (
        "SELECT AVG(n) FROM (SELECT patient, LEAST(COUNT(*) FILTER (WHERE kind = 'er'), 9) AS n FROM visits GROUP BY patient)",
        S.per_unit(n=sd.count(when(col("kind") == "er", 1).otherwise(None)).clip(None, 9)).agg(sd.mean("n")),
    ),
    (
        "SELECT AVG(s) FROM (SELECT patient, MAX(cost) - MIN(cost) AS s FROM visits GROUP BY patient)",
        S.per_unit(s=sd.max("cost") - sd.min("cost")).agg(sd.mean("s")),
    ),
    (
        "SELECT COUNT(*) FROM (SELECT DISTINCT patient FROM visits WHERE kind = 'er')",
        S.where(col("kind") == "er").per_unit().agg(sd.count()),
    ),
    (
        "SELECT k, COUNT(*) FROM (SELECT patient, COUNT(DISTINCT kind) AS k FROM visits GROUP BY patient) p GROUP BY p.k",
        S.per_unit(k=sd.count_distinct("kind")).group_by("k").agg(sd.count()),
    ),
]


def bind(asked: Aggregation, *, unit: PrivacyUnit | None = PrivacyUnit("patient", max_rows=3)) -> Aggregation:  # noqa: B008
    bound = bind_names(
        asked, public={}, table="visits", domain=DOMAIN, names="written", neighbors=Neighbors("add_remove", unit)
    )
    step_domain(DOMAIN, bound.steps)
    return bound


def parse(text: str) -> Aggregation:
    return parse_sql(text, table="visits", columns=tuple(DOMAIN))


@pytest.mark.parametrize(("text", "asked"), SAME, ids=[t[0][:60] for t in SAME])
def test_sql_and_python_are_the_same_question(text: str, asked: Any) -> None:
    assert bind(parse(text)).identity() == bind(as_aggregation(asked)).identity()


REFUSED = [
    ("SELECT AVG(n) FROM (SELECT patient, region, COUNT(*) AS n FROM visits GROUP BY patient, region)", "alone"),
    ("SELECT AVG(n) FROM (SELECT patient, region, COUNT(*) AS n FROM visits GROUP BY patient)", r"MAX\(region\)"),
    ("SELECT AVG(n) FROM (SELECT patient, FIRST(region) AS r FROM visits GROUP BY patient)", "FIRST.* ORDER BY t"),
    (
        "SELECT AVG(n) FROM (SELECT patient, FIRST(region ORDER BY day, cost) AS r FROM visits GROUP BY patient)",
        "one column",
    ),
    ("SELECT AVG(n) FROM (SELECT patient, COUNT(*) FROM visits GROUP BY patient)", "needs a name"),
    (
        "SELECT AVG(n) FROM (SELECT patient, CORR(cost, cost) AS n FROM visits GROUP BY patient)",
        "CORR is not computed for one unit",
    ),
    ("SELECT AVG(n) FROM (SELECT * FROM visits GROUP BY patient)", r"SELECT \*"),
    ("SELECT AVG(n) FROM (SELECT patient, SUM(DISTINCT cost) AS n FROM visits GROUP BY patient)", "without DISTINCT"),
    (
        "SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient HAVING patient = 'x')",
        "filter rows",
    ),
    ("SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n, SUM(cost) AS n FROM visits GROUP BY patient)", "two columns"),
    ("SELECT AVG(n) FROM (SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind)", "'patient'.*not by 'kind'"),
    ("SELECT COUNT(*) FROM (SELECT patient FROM (SELECT patient FROM visits GROUP BY 1) GROUP BY patient)", "already"),
    (
        "SELECT AVG(n) FROM (SELECT patient, MAX(patient) AS n FROM visits GROUP BY patient LIMIT 3)",
        "LIMIT is not supported",
    ),
]


@pytest.mark.parametrize(("text", "match"), REFUSED, ids=[t[0][20:80] for t in REFUSED])
def test_what_is_no_row_a_unit_is_refused(text: str, match: str) -> None:
    with pytest.raises(QuestionRefused, match=match):
        bind(parse(text))


def test_columns_of_the_rows_are_gone_after_per_unit() -> None:
    with pytest.raises(UnknownName, match="'cost' is not declared"):
        bind(TOTAL.agg(sd.mean("cost")))
    with pytest.raises(UnknownName, match="'cost' is not declared"):
        bind(parse("SELECT AVG(cost) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)"))


def test_a_row_that_is_its_own_unit_has_no_values_of_a_unit() -> None:
    with pytest.raises(QuestionRefused, match="each row is a unit of its own"):
        bind(TOTAL.agg(sd.count()), unit=None)


@pytest.mark.parametrize("value", [sd.quantile("cost", "0.9"), sd.std("cost"), sd.iqr("cost")])
def test_other_aggregates_are_not_computed_for_one_person(value: Any) -> None:
    with pytest.raises(QuestionRefused, match="is not computed for one person"):
        S.per_unit(v=value)


def test_names_that_sql_could_not_tell_apart_are_refused() -> None:
    for named in ({"patient": sd.count()}, {"N": sd.count(), "n": sd.sum("cost")}, {"sordino_1_": sd.count()}):
        with pytest.raises(QuestionRefused, match="per_unit"):
            bind(S.per_unit(**named).agg(sd.count()))
