"""What stands before every route: the server's own names, bodies of a stated size and time, headers, the log, the metrics.

It reads no body's meaning and knows no route.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import FastAPI

from sordino.serve.server.logs import Metrics, log_request

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Bytes of a body.
_LARGEST = 1 << 20
# Seconds for a body to arrive.
_PATIENCE = 20.0
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
# For answers that state no policy: pages state their own.
_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_STATUS = {
    400: "the body's length is not as stated",
    408: "the body did not arrive in time",
    413: "the body is too large",
    421: 'this server has no such name: state where browsers find it, such as origin = "http://NAME:8000", in [serve]',
}
# Public facts, which a request by any host name may have.
FOR_MACHINES = frozenset({"/healthz", "/readyz", "/metrics"})


class HttpGuard:
    """Read a body whole before the application sees it, and put what guards browsers on each answer.

    `app` is what it stands before: routers are added there.
    """

    def __init__(self, app: FastAPI, *, metrics: Metrics, secure: bool, named: bool) -> None:
        self.app = app
        self._named = named
        self._metrics = metrics
        self._headers = (*_HEADERS, *(((b"strict-transport-security", b"max-age=31536000"),) if secure else ()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            # A WebSocket is closed without an answer.
            return
        answer = self._answer(scope, send)
        foreign = not self._named and scope["path"] not in FOR_MACHINES and _is_foreign(scope)
        body = 421 if foreign else await _read_body(scope, receive)
        if isinstance(body, int):
            await _refuse(answer, body)
            return
        handed = False

        async def whole() -> Message:
            nonlocal handed
            if handed:
                # The client has gone.
                return await receive()
            handed = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, whole, answer)

    def _answer(self, scope: Scope, send: Send) -> Send:
        started = time.monotonic()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.monotonic() - started
                # the address as the route states it, never what was asked for: "/v1/releases/{charge}"
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.count(message["status"])
                self._metrics.observe(scope["method"], route, seconds)
                account = scope.get("sordino.account", "")
                log_request(
                    method=scope["method"],
                    route=route,
                    status=message["status"],
                    seconds=seconds,
                    account=account,
                    unknown=scope.get("sordino.unknown", ""),
                )
                headers = list(message.get("headers", ()))
                names = {name.lower() for name, _ in headers}
                headers += [pair for pair in self._headers if pair[0] not in names]
                if b"content-security-policy" not in names:
                    headers.append((b"content-security-policy", _POLICY))
                message = {**message, "headers": headers}
            await send(message)

        return answer


def _is_foreign(scope: Scope) -> bool:
    """Return whether a browser was sent here by a name that is not this server's: as DNS rebinding does.

    An address as a number is nobody's name, and so is localhost, which browsers look up nowhere.
    """
    stated = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    name = stated.rpartition(":")[0] if stated.rpartition(":")[2].isdigit() else stated
    name = name.strip("[]").lower()
    if not name or name == "localhost" or name.endswith(".localhost") or name == (scope.get("server") or ("",))[0]:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False


async def _read_body(scope: Scope, receive: Receive) -> bytes | int:
    """Return the body, or the status that refuses it."""
    stated = dict(scope["headers"]).get(b"content-length", b"0")
    if not stated.isdigit() or len(stated) > 12:
        return 400
    if int(stated) > _LARGEST:
        return 413
    parts: list[bytes] = []
    total = 0
    more = True
    try:
        async with asyncio.timeout(_PATIENCE):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return 400
                parts.append(message.get("body", b""))
                total += len(parts[-1])
                more = message.get("more_body", False)
                if total > _LARGEST:
                    return 413
    except TimeoutError:
        return 408
    return b"".join(parts)


async def _refuse(send: Send, status: int) -> None:
    plain = {"type": "about:blank", "title": "refused", "status": status, "detail": _STATUS[status], "exit_code": 2}
    body = json.dumps(plain).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
