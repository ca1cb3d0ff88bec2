"""kill -9 of a server in the middle of an ask: the same Idempotency-Key then gets one answer, for one charge."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from collecting import free_port
from serving import COUNT, served
from sordino.ledger.ledger import Ledger
from sordino.loss import PureDP

SERVE = """
import sys, time
from sordino.collector.service import serve_app
from sordino.engines.duckdb import DuckDBEngine
from sordino.server.http_app import curator_app
from sordino.server.opening import open_service
from sordino.server.public_clock import PublicClock

def hang(*_):
    open("hangs", "w").close()
    time.sleep(60)

where = sys.argv[3]
if where == "before the data is read":
    DuckDBEngine.run = hang
if where == "before the answer leaves":
    PublicClock.wait = hang
serve_app(curator_app(open_service(sys.argv[1])), host="127.0.0.1", port=int(sys.argv[2]))
"""


@contextmanager
def serving(project: Path, port: int, where: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(project), str(port), where], cwd=project.parent)
    try:
        for _ in range(600):
            with suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=1)
                break
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def ask(port: int, token: str, key: str, *, timeout: float = 30) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}", "idempotency-key": key}
    body = {"sql": COUNT, "epsilon": "0.001"}
    return httpx.post(f"http://127.0.0.1:{port}/v1/ask", headers=headers, json=body, timeout=timeout)


@pytest.mark.parametrize("where", ["before the data is read", "before the answer leaves"])
def test_a_retried_ask_is_one_charge_and_one_answer(tmp_path: Path, where: str) -> None:
    with served(tmp_path) as made:
        project, token = made.service.project.path, made.tokens["ana"]
    assert project is not None
    port = free_port()
    with serving(project, port, where):
        with pytest.raises(httpx.HTTPError):
            ask(port, token, "k", timeout=2)
        assert (tmp_path / "hangs").exists()
    ledger = Ledger.existing(tmp_path / "people.ledger")
    states = {"before the data is read": "reserved", "before the answer leaves": "committed"}
    assert [c.state for c in ledger.charges()] == [states[where]]
    with serving(project, port, "nowhere"):
        first, again = ask(port, token, "k"), ask(port, token, "k")
    assert first.status_code == 200, first.text
    assert first.json() == again.json()
    assert [(c.id, c.state) for c in ledger.charges()] == [(first.json()["charge"], "committed")]
    assert ledger.spent() == PureDP("0.001")
    ledger.verify()


@pytest.mark.deep
def test_two_hundred_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    """Ask until killed, 200 times at moments spread over the life of an ask; retry each key once the server is back."""
    with served(tmp_path) as made:
        project, token = made.service.project.path, made.tokens["ana"]
    assert project is not None
    port = free_port()
    seen: dict[str, Any] = {}
    for i in range(200):
        with serving(project, port, "nowhere") as process:
            for key in (f"k{i - 1}", f"k{i}"):
                moment = int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big") / 2**16
                if key == f"k{i}":
                    killer = subprocess.Popen(["sh", "-c", f"sleep {0.05 * moment:.4f}; kill -9 {process.pid}"])
                try:
                    answer = ask(port, token, key, timeout=5)
                except httpx.HTTPError:
                    continue
                if i or key == "k0":
                    assert answer.status_code == 200, answer.text
                    assert seen.setdefault(key, answer.json()) == answer.json()
            killer.wait()
    with serving(project, port, "nowhere"):
        for i in range(200):
            answer = ask(port, token, f"k{i}").json()
            assert seen.setdefault(f"k{i}", answer) == answer
    ledger = Ledger.existing(tmp_path / "people.ledger")
    extra = {c.request for c in ledger.charges()} - {f"1:k{i}" for i in range(200)}
    assert extra <= {"1:k-1"}
    assert len(ledger.charges()) == 200 + len(extra)
    assert {c.state for c in ledger.charges()} == {"committed"}
    assert ledger.verify().spent == PureDP(200 * PureDP("0.001").epsilon + len(extra) * PureDP("0.001").epsilon)
