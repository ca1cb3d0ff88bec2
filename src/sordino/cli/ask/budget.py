"""`sordino budget`: the cap, what was spent and what is left of each budget. It reads ledgers, never the data."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import BudgetName, ListFormat, ProjectPath, Quiet
from sordino.cli.shared.terminal import in_terminal, note, paint, plain, say, wrap

if TYPE_CHECKING:
    from fractions import Fraction

    from sordino.accounting.composition import Best
    from sordino.ledger.ledger import Ledger
    from sordino.ledger.records import Report
    from sordino.loss import Loss
    from sordino.project.load import Budget

__all__ = ["budget"]

_BAR = 20


def budget(
    name: BudgetName = None,
    form: Annotated[ListFormat, typer.Option("--format", help="How the budgets are written.")] = ListFormat.table,
    tight: Annotated[
        bool,
        typer.Option("--tight", help="Also tell all charges so far as one list, at --delta. The cap is unaffected."),
    ] = False,
    delta: Annotated[
        str | None, typer.Option("--delta", metavar="D", help="With --tight: the delta at which it is told.")
    ] = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Show what was spent and what is left. Costs nothing, and the data need not be there."""
    from sordino.cli.shared.opening import budgets_of, project_at

    target = _target(tight=tight, delta=delta)
    found = [_state(one, target) for one in budgets_of(project_at(project), name)]
    if form is ListFormat.json:
        say(json.dumps({"schema": 1, "budgets": [one.to_dict() for one in found]}, ensure_ascii=False, indent=2))
    elif form is ListFormat.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["budget", "amount", "cap", "spent", "left", "charges", "failed", "in_doubt"])
        for one in found:
            for amount, *sums in one.sums():
                writer.writerow([one.budget.name, amount, *sums, one.charges, one.failed, one.in_doubt])
    else:
        for one in found:
            _print(one, quiet=quiet)


@dataclass(frozen=True, slots=True)
class _State:
    """A budget as it stands; `report` is None where nothing was asked of it yet."""

    budget: Budget
    cap: Loss
    spent: Loss
    report: Report | None
    tight: Best | None = None

    @property
    def answered(self) -> int:
        return 0 if self.report is None else self.report.committed

    @property
    def failed(self) -> int:
        return 0 if self.report is None else self.report.failed

    @property
    def in_doubt(self) -> int:
        return 0 if self.report is None else self.report.in_doubt

    @property
    def charges(self) -> int:
        return self.answered + self.failed + self.in_doubt

    def left(self) -> dict[str, Fraction]:
        gone = self.spent.amounts()
        return {name: amount - gone[name] for name, amount in self.cap.amounts().items()}

    def sums(self) -> list[tuple[str, str, str, str]]:
        """Return each amount's name, cap, spent and left, as text."""
        from sordino.loss import format_number

        cap, gone, left = self.cap.amounts(), self.spent.amounts(), self.left()
        return [(name, format_number(cap[name]), format_number(gone[name]), format_number(left[name])) for name in cap]

    def to_dict(self) -> dict[str, Any]:
        from sordino.ledger.records import formers_to_dict
        from sordino.loss import ZCDP, loss_from, loss_to_numbers

        report, target = self.report, self.cap.delta if isinstance(self.cap, ZCDP) else None
        return {
            "budget": self.budget.name,
            "cap": loss_to_numbers(self.cap),
            "spent": loss_to_numbers(self.spent),
            "remaining": loss_to_numbers(loss_from(self.left(), delta=target)),
            "charges": self.charges,
            "answered": self.answered,
            "failed": self.failed,
            "in_doubt": self.in_doubt,
            "ledger": str(self.budget.ledger),
            "mark": None if report is None else report.mark,
            **({"predecessor": None} if report is None else formers_to_dict(report)),
            "declared_cap": loss_to_numbers(self.budget.cap),
            "reason": self.budget.reason,
            "tight": None if self.tight is None else _tight_to_dict(self.tight),
        }


def _target(*, tight: bool, delta: str | None) -> str | None:
    """Return the delta of --tight, or None where it was not asked for."""
    from sordino.errors import DeclarationError

    if tight != (delta is not None):
        raise DeclarationError("--tight and --delta go together, as in `sordino budget --tight --delta 1e-6`")
    return delta


def _tight_to_dict(told: Best) -> dict[str, Any]:
    from sordino.loss import format_number

    return {
        "epsilon": told.epsilon,
        "delta": format_number(told.delta),
        "method": told.method,
        "table": dict(told.table),
    }


def _state(declared: Budget, target: str | None) -> _State:
    """Return how a budget stands, every entry of its ledger replayed; with a target, also told tightly."""
    from sordino.cli.shared.opening import open_ledger
    from sordino.loss import ZCDP, loss_from

    with open_ledger(declared) as ledger:
        if ledger is not None:
            report = ledger.verify()
            return _State(declared, report.cap, report.spent, report, _tightly(ledger, target))
    nothing = {name: amount * 0 for name, amount in declared.cap.amounts().items()}
    delta = declared.cap.delta if isinstance(declared.cap, ZCDP) else None
    return _State(declared, declared.cap, loss_from(nothing, delta=delta), None)


def _tightly(ledger: Ledger, target: str | None) -> Best | None:
    from sordino.accounting.composition import tight

    return None if target is None else tight(ledger.charges(), target)


def _print(one: _State, *, quiet: bool) -> None:
    for amount, cap, spent, left in one.sums():
        name = plain(one.budget.name).ljust(10)
        bar = _bar(one.left()[amount], one.cap.amounts()[amount])
        say(f"{paint(name, 'bold')} {bar}{amount} {spent} spent of {cap}, {left} left")
    counts = f"{one.charges} charge{'s' * (one.charges != 1)}"
    if one.failed or one.in_doubt:
        counts += f": {one.answered} answered, {one.failed} failed, {one.in_doubt} in doubt (all stay spent)"
    for line in [counts if one.report is not None else "nothing has been asked yet", *_remarks(one)]:
        note("\n".join(wrap("", line)), quiet=quiet, aside=False)


def _remarks(one: _State) -> list[str]:
    said = [] if one.budget.reason is None else [f"the cap's reason: {plain(one.budget.reason)}"]
    if one.tight is not None:
        said.append(f"had these charges been a list fixed beforehand: {one.tight.describe()}; the cap is unaffected")
    if one.cap != one.budget.cap:
        cap = one.budget.cap.describe()
        said.append(f"the project file states a cap of {cap}: put it back, or `sordino ledger amend` it")
    if one.report is not None:
        said += one.report.describe_before()
    if one.report is not None and one.report.mark == "missing":
        said.append("no high-water mark on this machine: a rollback before now cannot be told")
    return said


def _bar(left: Fraction, cap: Fraction) -> str:
    """Return how much is spent as a bar, in a terminal only."""
    if not in_terminal():
        return ""
    gone = _BAR - int(_BAR * left / cap) if cap else _BAR
    return f"[{'#' * gone}{'.' * (_BAR - gone)}] "
