"""Whom the client trusts: https and its token, the declaration that it read, an officer's word; and what the server reads."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from far import far_project
from serving import Served, served
from sordino import col
from sordino.ask.queries.build import Selection
from sordino.ask.queries.question_records import question_from_json, question_to_json
from sordino.errors import (
    ApprovalNeeded,
    DeclarationChanged,
    DeclarationError,
    NotAllowed,
    QuestionRefused,
    SignInNeeded,
    SordinoError,
)
from sordino.serve.remote.transport import check_url, error_of
from sordino.serve.server.problems import problem_of


@pytest.mark.parametrize(
    "url",
    [
        "http://curator.example",
        "http://10.0.0.1",
        "https://ana:secret@curator.example",
        "https://curator.example?token=x",
        "https://",
        "https://[",
        "http://localhost.example",
    ],
)
def test_other_addresses_are_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(DeclarationError) as found:
        sd.connect(url, token="sordino_token_abc")
    assert "abc" not in str(found.value)


def test_plain_http_is_for_this_machine() -> None:
    for url in ("http://localhost:8000", "http://127.0.0.1", "http://[::1]:8000", "https://curator.example/sordino/"):
        assert check_url(url) == url.rstrip("/")


def test_the_token_is_from_the_argument_or_the_environment_and_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with far_project(tmp_path) as (server, url):
        monkeypatch.delenv("SORDINO_TOKEN", raising=False)
        with pytest.raises(SignInNeeded, match="SORDINO_TOKEN"):
            sd.connect(url)
        with pytest.raises(SignInNeeded) as wrong:
            sd.connect(url, token="sordino_token_wrong")
        assert (wrong.value.exit_code, "wrong" in str(wrong.value)) == (6, False)
        monkeypatch.setenv("SORDINO_TOKEN", server.tokens["ana"])
        far: Any = sd.connect(url)
        shown = [
            repr(far),
            repr(far.table()),
            repr(far._transport),
            repr(vars(far)),
            repr(far._transport._client.headers),
        ]
        assert not any(server.tokens["ana"] in text for text in shown)
        far.close()
        for bad in ("two words", "line\nbreak", "ünicode"):
            with pytest.raises(SignInNeeded) as found:
                sd.connect(url, token=bad)
            assert bad not in str(found.value)


def test_a_changed_declaration_is_refused_until_it_was_read_again(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, url), sd.connect(url, token=server.tokens["ana"]) as far:
        table = far.table()
        plan = table.plan(sd.count(), epsilon="0.1")
        far._asked.tables["people"]["declaration"] = "0123456789abcdef"  # as if it was read before a change
        for refused in (table.ask, table.plan):
            with pytest.raises(DeclarationChanged, match="refresh"):
                refused(sd.count(), epsilon="0.1")
        stale = copy.deepcopy(dict(plan.asked))
        stale["declarations"]["people"] = "0123456789abcdef"
        assert server.send("POST", "/v1/ask", json=stale).json()["type"] == "urn:sordino:declaration-changed"
        assert server.service.ledger("people").charges() == []
        far.refresh()
        assert table.ask(plan).charge == "c-0001"


def test_a_plan_that_costs_otherwise_now_is_not_asked(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, url), sd.connect(url, token=server.tokens["ana"]) as far:
        plan = far.table().plan(sd.count(), epsilon="0.1")
        plan.asked["epsilon"] = "0.2"
        with pytest.raises(DeclarationError, match="plan again"):
            far.table().ask(plan)
        assert server.service.ledger("people").charges() == []


def _decide(server: Served, state: str) -> None:
    officer = server.service.account_service.enter(server.tokens["ola"])
    while not (found := server.service.account_service.approvals.all(state="waiting")):
        time.sleep(0.01)
    server.service.account_service.approvals.decide(found[0], officer, state)


@pytest.fixture
def cautious(tmp_path: Path) -> Iterator[tuple[Served, str]]:
    with far_project(tmp_path, serve="approve_above = {epsilon = 0.5}") as made:
        yield made


def test_an_approval_is_waited_for(cautious: tuple[Served, str]) -> None:
    server, url = cautious
    with sd.connect(url, token=server.tokens["ana"]) as far:
        with pytest.raises(ApprovalNeeded) as waiting:
            far.table().ask(sd.count(), epsilon=1)
        assert (waiting.value.exit_code, waiting.value.approval) == (7, 1)
        pending: Any = waiting.value
        with pytest.raises(ApprovalNeeded):
            pending.wait(timeout=0.05, every=0.02)
        threading.Timer(0.1, _decide, (server, "approved")).start()
        answer = pending.wait(every=0.02)
        assert far.table().ask(sd.count(), epsilon=1, request_id=pending.request).value == answer.value
        assert [c["id"] for c in far.charges()] == [answer.charge]
        with pytest.raises(ApprovalNeeded) as second:
            far.table().ask(sd.count(), epsilon="0.9")
        _decide(server, "declined")
        declined: Any = second.value
        with pytest.raises(NotAllowed, match="declined"):
            declined.wait(every=0.02)


def test_an_approval_is_awaited(cautious: tuple[Served, str]) -> None:
    server, url = cautious

    async def run() -> None:
        far = await sd.connect_async(url, token=server.tokens["ana"])
        with pytest.raises(ApprovalNeeded) as waiting:
            await far.table().ask(sd.count(), epsilon=1)
        threading.Timer(0.1, _decide, (server, "approved")).start()
        pending: Any = waiting.value
        assert (await pending.wait(every=0.02)).cost == sd.PureDP(1)
        await far.close()

    asyncio.run(run())


def _all_errors(kind: type[SordinoError] = SordinoError) -> Iterator[type[SordinoError]]:
    for one in kind.__subclasses__():
        if one.__module__ == "sordino.errors":
            yield one
        yield from _all_errors(one)


@pytest.mark.parametrize("kind", sorted(set(_all_errors()), key=str))
def test_errors_arrive_as_what_they_were(kind: type[SordinoError]) -> None:
    error = error_of(problem_of(kind("the rule, and what works")))
    assert type(error) is kind
    assert error.exit_code == kind.exit_code


HOSTILE: dict[str, Any] = {
    "a foreign class": {"is": "Rng"},
    "nothing": {},
    "a vector": {"is": "Vector"},
    "a rate above one": {"is": "Aggregation", "sample": {"number": "5"}},
    "a float for a fraction": {"is": "Aggregation", "sample": 0.5},
    "no units": {"is": "Aggregation", "min_units": 0},
    "a truth for a number": {"is": "Aggregation", "min_units": True},
    "a negative limit": {"is": "Aggregation", "after": {"is": "PostProcessing", "limit": -1}},
    "an unknown operation": {"is": "Aggregation", "where": {"is": "Connective", "op": "xor"}},
    "a table of its own": {"is": "Aggregation", "steps": [{"is": "Join", "table": "r", "on": ["a"], "to": {"is": "Join"}}]},
    "bounds turned": {
        "is": "Aggregation",
        "aggregates": [
            {"is": "Sum", "of": {"is": "Name", "name": "age"}, "alias": "s", "per_unit": [{"number": "5"}, {"number": "1"}]}
        ],
    },
    "a huge number": {"is": "Aggregation", "sample": {"number": "1e999999999"}},
    "a bad day": {"is": "Aggregation", "where": {"is": "Constant", "value": {"day": "2020-02-31"}}},
    "an unknown field": {"is": "Aggregation", "rng": 1},
    "a lack": {"is": "Sum", "alias": "s"},
    "too many questions": [{"is": "Aggregation"}] * 1001,
    "lists in lists": [[{"is": "Aggregation"}]],
    "SQL of no text": {"is": "SqlText", "text": 5},
    "bounds that are none": {"is": "SqlText", "text": "SELECT 1", "bounds": {"max_rows": 0}},
    "a selection unknown": {"is": "Aggregation", "where": None, "groups": [], "aggregates": [], "key_selection": "any"},
    "chunks": {
        "is": "Robust", "method": "sample_and_aggregate", "statistic": "mean", "of": {"is": "Name", "name": "age"},
        "where": None, "alias": "m", "chunks": 0, "default": {"number": "0"},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_json_that_no_builder_would_write_is_refused(name: str) -> None:
    data = HOSTILE[name]
    if isinstance(data, dict) and data.get("is") == "Aggregation":
        data = {"where": None, "groups": [], "aggregates": [{"is": "Count", "of": None, "alias": "n"}], **data}
    with pytest.raises((DeclarationError, QuestionRefused)):
        question_from_json(data)


def test_a_deep_tree_is_refused_by_name_and_a_long_condition_is_not(tmp_path: Path) -> None:
    many = col("age") > 0
    for number in range(1, 250):
        many = many & (col("age") != number)
    long = {"question": question_to_json(Selection().where(many).agg(sd.count())), "table": "people", "epsilon": "1"}
    deep: Any = {"is": "Name", "name": "age"}
    for _ in range(500):
        deep = {"is": "Not", "of": deep}
    asked = {**question_to_json(sd.count()), "where": deep}
    with served(tmp_path) as server:
        refused = server.send("POST", "/v1/plan", json={"question": asked, "table": "people", "epsilon": "1"})
        planned = server.send("POST", "/v1/plan", json=long)
    assert (refused.status_code, refused.json()["exit_code"]) == (422, 3)
    assert planned.status_code == 200


def test_python_questions_are_refused_in_the_words_of_python(tmp_path: Path) -> None:
    with far_project(tmp_path) as (server, url), sd.connect(url, token=server.tokens["ana"]) as far:
        near = sd.connect(tmp_path / "sordino.toml").table()
        question = near.agg(n=sd.sum(col("age") - col("age").bin(width=10)))
        words = []
        for table in (near, far.table()):
            with pytest.raises(QuestionRefused) as found:
                table.plan(question, epsilon=1)
            words.append(str(found.value))
        assert words[0] == words[1]
