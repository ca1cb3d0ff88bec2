"""Weighted sums of the products of many columns: their rows are read once, block by block, and multiplied as matrices.

In SQL each product of two columns takes some 5 ns a row, and 20 columns have 210; as matrices all of them take some 50 ns a row.
To center and to weigh a row of 20 columns takes some 80 ns here, and 600 in SQL.

Theorem: the sums are exact. Numbers are centered as floats, which hold whole numbers of up to 2^53, and weights are whole numbers
of 64 bits. A product of two matrices is a sum of whole numbers, and the sizes of its terms add up to at most
2^53, so every sum of some of them is a whole number that a float holds, in whatever order they are added. Where a term is too
large for that, the left matrix is cut in a high and a low part, whose terms are small enough. What the matrices come to is added
up in 64 bits over a few of them, and then in Python's integers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.ask.engines.instances import fetch_blocks
from sordino.core.primitives import MOST_FACTOR, MOST_WEIGHT, ProductSums

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# Whole numbers up to this are floats, and so are the sums of such numbers that do not pass it.
_EXACT = 1 << 53
# Rows and columns of the matrices that are multiplied: as large as BLAS multiplies in one thread. More threads wait for each
# other longer than these products take.
_ROWS = 1 << 8
_COLUMNS = 1 << 5
# So many rows are in the processor's cache at once.
_AT_ONCE = 1 << 12
# A weighted number is cut in a low part of so many bits, and a high one of no more.
_LOW_BITS = 18
assert MOST_WEIGHT * MOST_FACTOR <= 1 << 2 * _LOW_BITS
assert (MOST_FACTOR << _LOW_BITS) * _ROWS <= _EXACT
assert _EXACT * (_AT_ONCE // _ROWS) < 1 << 62

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]


def add_products(connection: duckdb.DuckDBPyConnection, rows: str, sums: ProductSums) -> pa.Table:
    """Return the sums of products over the rows of a statement; raises what DuckDB raises."""
    adding = AddingProducts(sums)
    with closing(fetch_blocks(connection, rows)) as blocks:
        for block in blocks:
            adding.add(block)
    return adding.table()


class AddingProducts:
    """Adds up the products of blocks of rows. Memory is that of one block and of the sums."""

    def __init__(self, sums: ProductSums) -> None:
        self._sums = sums
        size = 1 + len(sums.numbers)
        # By fold: the sum of w z_i z_j, where z_0 is 1.
        self._totals = np.zeros((sums.folds, size, size), dtype=object)
        self._is_cut = sums.most * _ROWS > _EXACT
        # Used again for each few rows: to ask the system for the memory anew takes longer than to multiply.
        self._factors: Floats = np.ones((size, _AT_ONCE))
        self._weighted: Floats = np.zeros((size, _AT_ONCE))

    def add(self, block: pa.RecordBatch) -> None:
        """Add a block of rows: w where rows have one, each number, and the fold where there are several."""
        if any(column.null_count for column in block.columns):
            block = block.drop_null()
        columns = [column.to_numpy() for column in block.columns]
        weights = columns.pop(0) if self._sums.weight is None else None
        folds = columns.pop() if self._sums.folds > 1 else None
        for fold in range(self._sums.folds):
            kept = slice(None) if folds is None else folds == fold
            numbers = [number[kept] for number in columns]
            self._add(fold, None if weights is None else weights[kept], numbers)

    def _add(self, fold: int, weights: Integers | None, numbers: Sequence[Integers]) -> None:
        for start in range(0, len(numbers[0]), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            count = len(numbers[0][rows])
            # Rows behind the last, to a whole number of matrices, are weighted by 0.
            padded = -(-count // _ROWS) * _ROWS
            factors = self._factors[:, :padded]
            for factor, number, (times, less) in zip(factors[1:], numbers, self._sums.numbers, strict=True):
                np.multiply(number[rows], float(times), out=factor[:count])
                factor[:count] -= less
            weight = self._weigh(None if weights is None else weights[rows], factors[1:, :count])
            weighted = self._weighted[:, :padded]
            np.multiply(factors[:, :count], weight, out=weighted[:, :count])
            weighted[:, count:] = 0
            if self._is_cut:
                high = np.floor(weighted / (1 << _LOW_BITS))
                weighted -= high * (1 << _LOW_BITS)
                self._multiply(fold, high, factors, 1 << _LOW_BITS)
            self._multiply(fold, weighted, factors, 1)

    def _weigh(self, weights: Integers | None, numbers: Floats) -> Integers | int:
        """Return the weights of rows, those that are cut as they are."""
        own = self._sums.weight if weights is None else weights
        assert own is not None
        shrunk = self._sums.shrunk
        if shrunk is None:
            return own
        length = np.full(numbers.shape[1], shrunk.least)
        for number, square in zip(numbers, shrunk.squares, strict=True):
            part = number.astype(np.int64)
            part *= part
            part *= shrunk.parts
            part //= square
            length += part
        weight: Integers = np.minimum(own, shrunk.limit // length)
        return weight

    def _multiply(self, fold: int, left: Floats, right: Floats, times: int) -> None:
        """Add the products of each two columns, the first not behind the second, so many times."""
        starts = range(0, len(left), _COLUMNS)
        for i, j in itertools.combinations_with_replacement(starts, 2):
            one, other = slice(i, i + _COLUMNS), slice(j, j + _COLUMNS)
            products = _cut_rows(left[one]) @ _cut_rows(right[other]).transpose(0, 2, 1)
            self._totals[fold, one, other] += products.astype(np.int64).sum(axis=0).astype(object) * times

    def table(self) -> pa.Table:
        """Return the sums under their names, with a row a fold."""
        import pyarrow as pa

        kind = pa.decimal128(38)
        columns: dict[str, Any] = {"fold": range(self._sums.folds)}
        columns["t0"] = pa.array(self._totals[:, 0, 0].tolist(), kind)
        for i in range(len(self._sums.numbers)):
            columns[f"s{i}"] = pa.array(self._totals[:, 0, 1 + i].tolist(), kind)
            for j in range(i, len(self._sums.numbers)):
                columns[f"s{i}_{j}"] = pa.array(self._totals[:, 1 + i, 1 + j].tolist(), kind)
        return pa.table(columns)


def _cut_rows(columns: Floats) -> Floats:
    """Return columns of many rows as matrices of few: (matrices, columns, rows)."""
    return columns.reshape(len(columns), -1, _ROWS).transpose(1, 0, 2)
