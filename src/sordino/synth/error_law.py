"""How wrong a model's answers are: the deviation of any weighted count of it, from released numbers only. Knows no data.

The error of a table of counts has a part of each order: what each column's own counts miss, what each pair of columns adds to
that, and what more columns add. `checks` finds how large each is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sordino.synth.encoded_column import Codes, EncodedColumn, Floats, values_in_runs

# A factor on each variance, since columns, pairs and triples differ among themselves.
_WIDER = 1.3
# Added to the variance of a sum of counts, in units of its largest weight: counts are whole.
_STEP = 0.25
# How much denser, relative to its mean, a run may be at one end than at the other: the least that is allowed for, beside runs
# of the same density, and that of a line which begins at 0.
_LEAST_SLOPE = 0.25
_MOST_SLOPE = 2.0


@dataclass(frozen=True, slots=True)
class ColumnNoise:
    """What the counts of one column's keys are known to miss, by key (or, summed, by class of keys).

    `share` of the rows; `variance` of the noise in the count; `lean`, how far cutting negative counts moves it on average;
    `drift`, how far the fitted model lies from the counts that it was fitted to.
    """

    share: Floats
    variance: Floats
    lean: Floats
    drift: Floats

    def by_class(self, member: Any, size: int) -> ColumnNoise:
        """Return the same of classes of keys; `member` gives each key its class."""
        parts = (self.share, self.variance, self.lean, self.drift)
        return ColumnNoise(*(_sum_by(member, part, size) for part in parts))

    def spread(self, weights: Floats, classes: Any, owners: Any, count: int) -> Floats:
        """Return, by owner, the expected square of what the weighted sum of its counts misses, their total being known."""
        linear = [_sum_by(owners, weights * part[classes], count) for part in self._parts()]
        noise = _sum_by(owners, np.square(weights) * self.variance[classes], count)
        total = max(float(self.variance.sum()), 1e-12)
        squares: Floats = (
            np.maximum(noise - np.square(linear[0]) / total, 0.0) + np.square(linear[1]) + np.square(linear[2])
        )
        return squares

    def _parts(self) -> tuple[Floats, Floats, Floats]:
        return self.variance, self.lean, self.drift


@dataclass(frozen=True, slots=True)
class ErrorLaw:
    """The law of a model's errors: a Hoeffding decomposition in which each order has a variance of its own.

    A weighted count sum f(x) n(x) errs with variance  a sum_i V_i(f_i) + sum_ij t_ij ||f_ij||^2 + h ||f_more||^2  and what
    the number of rows adds. f_i = E[f | x_i] and ||f_S||^2, the variance of f's part of order S, are taken under
    independent columns; V_i is the known noise of the counts of column i. `own` is a, `measured` and `unmeasured` are the
    t of a pair that was, or was not, measured, `joined` that of a pair which was not and which one of `rules` joins, `higher`
    is h, and `rows` is the deviation of the number of rows.
    """

    columns: tuple[ColumnNoise, ...]
    pairs: frozenset[tuple[int, ...]]
    own: float
    measured: float
    unmeasured: float
    higher: float
    rows: float
    joined: float | None = None
    rules: frozenset[frozenset[int]] = frozenset()

    def deviation(
        self, chosen: Sequence[int], members: Sequence[Any], values: Floats, groups: Any = None, count: int = 1
    ) -> Floats:
        """Return the standard deviation, by group, of the error of the sum of `values` over rows.

        `values` and `groups` lie on a grid with an axis a chosen column; `members` give each key of a column its class
        there. A group below 0 is left out.
        """
        shape = values.shape
        flat = values.ravel()
        place = np.zeros(flat.size, dtype=np.int64) if groups is None else np.broadcast_to(groups, shape).ravel()
        cells = np.flatnonzero((flat != 0) & (place >= 0))
        noises = [self.columns[c].by_class(m, n) for c, m, n in zip(chosen, members, shape, strict=True)]
        weighted = _Weighted(noises, np.unravel_index(cells, shape) if shape else (), flat[cells], place[cells], count)
        largest = np.zeros(count)
        np.maximum.at(largest, weighted.groups, np.abs(weighted.values))
        deviations: Floats = np.sqrt(_WIDER * self._variance(weighted, chosen) + _STEP * np.square(largest))
        return deviations

    def under_rules(self, joined: Iterable[frozenset[int]], *, loose: bool, count: float) -> ErrorLaw:
        """Return the law for answers under rules, each of which joins the columns of one set in `joined`.

        `loose` says that the answer does not hold all of them: the columns may depend on each other wholly. With the mean square
        contingency phi^2, n = `count` rows then add at most n phi ||f_ij|| (Cauchy and Schwarz): t is n^2 at phi = 1.
        """
        scale = self.unmeasured if self.joined is None else self.joined
        return replace(self, rules=frozenset(joined), joined=max(scale, count**2) if loose else scale)

    def typical(self, kind: str) -> float:
        """Return the deviation of a count of half of the rows by conditions of a kind, alike, on an average column."""
        order = {"one": 1, "many": 3}.get(kind, 2)
        p = 0.5 ** (1.0 / order)
        odds = (1.0 - p) / p
        noise = float(np.mean([c.variance.sum() for c in self.columns]))
        pair = self.measured if kind == "measured" else self.unmeasured
        pairs = math.comb(order, 2) * odds**2 * pair
        more = odds**3 * self.higher if order == 3 else 0.0
        return math.sqrt(_WIDER * 0.25 * (self.rows**2 + order * odds * self.own * noise + pairs + more) + _STEP)

    def _variance(self, asked: _Weighted, chosen: Sequence[int]) -> Floats:
        whole = asked.moment(())
        rest = asked.square() - whole
        total = whole * self.rows**2
        single: list[Floats] = []
        for i in range(len(chosen)):
            owners, classes, weights = asked.mean((i,))
            total += self.own * asked.noises[i].spread(weights, classes[0], owners, asked.count)
            single.append(asked.moment((i,)) - whole)
            rest = rest - single[-1]
        for i, j in itertools.combinations(range(len(chosen)), 2):
            part = asked.moment((i, j)) - whole - single[i] - single[j] if len(chosen) > 2 else rest
            total += np.maximum(part, 0.0) * self.pair(chosen[i], chosen[j])
            rest = rest - part
        return total + np.maximum(rest, 0.0) * self.higher if len(chosen) > 2 else total

    def pair(self, one: int, other: int) -> float:
        """Return the variance of a pair's own part."""
        if any(one in p and other in p for p in self.pairs):
            return self.measured
        if self.joined is not None and any(one in rule and other in rule for rule in self.rules):
            return self.joined
        return self.unmeasured


@dataclass(frozen=True, slots=True)
class _Weighted:
    """The cells of a grid that a weighted count takes in: their classes, values and groups."""

    noises: Sequence[ColumnNoise]
    classes: Sequence[Any]
    values: Floats
    groups: Any
    count: int

    def square(self) -> Floats:
        """Return E[f^2] by group."""
        weights = np.square(self.values) * self._product(range(len(self.noises)))
        return _sum_by(self.groups, weights, self.count)

    def mean(self, axes: Sequence[int]) -> tuple[Any, tuple[Any, ...], Floats]:
        """Return E[f | classes on these axes] where it is not 0: groups, classes on each axis, and values."""
        sizes = [len(self.noises[i].share) for i in axes]
        code = self.groups
        for i, size in zip(axes, sizes, strict=True):
            code = code * size + self.classes[i]
        weights = self.values * self._product(i for i in range(len(self.noises)) if i not in axes)
        codes, place = np.unique(code, return_inverse=True)
        means = _sum_by(place.ravel(), weights, len(codes))
        classes: list[Any] = []
        for size in reversed(sizes):
            classes.append(codes % size)
            codes = codes // size
        return codes, tuple(reversed(classes)), means

    def moment(self, axes: Sequence[int]) -> Floats:
        """Return E[E[f | axes]^2] by group."""
        owners, classes, means = self.mean(axes)
        weights = np.square(means)
        for i, places in zip(axes, classes, strict=True):
            weights = weights * self.noises[i].share[places]
        return _sum_by(owners, weights, self.count)

    def _product(self, axes: Any) -> Floats:
        product = np.ones(len(self.values))
        for i in axes:
            product *= self.noises[i].share[self.classes[i]]
        return product


def _sum_by(places: Any, weights: Floats, minlength: int) -> Floats:
    return np.asarray(np.bincount(places, weights, minlength), dtype=np.float64)


def kind_of(columns: Sequence[int], measured: frozenset[tuple[int, ...]]) -> str:
    """Return the kind of a question by the columns that it is about."""
    distinct = tuple(sorted(set(columns)))
    if len(distinct) <= 1:
        return "one"
    if any(set(distinct) <= set(m) for m in measured):
        return "measured"
    return "unmeasured" if len(distinct) == 2 else "many"


def vary_coupled(values: Floats, table: Floats, classes: tuple[Floats, Floats]) -> float:
    """Return the variance of what a weighted count of two ordered columns misses by dependence within cells of their table.

    `values` are the weights by class of each column, `table` the counts by code of each, and `classes` the share of each code's
    rows in each class (codes x classes). A model takes the columns for independent within a cell. If they are not, with the
    mean square contingency phi^2, the n rows of the cell add at most n phi ||f|| to the count (Cauchy and Schwarz), f being the
    weights there less what either column explains. How far columns of numbers depend within a cell is told by the cells beside
    it: phi^2 is the largest of the fourfold tables that the cell makes with its neighbors.
    """
    return float((np.square(table) * _contingency(table) * measure_interactions(values, classes)).sum())


def measure_interactions(values: Floats, classes: tuple[Floats, Floats]) -> Floats:
    """Return, by pair of codes, the mean square of the weights of classes less what the classes of either code explain."""
    by_row = classes[0] @ values
    by_column = values @ classes[1].T
    squares: Floats = (
        classes[0] @ np.square(values) @ classes[1].T
        - classes[0] @ np.square(by_column)
        - np.square(by_row) @ classes[1].T
        + np.square(by_row @ classes[1].T)
    )
    return np.maximum(squares, 0.0)


def _contingency(table: Floats) -> Floats:
    """Return about the mean square contingency within each cell: the largest of the fourfold tables with its neighbors."""
    largest = np.zeros(table.shape)
    first, right, below, last = table[:-1, :-1], table[:-1, 1:], table[1:, :-1], table[1:, 1:]
    margins = (first + right) * (below + last) * (first + below) * (right + last)
    squared = np.divide(
        np.square(first * last - right * below), margins, out=np.zeros(first.shape), where=margins > 0.0
    )
    for rows in (slice(None, -1), slice(1, None)):
        for columns in (slice(None, -1), slice(1, None)):
            largest[rows, columns] = np.maximum(largest[rows, columns], squared)
    return largest


def vary_parted(column: EncodedColumn, keys: Codes, share: float, rows: Floats, shares: Floats) -> Floats:
    """Return the variance of the share of the `rows` of some runs (`keys`) that meets a condition, about what is expected.

    `share` is what should meet it, and `shares` are those of all rows in each key. Of n rows on k values:

    - rows that share values, m each, let the share p vary by p (1 - p) m / n. If nothing is known of m it may be n; else it is
      the column's lump; or n over the square of the number of values on the smaller side if that is more, since a condition on
      one value or two is asked where many rows share them. And a condition that ends at a lump may miss it whole.
    - where the density changes by s times its mean along the run, (s p (1 - p) / 2)^2: s is that to the next runs.
    """
    odd = share * (1.0 - share)
    if column.lump is None or column.edges is None:
        return np.full(rows.shape, odd)
    values = values_in_runs(column)
    runs = keys[keys < len(values)]
    smaller = max(min(share, 1.0 - share) * float(values[runs].sum()), 1.0)
    slope = max((_slope(shares[: len(values)], values, run) for run in runs.tolist()), default=_MOST_SLOPE)
    lump = np.minimum(column.lump / np.maximum(rows, 1.0), 1.0)
    variance: Floats = odd * np.maximum(lump, 1.0 / smaller**2) + np.square(lump) + (slope * odd / 2.0) ** 2
    return np.minimum(variance, 1.0)


def _slope(shares: Floats, values: Floats, run: int) -> float:
    """Return how much the density of rows over values changes from a run to the next ones of several values, at most."""
    density = shares / values
    several = np.flatnonzero(values > 1.0)
    before = several[several < run][-1:]
    after = several[several > run][:1]
    beside = density[np.concatenate([before, after])]
    if density[run] <= 0.0 or not len(beside):
        return _MOST_SLOPE
    change = float(np.abs(beside - density[run]).max() / density[run])
    return min(max(change, _LEAST_SLOPE), _MOST_SLOPE)
