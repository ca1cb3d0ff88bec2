"""The ledger of a declared budget: opened as it is, read, compared with the project file, and amended to follow it.

It needs no data to be there, and makes no ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sordino.ask.project.load import Budget, Project
from sordino.core.errors import DeclarationError, UnknownName, arg
from sordino.core.ledger.declarations import declaration_of, list_changes
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import canonical, charge_number
from sordino.core.release import Release


@contextmanager
def open_ledger(budget: Budget) -> Iterator[Ledger | None]:
    """Open the ledger of a budget as it is, None where nothing was ever asked of it; one that is gone is refused."""
    if isinstance(budget.ledger, Ledger):  # closed, one in memory would be gone
        yield budget.ledger
        return
    ledger = Ledger.existing_or_none(budget.ledger)
    if ledger is None:
        yield None
        return
    with ledger:
        yield ledger


@contextmanager
def the_ledger(budget: Budget) -> Iterator[Ledger]:
    """Open the ledger of a budget; raises DeclarationError where nothing was ever asked of it."""
    with open_ledger(budget) as ledger:
        if ledger is None:
            raise DeclarationError(
                "nothing has been asked yet: there is no ledger, and the project file may still change"
            )
        yield ledger


def find_release(project: Project, charge: str, *, budget: str | None = None) -> Release:
    """Return a past release as it was, at no cost; raises UnknownName, or InDoubt or ChargedError where none came of it.

    Raises DeclarationError where several budgets have a charge of this id and none is named.
    """
    number = charge_number(charge)
    found: list[Budget] = []
    for declared in project.budgets_named(budget):
        with open_ledger(declared) as ledger:
            if ledger is not None and any(charge_number(c.id) == number for c in ledger.charges()):
                found.append(declared)
    if not found:
        raise UnknownName(f"there is no charge {charge}; `sordino releases` lists them")
    if len(found) > 1:
        names = ", ".join(b.name for b in found)
        raise DeclarationError(f"several budgets have a charge {charge}: state {arg('budget=')}..., one of {names}")
    with the_ledger(found[0]) as ledger:
        return Release.from_dict(json.loads(ledger.answer(charge)))


def changed_declarations(
    project: Project, budget: Budget, ledger: Ledger, renamed: Mapping[str, str] | None = None
) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Return what each declared table has otherwise than its ledger, by dotted path: the ledger's value, the file's.

    `renamed` maps the ledger's names of tables to the file's.
    """
    on_record = {(renamed or {}).get(table, table): words for table, words in ledger.declarations().items()}
    now = _declarations(project, budget)
    found = {table: list_changes(on_record[table], words) for table, words in now.items() if table in on_record}
    return {table: paths for table, paths in found.items() if paths}


def amend_ledger(
    project: Project, budget: Budget, *, reason: str, renamed: Mapping[str, str] | None = None
) -> list[str]:
    """Make a budget's ledger follow the project file, with a reason that stays on record; return what changed, in words.

    `renamed` maps old names of tables to new. What was spent carries over. Raises as `Ledger.amend` does.
    """
    with the_ledger(budget) as ledger:
        lines = [] if ledger.cap == budget.cap else [f"cap: {ledger.cap.describe()} -> {budget.cap.describe()}"]
        on_record = ledger.shares()
        shares = {who: share for who, share in budget.shares.items() if who in on_record}
        lines += [
            f"share of {who}: {on_record[who].cap.describe()} -> {share.describe()}"
            for who, share in shares.items()
            if share.amounts() != on_record[who].cap.amounts()
        ]
        lines += [f"table {old} -> {new}" for old, new in (renamed or {}).items()]
        for table, paths in changed_declarations(project, budget, ledger, renamed).items():
            lines += [f"{table}.{path}: {_brief(old)} -> {_brief(new)}" for path, (old, new) in paths.items()]
        known = set(ledger.declarations()) - set(renamed or {}) | set((renamed or {}).values())
        now = {table: words for table, words in _declarations(project, budget).items() if table in known}
        ledger.amend(reason=reason, cap=budget.cap, declarations=now, renamed=renamed or None, shares=shares)
    return lines


def _declarations(project: Project, budget: Budget) -> dict[str, Any]:
    """Return what the project file declares of each table that draws on a budget, as a ledger holds it."""
    tables = [t for t in project.tables.values() if t.budget == budget.name]
    return {t.name: json.loads(canonical(declaration_of(t.domain, t.neighbors, t.source))) for t in tables}


def _brief(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def read_renaming(words: str) -> tuple[str, str]:
    """Return the names of OLD=NEW."""
    old, equals, new = words.partition("=")
    if not (old and equals and new):
        raise DeclarationError(f"--rename takes OLD=NEW, such as adult=people, not {words[:40]!r}")
    return old.strip(), new.strip()
