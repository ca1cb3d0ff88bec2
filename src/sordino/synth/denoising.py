"""Noisy counts with less noise: what neighboring values of a column, and the rank of a table of two, say of them.

Post-processing of released numbers whose noise is known: by empirical Bayes, so that where nothing is to be gained nothing
is lost. Knows no data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from statistics import NormalDist

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Floats

# Rounds of expectation maximisation.
_ROUNDS = 30
# The grid of prior variances: the least, in variances of the noise, and the ratio of one to the next.
_FINEST = 1.0 / 16.0
_RATIO = 2.8
# Ordered counts below which nothing is smoothed.
_FEWEST = 8
# Bounds of c and of 1 / c, and the least factor that is made up for, see `draw_to_product`.
_LEAST = 1e-3
_LOOSEST = 0.01
_DRAWN = 0.7
# Thresholds below which cells of a pair are taken to be empty, in deviations of the noise.
_THRESHOLDS = (1.5, 2.0, 2.5, 3.0, 3.5)
# Ways in which the noise is split to choose among them.
_SPLITS = 4
# Rounds of proportional fitting.
_RAKED = 25
# A correlation of scores beyond which two columns are taken to be as one, how near to one it is met, the most steps to it,
# the rounds of proportional fitting in each, the log of the least factor, and what no divisor is below.
_MOST_CORRELATED = 0.98
_TILTED = 0.002
_TILTS = 10
_TILTS_RAKED = 20
_FARTHEST = 60.0
_TINY = 1e-250
_NORMAL = NormalDist()
# The score of a part of a normal variable's range that holds nothing, at most.
_OUTERMOST = 5.0
# What a cell that is taken to be empty holds of its independent count: the margins may need it.
_FAINT = 1e-3


def shrink(values: Floats, variance: float) -> tuple[Floats, float]:
    """Return the posterior means of values seen with normal noise of this variance, and their mean posterior variance.

    The prior is a mixture of centred normals with variances on a grid, its weights fitted to the values by expectation
    maximisation (Stephens 2017): values that are noise are drawn to 0, and those that stand out of it are left alone.
    """
    squares = np.square(values)
    largest = max(float(squares.max(initial=0.0)), variance)
    steps = math.ceil(math.log(largest / (_FINEST * variance)) / math.log(_RATIO))
    grid = np.concatenate([[0.0], _FINEST * variance * _RATIO ** np.arange(steps + 1)])
    log = -0.5 * (np.log(grid + variance) + squares[:, None] / (grid + variance))
    likelihood = np.exp(log - log.max(axis=1, keepdims=True))
    weights = np.full(len(grid), 1.0 / len(grid))
    for _ in range(_ROUNDS):
        weights = weights * (likelihood / (likelihood @ weights)[:, None]).mean(axis=0)
    factors = grid / (grid + variance)
    whole = likelihood @ weights
    mean, squared = ((likelihood @ (weights * factors**power)) / whole for power in (1, 2))
    return values * mean, float((variance * mean + squares * (squared - mean**2)).mean())


def smooth(counts: Floats, variance: float) -> tuple[Floats, float]:
    """Return ordered noisy counts with less noise, and about the variance that is left in each.

    The differences of neighboring means over 1, 2, 4, ... counts, at all places (Haar wavelets averaged over shifts, Coifman
    and Donoho 1995), are shrunk level by level; the counts are reflected at their end. A difference of means over w counts
    is half of one with variance `variance / (2 w)`.
    """
    count = len(counts)
    if count < _FEWEST or variance <= 0:
        return counts, variance
    means = np.concatenate([counts, counts[::-1]])
    levels = []
    width = 1
    while 2 * width <= count:
        later = np.roll(means, -width)
        levels.append(shrink((means - later) / 2.0, variance / (2.0 * width)))
        means = (means + later) / 2.0
        width = 2 * width
    left = variance / width
    for difference, spread in reversed(levels):
        width //= 2
        means = ((means + difference) + np.roll(means - difference, width)) / 2.0
        left += spread
    smoothed: Floats = (means[:count] + means[count:][::-1]) / 2.0
    return smoothed, min(left, variance)


def denoise_pair(deviations: Floats, means: Floats, variance: float) -> tuple[Floats, float] | None:
    """Return the deviations of a table from a model's `means` with less noise, and about the variance left in each.

    Two columns mostly depend on each other by few latent factors, so deviations have few singular values above those of
    noise, at most about s (sqrt n + sqrt m). Each is shrunk as Gavish and Donoho (2017) show to be best for white noise:
    y to sqrt((y^2 - b - 1)^2 - 4 b) / y in units of s sqrt n, b = m / n. What is left is shrunk cell by cell, taken to
    have variance tau m for a mean of m. None where no singular value shows above the noise.
    """
    low, rank = _low_rank(deviations, math.sqrt(variance))
    if not rank:
        return None
    rest = deviations - low
    rows, columns = deviations.shape
    free = rank * (rows + columns - rank)
    excess = float(np.square(rest).sum()) - (rest.size - free) * variance
    tau = max(excess / max(float(means.sum()), 1e-9), 0.0)
    factors = tau * means / (tau * means + variance)
    return low + rest * factors, variance * min((free + float(factors.sum())) / rest.size, 1.0)


def _low_rank(values: Floats, deviation: float) -> tuple[Floats, int]:
    """Return a matrix without the singular values that noise explains, the others shrunk, and how many are left."""
    left, singular, right = np.linalg.svd(values, full_matrices=False)
    few, many = sorted(values.shape)
    ratio = few / many
    unit = deviation * math.sqrt(many)
    scaled = singular / max(unit, 1e-9)
    beyond = np.maximum(np.square(np.square(scaled) - ratio - 1.0) - 4.0 * ratio, 0.0)
    shrunk = np.where(scaled > 1.0 + math.sqrt(ratio), np.sqrt(beyond) / np.maximum(scaled, 1e-9), 0.0) * unit
    shrunken: Floats = (left * shrunk) @ right
    return shrunken, int(np.count_nonzero(shrunk))


def draw_to_product(product: Floats, cells: Floats, variance: float, *, pair: bool) -> tuple[Floats, float]:
    """Return the cells to which a table is fitted, and lam = c sigma^2, c by empirical Bayes.

    Cells are taken to lie about the independent counts m with variance tau m; tau is what the measured squares show above
    the noise, (sum r^2 - cells sigma^2) / sum m, and c = 1 / tau. The fit draws a cell towards what it expects by the factor
    m / (m + lam). A pair's cells that were drawn there before, with less noise (`denoise_pair`), are moved out by as much,
    but for cells that the noise hides.
    """
    residual = cells - product
    excess = float(np.square(residual).sum()) - residual.size * variance
    tau = max(excess / max(float(product.sum()), 1e-9), _LOOSEST)
    softer = denoise_pair(residual, product, variance) if pair else None
    if softer is not None:
        residual, variance = softer
    softness = max(1.0 / tau, _LEAST) * variance
    if softer is not None:
        residual = residual / np.maximum(product / (product + softness), _DRAWN)
    return product + residual, softness


def sparse_pair(cells: Floats, margins: tuple[Floats, Floats], threshold: float) -> Floats:
    """Return a table whose cells below the threshold are all but empty, with the margins given.

    Where two columns follow each other, most cells hold nothing, and noise in those would carry away what the margins say
    of the others: rows of a tail that noise hides in each cell go where both margins miss them.
    """
    rows, columns = margins
    total = max(float(rows.sum()), 1e-9)
    faint = _FAINT * np.outer(rows, columns) / total
    table: Floats = np.where(cells > threshold, cells, 0.0) + faint
    return rake(table, rows, columns)


def rake(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return a table above 0 scaled to margins of one sum, by proportional fitting (Deming & Stephan 1940)."""
    for _ in range(_RAKED):
        table = table * (rows / np.maximum(table.sum(axis=1), 1e-9))[:, None]
        table = table * (columns / np.maximum(table.sum(axis=0), 1e-9))
    return table


def read_pair(
    cells: Floats,
    margins: tuple[Floats, Floats],
    variance: float,
    scores: Sequence[tuple[Floats, Floats]] = (),
) -> Floats | None:
    """Return the table that a pair's noisy cells are read as, with the margins given; None where independence is as near.

    Readings are the cells above a threshold (`sparse_pair`), for several of them, and for each pair of `scores` the cells
    drawn to the table in which one column rises with the other by these (`tilt`); each against the cells drawn to
    independence. The noise is split: with z normal of its variance, cells + z and cells - z are independent, so what is
    read from one is held against the other (Oliveira, Lei, Tibshirani 2021, The coupled bootstrap).
    """
    rows, columns = margins
    if variance <= 0 or min(cells.shape) < 3:
        return None
    deviation = math.sqrt(variance)
    means = [np.outer(rows, columns) / max(float(rows.sum()), 1e-9)]
    means += [tilt(margins, (x, y), float(x @ cells @ y)) for x, y in scores]
    readings: list[Callable[[Floats, float], Floats]] = [
        *(partial(_read_about, mean, margins) for mean in means),
        *(partial(_read_sparse, threshold, margins) for threshold in _THRESHOLDS),
    ]
    risks = np.zeros(len(readings))
    for noise in deviation * _split_noise(_SPLITS * cells.size).reshape(_SPLITS, *cells.shape):
        other = cells - noise
        risks += [float(np.square(read(cells + noise, 2.0 * variance) - other).sum()) for read in readings]
    best = int(np.argmin(risks))
    return readings[best](cells, variance) if best else None


def _read_about(mean: Floats, margins: tuple[Floats, Floats], cells: Floats, variance: float) -> Floats:
    """Return cells drawn to a table of means as the fit draws them to independent counts."""
    goal, softness = draw_to_product(mean, cells, variance, pair=True)
    drawn = mean + (goal - mean) * mean / (mean + softness)
    return rake(np.maximum(drawn, _FAINT * mean), *margins)


def _read_sparse(threshold: float, margins: tuple[Floats, Floats], cells: Floats, variance: float) -> Floats:
    return sparse_pair(cells, margins, threshold * math.sqrt(variance))


def normal_ends(counts: Floats) -> Floats:
    """Return where a standard normal variable is cut so that its parts hold these shares, from -inf to inf."""
    shares = np.clip(np.cumsum(counts) / max(float(counts.sum()), 1e-9), 0.0, 1.0)[:-1]
    inner = [_NORMAL.inv_cdf(q) if 0.0 < q < 1.0 else math.copysign(math.inf, q - 0.5) for q in shares.tolist()]
    return np.array([-math.inf, *inner, math.inf])


def normal_scores(counts: Floats) -> Floats:
    """Return the mean of a standard normal variable in the part of its range that each of the ordered counts takes.

    >>> normal_scores(np.array([1.0, 2.0, 1.0])).round(2).tolist()
    [-1.27, 0.0, 1.27]
    """
    shares = counts / max(float(counts.sum()), 1e-9)
    densities = np.exp(-np.square(normal_ends(counts)) / 2.0) / math.sqrt(2.0 * math.pi)
    # a part that holds nothing lies at its end
    ends = np.clip(normal_ends(counts)[1:], -_OUTERMOST, _OUTERMOST)
    scores: Floats = np.where(shares > 0.0, (densities[:-1] - densities[1:]) / np.maximum(shares, 1e-12), ends)
    return scores


def tilt(margins: tuple[Floats, Floats], scores: tuple[Floats, Floats], moment: float) -> Floats:
    """Return the table of these margins that is independent but for a factor exp(t x y) of the scores x and y.

    With normal scores it is about that of two normal variables. t is such that the sum of x y over all rows is the
    `moment`: one number, whose noise is small where that of each cell is large. Correlations beyond .97 are taken as that.
    """
    rows, columns = margins
    total = max(float(rows.sum()), 1e-9)
    table: Floats = np.outer(rows, columns) / total
    x, y = (s - float(s @ m) / total for s, m in zip(scores, margins, strict=True))
    deviations = [math.sqrt(float(np.square(s) @ m) / total) for s, m in ((x, rows), (y, columns))]
    if min(deviations) <= 0.0:
        return table
    # `moment` is that of the scores as given: what their means add to it is taken off
    shift = float(scores[0] @ rows) * float(scores[1] @ columns) / total
    goal = (moment - shift) / (total * deviations[0] * deviations[1])
    goal = min(max(goal, -_MOST_CORRELATED), _MOST_CORRELATED)
    x = x / deviations[0]
    y = y / deviations[1]
    # exp(t x y), but for factors of x and of y that the margins decide, which keeps it within 1
    distances = np.square(x[:, None] - math.copysign(1.0, goal) * y) / 2.0
    scale = np.ones(len(columns))
    low = 0.0
    high = 1.0
    correlation = abs(goal)
    for _ in range(_TILTS):
        kernel = np.exp(-np.minimum(correlation / (1.0 - correlation**2) * distances, _FARTHEST))
        for _ in range(_TILTS_RAKED):
            table_rows = rows / np.maximum(kernel @ scale, _TINY)
            scale = columns / np.maximum(table_rows @ kernel, _TINY)
        table = table_rows[:, None] * kernel * scale
        short = abs(goal) - abs(float(x @ table @ y)) / total
        if abs(short) < _TILTED:
            break
        low, high = (correlation, high) if short > 0 else (low, correlation)
        moved = correlation + short
        correlation = moved if low < moved < high else (low + high) / 2.0
    return rake(np.maximum(table, _FAINT * np.outer(rows, columns) / total), rows, columns)


def _split_noise(count: int) -> Floats:
    """Return standard normal numbers, the same at each call, so that a released table is read in one way only."""
    one, other = Rng.seeded(0).uniform_doubles(2 * count).reshape(2, count)
    # Box and Muller 1958
    scores: Floats = np.sqrt(-2.0 * np.log(1.0 - one)) * np.cos(2.0 * math.pi * other)
    return scores
