"""Distances: how far several tables of counts lie from public models of them, each as one number. Knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.ask.queries.adaptive.marginal import (
    ContingencyTable,
    Integers,
    SparseCounts,
    VectorShare,
    join_words,
)
from sordino.ask.queries.sensitivity_rules import stack
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity

# the parts of a row in which models, and so distances, are measured
PARTS = 1024
# the most parts in a cell of a model: sums of differences stay within 63 bits
_LARGEST = 2**52


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """The l1 distances between exact tables of counts and their public models, as one vector.

    `models` gives for each table its cells, flat in row-major order, as whole numbers of `1 / PARTS` rows.

    Theorem: | ||x - m||_1 - ||x' - m||_1 | <= ||x - x'||_1, so a unit moves each distance by at most the l1 sensitivity of
    its table (C under add_remove, 2C under replace), and k of them by sqrt(k) times that in l2.
    """

    tables: tuple[ContingencyTable, ...]
    models: tuple[Integers, ...]

    @property
    def unit(self) -> Fraction:
        """The step in which the distances are measured."""
        return Fraction(1, PARTS)

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return the sensitivity, in whole steps, of the one vector, which gets the whole loss."""
        return [(self.sensitivity(domain, neighbors).rescale(1 / self.unit), Fraction(1))]

    def sensitivity(self, domain: Domain, neighbors: Neighbors) -> Sensitivity:
        """Return how far one unit moves all distances together, in rows."""
        if not self.tables or len(self.tables) != len(self.models):
            raise QuestionRefused("distances take one table or more, and a model of each")
        moved: list[Sensitivity] = []
        for table, model in zip(self.tables, self.models, strict=True):
            if model.dtype != np.int64 or model.shape != (int(np.prod(table.shape(domain))),):
                raise QuestionRefused("a model is a flat array of int64 with one number a cell of its table")
            if model.size and max(int(model.max()), -int(model.min())) > _LARGEST // model.size:
                raise QuestionRefused("a model's counts are too large to measure a distance to")
            move = table.sensitivity(domain, neighbors)
            because = f"a distance moves as far as its table: {move.because}"
            moved.append(Sensitivity(1, move.l1, move.l1**2, move.l1, because))
        return stack(moved)

    def from_counts(self, counted: Sequence[SparseCounts], domain: Domain) -> list[Integers]:
        """Return the exact vector of distances, in steps, from the sparse exact counts of each table."""
        exact_distances = [
            int(np.abs(t.encode(c, domain) * PARTS - m).sum())
            for t, c, m in zip(self.tables, counted, self.models, strict=True)
        ]
        return [np.array(exact_distances, dtype=np.int64)]

    def names(self) -> list[str]:
        """Return a name for the vector."""
        return ["distance"]

    def describe(self) -> str:
        """Return the question as a sentence."""
        words = join_words([t.name for t in self.tables])
        return f"how far the number of rows by {words} lies from a public model"
