"""Questions that an algorithm over a Queryable answers: priced, charged and stored as every other question.

The question's class names the feature that prepares its algorithm, so nothing here knows what the algorithm does. What it
prepares says, before the charge, which queries it will ask and how wrong the answer will be; after it, it runs in a
session that answers queries up to the loss, and no more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sordino.ask.curator.adaptive_session import AdaptiveSession, adaptive_event
from sordino.ask.curator.plan import (
    Answer,
    DataAccess,
    Plan,
    PlannedColumn,
    PlannedQuestion,
    PlannedRows,
    Procedure,
    StatementWriter,
    TableContext,
    price,
    register_procedure,
)
from sordino.ask.queries.gradient_vector import SteppedRegression
from sordino.ask.queries.moment_matrix import MomentMatrix
from sordino.ask.queries.query import refuse_foreign
from sordino.ask.queries.queryable import LossTooSmall, PreparedAlgorithm, ReleaseContent, VectorQuery, has_scans
from sordino.ask.queries.row_steps import RowStep, step_domain, step_neighbors
from sordino.ask.queries.tabulation import Tabulation
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.accounting.gaussian_dp import vectors_rho_for
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.lazy import load_feature
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP, format_number
from sordino.core.mechanisms.noise_choice import cheapest, smooth_vectors
from sordino.core.neighbors import Neighbors
from sordino.core.noise.laws import NoiseLaw
from sordino.core.noise.rng import Rng
from sordino.core.release import Release

if TYPE_CHECKING:
    from sordino.ask.engines.engine import Statement


Rows = TypeVar("Rows", bound=StatementWriter)


class AlgorithmQuestion(PlannedQuestion, Protocol):
    """A question of which `algorithm` is the feature that prepares how it is answered."""

    @property
    def algorithm(self) -> str:
        """The name of the feature: a function of the question and a NoiseForecast that returns a PreparedAlgorithm."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The noise that a session of this loss would draw for a query; where `smooth`, rho counts Gaussian DP."""

    domain: Domain
    neighbors: Neighbors
    loss: Loss
    smooth: bool = False

    def laws(self, query: VectorQuery, loss: Loss) -> Sequence[NoiseLaw]:
        """Return the law of each vector's noise, in whole steps."""
        parts = query.parts(self.domain, self.neighbors)
        if self.smooth:
            assert isinstance(loss, ZCDP)
            mechanisms, _ = smooth_vectors(parts, loss.rho)
        else:
            mechanisms, _ = cheapest(parts, loss)
        return [mechanism.law for mechanism in mechanisms]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmProcedure(Procedure):
    """Answer a question by its prepared algorithm, in a session of the `inner` loss."""

    table: TableContext
    prepared: PreparedAlgorithm
    inner: Loss
    smooth: bool = False
    # What turns the rows of the table, declared by `base`, into those that the algorithm sees.
    steps: tuple[RowStep, ...] = ()
    base: Domain | None = None

    def columns(self, confidence: float) -> Sequence[PlannedColumn]:
        """Return what the algorithm knows beforehand of each column."""
        noise = "discrete Laplace noise" if isinstance(self.inner, PureDP) else "discrete Gaussian noise"
        return [
            PlannedColumn(
                (column.name,),
                column.question,
                (column.error,),
                column.unit,
                (column.words,),
                tuple(
                    {"columns": [*keys], "expected_error": error, "mechanism": noise} for keys, error in column.parts
                ),
                column.lines,
            )
            for column in self.prepared.columns(confidence)
        ]

    def error(self, confidence: float) -> Any:
        """Return the expected error as the algorithm states it."""
        return self.prepared.error(confidence)

    def write(self, rows: StatementWriter) -> dict[str, Statement]:
        """Write the statements of all queries that the algorithm will ask."""
        rows = self._follow(rows)
        statements: dict[str, Statement] = {}
        for query in self.prepared.queries():
            for scan in query.scans(self.table.domain) if has_scans(query) else ():
                if scan.key not in statements:
                    statements[scan.key] = rows.write(scan.select(rows.primitives()))
        return statements

    def _follow(self, rows: Rows) -> Rows:
        """Return the rows that the algorithm sees."""
        return rows if self.base is None else rows.follow(self.steps, self.base)

    def release(self, statements: dict[str, Statement], rows: DataAccess, rng: Rng) -> Answer | ReleaseContent:
        """Run the algorithm in a session of its own."""

        def answer_one(words: str, answer: Answer, event: Event, cost: Loss, spent: Loss, left: Loss) -> Release:
            keys, outputs = answer
            neighbors = self.table.neighbors
            stated = neighbors.relation, neighbors.describe_unit(), self.table.declaration
            # It is read by the algorithm alone, and never stored: it has no charge and no time of its own.
            return Release(
                words, keys, outputs, cost, spent, left, event, *stated, "", self.table.name, "", rng.private
            )

        with self._follow(rows).keep_numbers(statements.values()) as kept:
            session = AdaptiveSession(
                rows=kept,
                table=self.table,
                loss=self.inner,
                rng=rng,
                make_release=answer_one,
                smooth=self.smooth,
                statements=statements,
            )
            try:
                return self.prepared.answer(session)
            finally:
                session.close()


@dataclass(frozen=True, slots=True)
class QuestionOver:
    """A question that an algorithm answers, of the rows that some steps make of a table's."""

    question: AlgorithmQuestion
    steps: tuple[RowStep, ...]

    def identity(self) -> str:
        """Return canonical text of the question, whatever the loss."""
        return json.dumps([[step.plain() for step in self.steps], self.question.identity()], default=str)

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"{self.question.describe()}, {'; '.join(step.describe() for step in self.steps)}"


def plan_over_steps(question: QuestionOver, table: TableContext, *, asked: Loss) -> Plan:
    """Return the plan of an algorithm over the rows that steps make of a table's.

    Each step states the relation of its rows, and the algorithm is planned by that, so what it costs protects the table's unit.
    """
    domain = step_domain(table.domain, question.steps)
    neighbors = step_neighbors(table.neighbors, question.steps)
    over = replace(table, domain=domain, neighbors=neighbors, possible={})
    procedure = plan_by_algorithm(question.question, over, asked=asked).procedure
    assert isinstance(procedure, AlgorithmProcedure)
    stepped = replace(procedure, question=question, steps=question.steps, base=table.domain)
    return price(stepped, table, asked=asked)


def plan_by_algorithm(question: AlgorithmQuestion, table: TableContext, *, asked: Loss) -> Plan:
    """Return the plan of a question that an algorithm answers; of (epsilon, delta) by the noise of the least squared error.

    Raises QuestionRefused where the algorithm has no private answer to it. All that it may ask is asked of the forecast here,
    so nothing that a session would refuse is charged. A stated error that no noise meets is refused with a loss that would.
    """
    prepare = load_feature(question.algorithm)
    plans: list[AlgorithmProcedure] = []
    refusals: list[LossTooSmall] = []
    for event, inner, smooth in _currencies(asked):
        forecast = Forecast(table.domain, table.neighbors, inner, smooth)
        try:
            prepared: PreparedAlgorithm = prepare(question, forecast)
        except LossTooSmall as refused:
            refusals.append(refused)
            continue
        for query in prepared.queries():
            refuse_foreign(query)
        rows = PlannedRows(prepared.rows)
        notes = (*prepared.notes, *table.neighbors.describe_caps())
        plans.append(
            AlgorithmProcedure(
                question=question,
                event=event,
                groups=prepared.groups,
                rows=rows,
                notes=notes,
                table=table,
                prepared=prepared,
                inner=inner,
                smooth=smooth,
            )
        )
    if not plans:
        raise _name_needed_loss(refusals, asked)
    best = min(plans, key=lambda procedure: procedure.prepared.squared_error)
    return price(best, table, asked=asked)


def _name_needed_loss(refusals: Sequence[LossTooSmall], asked: Loss) -> QuestionRefused:
    """Return the refusal of a loss that is too small, with the least one that a refusal names, in the terms of the loss asked."""
    epsilons = []
    for refused in refusals:
        needed = refused.needed
        if needed is None:
            continue
        if isinstance(needed, PureDP):
            epsilons.append(needed.epsilon)
        elif isinstance(asked, ZCDP):
            return QuestionRefused(f"{refused}; rho {format_number(_round_up(needed.amounts()['rho']))} would do")
        else:
            assert isinstance(asked, ApproxDP)
            epsilons.append(_epsilon_for(needed.amounts()["rho"], asked))
    if not epsilons:
        return QuestionRefused(str(refusals[0]))
    delta = f" with delta {format_number(asked.delta)}" if isinstance(asked, ApproxDP) else ""
    words = next(str(refused) for refused in refusals if refused.needed is not None)
    return QuestionRefused(f"{words}; epsilon {format_number(_round_up(min(epsilons)))}{delta} would do")


def _epsilon_for(rho: Fraction, asked: ApproxDP) -> Fraction:
    """Return an epsilon at which (epsilon, delta) is counted as at least this rho."""

    def is_enough(epsilon: Fraction) -> bool:
        smooth = vectors_rho_for(epsilon, asked.delta)
        counted = adaptive_event(ApproxDP(epsilon, asked.delta), smooth)[1]
        return counted.amounts()["rho"] >= rho

    low = asked.epsilon
    high = 2 * asked.epsilon
    while not is_enough(high):
        low = high
        high *= 2
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _round_up(amount: Fraction) -> Fraction:
    """Return a number of three digits that is no smaller."""
    with localcontext(Context(prec=3, rounding=ROUND_CEILING)) as context:
        return Fraction(context.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


def _currencies(asked: Loss) -> list[tuple[Event, Loss, bool]]:
    """Return how a session may count the loss: its event, the loss counted, and whether rho is of Gaussian DP.

    Theorem: each event stands for all vectors of the session, by basic composition of epsilon, by composition of rho, or by
    that of Gaussian DP; see `adaptive_session.plan_adaptive`.
    """
    if not isinstance(asked, ApproxDP):
        return [(*adaptive_event(asked), False)]
    pure = PureDP(asked.epsilon)
    found: list[tuple[Event, Loss, bool]] = [(LaplaceEvent(asked.epsilon), pure, False)]
    if asked.delta > 0:
        smooth: Fraction | None = vectors_rho_for(asked.epsilon, asked.delta)
        found.append((*adaptive_event(asked, smooth), smooth is not None))
    return found


register_procedure(QuestionOver, plan_over_steps)
register_procedure(Tabulation, plan_by_algorithm)
register_procedure(MomentMatrix, plan_by_algorithm)
register_procedure(SteppedRegression, plan_by_algorithm)
