"""Whether a project was held against its data: `check` calls it sound, and answers lose their note, only after that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from protecting import protect
from sordino.ask.curator.connect import NEVER_COMPARED
from sordino.ask.curator.project_check import compare_project
from sordino.ask.project.load import load_project

PROJECT = """
[budgets.b]
cap = {{ epsilon = 100 }}
ledger = "{upper}.ledger"

[tables.stays]
source = "{source}"
csv = {{ header = true }}
neighbors = "add_remove"
privacy_unit = "row"
budget = "b"

[tables.stays.columns]
age = {{ type = "integer", lower = 0, upper = {upper} }}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def write(*, source: str = "stays.csv", upper: int = 100, cells: str = "30,5\n40 years\n") -> Path:
        (tmp_path / source).write_text("age\n" + cells)
        path = tmp_path / "sordino.toml"
        path.write_text(PROJECT.format(source=source, upper=upper))
        return path

    return write


def notes(path: Path) -> tuple[str, ...]:
    connection = sd.connect(path)
    try:
        return connection.table().ask(sd.count(), epsilon="0.1").notes
    finally:
        connection.table().close()


def test_check_calls_a_project_sound_only_after_the_data_were_compared(
    project: Callable[..., Path], run: Callable[..., Any]
) -> None:
    path = project()
    before = run("check").out
    assert "is sound" not in before
    assert "never compared with the data: stays" in before
    assert json.loads(run("check", "--format", "json").out)["compared"] == {"stays": None}
    assert NEVER_COMPARED in notes(path)
    compared = run("check", "--against-data")
    assert "is sound" in compared.out
    assert "cannot be read as integer" in compared.out
    after = run("check").out
    assert "is sound" in after
    assert "compared with the data: stays on 20" in after
    assert NEVER_COMPARED not in notes(path)


@pytest.mark.each(2)
@pytest.mark.parametrize("cells", ["1\n2\n", "x\ny\n", "", "9999\n"])
def test_what_is_remembered_does_not_depend_on_what_was_found(
    cells: str, project: Callable[..., Path], tmp_path: Path
) -> None:
    compare_project(load_project(project(cells=cells)))
    [record] = (tmp_path / "state" / "compared").iterdir()
    assert set(json.loads(record.read_text())) == {"table", "compared"}
    assert NEVER_COMPARED not in notes(tmp_path / "sordino.toml")


@pytest.mark.each(2)
@pytest.mark.parametrize("changed", [{"upper": 120}, {"source": "other.csv"}])
def test_it_holds_for_the_source_and_the_declaration_as_they_were(
    changed: dict[str, object], project: Callable[..., Path]
) -> None:
    compare_project(load_project(project()))
    path = project(**changed)
    assert NEVER_COMPARED in notes(path)
    assert NEVER_COMPARED not in notes(project())


def test_a_stored_answer_keeps_its_note_and_python_code_gets_none(project: Callable[..., Path]) -> None:
    path = project()
    people = sd.connect(path).table()
    first = people.ask(sd.count(), epsilon="0.1", request_id="r")
    compare_project(load_project(path))
    assert people.ask(sd.count(), epsilon="0.1", request_id="r") == first
    assert NEVER_COMPARED not in people.ask(sd.count(), epsilon="0.1").notes
    protected = protect("stays.csv", sd.Domain({"age": sd.Integer(0, 100)}), csv=sd.Csv(header=True))
    assert protected.ask(sd.count(), epsilon=1).notes == ()


def test_a_place_that_cannot_be_written_is_said(
    project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "file"))
    with pytest.raises(sd.errors.SourceError, match="SORDINO_STATE"):
        compare_project(load_project(path))
