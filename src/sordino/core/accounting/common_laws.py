"""The common laws that events name, so that thousands are composed at once: what dominates an event, and with what numbers.

Every one of these is a promise about the event: its privacy losses are dominated by those of this law, in both directions.
Numbers are rounded up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


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
