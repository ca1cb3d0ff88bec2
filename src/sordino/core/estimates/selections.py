"""Choices: labels chosen for their score, with an error in points of score. Sees released values and public facts only."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from sordino.core.estimates.estimate import ESTIMATES, estimate_to_dict
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
