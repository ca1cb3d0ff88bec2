"""`sordino report`: one page for a board, from the project file and the ledgers. It never reads the data."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from sordino.cli.shared.options import BudgetName, Force, PageFile, ProjectPath, Quiet, refuse_existing
from sordino.cli.shared.terminal import note, plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sordino.ledger.ledger import Ledger
    from sordino.ledger.records import Entry, Report
    from sordino.loss import Loss
    from sordino.project.load import Budget, Project
    from sordino.release import Release
    from sordino.report.board_page import Account, Amendment, Amount, AnsweredCharge, UnansweredCharge

__all__ = ["report"]

Draw: TypeAlias = "Callable[[Any], str] | None"  # a thing as SVG

_ROWS = 8  # rows of an answer that the table of the page shows; its picture shows more
_PICTURES = 12  # the last so many answers of a budget are drawn


def report(
    output: PageFile,
    budget: BudgetName = None,
    force: Force = False,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page for a board: what was asked and what all of it reveals. Costs nothing.

    It is made of the project file and the ledger; the data need not be there, and the page loads nothing.
    """
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import project_at
    from sordino.report.board_page import Board, render_board
    from sordino.report.charts import svg_drawer

    declared = project_at(project)
    chosen = declared.budgets_named(budget)
    refuse_existing(output, force=force)
    with open_atomic(output) as target:
        draw = svg_drawer()
        accounts = tuple(_account(declared, one, draw) for one in chosen)
        remarks = () if draw is not None else ("Without pictures: Altair and vl-convert are not installed.",)
        board = Board(accounts, remarks, project=plain(declared.path.resolve().parent.name), day=_today())
        target.write(render_board(board).encode("utf-8", "backslashreplace"))
    note(f"wrote {output}", quiet=quiet)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _account(project: Project, budget: Budget, draw: Draw) -> Account:
    """Return what a board reads about one budget, its ledger replayed first."""
    from sordino.project.budget_ledger import open_ledger
    from sordino.report.board_page import Account

    tables = [t for t in project.tables.values() if t.budget == budget.name]
    protects = tuple(plain(f"table {t.name}: {t.neighbors.describe()}") for t in tables)
    reason = None if budget.reason is None else plain(budget.reason)
    with open_ledger(budget) as ledger:
        if ledger is None:
            amounts, sound = _amounts(budget.cap, None), "Nothing has been asked yet: there is no ledger."
            return Account(plain(budget.name), reason, amounts, protects, None, (), (), (), sound)
        found = ledger.verify()
        questions, lost = _charges(ledger, draw)
        return Account(
            name=plain(budget.name),
            reason=reason,
            amounts=_amounts(found.cap, found.spent),
            protects=protects,
            together=_together(found, ledger),
            questions=questions,
            unanswered=lost,
            amendments=tuple(_amendment(e) for e in ledger.entries() if e.kind == "amend"),
            verified=f"Sound: {found.describe()}. The last entry's hash is {found.head}.",
            remarks=_remarks(budget, found, drawn=0 if draw is None else len(questions)),
        )


def _remarks(budget: Budget, found: Report, *, drawn: int) -> tuple[str, ...]:
    said = []
    if found.cap != budget.cap:
        said.append(f"The project file states another cap than the ledger holds: {budget.cap.describe()}.")
    said += [f"{words[0].upper()}{words[1:]}." for words in found.describe_before()]
    if drawn > _PICTURES:
        said.append(f"Pictures: the last {_PICTURES} of {drawn} answers.")
    return tuple(said)


def _amounts(cap: Loss, spent: Loss | None) -> tuple[Amount, ...]:
    from sordino.loss import format_number
    from sordino.report.board_page import Amount

    gone: dict[str, Fraction] = {name: most * 0 for name, most in cap.amounts().items()}
    gone |= {} if spent is None else spent.amounts()
    return tuple(
        Amount(
            name,
            format_number(most),
            format_number(gone[name]),
            format_number(most - gone[name]),
            float(gone[name] / most) if most else 1.0,
        )
        for name, most in cap.amounts().items()
    )


def _charges(ledger: Ledger, draw: Draw) -> tuple[tuple[AnsweredCharge, ...], tuple[UnansweredCharge, ...]]:
    """Return the answered charges of a ledger, and the others."""
    from sordino.cli.ask.render_release import table_lines
    from sordino.release import Release
    from sordino.report.board_page import AnsweredCharge, UnansweredCharge

    charges = ledger.charges()
    answered = [c for c in charges if c.state == "committed"]
    drawn = set() if draw is None else {c.id for c in answered[-_PICTURES:]}
    questions = []
    for c in answered:
        release = Release.from_dict(json.loads(ledger.answer(c.id)))
        picture = draw(release) if draw is not None and c.id in drawn and release.outputs else None
        answer = (
            tuple(map(plain, table_lines(release, confidence=0.95, most=_ROWS))) if release.outputs else ("a model",)
        )
        words = release.cost.describe(), _sure(release)
        questions.append(AnsweredCharge(c.id, c.time[:10], plain(release.question), answer, *words, picture))
    said = {"failed": "failed", "reserved": "in doubt: whether it was answered is not known"}
    lost = [
        UnansweredCharge(
            c.id,
            c.time[:10],
            plain(c.note),
            c.loss.describe(),
            said[c.state] + (f": {plain(c.reason)}" if c.reason else ""),
        )
        for c in charges
        if c.state != "committed"
    ]
    return tuple(questions), tuple(lost)


def _sure(release: Release) -> str:
    """Return how sure of one of those protected an attacker can be after one answer, as `explain` states it."""
    from sordino.curator.explain import epsilon_and_delta
    from sordino.risk.belief import belief_after

    belief = belief_after([release.event], delta=epsilon_and_delta(release.cost)[1])
    seal = "" if release.private else "NOT PRIVATE: its noise was seeded. "
    return seal + belief.describe(of="it")


def _together(found: Report, ledger: Ledger) -> str:
    """Return what all charges together reveal at most, from even odds before (as `explain` says of one)."""
    from sordino.accounting.events import LaplaceEvent, event_from_dict
    from sordino.curator.explain import epsilon_and_delta
    from sordino.loss import PureDP
    from sordino.risk.belief import belief_after

    spent = found.spent
    events = [event_from_dict(charge.event) for charge in ledger.charges()]
    pure = [LaplaceEvent(spent.epsilon)] if isinstance(spent, PureDP) else None
    belief = belief_after(pure or events, delta=epsilon_and_delta(spent)[1])
    charges = found.committed + found.failed + found.in_doubt
    relations = {declared["neighbors"] for declared in ledger.declarations().values()}
    state = "is this or that" if relations == {"replace"} else "is in the table"
    supposed = " (counted as a list of questions that was fixed beforehand)" if belief.chance else ""
    return (
        f"All {charges} charge{'s' * (charges != 1)} together spent {spent.describe()}. Whoever knew everything else, "
        f"and thought it as likely as not that a given one of those protected {state}, can be "
        f"{belief.describe(of='it after all of them')}{supposed}."
    )


def _amendment(entry: Entry) -> Amendment:
    from sordino.ledger.records import loss_from_dict
    from sordino.report.board_page import Amendment

    held: Any = entry.payload
    changes = [f"the cap is now {loss_from_dict(held['cap']).describe()}"] if "cap" in held else []
    changes += [f"table {old} is now {new}" for old, new in held.get("renamed", {}).items()]
    changes += [f"table {table}: {', '.join(paths)}" for table, paths in held.get("changed", {}).items()]
    return Amendment(entry.time[:10], tuple(map(plain, changes)), plain(str(held["reason"])))
