"""DataAccess: what a plan may do with the data once it is charged - build trees in the engine's words, and run them.

It is the only way from a plan to the exact answers; what comes out of it never leaves the curator without noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

from sordino.domain import Domain
from sordino.noise.rng import Rng
from sordino.primitives import Primitives
from sordino.queries.joins import Join, join_tables
from sordino.release import Key, Output

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sordino.engines.engine import Engine

__all__ = ["Answer", "DataAccess"]

Answer = tuple[tuple[Key, ...], tuple[Output, ...]]


class DataAccess:
    """Run trees over the curator's table; made by the curator after the charge, and given to one plan."""

    def __init__(self, engine: Engine, *, joins: Sequence[Join] = (), domain: Domain | None = None) -> None:
        self._engine = engine
        self._joins = joins
        self._domain = domain

    def join(self, joins: Sequence[Join], domain: Domain) -> DataAccess:
        """Return the rows joined with public tables; `domain` declares the columns of both."""
        return DataAccess(self._engine, joins=joins, domain=domain)

    @contextmanager
    def sample(self, rate: Fraction, rng: Rng) -> Iterator[DataAccess]:
        """Draw a Poisson sample, each unit with chance `rate` rounded down to 2^-64, and forget it at the end."""
        drawn = self._engine.sample(threshold=math.floor(rate * 2**64), key=rng.bytes(32))
        try:
            yield DataAccess(drawn, joins=self._joins, domain=self._domain)
        finally:
            drawn.close()

    def primitives(self) -> Primitives:
        """Return the words for one tree; take new ones for each."""
        words = self._engine.primitives
        return words if self._domain is None else join_tables(words, self._joins, self._domain)

    def run(self, select: exp.Select) -> pa.Table:
        """Return the exact answer of a tree; raises EngineFailed, without any of the engine's words."""
        return self._engine.run(select)
