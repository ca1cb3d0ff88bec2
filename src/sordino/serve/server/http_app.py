"""The server as an ASGI application, of a CuratorService. Routes decode and encode; what may be done is the service's word."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.core.errors import DeclarationError
from sordino.serve.server import http_schemas as schemas
from sordino.serve.server.collection_service import CollectionService
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.evaluation_service import EvaluationService
from sordino.serve.server.http_guard import FOR_MACHINES, HttpGuard
from sordino.serve.server.http_request import add_error_handlers, api_router, respond, service_of
from sordino.serve.server.http_service import (
    COLLECTIONS,
    DESK,
    LOGIN_PATH,
    MODELS_AND_JOBS,
    OPENID,
    QUESTIONS,
    RETURN_PATH,
    SERIES,
)
from sordino.serve.server.jobs import WorkQueue
from sordino.serve.server.model_service import ModelService
from sordino.serve.server.openid import OpenIdProvider
from sordino.serve.server.series_service import SeriesService

_ABOUT = (
    "Answers questions about protected tables, each charged to a share of a budget. JSON is that of the command line."
)
# Whoever asks these needs no account.
_WITHOUT_ACCOUNT = frozenset({*FOR_MACHINES, LOGIN_PATH, RETURN_PATH})


class _CuratorApp(FastAPI):
    """The routes, and a document that also says how a request shows who sends it."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            plain = get_openapi(title=self.title, version=self.version, routes=self.routes, description=_ABOUT)
            plain["components"]["securitySchemes"] = dict(schemas.SECURITY_SCHEMES)
            for path, operations in plain["paths"].items():
                for method, operation in operations.items():
                    entered = path not in _WITHOUT_ACCOUNT and (method, path) != ("post", "/v1/session")
                    operation["security"] = schemas.security_of(method) if entered else []
            self.openapi_schema = plain
        return self.openapi_schema


@asynccontextmanager
async def _close_jobs(app: FastAPI) -> AsyncIterator[None]:
    """End the jobs when the server stops: without it all that wait would be charged, and fail in a process that ends."""
    yield
    await run_in_threadpool(app.state.models.close)


def curator_app(service: CuratorService) -> HttpGuard:
    """Return the application that serves a project to its accounts."""
    app = _CuratorApp(
        title="Sordino curator",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        lifespan=_close_jobs,
    )
    app.state.service = service
    app.state.work = WorkQueue(threads=48, each=8, waiting=56)
    app.state.models = ModelService(service)
    app.state.series = SeriesService(service, app.state.models.jobs)
    app.state.evaluations = EvaluationService(app.state.models)
    app.state.collections = CollectionService(service)
    app.state.openid = _openid(service)
    add_error_handlers(app)
    add_routes(app, QUESTIONS, DESK, MODELS_AND_JOBS, SERIES, COLLECTIONS, OPENID, HEALTH)
    origin = service.settings.origin
    secure = origin is not None and origin.startswith("https://")
    return HttpGuard(app, metrics=service.metrics, secure=secure, named=origin is not None)


def add_routes(app: FastAPI, *routers: APIRouter) -> None:
    """Add the routes of routers, which have no options but their own.

    FastAPI's `include_router` would make each of them again, with the schemas of its parameters and answers: half a second of
    processor time for every application.
    """
    for router in routers:
        app.routes.extend(router.routes)


def _openid(service: CuratorService) -> OpenIdProvider | None:
    """Return the provider that [serve] names; its client's secret is in the environment, and nowhere else."""
    settings = service.settings
    if settings.issuer is None or settings.client is None:
        return None
    if settings.origin is None:
        raise DeclarationError(
            "[serve] openid needs an origin, to which the provider sends browsers back: state origin"
        )
    secret = os.environ.get("SORDINO_OPENID_SECRET", "")
    back = settings.origin + RETURN_PATH
    return OpenIdProvider(settings.issuer, settings.client, secret=secret, back=back, clock=service.store.clock)


# ---- What machines look at, without an account: public facts alone

HEALTH = api_router("health", prefix="")
_COUNTS = schemas.sends("text/plain", description="the counts, as Prometheus reads them")


@HEALTH.get("/healthz", responses=schemas.answers(schemas.Status))
async def show_health() -> Response:
    """Say that the process answers."""
    return respond({"status": "alive"})


@HEALTH.get("/readyz", responses=schemas.answers(schemas.Status))
async def show_readiness(request: Request) -> Response:
    """Say that the store and the ledgers can be used; 503 where they cannot."""
    await run_in_threadpool(service_of(request).check_ready)
    return respond({"status": "ready"})


@HEALTH.get("/metrics", response_class=Response, responses=_COUNTS)
async def show_metrics(request: Request) -> Response:
    """Return counts and times of answers, and the budgets, for Prometheus."""
    service = service_of(request)
    text = await run_in_threadpool(lambda: service.metrics.render(service.sums()))
    return Response(text, media_type="text/plain; version=0.0.4", headers={"cache-control": "no-store"})
