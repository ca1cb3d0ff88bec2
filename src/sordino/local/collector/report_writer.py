"""The one writer: a thread that gathers posts for a moment and stores them in one durable transaction.

It knows states and the store. A post is answered after the commit that holds it: acknowledged means durable. Where a
commit fails its posts are refused, and before the next one the states are read anew, so nothing is counted twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sordino.local.collector.report_store import Addition, Store
from sordino.local.collector.task_state import Post, TaskState

if TYPE_CHECKING:
    from sordino.local.reports import SupportCounts

BUSY = "the collector has more to store than it can; send it again in some seconds"
FAILED = "the collector could not store this; send it again in some seconds"
# Seconds to gather posts for one commit.
_LINGER = 0.005
# Reports that may wait.
_ROOM = 1 << 17


@dataclass(slots=True)
class _Batch:
    """Posts that wait, each with its state and who waits for it; how many reports they hold."""

    posts: list[tuple[TaskState, Post, Any]] = field(default_factory=list)
    reports: int = 0


class ReportWriter:
    """Store posts from one thread; made with the address of its store, which it holds until `stop`."""

    def __init__(self, url: str, states: Sequence[TaskState]) -> None:
        self._url = url
        self._states = states
        self._batch = _Batch()
        self._mutex = threading.Lock()
        self._work = threading.Event()
        self._stopping = False
        self._store: Store | None = None
        self._thread = threading.Thread(target=self._run, name="sordino collector writer", daemon=True)
        self._answer: Callable[[list[Any]], None] | None = None

    def start(self, answer: Callable[[list[Any]], None]) -> None:
        """Hold the store, read it, and begin; `answer` is given, from this thread, who waited for a commit."""
        self._answer = answer
        self._open()
        self._thread.start()

    def submit(self, state: TaskState, post: Post, waiter: object) -> bool:
        """Queue a post; `waiter` is notified once it is stored or refused. False where there is no room or no writer."""
        with self._mutex:
            if self._stopping or self._batch.reports + len(post.ids) > _ROOM:
                return False
            self._batch.posts.append((state, post, waiter))
            self._batch.reports += len(post.ids)
        self._work.set()
        return True

    def stop(self) -> None:
        """Store what waits, then let the store go."""
        with self._mutex:
            self._stopping = True
        self._work.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _run(self) -> None:
        while True:
            self._work.wait()
            if not self._stopping:
                time.sleep(_LINGER)
            self._work.clear()
            with self._mutex:
                batch = self._batch
                self._batch = _Batch()
                last = self._stopping
            if batch.posts:
                try:
                    self._commit(batch)
                # Whatever failed, it must not end the one thread that stores.
                except Exception:
                    self._refuse_batch(batch)
                assert self._answer is not None
                self._answer([waiter for _, _, waiter in batch.posts])
            if last:
                return

    def _commit(self, batch: _Batch) -> None:
        if self._store is None:
            self._open()
        assert self._store is not None
        by_task: dict[int, tuple[TaskState, list[Post]]] = {}
        for state, post, _ in batch.posts:
            by_task.setdefault(state.number, (state, []))[1].append(post)
        additions: list[Addition] = []
        after: list[tuple[TaskState, list[bytes], Addition, SupportCounts]] = []
        for state, posts in by_task.values():
            sorted_out = state.sort(posts)
            if sorted_out is not None:
                addition, ids, counts = sorted_out
                additions.append(addition)
                after.append((state, ids, addition, counts))
        if additions:
            self._store.append(additions)
        for state, ids, addition, counts in after:
            state.settle(ids, addition, counts)

    def _refuse_batch(self, batch: _Batch) -> None:
        """Refuse posts that may or may not be stored, and forget the store until the next ones."""
        for _, post, _ in batch.posts:
            post.refused = FAILED
            post.added = -1
        if self._store is not None:
            with suppress(Exception):
                self._store.close()
            self._store = None

    def _open(self) -> None:
        store = Store.open(self._url)
        try:
            store.hold()
            for state in self._states:
                state.load(store)
        except BaseException:
            store.close()
            raise
        self._store = store
