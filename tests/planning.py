"""What tests look into behind a curator and a plan; no other test file reaches for a private member of either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sordino.ask.curator.aggregation_procedure import AggregationProcedure, Allocation
from sordino.ask.curator.curator import Curator
from sordino.ask.curator.most_common_procedure import MostCommonProcedure
from sordino.ask.curator.plan import DataAccess, Plan
from sordino.ask.engines.duckdb import DuckDBEngine, FileVersions
from sordino.ask.queries.aggregation import Aggregation
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import SharedNoise
from sordino.core.mechanisms.selection import Exponential, PermuteAndFlip
from sordino.core.noise.rng import Rng
from sordino.core.noise.truncated_laplace import TruncatedLaplace


def allocation_of(plan: Plan) -> Allocation:
    """Return how the plan of counts, sums and what follows from them divides its loss."""
    assert isinstance(plan.procedure, AggregationProcedure)
    return plan.procedure.allocation


def draw_estimate(plan: Plan, place: int, exact: Sequence[int], rng: Rng, *, runs: int) -> Any:
    """Return the estimate of one aggregate with one exact value a part, drawn `runs` times: a run a row.

    The vectors that it reads are those of which its parts follow: as many as parts, so their values follow from the parts'.
    """
    allocation, question = allocation_of(plan), plan.question
    assert isinstance(question, Aggregation)
    several, mix = allocation.vectors[place], allocation.mixes[place] if allocation.mixes else ()
    values = np.array([float(v) for v in exact])
    if mix:
        values = np.linalg.solve(np.array(mix, dtype=float), values) if len(mix) > 1 else values / float(mix[0][0])
    noisy = []
    for vector, value in zip(several, values, strict=True):
        law = vector.mechanism.law
        assert not isinstance(law, TruncatedLaplace)
        noise = law.sample(rng, size=runs)
        noisy.append(Noisy(tuple(round(value) + int(z) for z in noise), vector.part.unit, law))
    shared = SharedNoise(mix, tuple(v.place for v in several)) if mix else None
    return question.aggregates[place].estimate(allocation.resolved.parts[place], noisy, shared)


def mechanism_of(plan: Plan) -> Exponential | PermuteAndFlip:
    """Return the selection of a plan for a most common value."""
    assert isinstance(plan.procedure, MostCommonProcedure)
    return plan.procedure.mechanism


def engine_behind(curator: Curator) -> DuckDBEngine:
    """Return the engine of a curator's table, as its files are now."""
    versions = curator._engine
    assert isinstance(versions, FileVersions)
    with versions.snapshot() as engine:
        return engine


def data_access_of(curator: Curator) -> DataAccess:
    """Return the only way by which procedures read a curator's table."""
    return DataAccess(engine_behind(curator))
