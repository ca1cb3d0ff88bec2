"""The tours as notebooks: every cell runs and prints what its page shows, pictures show, no path of this machine is there.

A kernel takes as long as all of them, so `make test` runs them as doctests, and the deep tests build the notebooks.
"""

from __future__ import annotations

import doctest
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from places import ADULT, ROOT, needs_adult

TOURS = [page for page in sorted((ROOT / "docs" / "tour").glob("*.md")) if page.name != "README.md"]
MOST_BYTES = 800_000


def load_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_notebooks", ROOT / "scripts" / "build_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its data classes look their module up
    spec.loader.exec_module(module)
    return module


def list_outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook["cells"] if cell["cell_type"] == "code" for output in cell["outputs"]]


def build(target: Path, adult: Path) -> dict[str, Path]:
    """Build every tour in one kernel; `adult` is the file, or a path where there is none for the generated census."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SORDINO_ADULT", str(adult))
        written = load_builder().build_notebooks(TOURS, target)
    return {path.stem: path for path in written}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tours run once, on Adult where it is there; the build compares each output with its page, as doctest would."""
    return build(tmp_path_factory.mktemp("tours"), ADULT)


def list_tours() -> list[Any]:
    """Return the tours, those on Adult marked: they show its numbers, which a generated census has not."""
    return [
        pytest.param(page, id=page.stem, marks=[needs_adult] * ("load_adult" in page.read_text(encoding="utf-8")))
        for page in TOURS
    ]


@pytest.mark.parametrize("page", list_tours())
def test_a_tour_prints_what_its_page_shows(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SORDINO_ADULT", str(ADULT))
    ran = doctest.testfile(str(page), module_relative=False)
    assert ran.attempted > 10
    assert ran.failed == 0


@pytest.mark.deep
@pytest.mark.parametrize("page", TOURS, ids=lambda page: page.stem)
def test_a_tour_runs_as_a_notebook(page: Path, built: dict[str, Path]) -> None:
    text = built[page.stem].read_text(encoding="utf-8")
    notebook = json.loads(text)
    nbformat.validate(notebook)
    outputs = list_outputs(notebook)
    assert outputs
    refused = [output["evalue"] for output in outputs if output["output_type"] == "error"]
    assert len(refused) == page.read_text(encoding="utf-8").count("\nTraceback (most recent")
    pictures = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    assert len(pictures) == page.read_text(encoding="utf-8").count("\n<Picture ")
    assert pictures
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert "## Now on your own table" in text
    assert "%reset" not in text
    assert str(ROOT) not in text
    assert len(text) < MOST_BYTES


@pytest.mark.deep
def test_the_tours_run_without_adult(tmp_path: Path) -> None:
    assert len(build(tmp_path, tmp_path / "none.data")) == len(TOURS)


def run_cell(**output: Any) -> Any:
    """Return a notebook of one executed cell with this output."""
    words = {"source": "x", "metadata": {}, "execution_count": 1, "outputs": [output], "cell_type": "code", "id": "x"}
    plain = {"cells": [words], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    untyped: Any = nbformat
    return untyped.reads(json.dumps(plain), as_version=4)


def test_an_output_that_the_page_does_not_show_stops_the_build(tmp_path: Path) -> None:
    builder, page = load_builder(), tmp_path / "page.md"
    value = {"output_type": "execute_result", "data": {"text/plain": "2"}, "metadata": {}}
    page.write_text("```pycon\n>>> x\n2\n\n```\n", encoding="utf-8")
    builder.check_outputs(page, run_cell(**value))
    with pytest.raises(builder.WrongOutput, match="but printed\n3"):
        builder.check_outputs(page, run_cell(**{**value, "data": {"text/plain": "3"}}))
    error = {"output_type": "error", "ename": "KeyError", "evalue": "'x'", "traceback": []}
    with pytest.raises(builder.WrongOutput, match="KeyError"):
        builder.check_outputs(page, run_cell(**error))
    page.write_text(
        "```pycon\n>>> x\nTraceback (most recent call last):\n    ...\nKeyError: 'x'\n\n```\n", encoding="utf-8"
    )
    builder.check_outputs(page, run_cell(**error))
    with pytest.raises(builder.WrongOutput):
        builder.check_outputs(page, run_cell(**{**error, "evalue": "'y'"}))


@pytest.mark.deep
def test_a_failing_cell_stops_the_build(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("# Wrong\n\n```pycon\n>>> 1 / 0\n0\n\n```\n", encoding="utf-8")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        load_builder().build_notebooks([page], tmp_path)
    assert not (tmp_path / "wrong.ipynb").exists()


def test_a_cell_ends_where_the_page_shows_an_output() -> None:
    text = "# A\n\nSee [there](../b.md).\n\n```pycon\n>>> x = 1\n>>> x\n1\n>>> for i in range(2):\n...     y = i\n\n```\n\nEnd.\n"
    assert [(cell.source, cell.wanted) for cell in load_builder().split_page(text)] == [
        ("# A\n\nSee there.", None),
        ("x = 1\nx", "1\n"),
        ("for i in range(2):\n    y = i", ""),
        ("End.", None),
    ]
