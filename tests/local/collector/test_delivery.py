"""A client in Python sends its reports to a real collector: once stored, counted once, refusals in words."""

from __future__ import annotations

import datetime
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from collecting import running, task_of
from ports import free_port
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError, SordinoError
from sordino.local import GRR, Client, ClientLedger, NotDelivered, Task
from sordino.local.collector.service import Limits

NOW = datetime.datetime(2029, 1, 1, tzinfo=datetime.UTC)
LABELS = ("tea", "coffee", "milk", "water")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    ledger = ClientLedger.open(tmp_path / "device", cap=9, rng=Rng.seeded(2), mark=tmp_path / "mark")
    yield Client(ledger)
    ledger.close()


def _task(origin: str) -> Task:
    return task_of(GRR(LABELS, epsilon=1), origin=origin)


def test_a_report_is_sent_and_counted_once(client: Client, store: str) -> None:
    port, rng = free_port(), Rng.seeded(1)
    task = _task(f"http://127.0.0.1:{port}")
    with running(store, [task], port=port) as service:
        body = client.report(task, "milk", rng=rng, now=NOW)
        assert client.send(task, body, token="r") is True
        assert client.send(task, body, token="r2") is False
        assert service.estimate()["reports"] == 1
        for token in (None, "wrong"):
            with pytest.raises(DeclarationError, match="send a respondent's token: Authorization: Bearer TOKEN"):
                client.send(task, client.report(task, "tea", rng=rng, now=NOW), token=token)
        with pytest.raises(DeclarationError, match="not for this"):
            client.send(task, client.report(task, "tea", rng=rng, now=NOW), token="a")
        assert service.estimate()["reports"] == 1


def test_a_collector_that_is_away_gets_the_same_bytes_later(client: Client, store: str) -> None:
    port = free_port()
    task = _task(f"http://127.0.0.1:{port}")
    body = client.report(task, "milk", rng=Rng.seeded(1), now=NOW)
    with pytest.raises(NotDelivered, match="send the same bytes again"):
        client.send(task, body, token="r", attempts=1, timeout=2)
    assert issubclass(NotDelivered, SordinoError)
    with running(store, [task], port=port) as service:
        assert client.send(task, body, token="r")
        assert service.estimate()["reports"] == 1
    assert client.ledger.spent() == 1


def test_a_busy_collector_is_waited_for(client: Client, store: str) -> None:
    port, rng = free_port(), Rng.seeded(1)
    task = _task(f"http://127.0.0.1:{port}")
    with running(store, [task], port=port, limits=Limits(per_minute=60, burst=1)) as service:
        for _ in range(2):  # the second must wait for a second
            assert client.send(task, client.report(task, "milk", rng=rng, now=NOW), token="r")
        assert service.estimate()["reports"] == 2


def test_nothing_is_sent_in_clear_or_to_another_task(client: Client) -> None:
    task = _task("http://survey.example")
    body = client.report(task, "milk", rng=Rng.seeded(1), now=NOW)
    with pytest.raises(DeclarationError, match="over https only"):
        client.send(task, body, token="r", attempts=1)
    other = _task("http://127.0.0.1:1")
    with pytest.raises(DeclarationError, match="made for another task"):
        client.send(other, body, token="r")


def test_a_redirect_is_not_followed(client: Client) -> None:
    asked: list[str] = []

    class Elsewhere(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/stolen")
            self.end_headers()

        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            task = _task(f"http://127.0.0.1:{server.server_port}")
            with pytest.raises(DeclarationError, match="refused the report: status 302"):
                client.send(task, client.report(task, "milk", rng=Rng.seeded(1), now=NOW), token="secret")
        finally:
            server.shutdown()
    assert asked == ["/v1/tasks/drinks/reports"]
