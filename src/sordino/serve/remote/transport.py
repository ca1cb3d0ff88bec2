"""Transports: HTTP by httpx, with the token on each request. Plain http goes to this machine alone."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from sordino.core.errors import DeclarationError, SignInNeeded
from sordino.serve.remote.operations import Call, Operation, Pause, Reply

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_VARIABLE = "SORDINO_TOKEN"


def check_url(url: str) -> str:
    """Return the address of a server; raises DeclarationError unless it is https, or http to this machine.

    >>> check_url("https://curator.example/")
    'https://curator.example'
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise DeclarationError("is no address such as https://curator.example", key="the server") from None
    if parts.username or parts.password or parts.query or parts.fragment or not host:
        raise DeclarationError(
            "is an address alone, https://curator.example: the token goes into token= or SORDINO_TOKEN",
            key="the server",
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise DeclarationError("is asked over https; http is for this machine alone", key="the server")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_token(token: str | None) -> str:
    """Return the token given, or that of the environment; raises SignInNeeded where there is none or it is no token."""
    found = os.environ.get(_VARIABLE, "") if token is None else token
    if not found:
        raise SignInNeeded(f"a server needs a token: pass token=, or set {_VARIABLE}")
    if not isinstance(found, str) or not found.isascii() or not found.isprintable() or " " in found:
        raise SignInNeeded("this is no token: it is one word, as `sordino serve account token NAME` prints it")
    return found


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise DeclarationError("a table on a server needs one more package: pip install 'sordino[remote]'") from None
    return httpx


def _reply(response: httpx.Response) -> Reply:
    if response.headers.get("content-type") == "application/octet-stream":
        return Reply(response.status_code, response.content)
    try:
        return Reply(response.status_code, response.json())
    except ValueError:
        return Reply(response.status_code, None)


class Transport:
    """Run operations with one connection to a server, waiting in this thread."""

    def __init__(self, url: str, token: str, *, timeout: float, verify: Any = True) -> None:
        self._httpx = _httpx()
        headers = {"authorization": f"Bearer {token}"}
        self._client: httpx.Client = self._httpx.Client(base_url=url, headers=headers, timeout=timeout, verify=verify)

    def run(self, operation: Operation[T]) -> T:
        """Return what an operation comes to."""
        reply: Reply | None = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as done:
                found: T = done.value
                return found
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                reply = None
            else:
                reply = self._send(step)

    def _send(self, call: Call) -> Reply | None:
        try:
            return _reply(self._client.request(call.method, call.path, json=call.body, headers=dict(call.headers)))
        except self._httpx.TransportError:
            return None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class AsyncTransport:
    """Run operations with one connection to a server, in an event loop."""

    def __init__(self, url: str, token: str, *, timeout: float, verify: Any = True) -> None:
        self._httpx = _httpx()
        headers = {"authorization": f"Bearer {token}"}
        made = self._httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, verify=verify)
        self._client: httpx.AsyncClient = made

    async def run(self, operation: Operation[T]) -> T:
        """Return what an operation comes to."""
        reply: Reply | None = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as done:
                found: T = done.value
                return found
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                reply = None
            else:
                reply = await self._send(step)

    async def _send(self, call: Call) -> Reply | None:
        try:
            found = await self._client.request(call.method, call.path, json=call.body, headers=dict(call.headers))
        except self._httpx.TransportError:
            return None
        return _reply(found)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()
