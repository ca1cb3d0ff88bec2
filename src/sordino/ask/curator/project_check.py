"""Whether a project can be asked: its file, its sources, its ledgers. Nothing is written, asked or recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sordino.ask.curator.connect import open_engine
from sordino.ask.engines.public import public_cells
from sordino.ask.project.budget_ledger import changed_declarations, open_ledger
from sordino.ask.project.load import Diagnostic, Project, check_file, find_project, load_project
from sordino.core.domain import Real
from sordino.core.errors import SordinoError
from sordino.core.loss import format_number
from sordino.core.source import Source, header_line

_AMEND = 'put it back, or: sordino ledger amend --reason "..."'


def check_project(path: str | Path | None = None) -> list[Diagnostic]:
    """Return every problem of a project: of its file, and where that has none, of its sources and ledgers.

    Without a path, of the sordino.toml found upward from here. Sources are opened; nothing of the data is shown.
    """
    place = find_project() if path is None else Path(path)
    problems = check_file(place)
    if problems:
        return problems
    project = load_project(place)
    found = [*_check_sources(project), *_check_ledgers(project)]
    return [Diagnostic(place, None, None, key, message) for key, message in found]


def describe_steps(project: Project) -> Iterator[str]:
    """Yield how real columns without a declared resolution are read, or what alone reads them."""
    for name, table in project.tables.items():
        for column, declared in table.domain.columns.items():
            if not isinstance(declared, Real) or declared.resolution is not None:
                continue
            what = f"tables.{name}.columns.{column}: no resolution is declared"
            if declared.step is None:
                rule = (
                    "and no two bounds to take one from: only its AVG and quantiles, which find bounds, and `sordino bounds` "
                    "read it; add such as resolution = 0.01"
                )
                yield f"{what}, {rule}"
            else:
                step = format_number(declared.step)
                yield f"{what}: read in steps of {step}; a coarser one makes quantiles less noisy"


def _check_sources(project: Project) -> Iterator[tuple[str, str]]:
    """Yield, by key, the sources that do not open, and headers that are quoted where cells are not."""
    for name, table in project.tables.items():
        try:
            open_engine(project, table, public_cells(project.public)).close()
        except SordinoError as error:
            yield f"tables.{name}", str(error)
            continue
        if _has_quoted_header(table.source):
            yield f"tables.{name}.csv.quote", "the header line is quoted, but cells are read unquoted: add quote = '\"'"


def _has_quoted_header(source: Source) -> bool:
    csv = source.csv
    return csv is not None and csv.header and not csv.quote and '"' in header_line(source.place)


def _check_ledgers(project: Project) -> Iterator[tuple[str, str]]:
    """Yield, by key, the ledgers that cannot be read, and those that hold another cap or declaration."""
    for name, budget in project.budgets.items():
        try:
            with open_ledger(budget) as ledger:
                if ledger is None:
                    continue
                if ledger.cap != budget.cap:
                    yield f"budgets.{name}.cap", f"the ledger holds a cap of {ledger.cap.describe()}; {_AMEND}"
                for table, paths in changed_declarations(project, budget, ledger).items():
                    changed = ", ".join(list(paths)[:8])
                    yield f"tables.{table}", f"declared differently from the ledger ({changed} changed); {_AMEND}"
        except SordinoError as error:
            yield f"budgets.{name}.ledger", str(error)
