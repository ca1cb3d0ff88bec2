"""A request whose process stopped is answered under the charge that it made, once: by whoever stores an answer first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sordino as sd
from sordino.core.ledger.ledger import Ledger
from sordino.errors import ChargedError, InDoubt, QuestionRefused

COUNT = sd.sql("SELECT COUNT(*) AS n FROM people")


class Stopped(BaseException):
    """The process ends here."""


@pytest.fixture
def people(tmp_path: Path) -> sd.Connection:
    made = sd.protect(
        {"people": [{"age": i} for i in range(100)]},
        domain={"people": sd.Domain({"age": sd.Integer(0, 120)})},
        neighbors="add_remove",
        privacy_unit={"people": "row"},
        budget=sd.PureDP(1),
        ledger=tmp_path / "people.ledger",
    )
    made.ledger().declare_share("ana", sd.PureDP("0.5"))
    return made


def stop_in_the_middle(connection: sd.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr("sordino.ask.engines.duckdb.DuckDBEngine.run", stop)
        with pytest.raises(Stopped):
            connection.ask(COUNT, epsilon="0.1", request_id="r")
    assert [c.state for c in connection.ledger().charges()] == ["reserved"]


def test_a_stopped_request_is_answered_under_its_charge(people: sd.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = people.spend_as("ana")
    stop_in_the_middle(ana, monkeypatch)
    first = ana.ask(COUNT, epsilon="0.1", request_id="r")
    assert isinstance(first, sd.Release)
    assert first.charge == "c-0001"
    assert ana.ask(COUNT, epsilon="0.1", request_id="r") == first
    assert (people.ledger().spent(), ana.table().remaining) == (sd.PureDP("0.1"), sd.PureDP("0.4"))
    people.ledger().verify()


def test_another_loss_or_question_is_refused(people: sd.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    ana = people.spend_as("ana")
    stop_in_the_middle(ana, monkeypatch)
    for sql, epsilon in ((COUNT, "0.2"), (sd.sql("SELECT SUM(age) AS s FROM people"), "0.1")):
        with pytest.raises(QuestionRefused):
            ana.ask(sql, epsilon=epsilon, request_id="r")
    assert people.ledger().spent() == sd.PureDP("0.1")


def test_without_a_server_it_stays_in_doubt(people: sd.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_in_the_middle(people, monkeypatch)
    with pytest.raises(InDoubt):
        people.ask(COUNT, epsilon="0.1", request_id="r")


def test_of_two_that_answer_one_charge_one_answer_leaves(
    people: sd.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = people.spend_as("ana")
    stop_in_the_middle(ana, monkeypatch)
    commit, answers = Ledger.commit, []

    def be_second(ledger: Ledger, charge: Any, answer: str) -> None:
        monkeypatch.setattr(Ledger, "commit", commit)
        answers.append(people.spend_as("ana").ask(COUNT, epsilon="0.1", request_id="r"))  # the other process
        commit(ledger, charge, answer)

    monkeypatch.setattr(Ledger, "commit", be_second)
    with pytest.raises(ChargedError):
        ana.ask(COUNT, epsilon="0.1", request_id="r")
    assert answers == [ana.ask(COUNT, epsilon="0.1", request_id="r")]
    assert people.ledger().spent() == sd.PureDP("0.1")
