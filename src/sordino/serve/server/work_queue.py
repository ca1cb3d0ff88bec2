"""Threads for one kind of blocking work, so that it never takes those that other requests need.

One account has a few of them at once, whatever it sends; what it sends beyond that waits without a thread, and beyond a stated
number is refused.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from sordino.core.errors import TooManyRequests

Result = TypeVar("Result")
_LOOK_EVERY = 0.5  # seconds between looks whether whoever asked is still there


class ShortQueue:
    """Admit a few that do slow work for people without an account, and a few more that wait; raises TooManyRequests past that.

    Such as hashes of passwords, which take tens of megabytes and tenths of a second on purpose. Who waits here holds one of the
    server's threads, so the queue is short: it is full long before the threads are gone.
    """

    def __init__(self, *, running: int, waiting: int) -> None:
        self._most = running + waiting
        self._inside = 0
        self._running = threading.Semaphore(running)
        self._lock = threading.Lock()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold a place while the block works."""
        with self._lock:
            if self._inside >= self._most:
                raise TooManyRequests("too many are signing in: wait a second, and try again", wait=1.0)
            self._inside += 1
        try:
            with self._running:
                yield
        finally:
            with self._lock:
                self._inside -= 1


class WorkQueue:
    """Run blocking work for accounts: `threads` in all, `each` at once for one account, and `waiting` more of it."""

    def __init__(self, *, threads: int, each: int, waiting: int) -> None:
        self._most = threads
        self._each = each
        self._most_waiting = waiting
        self._running: Counter[Hashable] = Counter()
        self._waiting: Counter[Hashable] = Counter()
        self._queue: deque[tuple[Hashable, Callable[[], None]]] = deque()
        self._lock = threading.Condition()

    async def run(
        self,
        account: Hashable,
        work: Callable[[], Result],
        *,
        gone: Callable[[], Awaitable[bool]],
        stop: threading.Event,
    ) -> Result:
        """Return what the work returns; `stop` is set once `gone` says that whoever asked is no longer there.

        Raises TooManyRequests where too much of this account waits already.
        """
        future = asyncio.wrap_future(self.submit(account, work))
        while True:
            done, _ = await asyncio.wait({future}, timeout=_LOOK_EVERY)
            if done:
                return future.result()
            if not stop.is_set() and await gone():
                stop.set()

    def submit(self, account: Hashable, work: Callable[[], Result]) -> Future[Result]:
        """Return the future of work, which begins when the account has a thread to spare."""
        future: Future[Result] = Future()
        context = contextvars.copy_context()

        def run() -> None:
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(context.run(work))
            except BaseException as error:
                future.set_exception(error)
            finally:
                with self._lock:
                    self._running[account] -= 1
                    if not self._running[account]:
                        del self._running[account]
                    self._lock.notify_all()
                self._begin()

        with self._lock:
            if self._waiting[account] >= self._most_waiting:
                raise TooManyRequests(
                    f"an account may have {self._each} questions under way and {self._most_waiting} waiting: wait until "
                    "some are answered",
                    wait=1.0,
                )
            self._waiting[account] += 1
            self._queue.append((account, run))
        self._begin()
        return future

    def _begin(self) -> None:
        """Begin what waits, the first first, of accounts that have a thread to spare."""
        with self._lock:
            ready: list[Callable[[], None]] = []
            left: deque[tuple[Hashable, Callable[[], None]]] = deque()
            for account, run in self._queue:
                if self._running.total() < self._most and self._running[account] < self._each:
                    self._running[account] += 1
                    self._waiting[account] -= 1
                    if not self._waiting[account]:
                        del self._waiting[account]
                    ready.append(run)
                else:
                    left.append((account, run))
            self._queue = left
        for run in ready:
            # a daemon: a server that is stopped does not wait for questions that nobody will read
            threading.Thread(target=run, name="work", daemon=True).start()

    def close(self) -> None:
        """Begin nothing more, and wait for what runs."""
        with self._lock:
            self._queue.clear()
            self._lock.wait_for(lambda: not self._running.total())
