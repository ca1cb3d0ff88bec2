"""Practice on a made-up table: the whole question runs, nothing is charged, and no data is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect

DOMAIN = sd.Domain({"age": sd.Integer(0, 125), "job": sd.Category(["cook", "nurse"]), "person": sd.Identifier()})
QUESTIONS: list[Any] = [
    sd.count(),
    sd.mean("age"),
    sd.median("age"),
    sd.most_common("job"),
    sd.smooth("median", "age"),
    sd.sum("age") / sd.count(),
    sd.sql("SELECT job, AVG(age) AS m FROM people GROUP BY job HAVING COUNT(*) > 10"),
]


def empty_table() -> Any:
    table = pa.table(
        {"age": pa.array([], pa.int64()), "job": pa.array([], pa.string()), "person": pa.array([], pa.string())}
    )
    return protect(table, DOMAIN, budget=sd.PureDP(5), name="people")


@pytest.mark.each(2)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: type(q).__name__)
def test_a_question_runs_on_made_up_rows_and_is_not_charged(question: Any) -> None:
    people = empty_table()
    release = people.ask(question, epsilon=1, on="dummy")
    assert release.practice
    assert release.value is not None
    assert "DUMMY DATA" in str(release)
    assert "DUMMY DATA" in release._repr_html_()
    assert people.spent == sd.PureDP(0)
    assert people.releases() == []


def test_rows_are_made_up_and_not_those_of_the_table() -> None:
    people = empty_table()
    assert 900 < people.ask(sd.count(), epsilon=1, on="dummy").value < 1100
    assert people.ask(sd.count(), epsilon=4).value < 20


def test_no_data_is_read(tmp_path: Path) -> None:
    file = tmp_path / "people.parquet"
    pq.write_table(pa.table({"age": [30], "job": ["cook"], "person": ["a"]}), file)
    people = protect(file, DOMAIN, name="people")
    file.unlink()
    assert 900 < people.ask(sd.count(), epsilon=1, on="dummy").value < 1100
    with pytest.raises(sd.errors.SourceError):
        people.ask(sd.count(), epsilon=1)


def test_a_plan_and_a_batch_are_practised_too_and_units_have_several_rows() -> None:
    unit = sd.PrivacyUnit("person", max_rows=2)
    people = protect(pa.table({"age": [3], "job": ["cook"], "person": ["a"]}), DOMAIN, unit=unit, name="people")
    plan = people.plan(sd.count(), epsilon=1)
    assert 500 < people.ask(plan, on="dummy").value < 1000  # of three rows a person two count
    batch = people.plan([people.agg(sd.count()), people.group_by("job").agg(sd.count())], epsilon=1)
    assert [r.practice for r in people.ask(batch, on="dummy")] == [True, True]


def test_practice_is_stated_in_json_and_read_back() -> None:
    release = empty_table().ask(sd.count(), epsilon=1, on="dummy")
    data = release.to_dict()
    assert data["practice"] is True
    assert sd.Release.from_dict(data) == release
    assert "practice" not in empty_table().ask(sd.count(), epsilon=1).to_dict()


def test_another_word_than_data_or_dummy_is_refused() -> None:
    with pytest.raises(sd.errors.DeclarationError, match='on is "data" or "dummy"'):
        empty_table().ask(sd.count(), epsilon=1, on="test")
