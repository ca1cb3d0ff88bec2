"""Servers of files for tests, on loopback: one of HTTP that answers Range requests, and a process that speaks S3."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_S3 = """
import time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
time.sleep(3600)
"""


@dataclass
class FileServer:
    """A server of the files of a folder: how it answers, and how many requests it still does."""

    folder: Path
    url: str = ""
    answers_ranges: bool = True
    password: str = ""
    left: int = 10**9
    asked: list[tuple[int, int]] = field(default_factory=list)


@contextlib.contextmanager
def serve_files(folder: Path) -> Iterator[FileServer]:
    """Serve the files of a folder on loopback."""
    state = FileServer(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.left -= 1
            path = state.folder / self.path.lstrip("/")
            known = "Basic " + base64.b64encode(f"ann:{state.password}".encode()).decode()
            if state.left < 0:
                self.close_connection = True
            elif state.password and self.headers.get("Authorization") != known:
                self.reply(401, b"")
            elif not path.is_file():
                self.reply(404, b"")
            elif not state.answers_ranges:
                self.reply(200, path.read_bytes())
            else:
                self.reply_part(path.read_bytes(), tag=str(path.stat().st_mtime_ns))

        def reply_part(self, held: bytes, tag: str) -> None:
            start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            part = held[start : end + 1]
            state.asked.append((start, len(part)))
            last = f"{start}-{start + len(part) - 1}" if part else "*"
            self.reply(206 if part else 416, part, {"Content-Range": f"bytes {last}/{len(held)}", "ETag": f'"{tag}"'})

        def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def serve_s3() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a process that speaks S3 on loopback; gives its address, and the process."""
    process = subprocess.Popen([sys.executable, "-c", _S3], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
