"""What tests of the far client share: a served project behind a real socket, in this process or in one that can be killed."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from ports import free_port, wait_for_port
from serving import Served, served


@contextmanager
def listening(server: Served) -> Iterator[str]:
    """Give the address of a served project, listening in a thread."""
    port = free_port()
    config = uvicorn.Config(server.app, host="127.0.0.1", port=port, log_level="error", access_log=False)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join()


@contextmanager
def far_project(
    directory: Path, *, serve: str = "", epsilon: str | None = None, cap: int = 10
) -> Iterator[tuple[Served, str]]:
    """Give a served project and its address; with `epsilon`, an analyst named rich has a share of that."""
    with served(directory, serve=serve, cap=cap) as server, listening(server) as url:
        if epsilon is not None:
            server.add("rich", "analyst", epsilon=epsilon)
        yield server, url


@dataclass
class KillableServer:
    """`sordino serve` of a project in a process of its own, which may be killed and started again."""

    project: Path
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "sordino", "serve", str(self.project), "--port", str(self.port), "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait(self) -> None:
        wait_for_port(self.port, self.process)
        assert httpx.get(f"{self.url}/healthz", timeout=300).status_code == 200

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()


class CuttingProxy:
    """Pass connections on to a server, and cut those of chosen requests once the request was passed on, before its answer.

    `cuts` says how many requests whose head matches `about` are cut; `on_cut` runs while the client waits.
    """

    def __init__(self, target: int, *, about: bytes = rb"POST /v1/ask", cuts: int = 1) -> None:
        self.target, self.about, self.cuts = target, about, cuts
        self.seen: list[bytes] = []
        self.arrived = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            while request := _read_request(client):
                cut = self.cuts > 0 and re.match(self.about, request) is not None
                self.cuts -= cut
                if re.match(self.about, request):
                    self.seen.append(request)
                try:
                    with socket.create_connection(("127.0.0.1", self.target)) as server:
                        server.sendall(request.replace(b"keep-alive", b"close", 1))
                        answer = b""
                        while part := server.recv(65536):
                            answer += part
                except OSError:
                    return
                if cut:
                    self.arrived.set()
                    return
                client.sendall(answer)
                if b"connection: close" in answer.lower():
                    return


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body
