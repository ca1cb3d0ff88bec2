"""The collector as a service: limits, open files, slow clients."""

from __future__ import annotations

import asyncio
import base64
import gc
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sordino.core.errors import DeclarationError
from sordino.core.noise.rng import Rng
from sordino.local.collector.report_store import Store, token_hash

# ---- Open files: how many connections a server may hold, so that data, ledgers and stores can always be opened
# beside them

ACCEPTED_AT_ONCE = 8
"""Connections that a listener accepts in one turn of its loop, before it can refuse any: asyncio's `backlog`."""
# Connections that wait in the system until they are accepted, where they take no descriptor of the process.
_QUEUE = 128
# For files that are no connection: data, ledgers, stores, temporary files, and connections being refused.
_RESERVE = 256
_UNLIMITED = 1 << 16
_FEWEST = 16


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard one, and return the limit that holds now."""
    try:
        import resource
    # Windows states no such limit.
    except ImportError:
        return _UNLIMITED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def most_connections(*, http: int, sql: int) -> tuple[int, int]:
    """Return how many connections of each kind fit beside the reserve: no more than stated, and SQL has a quarter at most."""
    spare = raise_open_files() - _RESERVE
    most_sql = min(sql, max(_FEWEST, spare // 4))
    return min(http, max(_FEWEST, spare - most_sql)), most_sql


def lengthen_queue(listeners: Iterable[Any]) -> None:
    """Let more connections wait for a listener than it accepts at once; both are `backlog` to asyncio."""
    for listener in listeners:
        with socket.fromfd(listener.fileno(), listener.family, listener.type) as same:
            same.listen(_QUEUE)


# ---- HTTP connections that may not keep a server waiting: headers arrive whole, in seconds and a stated size, and
# answers are read
#
# There is a limit of connections, and none that only lies there keeps others out. It knows bytes and moments, no request.

HEADER_SECONDS = 10.0
# Seconds to read the tens of kilobytes that wait to be sent.
_READ_SECONDS = 20.0
# Seconds to read a whole answer, once it had to wait.
_ANSWER_SECONDS = 600.0
# Bytes of a request's first line and headers.
_MOST_BYTES = 1 << 15


class PatientHttp(HttpToolsProtocol):
    """Close a connection whose next request has not sent all of its headers in time, or sends too many.

    Time counts from the connection, and on one that is kept from the first byte after a response; until then uvicorn's own
    time for idle connections counts. The body's time is the application's to count. A client that leaves an answer lying, or
    reads it so slowly that it would be held for hours, is cut off.

    Where there are `most` connections and one more comes, the oldest that is not being answered ends; where all of them are, the
    new one does, before anything of it is read.
    """

    patience: ClassVar[float] = HEADER_SECONDS
    reading: ClassVar[tuple[float, float]] = (_READ_SECONDS, _ANSWER_SECONDS)
    most: ClassVar[int] = 4096
    held: ClassVar[OrderedDict[PatientHttp, None]] = OrderedDict()
    _waiting: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _unread_since: float | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to count."""
        super().connection_made(transport)
        if len(self.held) >= self.most and not self._end_oldest():
            transport.abort()
            return
        self.held[self] = None
        self._wait()

    def _end_oldest(self) -> bool:
        """End the oldest connection that is not being answered; say whether there was one."""
        for one in list(self.held):
            if not one.is_answering:
                del self.held[one]
                one.transport.abort()
                return True
            # it is looked at again last, so that a long answer does not cost every new connection a look
            self.held.move_to_end(one)
        return False

    @property
    def is_answering(self) -> bool:
        """Whether a request has arrived whole, and its answer has not been sent."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Count what arrives before the headers are whole."""
        if self._waiting is None and self.cycle is not None and self.cycle.response_complete:
            self._wait()
        if self._waiting is not None:
            self._head += len(data)
            if self._head > _MOST_BYTES and b"\r\n\r\n" not in data:
                self._stop()
                self.send_400_response("the headers are too long")
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """Stop counting: the request is there."""
        self._stop()
        self._unread_since = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting."""
        self.held.pop(self, None)
        self._stop()
        self._stop_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to count how long what waits to be sent stays unread."""
        super().pause_writing()
        now = self.loop.time()
        self._unread_since = now if self._unread_since is None else self._unread_since
        most, whole = self.reading
        self._unread = self.loop.call_later(min(most, self._unread_since + whole - now), self.transport.abort)

    def resume_writing(self) -> None:
        """Stop counting: it was read."""
        self._stop_unread()
        super().resume_writing()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _wait(self) -> None:
        self._head = 0
        self._waiting = self.loop.call_later(self.patience, self._cut)

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _cut(self) -> None:
        self._waiting = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


def limited_http(most: int) -> type[PatientHttp]:
    """Return the connections of a server of its own, which holds this many."""

    class LimitedHttp(PatientHttp):
        held: ClassVar[OrderedDict[PatientHttp, None]] = OrderedDict()

    LimitedHttp.most = most
    return LimitedHttp


# ---- Who may send how much: tokens by their hash and role, and a bucket of reports a token; no address is ever
# looked at
#
# Buckets live in memory: a restart fills them. They know hashes of tokens, not what was sent.

# Buckets kept; full ones are forgotten first.
_MOST = 1 << 17


@dataclass(frozen=True, slots=True)
class Limits:
    """State how many reports one token may send: `burst` at once, then `per_minute`; `open` lets people in without one.

    Without tokens all respondents share one bucket a task, so give it the survey's whole rate. `per_token`, where given, is how
    many one token may send to one task in all, counted on disk: 1 makes tokens single-use.
    """

    per_minute: float
    burst: int
    open: bool = False
    per_token: int | None = None

    def __post_init__(self) -> None:
        if not self.per_minute > 0 or self.burst < 1:
            raise DeclarationError("per_minute must be above 0 and burst at least 1")
        if self.per_token is not None and (self.open or self.per_token < 1):
            raise DeclarationError("per_token must be at least 1, and needs tokens: leave out open")


def make_tokens(count: int, rng: Rng) -> list[str]:
    """Return new tokens: 32 random bytes each, in base64 for addresses and headers.

    Raises DeclarationError unless there are 1 to 1,000,000 of them.
    """
    if not 1 <= count <= 1_000_000:
        raise DeclarationError("tokens are made 1 to 1,000,000 at a time")
    return [base64.urlsafe_b64encode(rng.bytes(32)).decode().rstrip("=") for _ in range(count)]


class Buckets:
    """Hold what each sender may still send."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._rate = limits.per_minute / 60
        self._clock = clock
        # Reports left, and at which moment.
        self._left: dict[bytes, tuple[float, float]] = {}

    def take(self, sender: bytes, reports: int) -> float:
        """Take from a sender's bucket and return 0; where too little is left take nothing, return seconds to wait.

        The wait is infinite for more reports at once than a bucket holds.
        """
        now = self._clock()
        burst = self._limits.burst
        left, then = self._left.get(sender, (float(burst), now))
        left = min(float(burst), left + (now - then) * self._rate)
        if reports > left:
            return float("inf") if reports > burst else (reports - left) / self._rate
        if sender not in self._left and len(self._left) >= _MOST:
            self._forget(now)
        self._left[sender] = (left - reports, now)
        return 0.0

    def give_back(self, sender: bytes, reports: int) -> None:
        """Put back what was taken from a sender's bucket."""
        if sender in self._left:
            left, then = self._left[sender]
            self._left[sender] = (min(float(self._limits.burst), left + reports), then)

    def _forget(self, now: float) -> None:
        burst = self._limits.burst
        rate = self._rate
        self._left = {s: (n, at) for s, (n, at) in self._left.items() if n + (now - at) * rate < burst}


class Tokens:
    """Hold the roles of tokens, by hash; `refresh` reads those added since."""

    def __init__(self) -> None:
        self._roles: dict[bytes, str] = {}
        self._last = 0

    def refresh(self, store: Store) -> None:
        """Read the tokens that were added to the store since the last time."""
        for number, role, digest in store.tokens(after=self._last):
            self._roles[digest] = role
            self._last = number

    def role(self, authorization: bytes | None) -> tuple[str | None, bytes]:
        """Return the role of an Authorization header, None for an unknown or missing one, and the token's hash."""
        if authorization is None or not authorization.startswith(b"Bearer ") or len(authorization) > 200:
            return None, b""
        digest = token_hash(authorization[7:].decode("latin-1"))
        return self._roles.get(digest), digest


# ---- Run an application under uvicorn: one process, no access log, no headers from a proxy believed, a graceful end

# Connections of each kind, where open files allow as many.
_MOST_HTTP = 4096
_MOST_SQL = 256
# Seconds for requests under way, when the service is asked to stop.
_GRACE = 10


class _Server(uvicorn.Server):
    """Listen with a longer queue than what is accepted at once."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            lengthen_queue(server.sockets)


def serve_app(app: Any, *, host: str, port: int, ready: Callable[[], None] | None = None) -> None:
    """Serve an application until SIGINT or SIGTERM; requests under way are answered first.

    Addresses of senders appear in no log: the access log is off, and so are forwarded headers. `ready` is called before it
    listens. A connection that is slow to send its headers is closed. The limit of open files is raised as far as the system
    lets it, and there are no more connections than leave a reserve for everything else that is opened.
    Raises DeclarationError where it could not start, as when the port is taken.
    """
    if not 0 <= port < 65536:
        raise DeclarationError(f"port must be from 0 to 65535, not {port}")
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        access_log=False,
        # The program says where lines of the log go.
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
        http=limited_http(most_connections(http=_MOST_HTTP, sql=_MOST_SQL)[0]),
        backlog=ACCEPTED_AT_ONCE,
        lifespan="on",
    )
    server = _Server(config)
    gc.collect()
    # What is loaded by now stays: looking through it again and again makes some posts wait for tens of milliseconds.
    gc.freeze()
    if ready is not None:
        ready()
    try:
        with _return_on_signal():
            server.run()
    # This is uvicorn's way to say that it could not start.
    except SystemExit:
        pass
    finally:
        gc.unfreeze()
    if not server.started:
        raise DeclarationError(f"it could not start on port {port}: see that it is free, and the store is sound")


@contextmanager
def _return_on_signal() -> Iterator[None]:
    """Let a signal to stop end in a plain return: uvicorn ends gracefully, then raises the signal once more."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.signal(kind, lambda *_: None) for kind in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
