"""The collector as an ASGI application: reports through a plain door, everything else through FastAPI.

It keeps no address: none is read, and the access log is off. Pages load nothing from elsewhere, under a strict policy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI

from sordino.collector.desk import Desk, counts_text
from sordino.collector.intake import Intake, Receive, Scope, Send
from sordino.collector.limits import Limits, Tokens
from sordino.collector.openapi import described
from sordino.collector.pages import add_pages
from sordino.collector.routes import add_routes
from sordino.collector.running import Collector
from sordino.collector.store import Store
from sordino.collector.writer import Writer
from sordino.errors import DeclarationError
from sordino.local.task import Task

__all__ = ["collector_app"]

_REFRESH = 1.0  # seconds between looks for new tokens and closed tasks
_PREFIX, _SUFFIX = "/v1/tasks/", "/reports"


def collector_app(
    url: str, tasks: Sequence[Task], *, limits: Limits, clock: Callable[[], float] = time.time
) -> Callable[[Scope, Receive, Send], Any]:
    """Return the ASGI application that collects reports for these tasks into the store at `url`.

    Raises DeclarationError where the store cannot be used, or holds one of the tasks with another manifest.
    """
    if not tasks:
        raise DeclarationError("a collector needs a task: make one with `sordino local task create`")
    store = Store.open(url)
    try:
        desks: dict[str, Desk] = {}
        for task in tasks:
            empty = Desk.empty_counts(task)
            stored = store.add_task(task.manifest.task, task.envelope, counts_text(empty))
            desks[task.manifest.task] = Desk(task, stored)
    finally:
        store.close()
    if len(desks) < len(tasks):
        raise DeclarationError("each task must have a name of its own")
    collector = Collector(url, desks, Writer(url, list(desks.values())), Tokens(), limits)
    intake = Intake(desks, collector.writer, tokens=collector.tokens, limits=limits, clock=clock)
    return _Front(_rest(collector), intake)


class _Front:
    """Send requests for reports to the intake, all others to FastAPI."""

    __slots__ = ("_intake", "_rest")

    def __init__(self, rest: FastAPI, intake: Intake) -> None:
        self._rest = rest
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
                await self._intake(scope, receive, send, path[len(_PREFIX) : -len(_SUFFIX)])
                return
        await self._rest(scope, receive, send)


def _rest(collector: Collector) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await collector.start()
            stack.push_async_callback(collector.stop)
            looking = asyncio.create_task(_looking(collector))
            stack.push_async_callback(_ended, looking)
            yield

    app = FastAPI(title="Sordino collector", version="1", docs_url=None, redoc_url=None, lifespan=lifespan)
    add_routes(app, collector)
    add_pages(app, collector)
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    return app


async def _looking(collector: Collector) -> None:
    while True:
        await asyncio.sleep(_REFRESH)
        with suppress(DeclarationError):  # a store that is away for a moment; reports meanwhile get a 503
            await collector.look()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
