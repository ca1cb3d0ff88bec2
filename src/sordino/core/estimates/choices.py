"""What was chosen: labels for their score, with an error in points of score, and values for their rank, with an error in ranks.

Sees released values and public parameters only.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.estimates.noisy import to_units
from sordino.core.time_zones import label_from_json, label_to_json


def _to_json(label: Any) -> Any:
    return {"time": label_to_json(label)} if isinstance(label, datetime.date) else label


def _from_json(data: Any) -> Any:
    return label_from_json(data["time"]) if isinstance(data, dict) else data


Label = str | int | bool | datetime.date | None
Law = Literal["exponential", "permute and flip"]

# relative room for rounding where a bound is solved for
_STEP = 1e-9


@ESTIMATES.register("choices")
@dataclass(frozen=True, slots=True)
class Choices:
    """Labels, each chosen from `candidates` by a law in which a point of score is worth `rate` in the exponent.

    The error is the distance of the choice's score below the best score: the law's own quantile for the worst scores.
    """

    labels: tuple[Annotated[Label, _to_json, _from_json], ...]
    candidates: int
    rate: Fraction
    # the default is for releases from before the law was stored: its bound is the wider, and holds for both laws
    law: Law = "exponential"

    error_unit: ClassVar[str] = "rows below the most common"
    cell_kind: ClassVar[str] = "text"

    per_row: ClassVar[tuple[str, ...]] = ("labels",)

    def values(self) -> list[Label]:
        """Return the labels."""
        return list(self.labels)

    def errors(self, confidence: float) -> list[float]:
        """Return the gap below the best score that is not exceeded with probability `confidence`, in rows."""
        gap = _GAPS[self.law](candidates=self.candidates, miss=1 - confidence)
        return [gap / float(self.rate)] * len(self.labels)

    def intervals(self, confidence: float) -> list[tuple[None, None]]:
        """Return no interval for each: a label has none."""
        del confidence
        return [(None, None)] * len(self.labels)

    to_dict = estimate_to_dict


def softmax_gap(*, candidates: int, miss: float) -> float:
    """Return the least x such that probabilities proportional to exp(-gap) put `miss` or less on gaps above x.

    Theorem: the mass above x is largest with one candidate at 0 and the n - 1 others just above x, where it is
    (n - 1) e^-x / (1 + (n - 1) e^-x); so x = ln((n - 1) (1 - miss) / miss), below the ln(n / miss) of McSherry & Talwar
    2007 (Dwork & Roth 2014, Theorem 3.11).
    """
    return max(0.0, math.log(max(candidates - 1, 1e-300)) + math.log1p(-miss) - math.log(miss)) * (1 + _STEP)


def flip_gap(*, candidates: int, miss: float) -> float:
    """Return the least x such that permute-and-flip chooses a gap above x with probability `miss` or less.

    Theorem: given the heads, the chance of a bad choice is K / (K + G), K bad heads and G good ones: it rises with K and
    falls with G >= 1, so it is largest with n - 1 candidates just above x, where with p = e^-x it is
    1 - (1 - (1 - p)^n) / (n p); McKenna & Sheldon 2020 bound the expected gap in this way.
    """
    if candidates == 1:
        return 0.0
    low = 0.0
    high = softmax_gap(candidates=candidates, miss=miss)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if bad_flip(middle, candidates) <= miss else (middle, high)
    return high * (1 + _STEP)


def bad_flip(gap: float, candidates: int) -> float:
    """Return 1 - (1 - (1 - p)^n) / (n p) at p = e^-gap: the chance of a bad choice in the worst case."""
    p = math.exp(-gap)
    # the series' first terms, as the closed form would lose its digits
    if candidates * p < 1e-4:
        return (candidates - 1) * p / 2
    missed = 0.0 if p == 1 else math.exp(candidates * math.log1p(-p))
    return 1 - (1 - missed) / (candidates * p)


_GAPS = {"exponential": softmax_gap, "permute and flip": flip_gap}


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
