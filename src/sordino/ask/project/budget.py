"""Budgets of a project: their ledgers, what is spent and left, and changes of a cap."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from sordino.ask.project.edit import budget_in, with_cap
from sordino.ask.project.load import Budget, Project, load_project
from sordino.core.accounting.composition import Best, tight
from sordino.core.errors import DeclarationError, UnknownName, arg
from sordino.core.ledger.allowance import AllowanceSums, describe_years
from sordino.core.ledger.ledger import Ledger, utc_text
from sordino.core.ledger.records import (
    Report,
    ShareSums,
    canonical,
    charge_number,
    formers_to_dict,
    list_changes,
)
from sordino.core.ledger.restoration import back_up_ledger, copy_sqlite
from sordino.core.ledger.writer import translate_errors
from sordino.core.loss import ZCDP, Loss, Number, format_number, loss_from, loss_to_numbers
from sordino.core.neighbors import Relation
from sordino.core.release import Release

# ---- The ledger of a declared budget: opened as it is, read, compared with the project file, and amended to follow it
#
# It needs no data to be there, and makes no ledger.


@contextmanager
def open_ledger(budget: Budget) -> Iterator[Ledger | None]:
    """Open the ledger of a budget as it is, None where nothing was ever asked of it; one that is gone is refused."""
    # A ledger in memory stays open: closed, it would be gone.
    if isinstance(budget.ledger, Ledger):
        yield budget.ledger
        return
    ledger = Ledger.existing_or_none(budget.ledger)
    if ledger is None:
        yield None
        return
    with ledger:
        yield ledger


@contextmanager
def the_ledger(budget: Budget) -> Iterator[Ledger]:
    """Open the ledger of a budget; raises DeclarationError where nothing was ever asked of it."""
    with open_ledger(budget) as ledger:
        if ledger is None:
            raise DeclarationError(
                "nothing has been asked yet: there is no ledger, and the project file may still change"
            )
        yield ledger


def back_up_project(project: Project, folder: Path, *, budget: str | None = None) -> list[str]:
    """Copy the ledgers of a project into a folder, and its server's store unless one budget is named; returns what was done.

    Raises DeclarationError where a ledger is no file, or the folder cannot be made; LedgerError where a ledger is not sound.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DeclarationError(f"{folder} cannot be made: {error.strerror}; name another folder") from None
    copies: dict[str, str] = {}
    for one in project.budgets_named(budget):
        with open_ledger(one) as ledger:
            if ledger is None:
                copies[f"budget {one.name}"] = "nothing has been asked yet, so there is no ledger to copy"
                continue
            target = folder / Path(str(ledger.path)).name
            if str(target) in copies:
                raise DeclarationError(
                    f"{target} would be two ledgers: back up each with --budget, to a folder of its own"
                )
            back_up_ledger(ledger, target)
            copies[str(target)] = (
                f"the ledger of {one.name}, verified: {ledger.spent().describe()} of {ledger.cap.describe()} is spent"
            )
    store = None if project.serve is None or budget is not None else project.serve.store
    if store is not None and "://" in store:
        copies["the server's store"] = "it is on a server, whose own tools back it up, such as pg_dump"
    elif store is not None and Path(store).is_file():
        target = folder / Path(store).name
        if target.exists() and target.samefile(store):
            raise DeclarationError(f"{target} is the store itself: name another folder")
        translate_errors(lambda: copy_sqlite(Path(store), target), str(target))
        copies[str(target)] = "the server's accounts, tokens, approvals, models and audit log"
    return [f"{where}: {what}" for where, what in copies.items()]


def find_release(project: Project, charge: str, *, budget: str | None = None) -> Release:
    """Return a past release as it was, at no cost; raises UnknownName, or InDoubt or ChargedError where none came of it.

    Raises DeclarationError where several budgets have a charge of this id and none is named.
    """
    number = charge_number(charge)
    budgets: list[Budget] = []
    for declared in project.budgets_named(budget):
        with open_ledger(declared) as ledger:
            if ledger is not None and any(charge_number(c.id) == number for c in ledger.charges()):
                budgets.append(declared)
    if not budgets:
        raise UnknownName(f"there is no charge {charge}; `sordino releases` lists them")
    if len(budgets) > 1:
        names = ", ".join(b.name for b in budgets)
        raise DeclarationError(f"several budgets have a charge {charge}: state {arg('budget=')}..., one of {names}")
    with the_ledger(budgets[0]) as ledger:
        return Release.from_dict(json.loads(ledger.answer(charge)))


def changed_declarations(
    project: Project, budget: Budget, ledger: Ledger, renamed: Mapping[str, str] | None = None
) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Return what each declared table has otherwise than its ledger, by dotted path: the ledger's value, the file's.

    `renamed` maps the ledger's names of tables to the file's.
    """
    on_record = {(renamed or {}).get(table, table): words for table, words in ledger.declarations().items()}
    now = _declarations(project, budget)
    changes = {table: list_changes(on_record[table], words) for table, words in now.items() if table in on_record}
    return {table: paths for table, paths in changes.items() if paths}


def amend_ledger(
    project: Project, budget: Budget, *, reason: str, renamed: Mapping[str, str] | None = None
) -> list[str]:
    """Make a budget's ledger follow the project file, with a reason that stays on record; return what changed, in words.

    `renamed` maps old names of tables to new. What was spent carries over. Raises as `Ledger.amend` does.
    """
    with the_ledger(budget) as ledger:
        lines = [] if ledger.cap == budget.cap else [f"cap: {ledger.cap.describe()} -> {budget.cap.describe()}"]
        on_record = ledger.shares()
        shares = {who: share for who, share in budget.shares.items() if who in on_record}
        lines += [
            f"share of {who}: {on_record[who].cap.describe()} -> {share.describe()}"
            for who, share in shares.items()
            if share.amounts() != on_record[who].cap.amounts()
        ]
        allowed = ledger.allowance()
        allowance = None if allowed is None else budget.allowance
        if allowed is not None and allowance is not None:
            latest = allowed.allowance if allowed.upcoming is None else allowed.upcoming[1]
            if latest.to_dict() != allowance.to_dict():
                lines.append(f"allowance: {latest.describe()} -> {allowance.describe()}, from its next period on")
        lines += [f"table {old} -> {new}" for old, new in (renamed or {}).items()]
        for table, paths in changed_declarations(project, budget, ledger, renamed).items():
            lines += [f"{table}.{path}: {_brief(old)} -> {_brief(new)}" for path, (old, new) in paths.items()]
        known = set(ledger.declarations()) - set(renamed or {}) | set((renamed or {}).values())
        now = {table: words for table, words in _declarations(project, budget).items() if table in known}
        ledger.amend(
            reason=reason, cap=budget.cap, declarations=now, renamed=renamed or None, shares=shares, allowance=allowance
        )
    return lines


def _declarations(project: Project, budget: Budget) -> dict[str, Any]:
    """Return what the project file declares of each table that draws on a budget, as a ledger holds it."""
    tables = [t for t in project.tables.values() if t.budget == budget.name]
    return {t.name: json.loads(canonical(t.declaration)) for t in tables}


def _brief(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def read_renaming(words: str) -> tuple[str, str]:
    """Return the names of OLD=NEW."""
    old, equals, new = words.partition("=")
    if not (old and equals and new):
        raise DeclarationError(f"--rename takes OLD=NEW, such as adult=people, not {words[:40]!r}")
    return old.strip(), new.strip()


# ---- How a budget stands: its cap, what was spent and what is left, and its charges, from its ledger
#
# It knows no answers.


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """How a budget stands: `cap`, `spent`, `remaining`, its charges, and `report`, what verifying its ledger found.

    `report` is None where nothing was asked of it yet; `tight` is the loss of all charges as one list, where it was asked
    for.
    """

    budget: Budget
    report: Report | None
    tight: Best | None = None
    time: str = ""

    @property
    def cap(self) -> Loss:
        """The cap that the ledger holds, or the declared one where there is no ledger yet."""
        return self.budget.cap if self.report is None else self.report.cap

    @property
    def spent(self) -> Loss:
        """All that was charged, answered or not."""
        return self._loss(dict.fromkeys(self.cap.amounts(), Fraction(0))) if self.report is None else self.report.spent

    @property
    def remaining(self) -> Loss:
        """What can still be charged."""
        spent = self.spent.amounts()
        return self._loss({name: amount - spent[name] for name, amount in self.cap.amounts().items()})

    @property
    def answered(self) -> int:
        """The number of charges that were answered."""
        return 0 if self.report is None else self.report.committed

    @property
    def failed(self) -> int:
        """The number of charges that failed."""
        return 0 if self.report is None else self.report.failed

    @property
    def in_doubt(self) -> int:
        """The number of charges of which it is not known whether they were answered."""
        return 0 if self.report is None else self.report.in_doubt

    @property
    def charges(self) -> int:
        """The number of all charges."""
        return self.answered + self.failed + self.in_doubt

    @property
    def shares(self) -> dict[str, ShareSums]:
        """The shares of spenders: those on record, and those declared of which nothing was spent yet."""
        shares = {} if self.report is None else dict(self.report.shares)
        for spender, cap in self.budget.shares.items():
            shares.setdefault(spender, ShareSums(cap, loss_from(dict.fromkeys(cap.amounts(), Fraction(0)))))
        return dict(sorted(shares.items()))

    @property
    def allowance(self) -> AllowanceSums | None:
        """The allowance on record with its spending by month, or the one declared where there is no ledger yet."""
        if self.report is not None:
            return self.report.allowance
        return None if self.budget.allowance is None else AllowanceSums(self.budget.allowance, {})

    def describe_allowance(self) -> list[str]:
        """Return what the running period has spent, what lies ahead, and what years of it come to, a sentence each."""
        sums = self.allowance
        if sums is None:
            return []
        status = sums.to_status(self.time)
        month = sums.current(self.time)
        allowance = sums.at(month)
        spent = ", ".join(f"{n} {status['spent'][n]} of {format_number(a)}" for n, a in allowance.amounts.items())
        left = ", ".join(f"{n} {amount}" for n, amount in status["left"].items())
        lines = [
            f"allowance in {status['period']}: {spent} spent, {left} left; more may be spent from {status['next']} on"
        ]
        upcoming = status["upcoming"]
        later = allowance if upcoming is None or sums.upcoming is None else sums.upcoming[1]
        if upcoming is not None:
            lines.append(f"from {upcoming['from']} on: {later.describe()}")
        free = {n: amount - Fraction(sums.left(self.time)[n]) for n, amount in self.remaining.amounts().items()}
        periods = min(int(max(free[n], Fraction(0)) / a) for n, a in later.amounts.items() if a)
        if periods:
            whole = f"{periods:,} more {'time' if periods == 1 else 'times'}"
            lines.append(f"ahead: beyond what this period leaves, the cap covers the allowance {whole} in full")
        else:
            lines.append("ahead: beyond what this period leaves, the cap covers less than one allowance more")
        return [*lines, describe_years(later, self.cap)]

    def share_sums(self) -> list[tuple[str, ...]]:
        """Return each share's spender and amount's name, cap, spent and left, as text."""
        return [
            (who, name, *(format_number(of.amounts()[name]) for of in (one.cap, one.spent, one.remaining)))
            for who, one in self.shares.items()
            for name in one.cap.amounts()
        ]

    def sums(self) -> list[tuple[str, str, str, str]]:
        """Return each amount's name, cap, spent and left, as text."""
        spent = self.spent.amounts()
        left = self.remaining.amounts()
        return [
            (name, format_number(most), format_number(spent[name]), format_number(left[name]))
            for name, most in self.cap.amounts().items()
        ]

    def share(self, amount: str) -> Fraction:
        """Return the share of the cap's amount of this name that is spent."""
        most = self.cap.amounts()[amount]
        return self.spent.amounts()[amount] / most if most else Fraction(1)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON data."""
        report = self.report
        best = self.tight
        return {
            "budget": self.budget.name,
            "cap": loss_to_numbers(self.cap),
            "spent": loss_to_numbers(self.spent),
            "remaining": loss_to_numbers(self.remaining),
            "charges": self.charges,
            "answered": self.answered,
            "failed": self.failed,
            "in_doubt": self.in_doubt,
            "ledger": str(self.budget.ledger),
            "mark": None if report is None else report.mark,
            **({"predecessor": None} if report is None else formers_to_dict(report)),
            "declared_cap": loss_to_numbers(self.budget.cap),
            "reason": self.budget.reason,
            "shares": {
                spender: {key: loss_to_numbers(getattr(one, key)) for key in ("cap", "spent", "remaining")}
                for spender, one in self.shares.items()
            },
            "allowance": None if self.allowance is None else self.allowance.to_status(self.time),
            "tight": None
            if best is None
            else {
                "epsilon": best.epsilon,
                "delta": format_number(best.delta),
                "method": best.method,
                "table": dict(best.table),
            },
        }

    def _loss(self, amounts: dict[str, Fraction]) -> Loss:
        return loss_from(amounts, delta=self.cap.delta if isinstance(self.cap, ZCDP) else None)


def budget_status(budget: Budget, *, tight_at: Number | None = None) -> BudgetStatus:
    """Return how a budget stands, every entry of its ledger replayed; `tight_at` is the delta of the tight figure."""
    with open_ledger(budget) as ledger:
        if ledger is None:
            return BudgetStatus(budget, None, time=utc_text())
        report = ledger.verify()
        best = None if tight_at is None else tight(ledger.charges(), tight_at)
        return BudgetStatus(budget, report, best, time=ledger.writer.now())


# ---- A cap to be written into a project file, checked against what its ledger has spent. It writes no file itself

# The digits that a cap may have: it gets as few of them as leave it within the interval.
_DIGITS = range(6, 18)


class CapChange:
    """A cap to be written into a project file: what can be wrong is found out first, and nothing is written by halves."""

    def __init__(self, path: Path, budget: str | None, *, relation: Relation | None, kind: frozenset[str]) -> None:
        """Read the project file and find the budget in it, whose cap must be of a kind."""
        self.path = path
        try:
            self._before = self.path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            raise DeclarationError(f"{self.path} cannot be read as UTF-8 text; name the project file") from None
        self.budget = budget_in(self._before, name=budget, relation=relation, kind=kind)
        self.text = self._before
        self.stated: dict[str, str] = {}

    def cap(self, amounts: Mapping[str, Decimal], reason: str) -> None:
        """Put the cap and its reason into the text, and write nothing yet.

        Raises DeclarationError where the ledger has spent more than that: such a cap could not come to hold.
        """
        self._check_spent(amounts)
        self.text = with_cap(self._before, budget=self.budget, cap=amounts, reason=reason)
        stated = {key: f"{amount:f}" for key, amount in amounts.items()}
        self.stated = {"project": str(self.path), "budget": self.budget, **stated, "reason": reason}

    def _check_spent(self, amounts: Mapping[str, Decimal]) -> None:
        try:
            declared = load_project(self.path).budgets[self.budget]
        except DeclarationError:
            # Half a project file has no ledger that could be opened.
            return
        for spender, share in declared.shares.items():
            if any(key in amounts and amount > Fraction(amounts[key]) for key, amount in share.amounts().items()):
                raise DeclarationError(
                    f"budget {self.budget!r} declares a share of {share.describe()} for {spender!r}, more than such a cap: "
                    "state a smaller share first"
                )
        with open_ledger(declared) as ledger:
            spent = {} if ledger is None else ledger.spent().amounts()
        for key, amount_spent in spent.items():
            if key in amounts and Fraction(amounts[key]) < amount_spent:
                raise DeclarationError(
                    f"budget {self.budget!r} has spent {key} {format_number(amount_spent)} already, more than a cap of "
                    f"{amounts[key]:f}: what was spent does not return; write it into a new budget"
                )


def round_up_within(least: Decimal, *, most: Decimal) -> Decimal:
    """Return a number of 6 significant digits, never below `least`; of as many more as keep it within `most`.

    >>> round_up_within(Decimal("0.03183184"), most=Decimal(1))
    Decimal('0.0318319')
    >>> round_up_within(Decimal("0.03183184"), most=Decimal("0.031831849"))
    Decimal('0.03183184')
    """
    for digits in _DIGITS:
        rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(least)
        if rounded <= most:
            return rounded.normalize()
    return least
