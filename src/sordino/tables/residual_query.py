"""The residuals of a tabulation's tables as a query: exact vectors, and how far one unit moves them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.queryable import Scan
from sordino.ask.queries.tabulation import TabulationQuery, compile_tabulation
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.tables.residuals import residual_counts, residual_scale, residual_sensitivity

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ResidualQuery:
    """Ask for what each of the tables says beyond its own margins, in whole steps: `residual_counts` of its exact vector.

    A residual of a table with n cells is counted in steps of 1/n of the measure's own step. It has a sensitivity where
    margins are sums of cells: of counts of rows, and of sums.
    """

    marginals: TabulationQuery

    @property
    def unit(self) -> Fraction:
        """The measure's own step: the noisy steps of a residual are n times as fine."""
        return self.marginals.unit

    def parts(self, domain: Domain, neighbors: Neighbors) -> list[VectorShare]:
        """Return each residual's sensitivity, in its own steps, and its share of the loss."""
        compiled = compile_tabulation(self.marginals.question, domain)
        if not compiled.is_additive(self.marginals.measure):
            raise QuestionRefused("a count of different values has no residuals: its margins are no sums of its cells")
        bounds = compiled.vectors[self.marginals.measure].bounds or (0, 1)
        shares = [share for _, share in self.marginals.parts(domain, neighbors)]
        sizes = [[compiled.sizes[axis] for axis in axes] for axes in self.marginals.tables]
        return [(bound_residual(s, neighbors, bounds), share) for s, share in zip(sizes, shares, strict=True)]

    def names(self) -> list[str]:
        """Return a name for each vector."""
        return self.marginals.names()

    def describe(self) -> str:
        """Return the question as a sentence."""
        return f"what {self.marginals.describe()} says beyond its margins"

    def scans(self, domain: Domain) -> list[Scan]:
        """Return the SELECTs of the tables."""
        return self.marginals.scans(domain)

    def exact_vectors(self, tables: Sequence[pa.Table], domain: Domain) -> list[Any]:
        """Return the exact residuals, in steps."""
        compiled = compile_tabulation(self.marginals.question, domain)
        vectors = self.marginals.exact_vectors(tables, domain)
        shapes = [[compiled.sizes[axis] for axis in axes] for axes in self.marginals.tables]
        return [residual_counts(np.reshape(v, s)).reshape(-1) for v, s in zip(vectors, shapes, strict=True)]


def bound_residual(sizes: Sequence[int], neighbors: Neighbors, bounds: tuple[int, int]) -> Sensitivity:
    """Return how far one unit moves the residual of a table whose rows add a value within `bounds`, in steps, to their cell.

    Theorem. A unit of C rows changes the table by d = u - v, v = 0 under add_remove, and each of u and v is a sum of C terms
    x e_a with x in [l, h], or 0 where a row drops out. With M = max(|l|, |h|) and x of one sign, u and v are of one sign with
    an l1 norm of at most C M: the bounds of `residual_sensitivity` hold for C M rows. Where l < 0 < h, norms are largest at
    vertices, which are two terms of one sign, as before, or d = C (h e_a - l e_b), whose residual has, by the triangle
    inequality, at most (h - l) C times the norm of one cell's, and exactly that where a = b.

    >>> bound_residual([2, 3], Neighbors("replace", None), (0, 1)).l2_squared
    Fraction(48, 1)
    """
    enforced = neighbors.enforce(None, by_group=False)
    rows = enforced.contributions
    low, high = bounds
    most = max(abs(low), abs(high)) * rows
    cells = residual_scale(sizes)
    if most == 0 or (sizes and min(sizes) == 1):
        return Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), "its cells follow from its margins")
    l1, l2_squared = residual_sensitivity(sizes, relation=neighbors.relation, rows=most)
    if neighbors.relation == "replace":
        one_l1, one_l2 = residual_sensitivity(sizes, relation="add_remove", rows=1)
        apart = rows * (max(high, 0) - min(low, 0))
        l1 = max(l1, apart * one_l1)
        l2_squared = max(l2_squared, apart**2 * one_l2)
    because = f"{neighbors.relation} of {rows} row(s) moves the residual of {' x '.join(map(str, sizes)) or 1} cells"
    # No entry moves by more than all together, nor by more than the vector is long.
    return Sensitivity(cells, l1, l2_squared, _root_above(l2_squared, l1), because)


def _root_above(l2_squared: Fraction, l1: Fraction) -> Fraction:
    """Return a whole bound of the largest entry: the root of the squared length, rounded up, or the l1 norm if that is less."""

    root = math.isqrt(math.ceil(l2_squared))
    return min(l1, Fraction(root if root**2 >= l2_squared else root + 1))
