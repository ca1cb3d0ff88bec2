"""Noisy counts with less noise: what neighboring values of a column, and the rank of a table of two, say of them.

Post-processing of released numbers whose noise is known: by empirical Bayes, so that where nothing is to be gained nothing
is lost. Knows no data.
"""

from __future__ import annotations

import math

import numpy as np

from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Floats

_ROUNDS = 30  # of expectation maximisation
_FINEST, _RATIO = 1.0 / 16.0, 2.8  # of the grid of variances: the least in variances of the noise, and the steps
_FEWEST = 8  # ordered counts below which nothing is smoothed
_LEAST, _LOOSEST = 1e-3, 0.01  # bounds of c and of 1 / c, see `shrunken`
_DRAWN = 0.7  # the least factor that is made up for, there
_THRESHOLDS = (1.5, 2.0, 2.5, 3.0, 3.5)  # in deviations of the noise, of cells that are taken to be empty
_SPLITS = 4  # of the noise, to choose among them
_RAKED = 25  # rounds of proportional fitting
_FAINT = 1e-3  # of independent counts, in cells that are taken to be empty


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
    kept, squared = ((likelihood @ (weights * factors**power)) / whole for power in (1, 2))
    return values * kept, float((variance * kept + squares * (squared - kept**2)).mean())


def smooth(counts: Floats, variance: float) -> tuple[Floats, float]:
    """Return ordered noisy counts with less noise, and about the variance that is left in each.

    The differences of neighboring means over 1, 2, 4, ... counts, at all places (Haar wavelets averaged over shifts, Coifman
    and Donoho 1995), are shrunk level by level; the counts are reflected at their end. A difference of means over w counts
    is half of one with variance `variance / (2 w)`.
    """
    count = len(counts)
    if count < _FEWEST or variance <= 0:
        return counts.copy(), variance
    means = np.concatenate([counts, counts[::-1]])
    levels = []
    width = 1
    while 2 * width <= count:
        later = np.roll(means, -width)
        levels.append(shrink((means - later) / 2.0, variance / (2.0 * width)))
        means = (means + later) / 2.0
        width = 2 * width
    left = variance / width
    for found, spread in reversed(levels):
        width //= 2
        means = ((means + found) + np.roll(means - found, width)) / 2.0
        left += spread
    made: Floats = (means[:count] + means[count:][::-1]) / 2.0
    return made, min(left, variance)


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
    shown = float(np.square(rest).sum()) - (rest.size - free) * variance
    tau = max(shown / max(float(means.sum()), 1e-9), 0.0)
    kept = tau * means / (tau * means + variance)
    return low + rest * kept, variance * min((free + float(kept.sum())) / rest.size, 1.0)


def _low_rank(values: Floats, deviation: float) -> tuple[Floats, int]:
    """Return a matrix without the singular values that noise explains, the others shrunk, and how many are left."""
    left, singular, right = np.linalg.svd(values, full_matrices=False)
    few, many = sorted(values.shape)
    ratio = few / many
    unit = deviation * math.sqrt(many)
    scaled = singular / max(unit, 1e-9)
    beyond = np.maximum(np.square(np.square(scaled) - ratio - 1.0) - 4.0 * ratio, 0.0)
    shrunk = np.where(scaled > 1.0 + math.sqrt(ratio), np.sqrt(beyond) / np.maximum(scaled, 1e-9), 0.0) * unit
    made: Floats = (left * shrunk) @ right
    return made, int(np.count_nonzero(shrunk))


def shrunken(product: Floats, cells: Floats, variance: float, pair: bool) -> tuple[Floats, float]:
    """Return the cells to which a table is fitted, and how softly, if they lie about `product` with variance tau times it."""
    residual = cells - product
    shown = float(np.square(residual).sum()) - residual.size * variance
    tau = max(shown / max(float(product.sum()), 1e-9), _LOOSEST)
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
    made = table
    for _ in range(_RAKED):
        made = made * (rows / np.maximum(made.sum(axis=1), 1e-9))[:, None]
        made = made * (columns / np.maximum(made.sum(axis=0), 1e-9))
    return made


def choose_threshold(cells: Floats, margins: tuple[Floats, Floats], variance: float) -> float | None:
    """Return the threshold at which a pair is best read as a sparse one, in deviations; None where it is no sparse one.

    The noise is split: with z normal of its variance, cells + z and cells - z are independent, so what is read from one is
    held against the other (Oliveira, Lei, Tibshirani 2021, The coupled bootstrap).
    """
    rows, columns = margins
    if variance <= 0 or min(cells.shape) < 3:
        return None
    product = np.outer(rows, columns) / max(float(rows.sum()), 1e-9)
    deviation = math.sqrt(variance)
    risks = np.zeros(1 + len(_THRESHOLDS))
    for noise in deviation * _split_noise(_SPLITS * cells.size).reshape(_SPLITS, *cells.shape):
        one = cells + noise
        other = cells - noise
        goal, softness = shrunken(product, one, 2.0 * variance, True)
        fitted = rake(np.maximum(product + (goal - product) * product / (product + softness), 1e-3 * product), rows, columns)
        risks[0] += float(np.square(fitted - other).sum())
        for i, threshold in enumerate(_THRESHOLDS):
            fitted = sparse_pair(one, margins, threshold * deviation * math.sqrt(2.0))
            risks[1 + i] += float(np.square(fitted - other).sum())
    best = int(np.argmin(risks))
    return None if best == 0 else _THRESHOLDS[best - 1]


def _split_noise(count: int) -> Floats:
    """Return standard normal numbers, the same at each call, so that a released table is read in one way only."""
    one, other = Rng.seeded(0).uniform_doubles(2 * count).reshape(2, count)
    made: Floats = np.sqrt(-2.0 * np.log(1.0 - one)) * np.cos(2.0 * math.pi * other)
    return made
