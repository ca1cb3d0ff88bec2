"""Run an application under uvicorn: one process, no access log, no headers from a proxy believed, a graceful end."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from sordino.core.errors import DeclarationError
from sordino.local.collector.open_files import BACKLOG, most_connections
from sordino.local.collector.patient_http import limited_http

_MOST, _MOST_SQL = 4096, 256  # connections, where open files allow as many
_GRACE = 10  # seconds for requests under way, when the service is asked to stop


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
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
        http=limited_http(most_connections(http=_MOST, sql=_MOST_SQL)[0]),
        backlog=BACKLOG,
        lifespan="on",
    )
    server = uvicorn.Server(config)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: looking through it again and again makes some posts wait for tens of ms
    if ready is not None:
        ready()
    try:
        with _return_on_signal():
            server.run()
    except SystemExit:  # uvicorn's way to say that it could not start
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
