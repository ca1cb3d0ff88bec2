"""What tests look into behind a curator and a plan; no other test file reaches for a private member of either."""

from __future__ import annotations

from sordino.curator.aggregation_procedure import AggregationProcedure
from sordino.curator.allocation import Allocation
from sordino.curator.curator import Curator
from sordino.curator.data_access import DataAccess
from sordino.curator.most_common_procedure import MostCommonProcedure
from sordino.curator.plan import Plan
from sordino.engines.duckdb import DuckDBEngine
from sordino.mechanisms.exponential import Exponential
from sordino.mechanisms.permute_and_flip import PermuteAndFlip

__all__ = ["allocation_of", "data_access_of", "engine_behind", "mechanism_of"]


def allocation_of(plan: Plan) -> Allocation:
    """Return how the plan of counts, sums and what follows from them divides its loss."""
    assert isinstance(plan.procedure, AggregationProcedure)
    return plan.procedure.allocation


def mechanism_of(plan: Plan) -> Exponential | PermuteAndFlip:
    """Return the selection of a plan for a most common value."""
    assert isinstance(plan.procedure, MostCommonProcedure)
    return plan.procedure.mechanism


def engine_behind(curator: Curator) -> DuckDBEngine:
    """Return the engine of a curator's table."""
    engine = curator._engine
    assert isinstance(engine, DuckDBEngine)
    return engine


def data_access_of(curator: Curator) -> DataAccess:
    """Return the only way by which procedures read a curator's table."""
    return DataAccess(engine_behind(curator))
