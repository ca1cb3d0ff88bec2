"""A fit under way: the Queryable, what is left of its loss, and the three things that may be asked of it. Knows no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.loss import ApproxDP, PureDP
from sordino.neighbors import Neighbors
from sordino.noise.rng import Rng
from sordino.queries.adaptive.marginal import ContingencyTable
from sordino.synth.access import Data, NoisyTable, release_counts, release_vectors
from sordino.synth.columns import EncodedColumn
from sordino.synth.loss_shares import LossShares, split_loss
from sordino.synth.projection import Floats
from sordino.synth.ways import OneWayMarginals, exact_shares, one_way_shares

__all__ = ["FitSession", "pure_is_steadier"]


@dataclass(slots=True)
class FitSession:
    """Spend shares of one loss; `left` only falls, and nothing is asked beyond it. `rng` serves post-processing only."""

    data: Data
    split: LossShares
    rng: Rng
    left: Fraction = Fraction(1)

    def measure_one_way(self, columns: Sequence[EncodedColumn], share: Fraction) -> OneWayMarginals:
        """Return noisy one-way counts of all columns."""
        shares = one_way_shares([c.size for c in columns], pure=self.split.currency == "epsilon")
        counts = self.tables([ContingencyTable((c.axis,)) for c in columns], share, shares=shares)
        return OneWayMarginals(tuple(columns), tuple(c.cells for c in counts), tuple(c.variance for c in counts))

    def tables(
        self, tables: Sequence[ContingencyTable], share: Fraction, *, shares: Sequence[Fraction] | None = None
    ) -> list[NoisyTable]:
        """Return noisy tables of counts."""
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
        shares = exact_shares([weights[i] ** power for i in chosen])
        return dict(zip(chosen, self.tables([tables[i] for i in chosen], share, shares=shares), strict=True))

    def distances(
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


def pure_is_steadier(loss: ApproxDP, neighbors: Neighbors, sizes: Sequence[int]) -> bool:
    """Return whether one-way counts of columns of these sizes err less with Laplace noise of the loss's epsilon.

    By public parameters: sum n E|noise| is (sum n^(1/2))^2 scale for Laplace, .8 (sum n^(2/3))^(3/2) sigma for Gaussian.
    """
    if loss.epsilon <= 0:
        return False
    pure, smooth = split_loss(PureDP(loss.epsilon), neighbors), split_loss(loss, neighbors)
    laplace = sum(n**0.5 for n in sizes) ** 2 * (pure.variance(1.0, tables=1) / 2.0) ** 0.5
    gaussian = 0.8 * sum(n ** (2.0 / 3.0) for n in sizes) ** 1.5 * smooth.variance(1.0, tables=1) ** 0.5
    return bool(laplace < gaussian)
