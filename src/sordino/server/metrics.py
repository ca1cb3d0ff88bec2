"""Metrics for Prometheus: public facts alone - how many answers of each status, and what of each budget is spent.

No time and no size of an answer is here: those depend on the data.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from sordino import __version__
from sordino.loss import Loss

__all__ = ["Metrics"]


class Metrics:
    """Count what one process answered."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._answers = Counter("sordino_http_answers", "Answers by status.", ["status"], registry=self._registry)
        self._spent = Gauge("sordino_budget_spent", "Spent of a budget.", ["budget", "amount"], registry=self._registry)
        self._cap = Gauge("sordino_budget_cap", "The cap of a budget.", ["budget", "amount"], registry=self._registry)
        about = Gauge("sordino_version", "The version that serves.", ["version"], registry=self._registry)
        about.labels(__version__).set(1)

    def count(self, status: int) -> None:
        """Count an answer."""
        self._answers.labels(str(status)).inc()

    def render(self, budgets: Iterable[tuple[str, Loss, Loss]]) -> bytes:
        """Return the metrics as text, with the name, the cap and what is spent of each budget."""
        for name, cap, spent in budgets:
            gone = spent.amounts()
            for amount, most in cap.amounts().items():
                self._cap.labels(name, amount).set(float(most))
                self._spent.labels(name, amount).set(float(gone[amount]))
        return generate_latest(self._registry)
