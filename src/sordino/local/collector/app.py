"""The collector as an ASGI application: reports through their endpoint, everything else through FastAPI.

It keeps no address: none is read, and the access log is off. Pages load nothing from elsewhere, under a strict policy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from sordino.core.errors import DeclarationError
from sordino.local.collector.collector import Collector
from sordino.local.collector.pages import add_pages
from sordino.local.collector.report_endpoint import ERRORS, Receive, ReportEndpoint, Scope, Send
from sordino.local.collector.report_store import Store
from sordino.local.collector.report_writer import ReportWriter
from sordino.local.collector.routes import add_routes
from sordino.local.collector.service import Limits, Tokens
from sordino.local.collector.task_state import TaskState, counts_text
from sordino.local.task import Task

# Seconds between looks for new tokens and closed tasks.
_REFRESH = 1.0
_PREFIX = "/v1/tasks/"
_SUFFIX = "/reports"


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
        states: dict[str, TaskState] = {}
        for task in tasks:
            empty = TaskState.empty_counts(task)
            stored = store.add_task(task.manifest.task, task.envelope, counts_text(empty))
            states[task.manifest.task] = TaskState(task, stored, per_token=limits.per_token)
    finally:
        store.close()
    if len(states) < len(tasks):
        raise DeclarationError("each task must have a name of its own")
    collector = Collector(url, states, ReportWriter(url, list(states.values())), Tokens(), limits)
    endpoint = ReportEndpoint(states, collector.writer, tokens=collector.tokens, limits=limits, clock=clock)
    return _Router(_build_app(collector), endpoint)


class _Router:
    """Send requests for reports to their endpoint, all others to FastAPI."""

    __slots__ = ("_app", "_endpoint")

    def __init__(self, app: FastAPI, endpoint: ReportEndpoint) -> None:
        self._app = app
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
                await self._endpoint(scope, receive, send, path[len(_PREFIX) : -len(_SUFFIX)])
                return
        await self._app(scope, receive, send)


def _build_app(collector: Collector) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await collector.start()
            stack.push_async_callback(collector.stop)
            refreshing = asyncio.create_task(_keep_fresh(collector))
            stack.push_async_callback(_cancel, refreshing)
            yield

    app = FastAPI(title="Sordino collector", version="1", docs_url=None, redoc_url=None, lifespan=lifespan)
    add_routes(app, collector)
    add_pages(app, collector)
    app.openapi = lambda: describe_service(app)  # type: ignore[method-assign]
    return app


async def _keep_fresh(collector: Collector) -> None:
    while True:
        await asyncio.sleep(_REFRESH)
        # The store is away for a moment; reports meanwhile get a 503.
        with suppress(DeclarationError):
            await collector.refresh()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def describe_service(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the whole service."""
    if app.openapi_schema is None:
        plain = get_openapi(title=app.title, version=app.version, routes=app.routes, description=_ABOUT)
        plain["paths"]["/v1/tasks/{task}/reports"] = {"post": _reports()}
        parts = plain.setdefault("components", {})
        parts.setdefault("schemas", {})["Error"] = _ERROR
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = plain
    return app.openapi_schema


_ABOUT = "Collects reports that were randomised on the sender's device. No address is stored or logged."
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string", "enum": sorted(ERRORS)}, "says": {"type": "string"}},
            "required": ["code", "says"],
        }
    },
    "required": ["error"],
}


def _reports() -> dict[str, Any]:
    stored = {"type": "object", "properties": {"stored": {"type": "integer"}, "repeated": {"type": "integer"}}}
    codes_of: dict[int, list[str]] = {}
    for code, (status, _) in ERRORS.items():
        codes_of.setdefault(status, []).append(code)
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": "Store one report or several; answered when they are on disk",
        "description": "The body: the 32-byte hash of the manifest, then for each report a random 16-byte id and its bytes.",
        "security": [{"token": []}],
        "parameters": [{"name": "task", "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        "responses": {
            "200": {"description": "Stored", "content": {"application/json": {"schema": stored}}},
            **{
                str(status): {
                    "description": "; ".join(f"{code}: {ERRORS[code][1]}" for code in codes),
                    "content": failed,
                }
                for status, codes in sorted(codes_of.items())
            },
        },
    }
