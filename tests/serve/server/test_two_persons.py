"""What one person may not do alone: approve for accounts of their own making, and pass a threshold by parts."""

from __future__ import annotations

import datetime
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from serving import COUNT, Served, served, write_project
from sordino.errors import DeclarationError
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.database import utc_now
from sordino.serve.server.opening import open_service

PASSWORD = "correct horse battery"
APPROVE = "approve_above = {epsilon = 0.5}"


def make(server: Served, officer: str) -> None:
    made = server.send("POST", "/v1/accounts", who=officer, json={"name": "cy", "role": "analyst"})
    assert made.status_code == 201
    accounts = server.service.account_service.accounts
    server.tokens["cy"] = accounts.make_token(accounts.find("cy"), "test")[1]


def reset(server: Served, officer: str, name: str = "cy") -> None:
    assert server.send("PUT", f"/v1/accounts/{name}/password", who=officer, json={"new": PASSWORD}).status_code < 300


def fund(server: Served, officer: str) -> None:
    assert server.send("PUT", "/v1/shares/people/cy", who=officer, json={"epsilon": "2"}).status_code == 200


def decide(server: Served, officer: str, decision: str = "approved", key: str = "k") -> Any:
    waits = server.ask(epsilon="0.6", key=key, who="cy")
    assert waits.status_code == 202, waits.text
    listed = server.send("GET", "/v1/approvals", who=officer).json()["approvals"]
    (waiting,) = [one for one in listed if one["id"] == waits.json()["approval"]]
    # An officer sees what was asked as it was asked.
    assert "SELECT" in str(waiting["asked"])
    path = f"/v1/approvals/{waits.json()['approval']}"
    return server.send("POST", path, who=officer, json={"decision": decision})


@pytest.mark.parametrize("did", ["made", "funded", "reset"])
@pytest.mark.parametrize("later", [6, 8])
def test_an_officer_approves_nothing_of_their_own_making(did: str, later: int, tmp_path: Path) -> None:
    """Within seven days another officer has to; to decline is always theirs."""
    with served(tmp_path, serve=APPROVE) as server:
        server.add("otto", "officer")
        make(server, "ola" if did == "made" else "otto")
        fund(server, "ola" if did == "funded" else "otto")
        if did == "reset":
            reset(server, "ola")
        moment = utc_now() + datetime.timedelta(days=later)
        server.service.store.clock = lambda: moment
        refused = decide(server, "ola")
        assert refused.status_code == (403 if later < 7 else 200), refused.text
        if later < 7:
            assert "within 7 days" in refused.json()["detail"]
            assert server.ask(epsilon="0.6", key="k", who="cy").status_code == 202
            assert decide(server, "ola", "declined", key="other").status_code == 200


def test_another_officer_approves(tmp_path: Path) -> None:
    with served(tmp_path, serve=APPROVE) as server:
        server.add("otto", "officer")
        make(server, "ola")
        fund(server, "ola")
        assert decide(server, "otto").status_code == 200
        assert server.ask(epsilon="0.6", key="k", who="cy").status_code == 200


def test_an_officer_whose_password_another_reset_has_that_ones_hands(tmp_path: Path) -> None:
    with served(tmp_path, serve=APPROVE) as server:
        server.add("otto", "officer")
        make(server, "ola")
        fund(server, "ola")
        reset(server, "ola", "otto")
        assert decide(server, "otto").status_code == 403


def test_a_site_with_one_officer_says_so_and_the_log_tells_it(tmp_path: Path) -> None:
    with served(tmp_path, serve=f"{APPROVE}\ntwo_person = false") as server:
        make(server, "ola")
        fund(server, "ola")
        assert decide(server, "ola").status_code == 200
        (line,) = [
            one for one in server.service.account_service.audit_log.lines() if one["action"] == "approval.decide"
        ]
        assert line["outcome"].startswith("approved, by one person: the officer funded the account")


def test_the_days_are_a_setting(tmp_path: Path) -> None:
    with served(tmp_path, serve=f"{APPROVE}\ntwo_person_days = 1") as server:
        make(server, "ola")
        fund(server, "ola")
        moment = utc_now() + datetime.timedelta(days=2)
        server.service.store.clock = lambda: moment
        assert decide(server, "ola").status_code == 200
    with pytest.raises(DeclarationError, match="two_person_days"):
        open_service(write_project(tmp_path, serve="two_person_days = 0"))


@pytest.mark.each(3)
@pytest.mark.parametrize("name", ["a\0b", "a\r\nb", "‮evil", 'a"b', "x" * 300, "", " a", "a b"])
def test_a_spender_is_named_as_an_account_is(server: Served, name: str) -> None:
    with pytest.raises(DeclarationError, match="letters, digits"):
        server.service.set_share("test", name, "people", lambda cap: cap)
    assert name not in server.service.ledger("people").shares()


def test_what_costs_much_by_parts_waits(tmp_path: Path) -> None:
    """Seven questions of .99 of the threshold passed: their sum in a day is what an officer approves."""
    with served(tmp_path, serve=f"{APPROVE}\napprove_above_daily = {{epsilon = 1}}") as server:
        first = [server.ask(epsilon="0.495", key=f"k{i}").status_code for i in range(4)]
        assert first == [200, 200, 202, 202]
        assert server.ask(epsilon="0.01", key="small").status_code == 200  # 1 is not above it
        assert server.ask(epsilon="0.01").status_code == 422  # without a key there is no way back
        assert server.ask(epsilon="0.495", key="b", who="ben").status_code == 200  # each share by itself
        assert server.ask(epsilon="0.495", key="k0").status_code == 200  # answered before: free
        fit = {"table": "people", "method": "independent", "epsilon": "0.1"}
        assert server.send("POST", "/v1/models", headers={"idempotency-key": "f"}, json=fit).status_code == 202
        moment = utc_now() + datetime.timedelta(hours=25)
        server.service.store.clock = lambda: moment
        assert server.ask(epsilon="0.495", key="tomorrow").status_code == 200


CALLS = """
[tables.calls]
source = "people.parquet"
budget = "people"
neighbors = "add_remove"
privacy_unit = "row"

[tables.calls.columns]
age = {type = "integer", lower = 0, upper = 120}
"""


def test_a_statement_counts_under_each_table_that_it_asks_about(tmp_path: Path) -> None:
    """Of .48 one half is each table's, whichever is named first: four fit below 1 in a day."""
    both = "SELECT (SELECT COUNT(*) FROM calls) * 1.0 / COUNT(*) AS r FROM people"
    weighed = "SELECT (SELECT COUNT(*) FROM people) AS a, (SELECT /*+ WEIGHT(3) */ COUNT(*) FROM calls) AS b"
    with served(tmp_path, serve=f"{APPROVE}\napprove_above_daily = {{epsilon = 1}}\n{CALLS}") as server:
        assert [server.ask(both, epsilon="0.48", key=f"k{i}").status_code for i in range(4)] == [200] * 4
        for epsilon, found in (("0.05", 202), ("0.04", 200)):
            for table in ("people", "calls"):
                count = f"SELECT COUNT(*) AS n FROM {table}"
                assert server.ask(count, epsilon=epsilon, key=f"{epsilon} {table}").status_code == found
        assert server.ask(weighed, epsilon="0.4", key="b0", who="ben").status_code == 200
        spent = server.service._spent_in_a_day
        ana, ben = (server.service.account_service.enter(server.tokens[who]) for who in ("ana", "ben"))
        assert [spent(ana, table)["epsilon"] for table in ("people", "calls")] == [1, 1]
        assert [spent(ben, table)["epsilon"] for table in ("people", "calls")] == [Fraction("0.1"), Fraction("0.3")]


@pytest.mark.each(2)
@pytest.mark.parametrize("store", ["a file", "a server"])
def test_a_day_is_summed_over_all_servers_of_a_store(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers ask at once, eight each, and look at the sum before any has charged: three of .3 fit below 1."""
    stated, address = f"{APPROVE}\napprove_above_daily = {{epsilon = 1}}", ""
    if store == "a server":
        address = request.getfixturevalue("postgres_database")
        stated += f'\nstore = "{address}"'
    path = write_project(tmp_path, serve=stated)
    if address:
        path.write_text(path.read_text().replace('"people.ledger"', f'"{address}#people"'))
    first = Served(open_service(path))
    first.add("ana", "analyst", epsilon="5")
    servers = (first, Served(open_service(path), first.tokens))
    sum_of_day = CuratorService._spent_in_a_day

    def look(service: CuratorService, *of: Any) -> Any:
        found = sum_of_day(service, *of)
        time.sleep(0.1)
        return found

    monkeypatch.setattr(CuratorService, "_spent_in_a_day", look)
    start = threading.Barrier(16)

    def ask(turn: int) -> int:
        start.wait()
        return int(servers[turn % 2].ask(epsilon="0.3", key=f"k{turn}").status_code)

    with ThreadPoolExecutor(16) as pool:
        codes = Counter(pool.map(ask, range(16)))
    assert codes == {200: 3, 202: 13}
    assert servers[1].service.ledger("people").spent() == sd.PureDP("0.9")
    fit = {"table": "people", "method": "independent", "epsilon": "0.09"}

    def begin(turn: int) -> int:
        start.wait()
        headers = {"idempotency-key": f"f{turn}"}
        return int(servers[turn % 2].send("POST", "/v1/models", headers=headers, json=fit).status_code)

    with ThreadPoolExecutor(16) as pool:
        assert Counter(pool.map(begin, range(16))) == {201: 1, 202: 15}
    for server in servers:
        server.service.close()


def test_what_could_not_be_charged_waits_for_nobody(tmp_path: Path) -> None:
    with served(tmp_path, serve=APPROVE) as server:
        refused = server.ask(epsilon="1500", key="k")
        assert (refused.status_code, refused.json()["exit_code"]) == (402, 4)
        fit = {"table": "people", "method": "independent", "epsilon": "3"}
        assert server.send("POST", "/v1/models", headers={"idempotency-key": "f"}, json=fit).status_code == 402
        assert server.service.account_service.approvals.all() == []


def test_a_question_that_waits_is_in_the_log_once(tmp_path: Path) -> None:
    with served(tmp_path, serve=APPROVE) as server:
        for _ in range(3):
            assert server.ask(COUNT, epsilon="0.6", key="k").status_code == 202
        lines = [one for one in server.service.account_service.audit_log.lines() if one["action"] == "approval.request"]
        assert [(one["account"], one["outcome"]) for one in lines] == [("ana", "waiting")]
        assert lines[0]["object"].startswith("1: people: ")
