"""Jobs: long work of an account, one after the other."""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import json
import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Row, insert, select, true, update
from sqlalchemy.exc import IntegrityError

from sordino.core.errors import QuestionRefused, SordinoError, TooManyRequests
from sordino.serve.server.access import OWNER, NotThere
from sordino.serve.server.account_schema import ACCOUNTS, JOBS
from sordino.serve.server.answer_time import PublicClock
from sordino.serve.server.database import ServerDatabase, StoreUnusable, text_of_time
from sordino.serve.server.problems import UNEXPECTED, problem_of

# ---- Threads for one kind of blocking work, so that it never takes those that other requests need
#
# One account has a few of them at once, whatever it sends; what it sends beyond that waits without a thread, and beyond a stated
# number is refused.

Result = TypeVar("Result")
# Seconds between looks whether the client is still there.
_LOOK_EVERY = 0.5


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


# ---- Jobs: long work of an account, with its stage and elapsed time alone - shown on the public clock, so that no
# time tells more
#
# It knows no data; what comes of a job is a model that was released.

# The kind of the jobs that release periods of series.
SERIES_RELEASE = "series"
# A job's work is given what enters a stage, and returns the number of a model, or of a step.
Work = Callable[[Callable[[str], None]], int]
_UNEXPECTED = {"type": "about:blank", "title": "unexpected error", "detail": UNEXPECTED, "exit_code": 1}
# Seconds after which a server says again that it is at work.
_BEAT = 15.0
# A server that has been silent for so long is gone.
_SILENCE = datetime.timedelta(seconds=90)
_STOPPED = {
    "type": "about:blank",
    "title": "stopped",
    "detail": "its server stopped before it was done, and nothing came of it; where it was charged the charge stands, and is in "
    "doubt among your releases: begin another, which is charged again",
    "exit_code": 5,
}
_STOPPED_ROW = {"state": "stopped", "problem": json.dumps(_STOPPED)}


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it stands at a moment of the public clock."""

    id: int
    account: int
    name: str
    kind: str
    state: str
    stage: str
    seconds: float
    problem: dict[str, Any] | None
    model: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the job as JSON data."""
        # of a period's release, the number that comes of it is the step of its series
        number = {"step" if self.kind == SERIES_RELEASE else "model": self.model}
        names = ("id", "kind", "state", "stage", "seconds", "problem")
        return {"schema": 1, "account": self.name, **{name: getattr(self, name) for name in names}, **number}


class Jobs:
    """Begin jobs of one store, a few at a time, and say how they stand."""

    def __init__(self, store: ServerDatabase, clock: PublicClock) -> None:
        self._store = store
        self._clock = clock
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="job")
        # Jobs begun by this process, and not done.
        self._begun: set[int] = set()
        self._beat = threading.Thread(target=self._say_alive, name="jobs", daemon=True)
        # Set when no more jobs begin, and when none is under way.
        self._closing = threading.Event()
        self._closed = threading.Event()

    def begin(self, account: int, kind: str, asked: dict[str, Any], work: Work, *, request: str | None) -> Job:
        """Begin a job, or return the one that this request id began; raises QuestionRefused where it began another."""
        text = json.dumps(asked, sort_keys=True)
        row = {"account": account, "kind": kind, "state": "running", "stages": "[]", "request": request, "asked": text}
        try:
            with self._store.transact() as db:
                now = self._store.now()
                key = db.execute(insert(JOBS).values(**row, started=now, seen=now)).inserted_primary_key
        except IntegrityError:
            with self._store.read() as db:
                earlier = db.execute(_with_accounts().where(JOBS.c.request == request)).one()
            if earlier.asked != text:
                raise QuestionRefused("this request id began another job: take a new one") from None
            return self._job(earlier)
        assert key is not None
        self._begun.add(key[0])
        if not self._beat.is_alive():
            # Another thread was first.
            with suppress(RuntimeError):
                self._beat.start()
        self._pool.submit(self._run, key[0], work)
        return self.find(key[0])

    def find(self, number: int) -> Job:
        """Return a job; raises NotThere."""
        self.end_stopped()
        with self._store.read() as db:
            row = db.execute(_with_accounts().where(JOBS.c.id == number)).first()
        if row is None:
            raise NotThere
        return self._job(row)

    def all(self, *, account: int | None = None) -> list[Job]:
        """Return all jobs, or those of an account, oldest first."""
        self.end_stopped()
        statement = _with_accounts().order_by(JOBS.c.id)
        statement = statement if account is None else statement.where(JOBS.c.account == account)
        with self._store.read() as db:
            return [self._job(row) for row in db.execute(statement)]

    def end_stopped(self, *, alone: bool = False) -> None:
        """Mark the jobs that a process which is gone left; one that is `alone` on its store need not wait for its silence."""
        now = self._store.clock()
        silent = JOBS.c.seen.is_(None) | (JOBS.c.seen <= text_of_time(now - _SILENCE))
        left = (JOBS.c.state == "running") & JOBS.c.id.not_in(tuple(self._begun)) & (true() if alone else silent)
        with self._store.read() as db:
            if db.execute(select(JOBS.c.id).where(left)).first() is None:
                return
        with self._store.transact() as db:
            db.execute(update(JOBS).where(left).values(**_STOPPED_ROW, ended=text_of_time(now)))

    def _say_alive(self) -> None:
        while not self._closed.wait(_BEAT):
            if not self._begun:
                continue
            with suppress(StoreUnusable), self._store.transact() as db:
                db.execute(update(JOBS).where(JOBS.c.id.in_(tuple(self._begun))).values(seen=self._store.now()))

    def close(self) -> None:
        """Wait for the jobs under way; those that wait for their turn are stopped, which costs nothing."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)
        self._closed.set()
        waiting = tuple(self._begun)
        self._begun.clear()
        if waiting:
            # A store that is away marks them where it is opened next.
            with suppress(StoreUnusable), self._store.transact() as db:
                db.execute(update(JOBS).where(JOBS.c.id.in_(waiting)).values(**_STOPPED_ROW, ended=self._store.now()))

    def _run(self, number: int, work: Work) -> None:
        # A thread may have taken it between the moment of closing and that at which the pool lets go of what waits.
        if self._closing.is_set():
            return
        started = self._clock.start()
        stages = []

        def enter(stage: str) -> None:
            moment = self._store.clock() + datetime.timedelta(seconds=self._clock.wait(started))
            stages.append([text_of_time(moment), stage])
            # A stage that is not shown costs nothing.
            with suppress(StoreUnusable):
                self._set(number, stages=json.dumps(stages))

        values: dict[str, Any] = {"state": "done"}
        try:
            values["model"] = work(enter)
        except SordinoError as error:
            values = {"state": "failed", "problem": json.dumps(problem_of(error))}
        # The error's words may hold data.
        except Exception:
            values = {
                "state": "failed",
                "problem": json.dumps(_UNEXPECTED),
            }
        self._clock.sleep(started)
        # A store that is away for a while must not leave a job running for ever.
        for pause in (1, 5, 30, 300):
            try:
                self._set(number, **values, ended=self._store.now())
                self._begun.discard(number)
                return
            except StoreUnusable:
                self._closing.wait(pause)

    def _set(self, number: int, **values: Any) -> None:
        with self._store.transact() as db:
            db.execute(update(JOBS).where(JOBS.c.id == number).values(values))

    def _job(self, row: Row[Any]) -> Job:
        now = self._store.clock()
        until = now if row.ended is None else datetime.datetime.fromisoformat(row.ended)
        began = datetime.datetime.fromisoformat(row.started)
        visible = [stage for moment, stage in json.loads(row.stages) if moment <= text_of_time(now)]
        problem = None if row.problem is None else json.loads(row.problem)
        stage = visible[-1] if visible else "waiting for its turn"
        seconds = max(0.0, round((until - began).total_seconds(), 1))
        return Job(row.id, row.account, row.name or OWNER.name, row.kind, row.state, stage, seconds, problem, row.model)


def _with_accounts() -> Any:
    return select(JOBS, ACCOUNTS.c.name.label("name")).join_from(JOBS, ACCOUNTS)
