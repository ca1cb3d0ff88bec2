"""Writers of a ledger: threads join one transaction, processes take turns, forks reopen, rollbacks are refused.

It runs jobs and knows nothing of charges. The first thread to get the mutex runs all waiting jobs in one durable transaction
(one fsync for all of them). Before it does so, it takes the fair lock between processes, on files beside the ledger, and the
high-water mark; after the commit it advances the mark. No SQLite connection ever crosses a fork.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from fractions import Fraction
from pathlib import Path
from time import perf_counter_ns, time_ns
from types import TracebackType
from typing import Any, Generic, TypeVar

from sordino.core.errors import DeclarationError, InDoubt, LedgerError, SordinoError
from sordino.core.ledger.high_water_mark import (
    Checkpoint,
    HighWaterMark,
    lock_mark,
    marks_at,
    marks_directory,
    read_mark,
)
from sordino.core.ledger.location import Place, ServerPlace
from sordino.core.ledger.records import amounts_to_dict, canonical, hash_of, loss_to_dict
from sordino.core.ledger.replay import follow, replay
from sordino.core.ledger.store import (
    ENTRIES,
    Database,
    Transaction,
    check_mark,
    connect_file,
    create_file,
    fill_tables,
    read_end,
)
from sordino.core.loss import Loss, format_number


class FairLock:
    """A lock that processes take in turn: the process that just released it queues behind those that wait.

    A waiter first takes the turnstile, then the lock, then leaves the turnstile. A plain lock can be barged: the holder
    releases and takes it again before any waiter has woken, and one process starves the rest. The kernel releases both when a
    process dies. Threads must not share one: the ledger's mutex comes first.
    """

    def __init__(self, path: Path) -> None:
        self._paths = (path.with_name(path.name + "-turn"), path.with_name(path.name + "-lock"))
        self._files: tuple[int, int] | None = None

    def __enter__(self) -> FairLock:
        if self._files is None:
            self._files = (_open(self._paths[0]), _open(self._paths[1]))
        turnstile, lock = self._files
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        finally:
            fcntl.flock(turnstile, fcntl.LOCK_UN)
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


T = TypeVar("T")

_SYNCS = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_ADDED = "SELECT seq, kind, time, payload, prev, hash FROM entries WHERE seq > ? ORDER BY seq"


class PendingWrite(Generic[T]):
    """A job that waits to be run, then its value or its error."""

    __slots__ = ("done", "error", "job", "value")

    def __init__(self, job: Callable[[Transaction], T]) -> None:
        self.job = job
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = False


class LedgerWriter:
    """A runner of jobs on one ledger, from any thread and from forked processes; `db` is given for a ledger in memory."""

    def __init__(
        self, path: Place | None, *, mark: Path | None, clock: Callable[[], str], db: Database | None = None
    ) -> None:
        self._path = path
        self._where = "in memory" if path is None else str(path)
        self._mark = mark
        self._clock = clock
        self._mutex = threading.Lock()
        self._waiting: deque[PendingWrite[Any]] = deque()
        # a server has a lock of its own
        self._lock = FairLock(path) if isinstance(path, Path) else None
        self._db = db
        self._inode: tuple[int, int] | None = None
        self._process = os.getpid()
        self._closed = False
        with _FORK:
            _LIVE.add(self)

    def __del__(self) -> None:
        # A cursor cache would keep files open; where the constructor failed there is nothing to close.
        with suppress(Exception):
            self._closed = True
            self.close_for_fork()

    def now(self) -> str:
        """Return the present moment by the ledger's clock."""
        return self._clock()

    def write(self, job: Callable[[Transaction], T]) -> T:
        """Return what `job` returns once its transaction is durable; raise what it raises, nothing written."""
        pending = PendingWrite(job)
        self._waiting.append(pending)
        try:
            with self._mutex:
                # another thread may have run it while this one waited for the mutex
                if not pending.done:
                    self.commit_batch([self._waiting.popleft() for _ in range(len(self._waiting))])
        finally:
            if not pending.done:
                with suppress(ValueError):
                    self._waiting.remove(pending)
        if pending.error is not None:
            raise pending.error
        return pending.value  # type: ignore[return-value]  # set by the job where there is no error

    def read(self, job: Callable[[Database], T]) -> T:
        """Return what `job` reads from one state of the ledger."""
        with self._mutex:
            return translate_errors(lambda: self._read(job), self._where)

    def seen(self) -> Checkpoint | None:
        """Return the mark's checkpoint, None where there is no mark."""
        return None if self._mark is None else read_mark(self._mark)

    def check(self) -> None:
        """Raise LedgerError where the mark cannot be written."""
        if self._mark is not None:
            with lock_mark(self._mark):
                pass

    def close(self) -> None:
        """Close the file; what is in memory is forgotten."""
        with self._mutex:
            self._closed = True
            self.close_for_fork()

    def _read(self, job: Callable[[Database], T]) -> T:
        db = self._connection()
        db.execute("BEGIN")
        try:
            return job(db)
        finally:
            db.execute("ROLLBACK")

    def commit_batch(self, batch: list[PendingWrite[Any]]) -> None:
        """Run the jobs in one transaction; each ends with a value or an error, InDoubt where a commit may stand."""
        text = f"the ledger {self._where} was interrupted before the charge; ask again"
        progress: list[str] = []
        try:
            translate_errors(lambda: self._transact(batch, progress), self._where)
        except SordinoError as error:
            text = str(error)
        finally:
            if progress:
                text = f"the ledger {self._where} could not confirm a charge, which may stand; see `sordino budget`"
            for pending in batch:
                if not pending.done:
                    pending.error = InDoubt(text) if progress else LedgerError(text)
                    pending.done = True

    def _transact(self, batch: list[PendingWrite[Any]], progress: list[str]) -> None:
        with self._lock or nullcontext(), nullcontext() if self._mark is None else lock_mark(self._mark) as mark:
            db = self._connection()
            db.execute("BEGIN IMMEDIATE")
            try:
                step = Transaction(db, self._clock)
                before = step.head, step.hash
                self._compare(step, mark)
                for pending in batch:
                    _run(pending, step)
                if step.changed:
                    step.finish()
                    progress.append("commit")
                    db.execute("COMMIT")
                    step.remember()
                else:
                    db.execute("ROLLBACK")
            except BaseException as error:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                    progress.clear()
                elif progress and _is_rolled_back(db, error, before):
                    progress.clear()
                raise
            for pending in batch:
                pending.done = True
            if mark is not None and step.changed:
                spent = canonical(amounts_to_dict(step.sums.own()))
                # if this fails the charge stands, and the next write advances the mark
                with suppress(OSError):
                    mark.advance(Checkpoint(step.sums.ledger, step.head, step.hash, self._where, spent))

    def _compare(self, step: Transaction, mark: HighWaterMark | None) -> None:
        if mark is None:
            return
        check_mark(step.db, mark.seen, ledger=step.sums.ledger, head=step.head)
        # a crash came before the mark was written, or other hosts have written: the entries beyond the mark are checked
        if mark.seen is not None and mark.seen.seq < step.head:
            if isinstance(self._path, Path):
                replay(step.db.execute(ENTRIES))
            else:
                # other hosts write as well, each with a mark of its own: their entries must follow the last one seen here
                follow(step.db.execute(_ADDED, (mark.seen.seq,)), mark.seen.seq, mark.seen.hash)
        if mark.seen is None:
            step.append("open", {"mark": "missing"})

    def _connection(self) -> Database:
        if self._closed:
            raise LedgerError(f"the ledger {self._where} was closed; open it again")
        if self._path is None:
            if self._process != os.getpid() or self._db is None:
                rule = "a ledger in memory cannot be shared by a forked process: each would spend the whole budget"
                raise LedgerError(f"{rule}; give the ledger a path")
            return self._db
        if isinstance(self._path, ServerPlace):
            if self._db is None:
                from sordino.core.ledger.postgres_ledger import connect_server

                self._db = connect_server(self._path)
            return self._db
        if self._db is not None and self._inode != _inode(self._path):
            self.close_for_fork()
            raise LedgerError(f"the ledger {self._where} was replaced while it was open; open it again")
        if self._db is None:
            self._db = connect_file(self._path)
            self._inode = _inode(self._path)
        return self._db

    def close_for_fork(self) -> None:
        """Close what must not cross a fork."""
        if self._lock is not None:
            self._lock.close()
        if self._db is not None and (self._path is not None or self._closed):
            self._db.close()
            self._db = None


def translate_errors(action: Callable[[], T], where: str) -> T:
    """Return what `action` returns; report an error of SQLite or of the disk as a LedgerError of one line, without its text."""
    try:
        return action()
    except SordinoError:
        raise
    except sqlite3.Error as error:
        wrong = describe_error(error)
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        wrong = "it is damaged; restore a sound copy"
    except OSError as error:
        wrong = f"{os.strerror(error.errno or 0).lower()}"
    raise LedgerError(f"the ledger {where} cannot be used: {wrong}")


def describe_error(error: sqlite3.Error) -> str:
    """Return what an error of SQLite means to the owner of the ledger."""
    if hasattr(error, "meaning"):
        # of a server
        return str(error.meaning)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    meanings = {
        sqlite3.SQLITE_NOTADB: "it is no ledger",
        sqlite3.SQLITE_BUSY: "another program holds it; close that program",
        sqlite3.SQLITE_LOCKED: "another program holds it; close that program",
        sqlite3.SQLITE_FULL: "the disk is full; nothing was charged",
        sqlite3.SQLITE_READONLY: "it cannot be written; let this user write it and its directory",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened; let this user write it and its directory",
        sqlite3.SQLITE_PERM: "it cannot be opened; let this user write it and its directory",
        sqlite3.SQLITE_IOERR: "the disk failed",
        sqlite3.SQLITE_CONSTRAINT: "a guard inside it refused what was to be written",
    }
    return meanings.get(code, "it is damaged; restore a sound copy")


def fresh_identity(path: str) -> str:
    """Return 32 hexadecimal digits that no other ledger has, made of its path, process and moment. It is no secret."""
    return hash_of(f"{path} {os.getpid()} {time_ns()} {perf_counter_ns()}")[:32]


def begin(place: Place, *, cap: Loss, mark: Path | None, time: str, reason: str | None = None) -> None:
    """Create the ledger at `place` unless another process has, and its mark.

    Where another ledger was there before and is gone, a `reason` is needed; then what it spent carries over. Raises
    LedgerError without one, where the directories cannot be written, or where the mark given belongs to a ledger elsewhere;
    DeclarationError where the cap does not count or cover what was spent.
    """
    if isinstance(place, ServerPlace):
        from sordino.core.ledger.postgres_ledger import create_tables_once

        with create_tables_once(place) as db:
            if db is not None:

                def fill(payload: dict[str, Any]) -> str:
                    digest = fill_tables(db, payload, cap=cap, time=time)
                    db.execute("COMMIT")
                    return digest

                _create(place, fill, cap=cap, mark=mark, reason=reason)
        return
    if not place.parent.is_dir():
        raise LedgerError(f"the ledger {place} cannot be made: its directory is missing; make the directory first")
    with FairLock(place) as lock:
        try:
            if not place.exists():

                def create(payload: dict[str, Any]) -> str:
                    return create_file(place, payload, cap=cap, time=time)

                _create(place, create, cap=cap, mark=mark, reason=reason)
        finally:
            lock.close()


def _create(
    place: Place, create: Callable[[dict[str, Any]], str], *, cap: Loss, mark: Path | None, reason: str | None
) -> None:
    """Create a ledger with its first entry, and its mark; the caller holds the lock, and `create` commits."""
    path = str(place)
    identity = fresh_identity(path)
    # reads other marks, so it must come before this one is locked
    older = marks_at(path) if mark is None else []
    with lock_mark(mark if mark is not None else marks_directory() / identity) as new:
        if mark is not None and new.seen is not None:
            if new.seen.path != path:
                raise LedgerError(f"the mark {mark} belongs to the ledger {new.seen.path}; give each ledger its own")
            older = [new.seen]
        digest = create({"ledger": identity, "cap": loss_to_dict(cap), **_carry_over(path, older, cap, reason)})
        new.advance(Checkpoint(identity, 1, digest, path, canonical(dict.fromkeys(cap.amounts(), "0"))))


def exists(place: Place) -> bool:
    """Return whether a ledger is at `place`; raise LedgerError where its server cannot be asked."""
    if isinstance(place, Path):
        return place.exists()
    from sordino.core.ledger.postgres_ledger import is_there

    return translate_errors(lambda: is_there(place), str(place))


def refuse_gone(place: Place) -> None:
    """Raise LedgerError where this machine remembers a ledger at `place`; the caller has checked that none is there."""
    older = marks_at(str(place))
    if older:
        _carry_over(str(place), older, None, None)


def _carry_over(path: str, older: list[Checkpoint], cap: Loss | None, reason: str | None) -> dict[str, Any]:
    """Return the first entry's keys about the ledgers that were at its path before, and what carries over from them."""
    if not older:
        return {"predecessor": None}
    spent: dict[str, Fraction] = {}
    for checkpoint in older:
        for name, amount in checkpoint.amounts().items():
            spent[name] = spent.get(name, Fraction(0)) + amount
    words = ", ".join(f"{name} {format_number(amount)}" for name, amount in spent.items())
    if reason is None or cap is None:
        raise LedgerError(
            f"the ledger {path} is gone, and this machine remembers it: {older[0].seq} entries, {words} spent. Put back a copy: "
            'sordino ledger restore BACKUP --reason "..."; or, if there is none, begin another that carries this over: sordino '
            'ledger new --reason "..."'
        )
    if set(spent) != set(cap.amounts()):
        rule = f"the ledger that lay at {path} spent {words}, and this cap is of another kind"
        raise DeclarationError(f"{rule}; keep the kind of the cap, or start a new ledger at another path")
    if any(spent[name] > most for name, most in cap.amounts().items()):
        rule = f"the ledgers that lay at {path} spent {words}, above this cap of {cap.describe()}"
        raise DeclarationError(f"{rule}; set it to that or more: spent budget does not return")
    before = {"ledger": older[0].ledger, "seq": older[0].seq}
    return {"predecessor": before, "carried": amounts_to_dict(spent), "reason": reason}


def _is_rolled_back(db: Database, error: BaseException, before: tuple[int, str]) -> bool:
    """Return whether a commit that failed is known to have written nothing: the last entry is the one `before` it, for good.

    A full disk leaves a commit without its last frame, which nothing reads. A sync that failed leaves it whole: it is not
    seen now, and may be after a loss of power.
    """
    if not isinstance(error, sqlite3.Error) or getattr(error, "sqlite_errorcode", 0) in _SYNCS:
        return False
    try:
        return read_end(db)[1:] == before
    except (sqlite3.Error, LedgerError):
        return False


def _run(pending: PendingWrite[Any], step: Transaction) -> None:
    try:
        pending.value = pending.job(step)
    except sqlite3.Error:
        raise
    except Exception as error:
        # the job's own refusal, for the thread that waits for it
        pending.error = error


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


_LIVE: weakref.WeakSet[LedgerWriter] = weakref.WeakSet()
_FORK = threading.Lock()
_PARKED: list[LedgerWriter] = []


def _before_fork() -> None:
    _FORK.acquire()
    _PARKED.extend(sorted(_LIVE, key=id))
    for writer in _PARKED:
        writer._mutex.acquire()
        # a fork goes on even if this fails, and must find its locks taken
        with suppress(Exception):
            writer.close_for_fork()


def _after_fork() -> None:
    for writer in _PARKED:
        writer._mutex.release()
    _PARKED.clear()
    _FORK.release()


def _after_fork_in_child() -> None:
    for writer in _PARKED:
        # these jobs are of the parent's threads, and the parent runs them
        writer._waiting.clear()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
