"""`sordino check`: every problem of a project file by its place, and whether its sources open. It writes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.shared.options import ProjectPath, Quiet, TextForm, TextFormat
from sordino.cli.shared.terminal import note, paint, say
from sordino.domain import Real
from sordino.errors import DeclarationError, SordinoError
from sordino.loss import format_number
from sordino.report.text_table import plain

if TYPE_CHECKING:
    from sordino.curator.against_data import DataCheck
    from sordino.project.load import Project
    from sordino.source import Source

__all__ = ["check"]


def check(
    path: Annotated[Path | None, typer.Argument(metavar="FILE", help="The project file, as --project.")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of sordino.toml, for editors.")
    ] = False,
    against_data: Annotated[
        bool,
        typer.Option("--against-data", help="Count the cells and lines that do not fit: NOT PRIVATE, for the curator."),
    ] = False,
    form: TextForm = TextFormat.table,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Check the project file and that its sources can be opened: file:line:column, the rule, the nearest valid key.

    Nothing is written, asked or recorded, and nothing of the data is shown but for --against-data. Exit 2 where there
    is a problem.
    """
    from sordino.cli.shared.opening import project_path
    from sordino.project.load import check_project, load_project
    from sordino.project.schema import json_schema

    if schema:
        say(json.dumps(json_schema(), ensure_ascii=False, indent=2))
        return
    if path is not None and project is not None:
        raise DeclarationError("name the project file once: as FILE or with --project")
    place = project_path(path or project)
    problems = [
        {"file": str(p.path), "line": p.line, "column": p.column, "key": p.key, "message": p.message, "said": str(p)}
        for p in check_project(place)
    ]
    if not problems:
        loaded = load_project(place)
        problems = [
            {
                "file": str(place),
                "line": None,
                "column": None,
                "key": key,
                "message": said,
                "said": f"{place}: {key}: {said}",
            }
            for key, said in _find_obstacles(loaded)
        ]
    compared = {} if problems or not against_data else _compare_with_data(loaded)
    if form is TextFormat.json:
        kept = [{k: v for k, v in p.items() if k != "said"} for p in problems]
        data = {"against_data": {n: found.to_dict() for n, found in compared.items()}} if compared else {}
        say(json.dumps({"schema": 1, "ok": not problems, "problems": kept, **data}, ensure_ascii=False, indent=2))
    else:
        for problem in problems:
            say(plain(str(problem["said"])))
    if problems:
        raise typer.Exit(2)
    if form is TextFormat.table:
        note(f"{place} is sound: {_count_parts(loaded)}", quiet=quiet, aside=False)
        for line in _steps(loaded):
            note(line, quiet=quiet, aside=False)
        for line in _misfit_lines(place, compared):
            say(line)
        if not against_data:
            note(
                "the data were not compared with it; for the curator: sordino check --against-data (NOT PRIVATE)",
                quiet=quiet,
                aside=False,
            )


def _compare_with_data(project: Project) -> dict[str, DataCheck]:
    from sordino.curator.against_data import check_against_data

    return {name: check_against_data(table.source, domain=table.domain) for name, table in project.tables.items()}


def _misfit_lines(place: Path, compared: Mapping[str, DataCheck]) -> Iterator[str]:
    """Yield what does not fit, each with the line of the project file to change."""
    from sordino.curator.against_data import MARK
    from sordino.project.positions import dotted_key, positions

    if not compared:
        return
    yield paint(plain(MARK), "red")
    lines = positions(place.read_text(encoding="utf-8"))
    for name, found in compared.items():
        read = "" if found.lines is None else f" of {found.lines.lines:,} lines"
        yield plain(f"table {name}: {found.rows:,} rows{read}; kinds of misfits: {len(found.misfits)}")
        for misfit in found.misfits:
            at = ("tables", name, *misfit.key.split(".", 1))
            line = next(lines[at[:n]][0] for n in range(len(at), 0, -1) if at[:n] in lines)
            key = dotted_key(at)
            yield plain(f"{place}:{line}: {key}: {misfit.what}: {misfit.count:,}; {misfit.change}")
        for column, counts in found.columns.items():
            if counts.missing:
                yield plain(f"  {column}: missing cells: {counts.missing:,}")


def _find_obstacles(project: Project) -> list[tuple[str, str]]:
    """Return, by key, what stands against asking: a source that does not open, a ledger that holds something else."""
    from sordino.curator.connect import Connection

    apart = {name: replace(budget, ledger=None) for name, budget in project.budgets.items()}  # type: ignore[arg-type]
    trial = Connection(replace(project, budgets=MappingProxyType(apart)))  # ledgers in memory: nothing is written
    found: list[tuple[str, str]] = []
    for name in project.tables:
        try:
            trial.table(name).close()
        except SordinoError as error:
            found.append((f"tables.{name}", str(error)))
            continue
        if _has_quoted_header(project.tables[name].source):
            said = "the header line is quoted, but cells are read unquoted: add quote = '\"'"
            found.append((f"tables.{name}.csv.quote", said))
    return found + _against_ledgers(project)


def _has_quoted_header(source: Source) -> bool:
    """Return whether a header line says that cells are quoted where the declaration does not."""
    from sordino.source import header_line

    csv = source.csv
    return csv is not None and csv.header and not csv.quote and '"' in header_line(Path(source.path))


def _against_ledgers(project: Project) -> list[tuple[str, str]]:
    from sordino.project.budget_ledger import changed_declarations, open_ledger

    found: list[tuple[str, str]] = []
    rule = 'put it back, or: sordino ledger amend --reason "..."'
    for name, budget in project.budgets.items():
        try:
            with open_ledger(budget) as ledger:
                if ledger is None:
                    continue
                if ledger.cap != budget.cap:
                    found.append((f"budgets.{name}.cap", f"the ledger holds a cap of {ledger.cap.describe()}; {rule}"))
                for table, paths in changed_declarations(project, budget, ledger).items():
                    said = f"not declared as in the ledger ({', '.join(list(paths)[:8])} changed); {rule}"
                    found.append((f"tables.{table}", said))
        except SordinoError as error:
            found.append((f"budgets.{name}.ledger", str(error)))
    return found


def _steps(project: Project) -> Iterator[str]:
    """Yield how real columns without a declared resolution are read, or that they cannot be."""
    for name, table in project.tables.items():
        for column, declared in table.domain.columns.items():
            if isinstance(declared, Real) and declared.resolution is None:
                told = f"tables.{name}.columns.{column}: no resolution is declared"
                if declared.step is not None:
                    yield plain(
                        f"{told}: read in steps of {format_number(declared.step)}; a coarser one makes quantiles less noisy"
                    )
                else:
                    rule = "and no two bounds to take one from: only `sordino bounds` reads it; add such as resolution = 0.01"
                    yield plain(f"{told}, {rule}")


def _count_parts(project: Project) -> str:
    columns = sum(len(table.domain) for table in project.tables.values())
    counts = {"budget": len(project.budgets), "table": len(project.tables), "column": columns}
    if project.public:
        counts["public table"] = len(project.public)
    said = ", ".join(f"{n} {noun}{'s' * (n != 1)}" for noun, n in counts.items())
    return f"{said}; every source can be opened"
