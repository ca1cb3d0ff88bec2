"""kill -9 at any moment: no acknowledged report is lost, none is counted twice, and the counts are those of the reports."""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from collecting import LABELS, reports_of, task_of, with_tokens
from ports import free_port
from sordino.core.noise.rng import Rng
from sordino.local.collector.report_store import Store
from sordino.local.reports import Reports
from sordino.local.task import Task

SERVE = """
import sys
from sordino.local.collector.app import collector_app
from sordino.local.collector.service import Limits
from sordino.local.collector.service import serve_app
from sordino.local.task import read_task
app = collector_app(sys.argv[1], [read_task(open(sys.argv[2]).read(), key=None)], limits=Limits(per_minute=1e9, burst=10**6))
serve_app(app, host="127.0.0.1", port=int(sys.argv[3]))
"""


def _serve(store: str, envelope: Path, port: int) -> subprocess.Popen[bytes]:
    service = subprocess.Popen([sys.executable, "-c", SERVE, store, str(envelope), str(port)])
    for _ in range(2400):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return service
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the collector did not start")


class _Senders:
    """Send reports from threads, each resent until it is acknowledged or the service is gone; remember which were."""

    def __init__(self, task: Task, url: str, seed: int) -> None:
        self.acknowledged: list[bytes] = []
        self.unsure: list[bytes] = []
        self._task, self._url = task, url
        self._threads = [threading.Thread(target=self._send, args=(Rng.seeded(1000 * seed + n),)) for n in range(6)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for_an_acknowledgement(self) -> None:
        """Wait until one post was stored: a busy machine takes a while to send the first."""
        until = time.monotonic() + 300
        while not self.acknowledged and time.monotonic() < until:
            time.sleep(0.005)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(100)

    def _send(self, rng: Rng) -> None:
        with httpx.Client(headers={"authorization": "Bearer r"}, timeout=5) as client:
            for turn in range(100_000):
                size = 1 if turn % 3 else 7
                body = reports_of(self._task, [LABELS[(turn + n) % 4] for n in range(size)], rng)
                try:
                    answer = client.post(self._url, content=body)
                except httpx.HTTPError:
                    self.unsure.append(body)
                    return
                assert answer.status_code == 200, answer.text
                self.acknowledged.append(body)


def _rows(bodies: list[bytes], width: int) -> dict[bytes, bytes]:
    rows: dict[bytes, bytes] = {}
    for body in bodies:
        for at in range(32, len(body), 16 + width):
            rows[body[at : at + 16]] = body[at + 16 : at + 16 + width]
    return rows


def _crash(directory: Path, kills: int) -> None:
    task = task_of()
    store, envelope = with_tokens(str(directory / "reports.db")), directory / "task.json"
    envelope.write_text(task.envelope)
    acknowledged: list[bytes] = []
    unsure: list[bytes] = []
    for kill in range(kills):
        port = free_port()
        service = _serve(store, envelope, port)
        senders = _Senders(task, f"http://127.0.0.1:{port}/v1/tasks/drinks/reports", kill)
        senders.start()
        senders.wait_for_an_acknowledgement()
        moment = int.from_bytes(hashlib.sha256(str(kill).encode()).digest()[:4], "big") / 2**32
        time.sleep(0.1 + 0.6 * moment)
        service.send_signal(signal.SIGKILL)
        service.wait()
        senders.join()
        acknowledged += senders.acknowledged
        unsure += senders.unsure
    assert len(acknowledged) > kills
    _judge(store, envelope, task, acknowledged, unsure)


def _judge(store: str, envelope: Path, task: Task, acknowledged: list[bytes], unsure: list[bytes]) -> None:
    """Send everything once more; then each report is there once, as it was, and the counts are theirs."""
    port = free_port()
    service = _serve(store, envelope, port)
    url = f"http://127.0.0.1:{port}/v1/tasks/drinks"
    with httpx.Client(headers={"authorization": "Bearer r"}, timeout=10) as client:
        for body in unsure:
            assert client.post(f"{url}/reports", content=body).status_code in (200, 409)
        for body in acknowledged[-200:]:
            assert client.post(f"{url}/reports", content=body).status_code == 409
        reports = client.get(f"{url}/estimate", headers={"authorization": "Bearer a"}).json()["reports"]
    service.send_signal(signal.SIGTERM)
    assert service.wait(20) == 0

    width = task.protocol.width
    opened = Store.open(store)
    stored: dict[bytes, bytes] = {}
    total, data = 0, b""
    for chunk in opened.chunks(1):
        for at in range(len(chunk.ids) // 16):
            stored[chunk.ids[16 * at : 16 * at + 16]] = chunk.reports[width * at : width * at + width]
            total += 1
        data += chunk.reports
    sent = _rows(acknowledged + unsure, width)
    assert total == len(stored) == reports
    assert stored == sent
    counts = task.protocol.count(Reports.from_rows(data, task.protocol))
    assert json.loads(opened.task("drinks").counts) == {"n": counts.n, "supports": list(counts.supports)}


@pytest.mark.deep
def test_a_kill_loses_nothing_and_counts_nothing_twice(tmp_path: Path) -> None:
    _crash(tmp_path, 1)


@pytest.mark.deep
def test_forty_kills_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    _crash(tmp_path, 40)
