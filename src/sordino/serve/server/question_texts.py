"""What was asked, as it was stated: kept beside each charge, so that whoever asked can repeat it. It holds no answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select, text

from sordino.ask.curator.batch import Batch
from sordino.ask.curator.plan import Plan
from sordino.ask.queries.question_records import is_whole, question_to_json
from sordino.ask.queries.sql.parse import SqlText
from sordino.core.errors import QuestionRefused
from sordino.core.loss import Loss, format_number, to_fraction
from sordino.core.release import Release
from sordino.serve.server.account_schema import TEXTS
from sordino.serve.server.database import ServerDatabase
from sordino.serve.server.locks import Job
from sordino.serve.server.question_request import QuestionRequest

Record = dict[str, Any]
_NUMBERS = ("epsilon", "delta", "rho")
_PLAIN = ("assume_rows", "assume_mean", "table")

# a charge may be noted again, by another server at the same moment too: the id of a charge is new where a ledger began anew
_NOTE = text(
    "INSERT INTO texts (budget, charge, time, asked) VALUES (:budget, :charge, :time, :asked) "
    "ON CONFLICT (budget, charge) DO UPDATE SET time = excluded.time, asked = excluded.asked"
)
# The lock of servers that note texts in one database.
_LOCK = 0x536F7254


class QuestionTexts:
    """Hold the texts of one store."""

    def __init__(self, store: ServerDatabase) -> None:
        self._store = store

    def note(self, budget: str, release: Release, said: Record | None) -> list[Job]:
        """Return what notes what a charge was asked with, where it can be said as data."""
        if said is None:
            return []
        row = {"budget": budget, "charge": release.charge, "time": release.time, "asked": json.dumps(said)}
        return [_take_turns, lambda db: db.execute(_NOTE, row)]

    def find(self, budget: str, release: Release) -> Record | None:
        """Return the question and the losses that a release was asked with, None where they were not noted."""
        same = (TEXTS.c.budget == budget) & (TEXTS.c.charge == release.charge) & (TEXTS.c.time == release.time)
        with self._store.read() as db:
            text = db.execute(select(TEXTS.c.asked).where(same)).scalar()
        if text is None:
            return None
        record: Record = json.loads(text)
        # Stores before this version have SQL and losses alone.
        if "question" not in record:
            record["question"] = {"is": "SqlText", "text": record.pop("sql"), "min_units": 1}
        return record


def _take_turns(db: Connection) -> None:
    """Let the servers of one database note one after the other: else two that note the same charges in other orders deadlock."""
    if db.dialect.name == "postgresql":
        db.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def describe_asked(asked: QuestionRequest, made: Plan | Batch) -> list[Record | None]:
    """Return, for each plan of what was asked, the question and the words that ask it again by itself, as JSON data.

    One of a batch is asked again at its own part of the loss.
    """
    if not isinstance(made, Batch):
        return [_record(asked, asked.question, _state(asked))]
    listed = asked.question if isinstance(asked.question, (list, tuple)) else [asked.question]
    whole = listed if any(map(is_whole, listed)) else [asked.question]
    questions = [one for q in whole for one in (q.statements() if isinstance(q, SqlText) else [q])]
    return [_record(asked, q, _cost(p.cost)) for q, p in zip(questions, made.plans, strict=True)]


def _record(asked: QuestionRequest, question: object, loss: Mapping[str, Any]) -> Record | None:
    try:
        plain = {"question": question_to_json(question)}
    # The question holds a table of rows, which is not data to note.
    except QuestionRefused:
        return None
    return {**plain, **loss, **{n: getattr(asked, n) for n in _PLAIN if getattr(asked, n) is not None}}


def _state(asked: QuestionRequest) -> Record:
    record: Record = {n: _text(getattr(asked, n), n) for n in _NUMBERS if getattr(asked, n) is not None}
    if asked.weights is not None:
        record["weights"] = _texts(asked.weights, "weights")
    if asked.scale is not None:
        record["scale"] = _texts(asked.scale, "scale")
    return record if asked.share == "equal" else {**record, "share": asked.share}


def _cost(cost: Loss) -> Record:
    return {name: str(amount) for name, amount in cost.amounts().items() if amount and name in _NUMBERS}


def _texts(given: Any, name: str) -> Any:
    if isinstance(given, Mapping):
        return {key: _text(value, name) for key, value in given.items()}
    return [_text(value, name) for value in given]


def _text(value: Any, name: str) -> str:
    return format_number(to_fraction(value, name=name))
