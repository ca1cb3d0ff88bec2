"""The rows that a selection joins, as a table of their own for adaptive algorithms, such as synthetic data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

from sordino.ask.curator.algorithm_procedure import QuestionOver
from sordino.ask.curator.question_reading import read_question
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.build import Selection, count
from sordino.ask.queries.row_steps import step_domain, step_neighbors
from sordino.core.errors import QuestionRefused
from sordino.core.loss import Loss, LossArguments, show_arguments

if TYPE_CHECKING:
    from sordino.ask.curator.plan import Plan, TableContext
    from sordino.ask.queries.queryable import Draws, Queryable, ReleaseContent
    from sordino.ask.queries.row_steps import RowStep
    from sordino.core.domain import Domain
    from sordino.core.neighbors import Neighbors
    from sordino.core.release import Release

T = TypeVar("T")


class Joinable(Protocol):
    """The part of a curator that joined rows use."""

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
    def ask(self) -> Callable[..., Any]:
        """Answer a question, charged once."""

    @property
    def adapt_over(self) -> Callable[..., Any]:
        """Run an adaptive algorithm over joined rows."""


class JoinedRows:
    """The rows of a table after joins: an adaptive algorithm sees their domain, and their neighbors, as the steps state them.

    Each step is stable, so what it charges protects the unit of the table itself.
    """

    def __init__(self, curator: Joinable, selection: object) -> None:
        """Raise QuestionRefused for anything but joins and steps like them: conditions and groups are asked of the model."""
        if not isinstance(selection, Selection):
            raise QuestionRefused(
                'over takes a selection of the table\'s rows, such as table.join("regions", on="region")'
            )
        if selection != Selection(steps=selection.steps):
            raise QuestionRefused(
                "over takes joins alone: leave out conditions, groups, samples and caps; ask the model about them, such as "
                'model.sample(where="age > 30")'
            )
        if not selection.steps:
            raise QuestionRefused("this selection joins nothing: take the table itself")
        table = curator.context
        question = read_question(selection.agg(count()), table)
        assert isinstance(question, Aggregation)
        self._curator = curator
        self.steps: tuple[RowStep, ...] = tuple(question.steps)
        self.reads = question.reads
        domain = step_domain(table.domain, self.steps)
        neighbors = step_neighbors(table.neighbors, self.steps)
        self.context: TableContext = replace(table, domain=domain, neighbors=neighbors, possible={})

    @property
    def domain(self) -> Domain:
        """What is declared about the rows."""
        return self.context.domain

    @property
    def neighbors(self) -> Neighbors:
        """How far two tables of such rows lie apart."""
        return self.context.neighbors

    @property
    def remaining(self) -> Loss:
        """What is left of the budget."""
        return self._curator.remaining

    @show_arguments(LossArguments)
    def plan(self, question: object, **loss: Unpack[LossArguments]) -> Plan:
        """Return the price of a question that an algorithm answers, such as moments; raises QuestionRefused for others."""
        plan: Plan = self._curator.plan(self._over(question), **loss)
        return plan

    @show_arguments(LossArguments)
    def ask(self, question: object, **loss: Unpack[LossArguments]) -> Release:
        """Return the private answer of a question that an algorithm answers, charged once; raises QuestionRefused for others."""
        release: Release = self._curator.ask(self._over(question), **loss)
        return release

    def _over(self, question: Any) -> QuestionOver:
        if not hasattr(question, "algorithm") or self.reads:
            raise QuestionRefused(
                "of joined rows only tables of counts and what models ask can be asked for: leave out what counts rows by a "
                "condition (rules, predict), or ask the table itself, with the join in the question"
            )
        return QuestionOver(question, self.steps)

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
        """Charge the whole loss, run an algorithm on these rows, return its result and the release on record."""
        words = "; ".join(step.describe() for step in self.steps)
        outcome: tuple[T, Release] = self._curator.adapt_over(
            self, algorithm, describe=f"{describe} ({words})", record=record, draws=draws, **loss
        )
        return outcome
