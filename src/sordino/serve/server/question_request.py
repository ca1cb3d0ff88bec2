"""QuestionRequest: a question as it came in from outside, with the loss stated for it, for every way in. It asks nothing.

What was asked is kept as it was stated beside each charge, so that whoever asked can repeat it; no answer is. One request id
of an account names one thing - a question, a list of questions, or a job - over all budgets (`RequestIds`). A ledger holds
its own charges to their ids; what it cannot see is held here: what a list consists of, and what other ledgers and jobs have
under the same id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sqlalchemy import Connection, select, text

# Importing it registers its questions, so that they can be read.
import sordino.lab.robust  # noqa: F401
from sordino.ask.curator.batch import Batch
from sordino.ask.curator.plan import Plan, Share, Weights
from sordino.ask.queries.question_records import is_whole, question_from_json, question_to_json
from sordino.ask.queries.sql.parse import SqlText, sql
from sordino.ask.queries.sql.tabulation_plan import read_tabulation
from sordino.core.errors import DeclarationChanged, DeclarationError, QuestionRefused, nearest
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import Loss, Number, format_number, loss_to_numbers, to_fraction
from sordino.core.release import Release
from sordino.serve.server.account_schema import APPROVALS, JOBS, REQUESTS, TEXTS
from sordino.serve.server.database import ServerDatabase
from sordino.serve.server.locks import Job

# Characters of a question, as on the command line.
_LONGEST = 200_000
# Questions of a batch, as SQL or as data.
_MOST_QUESTIONS = 1000
_LOSS = ("epsilon", "delta", "rho", "weights", "share", "scale", "assume_rows")
_STATED = (*_LOSS, "on", "table", "error", "assume_mean", "declarations", "costs")
# The ways to state a question, of which one is taken.
_QUESTIONS = ("sql", "question", "tabulate")
_BOUNDS = ("max_rows", "max_groups", "max_rows_per_group")
_KEYS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "sql": ((str,), "text"),
    "question": ((dict, list), "a question as sordino's Python client writes it"),
    "tabulate": ((dict,), "tables to release together: an object with the keys of sordino tabulate's plan"),
    "table": ((str,), "text"),
    "error": ((str, int, float, list), "a number, or a list of them"),
    "assume_mean": ((int, float), "a number"),
    "declarations": ((dict,), "the digest of each table's declaration, by the table's name"),
    "costs": ((list,), "the cost of each question, as planned"),
    "epsilon": ((str, int, float), 'a number, or text such as "1/3"'),
    "delta": ((str, int, float), 'a number, or text such as "1e-6"'),
    "rho": ((str, int, float), 'a number, or text such as "1/3"'),
    "weights": ((dict, list), "numbers by name, or a list of them"),
    "share": ((str,), '"equal", "relative" or "error"'),
    "scale": ((dict,), "numbers by name"),
    "assume_rows": ((int,), "a whole number"),
    "dialect": ((str,), "text"),
    "keys": ((list,), "a list of rows, each a list"),
    "min_units": ((int,), "a whole number"),
    "max_rows": ((int,), "a whole number"),
    "max_groups": ((int,), "a whole number"),
    "max_rows_per_group": ((int,), "a whole number"),
    "confidence": ((int, float), "a number between 0 and 1"),
    "on": ((str,), '"data" or "dummy"'),
}


class OutOfDate(DeclarationChanged):
    """Say that whoever asks has seen a declaration that is no longer the one served."""


class UnknownKey(DeclarationError):
    """Say that a request states something by a name that is not known there.

    `unknown` names it for the operator's log, where it looks like a name and nothing else, such as a secret.
    """

    def __init__(self, name: str, known: Iterable[str], *, what: str, kind: str) -> None:
        super().__init__(f"is unknown: {what} has no such {kind}; {nearest(name, known)}", key=name[:40])
        self.unknown = f"{kind} {name}" if re.fullmatch("[a-z_]{1,30}", name) else f"a {kind}"


def check_keys(stated: Iterable[str], known: Iterable[str], *, what: str, kind: str = "key") -> None:
    """Raise UnknownKey for the first name that is not known."""
    for name in stated:
        if name not in known:
            raise UnknownKey(name, known, what=what, kind=kind)


class TooLarge(DeclarationError):
    """Say that more was sent at once than is read."""


@dataclass(frozen=True, slots=True)
class QuestionRequest:
    """Hold a question, or several as SQL text, with the loss stated for it; `table` names the table of one that is no SQL.

    `declarations` and `costs` are what whoever asks has seen of tables and plans: nothing else is answered.
    """

    question: Any
    table: str | None = None
    epsilon: Number | None = None
    delta: Number | None = None
    rho: Number | None = None
    weights: Weights | None = None
    share: Share = "equal"
    scale: Mapping[str, Number] | None = None
    assume_rows: int | None = None
    confidence: float = 0.95
    on: Literal["data", "dummy"] = "data"
    error: Number | Sequence[Number] | None = None
    assume_mean: float | None = None
    declarations: Mapping[str, str] | None = None
    costs: Sequence[Any] | None = None
    loss: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        loss = {name: getattr(self, name) for name in _LOSS}
        if self.table is None and (self.error is not None or self.assume_mean is not None):
            raise DeclarationError("and assume_mean go with a question about one table: state the table", key="error")
        loss |= {} if self.assume_mean is None else {"assume_mean": self.assume_mean}
        loss |= {} if self.error is None else {"error": self.error, "confidence": self.confidence}
        object.__setattr__(self, "loss", loss)

    def check_length(self) -> None:
        """Raise TooLarge for more questions at once than a batch may have."""
        listed = self.question if isinstance(self.question, (list, tuple)) else [self.question]
        several = [len(one.statements()) if isinstance(one, SqlText) else 1 for one in listed]
        if sum(several) > _MOST_QUESTIONS:
            raise TooLarge(f"a batch has at most {_MOST_QUESTIONS:,} questions, not {sum(several):,}: send several")

    def check_seen(self, plans: Sequence[Plan]) -> None:
        """Raise OutOfDate where a table is declared otherwise than was seen, DeclarationError for another cost."""
        for plan in plans:
            if self.declarations and self.declarations.get(plan.table_name, plan.declaration) != plan.declaration:
                raise OutOfDate(
                    f"{plan.table_name} is declared otherwise than when its declaration was read: read it again (GET "
                    "/v1/tables), and state the digest that it has now; nothing was charged"
                )
        if self.costs is not None and list(self.costs) != [loss_to_numbers(plan.cost) for plan in plans]:
            raise DeclarationError("this plan does not match what its question costs here: plan again")


def read_question_request(plain: Mapping[str, Any]) -> QuestionRequest:
    """Return the question that JSON data states, by the names of the command line's flags; raises DeclarationError.

    >>> read_question_request({"sql": "SELECT COUNT(*) FROM people", "epsilon": "0.5"}).epsilon
    '0.5'
    """
    stated = {name: value for name, value in plain.items() if value is not None}
    check_keys(stated, _KEYS, what="a question")
    for name, value in stated.items():
        kinds, words = _KEYS[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise DeclarationError(f"must be {words}", key=name)
    if sum(name in stated for name in _QUESTIONS) != 1:
        raise DeclarationError('is missing; state the question, such as "SELECT COUNT(*) AS n FROM people"', key="sql")
    if "tabulate" in stated and "table" not in stated:
        raise DeclarationError('is missing; name the table that is tabulated, such as "people"', key="table")
    if len(stated.get("sql", "")) > _LONGEST:
        raise DeclarationError(f"must have at most {_LONGEST:,} characters", key="sql")
    if stated.get("on", "data") not in ("data", "dummy"):
        raise DeclarationError('must be "data" or "dummy"', key="on")
    confidence = stated.get("confidence", 0.95)
    if not 0 < confidence < 1:
        raise DeclarationError("must lie between 0 and 1, such as 0.95", key="confidence")
    fields = {name: stated[name] for name in _STATED if name in stated}
    return QuestionRequest(_question(stated), confidence=confidence, **fields)


def asked_schema() -> dict[str, Any]:
    """Return the JSON Schema of what `read_question_request` reads."""
    words = {str: "string", int: "integer", float: "number", dict: "object", list: "array"}
    properties: dict[str, Any] = {}
    for name, (kinds, description) in _KEYS.items():
        stated = [words[kind] for kind in kinds]
        properties[name] = {"type": stated[0] if len(stated) == 1 else stated, "description": description}
        if list in kinds:
            properties[name]["items"] = {}
    properties["on"]["enum"] = ["data", "dummy"]
    properties["share"]["enum"] = [*get_args(Share)]
    properties["confidence"] |= {"exclusiveMinimum": 0, "exclusiveMaximum": 1}
    properties["sql"] |= {"minLength": 1, "maxLength": _LONGEST}
    properties = {name: or_null(schema) for name, schema in properties.items()}
    # Not as oneOf, of which generators of clients make no class.
    about = f"A question, stated by one of {', '.join(_QUESTIONS)}."
    return {"type": "object", "description": about, "properties": properties, "additionalProperties": False}


def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a key that may be left out, or null, which is the same.

    >>> or_null({"type": "string", "enum": ["data", "dummy"]})
    {'type': ['string', 'null'], 'enum': ['data', 'dummy', None]}
    """
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    kinds = schema["type"]
    nullable = {**schema, "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable


def _question(stated: Mapping[str, Any]) -> Any:
    if "tabulate" in stated:
        try:
            return read_tabulation(stated["tabulate"])
        except DeclarationError as error:
            raise DeclarationError(error.rule, key=f"tabulate.{error.key}") from None
    if "question" in stated:
        return question_from_json(stated["question"])
    keys = stated.get("keys")
    if keys is not None and not all(isinstance(row, list) for row in keys):
        raise DeclarationError("must be a list of rows, each a list of cells", key="keys")
    rows = None if keys is None else [tuple(row) for row in keys]
    text = sql(stated["sql"], dialect=stated.get("dialect"), keys=rows, min_units=stated.get("min_units", 1))
    bounds = {name: stated[name] for name in _BOUNDS if name in stated}
    return text.bound_contributions(**bounds) if bounds else text


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


# two servers may write the same list at once: both then find the one that was first
_KEEP = text("INSERT INTO requests (request, digest) VALUES (:request, :digest) ON CONFLICT (request) DO NOTHING")
_RULE = "; one id means one question: use a new id for a new question"


def names_of_parts(request: str, count: int) -> list[str]:
    """Return the ids by which ledgers know the questions of a request: a single question has the request's own."""
    return [request] if count == 1 else [f"{request} #{place}" for place in range(1, count + 1)]


class RequestIds:
    """Hold the request ids of one store to what each was first used for; `ledgers` gives the ledger of each budget."""

    def __init__(self, store: ServerDatabase, ledgers: Callable[[], Iterable[tuple[str, Ledger]]]) -> None:
        self._store = store
        self._ledgers = ledgers

    def bind(self, account: int, request: str) -> str:
        """Return an account's request id as ledgers and answers state it: behind the account's number, as in `6:a`.

        Such an id, sent back, names what it names there, unless the account began something of its own under the longer one.
        """
        prefix = f"{account}:"
        bound = prefix + request
        if request.startswith(prefix) and self._is_known(request) and not self._is_known(bound):
            return request
        return bound

    def claim(self, request: str, plans: Sequence[tuple[str, Plan]]) -> None:
        """Raise QuestionRefused where the id names something else; `plans` are with their budgets.

        A single question that its own ledger knows is left to that ledger, which says at which charge.
        """
        with self._store.read() as db:
            listed = db.execute(select(REQUESTS.c.digest).where(REQUESTS.c.request == request)).scalar()
            job = db.execute(select(JOBS.c.kind).where(JOBS.c.request == request)).scalar()
        if job is not None:
            raise QuestionRefused(f"this request id began a job ({job}){_RULE}")
        first = names_of_parts(request, 2)[0]
        if len(plans) == 1:
            ((budget, _),) = plans
            if listed is not None or self._is_charged(first):
                raise QuestionRefused(f"this request id was used for a list of questions{_RULE}")
            if self._is_charged(request, beside=budget):
                raise QuestionRefused(f"this request id was used for a question to another budget{_RULE}")
            return
        identities = [[budget, p.identity(), {n: str(a) for n, a in p.cost.amounts().items()}] for budget, p in plans]
        digest = hashlib.sha256(json.dumps(identities, sort_keys=True).encode()).hexdigest()
        if listed is None:
            if self._is_charged(request):
                raise QuestionRefused(f"this request id was used for one question, not for a list{_RULE}")
            with self._store.transact() as db:
                db.execute(_KEEP, {"request": request, "digest": digest})
            with self._store.read() as db:
                listed = db.execute(select(REQUESTS.c.digest).where(REQUESTS.c.request == request)).scalar_one()
        if listed != digest:
            raise QuestionRefused(f"this request id was used for another list of questions, or at another loss{_RULE}")

    def claim_job(self, request: str) -> None:
        """Raise QuestionRefused where the id names a question or a list; which job it began is for `Jobs.begin` to say."""
        with self._store.read() as db:
            listed = db.execute(select(REQUESTS.c.digest).where(REQUESTS.c.request == request)).scalar()
        if listed is not None or self._is_charged(request) or self._is_charged(names_of_parts(request, 2)[0]):
            raise QuestionRefused(f"this request id was used for a question{_RULE}")

    def _is_known(self, request: str) -> bool:
        """Return whether an account began or was charged for anything by a bound id, or waits for an officer's decision."""
        with self._store.read() as db:
            for table in (REQUESTS, JOBS, APPROVALS):
                if db.execute(select(table.c.request).where(table.c.request == request)).first() is not None:
                    return True
        return self._is_charged(request)

    def _is_charged(self, request: str, *, beside: str | None = None) -> bool:
        return any(ledger.has_request(request) for budget, ledger in self._ledgers() if budget != beside)
