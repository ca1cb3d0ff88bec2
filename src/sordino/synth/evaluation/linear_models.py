"""Logistic and linear regression with a ridge, and how well scores rank or explain; arrays in, arrays out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sordino.synth.encoded_column import Floats

# Newton's steps, and the change of a weight below which they end.
_STEPS = 12
_SMALL = 1e-3
# A column of ones comes first in a design: its weight is free but for this.
_FREE = 1e-6


def fit_logistic(design: Floats, truth: Any, ridge: float) -> Floats:
    """Return the weights of a logistic regression, one a column of `design`, whose first column is 1, by Newton's method.

    The sum of squares of all weights but the first, times `ridge` / 2, is added to the loss.
    """
    weights = np.zeros(design.shape[1])
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = _FREE
    for _ in range(_STEPS):
        likely = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (truth - likely) - penalty * weights
        bend = (design * (likely * (1.0 - likely))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(bend, slope)
        weights += step
        if float(np.abs(step).max()) < _SMALL:
            break
    return weights


def fit_linear(design: Floats, values: Floats, ridge: float) -> Floats:
    """Return the weights of a linear regression, one a column of `design`, whose first column is 1, with the same ridge."""
    penalty = np.full(design.shape[1], ridge)
    penalty[0] = _FREE
    weights: Floats = np.linalg.solve(design.T @ design + np.diag(penalty), design.T @ values)
    return weights


def rank_auc(truth: Any, scores: Floats) -> float:
    """Return the chance that a row that is true has a higher score than one that is not, equal scores counting one half.

    >>> rank_auc(np.array([False, True, False, True]), np.array([0.1, 0.4, 0.4, 0.9]))
    0.875
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # the mean rank, from 1, of the rows of each score
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[place]
    met = int(np.count_nonzero(truth))
    unmet = len(scores) - met
    return float((ranks[truth].sum() - met * (met + 1) / 2.0) / (met * unmet))


def explained(truth: Floats, predicted: Floats) -> float:
    """Return R2, the share of the variance that a prediction explains; below 0 where the mean alone errs less."""
    return float(1.0 - np.square(truth - predicted).sum() / np.square(truth - truth.mean()).sum())
