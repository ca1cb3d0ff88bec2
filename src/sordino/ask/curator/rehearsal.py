"""Rehearse a plan over invented rows, for audits: its releases many times over one scan, or once with the noise on record.

Nothing is charged, and exact values are handed out: so only a curator whose noise is seeded, which no durable ledger takes,
may be rehearsed, and whoever gives it true rows has published them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.ask.curator.aggregation_procedure import AggregationProcedure, NoisyVector
from sordino.ask.curator.plan import Answer, DataAccess, open_rows
from sordino.ask.queries.queryable import ReleaseContent
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.mechanisms.additive_noise import Mechanism
from sordino.core.noise.rng import Rng

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.curator.curator import Curator
    from sordino.ask.curator.plan import Plan
    from sordino.ask.engines.engine import Engine, Statement
    from sordino.core.primitives import Primitives


@dataclass(frozen=True, slots=True)
class RecordedNoise:
    """One vector before and after its noise, in whole steps, and how far a unit may move it."""

    name: str
    exact: tuple[int, ...]
    noisy: tuple[int, ...]
    l1: Fraction | None
    l2_squared: Fraction | None


def rehearse(curator: Curator, plan: Plan, *, runs: int, rng: Rng) -> list[Answer | ReleaseContent]:
    """Return what `runs` releases of a plan would hold, over one scan of the rows."""
    engine = _engine_of(curator)
    with (engine.open_tables(plan.reads) if plan.reads else engine).snapshot() as rows:
        one_scan: Any = _OneScan(rows)
        access = DataAccess(one_scan)
        statements = plan.procedure.write(access)
        return [plan.procedure.release(statements, access, rng) for _ in range(runs)]


def record_noise(curator: Curator, plan: Plan, rng: Rng) -> list[RecordedNoise]:
    """Return every vector of one release with its noise apart; QuestionRefused where not all noise is added to vectors."""
    procedure = plan.procedure
    if not isinstance(procedure, AggregationProcedure) or procedure.allocation.threshold is not None:
        raise QuestionRefused(
            "only noise that is added to counts and sums of declared keys is replayed: audit it by samples"
        )
    allocation = procedure.allocation
    records = list[RecordedNoise]()
    if any(s is not None for s in allocation.selections):
        raise QuestionRefused("a selection draws as often as the data makes it: audit it by samples")
    recorders = {v.place: _Recorder(v, records) for v in allocation.noisy}
    vectors = tuple(
        tuple(replace(v, mechanism=recorders[v.place]) if v.place in recorders else v for v in several)
        for several in allocation.vectors
    )
    recording = replace(procedure, allocation=replace(allocation, vectors=vectors))
    with open_rows(_engine_of(curator), plan.reads) as rows:
        recording.release(recording.write(rows), rows, rng)
    return records


def _engine_of(curator: Curator) -> Any:
    if curator._rng.private:
        raise DeclarationError("only seeded noise over invented rows is rehearsed: protect(..., rng=Rng.seeded(1))")
    return curator._engine


class _Recorder:
    """A mechanism that records each vector before and after its noise."""

    def __init__(self, vector: NoisyVector, records: list[RecordedNoise]) -> None:
        mechanism: Any = vector.mechanism
        self._name = f"{vector.column} ({vector.part.role})"
        self._mechanism = mechanism
        self._records = records
        self.event = mechanism.event
        self.law = mechanism.law
        # What the mechanism is made for; one from outside that states neither was made for what the plan declares.
        self._l1: Fraction | None = getattr(mechanism, "l1", None)
        self._l2_squared: Fraction | None = getattr(mechanism, "l2_squared", None)
        if self._l1 is None and self._l2_squared is None:
            self._l1 = vector.sensitivity.l1

    def release(self, exact: Sequence[int], rng: Rng) -> Sequence[int]:
        """Return the noisy vector."""
        mechanism: Mechanism = self._mechanism
        noisy = mechanism.release(exact, rng)
        vectors = (tuple(map(int, exact)), tuple(noisy))
        self._records.append(RecordedNoise(self._name, *vectors, self._l1, self._l2_squared))
        return noisy

    def describe(self) -> str:
        """Return the mechanism in words."""
        words: str = self._mechanism.describe()
        return words


class _OneScan:
    """An engine that runs each statement once, over rows that do not change, and repeats its answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # the table that each text gave
        self._tables: dict[str, pa.Table] = {}
        self.write = engine.write
        # a sample is fresh each time, so its scans are not kept
        self.sample = getattr(engine, "sample", None)

    @property
    def primitives(self) -> Primitives:
        """The primitives of the engine beneath."""
        return self._engine.primitives

    def run(self, statement: Statement) -> pa.Table:
        """Return the exact answer of a text."""
        if statement.text not in self._tables:
            self._tables[statement.text] = self._engine.run(statement)
        return self._tables[statement.text]
