"""A fair lock between processes, on files beside the ledger. It knows nothing of what it guards."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

__all__ = ["FairLock"]


class FairLock:
    """Hold a lock that processes take in turn: who has just held it queues behind those that wait.

    A waiter first takes the turnstile, then the lock, then leaves the turnstile. A plain lock is barged: the holder
    releases and takes it again before any waiter has woken, and one process starves the rest. The kernel releases both
    when a process dies. Threads must not share one: the ledger's own mutex comes first.
    """

    def __init__(self, path: Path) -> None:
        self._paths = (path.with_name(path.name + "-turn"), path.with_name(path.name + "-lock"))
        self._files: tuple[int, int] | None = None

    def __enter__(self) -> FairLock:
        if self._files is None:
            first = _open(self._paths[0])
            self._files = first, _open(self._paths[1])
        turn, lock = self._files
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        finally:
            fcntl.flock(turn, fcntl.LOCK_UN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._files is not None:
            fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files, which releases the lock if it is held."""
        if self._files is not None:
            for file in self._files:
                os.close(file)
            self._files = None


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
