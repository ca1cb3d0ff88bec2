"""Writes that share transactions: threads that write at once wait for the disk once for all of them.

It knows no tables. What may conflict with other rows does not go here: one that fails would fail those beside it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection

Job = Callable[[Connection], object]


class _Ticket:
    __slots__ = ("done", "error", "jobs")

    def __init__(self, jobs: tuple[Job, ...]) -> None:
        self.jobs = jobs
        self.done = False
        self.error: BaseException | None = None


class SharedWrites:
    """Run jobs in transactions that `transact` gives: the first thread to hold the mutex runs those of all that wait."""

    def __init__(self, transact: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._transact = transact
        self._mutex = threading.Lock()
        self._waiting: deque[_Ticket] = deque()

    def write(self, *jobs: Job) -> None:
        """Run jobs, which are on disk when this returns; raises what the transaction raised."""
        ticket = _Ticket(jobs)
        self._waiting.append(ticket)
        with self._mutex:
            if not ticket.done:
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        if ticket.error is not None:
            raise ticket.error

    def _commit(self, batch: list[_Ticket]) -> None:
        error: BaseException | None = None
        try:
            with self._transact() as db:
                for ticket in batch:
                    for job in ticket.jobs:
                        job(db)
        except BaseException as failure:  # raised by each that waits, this thread among them
            error = failure
        for ticket in batch:
            ticket.error, ticket.done = error, True
