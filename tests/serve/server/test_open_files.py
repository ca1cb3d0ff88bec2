"""Open files: sockets that somebody holds, without an account, leave everybody else's questions answered and charged once."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ports import free_port, wait_for_port
from serving import COUNT, served
from sordino.core.loss import PureDP
from sordino.local.collector import service as open_files
from sordino.local.collector.service import ACCEPTED_AT_ONCE, most_connections, raise_open_files
from sordino.serve.server.opening import open_service
from sordino.serve.server.sql_wire import wire_frames as wire
from sordino.serve.server.sql_wire.wire_server import Limits, WireServer
from sql_clients import serve_sql

FILES = 400


@contextmanager
def few_files(project: Path, *, port: int, sql: int) -> Iterator[subprocess.Popen[str]]:
    """Run `sordino serve` with few open files: a soft limit below the hard one, as systemd sets them."""
    command = [sys.executable, "-m", "sordino", "serve", str(project), "--port", str(port), "--postgres-port", str(sql)]
    run = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {FILES})); import os, sys; "
    run += f"os.execv(sys.executable, {command!r})"
    process = subprocess.Popen([sys.executable, "-c", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_port(port, process)
        assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=300).status_code == 200
        yield process
    finally:
        process.terminate()


def hold(stack: ExitStack, port: int, count: int, sent: bytes = b"") -> None:
    """Open idle sockets, which stay open at this end until the block ends."""
    for _ in range(count):
        one = stack.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=300)))
        with suppress(OSError):  # it may be ended already, for the next
            one.sendall(sent)


@pytest.mark.deep
@pytest.mark.attack(
    "burn other people's budget with idle sockets",
    source="found from outside in November 2026; slow connections that hold a server: Slowloris, 2009",
)
def test_idle_sockets_make_no_question_fail(tmp_path: Path) -> None:
    with served(tmp_path, cap=1000) as made:
        share = PureDP(1000)
        made.service.set_share("test", "ana", "people", lambda _: share)
        token, project = made.tokens["ana"], made.service.project.path
    assert project is not None
    port, sql = free_port(), free_port()
    body = {"sql": COUNT, "epsilon": "0.01"}
    slow_body = b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    with few_files(project, port=port, sql=sql) as process, ExitStack() as stack:
        statuses = []
        for round_ in range(2):
            # more than the process may open, in all; each round replaces those that the server has ended
            hold(stack, port, 200, b"" if round_ % 2 else slow_body)
            hold(stack, sql, 100)
            for i in range(4):
                headers = {"authorization": f"Bearer {token}", "idempotency-key": f"{round_} {i}"}
                answer = httpx.post(f"http://127.0.0.1:{port}/v1/ask", json=body, headers=headers, timeout=300)
                statuses.append(answer.status_code)
            with psycopg.connect(
                host="127.0.0.1", port=sql, user="ana", password=token, dbname="sordino", connect_timeout=300
            ) as client:
                client.execute("SET sordino.epsilon = '0.01'")
                assert client.execute(COUNT).fetchone() is not None
        process.terminate()
        _, log = process.communicate(timeout=300)
    assert statuses == [200] * 8
    with closing(open_service(project)) as service:
        charges = service.ledger("people").charges()
    assert [charge.state for charge in charges] == ["committed"] * 10
    # One line a request is what the log is for.
    others = [line for line in log.splitlines() if " info request " not in line and " info statement " not in line]
    assert len(others) < 50, log[:2000]


@given(st.integers(0, 1 << 20), st.integers(0, 5000), st.integers(0, 1000))
def test_connections_leave_the_reserve(limit: int, http: int, sql: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(open_files, "raise_open_files", lambda: limit)
        most_http, most_sql = most_connections(http=http, sql=sql)
    assert 0 <= most_http <= http
    assert 0 <= most_sql <= sql
    if limit >= 400:
        assert most_http + most_sql <= limit - 256


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        assert raise_open_files() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 512 or hard <= 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_burst_holds_few_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each is refused, but only after it was accepted: what is accepted in one turn of the loop comes out of the reserve.
    held = []
    start = WireServer._protocol

    def slow_first(server: WireServer) -> asyncio.StreamReaderProtocol:
        held.append(len(os.listdir("/proc/self/fd")))
        if len(held) == 1:
            time.sleep(0.2)  # meanwhile the queue of the system fills
        return start(server)

    monkeypatch.setattr(WireServer, "_protocol", slow_first)
    with serve_sql(tmp_path, limits=Limits(connections=3)) as port, ExitStack() as stack:
        hold(stack, port.server.port, 120)
        clients = len(os.listdir("/proc/self/fd")) - len(port.server._tasks)
        for _ in range(2000):
            if len(held) == 120:
                break
            time.sleep(0.005)
    assert len(held) == 120
    assert max(held) - clients <= 3 + 4 * ACCEPTED_AT_ONCE


def test_the_sql_port_refuses_what_is_too_many_before_it_reads(tmp_path: Path) -> None:
    with serve_sql(tmp_path, limits=Limits(connections=3)) as port, ExitStack() as stack:
        address = ("localhost", port.server.port)
        starting = [stack.enter_context(socket.create_connection(address, timeout=300)) for _ in range(3)]
        with port.connect() as client:  # in the place of the one that has been starting for longest
            assert starting[0].recv(100) == b""
            # of those that start, ask a question each to see that they were let live
            for one in starting[1:]:
                one.sendall(struct.pack("!ii", 8, wire.TLS))
                assert one.recv(1) == b"S"
            with port.connect(), port.connect():
                assert [one.recv(100) for one in starting[1:]] == [b"", b""]
                late = stack.enter_context(socket.create_connection(address, timeout=300))
                said = b"".join(iter(lambda: late.recv(1000), b""))  # it has sent nothing, and is told all the same
                assert said[:1] == b"E"
                assert b"53300" in said
                assert client.execute("SHOW sordino.budgets").fetchone() is not None
        for _ in range(200):  # until the server has seen that the others have left
            with suppress(psycopg.OperationalError), port.connect() as client:
                assert client.execute("SHOW sordino.budgets").fetchone() is not None
                break
            time.sleep(0.05)
        else:
            raise AssertionError("nobody is let in any more")
