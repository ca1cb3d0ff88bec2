"""Several questions of one table as one charge: priced together, paid together, and asked one after the other.

Theorem: where part i is private at its own event whatever the answers before it, all parts together are private at the sum of
their events, though what a part asks may follow from those answers (adaptive sequential composition of parts that are fixed
beforehand; Dwork and Roth 2014, Theorem 3.16; for rho Bun and Steinke 2016, Lemma 1.7). Each part answers one question, and
before it does, that question's own event is compared with the part's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar, Unpack

from sordino.ask.curator.adaptive_session import AdaptiveProcedure, AdaptiveQuestion, plan_adaptive, run_adaptive
from sordino.ask.curator.joined_rows import JoinedRows
from sordino.ask.curator.plan import UNKNOWN_ROWS, Answer, DataAccess, Plan, TableContext, cost_of, price
from sordino.ask.queries.build import Selection
from sordino.ask.queries.queryable import ChargePart, Draws, Queryable, ReleaseContent
from sordino.core.accounting.composition import charge_amounts
from sordino.core.accounting.events import ApproxEvent, Composed, GaussianEvent, LaplaceEvent
from sordino.core.accounting.zcdp import rho_for
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import ZCDP, Event, Loss, LossArguments, PureDP, read_loss, show_arguments
from sordino.core.neighbors import Neighbors
from sordino.core.noise.guard import SessionGuard
from sordino.core.noise.rng import Rng
from sordino.core.release import Release

T = TypeVar("T")


class PartSource(Protocol):
    """The part of a curator by which parts are priced."""

    @property
    def context(self) -> TableContext:
        """What is public of the table."""

    @property
    def remaining(self) -> Loss:
        """What is left of the budget."""

    @property
    def plan(self) -> Callable[..., Any]:
        """Price a question."""

    @property
    def plan_parts(self) -> Callable[..., Plan]:
        """Price several questions as one charge."""


# ---- Prices, before the charge


@dataclass(frozen=True, slots=True)
class PricedPart:
    """A part with its event, and the loss at which it is asked; `is_fixed` where its question is known beforehand."""

    name: str
    event: Event
    loss: Loss
    is_fixed: bool

    def check(self, plan: Plan) -> None:
        """Raise QuestionRefused for a question that this part did not pay for."""
        if plan.reads:
            raise QuestionRefused("a part of a charge reads one private table")
        if self.is_fixed:
            is_paid = plan.event == self.event
        else:
            amounts = self.loss.amounts()
            is_paid = all(amount <= amounts[name] for name, amount in charge_amounts(plan.event, self.loss).items())
        if not is_paid:
            raise QuestionRefused(
                f"{self.name} was charged at {self.loss.describe()}, and this question costs another loss"
            )


def price_parts(parts: Sequence[ChargePart], source: PartSource) -> tuple[PricedPart, ...]:
    """Return each part with its event; raises what running a part would raise before a charge."""
    priced = []
    for part in parts:
        if part.run is None:
            event, loss = _event_of_any(part.loss, source.context.cap)
        else:
            event = price_run(part.run, source).event
            loss = part.loss
        priced.append(PricedPart(part.name, event, loss, is_fixed=part.run is not None))
    return tuple(priced)


def plan_parts(words: str, parts: Sequence[PricedPart], table: TableContext) -> Plan:
    """Return the plan of several parts as one charge, which names the cost of each."""
    event = Composed(part.event for part in parts)
    cost = cost_of(event, table.cap)
    procedure = AdaptiveProcedure(
        question=AdaptiveQuestion(words),
        event=event,
        rows=UNKNOWN_ROWS,
        notes=(
            *(f"{part.name}: {cost_of(part.event, table.cap).describe()}" for part in parts),
            *table.neighbors.describe_caps(),
        ),
        inner=cost,
    )
    return price(procedure, table, asked=cost)


def _event_of_any(loss: Loss, cap: Loss) -> tuple[Event, Loss]:
    """Return an event that stands for every question at this loss, and the loss at which it is to be asked.

    No rho follows from a pair of epsilon and delta as such, so under a cap on rho the pair is asked as a rho that amounts to it.
    """
    if isinstance(loss, ZCDP):
        return GaussianEvent(loss.rho), ZCDP(loss.rho)
    if isinstance(loss, PureDP) or not loss.delta:
        return LaplaceEvent(loss.epsilon), loss
    if isinstance(cap, ZCDP):
        rho = rho_for(loss.epsilon, loss.delta)
        return GaussianEvent(rho, (loss.epsilon, loss.delta)), ZCDP(rho)
    return ApproxEvent(loss.epsilon, loss.delta), loss


def price_run(run: Callable[[Any], object], source: PartSource) -> Plan:
    """Return the plan of what charges once, run up to its charge: no data is read."""
    try:
        run(_PricedTable(source))
    except _Priced as priced:
        return priced.plan
    raise DeclarationError("this charges once")


class _Priced(Exception):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan


class _PricedTable:
    """A table that ends a run where it would be charged."""

    def __init__(self, source: PartSource) -> None:
        self._source = source
        self.context = source.context
        self.domain = source.context.domain
        self.neighbors = source.context.neighbors
        self.plan = source.plan
        self.remaining = source.remaining

    def over(self, selection: Selection) -> JoinedRows:
        """Return the rows that a selection makes, which end a run too."""
        return JoinedRows(self, selection)

    def ask(self, question: Any, **loss: Any) -> NoReturn:
        """Raise what holds the plan of a question."""
        plan: Any = self.plan(question, **loss)
        raise _Priced(plan)

    @show_arguments(LossArguments)
    def adapt(
        self,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> NoReturn:
        """Raise what holds the plan of an adaptive run."""
        self.adapt_over(None, algorithm, describe=describe, record=record, draws=draws, **loss)

    @show_arguments(LossArguments)
    def adapt_over(
        self,
        joined: JoinedRows | None,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> NoReturn:
        """Raise what holds the plan of an adaptive run."""
        del joined, algorithm, record
        raise _Priced(plan_adaptive(describe, self.context, asked=read_loss(**loss), draws=draws))

    def adapt_parts(
        self,
        algorithm: Callable[[Sequence[PartTable]], T],
        *,
        parts: Sequence[ChargePart],
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
    ) -> NoReturn:
        """Raise what holds the plan of several parts."""
        del algorithm, record
        raise _Priced(self._source.plan_parts(parts, describe=describe))


# ---- Answers, after the charge


class PartTable:
    """The table as one part of a charge sees it: it answers one question, or runs one algorithm, and no more.

    What it hands out is a Release of the whole charge at the part's cost, which is not stored by itself.
    """

    def __init__(
        self,
        part: PricedPart,
        *,
        context: TableContext,
        plan: Callable[[Any, Loss], Plan],
        rows: DataAccess,
        rng: Rng,
        make_release: Callable[[Plan, Answer | ReleaseContent], Release],
    ) -> None:
        self._part = part
        self._plan = plan
        self._rows = rows
        self._rng = rng
        self._make_release = make_release
        self._guard = SessionGuard("this part of a charge")
        self.context = context

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""
        return self.context.domain

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""
        return self.context.neighbors

    @property
    def loss(self) -> Loss:
        """The loss at which this part is asked."""
        return self._part.loss

    @property
    def remaining(self) -> Loss:
        """The loss of this part."""
        return self._part.loss

    def over(self, selection: Selection) -> JoinedRows:
        """Return the rows that a selection makes, as `Curator.over` does."""
        return JoinedRows(self, selection)

    @show_arguments(LossArguments)
    def plan(self, question: Any, **loss: Unpack[LossArguments]) -> Plan:
        """Return the price of a question."""
        return self._plan(question, read_loss(**loss))

    @show_arguments(LossArguments)
    def ask(self, question: Any, **loss: Unpack[LossArguments]) -> Release:
        """Return the private answer; raises QuestionRefused for a question that this part did not pay for, or a second one."""
        plan = self.plan(question, **loss)
        self._part.check(plan)
        statements = plan.procedure.write(self._rows.writer())
        self._take()
        return self._make_release(plan, plan.procedure.release(statements, self._rows, self._rng))

    @show_arguments(LossArguments)
    def adapt(
        self,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> tuple[T, Release]:
        """Run an algorithm as `Curator.adapt` does, for what this part paid."""
        return self.adapt_over(None, algorithm, describe=describe, record=record, draws=draws, **loss)

    @show_arguments(LossArguments)
    def adapt_over(
        self,
        joined: JoinedRows | None,
        algorithm: Callable[[Queryable], T],
        *,
        describe: str,
        record: Callable[[T], ReleaseContent] | None = None,
        draws: Draws = "any",
        **loss: Unpack[LossArguments],
    ) -> tuple[T, Release]:
        """Run an algorithm over joined rows; None for the table's own."""
        if joined is not None and joined.reads:
            raise QuestionRefused("a part of a charge reads one private table")
        plan = plan_adaptive(describe, self.context, asked=read_loss(**loss), draws=draws)
        self._part.check(plan)
        self._take()
        rows = self._rows if joined is None else self._rows.follow(joined.steps, self.context.domain)
        table = self.context if joined is None else joined.context
        finish = partial(self._make_release, plan)
        result, release, _ = run_adaptive(
            algorithm, record, plan=plan, table=table, rows=rows, rng=self._rng, make_release=finish
        )
        return result, release

    def close(self) -> None:
        """End the part: it answers nothing more."""
        self._guard.end()

    def _take(self) -> None:
        """Use the part up; raises QuestionRefused where it was, or where it was copied into another process."""
        with self._guard.hold():
            self._guard.end_held()


def run_parts(
    algorithm: Callable[[Sequence[PartTable]], T],
    record: Callable[[T], ReleaseContent] | None,
    *,
    tables: Sequence[PartTable],
    make_release: Callable[[ReleaseContent], Release],
) -> tuple[T, Release, str]:
    """Return an algorithm's result, the release on record and its text; the parts end with it."""
    try:
        result = algorithm(tables)
    finally:
        for table in tables:
            table.close()
    release = make_release(ReleaseContent() if record is None else record(result))
    return result, release, release.to_json()
