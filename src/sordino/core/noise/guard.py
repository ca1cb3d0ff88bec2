"""SessionGuard: one process, one thread at a time, and one end for a session that holds noise or a budget in memory.

It knows nothing of what it guards. A forked process has a copy of all that its parent held: two copies of one noisy
threshold, or of one sum of what was spent, would each answer as if it were the only one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sordino.core.errors import QuestionRefused


class SessionGuard:
    """A lock for a session: one thread at a time may use it, in the process that began it, until it ends.

    >>> guard = SessionGuard("this session")
    >>> with guard.hold():
    ...     pass
    >>> guard.end()
    >>> guard.ended
    True
    """

    __slots__ = ("_ended", "_home", "_lock", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._home = _here()
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether the session has ended, here or with the process that began it."""
        return self._ended or self._home != _here()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the session for one call; raise QuestionRefused in a forked process and after the end."""
        # Before the lock, which a thread of the parent may have held when it forked.
        self.check_process()
        with self._lock:
            if self._ended:
                raise QuestionRefused(f"{self._what} has ended and is closed; a new session is a new charge")
            yield

    def end(self) -> None:
        """End the session, once its holder is done."""
        if self._home == _here():
            with self._lock:
                self._ended = True

    def end_held(self) -> None:
        """End the session that the caller holds."""
        self._ended = True

    def check_process(self) -> None:
        """Raise QuestionRefused in a forked process."""
        if self._home != _here():
            rule = f"a forked process cannot use {self._what}: it would use the noise and the loss of one charge twice"
            raise QuestionRefused(f"{rule}; begin a session of its own there, which is a charge of its own")


# How often this process descends by fork: numbers of processes are used again.
_forks = [0]


def _here() -> tuple[int, int]:
    return os.getpid(), _forks[0]


def _count_fork() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
