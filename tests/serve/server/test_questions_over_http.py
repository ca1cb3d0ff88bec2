"""Questions over HTTP: the JSON of the command line, one charge for a repeated key, shares, and what others must not see."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from serving import COUNT, Served, served, write_project
from sordino.cli.main import main
from sordino.core.loss import PureDP
from sordino.core.release import Release
from sordino.errors import ChargedError
from sordino.serve.server.opening import open_service


def test_an_answer_is_the_release_of_its_charge(server: Served) -> None:
    answer = server.ask(key="k")
    assert answer.status_code == 200
    again = server.ask(key="k")
    assert again.json() == answer.json()
    assert answer.json()["charge"] == "c-0001"
    assert answer.json()["remaining"] == {"epsilon": 1.9}  # of the share
    assert [c["id"] for c in server.send("GET", "/v1/releases").json()["releases"]] == ["c-0001"]
    assert server.ask().json()["charge"] == "c-0002"  # without a key it is asked anew
    assert server.send("GET", "/v1/releases/c-0001").json() == answer.json()


def test_json_equals_the_command_lines(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    project = str(server.service.project.path)
    server.ask()

    def printed(*arguments: str) -> object:
        capsys.readouterr()
        assert main([*arguments, "--format", "json", "--project", project]) == 0
        return json.loads(capsys.readouterr().out)

    body = {"sql": COUNT, "epsilon": "0.1"}
    assert server.send("POST", "/v1/plan", json=body).json() == printed("plan", COUNT, "--epsilon", "0.1")
    assert server.send("GET", "/v1/budgets", who="ola").json() == printed("budget")
    assert server.send("GET", "/v1/releases").json() == printed("releases")
    assert server.send("GET", "/v1/releases/c-0001").json() == printed("show", "c-0001")
    assert server.send("GET", "/v1/releases/c-0001/explanation").json() == printed("explain", "c-0001")


@pytest.mark.attack("replay a request id")
def test_a_key_is_bound_to_its_question_and_its_account(server: Served) -> None:
    server.ask(key="k")
    assert server.ask("SELECT COUNT(*) AS n FROM people", key="k").status_code == 422
    assert server.ask(epsilon="0.2", key="k").status_code == 422
    other = server.ask(who="ben", key="k")
    assert (other.status_code, other.json()["charge"]) == (200, "c-0002")


def test_a_share_caps_its_spender_and_no_other(server: Served) -> None:
    refused = server.ask(epsilon="3")
    assert (refused.status_code, refused.json()["exit_code"]) == (402, 4)
    assert refused.headers["content-type"] == "application/problem+json"
    assert server.ask(epsilon="2").status_code == 200
    assert server.ask(epsilon="0.1").status_code == 402
    assert server.ask(epsilon="0.1", who="ben").status_code == 200


def test_a_token_spends_the_share_that_it_was_made_for(server: Served) -> None:
    accounts = server.service.account_service.accounts
    server.tokens["for ben"] = accounts.make_token(accounts.find("ana"), "for ben", spender="ben")[1]
    assert server.ask(epsilon="0.5", who="for ben").status_code == 200
    shares = server.service.ledger("people").shares()
    assert (shares["ana"].spent, shares["ben"].spent) == (PureDP(0), PureDP("0.5"))


def test_a_disabled_account_asks_nothing(server: Served) -> None:
    accounts = server.service.account_service.accounts
    accounts.change(accounts.find("ana"), disabled=True)
    assert server.ask().status_code == 401
    assert server.ask(who="ben").status_code == 200


def test_who_has_no_share_may_plan_but_not_ask(server: Served) -> None:
    server.add("cy", "analyst")
    assert server.send("POST", "/v1/plan", who="cy", json={"sql": COUNT, "epsilon": "1"}).status_code == 200
    refused = server.ask(who="cy")
    assert refused.status_code == 403
    assert "ana" not in refused.text
    assert server.service.ledger("people").charges() == []


def test_an_analyst_sees_nothing_of_others_questions(server: Served) -> None:
    server.ask(who="ben")
    assert server.send("GET", "/v1/releases").json()["releases"] == []
    missing, others = server.send("GET", "/v1/releases/c-0099"), server.send("GET", "/v1/releases/c-0001")
    assert (missing.status_code, missing.content) == (others.status_code, others.content) == (404, missing.content)
    plan = server.send("POST", "/v1/plan", json={"sql": COUNT, "epsilon": "0.1"}).json()
    assert plan["earlier"] == []
    assert server.send("POST", "/v1/plan", who="ben", json={"sql": COUNT, "epsilon": "0.1"}).json()["earlier"] == [
        "c-0001"
    ]
    (budget,) = server.send("GET", "/v1/budgets").json()["budgets"]
    assert (list(budget["shares"]), budget["ledger"]) == (["ana"], None)


def test_a_question_above_the_threshold_waits_for_an_officer(tmp_path: Path) -> None:
    with served(tmp_path, serve="approve_above = {epsilon = 0.5}") as server:
        assert server.ask(epsilon="0.5").status_code == 200
        assert server.ask(epsilon="0.6").status_code == 422  # without a key there is no way back to the answer
        waiting = server.ask(epsilon="0.6", key="k")
        assert (waiting.status_code, waiting.json()["exit_code"]) == (202, 7)
        assert len(server.service.ledger("people").charges()) == 1
        officer = server.service.account_service.enter(server.tokens["ola"])
        approvals = server.service.account_service.approvals
        (found,) = approvals.all(state="waiting")
        assert found.to_dict()["cost"] == {"epsilon": 0.6}
        approvals.decide(found, officer, "approved")
        other = server.ask("SELECT AVG(age) AS a FROM people", epsilon="0.6", key="k")
        dearer = server.ask(epsilon="1.9", key="k")  # what was approved is this question at this loss
        assert (other.status_code, dearer.status_code, len(server.service.ledger("people").charges())) == (422, 422, 1)
        answer = server.ask(epsilon="0.6", key="k")
        assert (answer.status_code, answer.json()["cost"]) == (200, {"epsilon": 0.6})
        assert server.ask(epsilon="0.6", key="k").json() == answer.json()


def test_a_question_that_an_officer_declined_is_never_asked(tmp_path: Path) -> None:
    with served(tmp_path, serve="approve_above = {epsilon = 0.5}") as server:
        assert server.ask(epsilon="0.6", key="k").status_code == 202
        officer = server.service.account_service.enter(server.tokens["ola"])
        approvals = server.service.account_service.approvals
        (found,) = approvals.all(state="waiting")
        approvals.decide(found, officer, "declined", reason="too dear")
        refused = server.ask(epsilon="0.6", key="k")
        assert (refused.status_code, "too dear" in refused.json()["detail"]) == (403, True)
        assert server.service.ledger("people").charges() == []


ONE = "SELECT COUNT(*) AS n FROM people"
TWO = f"{ONE}; SELECT COUNT(*) AS m FROM people WHERE age > 64"
OTHER_TWO = f"{ONE}; SELECT AVG(age) AS a FROM people"
FIT = {"table": "people", "method": "independent", "columns": ["age", "sex"], "epsilon": "0.1"}


@pytest.mark.each(8)
@pytest.mark.parametrize("first", [ONE, TWO, "a fit"])
@pytest.mark.parametrize(
    "second", [ONE, TWO, OTHER_TWO, f"{TWO}; {ONE}", f"{TWO}; {TWO}", "a fit", "a dearer list", "a longer list"]
)
def test_a_key_names_one_question_one_list_or_one_job(first: str, second: str, server: Served) -> None:
    """Whatever was asked first under a key, the same again is free, and all else is refused before a charge."""

    def send(what: str) -> int:
        if what == "a fit":
            return server.send("POST", "/v1/models", headers={"idempotency-key": "k"}, json=FIT).status_code
        # three questions for 0.3: each at the loss of one of two for 0.2, so that the ledger alone would charge the third
        sql, epsilon = {"a dearer list": (TWO, "0.3"), "a longer list": (f"{TWO}; {ONE}", "0.3")}.get(
            what, (what, "0.2")
        )
        return server.ask(sql, epsilon=epsilon, key="k").status_code

    def charges() -> int:
        server.app.app.state.models.jobs._pool.submit(int).result()
        return len(server.service.ledger("people").charges())

    assert send(first) in (200, 201)
    for _ in range(200):
        if charges() == 1 + (first == TWO):
            break
        time.sleep(0.05)
    before = charges()
    assert before == 1 + (first == TWO)
    assert send(second) in ((200, 201) if first == second else (422,))
    assert charges() == before


@pytest.mark.each(2)
@pytest.mark.parametrize("sql", [ONE, TWO])
def test_the_id_that_an_answer_states_names_the_same_question(sql: str, server: Served) -> None:
    longest = "k" * 200
    first = server.ask(sql, key=longest).json()
    assert server.ask(sql, key=f"1:{longest}").json() == first
    releases = first if isinstance(first, list) else [first]
    # each part of a list has an id of its own, by which it is answered alone
    for question, release in zip(sql.split("; "), releases, strict=True):
        assert server.ask(question, epsilon=str(release["cost"]["epsilon"]), key=release["request"]).json() == release
    assert len(server.service.ledger("people").charges()) == len(releases)
    # of anybody else it is an id like any other
    server.ask(ONE, key="short")
    assert server.ask(ONE, key="1:short", who="ben").json()["request"] == "2:1:short"


def test_the_id_of_what_waits_and_of_a_fit_names_the_same(tmp_path: Path) -> None:
    with served(tmp_path, serve="approve_above = {epsilon = 0.5}") as server:
        waiting = server.ask(epsilon="0.6", key="k").json()
        assert server.ask(epsilon="0.6", key=waiting["request"]).json() == waiting
        assert len(server.service.account_service.approvals.all()) == 1
        jobs = [
            server.send("POST", "/v1/models", headers={"idempotency-key": key}, json=FIT).json()["id"]
            for key in ("fit", "1:fit")
        ]
        assert jobs[0] == jobs[1]


def test_a_key_that_begins_with_ones_own_number_stays_ones_own(server: Served) -> None:
    longer = server.ask(ONE, key="1:k").json()
    shorter = server.ask(TWO.split("; ")[1], key="k").json()
    assert (longer["request"], shorter["request"]) == ("1:1:k", "1:k")
    assert server.ask(ONE, key="1:k").json() == longer
    assert server.ask(ONE, key="1:1:k").json() == longer
    assert server.ask(TWO.split("; ")[1], key="k").json() == shorter
    assert len(server.service.ledger("people").charges()) == 2


def test_a_key_names_one_question_over_all_budgets(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    text = path.read_text()
    budget, table = text[: text.index("[tables")], text[text.index("[tables") : text.index("[serve]")]
    path.write_text(
        text
        + "\n"
        + (budget + table)
        .replace("people]", "staff]")
        .replace("people.", "staff.")
        .replace('"people"', '"staff"')
        .replace("tables.people", "tables.staff")
        .replace("staff.parquet", "people.parquet")
    )
    server = Served(open_service(path))
    server.add("ana", "analyst", epsilon="1")
    server.service.set_share("test", "ana", "staff", lambda _: PureDP(1))
    assert server.ask(key="k").status_code == 200
    assert server.ask("SELECT COUNT(*) AS n FROM staff", key="k").status_code == 422
    assert server.ask(key="k").status_code == 200
    assert server.service.ledger("staff").charges() == []
    server.service.close()


def test_a_list_that_was_cut_off_goes_on_under_its_key(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a list whose server stopped after its first question, the rest is charged when it is sent again."""
    ask = server.service._ask_one
    calls = iter([False, True])

    def stop(*arguments: Any) -> Release:
        if next(calls, False):
            raise ChargedError("stopped")
        return ask(*arguments)

    monkeypatch.setattr(server.service, "_ask_one", stop)
    assert server.ask(TWO, key="k").status_code == 500
    assert len(server.service.ledger("people").charges()) == 1
    assert server.ask(TWO, key="k").status_code == 200
    assert len(server.service.ledger("people").charges()) == 2


def test_a_list_above_the_threshold_waits_as_a_whole(tmp_path: Path) -> None:
    """Each of its questions costs less than what an officer has to approve; together they cost more."""
    with served(tmp_path, serve="approve_above = {epsilon = 0.5}") as server:
        body = {"sql": f"{TWO}; SELECT AVG(age) AS a FROM people", "epsilon": "1.2"}
        waits = server.send("POST", "/v1/ask", headers={"idempotency-key": "k"}, json=body)
        assert waits.status_code == 202, waits.text
        assert server.service.ledger("people").charges() == []
        answers = server.ask(TWO, epsilon="0.4", key="other").json()
        assert len({answer["charge"] for answer in answers}) == 2
