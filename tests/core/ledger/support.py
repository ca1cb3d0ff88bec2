"""What the tests of ledgers share: spending until the cap refuses."""

from __future__ import annotations

from sordino.core.accounting.events import LaplaceEvent
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import Number
from sordino.errors import BudgetExhausted


def spend(ledger: Ledger, epsilon: Number, spender: str | None = None) -> int:
    """Charge until refused; return how often it was granted."""
    granted = 0
    while True:
        try:
            ledger.charge(LaplaceEvent(epsilon), note="", question="q", spender=spender)
        except BudgetExhausted:
            return granted
        granted += 1
