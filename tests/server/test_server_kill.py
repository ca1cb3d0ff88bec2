"""kill -9 of a server in the middle of an ask: the same Idempotency-Key then gets one answer, for one charge."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from collecting import free_port
from serving import COUNT, served
from sordino.ledger.ledger import Ledger
from sordino.loss import PureDP

# A parent that has loaded everything, and opened nothing, forks a server for each line that it reads.
SERVE = """
import os, signal, sys, time
import duckdb, pyarrow.parquet, sqlglot, sqlalchemy.dialects.sqlite, uvicorn.protocols.http.httptools_impl
import sordino.engines.opening, sordino.noise.discrete
from sordino.collector.service import serve_app
from sordino.engines.duckdb import DuckDBEngine
from sordino.server.http_app import curator_app
from sordino.server.opening import open_service
from sordino.server.public_clock import PublicClock

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
    def run(self, where: str = "nowhere") -> Iterator[None]:
        """Serve until the block ends, then kill -9."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(where, file=self._parent.stdin, flush=True)
        pid = int(self._parent.stdout.readline())
        try:
            for _ in range(2000):
                with suppress(httpx.HTTPError):
                    httpx.get(f"http://127.0.0.1:{self.port}/healthz", timeout=5)
                    break
                time.sleep(0.01)
            yield
        finally:
            subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)

    def ask(self, token: str, key: str, *, timeout: float = 30) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}", "idempotency-key": key}
        body = {"sql": COUNT, "epsilon": "0.001"}
        return httpx.post(f"http://127.0.0.1:{self.port}/v1/ask", headers=headers, json=body, timeout=timeout)

    def close(self) -> None:
        self._parent.send_signal(signal.SIGKILL)
        self._parent.communicate()


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, str]:
    """A project's file, and the token of an analyst."""
    with served(tmp_path, cap=1000) as made:
        share = PureDP(1000)
        made.service.set_share("test", "ana", "people", lambda _: share)
        assert made.service.project.path is not None
        return made.service.project.path, made.tokens["ana"]


@pytest.fixture
def servers(project: tuple[Path, str]) -> Iterator[Servers]:
    made = Servers(project[0])
    yield made
    made.close()


@pytest.mark.parametrize("where", ["before the data is read", "before the answer leaves"])
def test_a_retried_ask_is_one_charge_and_one_answer(
    tmp_path: Path, project: tuple[Path, str], servers: Servers, where: str
) -> None:
    token = project[1]

    def ask_in_vain() -> None:
        with suppress(httpx.HTTPError):
            servers.ask(token, "k")

    with servers.run(where):
        asking = threading.Thread(target=ask_in_vain)
        asking.start()
        for _ in range(3000):
            if (tmp_path / "hangs").exists():
                break
            time.sleep(0.01)
        assert (tmp_path / "hangs").exists()
    asking.join()
    ledger = Ledger.existing(tmp_path / "people.ledger")
    states = {"before the data is read": "reserved", "before the answer leaves": "committed"}
    assert [c.state for c in ledger.charges()] == [states[where]]
    with servers.run():
        first, again = servers.ask(token, "k"), servers.ask(token, "k")
    assert first.status_code == 200, first.text
    assert first.json() == again.json()
    assert [(c.id, c.state) for c in ledger.charges()] == [(first.json()["charge"], "committed")]
    assert ledger.spent() == PureDP("0.001")
    ledger.verify()


class Client(threading.Thread):
    """Ask one question after the other, each again and again under its key until it is answered."""

    def __init__(self, servers: Servers, token: str, name: str) -> None:
        super().__init__()
        self.answers: dict[str, Any] = {}
        self.refused: list[str] = []
        self.enough = threading.Event()
        self._servers, self._token, self._name = servers, token, name

    def run(self) -> None:
        while not self.enough.is_set() and not self.refused:
            key = f"{self._name}-{len(self.answers)}"
            while key not in self.answers and not self.refused:
                try:
                    answer = self._servers.ask(self._token, key)
                except httpx.HTTPError:
                    time.sleep(0.01)
                    continue
                if answer.status_code == 200:
                    self.answers[key] = answer.json()
                else:
                    self.refused.append(answer.text)


def kill_often(tmp_path: Path, token: str, servers: Servers, *, kills: int, seed: int) -> int:
    """Let clients ask while their server is killed again and again, compare all with the ledger, return the answers."""
    clients = [Client(servers, token, name) for name in "abcd"]
    moments = random.Random(seed)
    for client in clients:
        client.start()
    try:
        for _ in range(kills):
            with servers.run():
                time.sleep(moments.uniform(0, 0.25))
    finally:
        for client in clients:
            client.enough.set()
        with servers.run():
            for client in clients:
                client.join(60)
            answers = {key: answer for client in clients for key, answer in client.answers.items()}
            again = {key: servers.ask(token, key).json() for key in answers}
    assert [client.refused for client in clients] == [[]] * 4
    assert again == answers  # none that was acknowledged is lost
    charges = Ledger.existing(tmp_path / "people.ledger").charges()
    assert sorted(c.request or "" for c in charges) == sorted(f"1:{key}" for key in answers)  # one charge each
    assert {c.state for c in charges} == {"committed"}
    assert {c.request: c.id for c in charges} == {f"1:{key}": answer["charge"] for key, answer in answers.items()}
    report = Ledger.existing(tmp_path / "people.ledger").verify()
    assert report.spent == PureDP(Fraction(len(answers), 1000))  # none forgotten
    return len(answers)


@pytest.mark.deep
def test_two_hundred_kills_lose_double_and_forget_nothing(
    tmp_path: Path, project: tuple[Path, str], servers: Servers
) -> None:
    answered = kill_often(tmp_path, project[1], servers, kills=200, seed=16)
    assert answered > 100  # else the kills hit nothing but starts
