"""Questions of other tutorials as they are asked in Python here: each agrees with the SQL beside it in plain DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

import sordino as sd
from ask.queries.sql.peer_tables import open_table
from ask.queries.sql.test_peers import Peer, compare
from sordino import col
from sordino.ask.queries.build import Selection

S = Selection()
ADULT: list[tuple[Any, str]] = [
    (sd.count(), "SELECT COUNT(*) AS n FROM adult"),
    (sd.count("workclass"), "SELECT COUNT(workclass) FROM adult"),
    (sd.sum("capital_gain"), "SELECT SUM(capital_gain) FROM adult"),
    (sd.mean("age"), "SELECT AVG(age) FROM adult"),
    (sd.median("age"), "SELECT MEDIAN(age) FROM adult"),
    (sd.quantile("hours_per_week", 0.9), "SELECT QUANTILE_CONT(hours_per_week, 0.9) FROM adult"),
    (sd.variance("age"), "SELECT VAR_POP(age) FROM adult"),
    (sd.variance("age", ddof=1), "SELECT VAR_SAMP(age) FROM adult"),
    (sd.std("hours_per_week", ddof=1), "SELECT STDDEV(hours_per_week) FROM adult"),
    (sd.correlation("age", "hours_per_week"), "SELECT CORR(age, hours_per_week) FROM adult"),
    (sd.covariance("age", "education_num"), "SELECT COVAR_POP(age, education_num) FROM adult"),
    (sd.count_distinct("occupation"), "SELECT COUNT(DISTINCT occupation) FROM adult"),
    ([sd.count(), sd.mean("age")], "SELECT COUNT(*), AVG(age) FROM adult"),
    (sd.sum(col("capital_gain").clip(0, 5000)), "SELECT SUM(CLIP(capital_gain, 0, 5000)) FROM adult"),
    (sd.mean(col("capital_gain") - col("capital_loss")), "SELECT AVG(capital_gain - capital_loss) FROM adult"),
    (sd.sum(col("age") > 40), "SELECT SUM(CAST(age > 40 AS INT)) FROM adult"),
    (sd.mean(col("income") == ">50K"), "SELECT AVG(CAST(income = '>50K' AS INT)) FROM adult"),
    (sd.sum((col("sex") == "Male") * col("age")), "SELECT SUM(CAST(sex = 'Male' AS INT) * age) FROM adult"),
    (sd.sum(col("hours_per_week") * 52), "SELECT SUM(hours_per_week * 52) FROM adult"),
    (sd.mean(col("age") / 10), "SELECT AVG(age / 10) FROM adult"),
    (sd.mean((col("age") / 10).floor()), "SELECT AVG(FLOOR(age / 10)) FROM adult"),
    (sd.mean(col("capital_gain").sqrt()), "SELECT AVG(SQRT(capital_gain)) FROM adult"),
    (sd.mean((col("capital_gain") + 1).ln()), "SELECT AVG(LN(capital_gain + 1)) FROM adult"),
    (sd.sum("capital_gain") / sd.count(), "SELECT SUM(capital_gain) / COUNT(*) FROM adult"),
    (
        (100 * sd.count("occupation") / sd.count()).round(1),
        "SELECT ROUND(100.0 * COUNT(occupation) / COUNT(*), 1) FROM adult",
    ),
    (sd.variance("age").sqrt(), "SELECT SQRT(VAR_POP(age)) FROM adult"),
    (abs(sd.sum("age") - 80_000), "SELECT ABS(SUM(age) - 80000) FROM adult"),
    (S.where(col("age") > 40).agg(sd.count()), "SELECT COUNT(*) FROM adult WHERE age > 40"),
    (
        S.where((col("age") > 40) & ~(col("sex") == "Male")).agg(sd.count()),
        "SELECT COUNT(*) FROM adult WHERE age > 40 AND NOT sex = 'Male'",
    ),
    (
        S.where(col("occupation").is_in(["Sales"]) | col("age").is_between(20, 30)).agg(sd.count()),
        "SELECT COUNT(*) FROM adult WHERE occupation IN ('Sales') OR age BETWEEN 20 AND 30",
    ),
    (S.where(col("workclass").is_null()).agg(sd.count()), "SELECT COUNT(*) FROM adult WHERE workclass IS NULL"),
    (S.where(col("education").like("%s%")).agg(sd.count()), "SELECT COUNT(*) FROM adult WHERE education LIKE '%s%'"),
    (
        S.where(col("education").matches("^M")).agg(sd.count()),
        "SELECT COUNT(*) FROM adult WHERE REGEXP_MATCHES(education, '^M')",
    ),
    (S.group_by("sex").agg(sd.count()), "SELECT sex, COUNT(*) FROM adult GROUP BY sex"),
    (
        S.group_by("sex", "income").agg(n=sd.count(), age=sd.mean("age")),
        "SELECT sex, income, COUNT(*), AVG(age) FROM adult GROUP BY sex, income",
    ),
    (S.group_by(col("age") > 60).agg(sd.count()), "SELECT age > 60, COUNT(*) FROM adult GROUP BY 1"),
    (
        S.group_by(decade=(col("age") / 10).floor() * 10).agg(sd.count()),
        "SELECT FLOOR(age / 10) * 10, COUNT(*) FROM adult GROUP BY 1",
    ),
    (
        S.group_by(col("education").upper()).agg(sd.mean("age")),
        "SELECT UPPER(education), AVG(age) FROM adult GROUP BY 1",
    ),
    (
        S.group_by(sd.when(col("age") < 30, "young").otherwise("old")).agg(sd.count()),
        "SELECT CASE WHEN age < 30 THEN 'young' ELSE 'old' END, COUNT(*) FROM adult GROUP BY 1",
    ),
    (
        S.group_by(sd.when(col("workclass").is_null(), "none").otherwise(col("workclass"))).agg(sd.count()),
        "SELECT COALESCE(workclass, 'none'), COUNT(*) FROM adult GROUP BY 1",
    ),
    (
        S.group_by("education").agg(n=sd.count()).having(col("n") > 100).order_by(-col("n")),
        "SELECT education, COUNT(*) AS n FROM adult GROUP BY education HAVING COUNT(*) > 100",
    ),
    (
        S.group_by("education").agg(n=sd.count()).order_by("education").limit(2, offset=1),
        "SELECT education, COUNT(*) AS n FROM adult GROUP BY education ORDER BY education LIMIT 2 OFFSET 1",
    ),
    (S.group_by("race").agg(sd.median("age")), "SELECT race, MEDIAN(age) FROM adult GROUP BY race"),
    (
        S.group_by("race").agg(sd.std("age", ddof=1), sd.variance("age")),
        "SELECT race, STDDEV(age), VAR_POP(age) FROM adult GROUP BY race",
    ),
    (
        S.group_by("sex").agg(share=sd.sum(col("income") == ">50K") / sd.count()),
        "SELECT sex, SUM(CAST(income = '>50K' AS INT)) / COUNT(*) FROM adult GROUP BY sex",
    ),
]
OTHERS: list[tuple[str, Any, str]] = [
    ("restaurant", sd.count_distinct("visitor_id"), "SELECT COUNT(DISTINCT visitor_id) FROM restaurant"),
    (
        "restaurant",
        S.group_by("hour_entered").agg(sd.count()),
        "SELECT hour_entered, COUNT(*) FROM restaurant GROUP BY hour_entered",
    ),
    (
        "restaurant",
        S.group_by("weekday").agg(sd.sum("money_spent")),
        "SELECT weekday, SUM(money_spent) FROM restaurant GROUP BY weekday",
    ),
    (
        "restaurant",
        S.group_by("weekday").agg(sd.mean(col("money_spent").clip(0, 50))),
        "SELECT weekday, AVG(CLIP(money_spent, 0, 50)) FROM restaurant GROUP BY weekday",
    ),
    (
        "restaurant",
        S.group_by("weekday").agg(sd.count_distinct("visitor_id")),
        "SELECT weekday, COUNT(DISTINCT visitor_id) FROM restaurant GROUP BY weekday",
    ),
    ("members", S.where(col("age") < 18).agg(sd.count()), "SELECT COUNT(*) FROM members WHERE age < 18"),
    (
        "members",
        S.group_by("favorite_genre", "education_level").agg(sd.mean("books_borrowed")),
        "SELECT favorite_genre, education_level, AVG(books_borrowed) FROM members GROUP BY 1, 2",
    ),
    (
        "members",
        S.group_by("zip_code").agg(sd.count()),
        "SELECT zip_code, COUNT(*) AS n FROM members GROUP BY zip_code",
    ),
    (
        "members",
        S.group_by(col("date_joined").year()).agg(sd.count()),
        "SELECT YEAR(date_joined), COUNT(*) FROM members GROUP BY 1",
    ),
    (
        "ratings",
        S.group_by("movie_id").agg(sd.count(), sd.sum("rating")),
        "SELECT movie_id, COUNT(*), SUM(rating) FROM ratings GROUP BY movie_id",
    ),
    ("ratings", S.group_by("rating").agg(sd.count()), "SELECT rating, COUNT(*) FROM ratings GROUP BY rating"),
    (
        "grades",
        S.group_by("class_year").agg(sd.mean("grade"), sd.count()),
        "SELECT class_year, AVG(grade), COUNT(*) FROM grades GROUP BY class_year",
    ),
    (
        "visits",
        S.per_unit(sd.count().alias("n")).agg(sd.mean(col("n").clip(0, 5))),
        "SELECT AVG(n) FROM (SELECT patient_id, CLIP(COUNT(*), 0, 5) AS n FROM visits GROUP BY patient_id)",
    ),
    (
        "visits",
        S.where(col("diagnosis").like("id00%")).agg(sd.count_distinct("patient_id")),
        "SELECT COUNT(DISTINCT patient_id) FROM visits WHERE diagnosis LIKE 'id00%'",
    ),
    (
        "events",
        sd.count_distinct(sd.when(col("event_name") == "purchase", col("user_id")).otherwise(None)),
        "SELECT COUNT(DISTINCT user_id) FILTER (WHERE event_name = 'purchase') FROM events",
    ),
    (
        "flights",
        S.join("airlines", on="carrier").group_by("alliance").agg(sd.mean("arr_delay")),
        "SELECT alliance, AVG(arr_delay) FROM flights JOIN airlines USING (carrier) GROUP BY alliance",
    ),
]
ALL = [("adult", *pair) for pair in ADULT] + OTHERS


@pytest.mark.each(9)
@pytest.mark.parametrize(("table", "question", "text"), ALL, ids=[text[:90] for _, _, text in ALL])
def test_a_question_in_python_is_answered_as_duckdb_does(table: str, question: Any, text: str) -> None:
    release = open_table(table).ask(question, epsilon=10_000, delta="1e-6")
    compare(release, Peer("", text, table, None, None))
