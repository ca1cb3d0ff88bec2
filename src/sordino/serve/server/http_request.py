"""What the routes share: who asks, the JSON of a body, and errors as problem+json. It knows no route."""

from __future__ import annotations

import ipaddress
import json
import math
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Match

from sordino.core.errors import DeclarationError, NotAllowed, SignInNeeded, SordinoError, TooManyRequests
from sordino.serve.server import http_schemas as schemas
from sordino.serve.server.access import ROLES, Visitor
from sordino.serve.server.answer_time import GONE
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.jobs import WorkQueue
from sordino.serve.server.problems import UNEXPECTED, problem_of, status_of
from sordino.serve.server.question_request import UnknownKey, check_keys, or_null
from sordino.serve.server.sessions import Session

# The number of an account, a model or a job in an address: the databases hold no larger one.
StoredInt = Annotated[int, Field(ge=1, le=2**63 - 1)]
# The confidence of errors and intervals.
Confidence = Annotated[float, Field(gt=0, lt=1)]
Result = TypeVar("Result")
_SAFE = ("GET", "HEAD", "OPTIONS")
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def api_router(tag: str, *, prefix: str = "/v1") -> APIRouter:
    """Return a router of the API, which a document lists under a tag."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=schemas.PROBLEMS,
        # the name of its function, which is what a generated client calls an operation
        generate_unique_id_function=lambda route: route.name,
    )


def service_of(request: Request) -> CuratorService:
    """Return the service that the application serves."""
    service: CuratorService = request.app.state.service
    return service


def cookie_name(request: Request) -> str:
    """Return the session cookie's name: over TLS one that a browser takes from this host alone."""
    return "__Host-sordino" if _is_secure(request) else "sordino"


def _is_secure(request: Request) -> bool:
    origin = service_of(request).settings.origin
    return origin is not None and origin.startswith("https://")


def set_cookie(request: Request, response: Response, value: str, *, seconds: int) -> None:
    """Set the session cookie: no script reads it, and no other site's page sends it."""
    secure = _is_secure(request)
    response.set_cookie(
        cookie_name(request), value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict"
    )


async def session_of(request: Request) -> Session:
    """Return the session of the request's cookie; raises SignInNeeded."""
    cookie = request.cookies.get(cookie_name(request))
    if cookie is None:
        raise SignInNeeded("sign in, or send a token: Authorization: Bearer TOKEN")
    session = await run_in_threadpool(service_of(request).account_service.sessions.find, cookie)
    # For the log.
    request.scope["sordino.account"] = session.visitor.name
    return session


async def visitor_of(request: Request) -> Visitor:
    """Return who asks: by the token of the Authorization header, else by the session's cookie.

    With a cookie, what changes something has to come from this origin and carry the session's CSRF token: in the header
    X-CSRF-Token, or where a page sends a form, as its field csrf_token.
    """
    authorization = request.headers.get("authorization")
    if authorization is None:
        session = await session_of(request)
        if request.method not in _SAFE:
            check_origin(request)
            session.check_csrf(await _csrf_of(request))
        return session.visitor
    scheme, _, secret = authorization.partition(" ")
    if scheme.lower() != "bearer" or not secret or len(secret) > 200:
        raise SignInNeeded("send a token: Authorization: Bearer TOKEN")
    visitor = await run_in_threadpool(
        lambda: service_of(request).account_service.enter(secret, address=address_of(request))
    )
    # For the log.
    request.scope["sordino.account"] = visitor.name
    return visitor


def address_of(request: Request) -> str:
    """Return the address that a request comes from, to count failures by; empty where it is not known.

    A proxy on this machine says it in X-Forwarded-For, of which the last is what the proxy itself saw. One that says nothing
    must not make all the people behind it one sender: with an `origin` stated, loopback alone is nobody's address.
    """
    peer = "" if request.client is None else request.client.host
    try:
        local = ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return peer
    if not local:
        return peer
    forwarded = request.headers.getlist("x-forwarded-for")
    if forwarded:
        return forwarded[-1].rpartition(",")[2].strip()[:100]
    return peer if service_of(request).settings.origin is None else ""


async def run_work(request: Request, visitor: Visitor, work: Callable[[], Result]) -> Result:
    """Return what work for an account returns: planning, asking, fitting, drawing. It has threads of its own.

    Planning stops soon after whoever asked has gone.
    """
    queue: WorkQueue = request.app.state.work
    stop = threading.Event()

    def stoppable() -> Result:
        GONE.set(stop.is_set)
        return work()

    return await queue.run(visitor.account, stoppable, gone=request.is_disconnected, stop=stop)


def check_origin(request: Request) -> None:
    """Raise NotAllowed for a request that a browser sends from another site's page."""
    stated = service_of(request).settings.origin
    expected = stated or f"{request.url.scheme}://{request.headers.get('host', '')}"
    origin = request.headers.get("origin")
    fetched = request.headers.get("sec-fetch-site")
    if (origin is not None and origin != expected) or fetched not in (None, "same-origin", "none"):
        raise NotAllowed("this request comes from another site's page")


async def _csrf_of(request: Request) -> str | None:
    token = request.headers.get("x-csrf-token")
    if token is None and request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        token = (await read_form(request)).get("csrf_token")
    return token


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page sent, each once; raises DeclarationError."""
    try:
        pairs = parse_qsl((await request.body()).decode("utf-8"), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        raise DeclarationError("must be a form in UTF-8", key="the body") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise DeclarationError("must have each field once", key="the body")
    return fields


async def read_json(request: Request) -> dict[str, Any]:
    """Return the JSON object that a body is; raises DeclarationError, which quotes nothing of it."""
    body = await request.body()
    try:
        content = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_pairs)
        # Half of a surrogate pair, such as \ud800, could not be quoted in any answer.
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise DeclarationError(
            "must be a JSON object, in UTF-8, without NaN, half a character or a key twice", key="the body"
        ) from None
    if not isinstance(content, dict):
        raise DeclarationError("must be a JSON object {...}", key="the body")
    return content


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key stands twice")
    return members


def body_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the OpenAPI document says of a route's body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": dict(schema)}}}}


# What is known of the texts that requests state, by their keys.
_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "name": {"minLength": 1, "maxLength": 80},
    "role": {"enum": [*ROLES]},
    "decision": {"enum": ["approved", "declined"]},
}


def fields_schema(needs: str = "", may: str = "", *, flags: str = "", amounts: str = "") -> dict[str, Any]:
    """Return the JSON Schema of an object of texts, the keys of `needs` always and those of `may` or not."""
    kinds: dict[str, Any] = {name: {"type": "string"} for name in (*needs.split(), *may.split())}
    kinds |= {name: {"type": "boolean"} for name in flags.split()}
    kinds |= {name: {"type": ["string", "number"]} for name in amounts.split()}
    for name, known in _KNOWN.items():
        if name in kinds:
            kinds[name] |= known
    optional = {name: or_null(kind) for name, kind in kinds.items() if name not in needs.split()}
    kinds |= optional
    return {"type": "object", "properties": kinds, "required": needs.split(), "additionalProperties": False}


def respond(data: Any, status: int = 200, **headers: str) -> Response:
    """Return JSON that no cache keeps."""
    return JSONResponse(data, status, headers={"cache-control": "no-store", **headers})


def _methods_at(request: Request) -> list[str]:
    """Return the methods that an address takes, of all routes there: the framework names those of the first alone."""
    routes = request.app.router.routes
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    return [
        method for method, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]


def check_parameters(request: Request) -> None:
    """Raise UnknownKey for a query parameter that the route does not take: what is misspelt is not left out in silence."""
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    check_keys(request.query_params, known, what="this address", kind="parameter")


def _refuse(request: Request, error: SordinoError) -> Response:
    if isinstance(error, UnknownKey):
        # For the log.
        request.scope["sordino.unknown"] = error.unknown
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
    async def refuse(request: Request, error: SordinoError) -> Response:
        return _refuse(request, error)

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        # Its first place names a parameter of the document's own; what was sent there is quoted nowhere.
        first = error.errors()[0]
        rule = first["msg"].replace("Input should be", "must be")
        return _refuse(request, DeclarationError(rule, key=str(first["loc"][-1])))

    @app.exception_handler(HTTPException)
    async def missing(request: Request, error: HTTPException) -> Response:
        details = {404: "there is nothing at this address", 405: "this address does not take this method"}
        plain = {
            "type": "about:blank",
            "title": "not found" if error.status_code == 404 else "refused",
            "status": error.status_code,
            "detail": details.get(error.status_code, "the request was refused"),
            "exit_code": 2,
        }
        headers = {"cache-control": "no-store", **(error.headers or {})}
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods_at(request))
        return JSONResponse(plain, error.status_code, headers=headers, media_type="application/problem+json")

    @app.exception_handler(Exception)
    async def fail(_: Request, error: Exception) -> Response:
        # The error's words may hold data.
        del error
        plain = {
            "type": "about:blank",
            "title": "unexpected error",
            "status": 500,
            "detail": UNEXPECTED,
            "exit_code": 1,
        }
        return JSONResponse(plain, 500, headers={"cache-control": "no-store"}, media_type="application/problem+json")
