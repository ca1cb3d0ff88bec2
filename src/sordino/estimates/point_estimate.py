"""Point estimates: values without an error, where the width of the noise is private or there is none to state."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sordino.estimates.estimate import Number
from sordino.estimates.noisy import to_units
from sordino.loss import format_number, parse_fraction

__all__ = ["PointEstimate", "from_dict"]


@dataclass(frozen=True, slots=True)
class PointEstimate:
    """Values whose error is private or unknown, in steps of `unit`; None where a test failed and nothing was given."""

    steps: tuple[int | None, ...]
    unit: Fraction

    per_row: ClassVar[tuple[str, ...]] = ("steps",)

    def values(self) -> list[Number | None]:
        """Return the values."""
        return [None if s is None else to_units(s, self.unit) for s in self.steps]

    def errors(self, confidence: float) -> list[None]:
        """Return None for each: the width of the noise follows the data."""
        del confidence
        return [None] * len(self.steps)

    def intervals(self, confidence: float) -> list[tuple[None, None]]:
        """Return no interval for each."""
        del confidence
        return [(None, None)] * len(self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data."""
        steps = [None if s is None else str(s) for s in self.steps]
        return {"kind": "bare", "steps": steps, "unit": format_number(self.unit)}


def from_dict(data: dict[str, Any]) -> PointEstimate:
    """Return the estimate that `PointEstimate.to_dict` wrote."""
    return PointEstimate(tuple(None if s is None else int(s) for s in data["steps"]), parse_fraction(data["unit"]))
