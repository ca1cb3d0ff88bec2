"""`sordino check`: every problem of a project file by its place, whether its sources open, and how the data fit it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.option_rules import not_with
from sordino.cli.shared.options import ProjectPath, Quiet, TextForm, TextFormat, ends_in
from sordino.cli.shared.terminal import note, paint, say
from sordino.core.errors import DeclarationError
from sordino.core.text_table import plain

if TYPE_CHECKING:
    from sordino.ask.curator.project_check import DataCheck
    from sordino.ask.project.load import Project

_NEVER_COMPARED = (
    "never compared with the data: {tables}; until then answers say so. For the curator: sordino check --against-data "
    "(NOT PRIVATE)"
)

# The schema is the same whatever the project.
_NOT_WITH_SCHEMA = not_with("--schema")

ProjectFile = Annotated[Path | None, typer.Argument(metavar="FILE", help="The project file, like --project.")]
Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of sordino.toml, for editors.")]
AgainstData = Annotated[
    bool,
    typer.Option("--against-data", help="Count the cells and lines that do not fit: NOT PRIVATE, for the curator."),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.html",
        help="With --against-data: write the comparison as a page, NOT PRIVATE.",
        callback=ends_in(".html"),
    ),
]


def check(
    path: Annotated[ProjectFile, _NOT_WITH_SCHEMA] = None,
    schema: Schema = False,
    against_data: Annotated[AgainstData, _NOT_WITH_SCHEMA] = False,
    form: Annotated[TextForm, _NOT_WITH_SCHEMA] = TextFormat.table,
    output: Annotated[Output, _NOT_WITH_SCHEMA] = None,
    project: Annotated[ProjectPath, _NOT_WITH_SCHEMA] = None,
    quiet: Annotated[Quiet, _NOT_WITH_SCHEMA] = False,
) -> None:
    """Check the project file, the rules of synthetic rows in it, and that its sources can be opened.

    A problem states its line, the rule and the nearest valid key.

    Nothing is asked, and without --against-data nothing is recorded and nothing of the data shown. With it, it is recorded
    that the tables were compared with their data, not what was found; a table for each says how many cells of each column
    were read, clipped and missing, and why. Exit 2 if there is a problem.
    """
    import sordino as sd
    from sordino.ask.curator.project_check import compare_project
    from sordino.ask.project.load import load_project
    from sordino.ask.project.schema import json_schema
    from sordino.cli.shared.opening import project_path

    if schema:
        say(json.dumps(json_schema(), ensure_ascii=False, indent=2))
        return
    if path is not None and project is not None:
        raise DeclarationError("name the project file once: as FILE or with --project")
    if output is not None and not against_data:
        raise DeclarationError("--output is the page of --against-data: add that, or leave out --output")
    place = project_path(path or project)
    problems = sd.check_project(place)
    compared = {} if problems or not against_data else compare_project(load_project(place))
    if form is TextFormat.json:
        data: dict[str, Any] = {} if problems else {"compared": _days_compared(load_project(place))}
        data |= {"against_data": {name: check.to_dict() for name, check in compared.items()}} if compared else {}
        outcome = {"schema": 1, "ok": not problems, "problems": [p.to_dict() for p in problems], **data}
        say(json.dumps(outcome, ensure_ascii=False, indent=2))
    else:
        for problem in problems:
            say(plain(str(problem)))
    if problems:
        raise typer.Exit(2)
    if output is not None:
        _write_page(output, load_project(place), compared)
        note(f"wrote {output}: NOT PRIVATE", quiet=quiet)
    if form is TextFormat.table:
        _print_sound(place, load_project(place), compared, quiet=quiet)


def _print_sound(place: Path, project: Project, compared: Mapping[str, DataCheck], *, quiet: bool) -> None:
    from sordino.ask.curator.project_check import describe_steps
    from sordino.cli.declare.compared_columns import NOT_LOOKED_AT

    days = _days_compared(project)
    never = [name for name, day in days.items() if day is None]
    # Whether cells and lines are written as declared is not known before somebody looked, so until then it is not sound.
    verdict = "has no problem in itself" if never else "is sound"
    for line in [f"{place} {verdict}: {_count_parts(project)}", *describe_steps(project)]:
        note(line, quiet=quiet, aside=False)
    for line in _misfit_lines(place, project, compared):
        say(line)
    if compared:
        note(f"not looked at: {'; '.join(NOT_LOOKED_AT)}", quiet=quiet, aside=False)
    if never:
        note(_NEVER_COMPARED.format(tables=", ".join(never)), quiet=quiet, aside=False)
    elif not compared:
        comparisons = ", ".join(f"{name} on {day}" for name, day in days.items())
        note(f"compared with the data: {comparisons}", quiet=quiet, aside=False)


def _days_compared(project: Project) -> dict[str, str | None]:
    """Return the day on which each table was compared with its data, None where it never was."""
    from sordino.ask.project.edit import compared_on

    return {name: compared_on(table) for name, table in project.tables.items()}


def _write_page(output: Path, project: Project, compared: Mapping[str, DataCheck]) -> None:
    from sordino.ask.curator.project_check import MARK
    from sordino.cli.declare.compared_columns import fit_page
    from sordino.cli.shared.atomic_file import open_atomic

    domains = {name: table.domain for name, table in project.tables.items()}
    with open_atomic(output) as file:
        file.write(fit_page(compared, domains, mark=MARK).encode())


def _misfit_lines(place: Path, project: Project, compared: Mapping[str, DataCheck]) -> Iterator[str]:
    """Yield how each column fits, and what does not, each with the line of the project file to change."""
    from sordino.ask.curator.project_check import MARK
    from sordino.ask.project.positions import dotted_key, positions
    from sordino.cli.declare.compared_columns import fit_lines

    if not compared:
        return
    yield paint(plain(MARK), "red")
    lines = positions(place.read_text(encoding="utf-8"))
    for name, check in compared.items():
        read = "" if check.lines is None else f" of {check.lines.lines:,} lines"
        read += "" if check.lines is None or not check.lines.totals else f", {check.lines.totals:,} of them totals"
        yield plain(f"table {name}: {check.rows:,} rows{read}; kinds of misfits: {len(check.misfits)}")
        for misfit in check.misfits:
            at = ("tables", name, *misfit.key.split(".", 1))
            line = next(lines[at[:n]][0] for n in range(len(at), 0, -1) if at[:n] in lines)
            yield plain(f"{place}:{line}: {dotted_key(at)}: {misfit.what}: {misfit.count:,}; {misfit.change}")
        for text in fit_lines(check, project.tables[name].domain):
            yield plain(f"  {text}")


def _count_parts(project: Project) -> str:
    columns = sum(len(table.domain) for table in project.tables.values())
    counts = {"budget": len(project.budgets), "table": len(project.tables), "column": columns}
    if rules := sum(len(table.rules) for table in project.tables.values()):
        counts["rule"] = rules
    if project.public:
        counts["public table"] = len(project.public)
    parts = ", ".join(f"{n} {noun}{'s' * (n != 1)}" for noun, n in counts.items())
    return f"{parts}; every source can be opened"
