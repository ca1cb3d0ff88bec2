"""`sordino ledger verify|export|amend|new`: the chain of charges itself. It reads and amends ledgers, never the data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import BudgetName, ProjectPath, Quiet, TextFormat, output_ending
from sordino.cli.shared.terminal import note, say, wrap
from sordino.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.ledger.ledger import Ledger, Report
    from sordino.project.load import Budget, Project

__all__ = ["amend", "export", "new", "verify"]


def verify(
    form: Annotated[TextFormat, typer.Option("--format", help="How the findings are written.")] = TextFormat.table,
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Replay every entry and compare: the chain, the sums, the caps and the high-water mark."""
    from sordino.cli.shared.opening import budgets_of, open_ledger, project_at

    found: list[dict[str, Any]] = []
    for budget in budgets_of(project_at(project), name):
        with open_ledger(budget) as ledger:
            report = None if ledger is None else ledger.verify()
        found.append({"budget": budget.name, "sound": None if report is None else True, **_report_to_dict(report)})
        if form is TextFormat.table and not quiet:
            said = "nothing has been asked yet: there is no ledger" if report is None else f"sound: {report.describe()}"
            for line in wrap(budget.name, said):
                say(line)
    if form is TextFormat.json:
        say(json.dumps({"schema": 1, "ledgers": found}, ensure_ascii=False, indent=2))


def export(
    output: Annotated[Path | None, output_ending(".jsonl")] = None,
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Write the chain of entries, one JSON object a line, for an auditor or a backup. Answers in it are releases."""
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.ledger.records import canonical

    with _the_ledger(project, name) as (_, _, ledger):
        lines = [
            canonical(
                {"seq": e.seq, "kind": e.kind, "time": e.time, "payload": e.payload, "prev": e.prev, "hash": e.hash}
            )
            for e in ledger.entries()
        ]
    text = "".join(f"{line}\n" for line in lines)
    if output is None:
        sys.stdout.write(text)
        return
    with open_atomic(output) as target:
        target.write(text.encode())
    note(f"wrote {output}: {len(lines)} entries", quiet=quiet)


def amend(
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it stays on record.", show_default=False)
    ],
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="OLD=NEW", help="A table that has another name now.", show_default=False),
    ] = None,
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Make the ledger follow the project file: a cap, a column, a bound, a table's name. What was spent carries over.

    The neighbor relation, the privacy unit and the kind of cap cannot be amended. There is no undo and no refill.
    """
    from sordino.cli.shared.opening import declarations

    renamed = dict(_renaming(words) for words in rename or [])
    with _the_ledger(project, name) as (declared, budget, ledger):
        now = declarations(declared, budget)
        held = set(ledger.declarations()) - set(renamed) | set(renamed.values())
        changed = {table: words for table, words in now.items() if table in held}
        lines = _changes(declared, budget, ledger, renamed)
        ledger.amend(reason=reason, cap=budget.cap, declarations=changed, renamed=renamed or None)
    for line in lines:
        note(line, quiet=quiet, aside=False)
    note("amended; what was spent carries over", quiet=quiet, aside=False)


def new(
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it stays on record.", show_default=False)
    ],
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Begin a ledger where the file of another one is lost for good. What was spent there carries over.

    Put the lost file back if there is any copy of it: it holds the answers. For a table about other people, name another
    ledger file in the project instead.
    """
    from sordino.cli.shared.opening import project_at
    from sordino.ledger.ledger import Ledger

    budget = _the_budget(project_at(project), name)
    with Ledger.new(budget.ledger, cap=budget.cap, reason=reason) as ledger:
        said = ledger.verify().describe_before()
    for line in [*said, f"began the ledger {budget.ledger}"]:
        note(line, quiet=quiet, aside=False)


@contextmanager
def _the_ledger(path: Path | None, name: str | None) -> Iterator[tuple[Project, Budget, Ledger]]:
    """Hold the one ledger that is meant open: the project's only budget's, or that of the one named."""
    from sordino.cli.shared.opening import open_ledger, project_at

    project = project_at(path)
    budget = _the_budget(project, name)
    with open_ledger(budget) as ledger:
        if ledger is None:
            raise DeclarationError(
                "nothing has been asked yet: there is no ledger, and the project file may still change"
            )
        yield project, budget, ledger


def _the_budget(project: Project, name: str | None) -> Budget:
    from sordino.cli.shared.opening import budgets_of

    chosen = budgets_of(project, name)
    if len(chosen) > 1:
        raise DeclarationError(f"say which ledger with --budget: {', '.join(b.name for b in chosen)}")
    return chosen[0]


def _renaming(words: str) -> tuple[str, str]:
    old, equals, new = words.partition("=")
    if not (old and equals and new):
        raise DeclarationError(f"--rename takes OLD=NEW, such as adult=people, not {words[:40]!r}")
    return old.strip(), new.strip()


def _changes(project: Project, budget: Budget, ledger: Ledger, renamed: dict[str, str]) -> list[str]:
    from sordino.cli.shared.opening import declarations
    from sordino.ledger.declarations import changed

    lines = [] if ledger.cap == budget.cap else [f"cap: {ledger.cap.describe()} -> {budget.cap.describe()}"]
    lines += [f"table {old} -> {new}" for old, new in renamed.items()]
    held = {renamed.get(table, table): words for table, words in ledger.declarations().items()}
    for table, now in declarations(project, budget).items():
        for path, (before, after) in changed(held[table], now).items() if table in held else ():
            lines.append(f"{table}.{path}: {_brief(before)} -> {_brief(after)}")
    return lines


def _brief(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _report_to_dict(report: Report | None) -> dict[str, Any]:
    from sordino.ledger.records import formers_to_dict
    from sordino.loss import loss_to_numbers

    if report is None:
        return {"entries": 0}
    return {
        "ledger": report.ledger,
        "entries": report.entries,
        "answered": report.committed,
        "failed": report.failed,
        "in_doubt": report.in_doubt,
        "spent": loss_to_numbers(report.spent),
        "cap": loss_to_numbers(report.cap),
        "amendments": report.amendments,
        "unmarked": report.unmarked,
        "mark": report.mark,
        "head": report.head,
        **formers_to_dict(report),
    }
