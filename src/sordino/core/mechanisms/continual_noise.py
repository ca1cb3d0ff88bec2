"""Correlated noise for a series of releases: running totals whose error hardly grows with the number of steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sordino.core.accounting.events import GaussianEvent
from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.neighbors import Relation
from sordino.core.noise.laws import DiscreteGaussian
from sordino.core.noise.rng import NoiseKey

# Coefficients are multiples of 2^-24: over 10,000 steps this lengthens the bound of a column by 6 in 10,000.
_COEFFICIENT_BITS = 24
# Fine steps that one row moves a total by, at least: beside them, rounding noise to fine steps lengthens a column by .2%.
_FINEST = 1 << 16
# The most steps of a series: its rounded coefficients stay within `shift_squared`'s bound.
MOST_STEPS = 1 << 20
# Draws of earlier steps that are kept in memory, beside those of the last one.
_MOST_KEPT = 1 << 26
# The binary digits of the bound of a column's length.
_BOUND_BITS = 96
# Of the entries that products of columns are bounded by: sums of products over 2^14 steps stay within 64 bits.
_PRODUCT_BITS = 20
# The most steps where a unit counts in several: the bound of its columns takes steps squared.
MOST_STEPS_OF_UNITS = 10_000


@dataclass(frozen=True, slots=True)
class Participation:
    """In which steps a unit may count: in at most `max_periods` of each `window`; windows follow each other from step 1 on.

    Raises DeclarationError unless 1 <= max_periods <= window.
    """

    max_periods: int
    window: int

    def __post_init__(self) -> None:
        if not 1 <= self.max_periods <= self.window:
            raise DeclarationError(
                f"a unit counts in 1 to {self.window:,} periods of {self.window:,}, not in {self.max_periods:,}"
            )

    def most(self, horizon: int) -> int:
        """Return the most steps of a horizon in which one unit counts."""
        whole, rest = divmod(horizon, self.window)
        return whole * self.max_periods + min(rest, self.max_periods)

    def describe(self, every: str) -> str:
        """Return the bound in words."""
        periods = f"{self.max_periods:,} {every}{'' if self.max_periods == 1 else 's'}"
        return f"at most {periods} of each {self.window:,}"


@dataclass(frozen=True)
class ContinualGaussian:
    """Noise for the increments x_1, x_2, ... of a vector, one a step, by which running totals have little noise.

    `moved` is how far one unit moves the increments, in whole steps: the root of the sum over all steps and cells of squared
    changes, were all of them made at the first step and in one cell (`bound_moves`). With a `participation` it is so for each
    step in which the unit counts (`bound_unit_moves`). `cells` bounds how many entries of the increments a unit changes in
    all. Fine steps are `fine` to a whole step; noise is drawn in fine steps.

    With b_k = binom(2k, k) / 4^k rounded to multiples of 2^-24 (b_0 = 1), Z_t independent discrete Gaussian vectors of
    variance `sigma_squared`, and w_t = floor(1/2 + sum_k b_k Z_(t-k)), step t releases fine * x_t + w_t - w_(t-1). So the
    running total of steps a..t has the noise w_t - w_(a-1), that of all steps w_t alone.

    Theorem. The releases of at most `horizon` steps are rho-zCDP, also if the increments of later steps depend on earlier
    releases. Proof. Totals S_t and releases determine each other, so let Y_t = fine * S_t + w_t be released. As b_0 = 1,
    w_t = Z_t + r_t with r_t a function of Z_1..Z_(t-1); given Y_1..Y_(t-1) and the rows, those draws are known, so Y_t is a
    whole number plus one fresh discrete Gaussian draw. Let Z' be the draws that give the same releases on a neighbor whose
    totals are larger by D_t. Then B(Z' - Z) = -fine * D - e, where B is the Toeplitz matrix of b and |e_t| <= 1, since w
    and w' lie within 1/2 of B Z and B Z'. So Z' - Z = -fine * C d - B^-1 e, with d the changes of the increments, C = B^-1 A
    and A the matrix of ones below the diagonal. Both matrices are Toeplitz. Let g, h be the coefficients of (1-x)^(-1/2) and
    (1-x)^(1/2), and q = horizon 2^-24. The rounding moves B's coefficients by at most 2^-25 each and the sum of |h| is
    below 2, so B's series is that of g times 1 + u with ||u||_1 <= q; hence C's is g times (1 + u)^-1, whose l2 norm is at
    most ||g|| / (1 - q), and B^-1's is h times (1 + u)^-1, whose l1 norm is at most 2 / (1 - q) (Young's inequality). The
    entries of B^-1 e are thus at most 2 / (1 - q), in at most `cells` cells and horizon steps, and C d is no longer than
    moved ||g|| / (1 - q), since each changed row adds a column of C, and no later column is longer than the first
    (`bound_moves`); with a participation, the root of `participation_squared` takes the place of ||g|| here. So ||Z' - Z|| is
    at most L = (fine * moved ||g|| + 2 root(cells * horizon)) / (1 - q). Each Y_t given the ones before it costs
    ||Z'_t - Z_t||^2 / (2 sigma_squared) (Canonne, Kamath, Steinke 2020, Theorem 14), and adaptive composition of zCDP adds
    these up to L^2 / (2 sigma_squared) = rho (Bun, Steinke 2016, Lemma 2.3). What is bounded is the sum along every path, so
    it does not matter on which steps the change falls.

    Papers: Fichtenberger, Henzinger, Upadhyay 2023, Constant matters, section 4 (the square root of A, and its error);
    Henzinger, Upadhyay, Upadhyay 2023; Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1 (adaptive inputs).

    Raises DeclarationError unless rho > 0, moved > 0 and 1 <= horizon <= 2^20.

    >>> noise = ContinualGaussian(moved_squared=Fraction(1), cells=1, rho=Fraction(1, 2), horizon=365)
    >>> round(math.sqrt(noise.total_variance(365)), 3)
    2.945
    """

    moved_squared: Fraction
    cells: int
    rho: Fraction
    horizon: int
    participation: Participation | None = None

    def __post_init__(self) -> None:
        if self.rho <= 0:
            raise DeclarationError(f"rho must be above 0, not {format_number(self.rho)}")
        if self.moved_squared <= 0 or self.cells < 1:
            raise DeclarationError("a unit must move at least one cell: where none is moved, no noise is needed")
        if not 1 <= self.horizon <= MOST_STEPS:
            raise DeclarationError(f"must be from 1 to {MOST_STEPS:,} steps, not {self.horizon:,}", key="horizon")
        if self.participation is not None and self.horizon > MOST_STEPS_OF_UNITS:
            raise DeclarationError(
                f"must be at most {MOST_STEPS_OF_UNITS:,} steps where units count in several, not {self.horizon:,}",
                key="horizon",
            )

    @property
    def event(self) -> GaussianEvent:
        """What the whole series amounts to."""
        return GaussianEvent(self.rho)

    @cached_property
    def fine(self) -> int:
        """Fine steps to a whole step: a power of two, 1 where a unit moves totals by 2^16 steps or more."""
        fine = 1
        while self.moved_squared * fine * fine < _FINEST**2:
            fine *= 2
        return fine

    @cached_property
    def sigma_squared(self) -> Fraction:
        """The variance parameter of each draw, in squared fine steps."""
        squared = shift_squared(self.moved_squared * self.fine**2, self.cells, self.horizon, self.participation)
        return squared / (2 * self.rho)

    @cached_property
    def law(self) -> DiscreteGaussian:
        """The law of each draw, in fine steps."""
        return DiscreteGaussian(self.sigma_squared)

    def total_variance(self, steps: int) -> float:
        """Return the variance of the noise of the total of the first `steps` steps, in squared whole steps."""
        return float(self.noise_variance([(1, steps)])) / self.fine**2

    def noise_variance(self, terms: Sequence[tuple[int, int]]) -> Fraction:
        """Return a bound of the variance of a sum of w_t with weights, in squared fine steps; `terms` are (weight, t).

        Linear in the draws it would be sigma_squared times the sum over steps i of (sum of weight b_(t-i))^2. Rounding moves
        each w_t by at most 1/2, so the deviation grows by at most half the sum of the weights. w_0 is 0.
        """
        weights: dict[int, int] = {}
        for weight, step in terms:
            if not 0 <= step <= self.horizon:
                raise DeclarationError(f"steps run from 1 to {self.horizon:,}")
            weights[step] = weights.get(step, 0) + weight
        used = {step: weight for step, weight in weights.items() if step and weight}
        last = max(used, default=0)
        lead = np.zeros(last, dtype=np.int64)
        for step, weight in used.items():
            lead[last - step :] += weight * coefficients(self.horizon)[:step]
        squares = int((lead.astype(object) ** 2).sum())
        linear = Fraction(squares, 1 << (2 * _COEFFICIENT_BITS)) * self.sigma_squared
        rounding = Fraction(sum(map(abs, used.values())), 2)
        return linear + 2 * rounding * _root_above(linear) + rounding**2

    def describe(self) -> str:
        """Return the mechanism in words."""
        deviation = math.sqrt(self.total_variance(self.horizon))
        return (
            f"square root of the matrix of running totals over {self.horizon:,} periods, discrete Gaussian draws; a running "
            f"total has a standard deviation of at most {deviation:.4g} steps"
        )


class ContinualDraws:
    """The noise of the totals of a series, drawn again from its key whenever it is needed.

    The draws of step t in `size` cells are those of the key's stream of t, in the order of the cells, so that each is a function
    of (key, step, cell) alone. Those of earlier steps are kept in memory while they are few.
    """

    def __init__(self, noise: ContinualGaussian, key: NoiseKey, size: int) -> None:
        self._noise = noise
        self._key = key
        self._size = size
        self._kept: Any = np.zeros((0, size), dtype=np.int64)
        self._filled = 0

    def totals(self, steps: Sequence[int]) -> list[Any]:
        """Return w_t in fine steps for each of these steps: arrays of `size` whole numbers; w_0 is 0."""
        last = max(steps, default=0)
        if last > self._noise.horizon:
            raise DeclarationError(f"a series of {self._noise.horizon:,} steps has no step {last:,}")
        sums: dict[int, Any] = {step: np.zeros(self._size, dtype=np.int64) for step in steps}
        for before, draws in self._blocks(last):
            for step in sums:
                sums[step] = sums[step] + weigh_draws(draws, step - before, self._noise.horizon)
        return [round_totals(sums[step]) for step in steps]

    def _blocks(self, last: int) -> Any:
        """Yield blocks of draws with the number of steps before each."""
        if last * self._size <= _MOST_KEPT:
            for step in range(self._filled + 1, last + 1):
                draws = self._draw(step)
                if step > len(self._kept) or draws.dtype != self._kept.dtype:
                    # room for later steps, so that a step a day does not copy all that came before
                    grown = np.zeros((max(2 * step, 64), self._size), dtype=draws.dtype)
                    grown[: step - 1] = self._kept[: step - 1]
                    self._kept = grown
                self._kept[step - 1] = draws
                self._filled = step
            yield 0, self._kept[:last]
            return
        for step in range(1, last + 1):
            yield step - 1, self._draw(step)[None, :]

    def _draw(self, step: int) -> Any:
        return self._noise.law.sample(self._key.stream("step", step), self._size)


def weigh_draws(draws: Any, step: int, horizon: int) -> Any:
    """Return the sum over rows i = 1, 2, ... of b_(step-i) times that row, in multiples of 2^-24; later rows do not count.

    In 64 bits where no sum of products can leave them, else in whole numbers of any size.
    """
    rows = min(max(step, 0), len(draws))
    lead = coefficients(horizon)[step - rows : step][::-1]
    most = int(np.abs(draws[:rows]).max(initial=0)) if draws.dtype == np.int64 else 1 << 62
    exact = draws[:rows] if most * _coefficient_sum(horizon) < 1 << 61 else draws[:rows].astype(object)
    return lead @ exact if rows else np.zeros(draws.shape[1], dtype=np.int64)


def round_totals(sums: Any) -> Any:
    """Return sums of `weigh_draws` rounded to whole fine steps, halves up."""
    return (sums + (1 << (_COEFFICIENT_BITS - 1))) >> _COEFFICIENT_BITS


def bound_moves(bounds: tuple[int, int], rows: int, relation: Relation) -> Fraction:
    """Return the square of how far a unit of so many rows moves increments, for `ContinualGaussian`; `bounds` are a row's.

    A row adds a value v within [low, high] to one cell of one step's increment, or nothing; under add_remove a unit's rows
    come or go, under replace they are exchanged for as many others, with any values, cells and steps.

    Theorem. Write g_c for the column of C of a cell and step c. With A = max |v| and ||g|| the length of the longest column,
    the first step's, the totals' shift C d of a unit of n rows is at most n A ||g|| long under add_remove, and under replace
    n max(root 2 A, high - low if low < 0 < high) ||g||. Proof. Columns of C have entries of at least 0 and are later parts
    of one sequence, so none is longer than the first. A row moves C d by v g_c, of length at most A ||g||. A row exchanged
    moves it by v g_c - v' g_c', whose square is v^2 |g_c|^2 + v'^2 |g_c'|^2 - 2 v v' <g_c, g_c'> with <g_c, g_c'> from 0 to
    ||g||^2: at most 2 A^2 ||g||^2 where v v' >= 0, at most (|v| + |v'|)^2 ||g||^2 elsewhere. n rows: the triangle
    inequality. Columns of the rounded C may have entries below 0, by what `ContinualGaussian` bounds through 1 / (1 - q):
    the exact g is bounded here, then multiplied by one Toeplitz matrix whose l1 norm is at most 1 / (1 - q).

    >>> bound_moves((0, 1), 1, "replace"), bound_moves((-2, 3), 1, "replace"), bound_moves((0, 5), 2, "add_remove")
    (Fraction(2, 1), Fraction(25, 1), Fraction(100, 1))
    """
    low, high = bounds
    most = max(abs(low), abs(high))
    squared = most**2
    if relation == "replace":
        squared = 2 * most**2
        if low < 0 < high:
            squared = max(squared, (high - low) ** 2)
    return Fraction(rows**2 * squared)


def bound_unit_moves(bounds: tuple[int, int], rows: int, relation: Relation) -> Fraction:
    """Return the square of how far a unit moves the increments of each step in which it counts, for a `Participation`.

    In each of these steps at most `rows` of its rows add a value v within [low, high] to one cell each.

    Theorem. With A = max |v| and M the root of `participation_squared`, the totals' shift C d is at most rows A M long under
    add_remove, and under replace root 2 as long where no value has another sign than the others, twice as long elsewhere.
    Proof. The unit moves the increment of a step s in S by a vector v_s over cells, of length at most rows A. Products of
    columns of C are at least 0, so ||C d||^2 = sum <v_s, v_t> <g_s, g_t> <= (rows A)^2 sum <g_s, g_t>, over s and t in S.
    Under replace the shift is D - D' of two such: ||D - D'||^2 = ||D||^2 + ||D'||^2 - 2 <D, D'>, and where all values have one
    sign, so have all entries of D and D', so that <D, D'> >= 0; elsewhere the triangle inequality.

    >>> bound_unit_moves((0, 1), 2, "replace"), bound_unit_moves((-2, 3), 1, "replace"), bound_unit_moves((0, 1), 1, "add_remove")
    (Fraction(8, 1), Fraction(36, 1), Fraction(1, 1))
    """
    low, high = bounds
    squared = (rows * max(abs(low), abs(high))) ** 2
    if relation == "replace":
        squared *= 4 if low < 0 < high else 2
    return Fraction(squared)


@lru_cache(maxsize=64)
def participation_squared(horizon: int, participation: Participation) -> Fraction:
    """Return a bound of ||sum of g_s over s in S||^2 for every S that a participation allows; g_s are the columns of C.

    Theorem. Let k of each window of w steps be in S. The bound is the sum over pairs of places of F(b, d), where F(b, d) is the
    sum of g_i g_(i+d) over 0 <= i <= horizon - b, b is the earliest step of the later place and d the least distance of
    the two. The c-th place (c = 0 .. k-1) of window q is at step q w + 1 + c or later; places of one window lie at least
    c' - c apart, those of windows q < q' at least (q' - q - 1) w + k + c' - c. Proof. The product of columns s <= t is
    F(t, t - s), of no terms below 0; so another step in S only adds to the sum, and full windows may be taken, and F falls
    with b, as terms go, and with d, as g falls. The c-th place of a full window has c places before it there and k - 1 - c
    after it, so it lies between its steps 1 + c and w - (k - 1 - c).

    It is exact for k steps of the whole horizon (the first k), and for every step; in between up to a tenth above.
    Near: Kalinin, Lampert 2024, Banded square root matrix factorization, Theorem 2, for steps that lie w or more apart.

    >>> participation_squared(365, Participation(1, 365)) == column_squared(365)
    True
    """
    window = min(participation.window, horizon)
    most = min(participation.max_periods, window)
    if most == 1 and window == horizon:
        return column_squared(horizon)
    shift = _BOUND_BITS - _PRODUCT_BITS
    column = np.array([-(-term >> shift) for term in _column_terms(horizon)], dtype=np.int64)
    windows = -(-horizon // window)
    # the earliest step of each place, a row a window; those beyond the horizon are of no place
    earliest = np.arange(windows)[:, None] * window + 1 + np.arange(most)[None, :]

    def add_products(distance: int, later: Any) -> int:
        steps = later[later <= horizon]
        if distance >= horizon or not len(steps):
            return 0
        products = np.cumsum(column[: horizon - distance] * column[distance:])
        # beyond the last step columns have no entries
        last = np.minimum(horizon - steps, horizon - distance - 1)
        return int(products[last].sum())

    total = add_products(0, earliest)
    for distance in range(1, most):
        total += 2 * add_products(distance, earliest[:, distance:])
    for apart in range(1, windows):
        for places in range(1 - most, most):
            later = earliest[apart:, max(0, places) : min(most, most + places)]
            total += 2 * add_products((apart - 1) * window + most + places, later)
    return Fraction(total, 1 << (2 * _PRODUCT_BITS))


@lru_cache(maxsize=256)
def shift_squared(
    moved_squared: Fraction, cells: int, horizon: int, participation: Participation | None = None
) -> Fraction:
    """Return L^2 of `ContinualGaussian`'s theorem, rounded up: how far draws must be moved, in squared fine steps."""
    column = column_squared(horizon) if participation is None else participation_squared(horizon, participation)
    linear = _root_above(moved_squared * column)
    rounding = 2 * _root_above(Fraction(cells * horizon))
    near = 1 - Fraction(horizon, 1 << _COEFFICIENT_BITS)
    return ((linear + rounding) / near) ** 2


@lru_cache(maxsize=64)
def column_squared(horizon: int) -> Fraction:
    """Return the sum of the squares of binom(2k, k) / 4^k, k below `horizon`, rounded up to a multiple of 2^-96 or so."""
    one = 1 << _BOUND_BITS
    return Fraction(sum(-(-term * term // one) for term in _column_terms(horizon)), one)


def _column_terms(horizon: int) -> Iterator[int]:
    """Yield binom(2k, k) / 4^k, k below `horizon`, in multiples of 2^-96, rounded up."""
    term = 1 << _BOUND_BITS
    for k in range(horizon):
        yield term
        term = -(-term * (2 * k + 1) // (2 * k + 2))


@lru_cache(maxsize=16)
def coefficients(horizon: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the coefficients binom(2k, k) / 4^k in whole multiples of 2^-24, each the nearest."""
    one = 1 << _BOUND_BITS
    down = _BOUND_BITS - _COEFFICIENT_BITS
    term = one
    rounded = np.zeros(horizon, dtype=np.int64)
    for k in range(horizon):
        rounded[k] = (term + (1 << (down - 1))) >> down
        term = term * (2 * k + 1) // (2 * k + 2)
    rounded.flags.writeable = False
    return rounded


@lru_cache(maxsize=16)
def _coefficient_sum(horizon: int) -> int:
    return int(coefficients(horizon).sum())


def _root_above(square: Fraction) -> Fraction:
    """Return the root of a number, rounded up to a multiple of 2^-40."""
    scaled = math.ceil(square * (1 << 80))
    root = math.isqrt(scaled)
    return Fraction(root if root * root == scaled else root + 1, 1 << 40)
