"""What a fit may ask, and what it pays: shares of one loss, noisy tables of counts, distances to public models.

All goes through a Queryable; nothing here sees data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from sordino.ask.queries.adaptive.distance_to import PARTS, Distances
from sordino.ask.queries.adaptive.marginal import ContingencyTable, MarginalQuery
from sordino.ask.queries.queryable import Queryable
from sordino.ask.queries.sensitivity_rules import count_sensitivity
from sordino.core.accounting.gaussian_dp import vectors_rho_for
from sordino.core.accounting.zcdp import rho_for
from sordino.core.errors import DeclarationError, arg
from sordino.core.estimates.noisy import Noisy
from sordino.core.loss import ZCDP, ApproxDP, Loss, PureDP
from sordino.core.neighbors import Neighbors
from sordino.core.noise.laws import NoiseLaw
from sordino.core.noise.rng import Rng
from sordino.core.release import Output
from sordino.synth.arrays import Floats
from sordino.synth.encoded_column import EncodedColumn
from sordino.synth.one_way_marginals import OneWayMarginals, estimate_one_way

_FINE = 1 << 30  # parts that shares are counted in
_LEAST = 1e-12  # a variance that underflows is still not zero
_MARGIN = Fraction(1, 1 << 40)  # of epsilon: sums of it are rounded up where they are counted


@dataclass(frozen=True, slots=True)
class LossShares:
    """The whole loss in one currency, epsilon or rho, and what one unit moves a table of counts by."""

    currency: Literal["epsilon", "rho"]
    total: Fraction
    delta: Fraction | None
    move_l1: Fraction
    move_l2_squared: Fraction

    def loss(self, share: Fraction) -> Loss:
        """Return the loss that is a share of the whole."""
        return PureDP(self.total * share) if self.currency == "epsilon" else ZCDP(self.total * share, self.delta)

    def variance(self, share: Fraction | float, *, tables: int) -> float:
        """Return the variance of each cell where `tables` tables of counts share this share of the loss equally."""
        if float(share) <= 0:
            return math.inf
        paid = float(self.total) * float(share)
        if self.currency == "epsilon":
            return 2.0 * (float(self.move_l1) * tables / paid) ** 2
        return float(self.move_l2_squared) * tables / (2.0 * paid)


def split_loss(loss: Loss, neighbors: Neighbors) -> LossShares:
    """Return how to spend a loss: pure losses as epsilon, (epsilon, delta) as the rho of vectors that implies it, rho as it is.

    Raises DeclarationError for a loss of nothing.
    """
    moved = count_sensitivity(neighbors, cells=2, droppable=True)
    # a table of two cells moves as far as any larger one in l1 and l2: C, C under add_remove; 2C, sqrt(2) C under replace
    if isinstance(loss, ZCDP):
        made = LossShares("rho", loss.rho, loss.delta, moved.l1, moved.l2_squared)
    elif isinstance(loss, ApproxDP) and loss.delta > 0:
        rho = vectors_rho_for(loss.epsilon, loss.delta) or rho_for(loss.epsilon, loss.delta)
        made = LossShares("rho", rho, loss.delta, moved.l1, moved.l2_squared)
    else:
        made = LossShares("epsilon", loss.epsilon, None, moved.l1, moved.l2_squared)
    if made.total <= 0:
        raise DeclarationError(
            f"a synthetic table needs a loss above 0: give {arg('epsilon=')}, "
            f"{arg('epsilon=')} and {arg('delta=')}, or {arg('rho=')}"
        )
    return made


def share_of(value: float) -> Fraction:
    """Return a share as an exact fraction, rounded down.

    >>> share_of(0.35) <= Fraction(35, 100)
    True
    """
    return Fraction(math.floor(value * _FINE), _FINE)


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """A noisy table of counts: its cells, the variance of the noise in each, and its law, None where several are combined."""

    cells: Floats
    variance: float
    law: NoiseLaw | None = None


def release_counts(
    data: Queryable, tables: Sequence[ContingencyTable], loss: Loss, *, shares: Sequence[Fraction] | None = None
) -> list[NoisyTable]:
    """Return the noisy counts of each table, shaped as its axes."""
    made = data.release(MarginalQuery(tuple(tables), None if shares is None else tuple(shares)), loss)
    found = [_noisy_table(output) for output in made.outputs]
    shapes = [table.shape(data.domain) for table in tables]
    return [NoisyTable(n.cells.reshape(shape), n.variance, n.law) for n, shape in zip(found, shapes, strict=True)]


def release_vectors(
    data: Queryable, tables: Sequence[ContingencyTable], models: Sequence[Floats], loss: Loss
) -> tuple[Floats, float]:
    """Return the noisy l1 distance of each table to its model, in rows, and the variance of the noise."""
    whole = tuple(np.rint(m.ravel() * PARTS).astype(np.int64) for m in models)
    found = _noisy_table(data.release(Distances(tuple(tables), whole), loss).outputs[0])
    return found.cells, found.variance


def open_session(data: Queryable, rng: Rng, *, kept: Fraction) -> FitSession:
    """Return the session of a fit; a share `kept` is not `left`. A pair is spent as epsilon until `turn_gaussian`."""
    loss = data.loss
    if isinstance(loss, ApproxDP) and loss.delta > 0:
        pure = split_loss(PureDP(loss.epsilon), data.neighbors)
        return FitSession(data, pure, rng, left=1 - kept, kept=kept, delta=loss.delta)
    return FitSession(data, split_loss(loss, data.neighbors), rng, left=1 - kept, kept=kept)


@dataclass(slots=True)
class FitSession:
    """Spend shares of one loss; `left` only falls, and nothing is asked beyond it. `rng` serves post-processing only.

    `delta` is what the loss still has of it while epsilon is spent, None where Gaussian noise cannot be turned to.
    """

    data: Queryable
    split: LossShares
    rng: Rng
    left: Fraction = Fraction(1)
    kept: Fraction = Fraction(0)
    delta: Fraction | None = None

    @property
    def gaussian(self) -> LossShares:
        """What the loss is worth as Gaussian noise: the rho of what is left of (epsilon, delta), else the loss itself."""
        if self.delta is None:
            return self.split
        epsilon = self.split.total * (self.left + self.kept) * (1 - _MARGIN)
        return split_loss(ApproxDP(epsilon, self.delta), self.data.neighbors)

    def turn_gaussian(self) -> None:
        """Spend rho from here on, as the Queryable does from the first question of rho."""
        if self.delta is not None:
            self.split, self.left, self.delta = self.gaussian, 1 - self.kept, None

    def count_rows(self, column: EncodedColumn, share: Fraction) -> float:
        """Return a noisy number of rows, 1 at least: all keys of a column share a code."""
        (found,) = self.measure([ContingencyTable((column.axis(np.zeros(column.size, dtype=np.int64)),))], share)
        return max(float(found.cells[0]), 1.0)

    def measure_one_way(self, columns: Sequence[EncodedColumn], share: Fraction) -> OneWayMarginals:
        """Return noisy one-way counts of all columns, each with the share of the loss that makes the whole error least.

        The sum of n sigma over columns of n keys is least where the share ~ n^(2/3) with sigma ~ share^(-1/2) (Gaussian),
        and where it ~ n^(1/2) with scale ~ 1 / share (Laplace).
        """
        power = 0.5 if self.split.currency == "epsilon" else 2.0 / 3.0
        shares = _exact_shares([c.size**power for c in columns])
        counts = self.measure([ContingencyTable((c.axis(),)) for c in columns], share, shares=shares)
        return estimate_one_way(columns, [c.cells for c in counts], [c.variance for c in counts])

    def measure(
        self, tables: Sequence[ContingencyTable], share: Fraction, *, shares: Sequence[Fraction] | None = None
    ) -> list[NoisyTable]:
        """Return noisy tables of counts; `shares` splits the share among them, None equally."""
        self._take(share)
        return release_counts(self.data, tables, self.split.loss(share), shares=shares)

    def measure_weighted(
        self, tables: Sequence[ContingencyTable], share: Fraction, weights: Sequence[float]
    ) -> dict[int, NoisyTable]:
        """Return noisy tables by place, with information in proportion to `weights`; none where the weight is 0."""
        chosen = [i for i, w in enumerate(weights) if w > 0]
        if not chosen:
            return {}
        power = 0.5 if self.split.currency == "epsilon" else 1.0
        shares = _exact_shares([weights[i] ** power for i in chosen])
        return dict(zip(chosen, self.measure([tables[i] for i in chosen], share, shares=shares), strict=True))

    def measure_distances(
        self, tables: Sequence[ContingencyTable], models: Sequence[Floats], share: Fraction
    ) -> tuple[Floats, float]:
        """Return noisy l1 distances of tables to public models, and the variance of the noise."""
        self._take(share)
        return release_vectors(self.data, tables, models, self.split.loss(share))

    def variance(self, share: Fraction | float | None = None, *, tables: int = 1) -> float:
        """Return the variance of each cell of `tables` tables that share this share, or all that is left."""
        return self.split.variance(self.left if share is None else share, tables=tables)

    def _take(self, share: Fraction) -> None:
        if not 0 < share <= self.left:
            raise ValueError("a share beyond what is left")
        self.left -= share


def _exact_shares(weights: Sequence[float]) -> list[Fraction]:
    """Return fractions near the weights, above 0, that sum to 1 exactly."""
    whole = sum(weights)
    parts = [max(1, round(w / whole * _FINE)) for w in weights]
    return [Fraction(p, sum(parts)) for p in parts]


def _noisy_table(output: Output) -> NoisyTable:
    """Return one noisy vector in rows."""
    estimate = output.estimate
    if not isinstance(estimate, Noisy):
        raise TypeError("a table of counts is released as noisy whole numbers")
    variance = max(float(estimate.law.variance()), _LEAST)
    if not math.isfinite(variance):
        raise ValueError("noise without a variance")
    unit = float(estimate.unit)
    return NoisyTable(np.asarray(estimate.steps, dtype=np.float64) * unit, variance * unit**2, estimate.law)
