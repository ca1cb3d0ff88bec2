"""Tables of a server: plans, questions, models, as if they were here."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from sordino.ask.queries.question_records import is_whole, question_to_json
from sordino.ask.queries.sql.parse import SqlText
from sordino.core.domain import Domain, column_from_dict
from sordino.core.errors import (
    ApprovalNeeded,
    DeclarationChanged,
    DeclarationError,
    UnknownName,
    check_confidence,
    nearest,
)
from sordino.core.loss import Loss, Number, format_number, loss_from_numbers, to_fraction
from sordino.core.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.core.noise.rng import Rng
from sordino.core.release import Release, show_number, show_rows
from sordino.serve.remote.transport import Call, Operation, Pause, PendingApproval, error_of, exchange

if TYPE_CHECKING:
    from sordino.synth.model import Model


# ---- RemotePlan, RemoteBatch and RemoteBudget: what a server says of a question's price and of a budget. Nothing here is spent


@dataclass(frozen=True, slots=True, repr=False)
class RemotePlan:
    """Hold a question with its whole cost and its expected error, as a server planned it; give it to `ask`.

    `cost`, `.error(0.95)`, `table_name`, `names`, `notes` and `earlier` are those of a local `Plan`; `to_dict()` is what
    `sordino plan --format json` prints.
    """

    asked: Mapping[str, Any] = field(repr=False)
    said: Mapping[str, Any]
    again: Callable[[float], Mapping[str, Any]] | None = field(default=None, compare=False)

    @property
    def cost(self) -> Loss:
        """What asking will cost."""
        return loss_from_numbers(self.said["cost"])

    @property
    def table_name(self) -> str:
        """The table that it was planned for."""
        return str(self.said["table"])

    @property
    def declaration(self) -> str:
        """The digest of the declaration that it was planned under."""
        return str(self.said["declaration"])

    @property
    def columns(self) -> list[dict[str, Any]]:
        """What is said of each answered column."""
        return list(self.said["columns"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What its release must say beside its numbers."""
        return tuple(self.said["notes"])

    @property
    def earlier(self) -> tuple[str, ...]:
        """Your charges that answered the same question before."""
        return tuple(self.said["earlier"])

    def error(self, confidence: float) -> Any:
        """Return the expected error, not exceeded with probability `confidence`, of each value by itself.

        A number for a single column, a dict by column name for several; of a tabulation a dict by table. Another confidence
        than the plan's is asked of the server again; an asynchronous plan states one, `plan(..., confidence=)`.
        """
        columns = self._at(confidence)["columns"]
        if all("columns" in part for column in columns for part in column["parts"] or [{}]):
            return _errors_by_table(columns)
        errors = {column["name"]: column["expected_error"] for column in columns}
        return next(iter(errors.values())) if len(errors) == 1 else errors

    def error_times_rows(self, confidence: float) -> dict[str, float]:
        """Return, for each mean, its expected error times the number of rows in its group, a public figure."""
        return dict(self._at(confidence)["error_times_rows"])

    def _at(self, confidence: float) -> Mapping[str, Any]:
        if check_confidence(confidence) == self.said["confidence"]:
            return self.said
        if self.again is None:
            raise DeclarationError(f"state it with the plan: plan(..., confidence={confidence})", key="confidence")
        return self.again(confidence)

    def sentence(self) -> str:
        """Return the question in words."""
        return str(self.said["question"])

    def describe(self, confidence: float = 0.95) -> str:
        """Return the plan in a few lines."""
        content = self._at(confidence)
        lines = [f"question   {content['question']}", f"cost       {self.cost.describe()}"]
        for one in content["columns"]:
            error = one["expected_error"]
            off = "its error depends on the rows: give assume_rows" if error is None else _say_error(error, one)
            at = "" if error is None else f" at {100 * confidence:g}%"
            lines.append(f"{one['name']:<10} {off}{at}")
        lines += [f"note       {note}" for note in content["notes"]]
        lines += [f"earlier    answered before as {', '.join(self.earlier)}"] if self.earlier else []
        return "\n".join(lines)

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data, as the server said it."""
        return dict(self._at(confidence))

    def __repr__(self) -> str:
        return f"<Plan {self.sentence()}; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe(self.said["confidence"])

    def _repr_html_(self) -> str:
        return f'<pre style="font-family: monospace">{escape(str(self))}</pre>'


def _say_error(error: float, column: Mapping[str, Any]) -> str:
    value = column["error_unit"] == "value"
    return f"+-{show_number(error)}" if value else show_rows(error, column["error_unit"])


def _errors_by_table(columns: Sequence[Mapping[str, Any]]) -> dict[tuple[str, ...], Any]:
    """Return the errors of each table of a tabulation: a number for one measure, a dict by name for several."""
    tables: dict[tuple[str, ...], dict[str, float]] = {}
    for column in columns:
        for part in column["parts"]:
            tables.setdefault(tuple(part["columns"]), {})[column["name"]] = part["expected_error"]
    return {table: errors if len(columns) > 1 else errors[columns[0]["name"]] for table, errors in tables.items()}


@dataclass(frozen=True, slots=True, repr=False)
class RemoteBatch:
    """Hold the plans of several questions, as a server made them; give it to `ask` for a list of releases."""

    asked: Mapping[str, Any] = field(repr=False)
    said: Mapping[str, Any]

    @property
    def cost(self) -> Loss:
        """What all of them cost together."""
        return loss_from_numbers(self.said["cost"])

    @property
    def confidence(self) -> float:
        """The confidence of the errors."""
        return float(self.said["confidence"])

    @property
    def plans(self) -> tuple[RemotePlan, ...]:
        """The plan of each question, to read; they are asked together."""
        return tuple(RemotePlan({}, plan) for plan in self.said["plans"])

    def errors(self) -> list[float]:
        """Return the largest expected error of each question, at the confidence of the batch."""
        return list(self.said["errors"])

    def to_dict(self) -> dict[str, Any]:
        """Return the batch as JSON data, as the server said it."""
        return dict(self.said)

    def describe(self) -> str:
        """Return the batch in a few lines."""
        each = [f"           {plan.cost.describe()}: {plan.sentence()}" for plan in self.plans]
        notes = [f"note       {note}" for note in self.said.get("notes", ())]
        return "\n".join([f"cost       {self.cost.describe()} in all", *each, *notes])

    def __repr__(self) -> str:
        return f"<Batch of {len(self.said['plans'])} plans; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe()


@dataclass(frozen=True, slots=True)
class RemoteBudget:
    """State how a budget stands, as `sordino budget --format json`; `own` is your share of it, None for an officer."""

    said: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The budget's name."""
        return str(self.said["budget"])

    @property
    def own(self) -> Mapping[str, Any] | None:
        """Your share: its cap, spent and remaining."""
        shares = list(self.said["shares"].values())
        return shares[0] if self.said["ledger"] is None and len(shares) == 1 else None

    @property
    def cap(self) -> Loss:
        """The cap."""
        return loss_from_numbers(self.said["cap"])

    @property
    def spent(self) -> Loss:
        """All that was charged, by everyone."""
        return loss_from_numbers(self.said["spent"])

    @property
    def remaining(self) -> Loss:
        """What everyone together can still be charged."""
        return loss_from_numbers(self.said["remaining"])

    @property
    def charges(self) -> int:
        """The number of all charges."""
        return int(self.said["charges"])

    @property
    def answered(self) -> int:
        """The number of charges that were answered."""
        return int(self.said["answered"])

    def own_loss(self, name: str) -> Loss:
        """Return cap, spent or remaining of your share, or of the whole budget where you have none."""
        return loss_from_numbers((self.own or self.said)[name])

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON data, as the server said it."""
        return dict(self.said)


# ---- RemoteQuestions: what one may ask of a server, as operations without a network; both clients run these

T = TypeVar("T")
_NUMBERS = ("epsilon", "delta", "rho")


class LossWords(TypedDict, total=False):
    """What a plan is asked with, as of a local table."""

    epsilon: Number | None
    delta: Number | None
    rho: Number | None
    error: Number | Sequence[Number] | None
    confidence: float
    weights: Sequence[Number] | Mapping[str, Number] | None
    share: str
    scale: Mapping[str, Number] | None
    assume_rows: int | None
    assume_mean: float | None


class RemoteQuestions:
    """Say what is asked of one server. `tables` is what it declares, once `load` was run; its digests go with each question."""

    def __init__(
        self, url: str, *, patience: float, dialect: str | None, begin: Callable[[Operation[Any]], Any]
    ) -> None:
        self.url = url
        self.tables: dict[str, Any] = {}
        self._patience = patience
        self._dialect = dialect
        # Runs an operation later, as the client does.
        self._begin = begin

    # ---- what is declared

    def load(self) -> Operation[None]:
        """Read what the server declares now."""
        reply = yield from self.get("/v1/tables")
        self.tables = {table["name"]: table for table in reply["tables"]}

    def find_table(self, name: str | None) -> str:
        """Return the name of a declared table, or of the only one; raises UnknownName or DeclarationError."""
        if name is None:
            if len(self.tables) != 1:
                raise DeclarationError(
                    f"several tables are declared: name one of {', '.join(self.tables)}", key="table"
                )
            return next(iter(self.tables))
        if name not in self.tables:
            raise UnknownName(f"no table {name!r} is declared; {nearest(str(name), self.tables)}")
        return name

    def domain(self, table: str) -> Domain:
        """Return what is declared about a table."""
        declared = self.tables[table]
        columns = {name: column_from_dict(column) for name, column in declared["columns"].items()}
        return Domain(columns, row_ceiling=declared["row_ceiling"])

    def neighbors(self, table: str) -> Neighbors:
        """Return which tables count as neighbors, and the privacy unit."""
        declared = self.tables[table]
        unit = declared["privacy_unit"]
        return neighbors_from(
            neighbors=declared["neighbors"], privacy_unit=unit if unit == "row" else PrivacyUnit(**unit)
        )

    # ---- questions

    def plan(self, question: Any, table: str | None, words: LossWords) -> Operation[RemotePlan | RemoteBatch]:
        """Return what a question would cost."""
        body = self._state(question, table, words)
        reply = yield from self._post("/v1/plan", body)
        if "plans" in reply:
            return RemoteBatch(body, reply)
        return RemotePlan(body, reply)

    def plan_at(self, asked: Mapping[str, Any], confidence: float) -> Operation[Any]:
        """Return what a plan says at another confidence."""
        return (yield from self._post("/v1/plan", {**asked, "confidence": confidence}))

    def ask(
        self,
        question: Any,
        table: str | None,
        words: LossWords,
        *,
        request_id: str | None,
        on: str,
        confirm: Callable[[RemotePlan], None] | None,
    ) -> Operation[Release | list[Release]]:
        """Return the private answer, charged once however often it has to be sent; of a batch, the list of them."""
        planned = isinstance(question, (RemotePlan, RemoteBatch))
        if planned and any(v is not None for v in words.values()):
            raise DeclarationError(
                "a plan states its loss already: ask(plan), without epsilon, delta, rho, or shares of it"
            )
        if not planned and isinstance(question, (list, tuple)) and any(map(is_whole, question)):
            raise DeclarationError("several whole questions are asked as a batch: ask(plan([...], epsilon=...))")
        if confirm is not None and not planned:
            question = yield from self.plan(question, table, words)
            planned = True
        if planned:
            for plan in question.plans if isinstance(question, RemoteBatch) else [question]:
                if confirm is not None:
                    confirm(plan)
        stated = _again(question) if planned else self._state(question, table, words)
        body = stated if on == "data" else {**stated, "on": on}
        several = isinstance(question, RemoteBatch) or (
            isinstance(question, SqlText) and len(question.statements()) > 1
        )

        def read(said: Any) -> Operation[Release | list[Release]]:
            yield from ()
            releases = [Release.from_dict(one) for one in (said if isinstance(said, list) else [said])]
            return releases if several else releases[0]

        return (yield from self.charge("/v1/ask", body, request_id, read))

    def charge(
        self, path: str, body: Mapping[str, Any], request_id: str | None, read: Callable[[Any], Operation[T]]
    ) -> Operation[T]:
        """Return what follows from the answer to a call that is charged once; a request id is made where none is given."""
        key = new_request() if request_id is None else request_id
        return (yield from self._answer(Call("POST", path, body, {"idempotency-key": _ascii(key)}), read))

    def _answer(self, call: Call, read: Callable[[Any], Operation[T]]) -> Operation[T]:
        try:
            reply = yield from self._exchange(call)
        except ApprovalNeeded as error:
            request = call.headers["idempotency-key"]
            raise PendingApproval(
                str(error),
                approval=error.approval,
                request=request,
                again=lambda timeout, every: self._begin(self._await_approval(call, read, timeout, every)),
            ) from None
        return (yield from read(reply))

    def _await_approval(
        self, call: Call, read: Callable[[Any], Operation[T]], timeout: float | None, every: float
    ) -> Operation[T]:
        waited = 0.0
        while True:
            try:
                return (yield from self._answer(call, read))
            except ApprovalNeeded:
                if timeout is not None and waited + every > timeout:
                    raise
            yield Pause(every)
            waited += every

    def _state(self, question: Any, table: str | None, words: LossWords) -> dict[str, Any]:
        """Return the body that states a question: numbers as text, so that they are exact."""
        if isinstance(question, SqlText):
            question = question.in_dialect(self._dialect)
        elif table is None:
            raise DeclarationError('takes SQL: ask(sd.sql("SELECT ..."), ...); else ask a table', key="a connection")
        plain: dict[str, Any] = {"question": question_to_json(question), "table": table}
        plain |= {name: value for name, value in words.items() if value is not None}
        for name in _NUMBERS:
            if name in plain:
                plain[name] = format_number(to_fraction(plain[name], name=name))
        for name in ("weights", "scale", "error"):
            if name in plain:
                plain[name] = _numbers(plain[name], name)
        return {**plain, "declarations": {name: one["declaration"] for name, one in self.tables.items()}}

    # ---- what was released

    def budgets(self, name: str | None) -> Operation[list[RemoteBudget]]:
        """Return how budgets stand."""
        reply = yield from self.get("/v1/budgets", budget=name)
        return [RemoteBudget(one) for one in reply["budgets"]]

    def budget_of(self, table: str) -> Operation[RemoteBudget]:
        """Return how the budget stands that a table draws on."""
        return (yield from self.budgets(self.tables[table]["budget"]))[0]

    def charges(self, budget: str | None) -> Operation[list[dict[str, Any]]]:
        """Return what was charged to you, as `sordino releases --format json`."""
        reply = yield from self.get("/v1/releases", budget=budget)
        return list(reply["releases"])

    def releases(self, budget: str | None) -> Operation[list[Release]]:
        """Return your past releases, oldest first."""
        releases: list[Release] = []
        for charge in (yield from self.charges(budget)):
            if charge["state"] == "answered":
                releases += [(yield from self.release(charge["id"], charge["budget"]))]
        return releases

    def release(self, charge: str, budget: str | None) -> Operation[Release]:
        """Return a past release as it was."""
        return Release.from_dict((yield from self.get(f"/v1/releases/{_part(charge)}", budget=budget)))

    def explain(self, charge: str, budget: str | None) -> Operation[str]:
        """Return what a past release reveals at most."""
        reply = yield from self.get(f"/v1/releases/{_part(charge)}/explanation", budget=budget)
        return str(reply["explanation"])

    # ---- one exchange

    def get(self, path: str, **query: str | None) -> Operation[Any]:
        """Return what the server says at a path: JSON data, or the bytes of a file."""
        from urllib.parse import urlencode

        parameters = {name: value for name, value in query.items() if value is not None}
        return (yield from self._exchange(Call("GET", f"{path}?{urlencode(parameters)}" if parameters else path)))

    def _post(self, path: str, body: Any) -> Operation[Any]:
        return (yield from self._exchange(Call("POST", path, body)))

    def _exchange(self, call: Call) -> Operation[Any]:
        try:
            return (yield from exchange(call, patience=self._patience, where=self.url))
        except DeclarationChanged:
            raise DeclarationChanged(
                f"a table at {self.url} is declared otherwise than when this connection read it: look at what changed, "
                "then .refresh() and plan again; nothing was charged"
            ) from None


def new_request() -> str:
    """Return a request id that nobody has."""
    return base64.urlsafe_b64encode(Rng.secure().bytes(18)).decode()


def _again(planned: RemotePlan | RemoteBatch) -> dict[str, Any]:
    """Return the body that asks what was planned, at that very cost."""
    if not planned.asked:
        raise DeclarationError("this plan is one of a batch: ask(batch) asks them together")
    plans = planned.said["plans"] if isinstance(planned, RemoteBatch) else [planned.said]
    return {**planned.asked, "costs": [plan["cost"] for plan in plans]}


def _numbers(given: Any, name: str) -> Any:
    if isinstance(given, Mapping):
        return {key: format_number(to_fraction(value, name=name)) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return [format_number(to_fraction(value, name=name)) for value in given]
    return format_number(to_fraction(given, name=name))


def _ascii(request: str) -> str:
    if not isinstance(request, str) or not request.isascii() or not request.isprintable() or not request.strip():
        raise DeclarationError("must be printable ASCII, such as 'count-2026-11'", key="request_id")
    return request


def _part(charge: str) -> str:
    from urllib.parse import quote

    return quote(str(charge), safe="")


# ---- Synthetic models of a far table: the server fits one in a job of its own, and the model comes back whole, free
# to use

# Seconds between looks at a job: the first, and the longest.
_FIRST = 0.2
_LONGEST = 5.0


class FitWords(TypedDict, total=False):
    """What a fit is asked with: as `sordino synth fit`, conditions of `never` as text, pairs of `at_most` the lower first.

    `rules` are lines, as a project file states them.
    """

    columns: Sequence[str] | None
    marginals: Sequence[Sequence[str]] | None
    workload: str | Sequence[Sequence[str]]
    never: Sequence[str]
    at_most: Sequence[tuple[str, str]]
    rules: Sequence[str]
    cap: int | None
    assume_rows: int | None
    predict: Sequence[str]
    epsilon: Number | None
    delta: Number | None
    rho: Number | None


def fit_remote(
    asked: RemoteQuestions,
    table: str,
    method: str,
    words: FitWords,
    *,
    request_id: str | None,
    watch: Callable[[str, float], None] | None,
) -> Operation[Model]:
    """Return the model, once its job is done: charged once, however often it has to be asked.

    `watch` is called with the stage and the seconds so far as they change. Raises what `sd.synth.fit` does, ApprovalNeeded
    where an officer has to approve, and DeclarationChanged where the table is declared otherwise than when it was read.
    """
    yield from _check_declared(asked, table)
    body: dict[str, Any] = {"table": table, "method": method, **{n: v for n, v in words.items() if v is not None}}
    _write_amounts(body)
    model: Model = yield from asked.charge("/v1/models", body, request_id, lambda job: _await_model(asked, job, watch))
    return model


def fit_prediction_remote(
    asked: RemoteQuestions, table: str, name: str, arguments: Mapping[str, Any], *, request_id: str | None
) -> Operation[Any]:
    """Return a model of `sordino.models` by the name of its function, once its job is done: charged once.

    Raises what the function does, ApprovalNeeded where an officer has to approve, and DeclarationChanged.
    """
    yield from _check_declared(asked, table)
    body: dict[str, Any] = {"table": table, "model": name, **{n: v for n, v in arguments.items() if v is not None}}
    _write_amounts(body)
    return (yield from asked.charge("/v1/models", body, request_id, lambda job: _await_model(asked, job, None)))


def _write_amounts(body: dict[str, Any]) -> None:
    """Write the loss of a fit as exact text."""
    for name in ("epsilon", "delta", "rho"):
        if name in body:
            body[name] = format_number(to_fraction(body[name], name=name))


def _check_declared(asked: RemoteQuestions, table: str) -> Operation[None]:
    """Raise DeclarationChanged where a table is declared otherwise than when it was read."""
    declaration = asked.tables[table]["declaration"]
    now = yield from asked.get("/v1/tables")
    if not any(one["name"] == table and one["declaration"] == declaration for one in now["tables"]):
        raise DeclarationChanged(
            f"table {table!r} at {asked.url} is declared otherwise than when this connection read it: look at what changed, "
            "then .refresh() and fit again; nothing was charged"
        )


def _await_model(
    asked: RemoteQuestions, job: dict[str, Any], watch: Callable[[str, float], None] | None
) -> Operation[Any]:
    from sordino.models.record import load as load_prediction
    from sordino.synth.model import load

    pause = _FIRST
    stage = ""
    while job["state"] == "running":
        if watch is not None and job["stage"] != stage:
            stage = str(job["stage"])
            watch(stage, float(job["seconds"]))
        yield Pause(pause)
        pause = min(1.5 * pause, _LONGEST)
        job = yield from asked.get(f"/v1/jobs/{job['id']}")
    if job["state"] != "done":
        raise error_of(job["problem"])
    data = yield from asked.get(f"/v1/models/{job['model']}/file")
    if not isinstance(data, bytes):
        raise DeclarationError("sent no model file", key="the server")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "far.model"
        path.write_bytes(data)
        # A model that predicts is JSON, a synthetic one is not.
        return load_prediction(path) if data.startswith(b"{") else load(path)
