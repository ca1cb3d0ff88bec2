"""One-way counts of every column: asked for, combined, projected, and made into fewer codes. Knows released numbers only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.synth.columns import EncodedColumn
from sordino.synth.compress import DomainCompression, compress_domain, within
from sordino.synth.projection import Floats, project

__all__ = ["OneWayMarginals", "combine_one_way", "exact_shares", "one_way_shares"]

_MEAN = 0.8  # E|Z| of a standard normal


@dataclass(frozen=True, slots=True)
class OneWayMarginals:
    """The noisy one-way counts of all columns over their keys, with the variance of each column's cells."""

    columns: tuple[EncodedColumn, ...]
    noisy: tuple[Floats, ...]
    variances: tuple[float, ...]

    @property
    def rows(self) -> float:
        """The estimated number of rows: the sums of the tables, weighted by how little noise each has; at least 1.

        Every table counts every row, since a missing value is a key of its own.
        """
        weights = [1.0 / (v * len(c)) for c, v in zip(self.noisy, self.variances, strict=True)]
        sums = [float(c.sum()) for c in self.noisy]
        return max(sum(s * w for s, w in zip(sums, weights, strict=True)) / sum(weights), 1.0)

    @property
    def rows_deviation(self) -> float:
        """The standard deviation of the estimated number of rows."""
        return 1.0 / math.sqrt(sum(1.0 / (v * len(c)) for c, v in zip(self.noisy, self.variances, strict=True)))

    def project(self) -> list[Floats]:
        """Return the counts projected to the simplex of the estimated rows."""
        total = self.rows
        return [project(c, total) for c in self.noisy]

    def errors(self) -> Floats:
        """Return the expected distance of each column's counts from the truth, as a share of rows: E|noise| up to the count."""
        total = self.rows
        found = [
            float(np.minimum(_MEAN * math.sqrt(v), c).sum()) / (2.0 * total)
            for c, v in zip(self.project(), self.variances, strict=True)
        ]
        return np.array(found)

    def compress_domain(self) -> list[DomainCompression]:
        """Return fewer codes for each column, as its noise allows."""
        return [
            compress_domain(p, math.sqrt(v), ordered=c.ordered, missing=c.missing, dropped=c.dropped)
            for c, p, v in zip(self.columns, self.project(), self.variances, strict=True)
        ]

    def within(self, codes: Sequence[DomainCompression]) -> list[Floats]:
        """Return each key's share of its code's count."""
        return [
            within(k.codes, n, v, k.sum_by_code(p), missing=c.missing)
            for c, k, n, v, p in zip(self.columns, codes, self.noisy, self.variances, self.project(), strict=True)
        ]


def one_way_shares(sizes: Sequence[int], *, pure: bool) -> list[Fraction]:
    """Return shares of a loss that make the sum of n_j sigma_j least over columns of n_j keys: public.

    With sigma ~ share^(-1/2) (Gaussian) share ~ n^(2/3), with scale ~ 1 / share (Laplace) share ~ n^(1/2).
    """
    return exact_shares([n ** (0.5 if pure else 2.0 / 3.0) for n in sizes])


def exact_shares(weights: Sequence[float]) -> list[Fraction]:
    """Return fractions near the weights, above 0, that sum to 1 exactly."""
    whole = sum(weights)
    parts = [max(1, round(w / whole * (1 << 30))) for w in weights]
    total = sum(parts)
    return [Fraction(p, total) for p in parts]


def combine_one_way(first: OneWayMarginals, second: OneWayMarginals) -> OneWayMarginals:
    """Return the combination of two independent measurements with the least variance."""
    noisy, variances = [], []
    for a, va, b, vb in zip(first.noisy, first.variances, second.noisy, second.variances, strict=True):
        noisy.append((a * vb + b * va) / (va + vb))
        variances.append(va * vb / (va + vb))
    return OneWayMarginals(first.columns, tuple(noisy), tuple(variances))
