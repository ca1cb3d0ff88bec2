"""When a server answers: at ticks of a public clock, within a limit for planning."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction

from sordino.ask.queries.query import planning_within
from sordino.core.errors import QuestionRefused, TooManyRequests

# ---- PlanningTime: how much processor time each account may take for planning, which is free; and an end to plans
# for nobody

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


# ---- The public clock: when an answer may leave, so that the time it took tells at most the size class of the work
#
# It knows when a request came and what time it is, and nothing of what was computed.


class PublicClock:
    """Let answers leave `every`, `2 every`, `4 every` ... seconds after their request came, at the first that is not past.

    Whoever measures learns k of 2^k ticks, and nothing finer: the logarithm of how long the work may have taken. Where `every`
    is 0, answers leave when they are ready, and whoever measures learns how long the work took.
    """

    def __init__(self, every: Fraction, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = float(every)
        self._clock = clock

    def start(self) -> float:
        """Return the moment from which an answer's time counts."""
        return self._clock()

    def wait(self, started: float) -> float:
        """Return how many seconds an answer that is ready now has to wait still.

        >>> moments = iter([0.1, 0.3])
        >>> clock = PublicClock(Fraction(1, 4), clock=lambda: next(moments))
        >>> round(clock.wait(0), 6), round(clock.wait(0), 6)
        (0.15, 0.2)
        """
        if not self._every:
            return 0.0
        gone = max(0.0, self._clock() - started)
        ticks = gone / self._every
        power = 0 if ticks <= 1 else math.ceil(math.log2(ticks))
        return float(max(0.0, self._every * 2**power - gone))

    def sleep(self, started: float) -> None:
        """Wait until an answer may leave, in a thread of its own; an asynchronous server sleeps for `wait` itself."""
        time.sleep(self.wait(started))
