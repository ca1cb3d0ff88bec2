"""The page for a board: what was asked, and what all of it reveals at most."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sordino.ask.project.budget import BudgetStatus, open_ledger
from sordino.ask.project.load import Budget, Project
from sordino.core.accounting.belief import belief_after, epsilon_and_delta
from sordino.core.accounting.event_fields import event_from_dict
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger, utc_text
from sordino.core.ledger.records import Charge, Entry, Report, loss_from_dict
from sordino.core.loss import PureDP
from sordino.core.release import Release
from sordino.core.text_table import plain
from sordino.reporting.charts import svg_drawer
from sordino.reporting.picture import render
from sordino.reporting.release_text import table_lines

# ---- One self-contained page for a board: what a budget allowed, what was asked and what all of it reveals at most
#
# It sees text, numbers and finished pictures; not where they came from. All words are escaped, and nothing is loaded.


@dataclass(frozen=True, slots=True)
class Amount:
    """State one amount of a budget, as text, and the share of the cap that is spent, from 0 to 1."""

    name: str
    cap: str
    spent: str
    left: str
    share: float


@dataclass(frozen=True, slots=True)
class AnsweredCharge:
    """State one release: its charge, day, question, answer in lines, cost, how sure it makes an attacker, its SVG or None."""

    charge: str
    day: str
    question: str
    answer: tuple[str, ...]
    cost: str
    reveals: str
    drawing: str | None = None


@dataclass(frozen=True, slots=True)
class UnansweredCharge:
    """State one charge of which no answer came: it failed, or is in doubt."""

    charge: str
    day: str
    question: str
    cost: str
    state: str


@dataclass(frozen=True, slots=True)
class Amendment:
    """State one amendment: its day, what changed, and the reason on record."""

    day: str
    changes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Account:
    """State all that a board reads about one budget; `together` is None where nothing was asked of it."""

    name: str
    reason: str | None
    amounts: tuple[Amount, ...]
    protects: tuple[str, ...]
    together: str | None
    questions: tuple[AnsweredCharge, ...]
    unanswered: tuple[UnansweredCharge, ...]
    amendments: tuple[Amendment, ...]
    verified: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """Hold the accounts of a page and the remarks that are about all of them."""

    accounts: tuple[Account, ...]
    remarks: tuple[str, ...] = ()
    project: str = ""
    day: str = ""


def render_board(board: Board) -> str:
    """Return the page as HTML; its policy forbids the browser to load or run anything.

    >>> "<script>" in render_board(Board((), ("<script>",)))
    False
    """
    return render("board.html", accounts=board.accounts, remarks=board.remarks, project=board.project, day=board.day)


# ---- The page for a board out of a project and its ledgers: what was asked, and what all of it reveals at most
#
# It reads declarations, charges and releases, never the data.

# Draws a thing as SVG; None draws nothing.
Draw = Callable[[Any], str] | None

# Rows of an answer that the table of the page shows; its picture shows more.
_ROWS = 8
# The last so many answers of a budget are drawn.
_PICTURES = 12
_STATES = {"failed": "failed", "reserved": "in doubt: whether it was answered is not known"}


def board_page(project: Project, *, budget: str | None = None) -> str:
    """Return one HTML page for a board about all budgets of a project, or the one named; costs nothing.

    The page says what was asked, what was answered and what all of it reveals at most. It loads nothing from elsewhere.
    """
    draw = svg_drawer()
    accounts = tuple(_account(project, one, draw) for one in project.budgets_named(budget))
    remarks = () if draw is not None else ("Without pictures: Altair and vl-convert are not installed.",)
    name = "" if project.path is None else plain(project.path.resolve().parent.name)
    day = datetime.now(UTC).date().isoformat()
    return render_board(Board(accounts, remarks, project=name, day=day))


def _account(project: Project, budget: Budget, draw: Draw) -> Account:
    """Return what a board reads about one budget, its ledger replayed first."""
    tables = [t for t in project.tables.values() if t.budget == budget.name]
    protects = tuple(plain(f"table {t.name}: {t.neighbors.describe()}") for t in tables)
    reason = None if budget.reason is None else plain(budget.reason)
    with open_ledger(budget) as ledger:
        if ledger is None:
            amounts = _amounts(BudgetStatus(budget, None))
            sound = "Nothing has been asked yet: there is no ledger."
            return Account(plain(budget.name), reason, amounts, protects, None, (), (), (), sound)
        report = ledger.verify()
        charges = ledger.charges()
        questions = _questions(ledger, [c for c in charges if c.state == "committed"], draw)
        return Account(
            name=plain(budget.name),
            reason=reason,
            amounts=_amounts(BudgetStatus(budget, report)),
            protects=protects,
            together=_together(report, ledger),
            questions=questions,
            unanswered=tuple(_unanswered(c) for c in charges if c.state != "committed"),
            amendments=tuple(_amendment(e) for e in ledger.entries() if e.kind == "amend"),
            verified=f"Sound: {report.describe()}. The last entry's hash is {report.head}.",
            remarks=_remarks(budget, report, answers=0 if draw is None else len(questions)),
        )


def _remarks(budget: Budget, report: Report, *, answers: int) -> tuple[str, ...]:
    remarks = []
    if report.cap != budget.cap:
        remarks.append(f"The project file states a different cap from the ledger: {budget.cap.describe()}.")
    remarks += [f"{words[0].upper()}{words[1:]}." for words in report.describe_before()]
    if answers > _PICTURES:
        remarks.append(f"Pictures: the last {_PICTURES} of {answers} answers.")
    for who, one in BudgetStatus(budget, report).shares.items():
        remarks.append(f"{plain(who)} has spent {one.spent.describe()} of a share of {one.cap.describe()}.")
    status = BudgetStatus(budget, report, time=utc_text())
    remarks += [f"{words[0].upper()}{words[1:]}." for words in status.describe_allowance()]
    return tuple(remarks)


def _amounts(status: BudgetStatus) -> tuple[Amount, ...]:
    return tuple(Amount(*sums, float(status.share(sums[0]))) for sums in status.sums())


def _questions(ledger: Ledger, answered: Sequence[Charge], draw: Draw) -> tuple[AnsweredCharge, ...]:
    with_picture = {c.id for c in answered[-_PICTURES:]}
    return tuple(_question(ledger, c, draw if c.id in with_picture else None) for c in answered)


def _question(ledger: Ledger, charge: Charge, draw: Draw) -> AnsweredCharge:
    release = Release.from_dict(json.loads(ledger.answer(charge.id)))
    answer: tuple[str, ...] = ("a model",)
    picture = None
    if release.outputs:
        answer = tuple(map(plain, table_lines(release, confidence=0.95, most=_ROWS)))
        picture = None if draw is None else draw(release)
    words = release.cost.describe(), _describe_belief(release)
    return AnsweredCharge(charge.id, charge.time[:10], plain(release.question), answer, *words, picture)


def _unanswered(charge: Charge) -> UnansweredCharge:
    state = _STATES[charge.state] + (f": {plain(charge.reason)}" if charge.reason else "")
    return UnansweredCharge(charge.id, charge.time[:10], plain(charge.note), charge.loss.describe(), state)


def _describe_belief(release: Release) -> str:
    """Return how sure an attacker can be of one person or row after one answer, as `explain` states it."""
    belief = belief_after([release.event], delta=epsilon_and_delta(release.cost)[1])
    seal = "" if release.private else "NOT PRIVATE: its noise was seeded. "
    return seal + belief.describe(of="it")


def _together(report: Report, ledger: Ledger) -> str:
    """Return what all charges together reveal at most, from even odds before (as `explain` says of one)."""
    spent = report.spent
    events = [event_from_dict(charge.event) for charge in ledger.charges()]
    pure = [LaplaceEvent(spent.epsilon)] if isinstance(spent, PureDP) else None
    belief = belief_after(pure or events, delta=epsilon_and_delta(spent)[1])
    charges = report.committed + report.failed + report.in_doubt
    relations = {declared["neighbors"] for declared in ledger.declarations().values()}
    state = "has one value rather than another" if relations == {"replace"} else "is in the table"
    supposed = " (counted as a list of questions that was fixed beforehand)" if belief.chance else ""
    return (
        f"All {charges} charge{'s' * (charges != 1)} together spent {spent.describe()}. Anyone who knew everything else, "
        f"and thought it as likely as not that a particular person or row {state}, can be "
        f"{belief.describe(of='it after all of them')}{supposed}."
    )


def _amendment(entry: Entry) -> Amendment:
    recorded: Any = entry.payload
    changes = [f"the cap is now {loss_from_dict(recorded['cap']).describe()}"] if "cap" in recorded else []
    changes += [
        f"the share of {who} is now {', '.join(f'{name} {amount}' for name, amount in cap.items())}"
        for who, cap in recorded.get("shares", {}).items()
    ]
    changes += [f"table {old} is now {new}" for old, new in recorded.get("renamed", {}).items()]
    changes += [f"table {table}: {', '.join(paths)}" for table, paths in recorded.get("changed", {}).items()]
    return Amendment(entry.time[:10], tuple(map(plain, changes)), plain(str(recorded["reason"])))
