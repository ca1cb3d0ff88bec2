"""What the routes share: who asks, the JSON of a body, and errors as problem+json. It knows no route."""

from __future__ import annotations

import json
import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from sordino.errors import DeclarationError, SignInNeeded, SordinoError, TooManyRequests
from sordino.server.access import Visitor
from sordino.server.curator_service import CuratorService
from sordino.server.problems import UNEXPECTED, problem_of, status_of

__all__ = ["add_error_handlers", "read_json", "respond", "service_of", "visitor_of"]


def service_of(request: Request) -> CuratorService:
    """Return the service that the application serves."""
    service: CuratorService = request.app.state.service
    return service


async def visitor_of(request: Request) -> Visitor:
    """Return who asks, by the token of the Authorization header; raises SignInNeeded."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret or len(secret) > 200:
        raise SignInNeeded("send a token: Authorization: Bearer TOKEN")
    return await run_in_threadpool(service_of(request).enter, secret)


async def read_json(request: Request) -> dict[str, Any]:
    """Return the JSON object that a body is; raises DeclarationError, which quotes nothing of it."""
    body = await request.body()
    try:
        found = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_pairs)
    except (ValueError, RecursionError):
        raise DeclarationError(
            "must be a JSON object, in UTF-8, without NaN and without a key twice", key="the body"
        ) from None
    if not isinstance(found, dict):
        raise DeclarationError("must be a JSON object {...}", key="the body")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def respond(data: Any, status: int = 200, **headers: str) -> Response:
    """Return JSON that no cache keeps."""
    return JSONResponse(data, status, headers={"cache-control": "no-store", **headers})


def _refuse(error: SordinoError) -> Response:
    headers = {"cache-control": "no-store"}
    if isinstance(error, SignInNeeded):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, TooManyRequests):
        headers["retry-after"] = str(math.ceil(error.wait))
    status = status_of(error)
    kind = "application/json" if status < 400 else "application/problem+json"
    return JSONResponse(problem_of(error), status, headers=headers, media_type=kind)


def add_error_handlers(app: FastAPI) -> None:
    """Let every error leave as problem+json: Sordino's own with their words, any other without."""

    @app.exception_handler(SordinoError)
    async def refuse(_: Request, error: SordinoError) -> Response:
        return _refuse(error)

    @app.exception_handler(RequestValidationError)
    async def misread(_: Request, error: RequestValidationError) -> Response:
        del error  # its words quote what was sent
        return _refuse(DeclarationError("the address or a header is not as the OpenAPI document says"))

    @app.exception_handler(HTTPException)
    async def missing(_: Request, error: HTTPException) -> Response:
        said = {404: "there is nothing at this address", 405: "this address does not take this method"}
        plain = {
            "type": "about:blank",
            "title": "not found" if error.status_code == 404 else "refused",
            "status": error.status_code,
            "detail": said.get(error.status_code, "the request was refused"),
            "exit_code": 2,
        }
        headers = {"cache-control": "no-store", **(error.headers or {})}
        return JSONResponse(plain, error.status_code, headers=headers, media_type="application/problem+json")

    @app.exception_handler(Exception)
    async def fail(_: Request, error: Exception) -> Response:
        del error  # its words may hold data
        plain = {
            "type": "about:blank",
            "title": "unexpected error",
            "status": 500,
            "detail": UNEXPECTED,
            "exit_code": 1,
        }
        return JSONResponse(plain, 500, headers={"cache-control": "no-store"}, media_type="application/problem+json")
