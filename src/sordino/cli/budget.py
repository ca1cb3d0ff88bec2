"""`sordino budget`: the cap, what was spent and what is left of each budget. It reads ledgers, never the data."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.options import BudgetName, ListFormat, ProjectPath, Quiet
from sordino.cli.terminal import in_terminal, note, paint, say, wrapped

if TYPE_CHECKING:
    from fractions import Fraction

    from sordino.project import Budget

__all__ = ["budget"]

_BAR = 20


def budget(
    name: BudgetName = None,
    form: Annotated[ListFormat, typer.Option("--format", help="How the budgets are written.")] = ListFormat.table,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Show what was spent and what is left. Costs nothing, and the data need not be there."""
    from sordino.cli.opening import budgets_of, project_at

    found = [_state(one) for one in budgets_of(project_at(project), name)]
    if form is ListFormat.json:
        say(json.dumps({"schema": 1, "budgets": found}, ensure_ascii=False, indent=2))
    elif form is ListFormat.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["budget", "amount", "cap", "spent", "left", "charges", "failed", "in_doubt"])
        for one in found:
            counts = [one["charges"], one["failed"], one["in_doubt"]]
            for amount in one["spent"]:
                sums = [one[which][amount] for which in ("cap", "spent", "left")]
                writer.writerow([one["budget"], amount, *sums, *counts])
    else:
        for one in found:
            _print(one, quiet=quiet)


def _state(declared: Budget) -> dict[str, Any]:
    """Return a budget as plain data, every entry of its ledger replayed."""
    from sordino.cli.opening import ledger_of
    from sordino.release import loss_to_dict

    with ledger_of(declared) as ledger:
        report = None if ledger is None else ledger.verify()
    cap = declared.cap if report is None else report.cap
    gone = dict.fromkeys(cap.amounts(), "0") if report is None else _texts(report.spent.amounts())
    left = cap.amounts() if report is None else {n: a - report.spent.amounts()[n] for n, a in cap.amounts().items()}
    answered, failed, doubtful = (0, 0, 0) if report is None else (report.committed, report.failed, report.in_doubt)
    return {
        "budget": declared.name,
        "cap": loss_to_dict(cap),
        "spent": gone,
        "left": _texts(left),
        "charges": answered + failed + doubtful,
        "answered": answered,
        "failed": failed,
        "in_doubt": doubtful,
        "ledger": str(declared.ledger),
        "opened": report is not None,
        "mark": None if report is None else report.mark,
        "predecessor_entries": None if report is None or report.predecessor is None else report.predecessor[1],
        "declared_cap": None if cap == declared.cap else loss_to_dict(declared.cap),
    }


def _texts(amounts: dict[str, Fraction]) -> dict[str, str]:
    from sordino.loss import shown

    return {name: shown(amount) for name, amount in amounts.items()}


def _print(one: dict[str, Any], *, quiet: bool) -> None:
    for amount, spent in one["spent"].items():
        label = f"{amount} {spent} spent of {one['cap'][amount]}, {one['left'][amount]} left"
        say(f"{paint(one['budget'], 'bold'):<10} {_bar(one['left'][amount], one['cap'][amount])}{label}")
    counts = f"{one['charges']} charge{'s' * (one['charges'] != 1)}"
    if one["failed"] or one["in_doubt"]:
        counts += f": {one['answered']} answered, {one['failed']} failed, {one['in_doubt']} in doubt (all stay spent)"
    for line in _remarks(one):
        note("\n".join(wrapped("", line)), quiet=quiet, aside=False)
    note("\n".join(wrapped("", counts if one["opened"] else "nothing has been asked yet")), quiet=quiet, aside=False)


def _remarks(one: dict[str, Any]) -> list[str]:
    said = []
    if one["declared_cap"] is not None:
        cap = ", ".join(f"{n} {a}" for n, a in one["declared_cap"].items())
        said.append(f"the project file states a cap of {cap}: put it back, or `sordino ledger amend` it")
    if one["predecessor_entries"] is not None:
        said.append(
            f"another ledger lay here before, with {one['predecessor_entries']} entries: its charges are not counted"
        )
    if one["mark"] == "missing":
        said.append("no high-water mark on this machine: a rollback before now cannot be told")
    return said


def _bar(left: str, cap: str) -> str:
    """Return how much is spent as a bar, in a terminal only."""
    from fractions import Fraction

    if not in_terminal():
        return ""
    whole = Fraction(cap)
    gone = _BAR if whole == 0 else _BAR - int(_BAR * Fraction(left) / whole)
    return f"[{'#' * gone}{'.' * (_BAR - gone)}] "
