"""Metrics for Prometheus: public facts alone - how many answers of each status, when they left, what of each budget is spent.

An answer of private data leaves on the public clock, so its time here is one of that clock's ticks, as whoever asked measures.
How many questions are at work is not here: it would tell when the work on one was done.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sordino import __version__
from sordino.core.loss import Loss

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "SQL"})


class Metrics:
    """Count what one process answered."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._answers = Counter("sordino_http_answers", "Answers by status.", ["status"], registry=self._registry)
        self._seconds = Histogram(
            "sordino_request_seconds",
            "Seconds until an answer left.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._spent = Gauge("sordino_budget_spent", "Spent of a budget.", ["budget", "amount"], registry=self._registry)
        self._cap = Gauge("sordino_budget_cap", "The cap of a budget.", ["budget", "amount"], registry=self._registry)
        about = Gauge("sordino_version", "The version that serves.", ["version"], registry=self._registry)
        about.labels(__version__).set(1)

    def count(self, status: int) -> None:
        """Count an answer."""
        self._answers.labels(str(status)).inc()

    def observe(self, method: str, route: str, seconds: float) -> None:
        """Count the time of an answer; `route` is one of the application's own, so that there are few."""
        self._seconds.labels(method if method in _METHODS else "other", route).observe(seconds)

    def render(self, budgets: Iterable[tuple[str, Loss, Loss]]) -> bytes:
        """Return the metrics as text, with the name, the cap and what is spent of each budget."""
        for name, cap, spent in budgets:
            gone = spent.amounts()
            for amount, most in cap.amounts().items():
                self._cap.labels(name, amount).set(float(most))
                self._spent.labels(name, amount).set(float(gone[amount]))
        return generate_latest(self._registry)
