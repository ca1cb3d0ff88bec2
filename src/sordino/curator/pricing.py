"""Pricing: the plan of any question, and whether a plan that was handed in is still what its question costs."""

from __future__ import annotations

from sordino.curator.aggregation_procedure import AggregationProcedure, plan_aggregation
from sordino.curator.most_common_procedure import plan_most_common
from sordino.curator.plan import Plan
from sordino.curator.robust_procedure import plan_robust
from sordino.curator.table_context import TableContext
from sordino.errors import DeclarationError
from sordino.loss import Loss
from sordino.queries.aggregates.most_common import MostCommon
from sordino.queries.aggregates.robust import Robust
from sordino.queries.aggregation import Aggregation
from sordino.queries.own import refuse_foreign

__all__ = ["plan_question", "refuse_altered"]


def plan_question(
    question: Aggregation | Robust | MostCommon,
    table: TableContext,
    *,
    asked: Loss,
    assume_rows: int | None = None,
    assume_mean: float | None = None,
) -> Plan:
    """Return the plan of a question that is understood, at the loss asked; raises QuestionRefused where it has none."""
    refuse_foreign(question)
    if isinstance(question, Robust):
        return plan_robust(question, table, asked=asked)
    if isinstance(question, MostCommon):
        return plan_most_common(question, table, asked=asked)
    return plan_aggregation(question, table, asked=asked, assume_rows=assume_rows, assume_mean=assume_mean)


def refuse_altered(given: Plan, priced: Plan) -> None:
    """Raise DeclarationError where a plan is not the one that its question and loss have now."""
    if (given.event, given.cost, _noise(given)) != (priced.event, priced.cost, _noise(priced)):
        raise DeclarationError(
            "this plan is not what its question costs here: its mechanisms, event or cost were altered, or the budget counts "
            "otherwise now; plan again"
        )


def _noise(plan: Plan) -> object:
    """Return what a plan would draw."""
    procedure = plan.procedure
    if isinstance(procedure, AggregationProcedure):
        allocation = procedure.allocation
        vectors = [[(v.sensitivity, v.mechanism) for v in several] for several in allocation.vectors]
        return vectors, allocation.threshold, [s and s.event for s in allocation.selections]
    return getattr(procedure, "mechanism", None)
