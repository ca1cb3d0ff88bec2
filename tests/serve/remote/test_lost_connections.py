"""A question whose answer was lost is asked again and charged once: a cut connection, a killed server, one that is gone."""

from __future__ import annotations

import threading
from fractions import Fraction
from pathlib import Path

import pytest

import sordino as sd
from far import CuttingProxy, KillableServer, far_project
from ports import free_port
from serving import served
from sordino.errors import InDoubt, SourceError
from sordino.serve.remote.questions import RemoteQuestions
from sordino.serve.remote.transport import Call, Pause, Reply, exchange


def test_a_cut_connection_is_asked_again_under_the_same_id(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, url):
        proxy = CuttingProxy(int(url.rpartition(":")[2]), cuts=2)
        with sd.connect(proxy.url, token=server.tokens["ana"]) as far:
            answer = far.table().ask(sd.count(), epsilon="0.1")
        proxy.close()
        keys = {line for seen in proxy.seen for line in seen.lower().split(b"\r\n") if line.startswith(b"idempotency")}
        assert (len(proxy.seen), len(keys)) == (3, 1)
        (charge,) = server.service.ledger("people").charges()
        assert charge.id == answer.charge


@pytest.mark.deep
def test_a_killed_server_that_is_started_again_answers_once(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        token = server.tokens["ana"]
    run = KillableServer(tmp_path / "sordino.toml", free_port())
    run.start()
    run.wait()
    proxy = CuttingProxy(run.port)

    def restart() -> None:
        proxy.arrived.wait(30)
        run.kill()
        run.start()

    other = threading.Thread(target=restart)
    other.start()
    try:
        with sd.connect(proxy.url, token=token) as far:
            answer = far.table().ask(sd.count(), epsilon="0.1")
            again = far.releases()
    finally:
        other.join()
        run.kill()
        proxy.close()
    assert len(proxy.seen) >= 2
    assert [r.charge for r in again] == [answer.charge]
    assert again[0].value == answer.value
    assert sd.connect(tmp_path / "sordino.toml").budgets()[0].spent == sd.PureDP("0.1")


def test_who_gives_up_is_told_the_request_id(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, url):
        proxy = CuttingProxy(int(url.rpartition(":")[2]), cuts=10**6)
        with sd.connect(proxy.url, token=server.tokens["ana"], patience=0.2) as far:
            with pytest.raises(InDoubt, match="request_id='mine'"):
                far.table().ask(sd.count(), epsilon="0.1", request_id="mine")
            proxy.cuts = 0
            answer = far.table().ask(sd.count(), epsilon="0.1", request_id="mine")
        proxy.close()
        assert [c.id for c in server.service.ledger("people").charges()] == [answer.charge]
    with pytest.raises(SourceError, match="cannot be reached"):
        sd.connect(url, token="sordino_token_x", patience=0.1)


def test_pauses_grow_and_end() -> None:
    operation = exchange(Call("GET", "/v1/tables"), patience=10, where="there")
    pauses: list[float] = []

    def lose_all() -> None:
        step = next(operation)
        while True:
            pauses.extend([step.seconds] if isinstance(step, Pause) else [])
            step = operation.send(None)

    with pytest.raises(SourceError, match="the server at there cannot be reached"):
        lose_all()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]


def test_a_question_still_under_way_is_waited_for() -> None:
    """After a cut, the first request may still run: the second meets a charge without an answer, and asks once more."""
    doubt = {"type": "urn:sordino:in-doubt", "detail": "its outcome is not known", "exit_code": 5, "charge": "c-0001"}
    call = Call("POST", "/v1/ask", {}, {"idempotency-key": "k"})
    operation = exchange(call, patience=10, where="there")
    next(operation)
    assert isinstance(operation.send(None), Pause)
    assert operation.send(None) == call
    assert isinstance(operation.send(Reply(500, doubt)), Pause)
    assert operation.send(None) == call
    with pytest.raises(StopIteration) as done:
        operation.send(Reply(200, {"answer": 1}))
    assert done.value.value == {"answer": 1}
    operation = exchange(call, patience=10, where="there")
    next(operation)
    with pytest.raises(InDoubt) as found:  # where nothing was lost, the server means it
        operation.send(Reply(500, doubt))
    assert found.value.charge == "c-0001"


def test_each_question_gets_an_id_of_its_own() -> None:
    asked = RemoteQuestions("https://curator.example", patience=1, dialect=None, begin=lambda _: None)
    asked.tables = {"people": {"declaration": "d"}}
    calls = []
    for _ in range(3):
        operation = asked.ask(
            sd.count(), "people", {"epsilon": Fraction(1, 3)}, request_id=None, on="data", confirm=None
        )
        calls.append(next(operation))
    assert len({c.headers["idempotency-key"] for c in calls if isinstance(c, Call)}) == 3
    assert {c.body["epsilon"] for c in calls if isinstance(c, Call)} == {"1/3"}
