"""What the tests of synthesizers share: a Queryable over columns of codes that draws exact noise and records every access."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.accounting.zcdp import rho_for
from sordino.domain import Domain
from sordino.estimate import Noisy
from sordino.loss import ZCDP, ApproxDP, Loss, PureDP
from sordino.mechanisms.gaussian import gaussian_for_rho
from sordino.mechanisms.laplace import Laplace
from sordino.mechanisms.mechanism import Mechanism
from sordino.neighbors import Neighbors, Sensitivity
from sordino.noise.rng import Rng
from sordino.release import Output, Release


@dataclass
class RecordingQueryable:
    """Answer Marginals and Distances over `keys`, one array of declared keys a column (-1: left out); record each access."""

    domain: Domain
    keys: dict[str, Any]
    loss: Loss
    rng: Rng
    neighbors: Neighbors = field(default_factory=lambda: Neighbors("add_remove", None))
    accesses: list[tuple[Any, Loss]] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)

    def release(self, query: Any, loss: Loss) -> Release:
        """Return the query's exact vectors with noise of the cheapest mechanism."""
        self.accesses.append((query, loss))
        assert self.spent() <= self.allowed()
        parts = query.parts(self.domain, self.neighbors)
        mechanisms = [_mechanism(s, share, loss) for s, share in parts]
        vectors = query.from_counts([self._counted(t) for t in query.tables], self.domain)
        outputs = []
        for name, mechanism, vector in zip(query.names(), mechanisms, vectors, strict=True):
            drawn = mechanism.law.sample(self.rng, size=len(vector))
            noisy = Noisy(np.asarray(vector + drawn), query.unit, mechanism.law)  # type: ignore[arg-type]
            outputs.append(Output(name, noisy, mechanism.describe()))
        return Release(
            question=query.describe(), keys=(), outputs=tuple(outputs), cost=loss, spent=loss, remaining=loss, 
            event=mechanisms[0].event,
            neighbors=self.neighbors.relation, privacy_unit="one row", declaration="", charge="", table_name="test", time="",
        )  # fmt: skip

    def spent(self) -> Fraction:
        """Return the sum of what was asked, in the session's currency."""
        kinds = {type(loss) for _, loss in self.accesses}
        assert len(kinds) <= 1, "one session, one currency"
        return sum((next(iter(loss.amounts().values())) for _, loss in self.accesses), Fraction(0))

    def allowed(self) -> Fraction:
        """Return the session's whole loss, in that currency."""
        if isinstance(self.loss, ZCDP):
            return self.loss.rho
        if isinstance(self.loss, ApproxDP) and self.loss.delta > 0:
            return rho_for(self.loss.epsilon, self.loss.delta)
        assert isinstance(self.loss, (PureDP, ApproxDP))
        return self.loss.epsilon

    def _counted(self, table: Any) -> tuple[Any, Any]:
        grouping = table.grouping()
        if grouping not in self.cache:
            sizes = [len(a.keys(self.domain).labels) for a in grouping]
            place = np.zeros(len(next(iter(self.keys.values()))), dtype=np.int64)
            kept = np.ones(len(place), dtype=bool)
            for axis, size in zip(grouping, sizes, strict=True):
                found = self.keys[axis.column]
                kept &= found >= 0
                place = place * size + np.maximum(found, 0)
            cells, counts = np.unique(place[kept], return_counts=True)
            self.cache[grouping] = (np.stack(np.unravel_index(cells, sizes), axis=1), counts)
        return self.cache[grouping]


def _mechanism(sensitivity: Sensitivity, share: Fraction, loss: Loss) -> Mechanism:
    if isinstance(loss, ZCDP):
        return gaussian_for_rho(l2_squared=sensitivity.l2_squared, rho=loss.rho * share)
    assert isinstance(loss, PureDP)
    return Laplace(sensitivity.l1, loss.epsilon * share)
