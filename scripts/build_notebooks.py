"""Build the tours of docs/tour as notebooks in build/notebooks, executed, with their outputs and pictures.

`make notebooks` runs it. A page is Markdown with doctests: its text becomes text, each statement with an output a cell.
An output is what ran here, on Adult where it is there, and must be what the page shows; without Adult the numbers of it may be
others. A cell that fails stops the build. One kernel runs all pages, its variables cleared before each.

`scripts/build_notebooks.py --write` puts what ran on Adult into the pages, where a page was changed; without Adult it is refused.
Paths of pages after it build those alone.
"""

from __future__ import annotations

import doctest
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOURS = ROOT / "docs" / "tour"
BUILD = ROOT / "build" / "notebooks"

FENCE = re.compile(r"^```pycon\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?%?")
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)]*)\)")

# Each value is shown, as Python's prompt shows it: whole, not rearranged.
CLEAR = """%reset -f
get_ipython().ast_node_interactivity = "all"
get_ipython().display_formatter.formatters["text/plain"].pprint = False"""


class WrongOutput(Exception):
    """A cell's output is not what its page shows."""


@dataclass(frozen=True)
class Cell:
    """Hold the source of a cell, the output that its page shows, and doctest's flags for comparing; text has neither."""

    source: str
    wanted: str | None = None
    flags: int = 0
    refused: bool = False


def split_page(text: str) -> list[Cell]:
    """Return the cells of a page: one of code ends where the page shows an output.

    >>> split_page("# One\\n\\n```pycon\\n>>> x = 1\\n>>> x\\n1\\n\\n```\\n")[1]
    Cell(source='x = 1\\nx', wanted='1\\n', flags=0, refused=False)
    """
    cells: list[Cell] = []
    for place, part in enumerate(FENCE.split(text)):
        if place % 2 == 0:
            if part.strip():
                # a link to another page leads nowhere from a notebook
                cells.append(Cell(LINK.sub(r"\1", part).strip()))
            continue
        waiting: list[str] = []
        for example in doctest.DocTestParser().get_examples(part):
            waiting.append(re.sub(r"  # doctest:.*", "", example.source).rstrip())
            if example.want:
                flags = sum(flag for flag, on in example.options.items() if on)
                cells.append(
                    Cell("\n".join(waiting), example.exc_msg or example.want, flags, example.exc_msg is not None)
                )
                waiting = []
        if waiting:
            cells.append(Cell("\n".join(waiting), ""))
    return cells


def make_notebook(page: Path) -> Any:
    """Return the notebook of a page, without outputs."""
    import nbformat

    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for place, cell in enumerate(split_page(page.read_text(encoding="utf-8"))):
        new = nbformat.v4.new_markdown_cell if cell.wanted is None else nbformat.v4.new_code_cell
        notebook.cells.append(new(cell.source, id=f"cell-{place}"))
        if cell.refused:
            notebook.cells[-1].metadata["tags"] = ["raises-exception"]
    return notebook


def run_notebooks(notebooks: list[Any], place: Path) -> None:
    """Execute notebooks one after another in the directory `place`; raises nbclient's CellExecutionError where a cell fails."""
    import nbformat
    from nbclient import NotebookClient

    whole = nbformat.v4.new_notebook(metadata=notebooks[0].metadata)
    for number, notebook in enumerate(notebooks):
        whole.cells += [nbformat.v4.new_code_cell(CLEAR, id=f"clear-{number}"), *notebook.cells]
    NotebookClient(whole, timeout=120, kernel_name="python3", record_timing=False).execute(cwd=str(place))
    for notebook in notebooks:
        notebook.metadata = whole.metadata
        for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
            cell.execution_count = count
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = count
                if output.output_type == "error":  # the page shows it; its frames would name this machine's files
                    output.traceback = [f"{output.ename}: {output.evalue}"]


def check_outputs(page: Path, notebook: Any, *, numbers: bool = True) -> None:
    """Raise WrongOutput where a cell's output is not what the page shows, compared as doctest does, or but for its numbers."""
    for cell, ran in zip(split_page(page.read_text(encoding="utf-8")), notebook.cells, strict=True):
        if cell.wanted is None:
            continue
        found = "".join(_read_output(output) for output in ran.outputs)
        same = (
            cell.wanted.strip().endswith(found.strip())  # a page names an error's module
            if cell.refused
            else doctest.OutputChecker().check_output(
                *(text if numbers else _mask_numbers(text) for text in (cell.wanted, found)), cell.flags
            )
        )
        if not same:
            raise WrongOutput(f"{page.name}\n{cell.source}\nshows\n{cell.wanted}\nbut printed\n{found}")


def _mask_numbers(text: str) -> str:
    return re.sub(r"[ ]+", " ", NUMBER.sub("#", text))


def write_outputs(page: Path, notebook: Any) -> None:
    """Put what ran into a page, in the place of what it showed; errors stay as they are."""
    outputs = iter(
        "".join(_read_output(o) for o in cell.outputs) for cell in notebook.cells if cell.cell_type == "code"
    )

    def rewrite(fence: re.Match[str]) -> str:
        lines: list[str] = []
        last = ""
        for example in doctest.DocTestParser().get_examples(fence[1]):
            first, *rest = example.source.rstrip("\n").split("\n")
            lines += [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
            last = example.want
            if example.exc_msg is not None or example.options:
                next(outputs)
                lines += example.want.rstrip("\n").split("\n")
            elif example.want:
                lines += [line or "<BLANKLINE>" for line in next(outputs).rstrip("\n").split("\n")]
        if not last:
            next(outputs)
        return "```pycon\n" + "\n".join(lines) + "\n\n```\n"

    page.write_text(FENCE.sub(rewrite, page.read_text(encoding="utf-8")), encoding="utf-8")


def _read_output(output: Any) -> str:
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    if output.output_type == "stream":
        return str(output.text) if output.name == "stdout" else ""
    return f"{output.data['text/plain']}\n"


def build_notebooks(pages: list[Path], target: Path, *, write: bool = False) -> list[Path]:
    """Write the executed notebook of each page into `target`, and return where they are; `write`: its outputs into it too."""
    import nbformat

    target.mkdir(parents=True, exist_ok=True)
    notebooks = [make_notebook(page) for page in pages]
    run_notebooks(notebooks, target)
    written = []
    on_adult = Path(os.environ.get("SORDINO_ADULT", "adult.data")).is_file()
    for page, notebook in zip(pages, notebooks, strict=True):
        if write:
            write_outputs(page, notebook)
        check_outputs(page, notebook, numbers=on_adult)
        path = target / f"{page.stem}.ipynb"
        nbformat.write(notebook, path)
        written.append(path)
    return written


def list_tours() -> list[Path]:
    """Return the pages that are tours."""
    return [page for page in sorted(TOURS.glob("*.md")) if page.name != "README.md"]


def main(words: list[str]) -> None:
    """Build the pages named, or all tours; `--write` needs Adult, whose numbers the pages show."""
    write = "--write" in words
    if write and not Path(os.environ.get("SORDINO_ADULT", "adult.data")).is_file():
        raise SystemExit("--write puts the numbers of Adult into the pages: set SORDINO_ADULT to the file")
    pages = [Path(word) for word in words if word.endswith(".md")]
    folders = [Path(word) for word in words if word != "--write" and not word.endswith(".md")]
    for path in build_notebooks(pages or list_tours(), folders[0] if folders else BUILD, write=write):
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
