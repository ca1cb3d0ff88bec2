"""How a budget stands: its cap, what was spent and what is left, and its charges, from its ledger. It knows no answers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.ask.project.budget_ledger import open_ledger
from sordino.ask.project.load import Budget
from sordino.core.accounting.composition import Best, tight
from sordino.core.ledger.records import Report, ShareSums, formers_to_dict
from sordino.core.loss import ZCDP, Loss, Number, format_number, loss_from, loss_to_numbers


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """State how a budget stands: `cap`, `spent`, `remaining`, its charges, and `report`, what verifying its ledger found.

    `report` is None where nothing was asked of it yet; `tight` is the loss of all charges as one list, where it was asked
    for.
    """

    budget: Budget
    report: Report | None
    tight: Best | None = None

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
        found = {} if self.report is None else dict(self.report.shares)
        for spender, cap in self.budget.shares.items():
            found.setdefault(spender, ShareSums(cap, loss_from(dict.fromkeys(cap.amounts(), Fraction(0)))))
        return dict(sorted(found.items()))

    def share_sums(self) -> list[tuple[str, ...]]:
        """Return each share's spender and amount's name, cap, spent and left, as text."""
        return [
            (who, name, *(format_number(of.amounts()[name]) for of in (one.cap, one.spent, one.remaining)))
            for who, one in self.shares.items()
            for name in one.cap.amounts()
        ]

    def sums(self) -> list[tuple[str, str, str, str]]:
        """Return each amount's name, cap, spent and left, as text."""
        spent, left = self.spent.amounts(), self.remaining.amounts()
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
        report, best = self.report, self.tight
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
            return BudgetStatus(budget, None)
        report = ledger.verify()
        return BudgetStatus(budget, report, None if tight_at is None else tight(ledger.charges(), tight_at))
