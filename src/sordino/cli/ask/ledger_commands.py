"""`sordino ledger ...`: the chain of charges itself. It reads and amends ledgers, never the data."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.shared.options import BudgetName, ProjectPath, Quiet, Reason, TextForm, TextFormat, output_ending
from sordino.cli.shared.terminal import note, say, wrap


def verify(
    form: TextForm = TextFormat.table, name: BudgetName = None, project: ProjectPath = None, quiet: Quiet = False
) -> None:
    """Replay every entry and compare: the chain, the sums, the caps and the high-water mark."""
    from sordino.ask.project.budget import budget_status
    from sordino.cli.shared.opening import project_at

    ledgers: list[dict[str, Any]] = []
    for budget in project_at(project).budgets_named(name):
        report = budget_status(budget).report
        data = {"sound": None, "entries": 0} if report is None else {"sound": True, **report.to_dict()}
        ledgers.append({"budget": budget.name, **data})
        if form is TextFormat.table and not quiet:
            verdict = (
                "nothing has been asked yet: there is no ledger" if report is None else f"sound: {report.describe()}"
            )
            for line in wrap(budget.name, verdict):
                say(line)
    if form is TextFormat.json:
        say(json.dumps({"schema": 1, "ledgers": ledgers}, ensure_ascii=False, indent=2))


def export(
    output: Annotated[Path | None, output_ending(".jsonl")] = None,
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Write the chain of entries, one JSON object per line, for an auditor or a backup. Its answers are releases."""
    from sordino.ask.project.budget import the_ledger
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import project_at
    from sordino.core.ledger.records import canonical

    with the_ledger(project_at(project).budget(name)) as ledger:
        lines = [f"{canonical(asdict(entry))}\n" for entry in ledger.entries()]
    if output is None:
        sys.stdout.write("".join(lines))
        return
    with open_atomic(output) as target:
        target.write("".join(lines).encode())
    note(f"wrote {output}: {len(lines)} entries", quiet=quiet)


def amend(
    reason: Reason,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="A table that has a new name.")
    ] = None,
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Make the ledger follow a changed project file: a cap, a column, a bound or a table's name. What was spent carries over.

    The neighbor relation, the privacy unit and the kind of cap cannot be amended. There is no undo and no refill.
    """
    from sordino.ask.project.budget import amend_ledger, read_renaming
    from sordino.cli.shared.opening import project_at

    declared = project_at(project)
    renamed = dict(read_renaming(words) for words in rename or [])
    for line in amend_ledger(declared, declared.budget(name), reason=reason, renamed=renamed):
        note(line, quiet=quiet, aside=False)
    note("amended; what was spent carries over", quiet=quiet, aside=False)


def new(reason: Reason, name: BudgetName = None, project: ProjectPath = None, quiet: Quiet = False) -> None:
    """Start a new ledger to replace one whose file is lost. What was spent there carries over.

    If you have any copy of the lost file, use `sordino ledger restore`: it holds the answers. For a table about other people,
    name another ledger file in the project instead.
    """
    from sordino.cli.shared.opening import project_at
    from sordino.core.ledger.ledger import Ledger

    budget = project_at(project).budget(name)
    with Ledger.new(str(budget.ledger), cap=budget.cap, reason=reason) as ledger:
        notes = ledger.verify().describe_before()
    for line in [*notes, f"began the ledger {budget.ledger}"]:
        note(line, quiet=quiet, aside=False)


def restore(
    reason: Reason,
    backup: Annotated[
        Path | None,
        typer.Argument(metavar="BACKUP", help="A copy of a file that is gone; leave it out if it is in place."),
    ] = None,
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Go on from an older copy of a ledger whose newest file is lost. What was spent since the copy is counted.

    How much that is, the high-water mark of this machine says. The answers since then are gone: to ask again charges again.
    """
    from sordino.cli.shared.opening import project_at
    from sordino.core.ledger.restoration import restore_ledger
    from sordino.core.loss import format_number

    budget = project_at(project).budget(name)
    with restore_ledger(str(budget.ledger), reason=reason, backup=backup) as ledger:
        report = ledger.verify()
    lost = ", ".join(f"{key} {format_number(amount)}" for key, amount in report.lost.items())
    note(f"spent in entries that are lost, and counted: {lost or 'nothing'}", quiet=quiet, aside=False)
    note(
        f"the ledger {budget.ledger} goes on: {report.spent.describe()} of {report.cap.describe()} is spent",
        quiet=quiet,
        aside=False,
    )


def backup(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the copies go; it is made if it is missing.")],
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Copy the ledgers, and the server's store, into a folder. Programs may go on asking and serving.

    Each ledger is verified first. A copy of the same name is replaced as a whole. `sordino ledger restore` goes on from one.
    """
    from sordino.ask.project.budget import back_up_project
    from sordino.cli.shared.opening import project_at

    for line in back_up_project(project_at(project), folder, budget=name):
        note(line, quiet=quiet, aside=False)


def move(
    to: Annotated[str, typer.Argument(metavar="ADDRESS", help="The new address: postgresql://HOST/DATABASE#NAME.")],
    name: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Move a ledger from its file to a PostgreSQL server, after checking its chain. First stop all programs that ask questions.

    The file stays as a record, with nothing left to spend.
    """
    from sordino.ask.project.budget import the_ledger
    from sordino.cli.shared.opening import project_at
    from sordino.core.ledger.restoration import move_ledger

    with the_ledger(project_at(project).budget(name)) as ledger, move_ledger(ledger, to) as moved:
        outcome = f'moved {moved.verify().entries} entries; now write in sordino.toml: ledger = "{moved.path}"'
    note(outcome, quiet=quiet, aside=False)
