"""AsyncConnection: the same names as RemoteConnection, each to be awaited. What is said to the server stands once, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from sordino.ask.queries.sql.parse import SqlText
from sordino.core.loss import Loss
from sordino.core.release import Release
from sordino.serve.remote.connection import RemoteTableFace, Target
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
from sordino.serve.remote.transport import AsyncTransport, check_url, find_token, refuse_near

if TYPE_CHECKING:
    from sordino.synth.model import Model


class AsyncConnection:
    """Hold a connection to a server in an event loop: `async with sd.connect_async("https://...") as far: ...`.

    The names are those of `sd.connect`, and what asks the server is awaited: `await far.table("people").ask(...)`.
    """

    def __init__(
        self, url: str, *, token: str | None, dialect: str | None, patience: float, timeout: float, verify: Any
    ) -> None:
        self._transport = AsyncTransport(check_url(url), find_token(token), timeout=timeout, verify=verify)
        self._asked = RemoteQuestions(check_url(url), patience=patience, dialect=dialect, begin=self._transport.run)

    async def refresh(self) -> None:
        """Read what the server declares now; where it changed, questions were refused until this."""
        await self._transport.run(self._asked.load())

    def tables(self) -> list[dict[str, Any]]:
        """Return the declared tables as JSON data: budget, columns, neighbors, privacy unit, digest of the declaration."""
        return list(self._asked.tables.values())

    def table(self, name: str | None = None) -> AsyncTable:
        """Return a declared table, or the only one there is; raises UnknownName."""
        return AsyncTable(self._asked, self._asked.find_table(name), self._transport)

    async def plan(self, question: SqlText, **words: Unpack[LossWords]) -> RemotePlan | RemoteBatch:
        """Return the plan of a SELECT, of the table that it names; of several SELECTs their batch."""
        return await self._transport.run(self._asked.plan(question, None, words))

    async def ask(
        self,
        question: SqlText | RemotePlan | RemoteBatch,
        *,
        request_id: str | None = None,
        on: Target = "data",
        confirm: Callable[[RemotePlan], None] | None = None,
        **words: Unpack[LossWords],
    ) -> Release | list[Release]:
        """Return the private answer of a SELECT or a plan, or those of several, as `AsyncTable.ask`."""
        operation = self._asked.ask(question, None, words, request_id=request_id, on=on, confirm=confirm)
        return await self._transport.run(operation)

    async def budgets(self, name: str | None = None) -> list[RemoteBudget]:
        """Return how each budget stands, or the one named; costs nothing."""
        return await self._transport.run(self._asked.budgets(name))

    async def charges(self, *, budget: str | None = None) -> list[dict[str, Any]]:
        """Return what was charged to you, as `sordino releases --format json`."""
        return await self._transport.run(self._asked.charges(budget))

    async def releases(self, *, budget: str | None = None) -> list[Release]:
        """Return your past releases, oldest first; costs nothing."""
        return await self._transport.run(self._asked.releases(budget))

    async def release(self, charge: str, *, budget: str | None = None) -> Release:
        """Return a past release as it was; costs nothing."""
        return await self._transport.run(self._asked.release(charge, budget))

    async def explain(self, charge: str, *, budget: str | None = None) -> str:
        """Return what a past release reveals at most, in a sentence or two."""
        return await self._transport.run(self._asked.explain(charge, budget))

    async def close(self) -> None:
        """Close the connection."""
        await self._transport.close()

    def __await__(self) -> Generator[Any, None, AsyncConnection]:
        """Connect, without `async with`: `far = await sd.connect_async(...)`."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncConnection:
        await self.refresh()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __getattr__(self, name: str) -> Any:
        """Refuse by name what a local connection has and a far one cannot."""
        raise refuse_near(name, self)

    def __repr__(self) -> str:
        return f"<AsyncConnection to {self._asked.url}: tables {', '.join(self._asked.tables)}>"


class AsyncTable(RemoteTableFace):
    """Answer questions about one far table, each call to be awaited."""

    def __init__(self, asked: RemoteQuestions, name: str, transport: AsyncTransport) -> None:
        super().__init__(asked, name)
        self._transport = transport

    async def plan(self, question: Any, **words: Unpack[LossWords]) -> Any:
        """Return what the question would cost and how wrong the answer would be; spends nothing."""
        return await self._transport.run(self._asked.plan(question, self._name, words))

    async def ask(
        self,
        question: Any,
        *,
        request_id: str | None = None,
        on: Target = "data",
        confirm: Callable[[RemotePlan], None] | None = None,
        **words: Unpack[LossWords],
    ) -> Any:
        """Return the private answer, charged once however often the connection is lost, as `RemoteTable.ask`."""
        operation = self._asked.ask(question, self._name, words, request_id=request_id, on=on, confirm=confirm)
        return await self._transport.run(operation)

    async def fit_model(
        self,
        method: str = "auto",
        *,
        request_id: str | None = None,
        watch: Callable[[str, float], None] | None = None,
        **words: Unpack[FitWords],
    ) -> Model:
        """Return a synthetic model of the table, which the server fits, as `RemoteTable.fit_model`."""
        fitted = fit_remote(self._asked, self._name, method, words, request_id=request_id, watch=watch)
        return await self._transport.run(fitted)

    async def fit_prediction(self, model: str, *, request_id: str | None = None, **arguments: Any) -> Any:
        """Return a model of `sordino.models`, by the name of its function, such as "kmeans", which the server fits as a job.

        `arguments` are those of the function. The model is a local one: predictions are free.
        """
        fitted = fit_prediction_remote(self._asked, self._name, model, arguments, request_id=request_id)
        return await self._transport.run(fitted)

    async def spent(self) -> Loss:
        """Return what has been spent of your share, or of the whole budget where you have none."""
        return (await self._transport.run(self._asked.budget_of(self._name))).own_loss("spent")

    async def remaining(self) -> Loss:
        """Return what is left of your share, or of the whole budget."""
        return (await self._transport.run(self._asked.budget_of(self._name))).own_loss("remaining")

    async def release(self, charge: str) -> Release:
        """Return a past release as it was; costs nothing."""
        return await self._transport.run(self._asked.release(charge, self._budget()))

    async def releases(self) -> list[Release]:
        """Return your past releases from this table's budget, oldest first; costs nothing."""
        return await self._transport.run(self._asked.releases(self._budget()))

    async def explain(self, charge: str) -> str:
        """Return what a past release reveals at most, in a sentence or two."""
        return await self._transport.run(self._asked.explain(charge, self._budget()))


def connect_async(
    url: str,
    *,
    token: str | None = None,
    dialect: str | None = None,
    patience: float = 30.0,
    timeout: float = 60.0,
    verify: Any = True,
) -> AsyncConnection:
    """Return a connection to a server for an event loop: `async with sd.connect_async("https://...", token=...) as far`.

    The words are those of `connect`. It connects when it is entered or awaited.
    """
    return AsyncConnection(url, token=token, dialect=dialect, patience=patience, timeout=timeout, verify=verify)
