"""How a client reaches a server: operations, requests sent again, errors read back."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from sordino import errors
from sordino.core.errors import (
    ApprovalNeeded,
    DeclarationError,
    InDoubt,
    QuestionRefused,
    SignInNeeded,
    SordinoError,
    SourceError,
    TooManyRequests,
)

if TYPE_CHECKING:
    import httpx


# ---- Errors of a far server as the classes that a local table raises: the inverse of the server's problem+json

_BY_EXIT: dict[int, type[SordinoError]] = {
    cls.exit_code: cls for cls in (DeclarationError, QuestionRefused, errors.BudgetExhausted, errors.ChargedError)
} | {6: errors.NotAllowed, 7: ApprovalNeeded}
_NEAR = {
    "adapt": "an algorithm runs beside the table; a model is fitted there by sd.synth.fit(table, ...)",
    "find_bounds": "the search for bounds runs beside the table: `sordino bounds` there, or a mean, which finds its own",
    "find_contribution_bounds": "the search for caps runs beside the table: `sordino caps` there",
    "above_threshold": "a session of questions is held open beside the table",
    "charge_event": "what was run elsewhere is charged beside the table, by its curator",
    "ledger": "the ledger stays on the server: `budgets()` and `releases()` tell what is on it",
    "project": "the project file stays on the server: `tables()` tells what is declared",
    "report": "the board's page is made on the server, by an officer",
    "amend": "a ledger is amended on the server, by its owner",
}


class NotRemote(QuestionRefused, AttributeError):
    """Say that a local table has this, and a far one cannot."""


class PendingApproval(ApprovalNeeded):
    """Say that an officer has to approve a question; `.wait()` asks again until it is decided, and gives the answer."""

    def __init__(self, message: str, *, approval: int | None, request: str | None, again: Callable[..., Any]) -> None:
        super().__init__(message, approval=approval, request=request)
        self._again = again

    def wait(self, *, timeout: float | None = None, every: float = 2.0) -> Any:
        """Return the answer once an officer has approved, asking every so many seconds; to be awaited if asked asynchronously.

        Raises NotAllowed where it is declined, and this error again after `timeout` seconds.
        """
        return self._again(timeout, every)


def error_of(problem: Mapping[str, Any]) -> SordinoError:
    """Return the error that the members of a problem state, with its class, and so its exit code.

    >>> error_of({"type": "urn:sordino:budget-exhausted", "detail": "it is used up", "exit_code": 4})
    BudgetExhausted('it is used up')
    """
    name = str(problem.get("type")).removeprefix("urn:sordino:")
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, SordinoError)]
    classes_by_name = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", c.__name__).lower(): c for c in classes}
    by_exit = _BY_EXIT.get(problem.get("exit_code", 1), SordinoError)
    kind = classes_by_name.get(name, by_exit)
    error: SordinoError = kind(str(problem.get("detail", "the server refused this")))
    for key in ("charge", "approval", "request", "wait", "resumable"):
        if key in problem and hasattr(error, key):
            setattr(error, key, problem[key])
    return error


def refuse_near(name: str, what: object) -> NotRemote | AttributeError:
    """Return the error of asking something far for what it does not have; that of a local one says why."""
    if name in _NEAR:
        return NotRemote(f"{name} is not to be had from far away: {_NEAR[name]}")
    return AttributeError(f"{type(what).__name__!r} object has no attribute {name!r}")


# ---- Operations: what is said to a far server, without a network. A transport sends each Call and waits for each Pause
#
# The synchronous and the asynchronous client run the same operations, so what is retried, and what never is, stands once.

T = TypeVar("T")
# Seconds between tries: the first, and the longest.
_FIRST = 0.1
_LONGEST = 3.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request: a method, a path, the JSON of its body, and headers besides the token's."""

    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: the status and the JSON of the body, the bytes of a file, None for anything else."""

    status: int
    data: Any


# A Reply is None where the connection was lost.
Operation: TypeAlias = Generator[Call | Pause, Reply | None, T]


def exchange(call: Call, *, patience: float, where: str) -> Operation[Any]:
    """Return the JSON that a call is answered with; a lost connection is tried again until `patience` seconds were waited.

    To be used for what may be said twice: a question carries a request id, by which it is charged once. Raises the error
    that the server states; InDoubt, with the request id, where a question was sent and no answer came back at all.
    """
    waited = 0.0
    pause = _FIRST
    lost = False
    request = call.headers.get("idempotency-key")
    while True:
        reply = yield call
        gone = reply is None or (reply.status in (502, 503, 504) and not _is_problem(reply.data))
        if reply is not None and not gone:
            if reply.status in (200, 201):
                return reply.data
            if not _is_problem(reply.data):
                raise SourceError(f"what answers at {where} is no Sordino server")
            error = error_of(reply.data)
            busy = isinstance(error, TooManyRequests) or (lost and isinstance(error, InDoubt))
            pause = max(pause, error.wait) if isinstance(error, TooManyRequests) else pause
            if not busy or waited + pause > patience:
                raise error
        elif waited + pause > patience:
            if request is None:
                raise SourceError(f"the server at {where} cannot be reached")
            raise InDoubt(
                f"no answer came from {where}, so it is not known whether this was charged: ask the same again with "
                f"request_id={request!r}, which charges nothing twice"
            )
        lost = lost or gone
        yield Pause(pause)
        waited = waited + pause
        pause = min(2 * pause, _LONGEST)


def _is_problem(data: Any) -> bool:
    return isinstance(data, dict) and "exit_code" in data and "detail" in data


# ---- Transports: HTTP by httpx, with the token on each request. Plain http goes to this machine alone

_VARIABLE = "SORDINO_TOKEN"


def check_url(url: str) -> str:
    """Return the address of a server; raises DeclarationError unless it is https, or http to this machine.

    >>> check_url("https://curator.example/")
    'https://curator.example'
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
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
    value = os.environ.get(_VARIABLE, "") if token is None else token
    if not value:
        raise SignInNeeded(f"a server needs a token: pass token=, or set {_VARIABLE}")
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
        raise SignInNeeded("this is no token: it is one word, as `sordino serve account token NAME` prints it")
    return value


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
                result: T = done.value
                return result
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
        client = self._httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, verify=verify)
        self._client: httpx.AsyncClient = client

    async def run(self, operation: Operation[T]) -> T:
        """Return what an operation comes to."""
        reply: Reply | None = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                reply = None
            else:
                reply = await self._send(step)

    async def _send(self, call: Call) -> Reply | None:
        try:
            response = await self._client.request(call.method, call.path, json=call.body, headers=dict(call.headers))
        except self._httpx.TransportError:
            return None
        return _reply(response)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()
