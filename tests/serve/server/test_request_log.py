"""The log and the metrics: one line a request, with its account, its time and nothing that was asked; names that are not ours."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from places import ROOT
from serving import COUNT, Served, served
from sordino.cli.main import main
from sordino.serve.server.answer_time import PublicClock
from sordino.serve.server.jobs import WorkQueue
from sordino.serve.server.logs import log_request, write_log
from sql_clients import serve_sql

LOGS = [logging.getLogger(name) for name in ("sordino.server", "uvicorn", "asyncio")]


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    before = [(log, log.handlers, log.propagate, log.level) for log in LOGS]
    yield
    for log, handlers, propagate, level in before:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_request_is_one_line_that_says_nothing_of_what_was_asked(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log("json")
    charge = server.ask(key="a-key").json()["charge"]
    server.send("GET", f"/v1/releases/{charge}?budget=people", who="ola")
    server.send("POST", "/v1/plan", json={"sql": "SELECT secret FROM people", "epsilon": "0.1"}, who="ben")
    server.send("GET", "/v1/me", who=None)
    server.send("GET", "/nothing/here", who=None)
    said = lines(capsys)
    rows = [json.loads(line) for line in said]
    assert [(r["method"], r["route"], r["status"], r["account"]) for r in rows] == [
        ("POST", "/v1/ask", 200, "ana"),
        ("GET", "/v1/releases/{charge}", 200, "ola"),
        ("POST", "/v1/plan", 422, "ben"),
        ("GET", "/v1/me", 401, ""),
        ("GET", "other", 404, ""),
    ]
    assert all(row["level"] == "info" and row["seconds"] >= 0 and row["time"].endswith("Z") for row in rows)
    for hidden in ("SELECT", "secret", "a-key", charge, "here", "127.0.0.1", *server.tokens.values()):
        assert not any(hidden in line for line in said), hidden


@pytest.mark.parametrize("form", ["text", "json"])
def test_whoever_writes_to_the_log_a_line_is_a_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also what uvicorn and asyncio write, and errors of our own: where they were raised, never their words."""
    write_log(form)
    for name in ("uvicorn.error", "asyncio", "sordino.server"):
        # a notebook that ran in this process before makes asyncio quiet
        logging.getLogger(name).setLevel(logging.NOTSET)
        try:
            raise KeyError("SELECT secret\nFROM people")
        except KeyError:
            logging.getLogger(name).exception("Exception in\n%s\n", "ASGI application")
        logging.getLogger(name).warning("Invalid HTTP request received.")
    said = lines(capsys)
    assert len(said) == 6
    assert "secret" not in "".join(said)
    for i, line in enumerate(said):
        assert (" error " if form == "text" else '"level": "error"') in line or i % 2
        assert "test_request_log.py:" in line or i % 2
        if form == "json":
            assert json.loads(line)["message"] in ("Exception in ASGI application", "Invalid HTTP request received.")


def test_a_server_logs_json_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, serve='log = "json"') as made:
        path = made.service.project.path

    def listen(server: uvicorn.Server) -> None:
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
        server.started = True

    monkeypatch.setattr(uvicorn.Server, "run", listen)
    assert main(["serve", str(path)]) == 0
    messages = [json.loads(line)["message"] for line in lines(capsys)]
    assert messages[0].startswith("serving at http://127.0.0.1:8000")
    assert messages[1:] == ["Invalid HTTP request received."]


def test_off_keeps_warnings(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    write_log("off")
    server.ask()
    log_request(method="GET", route="/v1/me", status=503, seconds=0.1, account="ana")
    assert len(lines(capsys)) == 1


@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from([200, 404, 500, 503]))
def test_whatever_an_account_is_called_a_line_is_a_line(account: str, route: str, status: int) -> None:
    for form in ("text", "json"):
        with contextlib.redirect_stderr(io.StringIO()) as caught:
            write_log(form)
            log_request(method="GET", route=route, status=status, seconds=0.25, account=account)
        text = caught.getvalue()
        assert text.endswith("\n")
        assert len(text[:-1].splitlines()) == 1
        level = {500: "error", 503: "warning"}.get(status, "info")
        if form == "json":
            assert json.loads(text) == {
                **json.loads(text),
                "level": level,
                "account": account,
                "route": route,
                "seconds": 0.25,
            }
        else:
            assert re.match(rf"\S+Z {level} request method=GET route=", text)


def test_a_statement_of_a_sql_client_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve_sql(tmp_path) as port, port.connect() as client:
        write_log("json")
        client.execute("SET sordino.epsilon = '0.01'")
        client.execute(COUNT)
        with pytest.raises(psycopg.Error):
            client.execute("SELECT nothing FROM people")
        with pytest.raises(psycopg.Error):
            client.execute("my-secret-word 5")
    rows = [json.loads(line) for line in lines(capsys)]
    assert [(r["route"], r["status"], r["account"]) for r in rows] == [
        ("SET", "00000", "ana"),
        ("SELECT", "00000", "ana"),
        ("SELECT", "42704", "ana"),
        ("other", "0A000", "ana"),
    ]
    text = port.served.send("GET", "/metrics", who=None).text
    assert 'sordino_request_seconds_count{method="SQL",route="SELECT"} 2.0' in text


def test_times_are_counted_by_route(server: Served) -> None:
    server.ask(key="k")
    server.send("GET", "/v1/releases/c-0001")
    server.send("GET", "/v1/whatever/else")
    text = server.send("GET", "/metrics", who=None).text
    for route, method in (("/v1/ask", "POST"), ("/v1/releases/{charge}", "GET"), ("other", "GET")):
        assert f'sordino_request_seconds_count{{method="{method}",route="{route}"}} 1.0' in text
    assert "c-0001" not in text
    assert "whatever" not in text


@pytest.mark.attack(
    "reach a server on loopback by a name of one's own",
    source="Jackson, Barth, Bortz, Shao, Boneh 2007, Protecting browsers from DNS rebinding attacks",
)
@pytest.mark.each(3)
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:80", 421),
        ("[::1]", 200),
        ("[::1]:8000", 200),
        ("127.0.0.1:8000", 200),
        ("192.0.2.7", 200),
        ("localhost:8000", 200),
        ("ana.localhost", 200),
        ("LOCALHOST", 200),
    ],
)
def test_without_an_origin_only_own_names_are_answered(server: Served, host: str, status: int) -> None:
    headers = {"host": host}
    assert server.send("GET", "/v1/tables", headers=headers).status_code == status
    origin = {"host": host, "origin": f"http://{host}"}
    signed_in = server.send("POST", "/v1/session", who=None, headers=origin, json={"name": "ana", "password": "x"})
    assert signed_in.status_code == (421 if status == 421 else 401)
    for path in ("/healthz", "/readyz", "/metrics"):
        assert server.send("GET", path, who=None, headers=headers).status_code == 200


def test_with_an_origin_the_host_is_the_proxys_to_state(tmp_path: Path) -> None:
    with served(tmp_path, serve='origin = "https://curator.example"') as server:
        assert server.send("GET", "/v1/tables", headers={"host": "curator.example"}).status_code == 200
        foreign = {"host": "evil.example", "origin": "https://evil.example"}
        body = {"name": "ana", "password": "x"}
        assert server.send("POST", "/v1/session", who=None, headers=foreign, json=body).status_code == 403


@pytest.mark.attack(
    "time a question by what waits behind it",
    source="CWE-208; Haeberlen, Pierce, Narayan 2011, Differential privacy under fire",
)
def test_a_thread_is_taken_until_the_answer_leaves(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it free as soon as the work is done, the next request of the account would tell when that was."""
    arrived, go_on = threading.Semaphore(0), threading.Event()

    def sleep(*_: object) -> None:
        arrived.release()
        assert go_on.wait(60)

    monkeypatch.setattr(PublicClock, "sleep", sleep)
    work = server.app.app.state.work = WorkQueue(threads=9, each=2, waiting=10)
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.ask) for _ in range(2)]
        try:
            assert arrived.acquire(timeout=300)
            assert arrived.acquire(timeout=300)
            assert len(server.service.ledger("people").charges()) == 2  # both are charged and answered
            plan = pool.submit(server.send, "POST", "/v1/plan", json={"sql": COUNT, "epsilon": "0.1"})
            while not work._waiting.total():
                time.sleep(0.01)
            assert not plan.done()
        finally:
            go_on.set()
        assert [one.result().status_code for one in (*asked, plan)] == [200, 200, 200]


def test_a_statement_takes_its_thread_until_its_answer_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def sleep(*_: object) -> None:
        arrived.set()
        assert go_on.wait(60)

    with serve_sql(tmp_path) as port, port.connect(options="-c sordino.epsilon=0.01") as client:
        monkeypatch.setattr(PublicClock, "sleep", sleep)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(lambda: client.execute(COUNT).fetchone())
            try:
                assert arrived.wait(60)
                assert port.server.workers._running["ana"] == 1
            finally:
                go_on.set()
            assert asked.result() is not None


@pytest.mark.deep
def test_alerts_and_dashboard_read_what_is_measured(server: Served) -> None:
    server.ask()
    text = server.send("GET", "/metrics", who=None).text
    measured = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    folder = ROOT / "docs" / "monitoring"
    board = json.loads((folder / "sordino-dashboard.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here: it reads the alert rules")
    rules = yaml.safe_load((folder / "sordino-alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    for rule in rules:
        assert {"alert", "expr", "labels", "annotations"} <= set(rule)
        asked.append(rule["expr"])
    for expression in asked:
        named = set(re.findall(r"\bsordino_\w+", expression))
        assert named <= measured, (expression, named - measured)
        for route in re.findall(r'route="([^"]+)"', expression):
            assert route in server.send("GET", "/v1/openapi.json", who=None).json()["paths"]
