"""A connection's calls that need no data: tables and budgets by name, what was spent and released, amendments."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.errors import DeclarationError, UnknownName

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


def test_what_was_spent_and_released_is_read_without_the_data(project: Path) -> None:
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
