"""`sordino releases`: every past charge with its cost and state. It reads ledgers, never the data."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import BudgetName, ListFormat, ProjectPath, Quiet
from sordino.cli.shared.terminal import columns_of, note, paint, say, shorten

if TYPE_CHECKING:
    from sordino.project.load import Budget

__all__ = ["releases"]

_STATES = {"committed": "answered", "failed": "failed", "reserved": "in doubt"}


def releases(
    form: Annotated[ListFormat, typer.Option("--format", help="How the list is written.")] = ListFormat.table,
    budget: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """List every question that was charged, oldest first. Costs nothing."""
    from sordino.cli.shared.opening import budgets_of, project_at

    declared = project_at(project)
    chosen = budgets_of(declared, budget)
    rows = [row for one in chosen for row in _charges(one)]
    if form is ListFormat.json:
        plain = [{key: value for key, value in row.items() if key != "said"} for row in rows]
        say(json.dumps({"schema": 1, "releases": plain}, ensure_ascii=False, indent=2))
    elif form is ListFormat.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["id", "budget", "time", "state", "cost", "request", "question"])
        writer.writerows(
            [r["id"], r["budget"], r["time"], r["state"], r["said"], r["request"], r["question"]] for r in rows
        )
    elif not rows:
        note("nothing has been asked yet", quiet=quiet, aside=False)
    else:
        _print(rows, several=len(chosen) > 1)
        note("`sordino show ID` shows one again at no cost", quiet=quiet, aside=False)


def _charges(budget: Budget) -> list[dict[str, Any]]:
    from sordino.cli.shared.opening import open_ledger
    from sordino.loss import loss_to_numbers

    with open_ledger(budget) as ledger:
        charges = [] if ledger is None else ledger.charges()
    return [
        {
            "id": c.id,
            "budget": budget.name,
            "time": c.time,
            "state": _STATES[c.state],
            "cost": loss_to_numbers(c.loss),
            "said": c.loss.describe(),
            "request": c.request,
            "question": c.note,
        }
        for c in charges
    ]


def _print(rows: list[dict[str, Any]], *, several: bool) -> None:
    head = ["id", *(["budget"] if several else []), "time", "cost", "state", "question"]
    body = [
        [
            r["id"],
            *([r["budget"]] if several else []),
            f"{r['time'][:10]} {r['time'][11:16]}",
            r["said"],
            r["state"],
            "",
        ]
        for r in rows
    ]
    used = max(len(line) for line in columns_of(head, body, right=[False] * len(head))) + 2
    room = max(20, shutil.get_terminal_size((80, 24)).columns - used + len("question"))
    for cells, row in zip(body, rows, strict=True):
        cells[-1] = shorten(row["question"], room)
    lines = columns_of(head, body, right=[False] * len(head))
    for i, line in enumerate(lines):
        say(paint(line, "bold") if i == 0 else line)
