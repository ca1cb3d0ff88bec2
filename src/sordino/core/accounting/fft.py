"""Sums of independent privacy losses by a tilted Fourier transform, with every error bounded and added to delta.

It knows no event: it is given losses on one grid and how often each occurs. Nothing it returns is below the truth.

Theorem. Let K(t) = sum of log E[exp(t L_i)] over finite losses, and f the law of the sum under the tilted masses
exp(t L_i - K_i(t)) p_i. Then E[(1 - exp(e - L))+] = exp(K(t) - t e) sum_l f(l) exp(-t (l - e)) (1 - exp(e - l)) over
l > e, whatever t > 0. Near the t where K'(t) = e the tilted law lies about e, so an absolute error of f is a relative
error of delta. A circular transform of N steps adds to f(l) what lies N steps off: what lies below is harmless, since it
is added where it counts more, and what lies above the window is at most exp(K(u) - u top) for any u >= 0 (Chernoff).
The transform's own rounding is bounded coefficient by coefficient, as proven in `_transformed`.

Infinite losses: 1 - the product of the (1 - infinite), all of it delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_ROUNDING = 8 * 2.3e-16  # of one transform coefficient, per doubling of its length, relative to the sum of sizes
_UNIT = 2.0**-53
_ROOTS = 1 << 25  # roots of unity held at once
_NEGLIGIBLE = 1e-19  # coefficients below it are dropped; they are counted in the error
_LARGEST = 1 << 22  # steps of a transform
_ENOUGH = 64  # rows of like width, to find a tilt by
_LITTLE = -20.0  # log of the part of a tilted law that may lie below the window


@dataclass(frozen=True, slots=True)
class PldRows:
    """Hold losses of several things flat: `mass` of loss `at` (in steps) in `row`, each row `times` and part `infinite`."""

    row: Array
    at: Array
    mass: Array
    times: Array
    infinite: Array


@dataclass(frozen=True, slots=True)
class DenseRows:
    """Hold losses of like width as rows of a dense table: row i has masses at `start` + column, `times[i]` times."""

    start: int
    table: Array
    times: Array


@dataclass(frozen=True, slots=True)
class PmfSum:
    """Hold everything that is summed: tables of finite losses in steps of the grid, and the mass that is infinite."""

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
    """Hold the tilted law of a sum in a window, and a bound on the error of each of its masses."""

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
        """Return delta at `epsilon`, rounded up: 1 below the window, whose losses are not seen there."""
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
        low, high = max(0.0, self.first * self.step), max(0.0, self.top)
        if self.delta(low) <= delta:
            return low
        if self.delta(high) > delta:
            return math.inf
        guess = (
            self.first + 0.45 * self.masses.size
        ) * self.step  # near the tilted mean, where delta falls by the tilt
        for turn in range(200):
            if high - low <= 1e-10 * high:
                break
            guess = guess if low < guess < high and turn % 3 != 2 else (low + high) / 2
            delta_there = self.delta(guess)
            low, high = (low, guess) if delta_there <= delta else (guess, high)
            move = (math.log(delta_there) - math.log(delta)) / self.tilt if delta_there > 0 else -high
            guess += move + math.copysign(4e-11 * high, move)  # a little past the root, to close in from both sides
        return high


def tabulate(rows: Sequence[PldRows], step: float) -> PmfSum:
    """Return losses with how often each occurs as tables, those of like width together."""
    skipped = np.cumsum([0] + [one.times.size for one in rows])
    row = np.concatenate([one.row + before for one, before in zip(rows, skipped[:-1], strict=True)])
    at, mass = (np.concatenate([getattr(one, name) for one in rows]) for name in ("at", "mass"))
    times, infinite = (np.concatenate([getattr(one, name) for one in rows]) for name in ("times", "infinite"))
    reach = np.ones(times.size)
    np.maximum.at(reach, row, np.abs(at).astype(np.float64))
    kind = np.frexp(reach)[1]
    mass = mass * (1 + 2 * _UNIT * np.bincount(row, minlength=times.size)[row])  # of sums
    groups = []
    for each in np.unique(kind):
        some, index = np.flatnonzero(kind == each), np.cumsum(kind == each) - 1
        chosen = kind[row] == each
        place = at[chosen]
        start = int(place.min())
        width = int(place.max()) - start + 1
        cell = index[row[chosen]] * width + (place - start)
        table = np.bincount(cell, weights=mass[chosen], minlength=some.size * width).reshape(some.size, width)
        groups.append(DenseRows(start, table, times[some]))
    with np.errstate(divide="ignore"):
        kept = math.fsum((times * np.log1p(-np.minimum(infinite, 1.0 - 1e-16))).tolist())
    return PmfSum(step, tuple(groups), -math.expm1(kept) * (1 + 1e-14) if kept else 0.0, int(times.sum()))


def step_data(sums: PmfSum, delta: float) -> tuple[float, float, float]:
    """Return the mean and variance of the sum, and the largest loss of one event that alone it passes `delta` at."""
    _, mean, variance = _moments(_sample(sums), 0.0)
    far = 0.0
    for rows in sums.groups:
        tail = rows.table[:, ::-1].cumsum(axis=1)
        place = rows.start + rows.table.shape[1] - 1 - int((tail <= delta).sum(axis=1).min())
        far = max(far, place * sums.step)
    return mean, variance, far


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
    """Return sums near these of fewer rows, for what need not be exact."""
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
    low, high = 0.0, min(40.0 / spread, 300.0 / sums.reach)  # beyond, masses of the narrower rows would vanish
    tilt = min(high, math.sqrt(2 * goal) / spread if by_delta else max(0.0, goal - mean) / spread**2)
    for _ in range(30):
        log_scale, mean, variance = _moments(sums, tilt)
        off = (tilt * mean - log_scale if by_delta else mean) - goal
        low, high = (low, tilt) if off > 0 else (tilt, high)
        slope = tilt * variance if by_delta else variance
        move = tilt - off / slope if slope > 0 else math.inf
        if not low < move < high:
            move = (low + high) / 2
        if abs(move - tilt) <= 1e-2 * tilt + 1e-9:
            break
        tilt = move
    return max(tilt, 1e-9 / spread)


def convolve(sums: PmfSum, tilt: float, *, log_goal: float, below: float = math.inf) -> TiltedLaw:
    """Return the law of the sum at a tilt, on a window wide enough that what lies beyond is far below exp(log_goal)."""
    log_scale, mean, variance = _moments(sums, tilt)
    width = math.sqrt(variance) + sums.step
    least, most = sums.least, sums.most
    reach = 18.0
    while True:
        length = 1 << max(10, math.ceil(math.log2(reach * width / sums.step)))
        whole = (most - least) / sums.step + 2 <= length
        first = (
            math.floor(least / sums.step) - 1 if whole else math.floor((mean - 0.45 * length * sums.step) / sums.step)
        )
        first = first if whole else min(first, math.floor(min(below, most) / sums.step) - 1)
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
    """Return whether little of the tilted law lies below the window: what does is safe, but counted where it is not."""
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
        done, most, width = 0, 64, table.shape[1]
        while done < len(table):
            batch = min(len(table) - done, most)
            if alive.size * width * (60 + batch) < 160 * length * min(batch, 8) and alive.size * width < _ROOTS:
                most = min(4 * most, 4096)
                found, wrong = _some(table[done : done + batch], rows.start, alive, length), (width + 32) * _UNIT
            else:  # a transform of one, which leaves fewer frequencies to the others
                batch, wrong = 1, bits
                found = _all(table[done], rows.start, length)[alive][None, :]
            product, upper = _multiply(product, upper, found, rows.times[done : done + batch], wrong)
            kept = upper > _NEGLIGIBLE
            kept[0] = True
            alive, product, upper = alive[kept], product[kept], upper[kept]
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


def _multiply(product: Array, upper: Array, found: Array, times: Array, wrong: float) -> tuple[Array, Array]:
    """Return the products with each row's coefficients to the power `times`, and upper bounds on their true sizes."""
    if len(found) == 1:
        power = int(times[0])
        return product * found[0] ** power, upper * np.minimum(np.abs(found[0]) + wrong, 1.0 + wrong) ** power
    powers = times[:, None]
    raised = found if (times == 1).all() else found**powers
    sizes = np.minimum(np.abs(found) + wrong, 1.0 + wrong)
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
    turns = (places * frequencies.astype(np.int64)) & (length - 1)  # a power of two
    turns = turns - np.where(turns > length // 2, length, 0)
    return np.asarray(np.exp((-2j * np.pi / length) * turns))
