"""Measured pairs of columns, and the model fitted to them: the state that an adaptive algorithm carries between its rounds.

It knows released numbers only; what it asks next is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.queries.adaptive.marginal import Table
from sordino.synth.access import Counts
from sordino.synth.calibrate import Beliefs, Measured, calibrated, product_beliefs, restart
from sordino.synth.columns import Keyed
from sordino.synth.compress import Compressed
from sordino.synth.junction import Pair, junction_tree
from sordino.synth.projection import Floats

__all__ = ["Coding", "fitted", "merged", "pair_table", "rescale"]

_FIRM = 1e-3  # softness of one-way counts, relative to their variance: they are all but exact
_HARDEST = 2e-8  # of the rows: below it the fit's steps would no longer be exact, and nothing would be gained
_LEAST, _LOOSEST = 1e-3, 0.01  # bounds of c and of 1 / c, see `softness`


@dataclass(frozen=True, slots=True)
class Coding:
    """The columns with their codes: how rows are estimated to spread over each, and with what noise."""

    columns: tuple[Keyed, ...]
    codes: tuple[Compressed, ...]
    ways: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    rows: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each column."""
        return tuple(c.size for c in self.codes)

    def independent(self, pair: Pair) -> Floats:
        """Return the counts of a pair if its columns were independent."""
        return np.multiply.outer(self.ways[pair[0]], self.ways[pair[1]]) / self.rows

    def independent_variance(self, pair: Pair) -> Floats:
        """Return the variance of those counts that comes of the noise of the one-way counts."""
        a, b = pair
        first = np.multiply.outer(self.variances[a], np.square(self.ways[b] / self.rows))
        made: Floats = first + np.multiply.outer(np.square(self.ways[a] / self.rows), self.variances[b])
        return made


def pair_table(coding: Coding, pair: Sequence[int]) -> Table:
    """Return the table of counts over the codes of some columns."""
    return Table(tuple(coding.columns[c].coded(coding.codes[c].codes.tolist()) for c in pair))


def merged(known: dict[tuple[int, ...], Counts], fresh: dict[tuple[int, ...], Counts]) -> dict[tuple[int, ...], Counts]:
    """Return all measurements, repeated ones combined by inverse variance."""
    made = dict(known)
    for pair, new in fresh.items():
        old = made.get(pair)
        if old is None:
            made[pair] = new
        else:
            total = old.variance + new.variance
            cells = (old.cells * new.variance + new.cells * old.variance) / total
            made[pair] = Counts(cells, old.variance * new.variance / total)
    return made


def fitted(
    coding: Coding,
    measured: dict[tuple[int, ...], Counts],
    cliques: Sequence[int],
    *,
    sweeps: int,
    kept: dict[tuple[int, ...], Floats],
) -> Beliefs:
    """Return the model fitted to the one-way counts and the measured tables; `kept` holds potentials, and is renewed."""
    tree = junction_tree(cliques)
    beliefs = product_beliefs(tree, coding.ways, coding.rows)
    blocks: list[Measured] = []
    for c, (way, variance) in enumerate(zip(coding.ways, coding.variances, strict=True)):
        theta = kept.get((c,), np.zeros_like(way))
        blocks.append(Measured((c,), way, np.maximum(_FIRM * variance, _HARDEST * coding.rows), theta.copy()))
    for pair, counts in measured.items():
        theta = kept.get(pair, np.zeros_like(counts.cells))
        blocks.append(Measured(pair, counts.cells, softness(coding, pair, counts), theta.copy()))
    if kept:
        restart(beliefs, blocks, coding.sizes)
    calibrated(beliefs, blocks, coding.sizes, sweeps=sweeps)
    kept.update({b.columns: b.theta for b in blocks})
    rescale(beliefs, coding.rows)
    return beliefs


def rescale(beliefs: Beliefs, rows: float) -> None:
    """Make every table of the model count `rows`, in place.

    Soft measurements that disagree leave a total of their own, farther from the truth than the estimate that all one-way
    counts make together.
    """
    scale = rows / max(float(beliefs.tables[0].sum()), 1e-9)
    for table in (*beliefs.tables, *beliefs.separators):
        table *= scale


def softness(coding: Coding, columns: Sequence[int], counts: Counts) -> float:
    """Return lam = c sigma^2 of one measured table, c by empirical Bayes.

    Cells are taken to lie about the independent counts m with variance tau m; tau is what the measured squares show above
    the noise, (sum r^2 - cells sigma^2) / sum m, and c = 1 / tau.
    """
    product = np.array(coding.rows, dtype=np.float64)
    for c in columns:
        product = np.multiply.outer(product, coding.ways[c] / coding.rows)
    residual = counts.cells - product
    shown = float(np.square(residual).sum()) - counts.cells.size * counts.variance
    tau = max(shown / max(float(product.sum()), 1e-9), _LOOSEST)
    return max(max(1.0 / tau, _LEAST) * counts.variance, _HARDEST * coding.rows)
