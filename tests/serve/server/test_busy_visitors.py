"""Busy visitors: sign-ins, plans and questions of one sender take their own threads and time, never everybody's."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from far import listening
from serving import COUNT, Served, served
from sordino.ask.curator import curator as curator_module
from sordino.ask.queries.query import check_planning
from sordino.errors import QuestionRefused, TooManyRequests
from sordino.serve.server import jobs as work_queue
from sordino.serve.server.accounts import Accounts
from sordino.serve.server.answer_time import GONE, PlanningTime
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.jobs import WorkQueue

PASSWORD = "correct horse battery"
PLAN = {"sql": COUNT, "epsilon": "0.1"}


def sign_in(server: Served, name: str, password: str, **headers: str) -> int:
    body = {"name": name, "password": password}
    return server.send("POST", "/v1/session", who=None, headers=headers, json=body).status_code


def bearer(server: Served, who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {server.tokens[who]}"}


@pytest.mark.deep
@pytest.mark.attack("stop everybody with wrong passwords", source="CWE-400; CWE-770")
def test_a_hundred_sign_ins_at_once_leave_every_route_answerable(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, go_on = Accounts.check_password, threading.Event()

    def slow(accounts: Accounts, name: str, password: str) -> Any:
        assert go_on.wait(60)
        return check(accounts, name, password)

    monkeypatch.setattr(Accounts, "check_password", slow)
    # a sign-in for each name and address, so that no bucket refuses any of them
    names = itertools.count()

    def post(client: httpx.Client) -> int:
        body = {"name": f"nobody{(number := next(names))}", "password": "wrong-password-x"}
        return client.post("/v1/session", json=body, headers={"x-forwarded-for": f"10.0.{number}.1"}).status_code

    # Connections of one client: a client each would read its certificates a hundred times.
    limits = httpx.Limits(max_connections=100)
    with (
        listening(server) as url,
        httpx.Client(base_url=url, limits=limits, timeout=300) as client,
        ThreadPoolExecutor(100) as pool,
    ):
        tries = [pool.submit(post, client) for _ in range(100)]
        try:
            for path in ("/healthz", "/readyz", "/metrics", "/v1/tables", "/v1/budgets"):
                assert httpx.get(url + path, headers=bearer(server, "ana"), timeout=300).status_code == 200
            for path in ("/v1/plan", "/v1/ask"):
                assert httpx.post(url + path, json=PLAN, headers=bearer(server, "ben"), timeout=300).status_code == 200
        finally:
            go_on.set()
        found = Counter(one.result() for one in tries)
    assert found[429] + found[401] == 100
    assert found[429] >= 80


@pytest.mark.attack("try one password on every name", source="CWE-307; MITRE ATT&CK T1110.003, password spraying")
def test_wrong_passwords_of_one_address_are_throttled_whatever_the_names(tmp_path: Path) -> None:
    with served(tmp_path, serve='origin = "https://curator.example"') as server:
        server.service.account_service.accounts.set_password(
            server.service.account_service.accounts.find("ana"), PASSWORD
        )
        server.service.account_service._throttle._passwords._clock = lambda: 0.0  # it does not fill up meanwhile
        one, other = {"x-forwarded-for": "203.0.113.7"}, {"x-forwarded-for": "203.0.113.7, 198.51.100.4"}
        found = [sign_in(server, f"nobody{i}", "wrong password", **one) for i in range(40)]
        assert found == [401] * 30 + [429] * 10
        assert sign_in(server, "ana", PASSWORD, **one) == 429
        assert (
            sign_in(server, "ana", PASSWORD, **other) == 200
        )  # the last is what the proxy saw; the first anybody writes
        # of a proxy that says nothing all people have one address, which must not lock all of them out
        found = [sign_in(server, f"someone{i}", "wrong password") for i in range(40)]
        assert found == [401] * 40


def test_right_passwords_of_one_address_are_not_throttled(server: Served) -> None:
    accounts = server.service.account_service.accounts
    names = [f"a{i}" for i in range(8)]
    for name in names:
        server.add(name, "analyst")
        accounts.set_password(accounts.find(name), PASSWORD)
    assert [sign_in(server, name, PASSWORD) for name in names * 5] == [200] * 40


@pytest.mark.parametrize(
    ("addresses", "throttled"),
    [
        (["2001:db8:1:2::1", "2001:db8:1:2:ffff::9"], True),
        (["2001:db8:1:2::1", "2001:db8:1:3::1"], False),
        (["::ffff:192.0.2.1", "::ffff:192.0.2.2"], False),
        (["192.0.2.1", "192.0.2.2"], False),
    ],
)
def test_one_household_is_one_address(server: Served, addresses: list[str], throttled: bool) -> None:
    account_service = server.service.account_service
    for i in range(30):
        account_service._throttle.take_password(f"n{i}", addresses[0])
    if throttled:
        with pytest.raises(TooManyRequests):
            account_service._throttle.take_password("m", addresses[1])
    else:
        account_service._throttle.take_password("m", addresses[1])


@pytest.mark.attack("stop everybody with slow questions", source="CWE-400")
def test_questions_of_one_account_leave_threads_for_others(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, go_on = CuratorService.plan, threading.Event()
    own = server.service.account_service.enter(server.tokens["ana"]).account

    def slow(service: CuratorService, visitor: Any, asked: Any) -> Any:
        assert visitor.account != own or go_on.wait(60)
        return plan(service, visitor, asked)

    monkeypatch.setattr(CuratorService, "plan", slow)
    server.app.app.state.work = WorkQueue(threads=24, each=6, waiting=50)

    # Connections of one client: one more certificate store a request would take longer than the request.
    limits = httpx.Limits(max_connections=80)
    with (
        listening(server) as url,
        httpx.Client(headers=bearer(server, "ana"), timeout=300, limits=limits) as client,
        ThreadPoolExecutor(80) as pool,
    ):
        asked = [pool.submit(client.post, f"{url}/v1/plan", json=PLAN) for _ in range(80)]
        try:
            for path in ("/v1/plan", "/v1/ask"):
                assert httpx.post(url + path, json=PLAN, headers=bearer(server, "ben"), timeout=300).status_code == 200
            assert httpx.get(f"{url}/v1/tables", headers=bearer(server, "ana"), timeout=300).status_code == 200
        finally:
            go_on.set()
        found = Counter(one.result().status_code for one in asked)
    assert found[200] + found[429] == 80
    assert found[200] >= 56


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 4), st.integers(1, 3), st.integers(0, 20))
def test_a_queue_runs_everything_that_it_takes_and_never_too_much_at_once(
    accounts: list[int], threads: int, each: int, waiting: int
) -> None:
    queue, lock = WorkQueue(threads=threads, each=each, waiting=waiting), threading.Lock()
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()
    most_in_all = [0]

    def work(account: int) -> int:
        with lock:
            running[account] += 1
            most[account] = max(most[account], running[account])
            most_in_all[0] = max(most_in_all[0], running.total())
        with lock:
            running[account] -= 1
        return account

    taken, refused = [], 0
    for account in accounts:
        try:
            taken.append((account, queue.submit(account, partial(work, account))))
        except TooManyRequests:
            refused += 1
    assert [future.result(30) for _, future in taken] == [account for account, _ in taken]
    assert all(count <= each for count in most.values())
    assert most_in_all[0] <= threads
    assert len(taken) + refused == len(accounts)


# ---- planning


@pytest.fixture
def ticks() -> list[float]:
    return [0.0, 0.0]  # of the clock, of the processor


def test_an_account_plans_for_its_time_and_others_for_theirs(ticks: list[float]) -> None:
    limit = PlanningTime(most=10, per_minute=60, clock=lambda: ticks[0], used=lambda: ticks[1])

    def spend(account: int, steps: int) -> None:
        with limit.planning(account):
            for _ in range(steps):
                ticks[1] += 3
                check_planning()

    spend(1, 3)
    with pytest.raises(TooManyRequests, match="10 s of processor time") as refused:
        spend(1, 2)
    assert refused.value.wait == pytest.approx(3)  # 2 s too many, and one to go on with
    with pytest.raises(TooManyRequests):
        spend(1, 0)
    spend(2, 3)
    ticks[0] += refused.value.wait
    spend(1, 0)


def test_planning_past_its_time_is_refused_in_words(server: Served) -> None:
    server.service._planning = PlanningTime(most=1e-9)
    assert server.send("POST", "/v1/plan", json=PLAN).status_code == 429
    answer = server.send("POST", "/v1/plan", json=PLAN)
    assert answer.status_code == 429
    assert "an account may plan for" in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) > 0
    assert server.ask().status_code == 429
    assert server.service.ledger("people").charges() == []


def test_more_questions_than_a_batch_holds_are_too_large(server: Served) -> None:
    whole = {"sql": ";".join([COUNT] * 1001), "epsilon": "1"}
    listed = {"question": [{"is": "SqlText", "text": f"{COUNT};" * 400, "min_units": 1}] * 3, "table": "people"}
    for body in (whole, {**listed, "epsilon": "1"}):
        for path in ("/v1/plan", "/v1/ask"):
            answer = server.send("POST", path, json=body)
            assert (answer.status_code, "at most 1,000 questions" in answer.json()["detail"]) == (413, True)


@pytest.mark.each(2)
@pytest.mark.attack("keep the server busy with plans for nobody", source="CWE-400; CWE-404")
@pytest.mark.parametrize("path", ["/v1/plan", "/v1/ask"])
def test_planning_stops_when_whoever_asked_has_gone(server: Served, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(work_queue, "_LOOK_EVERY", 0.01)
    plan, plans = curator_module.plan_question, list[object]()

    def count(*args: Any, **more: Any) -> Any:
        plans.append(args)
        return plan(*args, **more)

    monkeypatch.setattr("sordino.ask.curator.curator.plan_question", count)
    body = b'{"epsilon": "1", "sql": "' + b";".join([COUNT.encode()] * 1000) + b'"}'
    token = server.tokens["ana"].encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + token), (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 1),
    }
    messages: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(_: MutableMapping[str, Any]) -> None:
        pass

    asyncio.run(server.app(scope, receive, send))
    assert len(plans) < 1000
    assert server.service.ledger("people").charges() == []


def test_gone_is_asked_between_the_steps() -> None:
    limit, gone = PlanningTime(), [False]
    token = GONE.set(lambda: gone[0])
    try:
        with limit.planning(1):
            check_planning()
            gone[0] = True
            with pytest.raises(QuestionRefused, match="has gone"):
                check_planning()
    finally:
        GONE.reset(token)


def test_who_has_seen_another_declaration_is_told_so_and_nobody_is_alarmed(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    body = {**PLAN, "declarations": {"people": "0123456789abcdef"}}
    for path in ("/v1/plan", "/v1/ask"):
        answer = server.send("POST", path, json=body)
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:sordino:declaration-changed"
        assert "people is declared otherwise" in answer.json()["detail"]
    assert caplog.text == ""
    assert server.service.ledger("people").charges() == []
