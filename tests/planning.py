"""The parts of a plan that tests look into."""

from __future__ import annotations

from sordino.curator.aggregation_procedure import AggregationProcedure
from sordino.curator.allocation import Allocation
from sordino.curator.most_common_procedure import MostCommonProcedure
from sordino.curator.plan import Plan
from sordino.mechanisms.exponential import Exponential
from sordino.mechanisms.permute_and_flip import PermuteAndFlip

__all__ = ["allocation_of", "mechanism_of"]


def allocation_of(plan: Plan) -> Allocation:
    """Return how the plan of counts, sums and what follows from them divides its loss."""
    assert isinstance(plan.procedure, AggregationProcedure)
    return plan.procedure.allocation


def mechanism_of(plan: Plan) -> Exponential | PermuteAndFlip:
    """Return the selection of a plan for a most common value."""
    assert isinstance(plan.procedure, MostCommonProcedure)
    return plan.procedure.mechanism
