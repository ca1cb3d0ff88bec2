"""Hostile visitors: bodies too large, too slow and of every shape, odd headers and paths, HTML in names, chatty errors."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from serving import Served, write_project
from sordino.errors import DeclarationError, LedgerError
from sordino.serve.server import http_guard
from sordino.serve.server.access import Visitor
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.opening import open_service

BODIES: tuple[bytes, ...] = (
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'{"sql": NaN}',
    b'{"sql": "SELECT 1", "sql": "SELECT 2"}',
    b"[" * 100_000,
    b'{"sql": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"sql": 5, "epsilon": 1}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": true}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 1e999}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": "1e999999999"}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": "-1"}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": "1/0"}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "weights": [[1]]}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "weights": {"n": {}}}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "keys": [1]}',
    b'{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "epsilon": 0.1, "keys": [[{}]]}',
    b'{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "epsilon": 0.1, "keys": [["f"], []]}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "confidence": 7}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "min_units": -1}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "max_rows": 0}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "dialect": "klingon"}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "on": "disk"}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "assume_rows": -4, "share": "x"}',
    b'{"sql": "SELECT COUNT(*) FROM people", "epsilon": 0.1, "__proto__": 1}',
    b'{"sql": "", "epsilon": 0.1}',
    b'{"sql": "   ;;; ", "epsilon": 0.1}',
    b'{"sql": "DROP TABLE people", "epsilon": 0.1}',
    b'{"sql": "SELECT * FROM people", "epsilon": 0.1}',
    b'{"sql": "SELECT COUNT(*) FROM read_csv(\'/etc/passwd\')", "epsilon": 0.1}',
    b'{"sql": "ATTACH \'x.db\'", "epsilon": 0.1}',
    b'{"sql": "SELECT COUNT(*) FROM people; DELETE FROM people", "epsilon": 0.1}',
    b'{"sql": "SELECT COUNT(*) FROM people -- \\u0000", "epsilon": "x"}',
    b'{"sql": "SELECT COUNT(*) FROM people WHERE age = \\ud800", "epsilon": 0.1}',
    json.dumps({"sql": "(" * 3000 + "SELECT 1" + ")" * 3000, "epsilon": 0.1}).encode(),
)


@pytest.mark.each(2)
@pytest.mark.parametrize("path", ["/v1/plan", "/v1/ask"])
def test_bodies_of_every_shape_are_refused(server: Served, path: str) -> None:
    for body in BODIES:
        answer = server.send("POST", path, content=body)
        assert 400 <= answer.status_code < 500, (body[:100], answer.text)
        assert answer.json()["exit_code"] in (2, 3)
    assert server.service.ledger("people").charges() == []


def test_other_routes_take_no_odd_body_either(server: Served) -> None:
    routes = (
        ("POST", "/v1/session"),
        ("POST", "/v1/accounts"),
        ("PATCH", "/v1/accounts/ana"),
        ("PUT", "/v1/accounts/ana/password"),
        ("PUT", "/v1/shares/people/ana"),
        ("POST", "/v1/tokens"),
        ("POST", "/v1/models"),
    )
    for method, path in routes:
        for body in (
            b"",
            b"[]",
            b'{"x": 1}',
            b'{"name": {}, "role": []}',
            b'{"new": 5}',
            b'{"epsilon": true}',
            b'{"name": ""}',
        ):
            answer = server.send(method, path, who="ola", content=body, headers={"content-type": "application/json"})
            assert 400 <= answer.status_code < 500, (method, path, body, answer.text)


async def drive(server: Served, body: list[bytes], headers: list[tuple[bytes, bytes]]) -> int:
    """Send a request as a server would hand it over, in parts; return the status."""
    token = server.tokens["ana"].encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/plan",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + token), *headers],
        "client": ("127.0.0.1", 1),
    }
    sent: list[MutableMapping[str, Any]] = []
    parts = list(body)

    async def receive() -> MutableMapping[str, Any]:
        if not parts:
            await asyncio.sleep(3600)
        return {"type": "http.request", "body": parts.pop(0), "more_body": True}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await server.app(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.attack("exhaust the reader of questions")
def test_large_and_slow_bodies_end(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.send("POST", "/v1/plan", content=b" " * (1 << 20) + b" ").status_code == 413
    assert asyncio.run(drive(server, [b"x" * 600_000] * 3, [])) == 413  # without a length, in chunks
    assert asyncio.run(drive(server, [], [(b"content-length", b"-5")])) == 400
    monkeypatch.setattr(http_guard, "_PATIENCE", 0.2)
    assert asyncio.run(drive(server, [b"{"], [(b"content-length", b"100")])) == 408


def test_odd_headers_and_paths_find_nothing(server: Served) -> None:
    for path in (
        "/v1/../healthz/..",
        "/v1/releases/..%2f..%2fetc%2fpasswd",
        "/v1/accounts/%00",
        "/v1/models/1e9",
        "/static/x",
    ):
        assert server.send("GET", path).status_code in (400, 403, 404, 405)
    for authorization in ("", "Bearer", "Bearer ", "Basic YTpi", f"Bearer {'x' * 5000}", "Bearer ()"):
        headers = {"authorization": authorization}
        assert server.send("GET", "/v1/me", who=None, headers=headers).status_code == 401
    for key in ("x" * 201, "a\tb"):
        refused = server.ask(key=key)
        assert refused.status_code == 400
    injected = server.send("POST", "/v1/accounts", who="ola", json={"name": "x\r\nset-cookie: a=b", "role": "analyst"})
    assert (injected.status_code, "set-cookie" in injected.headers) == (400, False)


def test_no_secret_in_an_address_lets_anyone_in(server: Served) -> None:
    token = server.tokens["ana"]
    for query in (f"token={token}", f"access_token={token}", f"authorization=Bearer%20{token}", f"sordino={token}"):
        refused = server.send("GET", f"/v1/me?{query}", who=None)
        assert (refused.status_code, token in refused.text) == (401, False)


def test_every_answer_guards_the_browser(server: Served) -> None:
    for path, status in (("/v1/tables", 200), ("/v1/nothing", 404), ("/healthz", 200), ("/v1/releases/c-1", 404)):
        answer = server.send("GET", path)
        assert answer.status_code == status
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    hostile = server.send(
        "POST", "/v1/plan", json={"sql": 'SELECT COUNT(*) FROM "<img src=x onerror=alert(1)>"', "epsilon": 1}
    )
    assert hostile.headers["content-type"] == "application/problem+json"


def test_health_and_metrics_are_public_facts(server: Served) -> None:
    value = server.ask(key="k").json()["rows"][0]["n"]
    server.send("GET", "/v1/tables", who=None)
    text = server.send("GET", "/metrics", who=None).text
    assert 'sordino_budget_spent{amount="epsilon",budget="people"} 0.1' in text
    assert 'sordino_http_answers_total{status="200"} 1.0' in text
    for hidden in ("ana", "k", str(value)):
        assert f'"{hidden}"' not in text
    times = [line for line in text.splitlines() if "seconds" in line]
    assert all(line.startswith(("sordino_request_seconds", "# ")) for line in times)
    assert server.send("GET", "/healthz", who=None).json() == {"status": "alive"}
    assert server.send("GET", "/readyz", who=None).json() == {"status": "ready"}


@pytest.mark.attack("read data from an error or a failure")
def test_an_error_says_nothing_of_the_machine(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise LedgerError("the ledger /srv/secret/people.ledger cannot be used: the disk is full")

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a cell: 4711")

    monkeypatch.setattr(CuratorService, "ask", gone)
    with caplog.at_level(logging.WARNING):
        answer = server.ask()
    assert (answer.status_code, "/srv" in answer.text) == (503, False)
    assert "the disk is full" in caplog.text
    monkeypatch.setattr(CuratorService, "ask", broken)
    answer = server.ask()
    assert (answer.status_code, answer.json()["exit_code"], "4711" in answer.text) == (500, 1, False)


def test_the_document_describes_each_body(server: Served) -> None:
    plain = server.send("GET", "/v1/openapi.json", who=None).json()
    body = plain["paths"]["/v1/ask"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["properties"]) >= {"sql", "epsilon", "delta", "rho", "keys", "on"}
    without = [
        (method, path)
        for path, of in plain["paths"].items()
        for method, route in of.items()
        if method in ("post", "put", "patch") and "requestBody" not in route
    ]
    assert without == [("post", "/v1/collections/{name}/close")]  # it takes none


def test_no_account_is_named_like_a_share_of_the_project_file(tmp_path: Path) -> None:
    """Whoever may add accounts would else give a program's share away by a name."""
    path = write_project(tmp_path)
    path.write_text(path.read_text() + "\n[budgets.people.shares]\nresearch = {epsilon = 1}\n")
    service = open_service(path)
    officer = Visitor(1, "ola", "officer", "ola", "token")
    try:
        for add in (partial(service.account_service.add_account, officer), service.account_service.accounts.add):
            with pytest.raises(DeclarationError, match="names a share that the project file declares"):
                add("research", "analyst")
        assert service.account_service.add_account(officer, "rita", "analyst").name == "rita"
        assert [account.name for account in service.account_service.accounts.all()] == ["rita"]
    finally:
        service.close()
