"""Sensitivities of a variance, from running sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.lab.sensitivity.moves import Moves
from sordino.lab.sensitivity.statistics import Statistic
from sordino.lab.sensitivity.universe import Floats, Places

# ---- Running sums of sorted numbers and of their squares: those of windows, and of a prefix and a suffix, at once
#
# It knows numbers; not tables, neighbors or queries.


class RunningSums:
    """Hold running sums of an array and of its squares; each sum of a run of values is then a difference of two."""

    __slots__ = ("size", "squares", "sums")

    def __init__(self, values: Floats) -> None:
        self.size = values.size
        self.sums = np.append(0.0, np.cumsum(values))
        self.squares = np.append(0.0, np.cumsum(values * values))

    def windows(self, width: int) -> tuple[Floats, Floats]:
        """Return the sums of each window of `width` neighboring values, and of their squares."""
        stop = self.size + 1 - width
        return self.sums[width:] - self.sums[:stop], self.squares[width:] - self.squares[:stop]

    def ends(self, first: Any, last: Any) -> tuple[Any, Any]:
        """Return the sums over [:first] and [last:], and of their squares; both may be arrays."""
        sums = self.sums[first] + self.sums[-1] - self.sums[last]
        return sums, self.squares[first] + self.squares[-1] - self.squares[last]


def exact_running_sums(values: Iterable[float], offset: Fraction) -> list[Fraction]:
    """Return the sums of the first 0, 1, ... of some numbers that each lie `offset` higher, without rounding.

    >>> exact_running_sums([1.0, 2.5], Fraction(10))
    [Fraction(0, 1), Fraction(11, 1), Fraction(47, 2)]
    """
    return list(accumulate((Fraction(value) + offset for value in values), initial=Fraction(0)))


# ---- The pair of neighbors of a given size whose var or std differ most, over a whole universe. It may not know means
#
# Let D = C + A and D' = C + B, and let var D' - var D, or std D' - std D, be largest; F are the free records, in no table.
# var and std are convex in each record, so, where an exchange of two records cannot gain, in sorted order
#
#     A makes var D small:   among A + F, A + B and A + C, the records of A are a window
#     B makes var D' large:  among B + F, B + A and B + C, the records of B are a prefix and a suffix
#     F beside C             B and A as many, var: the gain is linear in each record of C, so F is wholly below C or above
#                            B more, or std and B as many: C is a window among C + F; see below
#                            B fewer, var: the gain is convex in each record of C: F is a window among C + F
#
# For the third line let S, T be the sums of C and of its squares. With B more, the gain of var is T times a negative number
# plus a convex function of S. Std gains at most g where var D' - var D - g^2 <= 2 g std D: convex <= concave, a convex set
# of (S, T). Either way some linear function of (S, T), with T negative, is largest at the best C, which makes C a window.
# For std with B fewer there is no such proof: the candidates for var are tried, and `bound` says what cannot be passed.
#
# Each line leaves a few orders of blocks with one or two free sizes. Inside D the best place of A moves var D' up and then
# down, so bisection finds it. Two free sizes that remain are branched and bounded: given C and B,
# var D >= (SS C + the least SS of a window of A's size) / (n - ddof). They remain where A lies inside F around which C
# lies, or between F on one side of C; the latter only if C is smaller than A, since A lies around the mean of C + A.
# O(k^3 N log N) in all, apart from the branching.

# Cells of all sweeps over two free sizes; past them the bound of the rest is the answer.
_CELLS = 1_000_000_000
# Cells of a sweep at a time.
_BATCH = 50_000
# The relative error of running sums: a bound that is no higher than this is attained.
_ROUNDING = 1e-10
# An int, or an array of sizes that broadcasts with the others.
_Size = Any
# Blocks in sorted order: A, B, C or F, and how many records.
_Layout = list[tuple[str, _Size]]


@dataclass(frozen=True, slots=True)
class Extreme:
    """Hold the best pair of neighbors (places in the universe); no pair gains more than `bound`, or than it if -inf."""

    first: Places
    second: Places
    bound: float


def farthest_spread(universe: Floats, statistic: Statistic, moves: Moves) -> Extreme:
    """Return the pair of neighbors whose var, or std, differ most; `bound` is -inf when that is proved."""
    best: tuple[float, _Layout, bool] = (-np.inf, [], False)
    bound = -np.inf
    sums = _Sums(universe)
    searches = []
    for removed, added in moves.pairs:
        common = moves.size - removed
        for inner, outer in dict.fromkeys([(removed, added), (added, removed)]):
            searches.append((_Search(sums, common, inner, outer, statistic), (inner, outer) != (removed, added)))
    # Large gains first.
    for search, swapped in sorted(searches, key=lambda pair: pair[0].inner - pair[0].outer):
        search.floor = best[0]
        search.run()
        bound = max(bound, search.bound)
        if search.best > best[0]:
            best = (search.best, search.layout, swapped)
    tight = _places(best[1], "CA")
    loose = _places(best[1], "CB")
    first, second = (loose, tight) if best[2] else (tight, loose)
    return Extreme(first, second, bound * (1 + _ROUNDING) if bound > best[0] * (1 + _ROUNDING) else -np.inf)


def _places(layout: _Layout, labels: str) -> Places:
    start = 0
    runs = [np.arange(0)]
    for label, size in layout:
        if label in labels:
            runs.append(np.arange(start, start + size))
        start += size
    return np.concatenate(runs)


class _Sums(RunningSums):
    """Running sums of the sorted, centred universe; `swept` counts the cells of all sweeps over it."""

    __slots__ = ("swept",)

    def __init__(self, universe: Floats) -> None:
        super().__init__(universe - universe.mean())
        self.swept = 0

    def least_std(self, size: int, ddof: int) -> float:
        """Return the least std of any table of `size` records: that of a window."""
        first, second = self.windows(size)
        return float(np.sqrt(np.maximum(second - first * first / size, 0.0).min() / (size - ddof)))

    def most_std(self, size: int, ddof: int) -> float:
        """Return the largest std of any table of `size` records: that of a prefix and a suffix."""
        low = np.arange(size + 1)
        first, second = self.ends(low, self.size - size + low)
        return float(np.sqrt(np.maximum(second - first * first / size, 0.0).max() / (size - ddof)))


@dataclass(slots=True)
class _Search:
    """Maximize the gain from C + A to C + B over the universe, for the sizes of C, A (`inner`) and B (`outer`)."""

    sums: _Sums
    common: int
    inner: int
    outer: int
    statistic: Statistic
    floor: float = -np.inf
    best: float = -np.inf
    layout: _Layout = field(default_factory=list)
    bound: float = -np.inf

    @property
    def free(self) -> int:
        return self.sums.size - self.common - self.inner - self.outer

    def run(self) -> None:
        """Go through every order of blocks that an optimum can have."""
        root = self.statistic.kind == "std"
        for layout in self._one_sided():
            self._try(layout)
            self._try(layout[::-1])
        if self.common and self.free and (root or self.inner != self.outer):
            for lowest in range(self.outer + 1):
                self._try(self._around_window(lowest) if self.outer >= self.inner else self._around_gap(lowest))
            if (self.inner > self.outer and not root) or (self.common < self.inner <= self.outer):
                self._sweep()
        if root and self.inner > self.outer:
            self.bound = self._upper_bound()

    def _one_sided(self) -> Iterator[_Layout]:
        """Yield the orders with all of F below C; B may fill the gaps that leave A, C and F in their windows."""
        a = self.inner
        b = self.outer
        c = self.common
        f = self.free
        x = np.arange(f + 1)
        s = np.arange(c + 1)
        for low in range(b + 1):
            for middle in range(b - low + 1):
                high = b - low - middle
                yield [("B", low), ("F", x), ("A", a), ("F", f - x), ("B", middle), ("C", c), ("B", high)]
                yield [("B", low), ("F", f), ("B", middle), ("C", s), ("A", a), ("C", c - s), ("B", high)]
        b1, b2, b3 = (part.ravel() for part in np.meshgrid(*[np.arange(b + 1)] * 3, indexing="ij"))
        some = b1 + b2 + b3 <= b
        b1 = b1[some]
        b2 = b2[some]
        b3 = b3[some]
        sizes = {"A": a, "C": c, "F": f}
        for one, two, three in permutations("ACF"):
            if (one + two + three).index("F") < (one + two + three).index("C"):
                last = b - b1 - b2 - b3
                yield [
                    ("B", b1),
                    (one, sizes[one]),
                    ("B", b2),
                    (two, sizes[two]),
                    ("B", b3),
                    (three, sizes[three]),
                    ("B", last),
                ]

    def _around_window(self, lowest: int) -> _Layout:
        """Return D as a window between F^x and F^y, with A where bisection puts it."""
        x = np.arange(self.free + 1)
        s = self._bisect(lowest, start=lowest + x, gap=np.full_like(x, self.common + self.inner), width=0)
        return [
            ("B", lowest),
            ("F", x),
            ("C", s),
            ("A", self.inner),
            ("C", self.common - s),
            ("F", self.free - x),
            ("B", self.outer - lowest),
        ]

    def _around_gap(self, lowest: int) -> _Layout:
        """Return F as a window inside D, with A where bisection puts it in D."""
        a = self.inner
        size = self.common + self.inner
        p = np.arange(size + 1)
        s = self._bisect(lowest, start=np.full_like(p, lowest), gap=p, width=self.free)
        c1 = np.minimum(s, p)
        a1 = np.clip(p - s, 0, a)
        c2 = p - c1 - a1
        c3 = np.maximum(s - p, 0)
        return [
            ("B", lowest),
            ("C", c1),
            ("A", a1),
            ("C", c2),
            ("F", self.free),
            ("C", c3),
            ("A", a - a1),
            ("C", self.common - c1 - c2 - c3),
            ("B", self.outer - lowest),
        ]

    def _bisect(self, lowest: int, *, start: NDArray[Any], gap: NDArray[Any], width: int) -> NDArray[Any]:
        """Return how many records of D lie below A when var D' is largest; D begins at `start` and skips `width` at `gap`.

        Moving A up by one puts d_s into D' for d_{s + a}; that helps while their midpoint is below the mean of the rest.
        """
        sums = self.sums.sums
        a = self.inner
        n = self.common + self.inner
        rest = self.common - 1 + self.outer
        low = np.zeros_like(start)
        high = np.full_like(start, self.common)
        if not a or not rest:
            return low
        ends = sums[lowest] + sums[-1] - sums[sums.size - 1 - (self.outer - lowest)]

        def upto(i: NDArray[Any]) -> Floats:
            over = i > gap
            jumped = np.where(over, sums[start + gap + width] - sums[start + gap], 0.0)
            return np.asarray(sums[start + i + width * over] - jumped - sums[start])

        total = upto(np.full_like(start, n)) + ends
        while (low < high).any():
            middle = (low + high) // 2
            after = np.minimum(middle + a + 1, n)
            first = upto(middle + 1) - upto(middle)
            last = upto(after) - upto(after - 1)
            mean = (total - (upto(after) - upto(middle))) / rest
            up = (first + last < 2 * mean) & (low < high)
            low, high = np.where(up, middle + 1, low), np.where(up | (low >= high), high, middle)
        return low

    def _try(self, layout: _Layout) -> None:
        """Keep the best sizes of a layout."""
        start: _Size = 0
        first = dict.fromkeys("ABCF", np.zeros(1))
        second = dict.fromkeys("ABCF", np.zeros(1))
        for label, size in layout:
            if label != "F":
                first[label] = first[label] + self.sums.sums[start + size] - self.sums.sums[start]
                second[label] = second[label] + self.sums.squares[start + size] - self.sums.squares[start]
            start = start + size
        outer = self._spread(first["C"] + first["B"], second["C"] + second["B"], self.common + self.outer)
        inner = self._spread(first["C"] + first["A"], second["C"] + second["A"], self.common + self.inner)
        gain = outer - inner
        place = np.unravel_index(int(gain.argmax()), gain.shape)
        if gain[place] > self.best:
            self.best = float(gain[place])
            self.layout = [(label, int(np.broadcast_to(size, gain.shape)[place])) for label, size in layout]

    def _spread(self, first: Floats, second: Floats, size: int) -> Floats:
        return self._answer(np.maximum(second - first * first / size, 0.0), size)

    def _answer(self, squares: Floats, size: int) -> Floats:
        variance = squares / (size - self.statistic.ddof)
        return np.asarray(np.sqrt(variance) if self.statistic.kind == "std" else variance)

    def _upper_bound(self) -> float:
        """Return what no gain of std can pass when B is smaller than A.

        std D >= sqrt(SS C / (|D| - ddof)), so the gain is at most the rise from C to C + B, which is known, and
        std C (1 - sqrt((|C| - ddof) / (|D| - ddof))). It is also at most the largest std D' less the least std D.
        """
        c = self.common
        ddof = self.statistic.ddof
        size = c + self.inner
        widest = self.sums.most_std(c + self.outer, ddof) - self.sums.least_std(size, ddof)
        if c <= ddof or widest <= max(self.best, self.floor):
            return widest
        rise = _Search(self.sums, c, 0, self.outer, self.statistic)
        if self.outer:
            rise.run()
        shrink = self.sums.most_std(c, ddof) * (1 - math.sqrt((c - ddof) / (size - ddof)))
        return min(widest, max(rise.best, 0.0) + shrink)

    def _sweep(self) -> None:
        """Branch over C and B, most promising first, and over the places of A inside F while they may still gain."""
        bounds, lowest, places = self._branches()
        rows = max(1, _BATCH // (self.free + 1))
        for first in range(0, bounds.size, rows):
            if bounds[first] <= self._bar():
                return
            self.sums.swept += rows * (self.free + 1)
            if self.sums.swept > _CELLS:
                self.bound = float(bounds[first])
                return
            batch = slice(first, first + rows)
            for layout in self._split(lowest[batch, None], places[batch, None]):
                self._try(layout)

    def _bar(self) -> float:
        attained = max(self.best, self.floor)
        return attained + _ROUNDING * abs(attained)

    def _split(self, lowest: NDArray[Any], place: NDArray[Any]) -> Iterator[_Layout]:
        """Yield, for B and C given (one row each), the layouts with A anywhere in F."""
        a = self.inner
        c = self.common
        f = self.free
        below = ("B", lowest)
        above = ("B", self.outer - lowest)
        x = np.arange(f + 1)[None, :]
        if self.inner > self.outer:
            yield [below, ("C", place), ("F", x), ("A", a), ("F", f - x), ("C", c - place), above]
            return
        low = lowest[place[:, 0] <= f]
        here = place[place[:, 0] <= f]
        if here.size:
            x1 = np.minimum(x, f - here)
            below = ("B", low)
            above = ("B", self.outer - low)
            yield [below, ("F", here), ("C", c), ("F", x1), ("A", a), ("F", f - here - x1), above]
        low = lowest[place[:, 0] >= a]
        here = place[place[:, 0] >= a]
        if here.size:
            x1 = np.minimum(x, here - a)
            below = ("B", low)
            above = ("B", self.outer - low)
            yield [below, ("F", x1), ("A", a), ("F", here - a - x1), ("C", c), ("F", f + a - here), above]

    def _branches(self) -> tuple[Floats, NDArray[Any], NDArray[Any]]:
        """Return bounds, the records of B below and the place of C, where the bound is high enough, highest first."""
        sums = self.sums.sums
        squares = self.sums.squares
        a = self.inner
        c = self.common
        window, window_squares = self.sums.windows(a)
        least = max(float((window_squares - window**2 / a).min()), 0.0)
        p = np.arange((c if self.inner > self.outer else self.free + a) + 1)[None, :]
        lowest = np.arange(self.outer + 1)[:, None]
        highest = self.sums.size - (self.outer - lowest)
        if self.inner > self.outer:  # C around F and A
            first = sums[lowest + p] - sums[lowest] + sums[highest] - sums[highest - c + p]
            second = squares[lowest + p] - squares[lowest] + squares[highest] - squares[highest - c + p]
        else:  # C a window
            first = sums[lowest + p + c] - sums[lowest + p]
            second = squares[lowest + p + c] - squares[lowest + p]
        ends, end_squares = self.sums.ends(lowest, highest)
        inner = self._answer(np.maximum(second - first * first / c, 0.0) + least, c + a)
        bounds = self._spread(first + ends, second + end_squares, c + self.outer) - inner
        row, column = np.nonzero(bounds > self._bar())
        order = np.argsort(-bounds[row, column], kind="stable")
        return bounds[row, column][order], row[order], column[order]
