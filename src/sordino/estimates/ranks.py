"""Ranks: values chosen for their rank, with an error in ranks. Sees released values and public parameters only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sordino.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.estimates.noisy import to_units

__all__ = ["RankStage", "Ranks"]


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
    the stages' errors, each by its weight; each is given an equal share of the chance to be wrong.
    """

    steps: tuple[BigInt, ...]
    unit: Fraction
    stages: tuple[RankStage, ...]

    error_unit: ClassVar[str] = "rows from the exact one"

    per_row: ClassVar[tuple[str, ...]] = ("steps",)

    def values(self) -> list[Number]:
        """Return the values."""
        return [to_units(s, self.unit) for s in self.steps]

    def errors(self, confidence: float) -> list[Number]:
        """Return the rank error that is not exceeded with probability `confidence`, the same for every row."""
        doubt = math.log(len(self.stages) / (1.0 - confidence))
        total = math.fsum(float(s.weight / s.rate) * (s.choices + doubt) for s in self.stages)
        return [total * (1 + 1e-12)] * len(self.steps)

    def intervals(self, confidence: float) -> list[tuple[None, None]]:
        """Return no interval for each."""
        del confidence
        return [(None, None)] * len(self.steps)

    to_dict = estimate_to_dict
