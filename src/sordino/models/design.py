"""Design: the columns of a regression as they follow from standardised moments, and solving in spite of their noise."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.models.columns import Floats, Predictors, declared_values, predictor_names
from sordino.models.moments import NoisyMoments

# A direction in which the rows vary less than so many deviations of the noise, times the root of the columns, is shrunk.
RIDGE = 2.0
# An entry below the root of this many deviations of its noise counts as 0.
_SOFTER = 4.0
# A column takes part in a direction with this part of the direction's squared length, or more.
_PART = 0.05


@dataclass(frozen=True)
class Design:
    """Which rows of a moment matrix are predictors: 1, the numbers, and each category's values but the first.

    `names` and `places` are of the predictors without 1; `penalty` (k, k) is the squared length of coefficients: of values, how
    far they lie from their mean, so that it does not matter which value is the first.
    """

    predictors: Predictors
    names: tuple[str, ...]
    places: tuple[int, ...]
    penalty: Floats
    centers: Floats
    scales: Floats

    def own_units(self, slopes: Floats, intercept: float) -> tuple[Floats, float]:
        """Return slopes of standardised predictors, and their intercept, in the columns' own units."""
        count = len(self.centers)
        own = slopes.copy()
        own[:count] = slopes[:count] / self.scales
        return own, intercept - float(own[:count] @ self.centers)


def make_design(predictors: Predictors, moments: NoisyMoments, categories: tuple[str, ...]) -> Design:
    """Return the design of some predictors; `categories` are all of the moments, in order. Numbers are the first ones."""
    numbers = predictors.numbers
    places = list(range(1, 1 + len(numbers)))
    blocks = [np.eye(len(numbers))]
    for name in predictors.categories:
        values = declared_values(dict(predictors.declared)[name])
        start = moments.starts[categories.index(name)]
        places += range(start + 1, start + len(values))
        blocks.append(np.eye(len(values) - 1) - 1.0 / len(values))
    penalty = np.zeros((len(places), len(places)))
    at = 0
    for block in blocks:
        penalty[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    centers, scales = frame_units(moments)
    count = len(numbers)
    return Design(predictors, predictor_names(predictors), tuple(places), penalty, centers[:count], scales[:count])


def frame_units(moments: NoisyMoments) -> tuple[Floats, Floats]:
    """Return the center and the scale of each number in its own unit."""
    numbers = moments.compiled.numbers
    centers = [n.middle + n.step * c for n, c in zip(numbers, moments.frame.centers, strict=True)]
    scales = [n.step * s for n, s in zip(numbers, moments.frame.scales, strict=True)]
    return np.array(centers, dtype=np.float64), np.array(scales, dtype=np.float64)


@dataclass(frozen=True)
class NoisyInverse:
    """The inverse of a noisy covariance of predictors, by its directions: those that the noise hides are shrunk.

    AdaSSP (Wang 2018, Algorithm 2) adds a ridge that lifts the least eigenvalue above the noise. Here each direction is lifted
    by itself, so that those that vary more than the noise are not shrunk, and their coefficients stay unbiased.
    `directions` (k, k) are columns with d' P d = 1, P the penalty; `variances` are those of the noisy matrix, `lifted` those
    that are divided by.
    """

    directions: Floats
    variances: Floats
    lifted: Floats

    @functools.cached_property
    def matrix(self) -> Floats:
        """The inverse: (k, k)."""
        result: Floats = (self.directions / self.lifted) @ self.directions.T
        return result

    @property
    def hidden(self) -> Any:
        """Which directions are shrunk: booleans (k,)."""
        return self.lifted > self.variances * (1 + 1e-9)


def soften(covariance: Floats, noise: float) -> Floats:
    """Return a covariance (k, k) without what its noise may be: entries near the noise are drawn to 0, its diagonal is kept.

    An entry x with noise of deviation s becomes x max(0, 1 - 4 s^2 / x^2), after James and Stein (1961). It is for models that
    rank rows: a coefficient has no interval after it.
    """
    diagonal = np.clip(np.diag(covariance), noise, None)
    kept = np.clip(1.0 - _SOFTER * noise**2 / np.maximum(covariance**2, 1e-12), 0.0, None)
    result: Floats = covariance * kept
    np.fill_diagonal(result, diagonal)
    return result


def invert(covariance: Floats, penalty: Floats, noise: float) -> NoisyInverse:
    """Return the inverse of a sum of squares (k, k) whose entries have noise of this deviation."""
    root = np.linalg.inv(np.linalg.cholesky(penalty))
    variances, vectors = np.linalg.eigh(root @ covariance @ root.T)
    least = RIDGE * noise * math.sqrt(len(covariance))
    return NoisyInverse(root.T @ vectors, variances, np.maximum(variances, max(least, 1e-9)))


def name_hidden(inverse: NoisyInverse, names: tuple[str, ...], scales: Floats) -> list[str]:
    """Return, for each hidden direction, the columns that vary together in it so that the noise hides which does what.

    `scales` (k,) makes the parts of columns comparable.
    """
    groups = []
    for direction in inverse.directions.T[inverse.hidden]:
        parts = (direction * scales) ** 2
        members = [name for name, part in zip(names, parts, strict=True) if part >= _PART * parts.sum()]
        groups.append(", ".join(members))
    return list(dict.fromkeys(groups))
