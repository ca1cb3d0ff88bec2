"""The additive function nearest to another on the cells of a grid that hold rows. Knows no data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sordino.synth.encoded_column import Floats

# Added to the shares of classes so that the least of several additive functions that are alike is found.
_RIDGE = 1e-9


class AdditiveProjection:
    """The cells of a grid that hold rows: `shares` of the rows, and `classes` on each axis, cell by cell.

    Where the shares P are the nearest to others with the counts of each axis' classes as they are (an I-projection), P is
    a product of functions of one axis each, times those others (Csiszar 1975, section 3). A small change d_i of these counts
    then moves E_P[f] by sum_i <d_i, g_i>, g_1 + g_2 + ... being the additive function nearest to f in the mean square under P:
    log P changes by an additive h, E_P[f h] = E_P[(g_1 + g_2 + ...) h], and the mean of h over a class is the change of its
    share, relative to it.
    """

    def __init__(self, counts: Floats) -> None:
        held = np.flatnonzero(counts.ravel() > 0.0)
        rows = counts.ravel()[held]
        self.held = held
        self.shares: Floats = rows / max(float(rows.sum()), 1e-300)
        self.classes = np.unravel_index(held, counts.shape)
        self._shape = counts.shape
        # The block of the longest axis is diagonal: it is eliminated first.
        self._axes = sorted(range(counts.ndim), key=lambda axis: -counts.shape[axis])
        first, *others = self._axes
        self._diagonal = self.sum_over(self.shares, (first,)) + _RIDGE
        blocks = [[self._table(a, b) for b in others] for a in others]
        self._beside = np.hstack([self._table(first, a) for a in others]) if others else np.zeros((len(self._diagonal), 0))
        within = np.block(blocks) if others else np.zeros((0, 0))
        within = within + _RIDGE * np.eye(len(within))
        self._inverse = np.linalg.inv(within - self._beside.T @ (self._beside / self._diagonal[:, None]))

    def sum_over(self, values: Floats, axes: Sequence[int]) -> Floats:
        """Return the sums of values of cells by their classes on some axes, flat."""
        place = np.zeros(len(values), dtype=np.int64)
        size = 1
        for axis in axes:
            place = place * self._shape[axis] + self.classes[axis]
            size *= self._shape[axis]
        return np.asarray(np.bincount(place, values, size), dtype=np.float64)

    def project(self, values: Floats) -> list[Floats]:
        """Return the additive function nearest to one given by its `values` in the cells: its part by class, axis by axis.

        Each part is of mean 0: with the mean of the values they make up the function. Where parts can still be exchanged, as
        those of a sum can with its terms', the least are taken.
        """
        first, *others = self._axes
        weighted = self.shares * (values - self.shares @ values)
        top = self.sum_over(weighted, (first,))
        rest = np.concatenate([np.zeros(0), *(self.sum_over(weighted, (axis,)) for axis in others)])
        solved = self._inverse @ (rest - self._beside.T @ (top / self._diagonal))
        ends = np.cumsum([self._shape[axis] for axis in others])[:-1]
        parts = [(top - self._beside @ solved) / self._diagonal, *(np.split(solved, ends) if others else [])]
        ordered = [parts[self._axes.index(axis)] for axis in range(len(self._shape))]
        return [part - self.sum_over(self.shares, (axis,)) @ part for axis, part in enumerate(ordered)]

    def mean_over(self, values: Floats, axes: Sequence[int]) -> Floats:
        """Return in each cell the mean of the values over all cells with its classes on some axes."""
        shares = self.sum_over(self.shares, axes)
        means = np.divide(self.sum_over(self.shares * values, axes), shares, out=np.zeros(len(shares)), where=shares > 0.0)
        sizes = [self._shape[axis] for axis in axes]
        return means[np.ravel_multi_index([self.classes[axis] for axis in axes], sizes)]

    def _table(self, one: int, other: int) -> Floats:
        if one == other:
            return np.diag(self.sum_over(self.shares, (one,)))
        return self.sum_over(self.shares, (one, other)).reshape(self._shape[one], self._shape[other])
