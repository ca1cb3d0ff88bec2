"""Servers of one project in processes of their own, one after the other, each forked from a parent that has loaded everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from ports import free_port, wait_for_port
from serving import COUNT

# A parent that has loaded everything, and opened nothing, forks a server for each line that it reads.
SERVE = """
import os, signal, sys, time
import duckdb, pyarrow.parquet, sqlglot, sqlalchemy.dialects.sqlite, uvicorn.protocols.http.httptools_impl
import sordino.ask.engines.opening, sordino.core.noise.discrete
from sordino.local.collector.service import serve_app
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.serve.server.http_app import curator_app
from sordino.serve.server.opening import open_service
from sordino.serve.server.answer_time import PublicClock

def hang(*_):
    open("hangs", "w").close()
    time.sleep(60)

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    where, child = line.strip(), os.fork()
    if child:
        print(child, flush=True)
        continue
    if where == "before the data is read":
        DuckDBEngine.run = hang
    if where == "before the answer leaves":
        PublicClock.wait = hang
    serve_app(curator_app(open_service(sys.argv[1])), host="127.0.0.1", port=int(sys.argv[2]))
    os._exit(0)
"""


class Servers:
    """Start servers of one project one after the other, and kill them."""

    def __init__(self, project: Path) -> None:
        self.port = free_port()
        command = [sys.executable, "-c", SERVE, str(project), str(self.port)]
        pipe = subprocess.PIPE
        self._parent = subprocess.Popen(command, cwd=project.parent, stdin=pipe, stdout=pipe, text=True)

    @contextmanager
    def run(self, where: str = "nowhere") -> Iterator[int]:
        """Serve until the block ends, then kill -9; give the process's number."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(where, file=self._parent.stdin, flush=True)
        pid = int(self._parent.stdout.readline())
        try:
            wait_for_port(self.port)
            yield pid
        finally:
            # Until it is gone its port takes connections, which the next would be taken for.
            with suppress(ProcessLookupError):
                while True:
                    os.kill(pid, signal.SIGKILL)
                    time.sleep(0.002)

    def ask(self, token: str, key: str, *, timeout: float = 30) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}", "idempotency-key": key}
        body = {"sql": COUNT, "epsilon": "0.001"}
        return httpx.post(f"http://127.0.0.1:{self.port}/v1/ask", headers=headers, json=body, timeout=timeout)

    def close(self) -> None:
        self._parent.send_signal(signal.SIGKILL)
        self._parent.communicate()
