"""Build the tours of docs/tour as notebooks in build/notebooks, executed, with their outputs and pictures.

`make notebooks` runs it. A page is Markdown with doctests: its text becomes text, each statement with an output a cell.
An output is what ran here, on Adult where it is there. A cell that fails stops the build.
"""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOURS = ROOT / "docs" / "tour"
BUILD = ROOT / "build" / "notebooks"

FENCE = re.compile(r"^```pycon\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)")


def split_page(text: str) -> list[tuple[str, str]]:
    """Return the cells of a page, ("markdown", "code" or "refused", source): a code cell ends where the page shows an output.

    >>> split_page("# One\\n\\n```pycon\\n>>> x = 1\\n>>> x\\n1\\n>>> x + 1\\n2\\n\\n```\\n")
    [('markdown', '# One'), ('code', 'x = 1\\nx'), ('code', 'x + 1')]
    """
    cells: list[tuple[str, str]] = []
    for place, part in enumerate(FENCE.split(text)):
        if place % 2 == 0:
            if part.strip():
                # a link to another page leads nowhere from a notebook
                cells.append(("markdown", LINK.sub(r"\1", part).strip()))
            continue
        waiting: list[str] = []
        for example in doctest.DocTestParser().get_examples(part):
            waiting.append(example.source.rstrip())
            if example.want:
                cells.append(("refused" if example.exc_msg else "code", "\n".join(waiting)))
                waiting = []
        if waiting:
            cells.append(("code", "\n".join(waiting)))
    return cells


def make_notebook(page: Path) -> Any:
    """Return the notebook of a page, without outputs."""
    import nbformat

    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for place, (kind, source) in enumerate(split_page(page.read_text(encoding="utf-8"))):
        new = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        notebook.cells.append(new(source, id=f"cell-{place}"))
        if kind == "refused":
            notebook.cells[-1].metadata["tags"] = ["raises-exception"]
    return notebook


def run_notebook(notebook: Any, place: Path) -> None:
    """Execute a notebook in the directory `place`; raises nbclient's CellExecutionError where a cell fails."""
    from nbclient import NotebookClient

    NotebookClient(notebook, timeout=120, kernel_name="python3", record_timing=False).execute(cwd=str(place))
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":  # the page shows it; its frames would name this machine's files
                output.traceback = [f"{output.ename}: {output.evalue}"]


def build_notebooks(pages: list[Path], target: Path) -> list[Path]:
    """Write the executed notebook of each page into `target`, and return where they are."""
    import nbformat

    target.mkdir(parents=True, exist_ok=True)
    written = []
    for page in pages:
        notebook = make_notebook(page)
        run_notebook(notebook, target)
        path = target / f"{page.stem}.ipynb"
        nbformat.write(notebook, path)
        written.append(path)
    return written


def list_tours() -> list[Path]:
    """Return the pages that are tours."""
    return [page for page in sorted(TOURS.glob("*.md")) if page.name != "README.md"]


if __name__ == "__main__":
    for path in build_notebooks(list_tours(), Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD):
        print(path)
