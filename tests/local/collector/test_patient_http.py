"""Connections that never send their headers do not live on, while one that is used does: the collector's and the server's."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated

import pytest
import uvicorn
from fastapi import Body, FastAPI
from fastapi.responses import StreamingResponse

from sordino.local.collector.service import PatientHttp, limited_http


class Hasty(PatientHttp):
    """The same with less patience, for a test."""

    patience = 0.5
    reading = (0.5, 3.0)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    app = FastAPI()

    @app.get("/")
    def answer() -> str:
        return "here"

    @app.post("/")
    def take() -> str:
        return "taken"

    @app.get("/large")
    async def send_much() -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            for _ in range(_LARGE >> 16):
                yield b"x" * (1 << 16)

        return StreamingResponse(parts())

    server = uvicorn.Server(uvicorn.Config(app, port=0, http=Hasty, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield int(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join(20)


_LARGE = 1 << 25  # more than the buffers of a connection hold
_ASK = b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def read_all(one: socket.socket, *, pause: float, of: int = 1 << 16) -> int:
    """Return how many bytes come until the connection ends, read with pauses."""
    total = 0
    try:
        while got := one.recv(of):
            total += len(got)
            time.sleep(pause)
    except ConnectionResetError:
        pass
    return total


def test_an_answer_that_nobody_reads_is_cut_off(port: int) -> None:
    one = connect(port, _ASK)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    time.sleep(2)
    assert read_all(one, pause=0) < _LARGE


def test_a_reader_that_takes_too_long_in_all_is_cut_off(port: int) -> None:
    one = connect(port, b"")
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    one.sendall(_ASK)
    assert read_all(one, pause=0.02, of=1 << 14) < _LARGE


def test_an_answer_that_is_read_arrives_whole(port: int) -> None:
    assert read_all(connect(port, _ASK), pause=0) > _LARGE


def connect(port: int, sent: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=100)
    if sent:
        made.sendall(sent)
    return made


def test_half_open_connections_end(port: int) -> None:
    starts = (b"", b"\r\n", b"G", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", b"GET / HTTP/1.1\r\nHost: x\r\n")
    opened = [connect(port, starts[i % len(starts)]) for i in range(200)]
    for one in opened:
        try:
            while one.recv(1000):
                pass
        except ConnectionResetError:
            pass
        one.close()


def test_a_trickle_of_headers_ends_too(port: int) -> None:
    one = connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n")
    started = time.monotonic()
    cut = False
    while not cut and time.monotonic() - started < 100:
        try:
            one.sendall(b"X-More: 1\r\n")
        except (BrokenPipeError, ConnectionResetError):
            cut = True
        time.sleep(0.05)
    assert cut


def test_headers_that_never_end_are_cut_by_size(port: int) -> None:
    one = connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n")
    line = b"X-More: " + b"y" * 900 + b"\r\n"
    try:
        for _ in range(200):
            one.sendall(line)
        said = one.recv(1000)
    except OSError:
        said = b"HTTP/1.1 400"
    assert said.startswith(b"HTTP/1.1 400")


def test_a_connection_that_is_used_lives_on(port: int) -> None:
    one = connect(port, b"")
    for _ in range(4):
        one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert one.recv(1000).startswith(b"HTTP/1.1 200")
        time.sleep(0.3)
    one.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
    time.sleep(0.7)  # the body's time is the application's to count
    one.sendall(b"ok")
    assert one.recv(1000).startswith(b"HTTP/1.1 200")
    one.sendall(b"GET / HTTP")  # and the next request's headers are counted again
    assert one.recv(1000) == b""


@contextmanager
def limited(most: int) -> Iterator[tuple[int, threading.Event]]:
    """Give the port of a server that holds so many connections, and what lets its answers at /wait go."""
    app, go_on = FastAPI(), threading.Event()

    @app.get("/")
    def answer() -> str:
        return "here"

    @app.get("/wait")
    def wait() -> str:
        assert go_on.wait(60)
        return "waited"

    @app.post("/")
    def take(said: Annotated[str, Body()]) -> str:
        return said

    server = uvicorn.Server(uvicorn.Config(app, port=0, http=limited_http(most), log_level="error", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield int(server.servers[0].sockets[0].getsockname()[1]), go_on
    finally:
        go_on.set()
        server.should_exit = True
        thread.join(20)


def ends(one: socket.socket) -> bool:
    try:
        return one.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_a_connection_that_only_lies_there_keeps_nobody_out() -> None:
    """With each thing that a client may leave undone: headers, a body, the next request of one that is kept."""
    with limited(6) as (port, _):
        half_body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
        for start in (b"", b"GET /", half_body, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
            lying = [connect(port, start) for _ in range(6)]
            if start.endswith(b"x\r\n\r\n") and b"POST" not in start:
                assert all(one.recv(1000).startswith(b"HTTP/1.1 200") for one in lying)
            for _ in lying:
                new = connect(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert new.recv(1000).startswith(b"HTTP/1.1 200")
                new.close()
            for one in lying:
                one.close()


def test_where_all_are_answered_one_more_is_refused_before_it_is_read() -> None:
    with limited(3) as (port, go_on):
        answered = [connect(port, b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(3)]
        late = None
        for _ in range(200):  # until the three have arrived, each new one takes the place of one
            late = connect(port, b"")
            late.settimeout(0.2)
            try:
                if ends(late):
                    break
            except TimeoutError:
                late.close()
        else:
            raise AssertionError("it was never refused")
        go_on.set()
        assert all(one.recv(1000).startswith(b"HTTP/1.1 200") for one in answered)
