"""kill -9 of a server in the middle of an ask: the same Idempotency-Key then gets one answer, for one charge."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from serve.server.forked_servers import Servers
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import PureDP


@pytest.mark.each(2)
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
    with servers.run():
        began = time.perf_counter()
        first = servers.ask(token, "first").json()
        took = time.perf_counter() - began  # on this machine, as busy as it is
    for client in clients:
        client.start()
    try:
        for _ in range(kills):
            with servers.run():
                time.sleep(moments.uniform(0, 3 * took))
    finally:
        for client in clients:
            client.enough.set()
        with servers.run():
            for client in clients:
                client.join(60)
            answers = {key: answer for client in clients for key, answer in client.answers.items()} | {"first": first}
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
def test_a_hundred_kills_lose_double_and_forget_nothing(
    tmp_path: Path, project: tuple[Path, str], servers: Servers
) -> None:
    answered = kill_often(tmp_path, project[1], servers, kills=100, seed=16)
    assert answered > 50  # else the kills hit nothing but starts
