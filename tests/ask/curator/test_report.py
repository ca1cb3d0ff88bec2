"""`sd.report`: the board's page as a call, of a path, a connection, or the project found from here."""

from __future__ import annotations

from pathlib import Path

import pytest

import sordino as sd
from sordino.datasets import write_census_project
from sordino.reporting import board


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SORDINO_STATE", str(tmp_path / "state"))
    made = write_census_project(tmp_path / "census", 500, sd.Rng.seeded(1))
    sd.connect(made).table("people").ask(sd.count(), epsilon=0.5)
    return made


def test_a_page_is_returned_and_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = sd.connect(project)
    page = sd.report(project, output=project.parent / "board.html")
    assert "the number of rows" in page
    assert (project.parent / "board.html").read_text(encoding="utf-8") == page
    monkeypatch.chdir(project.parent)
    # Drawn once: what is compared below are pages without pictures, which take most of the time of a page.
    monkeypatch.setattr(board, "svg_drawer", lambda: None)
    page = sd.report(project)
    for same in (sd.report(), sd.report(connection), connection.report(budget="people")):
        assert same == page


def test_a_budget_that_is_not_declared_is_refused(project: Path) -> None:
    with pytest.raises(sd.errors.UnknownName, match="people"):
        sd.report(project, budget="peple")


def test_the_name_stays_a_function_when_pictures_are_imported() -> None:
    import sordino.reporting.charts

    assert callable(sd.report)
    assert sd.plot is sordino.reporting.charts.plot
