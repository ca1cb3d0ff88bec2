"""A question that failed for want of open files, or since its file changed, is answered later under the charge that it made."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.engines.duckdb import DuckDBEngine
from sordino.ask.engines.engine import EngineFailed
from sordino.core.ledger.ledger import Ledger
from sordino.errors import ChargedError, LedgerError, QuestionRefused, SourceError

DOMAIN = sd.Domain({"x": sd.Integer(0, 9)})
COUNT = sd.count()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1] * 50}), made)
    return made


@pytest.fixture
def people(path: Path, tmp_path: Path) -> sd.Curator:
    return protect(path, DOMAIN, budget=sd.PureDP(1), ledger=tmp_path / "t.ledger")


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Let this process open no more files, really: by its soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def starve_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each scan find no descriptor left: the question was charged a moment before."""
    run = DuckDBEngine.run

    def starved(engine: DuckDBEngine, select: Any) -> Any:
        with no_descriptors_left():
            return run(engine, select)

    monkeypatch.setattr(DuckDBEngine, "run", starved)


@pytest.mark.parametrize("name", ["parquet", "csv", "jsonl"])
def test_without_descriptors_nothing_is_charged(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"t.{name}"
    if name == "parquet":
        pq.write_table(pa.table({"x": [1]}), file)
    else:
        file.write_text("x\n1\n" if name == "csv" else '{"x": 1}\n')
    people = protect(file, DOMAIN, csv=sd.Csv(header=True) if name == "csv" else None)
    with no_descriptors_left(), pytest.raises(SourceError, match="no more files"):
        people.ask(COUNT, epsilon=1)
    assert people.spent == sd.PureDP(0)
    people.ask(COUNT, epsilon=1)


def test_a_scan_without_descriptors_is_resumed_at_no_new_charge(
    people: sd.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        starve_scans(patched)
        for _ in range(2):
            with pytest.raises(ChargedError, match="no more files") as failed:
                people.ask(COUNT, epsilon="0.1", request_id="r")
            assert failed.value.resumable
    assert [c.state for c in people.ledger.charges()] == ["failed"]
    release = people.ask(COUNT, epsilon="0.1", request_id="r")
    assert release.charge == "c-0001"
    assert people.ask(COUNT, epsilon="0.1", request_id="r") == release
    assert [c.state for c in people.ledger.charges()] == ["committed"]
    assert people.spent == sd.PureDP("0.1")
    people.ledger.verify()


@pytest.mark.deep
def test_a_changed_file_is_resumed_and_read_as_it_is_now(
    people: sd.Curator, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = DuckDBEngine.run

    def change(engine: DuckDBEngine, select: Any) -> Any:
        pq.write_table(pa.table({"x": [1] * 900}), path)
        return run(engine, select)

    with monkeypatch.context() as patched:
        patched.setattr(DuckDBEngine, "run", change)
        with pytest.raises(ChargedError, match="changed while it was read"):
            people.ask(COUNT, epsilon="0.5", request_id="r")
    assert people.ask(COUNT, epsilon="0.5", request_id="r").value > 700
    assert people.spent == sd.PureDP("0.5")


def test_another_loss_question_or_spender_does_not_resume(
    people: sd.Curator, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        starve_scans(patched)
        with pytest.raises(ChargedError):
            people.ask(COUNT, epsilon="0.1", request_id="r")
    for question, epsilon in ((COUNT, "0.2"), (sd.sum("x"), "0.1")):
        with pytest.raises(QuestionRefused):
            people.ask(question, epsilon=epsilon, request_id="r")
    assert people.spent == sd.PureDP("0.1")
    # Another process, later: what is on record decides.
    again = protect(path, DOMAIN, budget=sd.PureDP(1), ledger=tmp_path / "t.ledger")
    assert again.ask(COUNT, epsilon="0.1", request_id="r").charge == "c-0001"


@pytest.mark.parametrize("failure", [EngineFailed(), EngineFailed(cause="the server is gone"), ValueError("a cell")])
def test_a_failure_of_any_other_cause_is_final(
    failure: Exception, people: sd.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(DuckDBEngine, "run", fail)
        with pytest.raises(ChargedError) as failed:
            people.ask(COUNT, epsilon="0.1", request_id="r")
        assert not failed.value.resumable
    with pytest.raises(ChargedError, match="charges again"):
        people.ask(COUNT, epsilon="0.1", request_id="r")
    assert people.spent == sd.PureDP("0.1")


def test_without_a_request_id_nothing_can_be_resumed(people: sd.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        starve_scans(patched)
        with pytest.raises(ChargedError) as failed:
            people.ask(COUNT, epsilon="0.1")
    assert not failed.value.resumable
    assert "request id" not in str(failed.value)


def test_a_resumed_charge_takes_one_answer(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.ledger", cap=sd.PureDP(1))
    event = protect([{"x": 1}], DOMAIN).plan(COUNT, epsilon="0.1").event
    charge: Any = ledger.charge(event, note="n", question="q", request="r")
    ledger.fail(charge, "no files", resumable=True)
    ledger.verify()
    again: Any = ledger.charge(event, note="n", question="q", request="r")
    assert (again.id, again.resumable, ledger.spent()) == (charge.id, True, sd.PureDP("0.1"))
    ledger.commit(again, '"one"')
    with pytest.raises(LedgerError):
        ledger.commit(charge, '"two"')
    with pytest.raises(LedgerError):
        ledger.fail(charge, "late", resumable=True)
    assert ledger.answer(charge.id) == '"one"'
    assert ledger.verify().committed == 1


def test_a_resumed_charge_may_fail_for_good(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.ledger", cap=sd.PureDP(1))
    event = protect([{"x": 1}], DOMAIN).plan(COUNT, epsilon="0.1").event
    charge: Any = ledger.charge(event, note="n", question="q", request="r")
    ledger.fail(charge, "no files", resumable=True)
    ledger.fail(charge, "no files", resumable=True)
    ledger.fail(charge, "broken")
    with pytest.raises(LedgerError):
        ledger.commit(charge, '"late"')
    with pytest.raises(ChargedError, match="broken") as failed:
        ledger.recall("r", "q")
    assert not failed.value.resumable
    assert ledger.verify().failed == 1
