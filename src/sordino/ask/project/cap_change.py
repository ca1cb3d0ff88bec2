"""A cap to be written into a project file, checked against what its ledger has spent. It writes no file itself."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path

from sordino.ask.project.budget_ledger import open_ledger
from sordino.ask.project.edit import budget_in, with_cap
from sordino.ask.project.load import load_project
from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.neighbors import Relation

_DIGITS = range(6, 18)  # of a cap: as few as leave it within the interval


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
            return  # half a project file has no ledger that could be opened
        for spender, share in declared.shares.items():
            if any(key in amounts and amount > Fraction(amounts[key]) for key, amount in share.amounts().items()):
                raise DeclarationError(
                    f"budget {self.budget!r} declares a share of {share.describe()} for {spender!r}, more than such a cap: "
                    "state a smaller share first"
                )
        with open_ledger(declared) as ledger:
            spent = {} if ledger is None else ledger.spent().amounts()
        for key, gone in spent.items():
            if key in amounts and Fraction(amounts[key]) < gone:
                raise DeclarationError(
                    f"budget {self.budget!r} has spent {key} {format_number(gone)} already, more than a cap of "
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
        found = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(least)
        if found <= most:
            return found.normalize()
    return least
