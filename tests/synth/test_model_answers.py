"""A model's answer reads as a release does: the same columns, intervals and rendering, and it says that it is free."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from sordino import col, synth
from sordino.ask.queries.build import Selection
from sordino.core.release import Release
from sordino.errors import QuestionRefused, UnknownName
from sordino.reporting.release_text import table_lines
from sordino.synth.evaluation.evaluation import Evaluation
from synth.support import Source, small

DOMAIN, KEYS = small()


def fitted() -> synth.Model:
    source = Source(DOMAIN, KEYS, sd.Rng.seeded(1), sd.Neighbors("add_remove", None))
    return synth.fit(source, epsilon=5, delta="1e-9", rng=sd.Rng.seeded(2))


def test_a_model_answer_is_a_release_that_costs_nothing() -> None:
    answer = fitted().answer(Selection().group_by("job").agg(sd.count(), sd.mean("age")))
    assert isinstance(answer, Release)
    assert answer.cost == sd.PureDP(0)
    assert [answer.event.pure(), answer.event.rho()] == [0, 0]
    assert answer.charge == "c-1"  # what paid for the model
    assert (answer.neighbors, answer.privacy_unit, answer.table_name) == ("add_remove", "one row", "test")
    assert not answer.private  # the model's noise was seeded
    assert "NOT PRIVATE" in answer.summary()
    assert [answer.to_dict()[name] for name in ("cost", "spent", "remaining")] == [{"epsilon": 0}, None, None]
    back = Release.from_dict(json.loads(answer.to_json()))
    assert back == answer
    assert answer.to_dict().keys() >= {"from", "question", "kind", "confidence", "notes", "rows", "intervals", "paid"}
    assert any("on average" in remark for remark in answer.remarks)
    assert "free" in sd.plot(answer).chart.to_json()


@pytest.mark.deep
def test_a_model_answer_is_rendered_as_a_release() -> None:
    answer = fitted().answer(Selection().group_by("job").agg(sd.count(), sd.mean("age")))
    assert answer.columns == ("job", "count", "mean_age")
    ends, errors = answer.interval(0.9), answer.error(0.9)
    for output in answer.outputs:
        pairs = list(zip(*(ends[f"{output.name}_{side}"].to_pylist() for side in ("lower", "upper")), strict=True))
        assert output.estimate.intervals(0.9) == pairs
        assert output.estimate.errors(0.9) == errors[output.name].to_pylist()
    lines = table_lines(answer, confidence=0.9)
    assert len(lines) == 1 + 4
    assert lines[0].count("90% interval") == 2
    table = answer.to_arrow(intervals=True, confidence=0.9)
    assert table.column_names[:4] == ["job", "count", "count_lower", "count_upper"]
    assert table["count_lower"].to_pylist() == ends["count_lower"].to_pylist()


def test_a_model_answers_sql_and_what_is_done_to_the_answer() -> None:
    model = fitted()
    text = "SELECT COUNT(*) AS n, job FROM {} WHERE age > 20 GROUP BY job HAVING COUNT(*) > 100 ORDER BY n DESC LIMIT 2"
    made = model.answer(sd.sql(text.format("test")))
    assert made == model.answer(sd.sql(text.format("model")))
    assert made.columns == ("n", "job")
    whole = model.answer(sd.sql("SELECT job, COUNT(*) AS n FROM test WHERE age > 20 GROUP BY job"))
    largest = sorted((row for row in whole.value if row["n"] > 100), key=lambda row: -row["n"])[:2]
    assert made.value == [{"n": row["n"], "job": row["job"]} for row in largest]
    written = Selection().where(col("age") > 20).group_by("job").agg(n=sd.count()).having(col("n") > 100)
    assert model.answer(written.order_by(-col("n")).limit(2)).table["n"].to_pylist() == made.table["n"].to_pylist()
    with pytest.raises(UnknownName, match="'other'"):
        model.answer(sd.sql("SELECT COUNT(*) FROM other"))
    with pytest.raises(QuestionRefused, match="leave out joins, samples"):
        model.answer(Selection().sample("0.1").agg(sd.count()))


def test_a_model_answers_formulas_and_functions_of_a_row() -> None:
    model = fitted()

    def rows(text: str) -> list[dict[str, Any]]:
        return model.answer(sd.sql(text)).rows

    n = rows("SELECT COUNT(*) AS n FROM model")[0]["n"]
    total = rows("SELECT SUM(age) AS s, COUNT(age) AS n FROM model")[0]
    quotient = model.answer(sd.sql("SELECT SUM(age) / COUNT(age) AS r, 'x' AS k, COUNT(age) AS n FROM model"))
    assert quotient.rows == [{"r": pytest.approx(total["s"] / total["n"]), "k": "x", "n": total["n"]}]
    by_job = {r["job"]: r["n"] for r in rows("SELECT job, COUNT(*) AS n FROM model GROUP BY job")}
    first = next(job for job in by_job if isinstance(job, str))
    assert rows(f"SELECT COUNT(*) AS n FROM model WHERE job LIKE '{first}'")[0]["n"] == pytest.approx(by_job[first])
    assert rows(f"SELECT COUNT(*) AS n FROM model WHERE UPPER(job) = '{first.upper()}'")[0]["n"] == pytest.approx(
        by_job[first]
    )
    upper = {r["u"]: r["n"] for r in rows("SELECT UPPER(job) AS u, COUNT(*) AS n FROM model GROUP BY UPPER(job)")}
    assert upper == pytest.approx({None if j is None else j.upper(): v for j, v in by_job.items()})
    half = rows("SELECT SUM(age / 2) AS s FROM model")[0]["s"]
    assert half == pytest.approx(total["s"] / 2)
    long = rows(f"SELECT COUNT(*) AS n FROM model WHERE LENGTH(job) = {len(first)}")[0]["n"]
    assert 0 < long <= n * (1 + 1e-9)
    found = rows(f"SELECT COUNT(*) AS n FROM model WHERE STRPOS(job, '{first}') > 0")[0]["n"]
    assert found == pytest.approx(by_job[first])
    with pytest.raises(QuestionRefused, match="a model does not compute to_whole"):
        rows("SELECT COUNT(*) AS n FROM model WHERE CAST(age / 2 AS INTEGER) > 30")


def test_answers_and_evaluations_print_and_show_as_tables() -> None:
    model = fitted()
    answer = model.answer(Selection().group_by("job").agg(sd.count()))
    text, page = str(answer), answer._repr_html_()
    for word in ("job", "95% interval", "desk", "free"):
        assert word in text
        assert word in page
    assert page.count("<tr>") == 1 + 4
    assert answer.to_dict()["rows"][0].keys() == {"job", "count"}
    single = model.answer(Selection().agg(sd.count()))
    assert "95% interval" in str(single)
    source = Source(DOMAIN, KEYS, sd.Rng.seeded(3), sd.Neighbors("add_remove", None))
    made = synth.evaluate(model, against=source, epsilon=1, rng=sd.Rng.seeded(4))
    assert isinstance(made, Evaluation)
    for word in ("distance over", "2 columns", "floor", "epsilon 1"):
        assert word in str(made)
        assert word in made._repr_html_()


@pytest.mark.deep
def test_a_model_shows_the_keys_that_its_condition_allows() -> None:
    model = fitted()
    every = model.answer(Selection().group_by("job", "age").agg(sd.count()))
    jobs = list(dict.fromkeys(row["job"] for row in every.rows))
    for chosen in ([jobs[0]], jobs[1:3], jobs):
        answer = model.answer(
            Selection().where(col("job").is_in(chosen)).group_by("job").agg(sd.count(), sd.mean("age"))
        )
        assert [row["job"] for row in answer.rows] == [job for job in jobs if job in chosen]
        assert all(len(output.estimate.intervals(0.95)) == len(chosen) for output in answer.outputs)
    # conditions on several columns allow pairs of keys, and the counts of those are as they were
    narrowed = (col("job") == jobs[0]) & (col("age") < 3) | (col("job") == jobs[1]) & (col("age") >= 8)
    pairs = model.answer(Selection().where(narrowed).group_by("job", "age").agg(sd.count()))
    shown = {(row["job"], row["age"]): row["count"] for row in pairs.rows}
    allowed = {
        (row["job"], row["age"]): row["count"]
        for row in every.rows
        if row["age"] is not None
        and ((row["job"] == jobs[0] and row["age"] < 3) or (row["job"] == jobs[1] and row["age"] >= 8))
    }
    assert allowed
    assert shown.keys() == allowed.keys()
    assert list(shown.values()) == pytest.approx(list(allowed.values()), rel=1e-6, abs=1e-6)
    nothing = model.answer(Selection().where(sd.col("age") > 10**6).group_by("job").agg(sd.count()))
    assert nothing.rows == []


def test_a_category_of_whole_numbers_is_compared_by_what_it_declares() -> None:
    """Its keys are places in the declaration: taken for numbers, 3 before 1 would be less than it. Texts have none."""
    rows = [(3, 0), (1, 2), (2, 2), (3, 5)] * 300
    table = pa.table({"grade": [grade for grade, _ in rows], "age": [age for _, age in rows], "town": ["a", "b"] * 600})
    domain = sd.Domain(
        {
            "grade": sd.Category([3, 1, 2]),
            "age": sd.Integer(0, 5),
            "town": sd.Category(["b", "a"]),
            "home": sd.Category(["a", "b"]),
        }
    )
    table = table.append_column("home", table["town"])
    people = sd.protect(
        table,
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10**9),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    model = synth.fit(people, columns=["grade", "age"], epsilon=10**6)
    for condition, count in (
        ("grade <= age", 900),
        ("age < grade", 300),
        ("grade = age", 300),
    ):
        question = sd.sql(f"SELECT COUNT(*) AS n FROM data WHERE {condition}")
        assert people.ask(question, epsilon=10**6).value == count, condition
        assert model.answer(question).value == pytest.approx(count, abs=1), condition
    texts = synth.fit(people, columns=["town", "home"], epsilon=10**6)
    for condition in ("town = home", "town > 'a'", "town < home"):
        with pytest.raises(QuestionRefused):
            texts.answer(sd.sql(f"SELECT COUNT(*) AS n FROM data WHERE {condition}"))
