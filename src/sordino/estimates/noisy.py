"""Noisy numbers: counts and sums with the noise of a known law, their errors and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from sordino.codec import Records
from sordino.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.noise.laws import DiscreteGaussian, DiscreteLaplace

__all__ = ["Law", "Noisy", "to_units"]

Law = DiscreteLaplace | DiscreteGaussian


LAWS = Records("name", noun="law")
LAWS.register("discrete Laplace")(DiscreteLaplace)
LAWS.register("discrete Gaussian")(DiscreteGaussian)


def _write_step(step: int) -> int | str:
    return step if abs(step) < 2**53 else str(step)


@ESTIMATES.register("noisy")
@dataclass(frozen=True, slots=True)
class Noisy:
    """Whole numbers plus noise of a known law, in steps of `unit`: x + Z each.

    `least` and `most`, where given, bound every true value (a count is at least 0). Values stay unbiased, so noise may
    carry one past a bound; intervals are cut to the bounds, but never so far that they leave out the value itself.
    """

    steps: tuple[Annotated[int, _write_step], ...]
    unit: Fraction
    law: Law
    least: BigInt | None = None
    most: BigInt | None = None

    per_row: ClassVar[tuple[str, ...]] = ("steps",)

    def values(self) -> list[Number]:
        """Return the noisy values."""
        return [to_units(s, self.unit) for s in self.steps]

    def errors(self, confidence: float) -> list[Number]:
        """Return the quantile of the noise, the same for every row."""
        return [to_units(self.law.error(confidence), self.unit)] * len(self.steps)

    def intervals(self, confidence: float) -> list[tuple[Number, Number]]:
        """Return value -+ error, cut to the bounds or, where the value lies past one, to the value."""
        margin = self.law.error(confidence)
        ends = [(min(s, self._cut(s - margin)), max(s, self._cut(s + margin))) for s in self.steps]
        return [(to_units(low, self.unit), to_units(high, self.unit)) for low, high in ends]

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return in words how many values noise has carried past what is possible."""
        beyond = sum(1 for s in self.steps if self._cut(s) != s)
        side = "below 0" if self.least is not None else "above 0"
        rows = "" if len(self.steps) == 1 else f" in {beyond:,} of {len(self.steps):,} rows"
        said = f"{name} is {side}{rows}: that is noise, kept so that sums over rows stay right; read 0"
        return (said,) if beyond else ()

    to_dict = estimate_to_dict

    def _cut(self, step: int) -> int:
        if self.least is not None:
            step = max(step, self.least)
        return step if self.most is None else min(step, self.most)


def to_units(steps: int, unit: Fraction) -> Number:
    """Return a number of steps in the question's units: an int where the unit is whole."""
    value = steps * unit
    return int(value) if unit.denominator == 1 else float(value)
