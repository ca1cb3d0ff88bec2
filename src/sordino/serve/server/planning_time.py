"""PlanningTime: how much processor time each account may take for planning, which is free; and an end to plans for nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sordino.ask.queries.planning_watch import planning_within
from sordino.core.errors import QuestionRefused, TooManyRequests

GONE: ContextVar[Callable[[], bool] | None] = ContextVar("GONE", default=None)
"""Whether whoever waits for what this thread plans has gone, where that can be known."""


class PlanningTime:
    """Hold the seconds of processor time that each account may still plan for: `most` at once, then `per_minute`.

    The time follows from the questions and the declarations alone: planning reads no data. The last step of a plan may take
    more than is left; the account then waits for as long.
    """

    def __init__(
        self,
        *,
        most: float = 60.0,
        per_minute: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.thread_time,
    ) -> None:
        self._most = most
        self._rate = per_minute / 60
        self._clock = clock
        self._used = used
        self._left: dict[int, tuple[float, float]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def planning(self, account: int) -> Iterator[None]:
        """Count what the block plans; raises TooManyRequests once the account has no time left."""
        last = self._used()

        def count() -> None:
            nonlocal last
            now = self._used()
            self._take(account, now - last)
            last = now

        def check() -> None:
            gone = GONE.get()
            if gone is not None and gone():
                raise QuestionRefused("whoever asked has gone: planning stopped, and nothing was charged")
            count()
            self._refuse_if_spent(account)

        self._refuse_if_spent(account)
        try:
            with planning_within(check):
                yield
        finally:
            count()

    def _take(self, account: int, seconds: float) -> None:
        with self._lock:
            self._left[account] = (self._now_left(account) - seconds, self._clock())

    def _refuse_if_spent(self, account: int) -> None:
        with self._lock:
            left = self._now_left(account)
        if left <= 0:
            raise TooManyRequests(
                f"an account may plan for {self._most:g} s of processor time at once, and {self._rate * 60:g} s a minute after "
                "that: plan fewer or simpler questions, and wait for as many seconds as Retry-After says",
                wait=(1 - left) / self._rate,
            )

    def _now_left(self, account: int) -> float:
        left, then = self._left.get(account, (self._most, 0.0))
        return min(self._most, left + (self._clock() - then) * self._rate)
