"""Laplace noise as wide as each table's own local sensitivity, to show why that is NOT PRIVATE. For teaching alone.

It computes densities; it draws no noise and releases nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.lab.sensitivity.empirical import local_sensitivity
from sordino.lab.sensitivity.table_distance import distance
from sordino.lab.sensitivity.universe import exact_universe_from


@dataclass(frozen=True, slots=True)
class LocalNoise:
    """Hold two neighbors, their answers, and the noise that each would get: `scales` are local sensitivity / epsilon."""

    query: str
    relation: str
    epsilon: float
    tables: tuple[tuple[float, ...], tuple[float, ...]]
    answers: tuple[float, float]
    scales: tuple[float, float]

    def density(self, output: float) -> tuple[float, float]:
        """Return how likely this noisy answer is for either table: Laplace densities."""
        each = zip(self.answers, self.scales, strict=True)
        first, second = (math.exp(-abs(output - answer) / scale) / (2 * scale) for answer, scale in each)
        return first, second

    def loss(self, output: float) -> float:
        """Return |ln(p/q)| of the two densities p and q here: what this answer reveals; privacy would need at most epsilon."""
        first, second = (
            math.log(2 * scale) + abs(output - answer) / scale
            for answer, scale in zip(self.answers, self.scales, strict=True)
        )
        return abs(first - second)


def local_noise(
    query: str, universe: Iterable[Any], table: Iterable[Any], other: Iterable[Any], *, neighbors: str, epsilon: float
) -> LocalNoise:
    """Return what noise scaled by local sensitivity would do to two neighbors: an attack to look at, NOT PRIVATE.

    The noise of each table is as wide as its own local sensitivity (one move, `neighbors`) over epsilon. Far answers
    then have a loss beyond every epsilon, for one width is larger than the other: Nissim, Raskhodnikova, Smith 2007,
    section 1. `sd.plot` draws it. Raises DeclarationError unless the tables are neighbors in the universe, both can move,
    and epsilon is above 0.

    >>> found = local_noise("median", [1, 2, 3, 10, 11], [1, 2, 3], [1, 2, 11], neighbors="replace", epsilon=1)
    >>> found.answers, found.scales, [round(found.loss(x), 2) for x in (2, 20)]
    ((2.0, 2.0), (1.0, 8.0), [2.08, 13.67])
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < math.inf:
        raise DeclarationError("must be a number above 0", key="epsilon")
    values, one, two = list(universe), list(table), list(other)
    exact_universe_from(values).require_floats("a density at a float")
    apart = distance(one, two, neighbors=neighbors)
    if apart != 1:
        raise DeclarationError(f"table and other must be neighbors: they are {apart} moves apart under {neighbors!r}")
    found = [local_sensitivity(query, values, part, neighbors=neighbors, within=1) for part in (one, two)]
    if not all(change.value for change in found):
        raise DeclarationError("one of the tables cannot move at all, and would get no noise: choose two that can")
    first, second = found
    return LocalNoise(
        query,
        neighbors,
        float(epsilon),
        (first.witness[0], second.witness[0]),
        (first.answers[0], second.answers[0]),
        (first.value / epsilon, second.value / epsilon),
    )
