"""Planning: from a question that is read to its Plan; and whether a plan handed in is still that. Knows no data."""

from __future__ import annotations

from typing import Any

from sordino.ask.curator.aggregation_procedure import AggregationProcedure, plan_aggregation
from sordino.ask.curator.most_common_procedure import plan_most_common
from sordino.ask.curator.plan import EQUAL, LossSplit, Plan, PlannedQuestion, TableContext
from sordino.ask.curator.question_reading import Whole, bind_tables, register_procedure, registered_procedure
from sordino.ask.curator.statement_procedure import StatementQuestion, plan_statement
from sordino.ask.queries.aggregates.most_common import MostCommon
from sordino.ask.queries.aggregation import Aggregation
from sordino.ask.queries.planning_watch import check_planning
from sordino.ask.queries.query import refuse_foreign
from sordino.ask.queries.sql.parse import SqlText
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import Loss


def is_batch(question: object) -> bool:
    """Return whether this is a list of whole questions, or several SELECTs; a list of aggregates is one question."""
    if isinstance(question, SqlText):
        return len(question.statements()) > 1
    return isinstance(question, (list, tuple)) and any(isinstance(q, Whole) for q in question)


def plan_question(
    question: PlannedQuestion,
    table: TableContext,
    *,
    asked: Loss,
    assume_rows: int | None = None,
    assume_mean: float | None = None,
    split: LossSplit = EQUAL,
) -> Plan:
    """Return the plan of a question that is understood, at the loss asked; raises QuestionRefused where it has none."""
    check_planning()
    registered = registered_procedure(question)
    if registered is None or not registered.provider:
        refuse_foreign(question)
    if not isinstance(question, Aggregation) and not split.is_equal:
        raise DeclarationError("this question has one answer, which gets the whole loss: leave weights and share out")
    if registered is not None:
        return registered.plan_question(question, table, asked=asked)
    assert isinstance(question, Aggregation)
    try:
        return plan_aggregation(
            question, table, asked=asked, assume_rows=assume_rows, assume_mean=assume_mean, split=split
        )
    except QuestionRefused:
        plan = _plan_unbounded(question, table, asked, assume_rows) if split.is_equal else None
        if plan is None:
            raise
        return plan


def _plan_unbounded(question: Aggregation, table: TableContext, asked: Loss, assume_rows: int | None) -> Plan | None:
    """Return the plan of means of numbers without bounds, if that is why a question was refused."""
    from sordino.ask.curator.found_bounds_procedure import plan_with_found_bounds

    return plan_with_found_bounds(question, table, asked=asked, assume_rows=assume_rows)


def plan_again(given: Plan, table: TableContext) -> Plan:
    """Return the plan that the question and the loss of a plan have now; raises DeclarationError where it is another.

    What runs is the plan made here, never one that was handed in.
    """
    if (given.declaration, given.table_name) != (table.declaration, table.name):
        raise DeclarationError("this plan was made for another table or declaration: plan again")
    asked: Any = given.question
    if isinstance(asked, Aggregation):  # no second parse: the public tables alone are found again
        asked = bind_tables(asked, table, names="resolved")
    guesses = {name: getattr(given.procedure, name, None) for name in ("assume_rows", "assume_mean")}
    split = LossSplit(exact=tuple(getattr(given.procedure, "weights", ())))
    plan = plan_question(asked, table, asked=given.asked, split=split, **guesses)
    refuse_altered(given, plan)
    return plan


def refuse_altered(given: Plan, priced: Plan) -> None:
    """Raise DeclarationError where a plan is not the one that its question and loss have now."""
    if (given.event, given.cost, _noise(given)) != (priced.event, priced.cost, _noise(priced)):
        raise DeclarationError(
            "this plan does not match what its question costs here: its mechanisms, event or cost were altered, or the budget "
            "now counts differently; plan again"
        )


def _noise(plan: Plan) -> object:
    """Return what a plan would draw."""
    procedure = plan.procedure
    if isinstance(procedure, AggregationProcedure):
        allocation = procedure.allocation
        vectors = [[(v.sensitivity, v.mechanism) for v in several] for several in allocation.vectors]
        # Which keys there are follows from the rows of public tables too, which may be others by now.
        labels = [key.labels for key in allocation.resolved.keys]
        return vectors, allocation.threshold, [s and s.event for s in allocation.selections], labels
    return getattr(procedure, "mechanism", None)


register_procedure(MostCommon, plan_most_common)
register_procedure(StatementQuestion, plan_statement)
