"""What a running collector shares among its routes: states by task name, the writer, tokens, its own connection to the store."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool

from sordino.local.collector.report_store import Store
from sordino.local.collector.report_writer import ReportWriter
from sordino.local.collector.service import Limits, Tokens
from sordino.local.collector.task_state import TaskState


@dataclass(slots=True)
class Collector:
    """Hold what a running collector shares: states by task name, its writer, its own connection to the store."""

    url: str
    states: dict[str, TaskState]
    writer: ReportWriter
    tokens: Tokens
    limits: Limits
    store: Store | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def start(self) -> None:
        """Open the store, read it, and begin to write."""
        loop = asyncio.get_running_loop()
        self.store = await run_in_threadpool(Store.open, self.url)
        await run_in_threadpool(self.writer.start, lambda waiters: _wake_from_thread(loop, waiters))
        await self.refresh()

    async def stop(self) -> None:
        """Store what waits, and let the store go."""
        await run_in_threadpool(self.writer.stop)
        if self.store is not None:
            self.store.close()

    async def refresh(self) -> None:
        """Read new tokens and which tasks were closed by the command line."""
        async with self.lock:
            assert self.store is not None
            await run_in_threadpool(self.tokens.refresh, self.store)
            closed = await run_in_threadpool(self.store.list_closed)
        for state in self.states.values():
            state.closed = state.closed or state.number in closed

    async def close(self, name: str) -> None:
        """Close a task permanently."""
        self.states[name].closed = True
        async with self.lock:
            assert self.store is not None
            await run_in_threadpool(self.store.close_task, name)


def _wake_from_thread(loop: asyncio.AbstractEventLoop, waiters: list[Any]) -> None:
    # The loop has ended, so no caller waits any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_wake, waiters)


def _wake(waiters: list[Any]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
