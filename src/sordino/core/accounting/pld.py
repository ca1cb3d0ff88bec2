"""Privacy loss distributions: composed by FFT, read as epsilon at a delta."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.accounting.discretize import (
    LARGEST_LOSS,
    BoundedRange,
    GridRows,
    Response,
    ShiftedGaussian,
    ShiftedLaplace,
    approximate,
    gaussian_outcomes,
    laplace_rows,
    outcome_rows,
    response_rows,
    zcdp_losses,
)
from sordino.core.accounting.event_fields import read_amount, read_delta
from sordino.core.accounting.events import GaussianEvent, common_law, parts, summands
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, Grid, Losses, Number, PrivacyLoss
from sordino.core.rounding import float_down, float_up

# ---- Sums of independent privacy losses by a tilted Fourier transform, with every error bounded and added to delta
#
# It knows no event: it is given losses on one grid and how often each occurs. Nothing it returns is below the truth.
#
# Theorem. Let K(t) = sum of log E[exp(t L_i)] over finite losses, and f the law of the sum under the tilted masses
# exp(t L_i - K_i(t)) p_i. Then E[(1 - exp(e - L))+] = exp(K(t) - t e) sum_l f(l) exp(-t (l - e)) (1 - exp(e - l)) over
# l > e, whatever t > 0. Near the t where K'(t) = e the tilted law lies about e, so an absolute error of f is a relative
# error of delta. A circular transform of N steps adds to f(l) what lies N steps off: what lies below is harmless, since it
# is added where it counts more, and what lies above the window is at most exp(K(u) - u top) for any u >= 0 (Chernoff).
# The transform's own rounding is bounded coefficient by coefficient, as proven in `_transformed`.
#
# Infinite losses: 1 - the product of the (1 - infinite), all of it delta.

Array = np.ndarray[Any, np.dtype[Any]]

# rounding of one transform coefficient, per doubling of its length, relative to the sum of sizes
_ROUNDING = 8 * 2.3e-16
_UNIT = 2.0**-53
# roots of unity in memory at once
_ROOTS = 1 << 25
# coefficients below it are dropped; they are counted in the error
_NEGLIGIBLE = 1e-19
# steps of a transform, at most
_LARGEST = 1 << 22
# rows of similar width that suffice to find a tilt
_ENOUGH = 64
# log of the part of a tilted law that may lie below the window
_LITTLE = -20.0


@dataclass(frozen=True, slots=True)
class PldRows:
    """Losses of several events, flat: `mass` of loss `at` (in steps) in `row`; each row counts `times`, `infinite` of it lost."""

    row: Array
    at: Array
    mass: Array
    times: Array
    infinite: Array


@dataclass(frozen=True, slots=True)
class DenseRows:
    """Losses of similar width as rows of a dense table: row i has masses at `start` + column, `times[i]` times."""

    start: int
    table: Array
    times: Array


@dataclass(frozen=True, slots=True)
class PmfSum:
    """All summands of one direction: tables of finite losses in steps of the grid, and the mass that is infinite."""

    step: float
    groups: tuple[DenseRows, ...]
    infinite: float
    count: int

    @property
    def most(self) -> float:
        """The largest finite loss of the sum."""
        return self._extreme(highest=True)

    @property
    def least(self) -> float:
        """The least loss of the sum."""
        return self._extreme(highest=False)

    @property
    def reach(self) -> float:
        """The largest size of one finite loss."""
        widest: int = max(max(abs(rows.start), abs(rows.start + rows.table.shape[1])) for rows in self.groups)
        return widest * self.step

    def _extreme(self, *, highest: bool) -> float:
        total = 0
        for rows in self.groups:
            some = rows.table > 0
            ends = some.shape[1] - 1 - some[:, ::-1].argmax(axis=1) if highest else some.argmax(axis=1)
            total += int(((ends + rows.start) * rows.times).sum())
        return total * self.step


@dataclass(frozen=True, slots=True)
class TiltedLaw:
    """The tilted law of a sum in a window, with a bound on the error of each of its masses."""

    tilt: float
    log_scale: float
    first: int
    step: float
    masses: Array
    error: float
    top: float
    log_beyond: float
    infinite: float
    slack: float

    def delta(self, epsilon: float) -> float:
        """Return delta at `epsilon`, rounded up: 1 below the window, where losses are unknown."""
        if epsilon < self.first * self.step:
            return 1.0
        start = max(0, math.floor(epsilon / self.step) - self.first)
        gap = (self.first + np.arange(start, self.masses.size)) * self.step - epsilon
        gap += 4.6e-16 * max(abs(self.top), abs(self.first * self.step), epsilon)
        gap = gap[gap > 0]
        weights = -np.expm1(-gap) * np.exp(-self.tilt * gap)
        mass = float(((self.masses[self.masses.size - gap.size :] + self.error) * weights).sum()) if gap.size else 0.0
        beyond = math.exp(min(0.0, self.log_beyond))
        scale = self.log_scale - self.tilt * epsilon
        inside = math.exp(min(700.0, math.log(mass) + scale)) if mass > 0 else 0.0
        return min(1.0, (inside + beyond + self.infinite) * (1 + self.slack))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon >= 0 of the window at which `delta` holds, rounded up; infinity where none does."""
        low = max(0.0, self.first * self.step)
        high = max(0.0, self.top)
        if self.delta(low) <= delta:
            return low
        if self.delta(high) > delta:
            return math.inf
        # near the tilted mean, where ln delta falls with slope -tilt: Newton's method with that slope
        guess = (self.first + 0.45 * self.masses.size) * self.step
        for turn in range(200):
            if high - low <= 1e-10 * high:
                break
            # every third step halves the bracket, so that it shrinks even where the slope is wrong
            guess = guess if low < guess < high and turn % 3 != 2 else (low + high) / 2
            delta_there = self.delta(guess)
            low, high = (low, guess) if delta_there <= delta else (guess, high)
            move = (math.log(delta_there) - math.log(delta)) / self.tilt if delta_there > 0 else -high
            # a little past the root, to close in from both sides
            guess += move + math.copysign(4e-11 * high, move)
        return high


def tabulate(rows: Sequence[PldRows], step: float) -> PmfSum:
    """Return rows of losses as dense tables, rows of similar width together."""
    skipped = np.cumsum([0] + [one.times.size for one in rows])
    row = np.concatenate([one.row + before for one, before in zip(rows, skipped[:-1], strict=True)])
    at, mass = (np.concatenate([getattr(one, name) for one in rows]) for name in ("at", "mass"))
    times, infinite = (np.concatenate([getattr(one, name) for one in rows]) for name in ("times", "infinite"))
    reach = np.ones(times.size)
    np.maximum.at(reach, row, np.abs(at).astype(np.float64))
    kind = np.frexp(reach)[1]
    # for the roundings of the sums within a row
    mass = mass * (1 + 2 * _UNIT * np.bincount(row, minlength=times.size)[row])
    groups = []
    for each in np.unique(kind):
        some = np.flatnonzero(kind == each)
        index = np.cumsum(kind == each) - 1
        in_group = kind[row] == each
        place = at[in_group]
        start = int(place.min())
        width = int(place.max()) - start + 1
        cell = index[row[in_group]] * width + (place - start)
        table = np.bincount(cell, weights=mass[in_group], minlength=some.size * width).reshape(some.size, width)
        groups.append(DenseRows(start, table, times[some]))
    with np.errstate(divide="ignore"):
        log_finite = math.fsum((times * np.log1p(-np.minimum(infinite, 1.0 - 1e-16))).tolist())
    return PmfSum(step, tuple(groups), -math.expm1(log_finite) * (1 + 1e-14) if log_finite else 0.0, int(times.sum()))


def step_data(sums: PmfSum, delta: float) -> tuple[float, float, float]:
    """Return the mean and variance of the sum, and the largest loss that one event exceeds with probability `delta`."""
    _, mean, variance = _moments(_sample(sums), 0.0)
    largest = 0.0
    for rows in sums.groups:
        tail = rows.table[:, ::-1].cumsum(axis=1)
        place = rows.start + rows.table.shape[1] - 1 - int((tail <= delta).sum(axis=1).min())
        largest = max(largest, place * sums.step)
    return mean, variance, largest


def _moments(sums: PmfSum, tilt: float) -> tuple[float, float, float]:
    """Return K, K' and K'' at a tilt."""
    total = np.zeros(3)
    for rows in sums.groups:
        places = (rows.start + np.arange(rows.table.shape[1])) * sums.step
        exponent = tilt * places
        shift = exponent.max()
        weights = np.exp(exponent - shift)
        raw = rows.table @ np.stack([weights, weights * places, weights * places**2], axis=1)
        mean = raw[:, 1] / raw[:, 0]
        spread = np.maximum(raw[:, 2] / raw[:, 0] - mean**2, 0.0)
        total += rows.times @ np.stack([np.log(raw[:, 0]) + shift, mean, spread], axis=1)
    return float(total[0]), float(total[1]), float(total[2])


def tilt_for_delta(sums: PmfSum, delta: float) -> float:
    """Return a tilt near the best for delta: where t K'(t) - K(t) = log(1/delta), which rises with t. Any is valid."""
    return _solve_tilt(sums, -math.log(delta), by_delta=True)


def tilt_for_epsilon(sums: PmfSum, epsilon: float) -> float:
    """Return a tilt near the best for epsilon: where K'(t) = epsilon. Any is valid."""
    return _solve_tilt(sums, epsilon, by_delta=False)


def deviation(sums: PmfSum) -> float:
    """Return about the standard deviation of the sum."""
    return math.sqrt(_moments(_sample(sums), 0.0)[2])


def _sample(sums: PmfSum) -> PmfSum:
    """Return about the same sums with fewer rows, for figures that need not be exact."""
    groups = []
    for rows in sums.groups:
        every = max(1, len(rows.table) // _ENOUGH)
        share = float(rows.times.sum()) / float(rows.times[::every].sum())
        groups.append(DenseRows(rows.start, rows.table[::every], rows.times[::every] * share))
    return PmfSum(sums.step, tuple(groups), sums.infinite, sums.count)


def _solve_tilt(whole: PmfSum, goal: float, *, by_delta: bool) -> float:
    sums = _sample(whole)
    _, mean, variance = _moments(sums, 0.0)
    spread = math.sqrt(variance) + 1e-3 * abs(mean) + sums.step
    low = 0.0
    # beyond it, masses of the narrower rows would vanish
    high = min(40.0 / spread, 300.0 / sums.reach)
    tilt = min(high, math.sqrt(2 * goal) / spread if by_delta else max(0.0, goal - mean) / spread**2)
    for _ in range(30):
        log_scale, mean, variance = _moments(sums, tilt)
        off = (tilt * mean - log_scale if by_delta else mean) - goal
        low, high = (low, tilt) if off > 0 else (tilt, high)
        slope = tilt * variance if by_delta else variance
        # Newton's step, or the middle where it leaves the bracket
        newton = tilt - off / slope if slope > 0 else math.inf
        following = newton if low < newton < high else (low + high) / 2
        if abs(following - tilt) <= 1e-2 * tilt + 1e-9:
            break
        tilt = following
    return max(tilt, 1e-9 / spread)


def convolve(sums: PmfSum, tilt: float, *, log_goal: float, below: float = math.inf) -> TiltedLaw:
    """Return the law of the sum at a tilt, on a window so wide that the mass beyond it is well below exp(log_goal)."""
    log_scale, mean, variance = _moments(sums, tilt)
    width = math.sqrt(variance) + sums.step
    least = sums.least
    most = sums.most
    reach = 18.0
    while True:
        length = 1 << max(10, math.ceil(math.log2(reach * width / sums.step)))
        whole = (most - least) / sums.step + 2 <= length
        if whole:
            first = math.floor(least / sums.step) - 1
        else:
            # around the mean, but no higher than the epsilon that is looked for
            centered = math.floor((mean - 0.45 * length * sums.step) / sums.step)
            first = min(centered, math.floor(min(below, most) / sums.step) - 1)
        top = (first + length) * sums.step
        beyond = -math.inf if top > most else _log_tail(sums, top, tilt, width, enough=log_goal - 14)
        short = beyond >= log_goal - 14 or not (whole or _thin_below(sums, first * sums.step, tilt, log_scale, width))
        if not short or length >= _LARGEST:
            break
        reach *= 2
    masses, error = _transform(sums, tilt, length)
    masses = np.maximum(np.roll(masses, -(first % length)), 0.0)
    broad = max(rows.table.shape[1] for rows in sums.groups)
    slack = 1e-13 * (1 + abs(log_scale) + tilt * max(abs(top), abs(first * sums.step)))
    slack += 2.3e-16 * sums.count * (4 + 2 * tilt * sums.reach + broad)
    return TiltedLaw(tilt, log_scale, first, sums.step, masses, error, top, beyond, sums.infinite, slack)


def _log_tail(sums: PmfSum, top: float, tilt: float, width: float, *, enough: float) -> float:
    """Return an upper bound on the log of the chance of finite sums of `top` or more, by Chernoff at a few tilts."""
    least = 0.0
    for extra in (4.0, 8.0, 2.0, 16.0, 0.0):
        at = min(tilt + extra / width, 340.0 / sums.reach)
        least = min(least, _moments(sums, at)[0] - at * top + 1e-9)
        if least < enough:
            break
    return least


def _thin_below(sums: PmfSum, least: float, tilt: float, log_scale: float, width: float) -> bool:
    """Return whether little of the tilted law is below the window: mass there is safe, but counted at a larger loss."""
    for less in (6.0, 1.5, 24.0):
        at = tilt - less / width
        if abs(at) * sums.reach < 340 and _moments(sums, at)[0] - log_scale + less / width * least < _LITTLE:
            return True
    return False


def _transform(sums: PmfSum, tilt: float, length: int) -> tuple[Array, float]:
    """Return the circular law of the tilted sum, and a bound on the error of each of its masses.

    Theorem (rounding; Higham 2002, Accuracy and Stability of Numerical Algorithms, section 24.1, by component). A fast
    transform of 2^m numbers puts each result together in m steps, each a product with a root of unity and an addition.
    With u = 2^-53 a complex product is right to sqrt(2) 2 u / (1 - 2u) relative, a sum to u, and a root to 2 u; so by
    induction each result is right to m (1 + 2 + 2 sqrt(2)) u < m 6.5e-16 of the sum of the sizes put in. A step of four
    or eight does no more of either than two or three of two. `_ROUNDING` is 2.8 times that, which also covers turning
    by `start` (5 u) and folding. The tests compare with extended precision. Matrix products: see `_some`.

    So a coefficient's true size is at most what was found and that, at most 1; sizes of products multiply; the error of a
    product of n factors is at most that of its upper bound, and 16 n roundings. The way back adds m of them to all, and
    each mass is the mean of what all coefficients give.
    """
    half = length // 2 + 1
    bits = _ROUNDING * math.log2(length)
    alive = np.arange(half)
    product = np.ones(half, dtype=np.complex128)
    upper = np.ones(half)
    for rows in sorted(sums.groups, key=lambda rows: -rows.table.shape[1]):
        table = _tilt_rows(rows, tilt * sums.step)
        done = 0
        most = 64
        width = table.shape[1]
        while done < len(table):
            batch = min(len(table) - done, most)
            if alive.size * width * (60 + batch) < 160 * length * min(batch, 8) and alive.size * width < _ROOTS:
                most = min(4 * most, 4096)
                coefficients = _some(table[done : done + batch], rows.start, alive, length)
                rounding = (width + 32) * _UNIT
            else:
                # a transform of one row leaves fewer frequencies to the others
                batch = 1
                rounding = bits
                coefficients = _all(table[done], rows.start, length)[alive][None, :]
            product, upper = _multiply(product, upper, coefficients, rows.times[done : done + batch], rounding)
            large = upper > _NEGLIGIBLE
            # the sum of all masses, which is never dropped
            large[0] = True
            alive, product, upper = alive[large], product[large], upper[large]
            done += batch
    wrong_by = (upper - np.abs(product)) + upper * (16 * 2.3e-16 * sums.count + bits)
    error = (2 * float(np.maximum(wrong_by, 0.0).sum()) + 3 * (half - alive.size) * _NEGLIGIBLE) / length
    full = np.zeros(half, dtype=np.complex128)
    full[alive] = product
    return np.fft.irfft(full, length), error


def _tilt_rows(rows: DenseRows, rate: float) -> Array:
    """Return the rows' tilted masses, each summing to 1."""
    exponent = rate * (rows.start + np.arange(rows.table.shape[1]))
    table = rows.table * np.exp(exponent - exponent.max())
    result: Array = table / table.sum(axis=1, keepdims=True)
    return result


def _multiply(product: Array, upper: Array, coefficients: Array, times: Array, rounding: float) -> tuple[Array, Array]:
    """Return the products with each row's coefficients to the power `times`, and upper bounds on their true sizes."""
    if len(coefficients) == 1:
        power = int(times[0])
        size = np.minimum(np.abs(coefficients[0]) + rounding, 1.0 + rounding)
        return product * coefficients[0] ** power, upper * size**power
    powers = times[:, None]
    raised = coefficients if (times == 1).all() else coefficients**powers
    sizes = np.minimum(np.abs(coefficients) + rounding, 1.0 + rounding)
    sizes = sizes if (times == 1).all() else sizes**powers
    return product * np.prod(raised, axis=0), upper * np.prod(sizes, axis=0)


def _all(masses: Array, start: int, length: int) -> Array:
    """Return the transform of masses at `start` and on, wrapped around `length`."""
    if masses.size > length:
        masses = np.pad(masses, (0, -masses.size % length)).reshape(-1, length).sum(axis=0)
    return np.asarray(np.fft.rfft(masses, length) * _roots_of_unity(start, np.arange(length // 2 + 1), length))


def _some(table: Array, start: int, frequencies: Array, length: int) -> Array:
    """Return the same at some frequencies only, for several rows.

    Roots of unity are products of two from shorter lists, right to 16 u; a sum of n products adds n u, in any order.
    """
    width = table.shape[1]
    short = max(1, math.isqrt(width))
    outer = _roots_of_unity(start + short * np.arange(-(-width // short))[:, None], frequencies[None, :], length)
    inner = _roots_of_unity(np.arange(short)[:, None], frequencies[None, :], length)
    roots = (outer[:, None, :] * inner[None, :, :]).reshape(-1, frequencies.size)[:width]
    return np.asarray((table @ roots.view(np.float64)).view(np.complex128))


def _roots_of_unity(places: int | Array, frequencies: Array, length: int) -> Array:
    """Return exp(-2 pi i place frequency / length), right to 6 u: turns are whole numbers, centered on 0."""
    # the remainder, as the length is a power of two
    turns = (places * frequencies.astype(np.int64)) & (length - 1)
    turns = turns - np.where(turns > length // 2, length, 0)
    return np.asarray(np.exp((-2j * np.pi / length) * turns))


# ---- Privacy loss distributions of a finished list of events: its epsilon at a delta, and its delta at an epsilon
#
# It knows events by their profiles only. The list must be fixed beforehand: nothing here is a filter that decides whether
# one more question may be asked. Whatever it returns is at or above the true value.
#
# Events of a few common laws are placed on the grid together, as rows; all others by their own profiles.

# Gaussians in one batch, of some hundred outcomes each
_TOGETHER = 32
# the number of blocks of one Laplace law beyond which it has its own profile
_WIDE = 4096
_Counts = list[tuple[Event, int]]


def lay_out(counts: Mapping[Event, int], grid: Grid) -> tuple[list[PldRows], list[PldRows]]:
    """Return the losses of all events as rows, with the unit removed and added; one list twice where they are alike.

    What has only a rho is summed by rho first. Raises DeclarationError where an event has no bound at all.
    """
    responses: list[tuple[float, float, int]] = []
    laplaces: list[tuple[float, int, int]] = []
    gaussians: list[tuple[ShiftedGaussian, int]] = []
    others: _Counts = []
    for event, times in counts.items():
        match common_law(event):
            case Response(epsilon, delta) if epsilon:
                responses.append((epsilon, delta, times))
            case ShiftedLaplace(epsilon, steps) if epsilon and steps < _WIDE and epsilon <= LARGEST_LOSS:
                laplaces.append((epsilon, steps, times))
            case ShiftedGaussian(cells=1) as law:
                gaussians.append((law, times))
            case _:
                others.append((event, times))
    losses = _profiles(others, grid)
    alike = [
        part for part in (_responses(responses, grid), _laplaces(laplaces, grid), *_gaussians(gaussians, grid)) if part
    ]
    removed = _rows([(loss.removed, times) for loss, times in losses])
    if all(loss.added is loss.removed for loss, _ in losses):
        both = [*alike, *removed]
        return both, both
    return [*alike, *removed], [*alike, *_rows([(loss.added, times) for loss, times in losses])]


def rough_rho(event: Event) -> float:
    """Return about the rho of an event, to choose a grid by; 1 where nothing is known."""
    match common_law(event):
        case Response(epsilon) | ShiftedLaplace(epsilon):
            return epsilon**2 / 2
        case ShiftedGaussian(sigma_squared, shift, cells):
            return cells * shift**2 / (2 * float(sigma_squared))
    rho = event.rho()
    if rho is not None:
        return float(rho)
    pair = event.approx()
    return 1.0 if pair is None else float(pair[0]) ** 2 / 2


def _responses(several: list[tuple[float, float, int]], grid: Grid) -> PldRows | None:
    """Lay out randomized responses that reveal all with probability delta."""
    if not several:
        return None
    epsilon, delta, times = (np.array(column) for column in zip(*several, strict=True))
    return PldRows(*response_rows(epsilon, delta, grid), times, delta)


def _laplaces(several: list[tuple[float, int, int]], grid: Grid) -> PldRows | None:
    if not several:
        return None
    epsilon, steps, times = (np.array(column) for column in zip(*several, strict=True))
    return PldRows(*laplace_rows(epsilon, steps.astype(np.float64), grid), times, np.zeros(times.size))


def _gaussians(several: list[tuple[ShiftedGaussian, int]], grid: Grid) -> list[PldRows]:
    """Lay out discrete Gaussian noise, a few of like losses at a time, so that the arrays stay small."""
    ordered = sorted(several, key=lambda pair: pair[0].shift / math.sqrt(pair[0].sigma_squared))
    rows_by_width = []
    for first in range(0, len(ordered), _TOGETHER):
        some = ordered[first : first + _TOGETHER]
        outcomes = [gaussian_outcomes(float_down(law.sigma_squared), law.shift, grid) for law, _ in some]
        for width in {len(each) for each in outcomes}:
            alike = [i for i, each in enumerate(outcomes) if len(each) == width]
            row = np.repeat(np.arange(len(alike)), [outcomes[i][0].size for i in alike])
            columns = [np.concatenate([outcomes[i][k] for i in alike]) for k in range(width)]
            where = outcome_rows(columns, row, grid)
            times = np.array([some[i][1] for i in alike])
            rows_by_width.append(PldRows(*_together(where), times, np.full(times.size, grid.tail)))
    return rows_by_width


def _together(rows: GridRows) -> GridRows:
    """Return one mass for each loss of a row."""
    row, at, mass = rows
    start = int(at.min())
    # for the roundings of the sums
    slack = 1 + 2.3e-16 * at.size
    width = int(at.max()) - start + 1
    if width * (int(row.max()) + 1) > 8 * at.size + 4096:
        return rows
    summed = np.bincount(row * width + (at - start), weights=mass)
    positive = np.flatnonzero(summed)
    return positive // width, positive % width + start, summed[positive] * slack


def _rows(losses: list[tuple[Losses, int]]) -> list[PldRows]:
    """Return the rows of losses that were computed one by one."""
    if not losses:
        return []
    row = np.repeat(np.arange(len(losses)), [one.at.size for one, _ in losses])
    at = np.concatenate([one.at for one, _ in losses])
    mass = np.concatenate([one.mass for one, _ in losses])
    infinite = np.array([one.infinite for one, _ in losses])
    times = np.array([times for _, times in losses])
    return [PldRows(row, at, mass, times, infinite)]


def _profiles(counts: _Counts, grid: Grid) -> list[tuple[PrivacyLoss, int]]:
    """Return the losses of each event; at the end those of all that have only a rho."""
    losses: list[tuple[PrivacyLoss, int]] = []
    rho = Fraction(0)
    for event, times in counts:
        loss = event.profile(grid)
        if loss is not None:
            losses.append((loss, times))
            continue
        concentration = event.rho()
        if concentration is not None:
            rho += times * concentration
        elif (pair := event.approx()) is not None:
            losses.append((approximate(float_up(pair[0]), float_up(pair[1]), grid), times))
        else:
            raise DeclarationError("an event has neither losses, rho nor (epsilon, delta): nothing bounds the list")
    return [*losses, (zcdp_losses(float_up(rho), grid), 1)] if rho else losses


# the relative error of epsilon that the grid may add
_ACCURACY = 1e-4
# the largest step, relative to epsilon, so that a few events have a fine grid too
_COARSEST = 2.5e-4
# delta at 0, relative to the deviation: a normal loss of small deviation has .4 of it
_PLAUSIBLE = 0.05
# the least step: losses below it are negligible
_FINEST = 1e-14
# the number of steps that a sum may have
_MOST_STEPS = 2e6


def pld_epsilon(events: Sequence[Event], delta: Number) -> float:
    """Return the least epsilon at `delta` of all events together, by their privacy loss distributions, rounded up.

    Sommer, Meiser, Mohammadi 2019; Koskela, Jalko, Honkela 2020. Events without losses of their own are summed by rho
    first, or taken at their (epsilon, delta). So are events of bounded range where that gives less: no one pair of laws is
    the worst for all of them, and the least that dominates them all composes badly.

    Returns infinity where delta cannot be reached. Raises DeclarationError unless
    0 < delta < 1, and where an event has no bound at all.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> round(pld_epsilon([LaplaceEvent(1)] * 2, 1e-6), 4)
    2.0
    """
    target = read_delta(delta)
    goal = math.nextafter(target.numerator / target.denominator, 0.0)
    return min(_epsilon(several, goal) for several in _readings(events))


def _epsilon(events: Sequence[Event], goal: float) -> float:
    worst = 0.0
    pures = [pure for event in events if (pure := event.pure()) is not None]
    whole = float_up(sum(pures, Fraction(0))) if len(pures) == len(events) else math.inf
    for sums in _totals(events, goal, tail=goal * 1e-9):
        left = goal - sums.infinite
        if left <= 0:
            return math.inf
        # beyond the largest finite loss, delta is the infinite mass
        largest = max(0.0, sums.most) * (1 + 1e-14)
        worst = max(worst, min(_least(sums, goal, left), largest))
    return min(worst, whole)


def pld_delta(events: Sequence[Event], epsilon: Number) -> float:
    """Return the least delta at `epsilon` of all events together, by their privacy loss distributions, rounded up.

    Raises DeclarationError where epsilon is negative, and where an event has no bound at all.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> round(pld_delta([LaplaceEvent(1)], 0), 6)  # tanh(1/2)
    0.462117
    """
    bound = read_amount(epsilon, name="epsilon")
    least = math.nextafter(bound.numerator / bound.denominator, 0.0)
    return min(_delta(several, least) for several in _readings(events))


def _delta(events: Sequence[Event], least: float) -> float:
    worst = 0.0
    for sums in _totals(events, 1.0, tail=1e-20):
        if least >= sums.most:
            worst = max(worst, sums.infinite)
            continue
        law = convolve(sums, tilt_for_epsilon(sums, least), log_goal=-60.0, below=least)
        worst = max(worst, law.delta(least))
    return worst


def pld_power(events: Sequence[Event], level: float) -> float:
    """Return the largest power of any test at `level`, its rate of false alarms, of all events together, rounded up.

    Each (epsilon, delta) that holds bounds it by exp(epsilon) level + delta and by 1 - exp(-epsilon) (1 - delta - level)
    (Kairouz, Oh, Viswanath 2015, Theorem 2.1), and the least of all is exact for the pair (Dong, Roth, Su 2022, Proposition
    2.12). As delta is convex in exp(epsilon), each of the two has one least value. Raises DeclarationError where an event has no
    bound at all.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> round(pld_power([LaplaceEvent(3)], 0.05), 3)  # 1 - .95 exp(-3)
    0.953
    """
    return min(_power(several, level) for several in _readings(events))


def _power(events: Sequence[Event], level: float) -> float:
    totals = _totals(events, 1.0, tail=1e-12)
    if not totals:
        return level
    laws = [convolve(sums, tilt_for_epsilon(sums, 0.0), log_goal=-60.0, below=0.0) for sums in totals]

    def delta(epsilon: float) -> float:
        return max(
            sums.infinite if epsilon >= sums.most else law.delta(epsilon)
            for sums, law in zip(totals, laws, strict=True)
        )

    most = min(max(sums.most for sums in totals), 700.0)
    rising = _lowest(lambda epsilon: math.exp(epsilon) * level + delta(epsilon), most)
    falling = _lowest(lambda epsilon: 1 - math.exp(-epsilon) * (1 - delta(epsilon) - level), most)
    return min(rising, falling, 1.0) * (1 + 1e-13)


_GOLDEN = (math.sqrt(5) - 1) / 2


def _lowest(at: Callable[[float], float], most: float) -> float:
    """Return about the least value between 0 and `most` of a function that falls, then rises: never less than that."""
    low = 0.0
    high = max(most, 0.0)
    left = high - _GOLDEN * (high - low)
    right = low + _GOLDEN * (high - low)
    at_left = at(left)
    at_right = at(right)
    least = min(at(low), at(high), at_left, at_right)
    for _ in range(40):
        if at_left <= at_right:
            high = right
            right = left
            at_right = at_left
            left = high - _GOLDEN * (high - low)
            at_left = at(left)
        else:
            low = left
            left = right
            at_left = at_right
            right = low + _GOLDEN * (high - low)
            at_right = at(right)
        least = min(least, at_left, at_right)
    return least


def _readings(events: Sequence[Event]) -> list[Sequence[Event]]:
    """Return the list as it is and, with several of bounded range, those as their rho: either is valid for the list."""
    several = [part for event in events for part in parts(event)]
    ranged = [event for event in several if isinstance(common_law(event), BoundedRange)]
    rhos = [rho for event in ranged if (rho := event.rho()) is not None]
    if len(rhos) < 2:
        return [events]
    rest = [event for event in several if not isinstance(common_law(event), BoundedRange) or event.rho() is None]
    return [events, [GaussianEvent(sum(rhos, Fraction(0))), *rest]]


def _least(sums: PmfSum, goal: float, left: float) -> float:
    """Return the epsilon in one direction; a window that begins above it is moved down."""
    # else delta at 0 is well above the goal
    if goal > _PLAUSIBLE * min(1.0, deviation(sums)):
        law = convolve(sums, tilt_for_epsilon(sums, 0.0), log_goal=math.log(left), below=0.0)
        if law.delta(0.0) <= goal:
            return 0.0
    tilt = tilt_for_delta(sums, left)
    least = math.inf
    below = math.inf
    for turn in range(8):
        law = convolve(sums, tilt, log_goal=math.log(left), below=below)
        epsilon = law.epsilon(goal)
        least = min(least, epsilon)
        if epsilon == 0:
            break
        if epsilon > law.first * law.step:
            better_tilt = tilt_for_epsilon(sums, min(epsilon, law.top))
            if tilt < 1.5 * better_tilt:
                break
            # at a tilt that is too large, delta at epsilon has few digits
            tilt = better_tilt
            below = epsilon / 2
            continue
        below = max(0.0, epsilon * (1 - (turn + 1) / 7))
        tilt = min(tilt_for_epsilon(sums, epsilon), 0.7 * tilt)
    return least


def _totals(events: Sequence[Event], delta: float, *, tail: float) -> list[PmfSum]:
    """Return the summands in each direction that differs, on a grid fine enough for them; `tail` in all is infinite."""
    counts = Counter(events)
    split = Counter[Event]()
    for event in list(counts):
        several_events = summands(event)
        if several_events != [(event, 1)]:
            times = counts.pop(event)
            for part, each in several_events:
                split[part] += times * each
    counts.update(split)
    if not counts:
        return []
    several = sum(counts.values())
    share = max(tail / several, 1e-300)
    largest = max((float_up(pure) for event in counts if (pure := event.pure()) is not None), default=0.0)
    step = _fit_step(max(_first_step(counts), _FINEST), largest)
    floor = 0.0
    for _ in range(8):
        rows, others = lay_out(counts, Grid(step, share))
        widest = max(int(np.abs(one.at).max()) for one in (*rows, *others))
        # one event alone has losses too large for so fine a grid
        if widest > _MOST_STEPS:
            step = _fit_step(step * widest / _MOST_STEPS * 4, largest)
            floor = step
            continue
        sums = [tabulate(rows, step)] if others is rows else [tabulate(rows, step), tabulate(others, step)]
        reach = max(one.reach for one in sums)
        wanted = _fit_step(max(_step_for(sums, several, delta), floor, reach / _MOST_STEPS, _FINEST), largest)
        if wanted > 0.6 * step:
            break
        step = wanted
    return sums


def _first_step(counts: Counter[Event]) -> float:
    """Return a step from the parameters alone, coarse where they say little."""
    rho = math.fsum(times * rough_rho(event) for event, times in counts.items())
    return _step(rho, 2 * rho, sum(counts.values())) or 1.0


def _step_for(sums: Sequence[PmfSum], several: int, delta: float) -> float:
    """Return the step that suits the losses themselves; a rare large one counts where it alone exceeds delta."""
    mean, variance, largest = (max(column) for column in zip(*(step_data(one, delta) for one in sums), strict=True))
    return _step(max(mean, 0.0), variance, several, largest) or sums[0].step


def _step(mean: float, variance: float, several: int, largest: float = 0.0) -> float:
    """Return the step at which a grid adds about `_ACCURACY` to an epsilon of about mean + 3 deviations, or largest / 2.

    A step h adds up to h^2 / 6 to each mean and h^2 / 4 to each variance (twice that over the deviation to epsilon).
    """
    deviation = math.sqrt(variance)
    epsilon = max(mean + 3 * deviation, largest / 2)
    whole = _ACCURACY * epsilon
    square = min(6 * whole, max(1.6 * whole * deviation, 4 * (whole / 5) ** 2)) / several
    return max(min(math.sqrt(square), _COARSEST * epsilon), epsilon / _MOST_STEPS)


def _fit_step(step: float, epsilon: float) -> float:
    """Return a step a little smaller, of which epsilon is a whole multiple: the end of its losses then needs no rounding."""
    return epsilon / math.ceil(epsilon / step) if epsilon > step else step
