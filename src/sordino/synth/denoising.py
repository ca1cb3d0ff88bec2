"""Noisy counts with less noise: what neighboring values of a column, and the rank of a table of two, say of them.

Post-processing of released numbers whose noise is known: by empirical Bayes, so that where nothing is to be gained nothing
is lost. Knows no data.
"""

from __future__ import annotations

import math

import numpy as np

from sordino.synth.encoded_column import Floats

# Rounds of expectation maximisation.
_ROUNDS = 30
# The grid of prior variances: the least, in variances of the noise, and the ratio of one to the next.
_FINEST = 1.0 / 16.0
_RATIO = 2.8
# Ordered counts below which nothing is smoothed.
_FEWEST = 8


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
