"""One-way marginals of every column: noisy counts over keys, projected, and the same over fewer codes.

Knows released numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sordino.queries.adaptive.marginal import ContingencyTable
from sordino.synth.arrays import Floats
from sordino.synth.domain_compression import DomainCompression, compress_domain, project, shares_within
from sordino.synth.encoded_column import EncodedColumn
from sordino.synth.junction_tree import Pair

__all__ = ["CompressedMarginals", "OneWayMarginals", "combine_one_way", "estimate_one_way"]

_MEAN = 0.8  # E|Z| of a standard normal


@dataclass(frozen=True, slots=True)
class OneWayMarginals:
    """The noisy one-way counts of all columns over their keys, with the variance of each column's cells.

    `rows` is the estimated number of rows, with its deviation; `projected` the counts projected to the simplex of as many.
    """

    columns: tuple[EncodedColumn, ...]
    noisy: tuple[Floats, ...]
    variances: tuple[float, ...]
    rows: float
    rows_deviation: float
    projected: tuple[Floats, ...]

    def errors(self) -> Floats:
        """Return the expected distance of each column's counts from the truth, as a share of rows: E|noise| up to the count."""
        found = [
            float(np.minimum(_MEAN * math.sqrt(v), c).sum()) / (2.0 * self.rows)
            for c, v in zip(self.projected, self.variances, strict=True)
        ]
        return np.array(found)

    def compress(self, codes: Sequence[DomainCompression] | None = None) -> CompressedMarginals:
        """Return the marginals over codes: those given, or as few as the noise of each column allows."""
        if codes is None:
            codes = [
                compress_domain(p, math.sqrt(v), ordered=c.ordered, missing=c.missing, dropped=c.dropped)
                for c, p, v in zip(self.columns, self.projected, self.variances, strict=True)
            ]
        both = list(zip(codes, self.projected, self.variances, strict=True))
        return CompressedMarginals(
            self.columns,
            tuple(codes),
            tuple(k.sum_by_code(p) for k, p, _ in both),
            tuple(k.sum_by_code(np.full(len(p), v)) for k, p, v in both),
            self.rows,
        )

    def identity_codes(self) -> list[DomainCompression]:
        """Return a code a key; a missing value that the declaration drops, and that does not show, has none of its own."""
        made: list[DomainCompression] = []
        for column, fewer in zip(self.columns, self.compress().codes, strict=True):
            shared = column.dropped and int((fewer.codes == fewer.codes[-1]).sum()) > 1
            codes = np.minimum(np.arange(column.size), column.size - 1 - shared)
            made.append(DomainCompression(codes, column.size - shared))
        return made

    def shares_within(self, codes: Sequence[DomainCompression]) -> tuple[Floats, ...]:
        """Return each key's share of its code's count."""
        return tuple(
            shares_within(k.codes, n, v, k.sum_by_code(p), missing=c.missing)
            for c, k, n, v, p in zip(self.columns, codes, self.noisy, self.variances, self.projected, strict=True)
        )


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

    def table(self, columns: Sequence[int]) -> ContingencyTable:
        """Return the question for the counts over the codes of some columns."""
        return ContingencyTable(tuple(self.columns[c].axis(self.codes[c].codes) for c in columns))


def estimate_one_way(
    columns: Sequence[EncodedColumn], noisy: Sequence[Floats], variances: Sequence[float]
) -> OneWayMarginals:
    """Return the marginals; their sums, weighted by how little noise each has, estimate the number of rows, at least 1.

    Every table counts every row, since a missing value is a key of its own.
    """
    weights = [1.0 / (v * len(c)) for c, v in zip(noisy, variances, strict=True)]
    sums = [float(c.sum()) for c in noisy]
    rows = max(sum(s * w for s, w in zip(sums, weights, strict=True)) / sum(weights), 1.0)
    projected = tuple(project(c, rows) for c in noisy)
    return OneWayMarginals(
        tuple(columns), tuple(noisy), tuple(variances), rows, 1.0 / math.sqrt(sum(weights)), projected
    )


def combine_one_way(first: OneWayMarginals, second: OneWayMarginals) -> OneWayMarginals:
    """Return the combination of two independent measurements with the least variance."""
    noisy, variances = [], []
    for a, va, b, vb in zip(first.noisy, first.variances, second.noisy, second.variances, strict=True):
        noisy.append((a * vb + b * va) / (va + vb))
        variances.append(va * vb / (va + vb))
    return estimate_one_way(first.columns, noisy, variances)
