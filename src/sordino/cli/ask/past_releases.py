"""`sordino releases`, `show`, `explain` and `report`: past releases, out of the project and its ledgers, never of the data."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import note, paint, say, shorten, wrap
from sordino.core.errors import DeclarationError
from sordino.core.text_table import columns_of

if TYPE_CHECKING:
    from sordino.ask.project.load import Budget
    from sordino.core.ledger.records import Charge


def releases(
    last: Annotated[int | None, given.option("--last", "N", "Only the newest N, by the time of the charge.")] = None,
    form: given.ListForm = given.ListFormat.table,
    budget: given.BudgetName = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """List every question that was charged, oldest first. It costs nothing."""
    from sordino.cli.shared.opening import project_at
    from sordino.core.ledger.records import STATES, charge_to_dict

    if last is not None and last < 1:
        raise DeclarationError(f"--last must be a whole number of 1 or more, not {last}")
    budgets = project_at(project).budgets_named(budget)
    charges = [(one.name, charge) for one in budgets for charge in _charges(one)]
    earlier = 0 if last is None else max(len(charges) - last, 0)
    if earlier:
        # budgets are listed one after the other, so the newest need not stand at the end
        by_time = sorted(range(len(charges)), key=lambda place: charges[place][1].time)
        charges = [charges[place] for place in sorted(by_time[earlier:])]
    if form is given.ListFormat.json:
        rows = [charge_to_dict(name, charge) for name, charge in charges]
        say(json.dumps({"schema": 1, "releases": rows}, ensure_ascii=False, indent=2))
    elif form is given.ListFormat.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["id", "budget", "time", "state", "cost", "request", "question", "spender"])
        writer.writerows(
            [c.id, name, c.time, STATES[c.state], c.loss.describe(), c.request, c.note, c.spender]
            for name, c in charges
        )
    elif not charges:
        note("nothing has been asked yet", quiet=quiet, aside=False)
    else:
        _print(charges, several=len(budgets) > 1)
        left_out = f"{earlier:,} earlier left out; " if earlier else ""
        note(f"{left_out}`sordino show ID` shows one again at no cost", quiet=quiet, aside=False)


def _charges(budget: Budget) -> list[Charge]:
    from sordino.ask.project.budget import open_ledger

    with open_ledger(budget) as ledger:
        return [] if ledger is None else ledger.charges()


def _print(charges: Sequence[tuple[str, Charge]], *, several: bool) -> None:
    from sordino.core.ledger.records import STATES

    titles = ["id", "budget", "time", "cost", "state", "spender", "question"]
    spenders = any(c.spender for _, c in charges)
    there = [t for t in titles if (t != "budget" or several) and (t != "spender" or spenders)]
    body = []
    for name, c in charges:
        cells = [c.id, name, f"{c.time[:10]} {c.time[11:16]}", c.loss.describe(), STATES[c.state], c.spender or "", ""]
        body.append([cells[titles.index(t)] for t in there])
    used = max(len(line) for line in columns_of(there, body, right=[False] * len(there))) + 2
    room = max(20, shutil.get_terminal_size((80, 24)).columns - used + len("question"))
    for cells, (_, charge) in zip(body, charges, strict=True):
        cells[-1] = shorten(charge.note, room)
    first, *lines = columns_of(there, body, right=[False] * len(there))
    for line in [paint(first, "bold"), *lines]:
        say(line)


def show(
    charge: given.ChargeId,
    form: given.AnswerForm = None,
    output: given.OutputFile = None,
    plot: given.PictureFile = None,
    confidence: given.Confidence = 0.95,
    budget: given.BudgetName = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Show a past release as it was. It costs nothing and does not need the data."""
    from sordino.ask.project.budget import find_release
    from sordino.cli.ask.ask import deliver
    from sordino.cli.ask.render_release import chosen_format
    from sordino.cli.shared.atomic_file import open_if_named, open_picture
    from sordino.cli.shared.opening import project_at

    answer_format = chosen_format(form, output)
    release = find_release(project_at(project), charge, budget=budget)
    with open_if_named(output) as target, open_picture(plot, confidence=confidence, quiet=quiet) as draw:
        deliver([release], answer_format, confidence=confidence, target=target, quiet=quiet)
        draw(release)


def explain(
    charge: given.ChargeId,
    form: given.TextForm = given.TextFormat.table,
    plot: given.PictureFile = None,
    budget: given.BudgetName = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Say in plain words the most that a past release reveals about one person; `--plot` draws it, from every prior belief."""
    import sordino as sd
    from sordino.ask.curator.explain import bound_belief, explain_charge
    from sordino.ask.project.budget import find_release, open_ledger
    from sordino.cli.shared.atomic_file import open_picture
    from sordino.cli.shared.opening import project_at
    from sordino.core.loss import loss_to_numbers

    declared = project_at(project)
    release = find_release(declared, charge, budget=budget)
    text = sd.explain(release)
    for one in declared.budgets_named(budget):
        with open_ledger(one) as ledger:
            # the budget of which it is a charge
            if ledger is not None and any(c.id == release.charge for c in ledger.charges()):
                text = explain_charge(ledger, release)
    with open_picture(plot, quiet=quiet) as draw:
        draw(bound_belief(release.cost, release.event))
    if form is given.TextFormat.json:
        content = {"schema": 1, "charge": release.charge, "cost": loss_to_numbers(release.cost), "explanation": text}
        say(json.dumps(content, ensure_ascii=False, indent=2))
        return
    for line in wrap("", text, indent=0):
        say(line)
    note(f"`sordino show {release.charge}` shows the release again", quiet=quiet, aside=False)


def report(
    output: given.PageFile,
    budget: given.BudgetName = None,
    force: given.Force = False,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Write one HTML page for a board: what was asked, and the most that it reveals. It costs nothing.

    It is made from the project file and the ledger. The data is not needed, and the page makes no requests.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import project_at
    from sordino.reporting.board import board_page

    declared = project_at(project)
    given.refuse_existing(output, force=force)
    with open_atomic(output) as target:
        target.write(board_page(declared, budget=budget).encode("utf-8", "backslashreplace"))
    note(f"wrote {output}", quiet=quiet)
