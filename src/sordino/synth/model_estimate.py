"""The estimate of a model's answer: values, the deviation of each, and the ends of what is possible. It knows no data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from sordino.errors import DeclarationError
from sordino.synth.errors import multiple

__all__ = ["ModelEstimate"]


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """One column of a model's answer, an `Estimate` like those of a release.

    Its intervals hold on average over random questions, not for each by itself. They are cut to what is possible: at
    `least`, and at `most`, a value and its own deviation, such as the number of rows.
    """

    numbers: tuple[float, ...]
    deviations: tuple[float, ...]
    least: float
    most: tuple[float, float]

    per_row: ClassVar[tuple[str, ...]] = ("numbers", "deviations")

    def values(self) -> list[float]:
        """Return the model's values."""
        return list(self.numbers)

    def errors(self, confidence: float) -> list[float]:
        """Return the error of each that is not exceeded with this probability."""
        reach = _reach(confidence)
        return [reach * d for d in self.deviations]

    def intervals(self, confidence: float) -> list[tuple[float, float]]:
        """Return (lower, upper) of each."""
        reach, (top, beyond) = _reach(confidence), self.most
        return [
            (min(max(v - reach * d, self.least), v), max(min(v + reach * d, top + reach * beyond), v))
            for v, d in zip(self.numbers, self.deviations, strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data."""
        least = self.least if math.isfinite(self.least) else None
        return {
            "kind": "model",
            "values": list(self.numbers),
            "deviations": list(self.deviations),
            "least": least,
            "most": list(self.most),
        }


def _reach(confidence: float) -> float:
    if isinstance(confidence, bool) or not 0 < confidence < 1:
        raise DeclarationError("confidence must lie between 0 and 1, such as 0.95")
    return multiple(confidence)
