"""The collector as an ASGI application: reports through their endpoint, everything else through FastAPI.

It keeps no address: none is read, and the access log is off. Pages load nothing from elsewhere, under a strict policy.

The endpoint of reports is plain ASGI, for speed. It judges a request by its token, length, manifest hash and task, and sends
a 200 or 409 after the commit that holds the report. The other routes are the signed task, and for administrators, who have
tokens, estimates, closing and export.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from sordino.core.errors import DeclarationError, SordinoError
from sordino.local.collector.collector import Collector
from sordino.local.collector.pages import add_pages
from sordino.local.collector.report_store import Chunk, Store
from sordino.local.collector.report_writer import BUSY, FAILED, ReportWriter
from sordino.local.collector.results import export_batch, results
from sordino.local.collector.service import Buckets, Limits, Tokens
from sordino.local.collector.task_state import HEAD_BYTES, ID_BYTES, TaskState, counts_text
from sordino.local.task import Task

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# In one request.
MOST_REPORTS = 10_000
# Seconds for a body to arrive.
_PATIENCE = 20.0

ERRORS: Mapping[str, tuple[int, str]] = {
    "no_length": (411, "send a Content-Length: bodies have a fixed size"),
    "oversized": (413, f"a request holds at most {MOST_REPORTS:,} reports of this task"),
    "malformed": (400, "a body is the 32-byte manifest hash, then reports: a 16-byte id and the report's bytes each"),
    "no_token": (401, "send a respondent's token: Authorization: Bearer TOKEN"),
    "wrong_role": (403, "this token is not for this; respondents and administrators have tokens of their own"),
    "no_task": (404, "there is no such task here"),
    "method": (405, "reports are sent by POST"),
    "slow": (408, "the body did not arrive in time; send it again"),
    "repeated": (409, "these reports were stored before; they are counted once, there is nothing to send again"),
    "expired": (410, "the task has expired; it takes no more reports"),
    "used": (403, "this token has sent all the reports that it may send to this task"),
    "closed": (410, "the task is closed; it takes no more reports"),
    "wrong_task": (422, "these reports are of another task; send them to its own address"),
    "wrong_manifest": (422, "these reports were made by another manifest; fetch the task again"),
    "too_many": (429, "this token sends too much; wait for as many seconds as Retry-After says"),
    "busy": (503, BUSY),
    "failed": (503, FAILED),
}


class ReportEndpoint:
    """Take reports for the tasks at hand."""

    def __init__(
        self,
        states: Mapping[str, TaskState],
        writer: ReportWriter,
        *,
        tokens: Tokens,
        limits: Limits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._states = states
        self._writer = writer
        self._tokens = tokens
        self._limits = limits
        self._buckets = Buckets(limits)
        self._clock = clock
        self._hashes = {state.task.manifest.hash for state in states.values()}
        self._heads = {name: state.task.manifest.hash for name, state in states.items()}
        self._expires = {name: state.task.manifest.expires.timestamp() for name, state in states.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        """Answer one request for the reports of a task."""
        code = "method"
        extra = None
        if scope["method"] == "POST":
            code, extra = await self._take(scope, receive, name)
        if code == "ok":
            await _respond(send, 200, extra.encode() if extra else b"")
        else:
            await _respond(send, ERRORS[code][0], error_body(code, extra if code == "malformed" else None), code, extra)

    async def _take(self, scope: Scope, receive: Receive, name: str) -> tuple[str, str | None]:
        """Return how a request fared, in a word of ERRORS or "ok", and what is to be added to it."""
        state = self._states.get(name)
        if state is None:
            return "no_task", None
        length, authorization = _headers(scope)
        if length is None:
            return "no_length", None
        role, sender = self._tokens.role(authorization)
        if not self._limits.open and role != "respondent":
            return ("no_token" if role is None else "wrong_role"), None
        step = ID_BYTES + state.width
        reports, rest = divmod(length - HEAD_BYTES, step)
        if reports > MOST_REPORTS:
            return "oversized", None
        if reports < 1 or rest:
            return (
                "malformed",
                f"a body of this task has {HEAD_BYTES} + {step} bytes, or {step} more for each further report",
            )
        wait = self._buckets.take(name.encode() if self._limits.open else sender, reports)
        if wait:
            return "too_many", "3600" if math.isinf(wait) else str(math.ceil(wait))
        body = await _body(receive, length)
        if isinstance(body, str):
            return body, None
        if body[:HEAD_BYTES] != self._heads[name]:
            return ("wrong_task" if body[:HEAD_BYTES] in self._hashes else "wrong_manifest"), None
        if self._clock() >= self._expires[name]:
            return "expired", None
        if state.closed:
            return "closed", None
        return await self._store(state, body, sender)

    async def _store(self, state: TaskState, body: bytes, sender: bytes) -> tuple[str, str | None]:
        post = state.post(body)
        stored = asyncio.get_running_loop().create_future()
        post.sender = sender
        if not self._writer.submit(state, post, stored):
            return "busy", None
        await stored
        if post.refused is not None:
            return ("failed", None) if post.added < 0 else (post.code, post.refused)
        if post.added == 0:
            return "repeated", None
        return "ok", f'{{"stored":{post.added},"repeated":{len(post.ids) - post.added}}}'


def error_body(code: str, extra: str | None = None) -> bytes:
    """Return the JSON of an error."""
    return json.dumps({"error": {"code": code, "says": extra or ERRORS[code][1]}}).encode()


async def _respond(send: Send, status: int, body: bytes, code: str = "ok", extra: str | None = None) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if code == "too_many" and extra is not None:
        headers.append((b"retry-after", extra.encode()))
    elif code == "no_token":
        headers.append((b"www-authenticate", b"Bearer"))
    elif code in ("oversized", "slow"):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(scope: Scope) -> tuple[int | None, bytes | None]:
    length: int | None = None
    authorization: bytes | None = None
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = int(value) if value.isdigit() and len(value) < 12 else None
        elif name == b"authorization":
            authorization = value
    return length, authorization


async def _body(receive: Receive, length: int) -> bytes | str:
    """Return a body of exactly this length, or the word for what is wrong."""
    parts: list[bytes] = []
    total = 0
    more = True
    try:
        async with asyncio.timeout(_PATIENCE):
            while more:
                message = await receive()
                parts.append(message.get("body", b""))
                total += len(parts[-1])
                more = message.get("more_body", False)
                if total > length:
                    return "malformed"
    except TimeoutError:
        return "slow"
    if total != length:
        return "malformed"
    return parts[0] if len(parts) == 1 else b"".join(parts)


Authorization = Annotated[str | None, Header()]


class _Refused(Exception):  # a refusal, by its code in ERRORS
    def __init__(self, code: str, says: str | None = None) -> None:
        self.code = code
        self.says = says


def add_routes(app: FastAPI, collector: Collector) -> None:
    """Add the routes of the service."""
    _add_error_handlers(app)
    _add_public_routes(app, collector)
    _add_administrator_routes(app, collector)


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(_Refused)
    async def refuse(_: Request, error: _Refused) -> Response:
        headers = {"retry-after": "60"} if error.code == "too_many" else None
        body = error_body(error.code, error.says)
        return Response(body, ERRORS[error.code][0], headers=headers, media_type="application/json")

    @app.exception_handler(SordinoError)
    async def unusable(_: Request, error: SordinoError) -> Response:
        return Response(error_body("failed", str(error)), 503, media_type="application/json")

    @app.exception_handler(HTTPException)
    async def missing(_: Request, error: HTTPException) -> Response:
        code = {404: "no_task", 405: "method"}.get(error.status_code, "malformed")
        says = "there is nothing at this address" if error.status_code == 404 else str(error.detail)
        return Response(error_body(code, says), error.status_code, media_type="application/json")


def _add_public_routes(app: FastAPI, collector: Collector) -> None:
    # Checks have limits apart from those of reports: a check takes nothing from what may be sent.
    checks = Buckets(collector.limits)

    @app.get("/v1/health", summary="Say that the service runs")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/v1/tasks", summary="List the tasks by name")
    async def tasks() -> dict[str, list[str]]:
        return {"tasks": sorted(collector.states)}

    @app.get("/v1/tasks/{task}", summary="Return a task's signed manifest")
    async def manifest(task: str) -> Response:
        return Response(_find_state(collector, task).task.envelope, media_type="application/json")

    @app.get("/v1/tasks/{task}/token", summary="Say whether a token may send reports for a task; nothing is stored")
    async def check_token(task: str, authorization: Authorization = None) -> JSONResponse:
        state = _find_state(collector, task)
        role, sender = _read_role(collector, authorization)
        if checks.take(b"" if role is None else sender, 1):
            raise _Refused("too_many")
        code = None if collector.limits.open or role == "respondent" else "no_token" if role is None else "wrong_role"
        if code is None and state.is_used(sender):
            code = "used"
        plain = {"accepted": code is None, "code": code, "says": None if code is None else ERRORS[code][1]}
        return JSONResponse(plain, headers={"cache-control": "no-store"})


def _add_administrator_routes(app: FastAPI, collector: Collector) -> None:
    @app.get("/v1/tasks/{task}/estimate", summary="Return estimates with intervals (administrators)")
    async def estimate(
        task: str,
        confidence: Annotated[float, Query(gt=0, lt=1)] = 0.95,
        malicious: Annotated[float, Query(ge=0, le=0.999999)] = 0.01,
        authorization: Authorization = None,
    ) -> JSONResponse:
        _admit_administrator(collector, authorization)
        state = _find_state(collector, task)
        plain = await run_in_threadpool(_results, collector.url, state, confidence, malicious)
        return JSONResponse(plain, headers={"cache-control": "no-store"})

    @app.post("/v1/tasks/{task}/close", summary="Close a task for ever (administrators)")
    async def close(task: str, authorization: Authorization = None) -> dict[str, Any]:
        _admit_administrator(collector, authorization)
        state = _find_state(collector, task)
        await collector.close(task)
        return {"task": task, "closed": True, "reports": state.counts.n}

    @app.get("/v1/tasks/{task}/export", summary="Return all reports as one batch in the wire format (administrators)")
    async def export(task: str, authorization: Authorization = None) -> Response:
        _admit_administrator(collector, authorization)
        state = _find_state(collector, task)
        batch = await run_in_threadpool(_batch, collector.url, state)
        return Response(batch, media_type="application/octet-stream")


def _find_state(collector: Collector, task: str) -> TaskState:
    if task not in collector.states:
        raise _Refused("no_task")
    return collector.states[task]


def _read_role(collector: Collector, authorization: str | None) -> tuple[str | None, bytes]:
    return collector.tokens.role(None if authorization is None else authorization.encode("latin-1", "replace"))


def _admit_administrator(collector: Collector, authorization: str | None) -> None:
    role, _ = _read_role(collector, authorization)
    if role is None:
        raise _Refused("no_token", "send an administrator's token: Authorization: Bearer TOKEN")
    if role != "admin":
        raise _Refused("wrong_role")


def _results(url: str, state: TaskState, confidence: float, malicious: float) -> dict[str, Any]:
    # Chunks are read only where texts are searched for.
    def chunks() -> Iterator[Chunk]:
        with closing(Store.open(url)) as store:
            yield from store.chunks(state.number)

    return results(state.task, state.counts, chunks, closed=state.closed, confidence=confidence, malicious=malicious)


def _batch(url: str, state: TaskState) -> bytes:
    """Return the reports stored at this moment, sorted by what they say: the order of their arrival is gone."""
    store = Store.open(url)
    try:
        return export_batch(state.task, store.chunks(state.number))
    finally:
        store.close()


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
