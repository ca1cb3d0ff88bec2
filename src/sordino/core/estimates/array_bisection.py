"""Bisection of many brackets at once, as arrays: where a condition that holds at one end ceases to. It knows no estimate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_FEW = 64  # points up to which several halvings are made at once


def bisect_arrays(inside: Callable[[Any], Any], within: Any, outside: Any, *, halvings: int, terms: int = 1) -> Any:
    """Return the first points from `within` to `outside` that are not `inside`, as exactly as so many halvings find them.

    `inside` takes arrays of such points with one axis more in front, and sums so many `terms` for each. Of few points 15 are
    tried at once, as one call of numpy costs more than they do: four halvings in one.

    >>> bisect_arrays(lambda x: x * x < 2, np.zeros(1), np.full(1, 2.0), halvings=40).round(9).tolist()
    [1.414213562]
    """
    bits = 4 if within.size * terms <= _FEW else 1
    parts = np.arange(2**bits + 1).reshape(-1, *(1 for _ in within.shape)) / 2**bits
    for _ in range(-(-halvings // bits)):
        points = within * (1 - parts) + outside * parts
        holds = np.logical_and.accumulate(inside(points[1:-1])).sum(axis=0)[None]
        within, outside = (np.take_along_axis(points, holds + k, axis=0)[0] for k in (0, 1))
    return outside
