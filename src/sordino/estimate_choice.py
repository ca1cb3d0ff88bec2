"""Choices: labels chosen for their score, with an error in points of score. Sees released values and public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sordino.estimate import exact_text
from sordino.loss import shown

__all__ = ["Choices", "from_dict"]

Label = str | int | bool | None


@dataclass(frozen=True, slots=True)
class Choices:
    """Labels, each chosen from `candidates` by a law in which a point of score is worth `rate` in the exponent.

    The error is how far below the best score the choice may lie: at most (ln candidates + ln 1/miss) / rate, the
    utility theorem of the exponential mechanism (McSherry & Talwar 2007, Theorem 6), which permute-and-flip never passes.
    """

    labels: tuple[Label, ...]
    candidates: int
    rate: Fraction

    error_unit: ClassVar[str] = "rows below the most common"

    per_row: ClassVar[tuple[str, ...]] = ("labels",)

    def values(self) -> list[Label]:
        """Return the labels."""
        return list(self.labels)

    def errors(self, confidence: float) -> list[float]:
        """Return the gap below the best score that is not exceeded with probability `confidence`, in rows."""
        gap = (math.log(max(1, self.candidates - 1)) + math.log(1 / (1 - confidence))) / float(self.rate)
        return [gap * (1 + 1e-12)] * len(self.labels)

    def intervals(self, confidence: float) -> list[tuple[None, None]]:
        """Return no interval for each: a label has none."""
        del confidence
        return [(None, None)] * len(self.labels)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data."""
        return {
            "kind": "choices",
            "labels": list(self.labels),
            "candidates": self.candidates,
            "rate": shown(self.rate),
        }


def from_dict(data: dict[str, Any]) -> Choices:
    """Return the estimate that `Choices.to_dict` wrote."""
    return Choices(tuple(data["labels"]), int(data["candidates"]), exact_text(data["rate"]))
