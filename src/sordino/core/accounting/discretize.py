"""Putting privacy losses on a grid so that nothing is lost: each builder returns losses that dominate what it is given.

It knows no event. Three facts make every result safe, whatever the floats do:

1. Splitting. An outcome of probability p under P and r under Q may be replaced by two outcomes, of losses a and b on
   either side of ln(p/r), whose probabilities add up to p and to r: merging the two gives the first back, so the old
   pair is a post-processing of the new one (Blackwell 1951). The same holds for a block of outcomes of losses within
   [a, b]. It is the tightest rounding with these end points ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar,
   Manurangsi 2022), and its error shrinks with the square of the step.
2. Rounding a loss up, and calling it infinite, only raises delta(epsilon) = E[1 - exp(epsilon - loss)]+.
3. delta, also of a composition, only grows where a mass is rounded up.

A common law that an event names, so that thousands are composed at once, is a promise about the event: its privacy losses are
dominated by those of this law, in both directions. Numbers are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sordino.core.loss import Grid, Losses, PrivacyLoss

Array = np.ndarray[Any, np.dtype[Any]]

# the row of each loss, its place on the grid, and its mass
GridRows = tuple[Array, Array, Array]

_ULP = 2.3e-16
# the sigma from which blocks of a discrete Gaussian are integrated, not summed one by one
_SMOOTH = 100
# a missing part of a law that sums to 1, small enough to come from rounding
_ROUNDED = 1e-12
# losses beyond it would overflow; below minus it they are rounded up to it
LARGEST_LOSS = 600.0
_GAUSS = tuple(zip(*(each.tolist() for each in np.polynomial.legendre.leggauss(4)), strict=True))
# multiplications of one direct sum, at most
_WORK = 1 << 27
# bends of the delta of a zCDP mechanism on either side of 0
_BENDS = 500


def discretize(loss: Array, mass: Array, infinite: float, grid: Grid) -> Losses:
    """Return the grid's losses that dominate outcomes of these losses and masses: `discretize_rows` of one row."""
    return _sum_by_loss(discretize_rows(loss, mass, np.zeros(loss.size, np.int64), grid), infinite)


def discretize_rows(loss: Array, mass: Array, row: Array, grid: Grid) -> GridRows:
    """Return the grid's losses that dominate outcomes of these losses and masses (each right to 1e-15 relative), by row.

    Each goes to its neighbors on the grid: of a step h and an outcome t steps above the lower one, the upper one gets
    the part (1 - exp(-t h)) / (1 - exp(-h)).
    """
    steps = loss / grid.step
    low = np.floor(steps)
    t = np.minimum(steps - low + 8 * _ULP * (np.abs(steps) + 1), 1.0)
    share = np.expm1(-t * grid.step) / math.expm1(-grid.step)
    high_mass = mass * (share + 8 * _ULP)
    low_mass = mass * (np.maximum(1.0 - share, 0.0) + 8 * _ULP)
    return _pair(row, low.astype(np.int64), low_mass, low.astype(np.int64) + 1, high_mass)


def discretize_blocks(p: Array, r: Array, least: Array, most: Array, infinite: float, grid: Grid) -> Losses:
    """Return the grid's losses that dominate blocks of outcomes: `discretize_block_rows` of one row."""
    return _sum_by_loss(discretize_block_rows(p, r, least, most, np.zeros(p.size, np.int64), grid), infinite)


def discretize_block_rows(p: Array, r: Array, least: Array, most: Array, row: Array, grid: Grid) -> GridRows:
    """Return the grid's losses that dominate blocks of outcomes, P-mass p and Q-mass r, losses within [least, most].

    With a and b the grid's losses below `least` and above `most`, (p - r exp(a)) / (1 - exp(a - b)) goes to b and the
    rest of p to a. Cancellation may lose 1e-15 |loss| / (b - a) of p; that much is added to both.
    """
    below = np.floor(least / grid.step - 8 * _ULP * (np.abs(least) / grid.step + 1))
    above = np.maximum(np.ceil(most / grid.step + 8 * _ULP * (np.abs(most) / grid.step + 1)), below + 1)
    wide = -np.expm1((below - above) * grid.step)
    slack = 8 * _ULP * (2 + np.abs(below) * grid.step) / wide
    share = np.clip(1.0 - r / p * np.exp(below * grid.step), 0.0, wide) / wide
    low_mass = p * (1.0 - share + slack)
    high_mass = p * (share + slack)
    return _pair(row, below.astype(np.int64), low_mass, above.astype(np.int64), high_mass)


def approximate(epsilon: float, delta: float, grid: Grid) -> PrivacyLoss:
    """Return the losses that dominate every (epsilon, delta)-private mechanism.

    Theorem (Kairouz, Oh, Viswanath 2015, Theorem 2.5; Murtagh, Vadhan 2016): each is a post-processing of the
    mechanism that reveals all with probability delta and else is randomized response: loss epsilon with probability
    e^epsilon / (1 + e^epsilon), -epsilon with the rest. Both directions are alike.
    """
    if epsilon == 0:
        losses = Losses(np.zeros(1, np.int64), np.array([1.0 - delta + _ULP]), delta)
    else:
        losses = _sum_by_loss(response_rows(np.array([epsilon]), np.array([delta]), grid), delta)
    return PrivacyLoss(losses, losses)


def response_rows(epsilon: Array, delta: Array, grid: Grid) -> GridRows:
    """Return the finite losses of `approximate`, a row for each epsilon and delta; infinite ones are delta."""
    truth = 1.0 / (1.0 + np.exp(-epsilon))
    mass = np.stack([truth, np.exp(-epsilon) * truth]) * ((1.0 - delta) * (1 + 8 * _ULP))
    row = np.tile(np.arange(epsilon.size), 2)
    return discretize_rows(np.concatenate([epsilon, -epsilon]), mass.ravel(), row, grid)


def laplace_losses(epsilon: float, steps: int, grid: Grid) -> PrivacyLoss:
    """Return the losses of discrete Laplace noise of scale steps / epsilon on a whole number that moves by `steps`.

    Both directions are alike, by the symmetry of the noise. Beyond `LARGEST_LOSS` the probabilities of its tails are 0 as
    floats: there they are the losses of any mechanism of that epsilon, which dominate them.
    """
    if epsilon == 0 or epsilon > LARGEST_LOSS or steps == 1:
        return approximate(epsilon, 0.0, grid)
    losses = _sum_by_loss(laplace_rows(np.array([epsilon]), np.array([steps], np.float64), grid), 0.0)
    return PrivacyLoss(losses, losses)


def laplace_rows(epsilon: Array, steps: Array, grid: Grid) -> GridRows:
    """Return the losses of discrete Laplace noise, a row for each 0 < epsilon <= `LARGEST_LOSS` and whole number of
    steps > 1.

    With c = epsilon / steps and q = e^-c: the loss is epsilon with probability 1 / (1 + q), -epsilon with q^steps of
    that, and c (steps - 2 j) with (1 - q) / (1 + q) q^j, 0 < j < steps. Blocks of j, narrower than the grid, have
    geometric sums.
    """
    c = epsilon / steps
    each = np.arange(epsilon.size)
    end = (1 + 32 * _ULP) / (1.0 + np.exp(-c))
    ends = np.concatenate([epsilon, -epsilon]), np.concatenate([end, end * np.exp(-epsilon)])
    edges = discretize_rows(*ends, np.tile(each, 2), grid)
    # between the two ends, one row of arrays for each block of j
    block = np.maximum(1.0, np.minimum(steps - 1, np.floor(grid.step / (4 * c))))
    blocks = np.ceil((steps - 1) / block).astype(np.int64)
    row = np.repeat(each, blocks)
    first = 1 + block[row] * (np.arange(row.size) - np.repeat(np.cumsum(blocks) - blocks, blocks))
    c, epsilon, steps, block = (column[row] for column in (c, epsilon, steps, block))
    count = np.minimum(steps - first, block)
    # roundings of exponents this large, and of places beyond 2^53
    slack = 32 * _ULP * (1 + epsilon + first / count)
    whole = -np.expm1(-c * count) / (1.0 + np.exp(-c))
    p = np.exp(-c * first) * whole * (1 + slack)
    r = np.exp(-c * (steps - first - count + 1)) * whole * (1 - slack)
    most = c * (steps - 2 * first)
    single = block == 1
    inner = discretize_rows(most[single], p[single], row[single], grid)
    least = most - 2 * c * (count - 1)
    several = ~single
    wide = discretize_block_rows(p[several], r[several], least[several], most[several], row[several], grid)
    return tuple(np.concatenate(three) for three in zip(edges, inner, wide, strict=True))  # type: ignore[return-value]


def gaussian_losses(sigma_squared: float, shift: int, grid: Grid) -> PrivacyLoss:
    """Return the losses of discrete Gaussian noise on a whole number that moves by `shift`.

    At a draw x the loss is (shift^2 - 2 shift x) / (2 sigma^2). Draws below -z sigma, of probability at most
    exp(-z^2 / 2) <= grid.tail (Canonne, Kamath, Steinke 2020, Proposition 25), count as infinite losses; those above
    z sigma as no loss: at the least loss, they would be much of Q's mass. Both directions are
    alike, by the symmetry of the noise.
    """
    outcomes = gaussian_outcomes(sigma_squared, shift, grid)
    row = np.zeros(outcomes[0].size, np.int64)
    where = outcome_rows(outcomes, row, grid)
    losses = _sum_by_loss(where, grid.tail)
    return PrivacyLoss(losses, losses)


def outcome_rows(columns: Sequence[Array], row: Array, grid: Grid) -> GridRows:
    """Return the grid's losses that dominate outcomes (loss, mass), or blocks of them (p, r, least, most)."""
    if len(columns) == 2:
        return discretize_rows(columns[0], columns[1], row, grid)
    return discretize_block_rows(columns[0], columns[1], columns[2], columns[3], row, grid)


def gaussian_outcomes(sigma_squared: float, shift: int, grid: Grid) -> tuple[Array, ...]:
    """Return the finite losses and masses of `gaussian_losses`, or where these are many (p, r, least, most) of blocks."""
    sigma = math.sqrt(sigma_squared)
    far = math.ceil(sigma * math.sqrt(-2 * math.log(grid.tail))) + 1
    block = max(1, math.floor(min(grid.step * sigma_squared / (2 * shift), sigma / 16)))
    if block == 1 or far < 200:
        x = np.arange(-far, far + 1, dtype=np.float64)
        return np.append(shift * (shift - 2 * x) / (2 * sigma_squared), 0.0), np.append(_pmf(x, sigma), grid.tail)
    first = np.arange(-far, far + 1, block, dtype=np.float64)
    p, r = (_block_masses(first - at, block, sigma) for at in (0, shift))
    deep = max(1.0, (far + shift) / (12 * sigma)) ** 8
    # errors of the integrals, and roundings of exponents this large
    slack = 2e-10 * deep + 32 * _ULP * (1 + (far + shift) ** 2 / sigma_squared)
    most = shift * (shift - 2 * first) / (2 * sigma_squared)
    least = most - shift * (block - 1) / sigma_squared
    rest = (grid.tail, grid.tail, 0.0, 0.0)
    columns = zip((p * (1 + slack), r * (1 - slack), least, most), rest, strict=True)
    return tuple(np.append(column, one) for column, one in columns)


def zcdp_losses(rho: float, grid: Grid) -> PrivacyLoss:
    """Return losses that dominate every rho-zCDP mechanism, from its delta at each epsilon alone.

    delta(epsilon) is at most the optimal conversion (`zcdp.delta_of`), at epsilon < 0 by exchange of the pair
    1 - e^epsilon (1 - delta(-epsilon)), and convex in e^epsilon: so at most the greatest convex function below these
    points. A function of straight pieces is the delta of the losses at its bends: the change of slope is Q's mass
    there, e^epsilon times that is P's.
    """
    from sordino.core.accounting.zcdp import delta_of

    reach = min(rho + math.sqrt(-4 * rho * math.log(grid.tail)) + 2 * grid.step, LARGEST_LOSS)
    stride = max(1, math.ceil(reach / grid.step / _BENDS))
    count = math.ceil(reach / grid.step / stride)
    upper = np.array([delta_of(rho, k * stride * grid.step) for k in range(count + 1)])
    at = np.arange(-count, count + 1) * stride
    x = np.exp(at * grid.step)
    y = np.minimum(np.concatenate([(1 - x[:count] * (1 - upper[:0:-1])), upper]), 1.0)
    bends = _hull(x, y)
    x, y, at = x[bends], y[bends], at[bends]
    slope = np.concatenate([[-1.0], np.diff(y) / np.diff(x), [0.0]])
    mass = np.maximum(np.diff(slope), 0.0) * x
    bound = Losses(at.astype(np.int64), mass, float(y[-1]))
    # rounding may have left some delta below its bound: all masses are raised by the largest shortfall
    deltas = np.array([_delta(bound, int(k), grid) for k in at])
    short = float(np.max((y - deltas) / np.maximum(deltas, 1e-300)))
    losses = Losses(bound.at, mass * (1 + max(0.0, short) + 1e-13), bound.infinite * (1 + 1e-13))
    return PrivacyLoss(losses, losses)


def subsample(loss: PrivacyLoss, base: Grid, rate: float, grid: Grid) -> PrivacyLoss:
    """Return the losses on `grid` of a mechanism of losses on `base`, run on a Poisson sample at this rate.

    Theorem (Zhu, Dong, Wang 2022, Theorem 11), for add_remove: if (P, Q) dominates it with the unit against without,
    then (rate P + (1 - rate) Q, Q) dominates the sampled one; a loss l becomes ln(1 - rate + rate e^l), its mass
    rate P + (1 - rate) Q. With the unit added, (Q, rate P + (1 - rate) Q): l becomes -ln(1 - rate + rate e^-l), at the
    same mass. Outcomes impossible under P, Q's missing mass, have the loss ln(1 - rate); those impossible under the
    mixture, in the other direction, have -ln(1 - rate).
    """
    removed = loss.removed
    losses = np.maximum(removed.at * base.step, -LARGEST_LOSS)
    without = removed.mass * np.exp(-losses)
    missing = max(0.0, 1.0 - float(without.sum())) + 1e-15
    lifted = _subsample_loss(losses, rate)
    lowest = math.log1p(-rate)
    # so little is most likely rounding: put at the least loss there is, so that grids need not reach down
    if missing < _ROUNDED:
        lowest = max(lowest, float(lifted.min(initial=0.0)))
    lifted = np.append(lifted, lowest)
    mass = np.append(rate * removed.mass + (1 - rate) * without, (1 - rate) * missing)
    slack = 1 + 64 * _ULP
    first = discretize(_nudge_up(lifted), mass * slack, rate * removed.infinite * slack, grid)
    added = loss.added
    lowered = np.append(-_subsample_loss(-added.at * base.step, rate), -math.log1p(-rate))
    mass = np.append(added.mass, added.infinite)
    return PrivacyLoss(first, discretize(_nudge_up(lowered), mass * slack, 0.0, grid))


def compose(first: PrivacyLoss, second: PrivacyLoss, grid: Grid) -> PrivacyLoss:
    """Return the losses of two things run on one table: sums, each direction by itself."""
    removed = _sum(first.removed, second.removed, grid)
    alike = first.added is first.removed and second.added is second.removed
    return PrivacyLoss(removed, removed if alike else _sum(first.added, second.added, grid))


def _sum(first: Losses, second: Losses, grid: Grid) -> Losses:
    """Return the losses' sum, by direct convolution: all terms are positive, so no digits are lost.

    Where that is too long, losses first go to multiples of several steps.
    """
    work = math.prod(int(one.at[-1] - one.at[0]) + 1 for one in (first, second))
    if work > _WORK:
        several = math.ceil(math.sqrt(work / _WORK)) + 1
        coarse = [
            discretize(one.at * grid.step, one.mass, one.infinite, Grid(several * grid.step, grid.tail))
            for one in (first, second)
        ]
        total = _sum(coarse[0], coarse[1], Grid(several * grid.step, grid.tail))
        return Losses(total.at * several, total.mass, total.infinite)
    tables = []
    for one in (first, second):
        table = np.zeros(int(one.at[-1] - one.at[0]) + 1)
        table[one.at - one.at[0]] = one.mass
        tables.append(table)
    mass = np.convolve(tables[0], tables[1]) * (1 + _ULP * min(table.size for table in tables))
    positive = np.flatnonzero(mass)
    infinite = (first.infinite + second.infinite * (1 - first.infinite)) * (1 + 4 * _ULP)
    return Losses(positive + int(first.at[0] + second.at[0]), mass[positive], infinite)


def _subsample_loss(loss: Array, rate: float) -> Array:
    """Return ln(1 - rate + rate e^loss), right for losses small and large."""
    small = np.log1p(rate * np.expm1(np.minimum(loss, 30.0)))
    large = loss + np.log(rate + (1 - rate) * np.exp(-np.maximum(loss, 30.0)))
    return np.where(loss < 30, small, large)


def _nudge_up(loss: Array) -> Array:
    """Return losses a few roundings higher."""
    return loss + 16 * _ULP * np.abs(loss)


def _pair(row: Array, low: Array, low_mass: Array, high: Array, high_mass: Array) -> GridRows:
    return np.concatenate([row, row]), np.concatenate([low, high]), np.concatenate([low_mass, high_mass])


def _sum_by_loss(rows: GridRows, infinite: float) -> Losses:
    """Return the total mass of each loss, where it is above 0."""
    _, at, mass = rows
    start = int(at.min())
    # for the roundings of the sums
    slack = 1 + _ULP * at.size
    if int(at.max()) - start < 64 * at.size + 4096:
        dense: Array = np.bincount(at - start, weights=mass)
        positive = np.flatnonzero(dense)
        return Losses(positive + start, dense[positive] * slack, infinite)
    # a table over all places would be mostly empty
    places, index = np.unique(at, return_inverse=True)
    sparse: Array = np.bincount(index, weights=mass)
    positive = np.flatnonzero(sparse)
    return Losses(places[positive], sparse[positive] * slack, infinite)


def _pmf(x: Array, sigma: float) -> Array:
    """Return the discrete Gaussian's probabilities at whole numbers, rounded up; x reaches deep into both tails."""
    weights = np.exp(-0.5 * (x / sigma) ** 2)
    slack = 1 + 32 * _ULP * (1 + float(x[0] / sigma) ** 2)
    result: Array = weights * (slack / float(weights.sum()))
    return result


def _block_masses(first: Array, block: int, sigma: float) -> Array:
    """Return the probabilities of blocks of whole numbers, within 32 roundings, or 1e-10 where sigma is large."""
    if sigma >= _SMOOTH:
        return _smooth_masses(first / sigma, block / sigma, sigma)
    x = np.arange(first[0], first[0] + block * first.size)
    weights = np.exp(-0.5 * (x / sigma) ** 2)
    summed: Array = weights.reshape(first.size, block).sum(axis=1)
    return summed / _normaliser(sigma)


def _smooth_masses(first: Array, width: Array | float, sigma: Array | float) -> Array:
    """Return the probabilities of blocks of whole numbers, first and width in sigmas of `_SMOOTH` or more.

    The sum over a block is the integral of f - f^(2) / 24 + 7 f^(4) / 5760 from half a step below it to half a step
    above (Euler-Maclaurin at midpoints; the next term is 31 f^(6) / 967680, below 1e-10 of f within 12 sigma), by four-point
    Gauss quadrature, right to 1e-10 on blocks of sigma / 16 there. Both errors grow with the eighth power at most.
    """
    half = width / 2
    squared = np.square(sigma)
    center = first - 0.5 / sigma + half
    inner = np.zeros(first.size)
    for node, weight in _GAUSS:
        square = (center + half * node) ** 2
        bent = 1 - (square - 1) / (24 * squared) + 7 * ((square - 6) * square + 3) / (5760 * squared**2)
        inner += weight * np.exp(-0.5 * square) * bent
    return np.asarray(inner * (half / math.sqrt(2 * math.pi)))


def _normaliser(sigma: float) -> float:
    """Return the sum of exp(-x^2 / (2 sigma^2)); sqrt(2 pi) sigma from 2 on, by Poisson summation (1e-34 relative)."""
    if sigma >= 2:
        return math.sqrt(2 * math.pi) * sigma
    return 1 + 2 * math.fsum(math.exp(-0.5 * (x / sigma) ** 2) for x in range(1, 80))


def _hull(x: Array, y: Array) -> list[int]:
    """Return the indices of the lower convex hull of points sorted by x (Andrew 1979)."""
    corners: list[int] = []
    for i in range(x.size):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return corners


def _delta(losses: Losses, at: int, grid: Grid) -> float:
    """Return delta at an epsilon of the grid."""
    above = losses.at > at
    return losses.infinite - float((losses.mass[above] * np.expm1((at - losses.at[above]) * grid.step)).sum())


class Response(NamedTuple):
    """Randomized response of `epsilon` that reveals all with probability `delta`: the worst (epsilon, delta) mechanism."""

    epsilon: float
    delta: float


class ShiftedLaplace(NamedTuple):
    """Discrete Laplace noise of scale steps / epsilon against itself shifted by `steps`."""

    epsilon: float
    steps: int


class ShiftedGaussian(NamedTuple):
    """Discrete Gaussian noise against itself shifted by `shift`, in each of `cells` cells."""

    sigma_squared: Fraction
    shift: int
    cells: int


class Concentrated(NamedTuple):
    """Divergences of at most order * rho at each order, and nothing more."""

    rho: Fraction


class BoundedRange(NamedTuple):
    """Losses in one interval of length `epsilon`; several of them compose better by the sum of their rho."""

    epsilon: float


CommonLaw = Response | ShiftedLaplace | ShiftedGaussian | Concentrated | BoundedRange
