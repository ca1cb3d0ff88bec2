"""RemoteConnection: a project on a server, with the face of a local one. It decides nothing and keeps no answer."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from sordino.ask.queries.frame_words import unknown_word
from sordino.ask.queries.sql.parse import SqlText
from sordino.ask.queries.table_face import TableFace
from sordino.core.domain import Domain
from sordino.core.loss import Loss
from sordino.core.neighbors import Neighbors
from sordino.core.release import Release
from sordino.serve.remote.questions import (
    FitWords,
    LossWords,
    RemoteBatch,
    RemoteBudget,
    RemotePlan,
    RemoteQuestions,
    fit_prediction_remote,
    fit_remote,
)
from sordino.serve.remote.transport import NotRemote, Transport, check_url, find_token, refuse_near

if TYPE_CHECKING:
    from sordino.synth.model import Model

Target = Literal["data", "dummy"]


class RemoteConnection:
    """Hold a connection to a server: `.table(name)`, `.plan` and `.ask` of SQL, `.budgets()`, `.releases()`.

    Made by `sd.connect("https://...", token=...)`; a `with` statement closes it. Whatever is lost on the way is sent again
    for `patience` seconds, a question always under one request id, so that it is charged once.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        dialect: str | None = None,
        patience: float = 30.0,
        timeout: float = 60.0,
        verify: Any = True,
    ) -> None:
        self._transport = Transport(check_url(url), find_token(token), timeout=timeout, verify=verify)
        self._asked = RemoteQuestions(check_url(url), patience=patience, dialect=dialect, begin=self._transport.run)
        self.refresh()

    def refresh(self) -> None:
        """Read what the server declares now; where it changed, questions were refused until this."""
        self._transport.run(self._asked.load())

    def tables(self) -> list[dict[str, Any]]:
        """Return the declared tables as JSON data: budget, columns, neighbors, privacy unit, digest of the declaration."""
        return list(self._asked.tables.values())

    def table(self, name: str | None = None) -> RemoteTable:
        """Return a declared table, or the only one there is; raises UnknownName."""
        return RemoteTable(self._asked, self._asked.find_table(name), self._transport)

    def plan(self, question: SqlText, **words: Unpack[LossWords]) -> RemotePlan | RemoteBatch:
        """Return the plan of a SELECT, of the table that it names; of several SELECTs their batch."""
        return _plan(self._asked, self._transport, question, None, words)

    def ask(
        self,
        question: SqlText | RemotePlan | RemoteBatch,
        *,
        request_id: str | None = None,
        on: Target = "data",
        confirm: Callable[[RemotePlan], None] | None = None,
        **words: Unpack[LossWords],
    ) -> Release | list[Release]:
        """Return the private answer of a SELECT or a plan, or those of several, as `RemoteTable.ask`."""
        operation = self._asked.ask(question, None, words, request_id=request_id, on=on, confirm=confirm)
        return self._transport.run(operation)

    def budgets(self, name: str | None = None) -> list[RemoteBudget]:
        """Return how each budget stands, or the one named: `.cap`, `.spent`, `.remaining`, `.own`; costs nothing."""
        return self._transport.run(self._asked.budgets(name))

    def charges(self, *, budget: str | None = None) -> list[dict[str, Any]]:
        """Return what was charged to you, as `sordino releases --format json`."""
        return self._transport.run(self._asked.charges(budget))

    def releases(self, *, budget: str | None = None) -> list[Release]:
        """Return your past releases, oldest first; costs nothing."""
        return self._transport.run(self._asked.releases(budget))

    def release(self, charge: str, *, budget: str | None = None) -> Release:
        """Return a past release as it was; costs nothing. Raises UnknownName for a charge that is not there, or not yours."""
        return self._transport.run(self._asked.release(charge, budget))

    def explain(self, charge: str, *, budget: str | None = None) -> str:
        """Return what a past release reveals at most, in a sentence or two."""
        return self._transport.run(self._asked.explain(charge, budget))

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def __enter__(self) -> RemoteConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        """Refuse by name what a local connection has and a far one cannot."""
        raise refuse_near(name, self)

    def __repr__(self) -> str:
        return f"<RemoteConnection to {self._asked.url}: tables {', '.join(self._asked.tables)}>"


class RemoteTableFace(TableFace):
    """Know a far table: what is declared about it."""

    def __init__(self, asked: RemoteQuestions, name: str) -> None:
        self._asked = asked
        self._name = name

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""
        return self._asked.domain(self._name)

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors, and the privacy unit."""
        return self._asked.neighbors(self._name)

    def _budget(self) -> str:
        return str(self._asked.tables[self._name]["budget"])

    def __getattr__(self, name: str) -> Any:
        """Refuse by name what a local table has and a far one cannot."""
        error = refuse_near(name, self)
        raise error if isinstance(error, NotRemote) else unknown_word(self, name, kind="rows")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} at {self._asked.url}>"


class RemoteTable(RemoteTableFace):
    """Answer questions about one far table, charged to your share: `plan` is free, `ask` is charged once."""

    def __init__(self, asked: RemoteQuestions, name: str, transport: Transport) -> None:
        super().__init__(asked, name)
        self._transport = transport

    def plan(self, question: Any, **words: Unpack[LossWords]) -> Any:
        """Return what the question would cost and how wrong the answer would be, as `Curator.plan`; spends nothing."""
        return _plan(self._asked, self._transport, question, self._name, words)

    def ask(
        self,
        question: Any,
        *,
        request_id: str | None = None,
        on: Target = "data",
        confirm: Callable[[RemotePlan], None] | None = None,
        **words: Unpack[LossWords],
    ) -> Any:
        """Return the private answer of a plan, or of a question with its loss, as `Curator.ask`; a batch's answers as a list.

        It is charged once, however often the connection is lost: the same `request_id` gives the same answer, and one is
        made where none is given. Raises ApprovalNeeded where an officer has to approve: `.wait()` gives the answer then.
        """
        operation = self._asked.ask(question, self._name, words, request_id=request_id, on=on, confirm=confirm)
        return self._transport.run(operation)

    def fit_model(
        self,
        method: str = "auto",
        *,
        request_id: str | None = None,
        watch: Callable[[str, float], None] | None = None,
        **words: Unpack[FitWords],
    ) -> Model:
        """Return a synthetic model of the table, which the server fits, as `sd.synth.fit(table, ...)` and its methods do.

        `watch` is called with each stage and the seconds so far. The model is a local one: sampling and answers are free.
        """
        fitted = fit_remote(self._asked, self._name, method, words, request_id=request_id, watch=watch)
        return self._transport.run(fitted)

    def fit_prediction(self, model: str, *, request_id: str | None = None, **arguments: Any) -> Any:
        """Return a model of `sordino.models`, by the name of its function, such as "kmeans", which the server fits as a job.

        `arguments` are those of the function. The model is a local one: predictions are free.
        """
        fitted = fit_prediction_remote(self._asked, self._name, model, arguments, request_id=request_id)
        return self._transport.run(fitted)

    @property
    def spent(self) -> Loss:
        """What has been spent of your share, or of the whole budget where you have none."""
        return self._transport.run(self._asked.budget_of(self._name)).own_loss("spent")

    @property
    def remaining(self) -> Loss:
        """What is left of your share, or of the whole budget."""
        return self._transport.run(self._asked.budget_of(self._name)).own_loss("remaining")

    def release(self, charge: str) -> Release:
        """Return a past release as it was; costs nothing."""
        return self._transport.run(self._asked.release(charge, self._budget()))

    def releases(self) -> list[Release]:
        """Return your past releases from this table's budget, oldest first; costs nothing."""
        return self._transport.run(self._asked.releases(self._budget()))

    def explain(self, charge: str) -> str:
        """Return what a past release reveals at most, in a sentence or two."""
        return self._transport.run(self._asked.explain(charge, self._budget()))

    def close(self) -> None:
        """Do nothing: the connection is closed as a whole."""


def _plan(
    asked: RemoteQuestions, transport: Transport, question: Any, table: str | None, words: LossWords
) -> RemotePlan | RemoteBatch:
    plan = transport.run(asked.plan(question, table, words))
    if isinstance(plan, RemoteBatch):
        return plan

    def again(confidence: float) -> dict[str, Any]:
        return cast("dict[str, Any]", transport.run(asked.plan_at(plan.asked, confidence)))

    return RemotePlan(plan.asked, plan.said, again)
