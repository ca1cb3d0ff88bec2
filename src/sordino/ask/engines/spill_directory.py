"""The directory that DuckDB spills rows to: private to its user, locked while it is used, and removed afterwards.

A process that is killed removes nothing, but its locks go with it: by that the next one to start tells what it left behind,
in any container and whatever number the process had.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import weakref

_PREFIX = "sordino-spill-"


class SpillDirectory:
    """A new directory at `path`, until it is removed, or this object or the process goes."""

    def __init__(self) -> None:
        _remove_left(tempfile.gettempdir())
        self.path, self._lock = _make()
        self._finalizer = weakref.finalize(self, _remove, self.path, self._lock)

    def remove(self) -> None:
        """Remove it with all that lies in it."""
        self._finalizer()

    def leave(self) -> None:
        """Leave it to the process that this one was forked from."""
        if self._finalizer.detach() is not None:
            os.close(self._lock)


def _make() -> tuple[str, int]:
    """Return a new directory, and the descriptor that holds its lock."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        # Before it has its lock another process may take it for one that was left: then it is gone, and another is made.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY)
            with contextlib.suppress(OSError):  # a file system without locks, where nobody else can take one either
                fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.isdir(path):
                return path, lock
            os.close(lock)


def _remove(path: str, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


@functools.cache
def _remove_left(place: str) -> None:
    """Remove the directories of this user's that no process holds any more; once a process."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):  # held by a process, another user's, or gone meanwhile
                    _remove_unheld(entry.path)


def _remove_unheld(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
