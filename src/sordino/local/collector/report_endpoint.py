"""The endpoint of reports: plain ASGI, for speed. It judges a request by its token, length, manifest hash and task.

It reads no address and logs nothing. A 200 or 409 is sent after the commit that holds the report.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from sordino.local.collector.id_set import ID_BYTES
from sordino.local.collector.report_writer import BUSY, FAILED, ReportWriter
from sordino.local.collector.service import Buckets, Limits, Tokens
from sordino.local.collector.task_state import HEAD_BYTES, TaskState

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
