"""Point estimates: values without an error, where the width of the noise is private or there is none to state."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.estimates.noisy import to_units


@ESTIMATES.register("bare")
@dataclass(frozen=True, slots=True)
class PointEstimate:
    """Values whose error is private or unknown, in steps of `unit`; None where a test failed and nothing was given.

    `no_ends` says in words why they have no interval.
    """

    steps: tuple[BigInt | None, ...]
    unit: Fraction
    no_ends: str = "none: the width of the noise is private"

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

    to_dict = estimate_to_dict
