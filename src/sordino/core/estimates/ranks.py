"""Ranks: values chosen for their rank, with an error in ranks. Sees released values and public parameters only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.estimates.noisy import to_units


@dataclass(frozen=True, slots=True)
class RankStage:
    """One selection that an estimate rests on: its rank error is at least t with chance <= exp(choices - rate t)."""

    weight: Fraction
    rate: Fraction
    choices: float


@ESTIMATES.register("ranks")
@dataclass(frozen=True, slots=True)
class Ranks:
    """Values chosen for their rank, in steps of `unit`: the error is how many rows lie between them and the exact ones.

    How far that is in the values' own units is private, so there is no interval. The rank error is at most the sum of
    the stages' errors, each by its weight. `chained`: each stage is a selection of its own, whose bound holds whatever the
    other errors are; else they may depend on each other, and each gets an equal share of the failure probability.
    """

    steps: tuple[BigInt, ...]
    unit: Fraction
    stages: tuple[RankStage, ...]
    chained: bool = False

    error_unit: ClassVar[str] = "rows from the exact one"

    per_row: ClassVar[tuple[str, ...]] = ("steps",)

    def values(self) -> list[Number]:
        """Return the values."""
        return [to_units(s, self.unit) for s in self.steps]

    def errors(self, confidence: float) -> list[Number]:
        """Return the rank error that is not exceeded with probability `confidence`, the same for every row.

        Theorem (chained): given what was found before, P(error of a stage >= t) <= exp(choices - rate t), which is the
        chance that (choices + X) / rate >= t where X is standard exponential. So it can be drawn together with such an X,
        independent of all before, that (choices + X) / rate is at least the error; by induction the weighted sum of the
        errors is at most that of the choices plus independent exponentials of means weight / rate.
        """
        means = [float(s.weight / s.rate) for s in self.stages]
        total = math.fsum(m * s.choices for m, s in zip(means, self.stages, strict=True))
        if self.chained:
            total += max(means) * exponential_sum(tuple(sorted(m / max(means) for m in means)), 1.0 - confidence)
        else:
            total += math.fsum(means) * math.log(len(self.stages) / (1.0 - confidence))
        return [total * (1 + 1e-9)] * len(self.steps)

    def intervals(self, confidence: float) -> list[tuple[None, None]]:
        """Return no interval for each."""
        del confidence
        return [(None, None)] * len(self.steps)

    to_dict = estimate_to_dict


@lru_cache(1 << 10)
def exponential_sum(means: tuple[float, ...], chance: float) -> float:
    """Return what a sum of independent exponentials of these means exceeds with that chance, rounded up by 1e-6.

    >>> round(exponential_sum((1.0,), 0.05), 4), round(exponential_sum((1.0, 1.0), 0.05), 4)
    (2.9957, 4.7439)
    """
    # one exponential alone exceeds `least` with that chance; the sum exceeds `most` with no more, by the union bound
    least = max(means) * -math.log(chance)
    most = math.fsum(means) * math.log(len(means) / chance)
    while most - least > 1e-6 * most:
        middle = (least + most) / 2
        least, most = (middle, most) if _survival(means, middle) > chance else (least, middle)
    return most


def _survival(means: tuple[float, ...], time: float) -> float:
    """Return P(sum > time): the chance that a chain which stays in each state for one exponential has not left the last.

    Its generator is uniformized (Jensen 1953): all terms are positive, so nothing cancels, and means may be equal.
    """
    import numpy as np

    leave = np.array([time / m for m in means])
    halvings = max(0, math.ceil(math.log2(leave.max())))
    leave /= 2.0**halvings
    fastest = leave.max()
    jump = np.diag(fastest - leave) + np.diag(leave[:-1], 1)
    term = np.eye(len(means))
    part = np.eye(len(means))
    # the rest of the series is below 1 / 20!
    for k in range(1, 20):
        term = term @ jump / k
        part = part + term
    part *= math.exp(-fastest)
    for _ in range(halvings):
        part = part @ part
    return float(part[0].sum())
