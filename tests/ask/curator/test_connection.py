"""A connection's calls that need no data: tables and budgets by name, what was spent and released, amendments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from mistyping import mistype
from sordino.ask.curator.aggregation_procedure import plan_aggregation
from sordino.errors import BudgetExhausted, DeclarationError, UnknownName
from sordino.reporting import board

PROJECT = """
[budgets.people]
cap = {epsilon = 2.0}
ledger = "people.ledger"

[tables.people]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
[tables.people.columns]
age = {type = "integer", lower = 0, upper = 125}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"age": [20, 30, 40, 50] * 50}), tmp_path / "people.parquet")
    path = tmp_path / "sordino.toml"
    path.write_text(PROJECT)
    return path


def test_the_only_table_needs_no_name_and_sql_names_its_own(project: Path) -> None:
    connection = sd.connect(project)
    curator, question = connection.read_sql("SELECT COUNT(*) AS n FROM People WHERE age > 25")
    assert curator is connection.table() is connection.table("people")
    assert curator.ask(question, epsilon=1).value == pytest.approx(150, abs=40)
    with pytest.raises(UnknownName, match="did you mean 'people'"):
        connection.read_sql("SELECT COUNT(*) FROM peple")


def test_what_was_spent_and_released_is_read_without_the_data(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sd.connect(project)
    assert (connection.budgets()[0].charges, connection.budgets()[0].report) == (0, None)
    released = connection.table().ask(sd.count(), epsilon="1/2")
    (project.parent / "people.parquet").unlink()
    apart = sd.connect(project)
    (status,) = apart.budgets(tight_at="1e-6")
    assert (status.spent, status.remaining, status.answered) == (sd.PureDP("1/2"), sd.PureDP("3/2"), 1)
    assert status.tight is not None
    assert status.tight.epsilon <= 0.5
    assert apart.release("c-0001").to_dict() == released.to_dict()
    # Its words: pictures take half a second.
    monkeypatch.setattr(board, "svg_drawer", lambda: None)
    page = apart.report()
    assert "epsilon: 0.5 spent of 2, 1.5 left" in page
    assert "c-0001" in page
    with pytest.raises(UnknownName, match="c-0002"):
        apart.release("c-0002")


def test_a_changed_project_is_amended_with_its_reason(project: Path) -> None:
    sd.connect(project).table().ask(sd.count(), epsilon=1)
    project.write_text(PROJECT.replace("2.0", "3.0").replace("125", "120"))
    changed = sd.connect(project).amend(reason="the board raised the cap")
    assert changed == ["cap: epsilon 2 -> epsilon 3", "people.columns.age.upper: 125 -> 120"]
    assert sd.connect(project).table().remaining == sd.PureDP(2)


def test_several_need_a_name(project: Path) -> None:
    second = PROJECT.replace("people", "other")
    project.write_text(PROJECT + second)
    connection = sd.connect(project)
    with pytest.raises(DeclarationError, match=r"state table=\.\.\., one of people, other"):
        connection.table()
    with pytest.raises(DeclarationError, match=r"state budget=\.\.\., one of people, other"):
        connection.ledger()
    assert [status.budget.name for status in connection.budgets()] == ["people", "other"]


@pytest.mark.deep
def test_a_project_is_checked_by_its_file_sources_and_ledgers(project: Path) -> None:
    assert sd.check_project(project) == []
    sd.connect(project).table().ask(sd.count(), epsilon=1)
    project.write_text(PROJECT.replace("2.0", "3.0"))
    (project.parent / "people.parquet").unlink()
    found = sd.check_project(project)
    assert [p.key for p in found] == ["tables.people", "budgets.people.cap"]
    assert str(found[1]).startswith(f"{project}: budgets.people.cap: the ledger holds a cap of epsilon 2")
    project.write_text(PROJECT.replace("upper", "uper"))
    (misspelt,) = sd.check_project(project)
    assert (misspelt.line, misspelt.key) == (12, "tables.people.columns.age.uper")


TWO = (
    PROJECT
    + """
[budgets.others]
cap = {epsilon = 2.0}
ledger = "others.ledger"

[tables.visits]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"
columns.age = {type = "integer", lower = 0, upper = 125}

[tables.pets]
source = "people.parquet"
budget = "others"
neighbors = "add_remove"
privacy_unit = "row"
columns.age = {type = "integer", lower = 0, upper = 125}
"""
)


def test_a_batch_asks_several_tables_of_one_budget(project: Path) -> None:
    project.write_text(TWO)
    connection = sd.connect(project)
    several = sd.sql("SELECT COUNT(*) AS n FROM people; SELECT AVG(age) AS age FROM visits")
    batch = connection.plan(several, epsilon=1, weights={"n": 1, "age": 3})
    assert isinstance(batch, sd.Batch)
    assert [p.cost for p in batch.plans] == [sd.PureDP("1/4"), sd.PureDP("3/4")]
    answers = connection.ask(batch)
    assert isinstance(answers, list)
    assert [(a.table_name, a.cost) for a in answers] == [("people", sd.PureDP("1/4")), ("visits", sd.PureDP("3/4"))]
    assert connection.table("people").spent == sd.PureDP(1)
    with pytest.raises(BudgetExhausted, match="nothing was charged"):
        connection.ask(connection.plan(several, epsilon=3))
    assert connection.table("visits").spent == sd.PureDP(1)
    with pytest.raises(DeclarationError, match="these tables draw on people and others"):
        connection.plan(sd.sql("SELECT COUNT(*) AS n FROM people; SELECT COUNT(*) AS n FROM pets"), epsilon=1)
    with pytest.raises(DeclarationError, match="request id goes with one question"):
        connection.ask(batch, request_id="r")


def test_a_connection_plans_and_asks_the_table_that_the_sql_names(project: Path) -> None:
    connection = sd.connect(project)
    plan = connection.plan(sd.sql("SELECT COUNT(*) AS n FROM people;"), epsilon=1)
    assert isinstance(plan, sd.Plan)
    first, again = (connection.ask(plan, request_id="r") for _ in range(2))
    assert isinstance(first, sd.Release)
    assert isinstance(again, sd.Release)
    assert (first.charge, again.charge, first.value) == ("c-0001", "c-0001", again.value)


def test_sql_is_asked_directly_and_priced_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def count(*given: Any, **words: Any) -> Any:
        made.append(given)
        return plan_aggregation(*given, **words)

    monkeypatch.setattr("sordino.ask.curator.curator.plan_aggregation", count)
    connection = sd.connect(project)
    seen: list[sd.Plan] = []
    release = connection.ask(sd.sql("SELECT COUNT(*) AS n FROM people"), epsilon="0.1", confirm=seen.append)
    assert isinstance(release, sd.Release)
    assert (len(made), [p.cost for p in seen]) == (1, [sd.PureDP("0.1")])
    answers = connection.ask(
        sd.sql("SELECT COUNT(*) AS n FROM people; SELECT SUM(age) AS s FROM people"),
        epsilon="0.4",
        weights=[1, 3],
        confirm=seen.append,
    )
    assert isinstance(answers, list)
    assert [a.cost for a in answers] == [p.cost for p in seen[1:]] == [sd.PureDP("0.1"), sd.PureDP("0.3")]
    assert seen[1].earlier == (release.charge,)
    batch = connection.plan(sd.sql("SELECT COUNT(*) AS n FROM people; SELECT SUM(age) AS s FROM people"), epsilon="0.1")
    for wrong in ({"epsilon": 1}, {"share": "error"}, {"weights": [1, 3]}):
        with pytest.raises(DeclarationError, match="states its losses already"):
            connection.ask(batch, **mistype(wrong))
    assert connection.table().spent == sd.PureDP("0.5")


@pytest.mark.deep
def test_a_connection_plans_for_an_error_as_a_table_does(project: Path) -> None:
    connection = sd.connect(project)
    name = connection.table().name
    for text in (
        f"SELECT COUNT(*) AS n FROM {name}",
        f"SELECT COUNT(*) AS n FROM {name}; SELECT COUNT(*) AS m FROM {name}",
    ):
        errors = 5 if ";" not in text else [5, 9]
        batch = connection.plan(sd.sql(text), error=errors)
        own = connection.table().plan(sd.sql(text), error=errors)
        assert isinstance(batch, sd.Batch)
        assert [plan.cost for plan in batch.plans] == [plan.cost for plan in own.plans]
