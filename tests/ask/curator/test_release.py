"""Release: all that leaves - its shapes, its JSON, and that it comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

import sordino as sd
from ask.curator.support import QUESTIONS, S, curator
from sordino import col
from sordino.core.release import Release
from sordino.errors import DeclarationError

KEYS = {"schema", "question", "columns", "rows", "errors", "intervals", "mechanism", "cost", "spent", "remaining"}
KEYS |= {"neighbors", "privacy_unit", "charge", "declaration"}


@pytest.mark.each(15)
@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("asked", [{"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-5}], ids=str)
def test_round_trip_and_json(name: str, asked: dict[str, Any]) -> None:
    people = curator(budget=sd.ApproxDP(100, 0.1))
    release = people.ask(QUESTIONS[name], **asked)
    data = json.loads(release.to_json())
    back = Release.from_dict(data)
    assert back == release
    assert back.to_dict() == release.to_dict() == data
    assert set(data) >= KEYS
    for part in ("rows", "errors", "intervals"):
        assert [list(r) for r in data[part]] == [data["columns"]] * len(data["rows"])
    for i, row in enumerate(data["rows"]):
        for output in (o.name for o in release.outputs):
            low, high = data["intervals"][i][output]
            assert low <= high
            assert data["errors"][i][output] >= 0
            if release.outputs[0].estimate.to_dict()["kind"] == "ratio":
                assert low <= row[output] <= high
    assert release.to_pandas().shape == release.to_polars().shape == (len(data["rows"]), len(data["columns"]))
    assert release.table.column_names == data["columns"]
    assert "<table>" in release._repr_html_()
    assert data["charge"] in repr(release)


def test_value_of_one_number_of_several_and_of_groups() -> None:
    people = curator()
    one, several = people.ask(sd.count(), epsilon=1), people.ask([sd.count(), sd.sum("age")], epsilon=1)
    assert isinstance(one.value, int)
    assert isinstance(people.ask(sd.mean("age"), epsilon=1).value, float)
    assert list(several.value) == ["count", "sum_age"]
    assert list(several.error(0.95)) == ["count", "sum_age"]
    assert several.interval(0.95).column_names == ["count_lower", "count_upper", "sum_age_lower", "sum_age_upper"]
    low, high = one.interval(0.95)
    assert low <= one.value <= high
    groups = people.ask(S.group_by("occ").agg(sd.count().alias("n")), epsilon=1)
    assert [r["occ"] for r in groups.value] == ["Sales", "Tech", None]
    assert groups.interval(0.9).column_names == ["occ", "n_lower", "n_upper"]
    assert groups.error(0.9).column_names == ["occ", "n"]


def test_every_declared_key_appears_also_where_no_row_has_it() -> None:
    people = curator()
    release = people.ask(
        S.where(col("age") > 99).group_by("occ", col("age").bin([0, 50, 100])).agg(sd.count()), epsilon=1
    )
    assert len(release.rows) == 3
    assert {r["age"] for r in release.rows} == {"[50, 100]"}, "no row of the question is in the other bin"
    whole = people.ask(S.group_by("occ", col("age").bin([0, 50, 100])).agg(sd.count()), epsilon=1)
    assert len(whole.rows) == 6


@pytest.mark.deep
@pytest.mark.parametrize("confidence", [0, 1, -1, 2, float("nan"), True, "x"])
def test_confidence_lies_between_0_and_1(confidence: Any) -> None:
    release = curator().ask(sd.count(), epsilon=1)
    with pytest.raises(DeclarationError, match="confidence"):
        release.interval(confidence)
    with pytest.raises(DeclarationError, match="confidence"):
        release.error(confidence)


def test_another_schema_is_refused() -> None:
    data = curator().ask(sd.count(), epsilon=1).to_dict()
    with pytest.raises(DeclarationError, match="schema"):
        Release.from_dict({**data, "schema": 99})
