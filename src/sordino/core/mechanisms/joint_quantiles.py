"""Several quantiles of a narrow column by one exponential mechanism over all of them together, drawn exactly.

It may not know a table: it is given the number of rows of each value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.estimates.choices import RankStage
from sordino.core.loss import format_number
from sordino.core.mechanisms.partition import Partition
from sordino.core.mechanisms.quantile_selection import Holdings
from sordino.core.neighbors import Neighbors
from sordino.core.noise.bernoulli import CertifiedProbability, bernoulli, exp_bounds, rounding_contexts
from sordino.core.noise.rng import Rng

Array: TypeAlias = "np.ndarray[Any, Any]"

# More than a thousand roundings, and those of exp, can lose.
_SLACK = 1 + 2.0**-30
# More than underflow can lose.
_TINY = 2.0**-900
# Groups x (levels x values)^2: about a second.
_MOST_WORK = 100_000_000
# Parts of a row: with 2^48 rows at most, sums of two ranks fit into 64 bits.
_MOST_PARTS = 2**13
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class JointQuantiles:
    """The quantiles at sorted `levels` of each of `groups` groups of rows, by one joint selection of all levels.

    The score. Values o_1 <= ... <= o_m cut a table of n rows into m + 1 intervals, which share out its rows: a row between
    o_(j-1) and o_j belongs to interval j, one that ties with ends of intervals is divided among these in any way. The cost
    u(o) is the least, over all such ways, of the sum over j of |rows in interval j - (q_j - q_(j-1)) n|. (JointExp:
    Gillenwater, Joseph, Kulesza 2021, "Differentially private quantiles", section 3, has the cost for values that do not
    tie; to divide ties is ours.)

    Theorem (sensitivity). Let p be the least q_j - q_(j-1). A row more, given to one interval that may have it, moves the
    terms by 1 - p_j there and p_i elsewhere, by 2 (1 - p_j) in all; a row less, whose shares w sum to 1, by the sum of
    |w_i - p_i|, which is convex in w and so no more than 2 (1 - p). In both cases what is left is a way to share out the
    neighbor's rows. Hence with C rows a unit add_remove moves u(o) by at most D = 2 C (1 - p); replace leaves n, gives the
    row to other intervals, and moves u(o) by at most D = 2 C; a row that is
    dropped or missing on one side is a row more or less. So P(o) proportional to exp(-epsilon u(o) / (2 D)) is
    epsilon-differentially private, with log ratios in a range of length epsilon (McSherry & Talwar 2007; `QuantileSelection`
    has the sources). In groups, a unit moves the costs of group g by 2 (1 - p) times its rows there, W_g and, under
    replace, W'_g: the ranges add to epsilon with D = 2 C (1 - p), and 4 C (1 - p) under replace.

    Theorem (the least cost). Let s_j be the rows below the cut at o_j: any number in [a_j, b_j], the rows below o_j and not
    above it. With e_j = s_j - q_j n, e_0 = e_(m+1) = 0, the cost is the total variation of e. It is least where e moves only
    when it must, and no further: e_j is e_(j-1) moved to the nearest number allowed. For let h_j(x) be the least variation
    up to j that ends at x. h_0 extended by |.| is |x|; if h_(j-1), extended, is c + |x - e_(j-1)|, then on [a_j, b_j] it is
    least at that e_j, and extended again it is c + |e_j - e_(j-1)| + |x - e_j|, as it rises by 1 a step on both sides.
    So values are drawn one after the other, with a state (o_j, s_j), and the cost is a sum over steps.

    Theorem (exact drawing). Let g = exp(-rate cost) be the weight of a step. Backward, each state x gets a float B(x), and
    each step from x to y a float t(x, y) >= g B(y), such that the t(x, y) of all y sum to at most B(x); after the last
    step, B = 1. Forward, from the first state, y is chosen with probability t(x, y) / B(x), and with what is left to 1 all is
    drawn again. So values o are proposed with probability (product of t) / (product of B before each step), and kept with
    probability exp(-rate u(o)) (product of B after each step) / (product of t), which is at most 1: together that is
    exp(-rate u(o)) / B(first), and what is kept has the law (von Neumann 1951). No float decides it: the choice among the t
    and the coin are exact. That t and B are large enough follows from `_SLACK` and `_TINY`: sums of up to 2^20 positive
    floats, and exp of a product, are within 2^-31 of exact or below 2^-1000.

    Theorem (error). Some o costs nothing, as the intervals [a, b] of all values cover [0, n]; there are C(U + m - 1, m) of
    them for U values. e starts and ends at 0, so |e_j| <= u / 2, and the rank error of o_j is no more: P(error >= t) <=
    C(U + m - 1, m) exp(-2 rate t). Two errors sum to u at most.

    Raises DeclarationError unless levels are sorted in [0, 1], two at least and all different, and epsilon > 0.

    >>> JointQuantiles((Fraction(1, 4), Fraction(3, 4)), Fraction(1), Neighbors("replace", None), groups=1).rate
    Fraction(1, 4)
    """

    levels: tuple[Fraction, ...]
    epsilon: Fraction
    neighbors: Neighbors
    groups: int

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or any(not 0 <= q <= 1 for q in self.levels):
            raise DeclarationError("levels must lie between 0 and 1, and be two at least")
        if any(a >= b for a, b in itertools.pairwise(self.levels)):
            raise DeclarationError("levels must be sorted and all different")
        if self.epsilon <= 0:
            raise DeclarationError(f"epsilon must be above 0, not {format_number(self.epsilon)}")

    @staticmethod
    def suits(levels: tuple[Fraction, ...], *, values: int, groups: int) -> bool:
        """Whether the draws are quick: a matter of public numbers alone."""
        parts = math.lcm(*(q.denominator for q in levels))
        return len(levels) > 1 and parts <= _MOST_PARTS and groups * (len(levels) * values) ** 2 <= _MOST_WORK

    @property
    def stages(self) -> int:
        """One: all levels are one selection."""
        return 1

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share of the rows that each interval is to have."""
        return tuple(b - a for a, b in itertools.pairwise((Fraction(0), *self.levels, Fraction(1))))

    @property
    def rate(self) -> Fraction:
        """What a row in the wrong interval costs in the exponent: epsilon / (2 D)."""
        # D of the theorem on sensitivity
        moved = self.neighbors.contributions * 2 * (1 - min(self.shares))
        if self.neighbors.relation == "replace":
            moved = 2 * Fraction(self.neighbors.contributions) if self.groups == 1 else 2 * moved
        return self.epsilon / (2 * moved)

    def error_stages(self, places: Sequence[Sequence[int]], *, values: int, rows: int) -> list[tuple[RankStage, ...]]:
        """Return what bounds the rank error at each level on a lattice of `values` values, or the sum of two errors."""
        del rows
        choices = math.log(math.comb(values + len(self.levels) - 1, len(self.levels))) * (1 + 1e-12)
        return [(RankStage(Fraction(1), self.rate * (1 if len(p) > 1 else 2), choices),) for p in places]

    def dense_errors(self, requested: Sequence[Fraction]) -> list[float]:
        """Return the standard deviation of the rank at each requested level, where values are dense.

        There e is a walk of independent steps, Laplace noise of scale 1 / rate, on the condition that it ends at 0.
        """
        steps = len(self.levels) + 1
        rate = float(self.rate)
        before = [self.levels.index(level) + 1 for level in requested]
        return [math.sqrt(_bridge_variance(min(k, steps - k), max(k, steps - k))) / rate for k in before]

    def release(self, holdings: Holdings, *, low: int, high: int, rng: Rng) -> list[list[int]]:
        """Return, for each group, the value found at each level: whole steps in [low, high], never falling."""
        # joint draws need the rows of each single value
        while wanted := [(g, s) for g in range(self.groups) for s in _coarse(holdings.known(g))]:
            holdings.refine(wanted)
        return [
            [low + step for step in self.walk(holdings.known(group), low, high).draw(rng)]
            for group in range(self.groups)
        ]

    def walk(self, partition: Partition, low: int, high: int) -> _Walk:
        """Return the walk through a group's values, all of which are resolved."""
        # with so many parts to a row, each interval's share of the rows is a whole number
        parts = math.lcm(*(q.denominator for q in self.levels))
        rows = np.zeros(high - low + 1, dtype=np.int64)
        rows[(partition.first - low).astype(np.int64)] = np.diff(partition.below)
        upper = np.cumsum(rows) * parts
        gaps = tuple(int(share * parts) * partition.rows for share in self.shares)
        return _Walk(upper - rows * parts, upper, gaps, self.rate / parts)

    def describe(self) -> str:
        """Return the mechanism in words."""
        return f"joint exponential mechanism over ranks, {format_number(self.rate)} a row of each interval"


@dataclass(frozen=True)
class _Level:
    """The states after one level: each value with the rank of its lower end, of its upper end, and of `inner` ones within."""

    inner: Array
    # The value that each inner rank lies in.
    within: Array
    # B of each state.
    at_lower: Array
    at_upper: Array
    at_inner: Array


@dataclass(frozen=True)
class _Walk:
    """The steps through values with `lower` and `upper` rank, in parts of a row; intervals are to have `gaps` of them."""

    lower: Array
    upper: Array
    gaps: tuple[int, ...]
    rate: Fraction

    def draw(self, rng: Rng) -> list[int]:
        """Return the place of each level's value, by exactly the law."""
        while True:
            proposal = self._propose(rng)
            if proposal is not None and bernoulli(keeping_chance(proposal[1] * self.rate, proposal[2]), rng):
                return proposal[0]

    def _propose(self, rng: Rng) -> tuple[list[int], int, Fraction] | None:
        """Return values, their cost and (product of t) / (product of B after each step); None where all is drawn again."""
        value = 0
        rank = 0
        weight = self.start
        values: list[int] = []
        cost = 0
        excess = Fraction(1)
        for place in range(len(self.gaps)):
            terms, after, ranks = self.steps(place, value, rank)
            step = _choose(terms, weight, rng)
            if step is None:
                return None
            reached = int(ranks[step])
            cost += abs(reached - rank - self.gaps[place])
            excess *= Fraction(float(terms[step])) / Fraction(float(after[step]))
            if place < len(self.gaps) - 1:
                value += step
                rank = reached
                weight = float(after[step])
                values.append(value)
        return values, cost, excess

    def steps(self, place: int, value: int, rank: int) -> tuple[Array, Array, Array]:
        """Return t, B and the rank after each step from a state before the level at `place`, to `value` and above it."""
        aim = rank + self.gaps[place]
        if place == len(self.gaps) - 1:
            return self._weigh(np.array([self.rows - aim]), np.ones(1)), np.ones(1), np.array([self.rows])
        level = self.levels[place]
        reached = np.clip(aim, self.lower[value:], self.upper[value:])
        after = self._after(level, np.array([aim]))[0, value:]
        return self._weigh(reached - aim, after), after, reached

    @property
    def rows(self) -> int:
        """All rows, in parts."""
        return int(self.upper[-1])

    @cached_property
    def start(self) -> float:
        """B of the first state."""
        return float(self._before(0, np.array([0]), np.array([0]))[0])

    @cached_property
    def levels(self) -> list[_Level]:
        """The states after each level, with B of each, computed backward."""
        inner = [self._inside(np.array([self.gaps[0]]))]
        for gap in self.gaps[1:-1]:
            ranks = np.concatenate([self.lower, self.upper, inner[-1][0]])
            inner.append(self._inside(np.unique(ranks + gap)))
        backward: list[_Level] = []
        places = np.arange(len(self.lower))
        for at in range(len(inner), 0, -1):
            ranks, within = inner[at - 1]
            following = backward[-1] if backward else None
            ends = [
                self._before(at, r, v, following)
                for r, v in ((self.lower, places), (self.upper, places), (ranks, within))
            ]
            backward.append(_Level(ranks, within, *ends))
        return backward[::-1]

    def _inside(self, ranks: Array) -> tuple[Array, Array]:
        """Return those of sorted ranks that lie within a value's ties, and that value's place."""
        within = np.minimum(np.searchsorted(self.upper, ranks, "right"), len(self.upper) - 1)
        inside = (self.lower[within] < ranks) & (ranks < self.upper[within])
        return ranks[inside], within[inside]

    def _before(self, place: int, ranks: Array, values: Array, following: _Level | None = None) -> Array:
        """Return B of the states before the level at `place`."""
        aims = ranks + self.gaps[place]
        if place == len(self.gaps) - 1:
            return self._weigh(self.rows - aims, np.ones(1)) * _SLACK
        level = self.levels[place] if following is None else following
        bounds = np.empty(len(aims))
        most = max(1, _CHUNK // len(self.lower))
        above = np.arange(len(self.lower))
        for start in range(0, len(aims), most):
            some = slice(start, start + most)
            wide = aims[some, None]
            terms = self._weigh(np.clip(wide, self.lower, self.upper) - wide, self._after(level, aims[some]))
            bounds[some] = np.where(above >= values[some, None], terms, 0.0).sum(axis=1) * _SLACK
        return bounds

    def _after(self, level: _Level, aims: Array) -> Array:
        """Return B of the states that each aim leads to, one a value."""
        wide = aims[:, None]
        bounds = np.where(wide <= self.lower, level.at_lower, level.at_upper)
        if len(level.inner):
            at = np.minimum(np.searchsorted(level.inner, aims), len(level.inner) - 1)
            exact = np.flatnonzero(level.inner[at] == aims)
            bounds[exact, level.within[at[exact]]] = level.at_inner[at[exact]]
        return bounds

    def _weigh(self, moves: Array, after: Array) -> Array:
        """Return t of steps: at least exp(-rate |move|) times B of what they lead to."""
        rate = float(min(self.rate, Fraction(2) ** 900))
        return np.exp(-rate * np.abs(moves).astype(np.float64)) * _SLACK * after + _TINY * np.maximum(after, 1.0)


def keeping_chance(power: Fraction, excess: Fraction) -> CertifiedProbability:
    """Return the probability exp(-power) / excess, certified."""
    if not power:
        return CertifiedProbability.rational(1 / excess)

    def bounds(precision: int) -> tuple[Decimal, Decimal]:
        least, most = exp_bounds(power, precision)
        down, up = rounding_contexts(precision)
        over = Decimal(excess.denominator)
        under = Decimal(excess.numerator)
        return down.divide(down.multiply(least, over), under), up.divide(up.multiply(most, over), under)

    return CertifiedProbability.certify(bounds)


def _choose(terms: Array, total: float, rng: Rng) -> int | None:
    """Return i with probability terms_i / total exactly, None with what is left to 1."""
    whole = list(_integers([*terms.tolist(), total]))
    point = rng.below(whole.pop())
    for place, term in enumerate(whole):
        point -= term
        if point < 0:
            return place
    return None


def _integers(floats: list[float]) -> Iterator[int]:
    """Yield positive floats as whole numbers of one unit."""
    ratios = [f.as_integer_ratio() for f in floats]
    unit = max(under for _, under in ratios)
    yield from (over * (unit // under) for over, under in ratios)


@lru_cache(1 << 8)
def _bridge_variance(before: int, after: int) -> float:
    """Return the variance of the sum of `before` standard Laplace numbers if that of `after` others is the same.

    The density of a sum of k is exp(-|x|) times a polynomial in |x|, so moments are sums of factorials.
    """
    product = np.convolve(_laplace_sum(before), _laplace_sum(after)).tolist()
    moments = [
        math.fsum(c * math.exp(math.lgamma(i + n + 1) - (i + n + 1) * math.log(2)) for i, c in enumerate(product))
        for n in (0, 2)
    ]
    return moments[1] / moments[0]


def _laplace_sum(count: int) -> list[float]:
    """Return the coefficients of that polynomial, from the constant on, up to a common factor."""
    last = count - 1
    return [
        math.exp(math.lgamma(count + last - i) - math.lgamma(i + 1) - math.lgamma(count - i) - (last - i) * math.log(2))
        for i in range(count)
    ]


def _coarse(partition: Partition) -> list[tuple[int, int]]:
    """Return the segments that hold more than one value."""
    return [(a, b) for a, b in zip(partition.first.tolist(), partition.last.tolist(), strict=True) if a != b]
