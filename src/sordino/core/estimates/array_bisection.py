"""Bisection of many brackets at once, as arrays: where a condition that holds at one end stops holding. Knows no estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# points times terms up to which several halvings are made at once
_FEW = 64


def bisect_arrays(inside: Callable[[Any], Any], within: Any, outside: Any, *, halvings: int, terms: int = 1) -> Any:
    """Return the first points from `within` to `outside` that are not `inside`, to the accuracy of `halvings` halvings.

    `inside` takes arrays of such points with one more axis in front, and sums `terms` terms for each. Where points are few,
    15 are tried at once, four halvings in one, since a call of numpy costs more than its arithmetic.

    >>> bisect_arrays(lambda x: x * x < 2, np.zeros(1), np.full(1, 2.0), halvings=40).round(9).tolist()
    [1.414213562]
    """
    bits = 4 if within.size * terms <= _FEW else 1
    parts = np.arange(2**bits + 1).reshape(-1, *(1 for _ in within.shape)) / 2**bits
    places = np.arange(within.size)
    for _ in range(-(-halvings // bits)):
        points = within * (1 - parts) + outside * parts
        holds = np.logical_and.accumulate(inside(points[1:-1])).sum(axis=0).ravel()
        rows = points.reshape(len(points), -1)
        within, outside = (rows[holds + k, places].reshape(within.shape) for k in (0, 1))
    return outside
