"""`sordino releases`: every past charge with its cost and state. It reads ledgers, never the data."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.cli.shared.options import BudgetName, ListForm, ListFormat, ProjectPath, Quiet
from sordino.cli.shared.terminal import note, paint, say, shorten
from sordino.reporting.text_table import columns_of

if TYPE_CHECKING:
    from sordino.ledger.records import Charge
    from sordino.project.load import Budget

__all__ = ["releases"]

_STATES = {"committed": "answered", "failed": "failed", "reserved": "in doubt"}


def releases(
    form: ListForm = ListFormat.table, budget: BudgetName = None, project: ProjectPath = None, quiet: Quiet = False
) -> None:
    """List every question that was charged, oldest first. It costs nothing."""
    from sordino.cli.shared.opening import project_at

    chosen = project_at(project).budgets_named(budget)
    charges = [(one.name, charge) for one in chosen for charge in _charges(one)]
    if form is ListFormat.json:
        rows = [_to_dict(name, charge) for name, charge in charges]
        say(json.dumps({"schema": 1, "releases": rows}, ensure_ascii=False, indent=2))
    elif form is ListFormat.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["id", "budget", "time", "state", "cost", "request", "question", "spender"])
        writer.writerows(
            [c.id, name, c.time, _STATES[c.state], c.loss.describe(), c.request, c.note, c.spender]
            for name, c in charges
        )
    elif not charges:
        note("nothing has been asked yet", quiet=quiet, aside=False)
    else:
        _print(charges, several=len(chosen) > 1)
        note("`sordino show ID` shows one again at no cost", quiet=quiet, aside=False)


def _charges(budget: Budget) -> list[Charge]:
    from sordino.project.budget_ledger import open_ledger

    with open_ledger(budget) as ledger:
        return [] if ledger is None else ledger.charges()


def _to_dict(budget: str, charge: Charge) -> dict[str, Any]:
    from sordino.loss import loss_to_numbers

    return {
        "id": charge.id,
        "budget": budget,
        "time": charge.time,
        "state": _STATES[charge.state],
        "cost": loss_to_numbers(charge.loss),
        "request": charge.request,
        "question": charge.note,
        "spender": charge.spender,
    }


def _print(charges: Sequence[tuple[str, Charge]], *, several: bool) -> None:
    spenders = any(c.spender for _, c in charges)
    head = [
        "id",
        *(["budget"] if several else []),
        "time",
        "cost",
        "state",
        *(["spender"] if spenders else []),
        "question",
    ]
    body = [
        [
            *[
                c.id,
                *([name] if several else []),
                f"{c.time[:10]} {c.time[11:16]}",
                c.loss.describe(),
                _STATES[c.state],
            ],
            *([c.spender or ""] if spenders else []),
            "",
        ]
        for name, c in charges
    ]
    used = max(len(line) for line in columns_of(head, body, right=[False] * len(head))) + 2
    room = max(20, shutil.get_terminal_size((80, 24)).columns - used + len("question"))
    for cells, (_, charge) in zip(body, charges, strict=True):
        cells[-1] = shorten(charge.note, room)
    first, *lines = columns_of(head, body, right=[False] * len(head))
    for line in [paint(first, "bold"), *lines]:
        say(line)
