"""Weighted sums of the products of many columns: their rows are read once, block by block, and multiplied as matrices.

In SQL each product of two columns takes some 5 ns a row, and 20 columns have 210; as matrices all of them take some 30 ns a row.
A scan reads whole numbers, which it may keep for the next scan of the same question. To clip a double and to read it as whole
steps takes some 3 ns here, and in SQL 14.

Theorem: the sums are exact. Floats hold whole numbers of up to 2^53, and weights are whole numbers too. A product of two
matrices is a sum of whole numbers, and the sizes of its terms add up to at most 2^53, so every sum of some of them is a whole
number that a float holds, in whatever order they are added. Where a term is too large for that, the left matrix is cut in a high
and a low part, whose terms are small enough. What the matrices come to is added up in 64 bits over a few of them, and then in
Python's integers.

Theorem: of whole numbers a >= 0 and b > 0 with a + b < 2^54 that are floats, the floor of the float nearest to a / b is that of
a / b. Proof. Let k be the next whole number above a / b. Then a / b <= k - 1 / b, and the float below k is at least k - k 2^-53
in size, so that what is rounded to k is at least k - k 2^-54. As k b <= a + b < 2^54, 1 / b is more than k 2^-54.

Theorem: where all rows have one weight W, what most of them add follows from the sums of what is read, u, and of their
products, in Python's integers: z = t u + r. A row keeps W if its length `least` + the sum of floor(parts z^2 / square) is at
most limit / W, so if |x|^2 is at most F = (limit / W - `least`) / parts, where x_i = t / root(square) (u - c) and c = -r / t. In
floats of 32 bits, u is exact. Where c is off by d, the x that is computed is off by at most D, the length of d t / root(square),
and all else errs by less than a part of (numbers + 10) 2^-24 of |x|^2, since all of its terms are 0 or more. So a row whose float
of |x|^2 is at most (root(F) - D)^2, less a part of (numbers + 10) 2^-23, keeps W. All others are taken away from the sums, and
weighed one by one.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino.ask.engines.instances import fetch_blocks
from sordino.ask.engines.kept_numbers import KeptNumbers, KeptReading, reading_of
from sordino.core.primitives import MOST_FACTOR, MOST_WEIGHT, ProductSums

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from sordino.ask.engines.kept_numbers import NumberBlock

# Whole numbers up to this are floats, and so are the sums of such numbers that do not pass it.
_EXACT = 1 << 53
# Rows and columns of the matrices that are multiplied: as many products of two numbers as BLAS adds up in one thread, and the
# same of a line and a matrix. More threads wait for each other longer than these take: fifty times as long. A matrix times
# itself takes longer than two that differ, so most of them do.
_ROWS = 1 << 8
_MOST_ROWS = 1 << 9
_LEFT = 12
_RIGHT = 32
assert _LEFT * _RIGHT * _MOST_ROWS < 1 << 18
_MOST_LINE = 9000
# So many rows are fetched at once, and so many worked on, or so many numbers of them: few enough to be in the processor's cache,
# and enough that it does not take longer to call NumPy.
_FETCHED = 1 << 13
_AT_ONCE = 1 << 12
_NUMBERS = 1 << 17
# Blocks that are kept are of so many numbers: few for small tables, and then as many as the system hands out in large pages.
_LEAST_BLOCK = 1 << 16
_MOST_BLOCK = 1 << 23
# Numbers are counted from the middle of their ends where one may be larger than this. Then none is.
_NARROW = 1 << 20
# A weighted number is cut in a low part of so many bits, and a high one of no more.
_LOW_BITS = 18
# So many times the products of the rows at once are added up in 64 bits.
_RECENT = 1 << 5
assert MOST_FACTOR <= 2 * _NARROW
assert _NARROW**2 * _AT_ONCE <= _EXACT
assert MOST_WEIGHT * MOST_FACTOR <= 1 << 2 * _LOW_BITS
assert (MOST_FACTOR << _LOW_BITS) * _ROWS <= _EXACT
assert _EXACT * (_AT_ONCE // _ROWS) * _RECENT <= 1 << 62
# Threads that add up what is kept: more than a few wait for the memory.
_MOST_THREADS = 4

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer[Any]]


def add_products(
    connection: duckdb.DuckDBPyConnection, rows: str, sums: ProductSums, kept: KeptNumbers | None = None
) -> pa.Table:
    """Return the sums of products over the rows of a statement; raises what DuckDB raises.

    The rows are those in `kept`, if a scan kept them there; else they are read, and kept if another scan is to come.
    """
    layout = NumberLayout(sums)
    reading = reading_of(rows, sums)
    earlier = None if kept is None else kept.take(reading)
    if earlier is not None:
        return _add_kept(earlier, sums, layout).table()
    room = 0 if kept is None else kept.room_for(reading)
    adding = AddingProducts(sums, layout, has_products=room > 0)
    keeping = KeepingNumbers(layout, room)

    def work(block: pa.RecordBatch) -> None:
        for columns, totals in layout.read(block):
            keeping.add(columns)
            adding.add(columns, totals)

    # While a block is worked on, the next one is fetched.
    with (
        closing(fetch_blocks(connection, rows, _FETCHED)) as fetched,
        ThreadPoolExecutor(1, "sordino-products") as pool,
    ):
        worked: Future[None] | None = None
        for block in fetched:
            if worked is not None:
                worked.result()
            worked = pool.submit(work, block)
        if worked is not None:
            worked.result()
    if kept is not None and keeping.blocks is not None:
        kept.keep(reading, KeptReading(keeping.blocks, adding.alike))
    return adding.table()


def _add_kept(kept: KeptReading, sums: ProductSums, layout: NumberLayout) -> AddingProducts:
    """Return the sums over rows in memory, each a part of them in a thread of its own."""
    threads = max(min(os.cpu_count() or 1, _MOST_THREADS, len(kept.blocks)), 1)

    def add_part(place: int) -> AddingProducts:
        part = AddingProducts(sums, layout, alike=kept.alike if place == 0 else 0 * kept.alike)
        for block in kept.blocks[place::threads]:
            for start in range(0, block.shape[1], layout.at_once):
                part.add(block[:, start : start + layout.at_once])
        return part

    if threads == 1:
        return add_part(0)
    with ThreadPoolExecutor(threads, "sordino-products") as pool:
        first, *others = pool.map(add_part, range(threads))
    for other in others:
        first.join(other)
    return first


class NumberLayout:
    """The columns that are selected, the weight, the numbers and the fold, as whole numbers that are floats.

    Each number is counted from `middles`, and is no more than `reaches` from there: from 0, or from the middle of its ends
    where it may be large.
    """

    def __init__(self, sums: ProductSums) -> None:
        self.columns = (sums.weight is None) + len(sums.numbers) + (sums.folds > 1)
        self.numbers = slice(int(sums.weight is None), (sums.weight is None) + len(sums.numbers))
        self.middles = [0 if max(map(abs, ends)) <= _NARROW else sum(ends) // 2 for ends in sums.ends]
        self.reaches = [max(high - m, m - low) for (low, high), m in zip(sums.ends, self.middles, strict=True)]
        self.at_once = _AT_ONCE
        while self.at_once > _MOST_ROWS and self.at_once * self.columns > _NUMBERS:
            self.at_once //= 2
        # How each column is counted: by what its doubles are multiplied or divided, None for whole numbers; between which steps;
        # and from where. What is done to doubles after they were scaled changes no whole number.
        self._scales: list[tuple[np.ufunc, float] | None] = [None] * self.columns
        self._first, self._last, self._starts = np.zeros((3, self.columns, 1))
        self._first[:] = -np.inf
        self._last[:] = np.inf
        self._starts[self.numbers, 0] = self.middles
        self._coarse: list[tuple[int, int, int]] = []
        for place, steps in enumerate(sums.floats, self.numbers.start):
            if steps is None:
                continue
            scale = np.multiply if steps.op == "*" else np.divide
            self._scales[place] = scale, steps.factor
            self._first[place] = np.floor(scale(steps.first, steps.factor) + 0.5)
            self._last[place] = np.floor(scale(steps.last, steps.factor) + 0.5)
            if steps.by > 1:
                self._coarse.append((place, steps.origin, steps.by))
            else:
                self._starts[place] += steps.origin
        self._has_floats = any(sums.floats)
        self._has_starts = bool(self._starts.any())
        # Used again for each few rows: to ask the system for the memory anew takes longer than what is done with it.
        self._buffer: Floats = np.zeros((self.columns, self.at_once))

    @property
    def kind(self) -> type[np.integer[Any]]:
        """The least type that holds all columns; a weight, as a fold, is one of few."""
        return np.int16 if max(self.reaches, default=0) < 1 << 15 else np.int32

    def read(self, block: pa.RecordBatch) -> Iterator[tuple[Floats, Floats]]:
        """Yield the columns of some rows after the other, and their sums; a row that lacks a number is left out.

        What is yielded holds until the next rows are.
        """
        if any(column.null_count for column in block.columns):
            block = block.drop_null()
        cells = [column.to_numpy() for column in block.columns]
        for start in range(0, block.num_rows, self.at_once):
            columns = self._buffer[:, : min(block.num_rows - start, self.at_once)]
            # The floats of a file may be such that hardware reports them as it computes with them.
            with np.errstate(all="ignore"):
                for column, read, scale in zip(columns, cells, self._scales, strict=True):
                    rows = read[start : start + self.at_once]
                    if scale is None:
                        column[:] = rows
                    else:
                        scale[0](rows, scale[1], out=column)
                columns, totals = self._count_steps(columns)
            yield columns, totals

    def _count_steps(self, columns: Floats) -> tuple[Floats, Floats]:
        """Return the whole steps of scaled doubles, from the middles, and their sums.

        What is computed is what SQL computes, operation by operation, but for the clip, which comes after the scale: scales and
        rounding grow with the double, and at its bounds they are whole.
        """
        if self._has_floats:
            # NaN stays NaN.
            np.clip(columns, self._first, self._last, out=columns)
            columns += 0.5
            np.floor(columns, out=columns)
            for place, origin, by in self._coarse:
                columns[place] -= origin
                columns[place] /= by
                np.floor(columns[place], out=columns[place])
        if self._has_starts:
            columns -= self._starts
        # The sum of a column is NaN if one of its numbers is.
        totals = columns.sum(axis=1)
        if np.isnan(totals).any():
            columns = columns[:, ~np.isnan(columns).any(axis=0)]
            totals = columns.sum(axis=1)
        return columns, totals


class KeepingNumbers:
    """Keeps the columns of rows as `blocks` of whole numbers; None once they take more than `room` bytes."""

    def __init__(self, layout: NumberLayout, room: int) -> None:
        self.blocks: list[NumberBlock] | None = []
        self._layout = layout
        self._room = room
        self._size = _LEAST_BLOCK
        # The last block, and how many of its rows are filled.
        self._last: NumberBlock = np.empty((layout.columns, 0), layout.kind)
        self._filled = 0

    def add(self, columns: Floats) -> None:
        """Copy the columns of some more rows."""
        if self.blocks is None or not columns.shape[1]:
            return
        end = self._filled + columns.shape[1]
        if end > self._last.shape[1]:
            rows = max(self._size // self._layout.columns, self._layout.at_once)
            self._size = min(2 * self._size, _MOST_BLOCK)
            self._last = np.empty((self._layout.columns, rows), self._layout.kind)
            self._filled = 0
            end = columns.shape[1]
            self._room -= self._last.nbytes
            if self._room < 0:
                self.blocks = None
                return
            self.blocks.append(self._last)
        np.copyto(self._last[:, self._filled : end], columns, casting="unsafe")
        self._filled = end
        self.blocks[-1] = self._last[:, :end]


class AddingProducts:
    """Adds up the products of the columns of rows. Memory is that of some rows and of the sums.

    Rows that all have one weight are multiplied as they are read, and `alike` (folds, 1 + numbers, 1 + numbers) are the sums of
    these products, where the first number is 1: they do not depend on what is to be added up. If they are given, they are not
    computed. With `has_products` they are whole, even where `sums` needs squares alone.
    """

    def __init__(
        self, sums: ProductSums, layout: NumberLayout, *, alike: Any = None, has_products: bool = False
    ) -> None:
        self._sums = sums
        self._layout = layout
        count = len(sums.numbers)
        size = 1 + count
        # By fold: the sum of w z_i z_j, where z_0 is 1. The recent ones are of the low parts, and of the high ones.
        self._totals = np.zeros((sums.folds, size, size), dtype=object)
        self._recent = np.zeros((2, sums.folds, size, size), dtype=np.int64)
        self._recent_times = 0
        # The sums of u_i u_j, where z = times u + start, and u is what is read; and of rows apart, whose weight may be cut.
        self._has_alike = alike is not None
        self._has_products = has_products or not sums.squares_alone
        self._alike = np.zeros((sums.folds, size, size), dtype=object) if alike is None else alike.copy()
        self._recent_alike = np.zeros((sums.folds, size, size), dtype=np.int64)
        lines = zip(sums.numbers, layout.middles, strict=True)
        self._times = [times for times, _ in sums.numbers]
        self._starts = [times * middle - less for (times, less), middle in lines]
        self._float_times: Floats = np.array(self._times, dtype=np.float64)[:, None]
        self._float_starts: Floats = np.array(self._starts, dtype=np.float64)[:, None]
        self._is_cut = sums.most * _ROWS > _EXACT
        # Squares alone need no matrices, unless even those of few rows may not add up in a float.
        self._has_squares_alone = sums.squares_alone and not self._is_cut
        self._rows = _MOST_ROWS if _MOST_ROWS * sums.most <= _EXACT else _ROWS
        # Used again as well.
        self._factors: Floats = np.ones((size, layout.at_once))
        self._weighted: Floats = np.zeros((size, layout.at_once))
        self._padded: Floats = np.zeros((count, layout.at_once))
        self._bound_lengths()

    def _bound_lengths(self) -> None:
        """Find what bounds the squared length of a row, and up to where the row keeps its weight."""
        shrunk = self._sums.shrunk
        own = self._sums.weight
        if shrunk is None or own is None:
            return
        centers = [Fraction(-start, times) for times, start in zip(self._times, self._starts, strict=True)]
        self._centers = np.array([float(center) for center in centers], dtype=np.float32)[:, None]
        off = [float(abs(Fraction(float(c)) - center)) for c, center in zip(self._centers[:, 0], centers, strict=True)]
        parts = self._float_times[:, 0] ** 2 / np.array(shrunk.squares, dtype=np.float64)
        self._parts = parts.astype(np.float32)
        most = max(shrunk.limit / own - shrunk.least, 0) / shrunk.parts
        shorter = math.sqrt(most) - math.sqrt(float(parts @ np.square(off)))
        self._near = shorter**2 * (1 - (len(parts) + 10) * 2.0**-23) if shorter > 0 else -1.0
        self._from_centers = np.zeros((len(parts), self._layout.at_once), dtype=np.float32)
        self._line_rows = _ROWS
        while self._line_rows * len(parts) > _MOST_LINE:
            self._line_rows //= 2

    @property
    def alike(self) -> Any:
        """The sums of the products of what was read, of rows of one weight."""
        self._add_recent()
        return self._alike

    def add(self, columns: Floats | Integers, totals: Floats | None = None) -> None:
        """Add the columns of some rows; `totals` are their sums, if these are known."""
        steps = columns[self._layout.numbers]
        weights = columns[0] if self._sums.weight is None else None
        with np.errstate(all="ignore"):
            if self._sums.folds == 1:
                self._add_rows(0, weights, steps, None if totals is None else totals[self._layout.numbers])
            else:
                for fold in range(self._sums.folds):
                    here = columns[-1] == fold
                    self._add_rows(fold, None if weights is None else weights[here], steps[:, here])
        self._recent_times += 1
        if self._recent_times == _RECENT:
            self._add_recent()

    def join(self, other: AddingProducts) -> None:
        """Add what another one added up."""
        self._alike = self.alike + other.alike
        self._totals += other._totals

    def _add_rows(self, fold: int, weights: Any, steps: Floats | Integers, totals: Floats | None = None) -> None:
        if weights is not None:
            self._add_weighed(fold, weights, steps)
            return
        if not self._has_alike:
            self._add_alike(fold, steps, 1, totals)
        if self._sums.shrunk is not None:
            far = self._find_far(steps).nonzero()[0]
            if len(far):
                apart = steps[:, far].astype(np.float64)
                self._add_alike(fold, apart, -1)
                self._add_weighed(fold, self._sums.weight, apart)

    def _add_alike(self, fold: int, steps: Floats | Integers, sign: int, totals: Floats | None = None) -> None:
        """Add the products of what was read, or take them away."""
        count = steps.shape[1]
        recent = self._recent_alike[fold]
        recent[0, 0] += sign * count
        recent[0, 1:] += sign * (steps.sum(axis=1) if totals is None else totals).astype(np.int64)
        if not self._has_products:
            np.einsum("ii->i", recent)[1:] += sign * np.vecdot(steps, steps).astype(np.int64)
            return
        if count % _MOST_ROWS:
            # Zeros behind the last row, to a whole number of matrices, add nothing.
            padded = self._padded[:, : -(-count // _MOST_ROWS) * _MOST_ROWS]
            padded[:, :count] = steps
            padded[:, count:] = 0
            steps = padded
        _multiply(recent[1:, 1:], steps, steps, _MOST_ROWS, sign)

    def _find_far(self, steps: Floats | Integers) -> Any:
        """Return which rows may be so far from the centers that their weight is cut."""
        count = steps.shape[1]
        numbers = self._from_centers[:, : -(-count // self._line_rows) * self._line_rows]
        np.copyto(numbers[:, :count], steps, casting="unsafe")
        numbers -= self._centers
        np.multiply(numbers, numbers, out=numbers)
        lengths = self._parts @ _cut_rows(numbers, self._line_rows)
        return lengths.ravel()[:count] > self._near

    def _add_weighed(self, fold: int, own: Any, steps: Floats | Integers) -> None:
        """Add rows by their own weights, those that are cut as they are."""
        count = steps.shape[1]
        # Rows behind the last, to a whole number of matrices, are weighted by 0.
        padded = -(-count // self._rows) * self._rows
        factors = self._factors[:, :padded]
        np.multiply(steps, self._float_times, out=factors[1:, :count])
        factors[1:, :count] += self._float_starts
        weighted = self._weighted[:, :padded]
        weight = self._weigh(own, factors[1:, :count])
        np.multiply(factors[:, :count], weight, out=weighted[:, :count])
        weighted[:, count:] = 0
        if self._has_squares_alone:
            left = weighted.reshape(len(weighted), -1, self._rows)
            right = factors.reshape(left.shape)
            self._recent[0, fold, 0] += np.vecdot(left, right[0]).astype(np.int64).sum(axis=1)
            squares = np.vecdot(left[1:], right[1:])
            np.einsum("ii->i", self._recent[0, fold])[1:] += squares.astype(np.int64).sum(axis=1)
            return
        if self._is_cut:
            high = np.floor(weighted / (1 << _LOW_BITS))
            _multiply(self._recent[1, fold], high, factors, self._rows)
            weighted = weighted - high * (1 << _LOW_BITS)
        _multiply(self._recent[0, fold], weighted, factors, self._rows)

    def _weigh(self, own: Any, numbers: Floats) -> Any:
        """Return the weights of rows, those that are cut as they are."""
        shrunk = self._sums.shrunk
        if shrunk is None:
            return own
        squares = np.array(shrunk.squares)[:, None]
        ends = zip(self._sums.numbers, self._sums.ends, strict=True)
        reach = max(abs(times * end - less) for (times, less), both in ends for end in both)
        if shrunk.parts * reach**2 + max(shrunk.squares) < 2 * _EXACT:
            parts = np.multiply(numbers, numbers, out=self._weighted[1:, : numbers.shape[1]])
            # `parts` is a power of two, so this is the quotient of the two whole numbers.
            parts /= squares / shrunk.parts
            np.floor(parts, out=parts)
            lengths = parts.sum(axis=0)
        else:
            wide = numbers.astype(np.int64)
            wide *= wide
            wide *= shrunk.parts
            wide //= squares
            lengths = wide.sum(axis=0).astype(np.float64)
        lengths += shrunk.least
        np.divide(shrunk.limit, lengths, out=lengths)
        np.floor(lengths, out=lengths)
        return np.minimum(own, lengths, out=lengths)

    def _add_recent(self) -> None:
        """Add the recent sums to the totals."""
        low, high = self._recent.astype(object)
        self._totals += low + high * (1 << _LOW_BITS)
        self._alike += self._recent_alike.astype(object)
        self._recent[:] = 0
        self._recent_alike[:] = 0
        self._recent_times = 0

    def table(self) -> pa.Table:
        """Return the sums under their names, with a row a fold."""
        import pyarrow as pa

        totals = self._sum_up()
        kind = pa.decimal128(38)
        columns: dict[str, Any] = {"fold": range(self._sums.folds)}
        columns["t0"] = pa.array(totals[:, 0, 0].tolist(), kind)
        for i in range(len(self._sums.numbers)):
            columns[f"s{i}"] = pa.array(totals[:, 0, 1 + i].tolist(), kind)
            for j in range(i, i + 1 if self._sums.squares_alone else len(self._sums.numbers)):
                columns[f"s{i}_{j}"] = pa.array(totals[:, 1 + i, 1 + j].tolist(), kind)
        return pa.table(columns)

    def _sum_up(self) -> Any:
        """Return the sums of w z_i z_j by fold, where i is at most j."""
        self._add_recent()
        totals = self._totals.copy()
        if self._sums.weight is None:
            return totals
        # z_0 is 1 as u_0 is.
        times = np.array([1, *self._times], dtype=object)
        starts = np.array([0, *self._starts], dtype=object)
        for total, alike in zip(totals, self._alike, strict=True):
            moved = np.outer(times * alike[0], starts)
            products = np.outer(times, times) * alike + moved + moved.T + np.outer(starts, starts) * alike[0, 0]
            total += self._sums.weight * products
        return totals


def _multiply(recent: Integers, left: Any, right: Any, rows: int, sign: int = 1) -> None:
    """Add the products of each two columns, the first not behind the second."""
    for i in range(0, len(left), _LEFT):
        for j in range(i, len(right), _RIGHT):
            one, other = slice(i, i + _LEFT), slice(j, j + _RIGHT)
            products = _cut_rows(left[one], rows) @ _cut_rows(right[other], rows).transpose(0, 2, 1)
            recent[one, other] += sign * products.astype(np.int64).sum(axis=0)


def _cut_rows(columns: Any, rows: int) -> Any:
    """Return columns of many rows as matrices of few: (matrices, columns, rows)."""
    return columns.reshape(len(columns), -1, rows).transpose(1, 0, 2)
