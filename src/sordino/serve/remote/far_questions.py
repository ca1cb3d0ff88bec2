"""FarQuestions: what one may ask of a server, as operations without a network; both clients run these."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from sordino.ask.queries.question_records import is_whole, question_to_json
from sordino.ask.queries.sql.parse import SqlText
from sordino.core.domain import Domain, column_from_dict
from sordino.core.errors import (
    ApprovalNeeded,
    DeclarationChanged,
    DeclarationError,
    UnknownName,
    nearest,
)
from sordino.core.loss import Number, format_number, to_fraction
from sordino.core.neighbors import Neighbors, PrivacyUnit, neighbors_from
from sordino.core.noise.rng import Rng
from sordino.core.release import Release
from sordino.serve.remote.far_errors import PendingApproval
from sordino.serve.remote.far_plan import FarBatch, FarBudget, FarPlan
from sordino.serve.remote.operations import Call, Operation, Pause, exchange

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


class FarQuestions:
    """Say what is asked of one server. `tables` is what it declares, once `load` was run; its digests go with each question."""

    def __init__(
        self, url: str, *, patience: float, dialect: str | None, begin: Callable[[Operation[Any]], Any]
    ) -> None:
        self.url = url
        self.tables: dict[str, Any] = {}
        self._patience = patience
        self._dialect = dialect
        self._begin = begin  # runs an operation later, as the client does

    # ---- what is declared

    def load(self) -> Operation[None]:
        """Read what the server declares now."""
        said = yield from self.get("/v1/tables")
        self.tables = {table["name"]: table for table in said["tables"]}

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
        said = self.tables[table]
        columns = {name: column_from_dict(column) for name, column in said["columns"].items()}
        return Domain(columns, row_ceiling=said["row_ceiling"])

    def neighbors(self, table: str) -> Neighbors:
        """Return which tables count as neighbors, and the privacy unit."""
        said = self.tables[table]
        unit = said["privacy_unit"]
        return neighbors_from(neighbors=said["neighbors"], privacy_unit=unit if unit == "row" else PrivacyUnit(**unit))

    # ---- questions

    def plan(self, question: Any, table: str | None, words: LossWords) -> Operation[FarPlan | FarBatch]:
        """Return what a question would cost."""
        asked = self._state(question, table, words)
        said = yield from self._post("/v1/plan", asked)
        if "plans" in said:
            return FarBatch(asked, said)
        return FarPlan(asked, said)

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
        confirm: Callable[[FarPlan], None] | None,
    ) -> Operation[Release | list[Release]]:
        """Return the private answer, charged once however often it has to be sent; of a batch, the list of them."""
        planned = isinstance(question, (FarPlan, FarBatch))
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
            for plan in question.plans if isinstance(question, FarBatch) else [question]:
                if confirm is not None:
                    confirm(plan)
        asked = _again(question) if planned else self._state(question, table, words)
        body = asked if on == "data" else {**asked, "on": on}
        several = isinstance(question, FarBatch) or (isinstance(question, SqlText) and len(question.statements()) > 1)

        def read(said: Any) -> Operation[Release | list[Release]]:
            yield from ()
            found = [Release.from_dict(one) for one in (said if isinstance(said, list) else [said])]
            return found if several else found[0]

        return (yield from self.charge("/v1/ask", body, request_id, read))

    def charge(
        self, path: str, body: Mapping[str, Any], request_id: str | None, read: Callable[[Any], Operation[T]]
    ) -> Operation[T]:
        """Return what follows from the answer to a call that is charged once; a request id is made where none is given."""
        key = new_request() if request_id is None else request_id
        return (yield from self._answer(Call("POST", path, body, {"idempotency-key": _ascii(key)}), read))

    def _answer(self, call: Call, read: Callable[[Any], Operation[T]]) -> Operation[T]:
        try:
            said = yield from self._exchange(call)
        except ApprovalNeeded as error:
            request = call.headers["idempotency-key"]
            raise PendingApproval(
                str(error),
                approval=error.approval,
                request=request,
                again=lambda timeout, every: self._begin(self._await_approval(call, read, timeout, every)),
            ) from None
        return (yield from read(said))

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

    def budgets(self, name: str | None) -> Operation[list[FarBudget]]:
        """Return how budgets stand."""
        said = yield from self.get("/v1/budgets", budget=name)
        return [FarBudget(one) for one in said["budgets"]]

    def budget_of(self, table: str) -> Operation[FarBudget]:
        """Return how the budget stands that a table draws on."""
        return (yield from self.budgets(self.tables[table]["budget"]))[0]

    def charges(self, budget: str | None) -> Operation[list[dict[str, Any]]]:
        """Return what was charged to you, as `sordino releases --format json`."""
        said = yield from self.get("/v1/releases", budget=budget)
        return list(said["releases"])

    def releases(self, budget: str | None) -> Operation[list[Release]]:
        """Return your past releases, oldest first."""
        found: list[Release] = []
        for charge in (yield from self.charges(budget)):
            if charge["state"] == "answered":
                found += [(yield from self.release(charge["id"], charge["budget"]))]
        return found

    def release(self, charge: str, budget: str | None) -> Operation[Release]:
        """Return a past release as it was."""
        return Release.from_dict((yield from self.get(f"/v1/releases/{_part(charge)}", budget=budget)))

    def explain(self, charge: str, budget: str | None) -> Operation[str]:
        """Return what a past release reveals at most."""
        said = yield from self.get(f"/v1/releases/{_part(charge)}/explanation", budget=budget)
        return str(said["explanation"])

    # ---- one exchange

    def get(self, path: str, **query: str | None) -> Operation[Any]:
        """Return what the server says at a path: JSON data, or the bytes of a file."""
        from urllib.parse import urlencode

        given = {name: value for name, value in query.items() if value is not None}
        return (yield from self._exchange(Call("GET", f"{path}?{urlencode(given)}" if given else path)))

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


def _again(planned: FarPlan | FarBatch) -> dict[str, Any]:
    """Return the body that asks what was planned, at that very cost."""
    if not planned.asked:
        raise DeclarationError("this plan is one of a batch: ask(batch) asks them together")
    plans = planned.said["plans"] if isinstance(planned, FarBatch) else [planned.said]
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
