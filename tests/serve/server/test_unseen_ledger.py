"""Whatever way in states a price says, too, that this machine never saw the ledger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from serving import COUNT, Served
from sordino.serve.assistant.backends import ServedBackend
from sql_clients import serve_sql
from visiting import person_of

ASKED = {"sql": COUNT, "epsilon": "0.1"}
FIT = {"table": "people", "method": "independent", "column:age": "on", "column:sex": "on", "epsilon": "0.5"}
UNSEEN = "this machine has no high-water mark"

PRICES: dict[str, Callable[[Served], str]] = {
    "JSON": lambda server: server.send("POST", "/v1/plan", json=ASKED).text,
    "JSON of several": lambda server: server.send("POST", "/v1/plan", json={**ASKED, "sql": f"{COUNT}; {COUNT}"}).text,
    "a form": lambda server: person_of(server).post("/question/price", **ASKED).text,
    "a model's form": lambda server: person_of(server).post("/models/price", **FIT).text,
    "an assistant": lambda server: json.dumps(ServedBackend(server.service, "ana").plan(ASKED)),
}


@pytest.mark.each(3)
@pytest.mark.parametrize("price", PRICES.values(), ids=PRICES)
def test_a_price_says_that_this_machine_never_saw_the_ledger(
    server: Served, state: Path, price: Callable[[Served], str]
) -> None:
    server.ask()
    before = price(server)
    assert "0.1" in before or "0.5" in before
    assert UNSEEN not in before
    shutil.rmtree(state / "marks")
    assert UNSEEN in price(server)


def test_explain_at_the_sql_port_says_that_this_machine_never_saw_the_ledger(tmp_path: Path, state: Path) -> None:
    with serve_sql(tmp_path) as port, port.connect(options="-c sordino.epsilon=0.01") as client:
        client.execute(COUNT)
        for form in ("", "(FORMAT JSON) "):
            before = str(client.execute(f"EXPLAIN {form}{COUNT}").fetchall())
            assert "0.01" in before
            assert UNSEEN not in before
        shutil.rmtree(state / "marks")
        plans = [str(client.execute(f"EXPLAIN {form}{COUNT}").fetchall()) for form in ("", "(FORMAT JSON) ")]
    assert all(UNSEEN in plan for plan in plans)
