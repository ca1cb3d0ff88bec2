"""The routes that are not for reports: the signed task, estimates, closing and export. Administrators have tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from sordino.core.errors import SordinoError
from sordino.local.collector.collector import Collector
from sordino.local.collector.report_endpoint import ERRORS, error_body
from sordino.local.collector.report_store import Chunk, Store
from sordino.local.collector.results import export_batch, results
from sordino.local.collector.service import Buckets
from sordino.local.collector.task_state import TaskState

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
