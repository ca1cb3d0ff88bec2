"""From --project and --budget to a project, its budgets and their ledgers; none of it needs the data to be there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.errors import DeclarationError, UnknownName, nearest

if TYPE_CHECKING:
    from sordino.curator.curator import Curator
    from sordino.ledger.ledger import Ledger
    from sordino.project.load import Budget, Project
    from sordino.release import Release

__all__ = [
    "budgets_of",
    "declarations",
    "differences",
    "load_release",
    "open_ledger",
    "project_at",
    "project_path",
    "table_at",
]


def project_path(given: Path | None) -> Path:
    """Return the project file that --project names, or the one found upward; short where it lies below here."""
    from sordino.project.load import find_project

    if given is None:
        path = find_project()
    elif given.is_dir():
        path = given / "sordino.toml"
        if not path.is_file():
            raise DeclarationError(f"no sordino.toml in {given}; `sordino init FILE` writes one")
    elif not given.exists():
        raise DeclarationError(f"there is no file or directory {given}; `sordino init FILE` writes a project file")
    else:
        path = given
    near = os.path.relpath(path)
    return path if near.startswith("..") else Path(near)


def project_at(given: Path | None) -> Project:
    """Return the project that --project names, or the one found upward."""
    from sordino.project.load import load_project

    return load_project(project_path(given))


def budgets_of(project: Project, name: str | None) -> list[Budget]:
    """Return the budget of this name, or all without one; raises UnknownName for a name that is not declared."""
    if name is None:
        return list(project.budgets.values())
    if name not in project.budgets:
        raise UnknownName(f"budget {name!r} is not declared in {project.path}; {nearest(name, project.budgets)}")
    return [project.budgets[name]]


def table_at(given: Path | None, name: str | None) -> Curator:
    """Return the curator of the table of this name, or of the only one that is declared.

    Raises DeclarationError where several are and none is named.
    """
    import sordino as sd

    connection = sd.connect(project_path(given))
    tables = list(connection.project.tables)
    if name is None and len(tables) != 1:
        raise DeclarationError(f"several tables are declared: say which with --table ({', '.join(tables)})")
    return connection.table(tables[0] if name is None else name)


@contextmanager
def open_ledger(budget: Budget) -> Iterator[Ledger | None]:
    """Open the ledger of a budget as it is, None where nothing was ever asked of it; one that is gone is refused."""
    from sordino.ledger.ledger import Ledger

    ledger = Ledger.existing_or_none(budget.ledger)
    if ledger is None:
        yield None
        return
    with ledger:
        yield ledger


def load_release(project: Project, charge: str, *, budget: str | None) -> Release:
    """Return a past release as it was, at no cost; raises UnknownName, or InDoubt or ChargedError where none came of it.

    Raises DeclarationError where several budgets have a charge of this id and none is named.
    """
    from sordino.ledger.ledger import Ledger
    from sordino.ledger.records import charge_number
    from sordino.release import Release

    number = charge_number(charge)
    found: list[Budget] = []
    for declared in budgets_of(project, budget):
        with open_ledger(declared) as ledger:
            if ledger is not None and any(charge_number(c.id) == number for c in ledger.charges()):
                found.append(declared)
    if not found:
        raise UnknownName(f"there is no charge {charge}; `sordino releases` lists them")
    if len(found) > 1:
        names = ", ".join(b.name for b in found)
        raise DeclarationError(f"several budgets have a charge {charge}: say which with --budget ({names})")
    with Ledger.existing(found[0].ledger) as ledger:
        return Release.from_dict(json.loads(ledger.answer(charge)))


def differences(project: Project, budget: Budget, ledger: Ledger) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Return what each declared table of a budget has otherwise than its ledger, by dotted path: held, now declared."""
    from sordino.ledger.declarations import changed

    held = ledger.declarations()
    found = {
        name: changed(held[name], declared) for name, declared in declarations(project, budget).items() if name in held
    }
    return {name: paths for name, paths in found.items() if paths}


def declarations(project: Project, budget: Budget) -> dict[str, Any]:
    """Return what the project file declares of each table that draws on a budget, as a ledger holds it."""
    from sordino.curator.connect import declaration_of
    from sordino.ledger.records import canonical

    tables = [t for t in project.tables.values() if t.budget == budget.name]
    return {t.name: json.loads(canonical(declaration_of(t.domain, t.neighbors, t.source))) for t in tables}
