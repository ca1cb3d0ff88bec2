"""Locks of a server: by key, among writers, and of a store that one server holds."""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from sordino.core.errors import DeclarationError

# ---- Locks by name, each there only while somebody holds it or waits for it


class KeyedLocks:
    """Let those of one name go one after the other, and those of other names pass."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        # Each lock with the number of threads that hold it or wait for it.
        self._held: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, name: str | None) -> Iterator[None]:
        """Hold the lock of a name; without a name none."""
        if name is None:
            yield
            return
        with self._guard:
            lock, waiting = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = lock, waiting + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, waiting = self._held.pop(name)
                if waiting > 1:
                    self._held[name] = lock, waiting - 1


# ---- The same among all processes that serve from one store


class FileTurns:
    """Let those of one name go one after the other, in all processes of this machine: by locks on one byte of a file each."""

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + "-turns")

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold the lock of a name; the kernel releases it where the process dies."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DeclarationError(f"the store's lock {self._path} cannot be opened: {error.strerror}") from None
        try:
            # Locks of an open file, where the system has them, hold among threads too; closing it releases them.
            byte = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _number_of(name), 1, 0)
            fcntl.fcntl(file, getattr(fcntl, "F_OFD_SETLKW", fcntl.F_SETLKW), byte)
            yield
        finally:
            os.close(file)


class DatabaseTurns:
    """The same among all servers of one PostgreSQL store, each on a connection of its own: those of the pool answer."""

    def __init__(self, address: URL) -> None:
        self._engine = create_engine(address, poolclass=NullPool)

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Hold the lock of a name; the server releases it where the connection ends."""
        with self._engine.connect() as db:
            db.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_number_of(name)})")
            yield


def _number_of(name: str) -> int:
    """Return the number that a name is locked by: two names share one with a chance of 2^-62."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 2


# ---- Writes that share transactions: threads that write at once wait for the disk once for all of them
#
# It knows no tables. What may conflict with other rows does not go here: one that fails would fail those beside it.

Job = Callable[[Connection], object]


class _PendingWrite:
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
        self._waiting: deque[_PendingWrite] = deque()

    def write(self, *jobs: Job) -> None:
        """Run jobs, which are on disk when this returns; raises what the transaction raised."""
        pending = _PendingWrite(jobs)
        self._waiting.append(pending)
        with self._mutex:
            if not pending.done:
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        if pending.error is not None:
            raise pending.error

    def _commit(self, batch: list[_PendingWrite]) -> None:
        error: BaseException | None = None
        try:
            with self._transact() as db:
                for pending in batch:
                    for job in pending.jobs:
                        job(db)
        # Each thread that waits raises it, this one among them.
        except BaseException as failure:
            error = failure
        for pending in batch:
            pending.error = error
            pending.done = True


# ---- Presence: which processes serve from one store file, known by a lock beside it that the kernel releases when
# one dies


class Presence:
    """A lock beside a store file, held shared by every process that serves from it, for as long as it lives.

    It cannot be a lock on the store itself: to close a descriptor of that file would drop SQLite's own locks on it.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(store.name + "-lock")
        self._file: int | None = None
        # Whether another process held it when this one arrived.
        self.taken = False

    @contextmanager
    def arrive(self) -> Iterator[bool]:
        """Give whether no other process serves from the store; from the end of the block on, this one is known to.

        Work that the block does where it is alone, nobody else does at the same time: who arrives meanwhile waits at the end
        of its own block. So this process must begin nothing that others could take for abandoned before the block has ended.
        """
        if self._file is None:
            try:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise DeclarationError(f"the store's lock {self._path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        # another process serves, or the file system has no such locks: then nobody can know that it is alone
        except OSError as error:
            alone = False
            self.taken = isinstance(error, BlockingIOError)
        try:
            yield alone
        finally:
            # a conversion may lose the lock for a moment, which harms nobody: see above
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_SH)

    def leave(self) -> None:
        """Release the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
