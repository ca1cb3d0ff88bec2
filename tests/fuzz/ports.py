"""What fuzzing a server on loopback shares: its log, what no answer may say, and the end of a connection that must come."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from fuzz.surface import CANARY

END = 120.0  # seconds after which a connection that has not ended hangs
TROUBLE = re.compile(r"Traceback|site-packages|\.py\b|" + CANARY)


class HungError(AssertionError):
    """Say that a connection did not end: it is not shrunk, since every try would hang as long."""


@contextmanager
def watch_log() -> Iterator[list[str]]:
    """Give the list to which every error that is logged meanwhile is added: nothing may fail unseen by its client."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cause = record.exc_info[1] if record.exc_info else None
            found.append(f"{record.name}: {record.getMessage():.200} {cause!r:.300}")

    handler = Keep(logging.ERROR)
    roots = [logging.getLogger(name) for name in ("", "uvicorn", "uvicorn.error")]
    for root in roots:
        root.addHandler(handler)
    try:
        yield found
    finally:
        for root in roots:
            root.removeHandler(handler)


def check_words(said: str, secrets: Sequence[str]) -> None:
    """Refuse a secret, a place of the machine or a trace of Python in what a server says."""
    found = TROUBLE.search(said)
    assert found is None, f"it says {said[max(0, found.start() - 60) : found.end() + 60]!r}"
    assert not any(secret in said for secret in secrets), "a secret in an answer"


def read_to_end(one: socket.socket) -> bytes:
    """Return what comes until the server ends the connection; one that does not has hung."""
    one.settimeout(END)
    parts = []
    try:
        while part := one.recv(1 << 16):
            parts.append(part)
    except TimeoutError:
        raise HungError(f"no end after {END} s, and {b''.join(parts)[-100:]!r}") from None
    except ConnectionError:
        pass  # it was cut: what was sent last is lost
    return b"".join(parts)


def send_and_end(raw: socket.socket, given: bytes) -> bytes:
    """Send all, say that nothing more comes, and return the answer."""
    raw.settimeout(END)
    with suppress(ConnectionError):  # it may end the connection before it has read all
        raw.sendall(given)
        raw.shutdown(socket.SHUT_WR)
    return read_to_end(raw)
