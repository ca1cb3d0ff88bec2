"""The residuals of a tabulation's tables as a query: exact vectors, and how far one unit moves them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.ask.queries.adaptive.marginal import VectorShare
from sordino.ask.queries.queryable import Scan
from sordino.ask.queries.tabulation import CompiledTabulation, TabulationQuery, compile_tabulation
from sordino.core.domain import Domain
from sordino.core.errors import QuestionRefused
from sordino.core.neighbors import Neighbors, Relation, Sensitivity
from sordino.tables.range_basis import RangeBasis, basis_counts, basis_sensitivity, find_range_basis
from sordino.tables.residuals import joint_rho, residual_scale, residual_sensitivity

if TYPE_CHECKING:
    import pyarrow as pa

# A joint factor is rounded up to a multiple of its inverse.
_GRAINS = 1 << 20


@dataclass(frozen=True, slots=True)
class ResidualQuery:
    """Ask for what each of the tables says beyond its own margins, in whole steps: `residual_counts` of its exact vector.

    A residual of a table with n cells is counted in steps of 1/n of the measure's own step. It has a sensitivity where
    margins are sums of cells: of counts of rows, and of sums. Ordered columns are measured in a basis of ranges.
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
        bases = [bases_of(compiled, axes) for axes in self.marginals.tables]
        moved = [bound_residual(s, neighbors, bounds, basis) for s, basis in zip(sizes, bases, strict=True)]
        joint = Fraction(1)
        if not find_bases(compiled):
            joint = bound_together(compiled.sizes, self.marginals.tables, tuple(shares), neighbors, bounds)
        return [(replace(one, joint=joint), share) for one, share in zip(moved, shares, strict=True)]

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
        bases = [bases_of(compiled, axes) for axes in self.marginals.tables]
        return [
            basis_counts(np.reshape(vector, shape), basis).reshape(-1)
            for vector, shape, basis in zip(vectors, shapes, bases, strict=True)
        ]


def find_bases(compiled: CompiledTabulation) -> dict[int, RangeBasis]:
    """Return the basis of ranges of each ordered column, by its place; a column of one key needs none."""
    aliases = [key.alias for key in compiled.question.keys]
    places = [aliases.index(name) for name in compiled.question.ordered]
    return {place: find_range_basis(compiled.sizes[place]) for place in places if compiled.sizes[place] > 1}


def bases_of(compiled: CompiledTabulation, axes: Sequence[int]) -> list[RangeBasis | None]:
    """Return the basis of each axis of a table, None where single keys are measured."""
    bases = find_bases(compiled)
    return [bases.get(axis) for axis in axes]


def bound_residual(
    sizes: Sequence[int],
    neighbors: Neighbors,
    bounds: tuple[int, int],
    bases: Sequence[RangeBasis | None] | None = None,
) -> Sensitivity:
    """Return how far one unit moves the residual of a table whose rows add a value within `bounds`, in steps, to their cell.

    Theorem. A unit of C rows changes the table by d = u - v, v = 0 under add_remove, and each of u and v is a sum of C terms
    x e_a with x in [l, h], or 0 where a row drops out. With M = max(|l|, |h|) and x of one sign, u and v are of one sign with
    an l1 norm of at most C M: the bounds of `residual_sensitivity` hold for C M rows. Where l < 0 < h, norms are largest at
    vertices, which are two terms of one sign, as before, or d = C (h e_a - l e_b), whose residual has, by the triangle
    inequality, at most (h - l) C times the norm of one cell's, and exactly that where a = b. In `bases` of ranges the same
    holds of the columns that `basis_sensitivity` bounds.

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
    bases = bases or [None] * len(sizes)

    def bound(relation: Relation, count: int) -> tuple[Fraction, Fraction]:
        if any(basis is not None for basis in bases):
            return basis_sensitivity(sizes, bases, relation=relation, rows=count)
        return residual_sensitivity(sizes, relation=relation, rows=count)

    l1, l2_squared = bound(neighbors.relation, most)
    if neighbors.relation == "replace":
        one_l1, one_l2 = bound("add_remove", 1)
        apart = rows * (max(high, 0) - min(low, 0))
        l1 = max(l1, apart * one_l1)
        l2_squared = max(l2_squared, apart**2 * one_l2)
    because = f"{neighbors.relation} of {rows} row(s) moves the residual of {' x '.join(map(str, sizes)) or 1} cells"
    # No entry moves by more than all together, nor by more than the vector is long.
    return Sensitivity(cells, l1, l2_squared, _root_above(l2_squared, l1), because)


@functools.lru_cache(maxsize=64)
def bound_together(
    sizes: tuple[int, ...],
    tables: tuple[tuple[int, ...], ...],
    shares: tuple[Fraction, ...],
    neighbors: Neighbors,
    bounds: tuple[int, int],
) -> Fraction:
    """Return the joint factor of the residuals of all tables: see `noise_choice.cheapest`.

    Theorem. The change of all residuals together is linear in that of the rows, and its squared length, with any weights of the
    residuals, is convex: it is largest at the vertices of `bound_residual`, each taken for all residuals at once. Rows in two
    cells are those of `joint_rho`. A positive value exchanged for a negative one moves every residual as far as it may in one
    cell. Each is less than the sum of the single bounds where one pair of cells cannot be the worst for every residual: cells
    that agree on all axes of a residual do not move it.

    >>> bound_together((3, 4), ((), (0,), (1,), (0, 1)), (Fraction(1, 4),) * 4, Neighbors("replace", None), (0, 1))
    Fraction(167481, 262144)
    """
    single = [bound_residual([sizes[axis] for axis in axes], neighbors, bounds).l2_squared for axes in tables]
    total = sum(share for share, length in zip(shares, single, strict=True) if length)
    if neighbors.relation == "add_remove" or not total:
        return Fraction(1)
    low, high = bounds
    rows = neighbors.enforce(None, by_group=False).contributions
    # At this noise each residual costs its share.
    sigma_squared = {
        axes: length / (2 * share) for axes, share, length in zip(tables, shares, single, strict=True) if length
    }
    most = max(abs(low), abs(high)) * rows
    worst = joint_rho(sizes, sigma_squared, relation="replace", rows=most)
    apart = rows * (max(high, 0) - min(low, 0))
    if low < 0 < high:
        worst = max(worst, joint_rho(sizes, sigma_squared, relation="add_remove", rows=apart))
    # Up to a short fraction, so that noise is drawn with one.
    grains = math.ceil(worst / total * _GRAINS)
    return min(Fraction(1), Fraction(grains, _GRAINS))


def _root_above(l2_squared: Fraction, l1: Fraction) -> Fraction:
    """Return a whole bound of the largest entry: the root of the squared length, rounded up, or the l1 norm if that is less."""

    root = math.isqrt(math.ceil(l2_squared))
    return min(l1, Fraction(root if root**2 >= l2_squared else root + 1))
