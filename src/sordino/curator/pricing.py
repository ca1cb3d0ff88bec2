"""Pricing: the plan of any question, and whether a plan that was handed in is still what its question costs."""

from __future__ import annotations

from typing import Any, TypeAlias

from sordino.curator.choice import ChoicePlan, make_choice_plan
from sordino.curator.plan import Plan, make_plan
from sordino.curator.robust import RobustPlan, make_robust_plan
from sordino.errors import DeclarationError
from sordino.queries.aggregates.most_common import MostCommon
from sordino.queries.aggregates.robust import Robust
from sordino.queries.aggregation import Aggregation
from sordino.queries.own import refuse_foreign

__all__ = ["AnyPlan", "price", "refuse_altered"]

AnyPlan: TypeAlias = Plan | RobustPlan | ChoicePlan


def price(question: Aggregation | Robust | MostCommon, *, assume_rows: Any, assume_mean: Any, **words: Any) -> AnyPlan:
    """Return the plan of a question that is understood; `words` are the curator's own: declaration, loss and cap."""
    refuse_foreign(question)
    if isinstance(question, Robust):
        return make_robust_plan(question, **words)
    if isinstance(question, MostCommon):
        return make_choice_plan(question, **words)
    return make_plan(question, assume_rows=assume_rows, assume_mean=assume_mean, **words)


def refuse_altered(given: AnyPlan, priced: AnyPlan) -> None:
    """Raise DeclarationError where a plan is not the one that its question and loss have now."""
    if (given.event, given.cost) != (priced.event, priced.cost) or _noise(given) != _noise(priced):
        raise DeclarationError(
            "this plan is not what its question costs here: its mechanisms, event or cost were altered, or the budget counts "
            "otherwise now; plan again"
        )


def _noise(plan: AnyPlan) -> object:
    """Return what a plan would draw."""
    if not isinstance(plan, Plan):
        return plan.mechanism
    vectors = [[(p.sensitivity, p.mechanism) for p in several] for several in plan.parts]
    return vectors, plan.answered.threshold, [s and s.event for s in plan.answered.selections]
