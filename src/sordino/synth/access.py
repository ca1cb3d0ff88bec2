"""What a synthesizer may do with a Queryable: release tables of counts, and distances of tables to public models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sordino.domain import Domain
from sordino.estimates.noisy import Law, Noisy
from sordino.loss import Loss
from sordino.neighbors import Neighbors
from sordino.queries.adaptive.distance_to import PARTS, Distances
from sordino.queries.adaptive.marginal import ContingencyTable, MarginalQuery
from sordino.release import Release
from sordino.synth.projection import Floats

__all__ = ["Data", "NoisyTable", "release_counts", "release_vectors"]

_LEAST = 1e-12  # a variance that underflows is still not zero


class Data(Protocol):
    """The part of Queryable that synthesizers use."""

    @property
    def domain(self) -> Domain:
        """What is declared about the table."""

    @property
    def neighbors(self) -> Neighbors:
        """Which tables count as neighbors."""

    @property
    def loss(self) -> Loss:
        """What the whole session may spend; charged already."""

    def release(self, query: Any, loss: Loss) -> Release:
        """Return the noisy answer to a query at a part of the loss."""


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """A noisy table of counts: its cells, the variance of the noise in each, and its law, None where several are combined."""

    cells: Floats
    variance: float
    law: Law | None = None


def release_counts(
    data: Data, tables: Sequence[ContingencyTable], loss: Loss, *, shares: Sequence[Fraction] | None = None
) -> list[NoisyTable]:
    """Return the noisy counts of each table, shaped as its axes."""
    made = data.release(MarginalQuery(tuple(tables), None if shares is None else tuple(shares)), loss)
    found = []
    for table, output in zip(tables, made.outputs, strict=True):
        steps, unit, variance = _noisy(output.estimate)
        law = estimate.law if isinstance(estimate := output.estimate, Noisy) else None
        found.append(NoisyTable((steps * unit).reshape(table.shape(data.domain)), variance * unit**2, law))
    return found


def release_vectors(
    data: Data, tables: Sequence[ContingencyTable], models: Sequence[Floats], loss: Loss
) -> tuple[Floats, float]:
    """Return the noisy l1 distance of each table to its model, in rows, and the variance of the noise."""
    whole = tuple(np.rint(m.ravel() * PARTS).astype(np.int64) for m in models)
    made = data.release(Distances(tuple(tables), whole), loss)
    steps, unit, variance = _noisy(made.outputs[0].estimate)
    return steps * unit, variance * unit**2


def _noisy(estimate: object) -> tuple[Floats, float, float]:
    if not isinstance(estimate, Noisy):
        raise TypeError("a table of counts is released as noisy whole numbers")
    variance = max(float(estimate.law.variance()), _LEAST)
    if not math.isfinite(variance):
        raise ValueError("noise without a variance")
    return np.asarray(estimate.steps, dtype=np.float64), float(estimate.unit), variance
