"""How an assistant's tools are reached: by standard input and output, or by streamable HTTP on this machine with a token."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sordino.local.collector.service import serve_app
from sordino.serve.assistant.backends import AssistantBackend
from sordino.serve.assistant.tools import assistant_server
from sordino.serve.server.accounts import make_secret

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class BearerGate:
    """Let requests pass that carry one token: whoever reaches the port must not spend the share without it."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], secret: str) -> None:
        self._app = app
        self._expected = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401."""
        authorization = dict(scope.get("headers", ())).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(authorization, self._expected):
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def run_stdio(backend: AssistantBackend) -> None:
    """Serve the tools by standard input and output, until the input ends."""
    asyncio.run(assistant_server(backend).run_stdio_async())


def listen_http(backend: AssistantBackend, *, port: int, say: Callable[[str], None]) -> None:
    """Serve the tools at /mcp on this machine until stopped; `say` is told the address and the token, which is new each time."""
    secret = make_secret("mcp")
    app = BearerGate(assistant_server(backend).streamable_http_app(host="127.0.0.1"), secret)
    at = f"http://127.0.0.1:{port}/mcp"
    serve_app(app, host="127.0.0.1", port=port, ready=lambda: say(f"tools at {at}; Authorization: Bearer {secret}"))
