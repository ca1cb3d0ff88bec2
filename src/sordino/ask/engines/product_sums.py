"""Weighted sums of the products of many columns: their rows are read once, block by block, and multiplied as matrices.

In SQL each product of two columns takes some 5 ns a row, and 20 columns have 210; as matrices all of them take some 50 ns a row.
To clip a double, to read it as whole steps and to center it takes some 3 ns here, and in SQL 14 without the center; to weigh a
row of 20 columns some 50 ns, and hundreds in SQL.

Theorem: the sums are exact. Numbers are centered as floats, which hold whole numbers of up to 2^53, and weights are whole numbers
too. A product of two matrices is a sum of whole numbers, and the sizes of its terms add up to at most
2^53, so every sum of some of them is a whole number that a float holds, in whatever order they are added. Where a term is too
large for that, the left matrix is cut in a high and a low part, whose terms are small enough. What the matrices come to is added
up in 64 bits over a few of them, and then in Python's integers.

Theorem: of whole numbers a >= 0 and b > 0 with a + b < 2^54 that are floats, the floor of the float nearest to a / b is that of
a / b. Proof. Let k be the next whole number above a / b. Then a / b <= k - 1 / b, and the float below k is at least k - k 2^-53
in size, so that what is rounded to k is at least k - k 2^-54. As k b <= a + b < 2^54, 1 / b is more than k 2^-54.
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
# Rows and columns of the matrices that are multiplied: as many products of two numbers as BLAS adds up in one thread, and as many
# rows in a sum of products. More threads wait for each other longer than these take: fifty times as long.
_ROWS = 1 << 8
_COLUMNS = 1 << 5
_MOST_ROWS = 1 << 12
# So many rows are worked on at once: few enough that a few columns of them are in the processor's cache, and enough that it does
# not take longer to call NumPy.
_AT_ONCE = 1 << 14
# A weighted number is cut in a low part of so many bits, and a high one of no more.
_LOW_BITS = 18
# So many times the products of the rows at once are added up in 64 bits.
_RECENT = 1 << 3
assert MOST_WEIGHT * MOST_FACTOR <= 1 << 2 * _LOW_BITS
assert (MOST_FACTOR << _LOW_BITS) * _ROWS <= _EXACT
assert _EXACT * (_AT_ONCE // _ROWS) * _RECENT <= 1 << 62

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
        # By fold: the sum of w z_i z_j, where z_0 is 1. The recent ones are of the low parts, and of the high ones.
        self._totals = np.zeros((sums.folds, size, size), dtype=object)
        self._recent = np.zeros((2, sums.folds, size, size), dtype=np.int64)
        self._recent_times = 0
        self._is_cut = sums.most * _ROWS > _EXACT
        # Squares alone need no matrices, unless even those of few rows may not add up in a float.
        self._has_squares_alone = sums.squares_alone and not self._is_cut
        width = 1 if self._has_squares_alone else min(size, _COLUMNS)
        self._rows = _ROWS
        while (
            self._rows < _MOST_ROWS
            and 2 * self._rows * width**2 <= _ROWS * _COLUMNS**2
            and 2 * self._rows * sums.most <= _EXACT
        ):
            self._rows *= 2
        # Used again for each few rows: to ask the system for the memory anew takes longer than to multiply.
        self._factors: Floats = np.ones((size, _AT_ONCE))
        self._weighted: Floats = np.zeros((size, _AT_ONCE))
        self._lengths: Floats = np.zeros(_AT_ONCE)
        self._part: Floats = np.zeros(_AT_ONCE)

    def add(self, block: pa.RecordBatch) -> None:
        """Add a block of rows: w where rows have one, each number, and the fold where there are several."""
        if any(column.null_count for column in block.columns):
            block = block.drop_null()
        columns = [column.to_numpy() for column in block.columns]
        weights = columns.pop(0) if self._sums.weight is None else None
        folds = columns.pop() if self._sums.folds > 1 else None
        # The floats of a file may be such that hardware reports them as it computes with them.
        with np.errstate(all="ignore"):
            for fold in range(self._sums.folds):
                kept = slice(None) if folds is None else folds == fold
                numbers = [number[kept] for number in columns]
                self._add(fold, None if weights is None else weights[kept], numbers)

    def _add(self, fold: int, weights: Integers | None, numbers: Sequence[Any]) -> None:
        for start in range(0, len(numbers[0]), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            count = len(numbers[0][rows])
            self._place(numbers, rows, self._factors[1:, :count])
            own: Any = self._sums.weight if weights is None else weights[rows]
            if not self._add_up(fold, own, count):
                # A number that a row lacks is NaN: the rows that have all come first, and are added up alone.
                whole = ~np.isnan(self._factors[1:, :count]).any(axis=0)
                here = int(whole.sum())
                self._factors[1:, :here] = self._factors[1:, :count][:, whole]
                self._factors[1:, here:count] = 0
                self._add_up(fold, own if weights is None else own[whole], here)

    def _place(self, numbers: Sequence[Any], rows: slice, factors: Floats) -> None:
        """Write each number from its center: it is read as whole steps first, where it is a double."""
        floats = self._sums.floats or (None,) * len(numbers)
        for factor, number, (times, less), steps in zip(factors, numbers, self._sums.numbers, floats, strict=True):
            if steps is None:
                np.multiply(number[rows], float(times), out=factor)
            else:
                # NaN stays NaN. What is computed is what SQL computes, operation by operation.
                np.clip(number[rows], steps.first, steps.last, out=factor)
                (np.multiply if steps.op == "*" else np.divide)(factor, steps.factor, out=factor)
                factor += 0.5
                np.floor(factor, out=factor)
                if steps.origin:
                    factor -= steps.origin
                if steps.by > 1:
                    factor /= steps.by
                    np.floor(factor, out=factor)
                factor *= times
            if less:
                factor -= less

    def _add_up(self, fold: int, own: Any, count: int) -> bool:
        """Add the first rows by their own weights, and return True; or nothing, and False, if one of them lacks a number."""
        weight = self._weigh(own, count)
        # Rows behind the last, to a whole number of matrices, are weighted by 0.
        padded = -(-count // self._rows) * self._rows
        factors = self._factors[:, :padded]
        weighted = self._weighted[:, :padded]
        if isinstance(weight, int) and weight == 1 and count == padded:
            weighted = factors
        else:
            np.multiply(factors[:, :count], weight, out=weighted[:, :count])
            weighted[:, count:] = 0
        if self._has_squares_alone:
            left = weighted.reshape(len(weighted), -1, self._rows)
            right = factors.reshape(left.shape)
            sums = np.vecdot(left, right[0])
            if np.isnan(sums).any():
                return False
            self._recent[0, fold, 0] += sums.astype(np.int64).sum(axis=1)
            squares = np.vecdot(left[1:], right[1:])
            np.einsum("ii->i", self._recent[0, fold])[1:] += squares.astype(np.int64).sum(axis=1)
        else:
            # A weight that is cut by all numbers of a row is NaN where one of them is.
            cells = factors[1:, :count] if self._sums.shrunk is None else weight
            if any(self._sums.floats) and np.isnan(cells).any():
                return False
            if self._is_cut:
                high = np.floor(weighted / (1 << _LOW_BITS))
                self._multiply(self._recent[1, fold], high, factors)
                weighted = weighted - high * (1 << _LOW_BITS)
            self._multiply(self._recent[0, fold], weighted, factors)
        self._recent_times += 1
        if self._recent_times == _RECENT:
            self._add_recent()
        return True

    def _weigh(self, own: Any, count: int) -> Any:
        """Return the weights of rows, those that are cut as they are."""
        shrunk = self._sums.shrunk
        if shrunk is None:
            return own
        lengths = self._lengths[:count]
        part = self._part[:count]
        lengths.fill(shrunk.least)
        for number, square, reach in zip(self._factors[1:, :count], shrunk.squares, shrunk.reach, strict=True):
            if shrunk.parts * reach**2 + square < 2 * _EXACT:
                np.multiply(number, number, out=part)
                # `parts` is a power of two, so this is the quotient of the two whole numbers.
                part /= square / shrunk.parts
                np.floor(part, out=part)
                lengths += part
            else:
                # What is not a number is any whole number here, and its row is left out.
                wide = number.astype(np.int64)
                wide *= wide
                wide *= shrunk.parts
                wide //= square
                lengths += wide
                lengths[np.isnan(number)] = np.nan
        np.divide(shrunk.limit, lengths, out=lengths)
        np.floor(lengths, out=lengths)
        return np.minimum(own, lengths, out=lengths)

    def _multiply(self, recent: Integers, left: Floats, right: Floats) -> None:
        """Add the products of each two columns, the first not behind the second."""
        starts = range(0, len(left), _COLUMNS)
        for i, j in itertools.combinations_with_replacement(starts, 2):
            one, other = slice(i, i + _COLUMNS), slice(j, j + _COLUMNS)
            products = self._cut_rows(left[one]) @ self._cut_rows(right[other]).transpose(0, 2, 1)
            recent[one, other] += products.astype(np.int64).sum(axis=0)

    def _cut_rows(self, columns: Floats) -> Floats:
        """Return columns of many rows as matrices of few: (matrices, columns, rows)."""
        return columns.reshape(len(columns), -1, self._rows).transpose(1, 0, 2)

    def _add_recent(self) -> None:
        """Add the recent sums to the totals."""
        low, high = self._recent.astype(object)
        self._totals += low + high * (1 << _LOW_BITS)
        self._recent[:] = 0
        self._recent_times = 0

    def table(self) -> pa.Table:
        """Return the sums under their names, with a row a fold."""
        import pyarrow as pa

        self._add_recent()
        kind = pa.decimal128(38)
        columns: dict[str, Any] = {"fold": range(self._sums.folds)}
        columns["t0"] = pa.array(self._totals[:, 0, 0].tolist(), kind)
        for i in range(len(self._sums.numbers)):
            columns[f"s{i}"] = pa.array(self._totals[:, 0, 1 + i].tolist(), kind)
            for j in range(i, i + 1 if self._sums.squares_alone else len(self._sums.numbers)):
                columns[f"s{i}_{j}"] = pa.array(self._totals[:, 1 + i, 1 + j].tolist(), kind)
        return pa.table(columns)
