"""Measured pairs of columns, and the model fitted to them: the state that an adaptive algorithm carries between its rounds.

It knows released numbers only; what it asks next is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.queries.adaptive.marginal import ContingencyTable
from sordino.synth.access import NoisyTable
from sordino.synth.calibrate import MarkovRandomField, Measurement, calibrate, independent_field, restart
from sordino.synth.columns import EncodedColumn
from sordino.synth.compress import DomainCompression
from sordino.synth.junction import Pair, junction_tree
from sordino.synth.projection import Floats

__all__ = ["CompressedMarginals", "fit_field", "merge_measurements", "pair_table", "rescale"]

_FIRM = 1e-3  # softness of one-way counts, relative to their variance: they are all but exact
_HARDEST = 2e-8  # of the rows: below it the fit's steps would no longer be exact, and nothing would be gained
_LEAST, _LOOSEST = 1e-3, 0.01  # bounds of c and of 1 / c, see `softness`


@dataclass(frozen=True, slots=True)
class CompressedMarginals:
    """The columns with their codes: how rows are estimated to spread over each, and with what noise."""

    columns: tuple[EncodedColumn, ...]
    codes: tuple[DomainCompression, ...]
    counts: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    rows: float

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each column."""
        return tuple(c.size for c in self.codes)

    def independent(self, pair: Pair) -> Floats:
        """Return the counts of a pair if its columns were independent."""
        return np.multiply.outer(self.counts[pair[0]], self.counts[pair[1]]) / self.rows

    def independent_variance(self, pair: Pair) -> Floats:
        """Return the variance of those counts that comes of the noise of the one-way counts."""
        a, b = pair
        first = np.multiply.outer(self.variances[a], np.square(self.counts[b] / self.rows))
        made: Floats = first + np.multiply.outer(np.square(self.counts[a] / self.rows), self.variances[b])
        return made


def pair_table(compressed: CompressedMarginals, pair: Sequence[int]) -> ContingencyTable:
    """Return the table of counts over the codes of some columns."""
    return ContingencyTable(tuple(compressed.columns[c].with_codes(compressed.codes[c].codes.tolist()) for c in pair))


def merge_measurements(
    known: dict[tuple[int, ...], NoisyTable], fresh: dict[tuple[int, ...], NoisyTable]
) -> dict[tuple[int, ...], NoisyTable]:
    """Return all measurements, repeated ones combined by inverse variance."""
    made = dict(known)
    for pair, new in fresh.items():
        old = made.get(pair)
        if old is None:
            made[pair] = new
        else:
            total = old.variance + new.variance
            cells = (old.cells * new.variance + new.cells * old.variance) / total
            made[pair] = NoisyTable(cells, old.variance * new.variance / total)
    return made


def fit_field(
    compressed: CompressedMarginals,
    measured: dict[tuple[int, ...], NoisyTable],
    cliques: Sequence[int],
    *,
    sweeps: int,
    kept: dict[tuple[int, ...], Floats],
) -> MarkovRandomField:
    """Return the model fitted to the one-way counts and the measured tables; `kept` holds potentials, and is renewed."""
    tree = junction_tree(cliques)
    field = independent_field(tree, compressed.counts, compressed.rows)
    blocks: list[Measurement] = []
    for c, (way, variance) in enumerate(zip(compressed.counts, compressed.variances, strict=True)):
        theta = kept.get((c,), np.zeros_like(way))
        blocks.append(Measurement((c,), way, np.maximum(_FIRM * variance, _HARDEST * compressed.rows), theta.copy()))
    for pair, counts in measured.items():
        theta = kept.get(pair, np.zeros_like(counts.cells))
        blocks.append(Measurement(pair, counts.cells, softness(compressed, pair, counts), theta.copy()))
    if kept:
        restart(field, blocks, compressed.sizes)
    calibrate(field, blocks, compressed.sizes, sweeps=sweeps)
    kept.update({b.columns: b.theta for b in blocks})
    rescale(field, compressed.rows)
    return field


def rescale(field: MarkovRandomField, rows: float) -> None:
    """Make every table of the model count `rows`, in place.

    Soft measurements that disagree leave a total of their own, farther from the truth than the estimate that all one-way
    counts make together.
    """
    scale = rows / max(float(field.tables[0].sum()), 1e-9)
    for table in (*field.tables, *field.separators):
        table *= scale


def softness(compressed: CompressedMarginals, columns: Sequence[int], counts: NoisyTable) -> float:
    """Return lam = c sigma^2 of one measured table, c by empirical Bayes.

    Cells are taken to lie about the independent counts m with variance tau m; tau is what the measured squares show above
    the noise, (sum r^2 - cells sigma^2) / sum m, and c = 1 / tau.
    """
    product = np.array(compressed.rows, dtype=np.float64)
    for c in columns:
        product = np.multiply.outer(product, compressed.counts[c] / compressed.rows)
    residual = counts.cells - product
    shown = float(np.square(residual).sum()) - counts.cells.size * counts.variance
    tau = max(shown / max(float(product.sum()), 1e-9), _LOOSEST)
    return max(max(1.0 / tau, _LEAST) * counts.variance, _HARDEST * compressed.rows)
