"""Charges: exact budgets, request ids, failures that stay charged, declarations held to, nothing of the data in words."""

from __future__ import annotations

import logging
import sqlite3
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from ask.curator.support import DOMAIN, TABLE, S, curator
from sordino import col
from sordino.errors import BudgetExhausted, ChargedError, DeclarationChanged, DeclarationError, QuestionRefused

SECRET = "S3CRET-9f"


def test_ten_asks_of_a_tenth_fill_one_exactly(tmp_path: Path) -> None:
    people = curator(budget=sd.PureDP(1), ledger=tmp_path / "p.ledger")
    for _ in range(10):
        people.ask(sd.count(), epsilon=0.1)
    assert people.remaining == sd.PureDP(0)
    with pytest.raises(BudgetExhausted, match=r"asks for epsilon 0\.1, and epsilon 0"):
        people.ask(sd.count(), epsilon=0.1)
    again = curator(budget=sd.PureDP(1), ledger=tmp_path / "p.ledger")
    assert again.spent == sd.PureDP(1)
    assert len(again.releases()) == 10


def test_one_ask_is_two_transactions_of_the_ledger_and_no_other_read() -> None:
    people = curator(budget=sd.PureDP(1))
    people.ask(sd.count(), epsilon=0.1)  # records the declaration
    statements: list[str] = []
    db = people.ledger._writer._connection()
    assert isinstance(db, sqlite3.Connection)
    db.set_trace_callback(statements.append)
    release = people.ask(sd.count(), epsilon=0.2)
    assert [s for s in statements if s.startswith("BEGIN")] == ["BEGIN IMMEDIATE"] * 2  # the charge, then its answer
    assert (release.spent, release.remaining) == (sd.PureDP("0.3"), sd.PureDP("0.7"))
    people.ask(sd.count(), epsilon=0.5)
    assert [c.spent for c in people.ledger.charges()] == [sd.PureDP("0.1"), sd.PureDP("0.3"), sd.PureDP("0.8")]
    assert [c.remaining for c in people.ledger.charges()] == [sd.PureDP("0.9"), sd.PureDP("0.7"), sd.PureDP("0.2")]


@pytest.mark.attack("replay a request id")
def test_request_ids(tmp_path: Path) -> None:
    people = curator(budget=sd.PureDP(1), ledger=tmp_path / "p.ledger")
    first = people.ask(sd.count(), epsilon=0.1, request_id="a")
    assert people.ask(sd.count(), epsilon=0.1, request_id="a").to_dict() == first.to_dict()
    assert people.spent == sd.PureDP(0.1)
    with pytest.raises(QuestionRefused):
        people.ask(sd.sum("age"), epsilon=0.1, request_id="a")
    with pytest.raises(QuestionRefused):
        people.ask(sd.count(), epsilon=0.2, request_id="a")
    assert people.spent == sd.PureDP(0.1)
    assert people.ask(sd.count(), epsilon=0.1, request_id="b").charge != first.charge


def test_an_earlier_answer_is_pointed_out(tmp_path: Path) -> None:
    people = curator(budget=sd.PureDP(1), ledger=tmp_path / "p.ledger")
    first = people.ask(sd.count(), epsilon=0.1)
    assert people.plan(sd.count(), epsilon=0.1).earlier == (first.charge,)
    assert people.release(first.charge).to_dict() == first.to_dict()
    assert first.charge in people.explain(first.charge)


@pytest.fixture
def broken(tmp_path: Path) -> Any:
    path = tmp_path / "data.parquet"
    table = TABLE.append_column("sure", TABLE.column("age"))
    rows = pa.table(
        {**{n: table.column(n) for n in table.column_names if n != "occ"}, "occ": [SECRET] * table.num_rows}
    )
    pq.write_table(rows, path)
    people = curator(source=path, budget=sd.PureDP(1), ledger=tmp_path / "p.ledger")
    whole = path.read_bytes()
    # Its footer stays, which is all that is looked at before the charge.
    pages = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(b"PAR1" + b"\xff" * (pages - 4) + whole[pages:])
    return people


@pytest.mark.attack("read data from an error or a failure")
def test_a_failure_after_the_charge_stays_charged_and_says_nothing(broken: Any, capfd: Any, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ChargedError) as failure:
        broken.ask(S.group_by("occ").agg(sd.sum("age")), epsilon=0.25, request_id="r")
    error = failure.value
    assert error.exit_code == 5
    assert error.charge == "c-0001"
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)
    assert broken.spent == sd.PureDP(0.25)
    with pytest.raises(ChargedError):
        broken.ask(S.group_by("occ").agg(sd.sum("age")), epsilon=0.25, request_id="r")
    assert broken.spent == sd.PureDP(0.25)
    assert [c.state for c in broken.ledger.charges()] == ["failed"]
    assert SECRET not in "".join(capfd.readouterr()) + caplog.text


@pytest.mark.attack("read data from an error or a failure")
def test_nothing_of_the_data_is_in_refusals_or_reprs(capfd: Any) -> None:
    table = pa.table({"age": [1], "gain": [1.0], "occ": [SECRET], "sure": [1], "id": [SECRET]})
    people = curator(source=table)
    asks: list[Any] = [
        sd.sum("occ"),
        sd.sum("id"),
        S.where(col("occ") == "x").agg(sd.count()),
        S.group_by("id").agg(sd.count()),
        sd.sql("SELECT id FROM data"),
        sd.sql("SELECT MIN(occ) FROM data"),
    ]
    said = repr(people) + str(people) + repr(people.ledger)
    for question in asks:
        with pytest.raises(QuestionRefused) as refusal:
            people.ask(question, epsilon=1)
        said += "".join(traceback.format_exception(refusal.value))
    release = people.ask(S.group_by("occ").agg(sd.count()), epsilon=1)
    said += repr(release) + release.to_json() + release._repr_html_() + "".join(capfd.readouterr())
    assert SECRET not in said


def test_seeded_noise_is_refused_on_a_durable_ledger_and_marked_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="seeded noise is not private"):
        sd.protect(
            TABLE,
            domain=DOMAIN,
            neighbors="add_remove",
            privacy_unit="row",
            budget=sd.PureDP(1),
            ledger=tmp_path / "x.ledger",
            rng=sd.Rng.seeded(7),
        )
    seeded, secure = curator().ask(sd.count(), epsilon=1), curator(seed=None).ask(sd.count(), epsilon=1)
    assert not seeded.private
    assert secure.private
    for view in (repr(seeded), seeded._repr_html_(), seeded.summary()):
        assert "NOT PRIVATE" in view
    assert "NOT PRIVATE" not in repr(secure)
    assert seeded.to_dict()["private"] is False


def test_a_changed_declaration_is_refused_until_amended(tmp_path: Path) -> None:
    book = tmp_path / "p.ledger"
    curator(budget=sd.PureDP(1), ledger=book).ask(sd.count(), epsilon=0.5)
    wider = sd.Domain({**DOMAIN.columns, "age": sd.Integer(0, 120)})
    with pytest.raises(DeclarationChanged):
        curator(budget=sd.PureDP(1), ledger=book, domain=wider)
    with pytest.raises(DeclarationChanged):
        curator(budget=sd.PureDP(2), ledger=book)
    with pytest.raises(DeclarationError):
        curator(budget=sd.PureDP(1), ledger=book, neighbors="replace")
    people = curator(budget=sd.PureDP(2), ledger=book, domain=wider, amend="ages above 100 exist")
    assert people.spent == sd.PureDP(0.5)
    assert people.remaining == sd.PureDP(1.5)
