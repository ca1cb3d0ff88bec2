"""What tests of the collector and of its clients share: tasks, bodies, and a collector under uvicorn on loopback."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from sordino.core.noise.rng import Rng
from sordino.local.collector.app import collector_app
from sordino.local.collector.report_store import Store
from sordino.local.collector.service import Limits, PatientHttp
from sordino.local.collector.task_state import TaskState, counts_text
from sordino.local.protocols.heavy_hitters import HeavyHitters
from sordino.local.protocols.memoization import Memoized
from sordino.local.protocols.response import GRR
from sordino.local.protocols.unary import SUE, Unary
from sordino.local.task import SigningKey, Task, create_task

LABELS = ("tea", "coffee", "milk", "water")
KEY = SigningKey.make(Rng.seeded(1))
UNTIL = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
MANY = Limits(per_minute=1e9, burst=10**6)


def task_of(
    protocol: GRR | Unary | Memoized | HeavyHitters | None = None,
    *,
    name: str = "drinks",
    question: str = "What do you drink?",
    origin: str = "https://a.example",
) -> Task:
    made = protocol or SUE(LABELS, epsilon=2)
    return create_task(
        KEY,
        made,
        task=name,
        question=question,
        lifetime_epsilon=None if isinstance(made, Memoized) else 20,
        epoch="2026",
        expires=UNTIL,
        origin=origin,
    )


def reports_of(task: Task, answers: list[str], rng: Rng) -> bytes:
    """Return the body of one request: a report with a random id for each answer."""
    protocol: Any = task.protocol
    rows = protocol.perturb(answers, rng).rows
    return task.manifest.hash + b"".join(rng.bytes(16) + row.tobytes() for row in rows)


@dataclass(frozen=True)
class Running:
    """A collector that runs: where, over which store."""

    url: str
    store: str
    port: int
    client: httpx.Client

    def post(self, body: bytes, *, task: str = "drinks", token: str | None = "r", **headers: str) -> httpx.Response:
        sent = ({"authorization": f"Bearer {token}"} if token else {}) | headers
        return self.client.post(f"{self.url}/v1/tasks/{task}/reports", content=body, headers=sent)

    def get(self, path: str, *, token: str | None = "a") -> httpx.Response:
        return self.client.get(self.url + path, headers={"authorization": f"Bearer {token}"} if token else {})

    def estimate(self, task: str = "drinks") -> dict[str, Any]:
        answer = self.get(f"/v1/tasks/{task}/estimate")
        assert answer.status_code == 200, answer.text
        plain: dict[str, Any] = answer.json()
        return plain


Start = Callable[..., Running]


@contextmanager
def running(
    store: str, tasks: list[Task], *, limits: Limits = MANY, clock: Any = time.time, port: int = 0
) -> Iterator[Running]:
    app = collector_app(store, tasks, limits=limits, clock=clock)
    config = uvicorn.Config(
        app,
        port=port,
        log_level="error",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=5,
        http=PatientHttp,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        for _ in range(12_000):
            if server.started or not thread.is_alive():
                break
            time.sleep(0.01)
        assert server.started
        found = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(verify=False, timeout=300) as client:
            yield Running(f"http://127.0.0.1:{found}", store, found, client)
    finally:
        server.should_exit = True
        thread.join(100)
        assert not thread.is_alive()


def with_tokens(store: str) -> str:
    """Make the store with a respondent's token `r` and an administrator's `a`."""
    made = Store.open(store)
    made.add_tokens("respondent", ["r", "r2"])
    made.add_tokens("admin", ["a"])
    made.close()
    return store


def store_reports(store: str, task: Task, answers: list[str]) -> None:
    """Put a task and a report for each answer into a store, as a collector does."""
    opened = Store.open(store)
    try:
        stored = opened.add_task(task.manifest.task, task.envelope, counts_text(TaskState.empty_counts(task)))
        state = TaskState(task, stored)
        found = state.sort([state.post(reports_of(task, answers, Rng.seeded(7)))])
        assert found is not None
        opened.append([found[0]])
    finally:
        opened.close()
