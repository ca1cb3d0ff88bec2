"""Each example of the page that `sordino sql` prints is read and priced."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import sordino as sd
from protecting import protect
from sordino.ask.queries.sql import dialects, time_functions, values
from sordino.ask.queries.sql.grammar import (
    AGGREGATE_FORMS,
    AROUND,
    CLAUSE_FORMS,
    ROW_FORMS,
    TIME_FORMS,
    page,
    row_forms,
)
from sordino.ask.queries.sql.text import parse_select

_DIALECTS = {"SafeDivide": "bigquery", "RawString": "bigquery", "National": "tsql"}


@pytest.fixture(scope="module")
def tables() -> dict[str, sd.Curator]:
    jobs = sd.Category(["nurse", "cook"], missing="keep")
    domain = sd.Domain(
        {
            "age": sd.Integer(0, 125),
            "pay": sd.Integer(0, 90_000),
            "job": jobs,
            "member": sd.Boolean(),
            "joined": sd.Date("2000-01-01", "2020-12-31"),
            "seen": sd.DateTime("2000-01-01", "2020-12-31", zone="Europe/Berlin"),
            "town": sd.Identifier(),
            "tags": sd.List(sd.Category(["a", "b"]), max_items=3),
        }
    )
    sectors = pa.table({"job": ["nurse", "cook"], "sector": ["care", "food"]})
    public = {
        "jobs": sd.public(sectors, key="job", columns=sd.Domain({"job": jobs, "sector": sd.Category(["care", "food"])}))
    }
    budget = sd.ApproxDP(10**6, "0.1")
    visits = sd.Domain({"id": sd.Identifier(), "day": sd.Date("2000-01-01", "2020-12-31")})
    unit = sd.PrivacyUnit("id", max_rows=5)
    return {
        "people": protect(sd.dummy(domain, rows=10), domain, public=public, budget=budget, name="people"),
        "visits": protect(sd.dummy(visits, rows=10), visits, unit=unit, budget=budget, name="visits"),
    }


def test_the_command_prints_the_page(capsys: Any) -> None:
    from sordino.cli.main import main

    assert main(["sql"]) == 0
    assert capsys.readouterr().out == page()
    assert max(len(line) for line in page().splitlines() if not line.startswith("|")) <= 140


def test_every_form_has_an_example_and_every_example_is_read() -> None:
    assert set(ROW_FORMS) == row_forms()
    assert set(TIME_FORMS) == set(time_functions.FORMS)
    assert set(AGGREGATE_FORMS) == set(values.AGGREGATES)
    assert set(dialects.NAMES.values()) - set(dialects.WORDS) <= {"LogicalAnd"}


@pytest.mark.each(6)
@pytest.mark.parametrize(("name", "form"), [(n, f) for n, (f, _) in (ROW_FORMS | TIME_FORMS).items()])
def test_a_form_of_a_row_is_priced(tables: dict[str, sd.Curator], name: str, form: str) -> None:
    text = (
        f"SELECT {form} AS b, COUNT(*) FROM people GROUP BY {form}"
        if name == "BIN"
        else f"SELECT COUNT({form}) FROM people"
    )
    dialect = _DIALECTS.get(name)
    assert tables["people"].plan(sd.sql(text, dialect=dialect), epsilon=1).cost.amounts()["epsilon"] == 1
    tree: Any = parse_select(text, dialect=dialect)
    found = {type(at).__name__ for at in tree.walk()} | {at.name.upper() for at in tree.find_all(exp.Anonymous)}
    assert name in found


@pytest.mark.deep
@pytest.mark.parametrize(("name", "form"), [(n, f) for n, (f, _) in AGGREGATE_FORMS.items()])
def test_an_aggregate_is_priced(tables: dict[str, sd.Curator], name: str, form: str) -> None:
    text = f"SELECT {form} FROM people"
    assert tables["people"].plan(sd.sql(text), epsilon=1).cost.amounts()["epsilon"] == 1
    assert name in {type(at).__name__ for at in parse_select(text).walk()}


@pytest.mark.each(6)
@pytest.mark.parametrize("example", [example for _, example, _ in CLAUSE_FORMS])
def test_a_question_is_priced(tables: dict[str, sd.Curator], example: str) -> None:
    table = tables["visits" if "visits" in example else "people"]
    assert table.plan(sd.sql(example), epsilon=1, delta=_delta(example)).cost.amounts()["epsilon"] > 0


def _delta(example: str) -> str | None:
    """Return the delta that private keys need; other questions take none."""
    return "1e-6" if "town," in example else None


@pytest.mark.each(4)
@pytest.mark.parametrize("text", AROUND)
def test_statements_around_questions_are_planned(tables: dict[str, sd.Curator], text: str) -> None:
    plan = tables["people"].plan(sd.sql(text.rstrip(";")), epsilon=1)
    said = "the groupings are one tabulation" if "ROLLUP" in text else "private question"
    assert any(said in note for note in plan.notes)
