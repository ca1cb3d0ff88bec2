"""`sordino budget`: the cap, what was spent and what is left of each budget. It reads ledgers, never the data."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.shared.option_rules import goes_with
from sordino.cli.shared.options import BudgetName, ListForm, ListFormat, PictureFile, ProjectPath, Quiet, option
from sordino.cli.shared.terminal import in_terminal, note, paint, say, wrap
from sordino.core.errors import DeclarationError
from sordino.core.text_table import plain

if TYPE_CHECKING:
    from sordino.ask.project.budget import BudgetStatus
    from sordino.ask.project.load import Budget

_BAR = 20


def budget(
    name: BudgetName = None,
    form: ListForm = ListFormat.table,
    tight: Annotated[
        bool,
        typer.Option("--tight", help="Also report the total by the best theorem, at --delta. The cap is unaffected."),
        goes_with("--delta"),
    ] = False,
    delta: Annotated[
        str | None, option("--delta", "D", "With --tight: the delta of that figure."), goes_with("--tight")
    ] = None,
    plot: PictureFile = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Show what is spent and what is left, and with --plot its path over time. It costs nothing and does not need the data."""
    from sordino.ask.project.budget import budget_status
    from sordino.cli.shared.opening import project_at

    budgets = project_at(project).budgets_named(name)
    if plot is not None:
        _draw(budgets, plot, quiet=quiet)
    statuses = [budget_status(one, tight_at=delta if tight else None) for one in budgets]
    if form is ListFormat.json:
        say(json.dumps({"schema": 1, "budgets": [one.to_dict() for one in statuses]}, ensure_ascii=False, indent=2))
    elif form is ListFormat.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["budget", "amount", "cap", "spent", "left", "charges", "failed", "in_doubt", "spender"])
        for one in statuses:
            counts = (one.charges, one.failed, one.in_doubt)
            writer.writerows([one.budget.name, *sums, *counts, ""] for sums in one.sums())
            writer.writerows([one.budget.name, *sums, "", "", "", who] for who, *sums in one.share_sums())
    else:
        for one in statuses:
            _print(one, quiet=quiet)


def _draw(budgets: Sequence[Budget], plot: Path, *, quiet: bool) -> None:
    """Draw the path of the only budget; a picture of several would need an axis for each."""
    from sordino.ask.project.budget import open_ledger
    from sordino.cli.shared.atomic_file import open_picture

    if len(budgets) != 1:
        raise DeclarationError(f"--plot draws one budget: name it, as --budget {budgets[0].name}")
    with open_ledger(budgets[0]) as ledger, open_picture(plot, quiet=quiet) as draw:
        if ledger is None:
            raise DeclarationError("nothing was charged to this budget so far: there is no path to draw")
        draw(ledger)


def _print(one: BudgetStatus, *, quiet: bool) -> None:
    for amount, cap, spent, left in one.sums():
        name = plain(one.budget.name).ljust(10)
        say(f"{paint(name, 'bold')} {_bar(one.share(amount))}{amount} {spent} spent of {cap}, {left} left")
    for who, amount, cap, spent, left in one.share_sums():
        say(f"  {plain(who).ljust(8)} {amount} {spent} spent of a share of {cap}, {left} left")
    for line in one.describe_allowance():
        for part in wrap("  ", line):
            say(part)
    counts = f"{one.charges} charge{'s' * (one.charges != 1)}"
    if one.failed or one.in_doubt:
        counts += f": {one.answered} answered, {one.failed} failed, {one.in_doubt} in doubt (all stay spent)"
    for line in [counts if one.report is not None else "nothing has been asked yet", *_remarks(one)]:
        note("\n".join(wrap("", line)), quiet=quiet, aside=False)


def _remarks(one: BudgetStatus) -> list[str]:
    remarks = [] if one.budget.reason is None else [f"the cap's reason: {plain(one.budget.reason)}"]
    if one.tight is not None:
        remarks.append(
            f"if these charges had been a list fixed beforehand: {one.tight.describe()}; the cap is unaffected"
        )
    if one.cap != one.budget.cap:
        cap = one.budget.cap.describe()
        remarks.append(f"the project file states a cap of {cap}: put it back, or `sordino ledger amend` it")
    on_record = {} if one.report is None else one.report.shares
    for who, share in one.budget.shares.items():
        if who in on_record and on_record[who].cap.amounts() != share.amounts():
            remarks.append(
                f"the project file states a share of {share.describe()} for {who}: `sordino ledger amend` it"
            )
    sums = one.allowance
    declared = one.budget.allowance
    if one.report is not None and (declared is None) != (sums is None):
        remarks.append(
            "the project file states an allowance that begins when the budget is next opened"
            if sums is None
            else "the ledger holds an allowance that the project file lacks: put it back"
        )
    if one.report is not None:
        remarks += one.report.describe_before()
        if one.report.mark == "missing":
            remarks.append("no high-water mark on this machine: a rollback before now cannot be detected")
    return remarks


def _bar(spent: Fraction) -> str:
    """Return the share that is spent as a bar, in a terminal only."""
    if not in_terminal():
        return ""
    left = int(_BAR * (1 - spent))
    return f"[{'#' * (_BAR - left)}{'.' * left}] "
