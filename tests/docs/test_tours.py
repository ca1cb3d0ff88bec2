"""The tours as notebooks: each page becomes one, every cell runs, pictures show, and no path of this machine is in it."""

from __future__ import annotations

import doctest
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from places import ADULT, ROOT, needs_adult

TOURS = [page for page in sorted((ROOT / "docs" / "tour").glob("*.md")) if page.name != "README.md"]
MOST_BYTES = 600_000


def load_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_notebooks", ROOT / "scripts" / "build_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def list_outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook["cells"] if cell["cell_type"] == "code" for output in cell["outputs"]]


@pytest.mark.parametrize("page", TOURS, ids=lambda page: page.stem)
def test_a_tour_runs_as_a_notebook(page: Path, tmp_path: Path) -> None:
    (path,) = load_builder().build_notebooks([page], tmp_path)
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    nbformat.validate(notebook)
    outputs = list_outputs(notebook)
    assert outputs
    refused = [output["evalue"] for output in outputs if output["output_type"] == "error"]
    assert len(refused) == page.read_text(encoding="utf-8").count("\nTraceback (most recent")
    pictures = [output for output in outputs if "image/svg+xml" in output.get("data", {})]
    assert len(pictures) == page.read_text(encoding="utf-8").count("\n<Picture ")
    assert pictures
    assert "## Now on your own table" in text
    assert str(ROOT) not in text
    assert len(text) < MOST_BYTES


@needs_adult
def test_the_textbooks_figures_come_out_on_adult(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SORDINO_ADULT", str(ADULT))
    failed, tried = doctest.testfile(str(ROOT / "docs" / "tour" / "counting-to-clipping.md"), module_relative=False)
    assert tried > 30
    assert failed == 0


def test_a_failing_cell_stops_the_build(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("# Wrong\n\n```pycon\n>>> 1 / 0\n0\n\n```\n", encoding="utf-8")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        load_builder().build_notebooks([page], tmp_path)
    assert not (tmp_path / "wrong.ipynb").exists()


def test_a_cell_ends_where_the_page_shows_an_output() -> None:
    text = "# A\n\nSee [there](../b.md).\n\n```pycon\n>>> x = 1\n>>> x\n1\n>>> for i in range(2):\n...     y = i\n\n```\n\nEnd.\n"
    assert load_builder().split_page(text) == [
        ("markdown", "# A\n\nSee there."),
        ("code", "x = 1\nx"),
        ("code", "for i in range(2):\n    y = i"),
        ("markdown", "End."),
    ]
