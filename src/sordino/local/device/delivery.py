"""Delivery of reports to a collector over HTTP, by the standard library alone.

It sees bodies that were randomised before; it may not know answers, ledgers or secrets. A body is stored once however
often it is sent, since each report carries a random id.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any

from sordino.core.errors import DeclarationError, SordinoError
from sordino.local.task import Task

# Statuses after which the same bytes may be accepted.
_LATER = frozenset({408, 429, 500, 502, 503, 504})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Seconds between two attempts.
_LONGEST_WAIT = 60.0


class NotDelivered(SordinoError, ConnectionError):
    """Say that the collector could not be reached or was busy: send the same bytes again, they are counted once."""


class _RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: the token is for the task's own origin."""

    def redirect_request(self, *_: Any) -> None:
        return None


def deliver(task: Task, body: bytes, *, token: str | None, attempts: int, timeout: float) -> bool:
    """Post a body to the task's origin and return whether it was new; False where the collector had stored it before.

    It returns once the reports are on the collector's disk. Raises DeclarationError where the collector refuses the
    body or the token for good, and NotDelivered where it did not answer or was busy in all attempts.
    """
    request = _build_request(task, body, token)
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise DeclarationError("attempts must be a whole number, 1 or more")
    opener = urllib.request.build_opener(_RefuseRedirects)
    for attempt in range(attempts):
        wait = min(_LONGEST_WAIT, 0.5 * 2**attempt)
        try:
            with opener.open(request, timeout=timeout):
                return True
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 409:
                    return False
                if error.code not in _LATER:
                    raise DeclarationError(f"the collector refused the report: {_read_reason(error)}") from None
                wait = min(_LONGEST_WAIT, max(wait, _read_wait(error)))
        except (OSError, HTTPException):
            pass
        if attempt + 1 < attempts:
            time.sleep(wait)
    raise NotDelivered(f"{task.manifest.origin} did not store the report; send the same bytes again, they count once")


def _build_request(task: Task, body: bytes, token: str | None) -> urllib.request.Request:
    manifest = task.manifest
    if body[: len(manifest.hash)] != manifest.hash:
        raise DeclarationError("this body was made for another task; send it to that one")
    place = urllib.parse.urlsplit(manifest.origin)
    if place.scheme != "https" and place.hostname not in _LOOPBACK:
        raise DeclarationError(f"reports and tokens are sent over https only, not to {manifest.origin}")
    headers = {"Content-Type": "application/octet-stream"}
    if token is not None:
        if not token.isascii() or not token.isprintable() or not token:
            raise DeclarationError("token must be printable ASCII text, as `sordino local token` prints it")
        headers["Authorization"] = f"Bearer {token}"
    url = f"{manifest.origin}/v1/tasks/{manifest.task}/reports"
    return urllib.request.Request(url, data=bytes(body), headers=headers, method="POST")


def _read_reason(error: urllib.error.HTTPError) -> str:
    """Return the collector's own words, or the status where it sent none."""
    try:
        says = json.loads(error.read(10_000))["error"]["says"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        says = None
    return says[:300] if isinstance(says, str) and says.isprintable() else f"status {error.code}"


def _read_wait(error: urllib.error.HTTPError) -> float:
    """Return the seconds that Retry-After asks for, 0 without them."""
    text = error.headers.get("Retry-After", "")
    return float(text) if text.isdigit() and len(text) < 9 else 0.0
