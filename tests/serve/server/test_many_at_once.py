"""Many at once: two officers, a share that is raised while an ask runs, 64 analysts on one budget."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from serving import COUNT, Served, served, write_project
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.errors import BudgetExhausted
from sordino.serve.server.opening import open_service
from sordino.serve.server.question_request import QuestionRequest


def asked(epsilon: str) -> QuestionRequest:
    return QuestionRequest(sd.sql(COUNT), epsilon=epsilon)


def test_of_two_officers_one_decides(tmp_path: Path) -> None:
    with served(tmp_path, serve="approve_above = {epsilon = 0.5}") as server:
        server.add("otto", "officer")
        for round_ in range(5):
            number = server.ask(epsilon="0.6", key=f"k{round_}").json()["approval"]
            start = threading.Barrier(2)

            def decide(who: str, decision: str, number: int = number, start: threading.Barrier = start) -> int:
                start.wait()
                path = f"/v1/approvals/{number}"
                return server.send("POST", path, who=who, json={"decision": decision}).status_code

            with ThreadPoolExecutor(2) as pool:
                found = list(pool.map(decide, ("ola", "otto"), ("approved", "declined")))
            assert sorted(found) == [200, 409]
            state = server.send("GET", f"/v1/approvals/{number}").json()["state"]
            assert state == ("approved" if found[0] == 200 else "declined")
            assert server.ask(epsilon="0.6", key=f"k{round_}").status_code == {"approved": 200, "declined": 403}[state]
            if state == "approved":
                break


def test_a_share_is_raised_while_an_ask_runs(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    run, entered, go_on = DuckDBEngine.run, threading.Event(), threading.Event()

    def slow(engine: DuckDBEngine, select: Any) -> Any:
        entered.set()
        assert go_on.wait(30)
        return run(engine, select)

    monkeypatch.setattr(DuckDBEngine, "run", slow)
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(server.ask, epsilon="1.5")
        assert entered.wait(30)
        assert server.ask(epsilon="1").status_code == 402  # 0.5 is left of 2
        raised = server.send("PUT", "/v1/shares/people/ana", who="ola", json={"epsilon": "3"})
        assert raised.status_code == 200
        go_on.set()
        assert asking.result(30).status_code == 200
    assert server.ask(epsilon="1").json()["remaining"] == {"epsilon": 0.5}
    lowered = server.send("PUT", "/v1/shares/people/ana", who="ola", json={"epsilon": "1"})
    assert lowered.status_code == 400  # below what was spent
    server.service.ledger("people").verify()


def test_one_key_at_once_is_one_charge(server: Served) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.ask(key="k").json(), range(8)))
    assert all(answer == answers[0] for answer in answers)
    assert len(server.service.ledger("people").charges()) == 1


@pytest.mark.deep
def test_64_analysts_overspend_nothing_and_none_starves(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        names = [f"a{i}" for i in range(64)]
        for name in names:
            server.add(name, "analyst", epsilon="1")
        visitors = [server.service.account_service.enter(server.tokens[name]) for name in names]
        answered: Counter[str] = Counter()
        rounds: list[Counter[str]] = []

        def spend(visitor: Any) -> None:
            while True:
                try:
                    server.service.ask(visitor, asked("0.01"))
                except BudgetExhausted:
                    return
                answered[visitor.name] += 1
                if sum(answered.values()) in (320, 640):
                    rounds.append(answered.copy())

        with ThreadPoolExecutor(64) as pool:
            list(pool.map(spend, visitors))
        ledger = server.service.ledger("people")
        assert sum(answered.values()) == 1000  # the budget of 10, whole, in parts of 0.01
        assert ledger.verify().spent == sd.PureDP(10)
        assert all(share.spent.amounts()["epsilon"] <= 1 for share in ledger.shares().values())
        assert {who: Fraction(n, 100) for who, n in answered.items()} == {
            who: share.spent.amounts()["epsilon"] for who, share in ledger.shares().items() if who in answered
        }
        assert all(
            len(found) == 64 for found in rounds
        )  # each was answered by the time that it was its turn five times


@pytest.mark.each(8)
@pytest.mark.parametrize("number", [6, pytest.param(30, marks=pytest.mark.deep)])
@pytest.mark.parametrize("store", ["a file", "a server"])
def test_equal_keys_at_two_servers_get_one_answer_for_one_charge(
    store: str, number: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Two servers over one ledger and store note the same charges at once, in any order: every key is answered by both."""
    stated, address = "", ""
    if store == "a server":
        address = request.getfixturevalue("postgres_database")
        stated = f'store = "{address}"'
    path = write_project(tmp_path, serve=stated)
    if address:
        path.write_text(path.read_text().replace('"people.ledger"', f'"{address}#people"'))
    first = Served(open_service(path))
    first.add("ana", "analyst", epsilon="5")
    second = Served(open_service(path), first.tokens)
    start = threading.Barrier(8)

    def send(turn: int) -> list[Any]:
        server = (first, second)[turn % 2]
        keys = [f"k{i}" for i in range(number)]
        start.wait()
        return [server.ask(key=key, epsilon="0.01") for key in (keys if turn < 4 else reversed(keys))]

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for some in pool.map(send, range(8)) for answer in some]
    assert Counter(answer.status_code for answer in answers) == {200: 8 * number}
    assert len({answer.text for answer in answers}) == number
    assert len(first.service.ledger("people").charges()) == number
    lines = [line for line in first.service.account_service.audit_log.lines() if line["action"] == "question.ask"]
    assert len(lines) == 8 * number
    for server in (first, second):
        server.service.close()
