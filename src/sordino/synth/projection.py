"""Projections of noisy counts: onto the simplex, and shrinkage within bins. Knows neither columns nor queries."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Floats", "project", "shrunken"]

Floats = np.ndarray[Any, np.dtype[np.float64]]


def project(counts: Floats, total: float) -> Floats:
    """Return the nearest counts, in least squares, that are not negative and sum to `total`.

    Clipping each cell at zero instead adds up to .4 deviations of noise to every empty cell. Sort-based (Held, Wolfe,
    Crowder 1974).

    >>> project(np.array([3.0, -1.0, 2.0]), 4.0).tolist()
    [2.5, 0.0, 1.5]
    """
    flat = np.asarray(counts, dtype=np.float64).ravel()
    goal = max(float(total), 0.0)
    falling = np.sort(flat)[::-1]
    excess = (np.cumsum(falling) - goal) / np.arange(1, len(flat) + 1)
    kept = int(np.count_nonzero(falling > excess))
    shift = excess[max(kept, 1) - 1]
    made: Floats = np.maximum(flat - shift, 0.0).reshape(np.shape(counts))
    return made


def shrunken(counts: Floats, variance: float) -> Floats:
    """Return counts drawn towards their mean by as much as their noise explains (James & Stein 1961), same total."""
    size = len(counts)
    if size < 2:
        return counts
    mean = counts.mean()
    spread = float(np.square(counts - mean).sum())
    kept = 0.0 if spread <= 0 else max(0.0, 1.0 - max(size - 3, 1) * variance / spread)
    made: Floats = mean + kept * (counts - mean)
    return made
