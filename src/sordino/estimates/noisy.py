"""Noisy numbers: counts and sums with the noise of a known law, their errors and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sordino.estimates.estimate import Number
from sordino.loss import format_number, parse_fraction
from sordino.noise.laws import DiscreteGaussian, DiscreteLaplace

__all__ = ["Law", "Noisy", "law_from_dict", "law_to_dict", "noisy_from_dict", "to_units"]

Law = DiscreteLaplace | DiscreteGaussian


@dataclass(frozen=True, slots=True)
class Noisy:
    """Whole numbers plus noise of a known law, in steps of `unit`: x + Z each.

    `least` and `most`, where given, bound every true value (a count is at least 0). Values stay unbiased, so noise may
    carry one past a bound; intervals are cut to the bounds, but never so far that they leave out the value itself.
    """

    steps: tuple[int, ...]
    unit: Fraction
    law: Law
    least: int | None = None
    most: int | None = None

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

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data; steps as text where they leave 53 bits."""
        return {
            "kind": "noisy",
            "steps": [s if abs(s) < 2**53 else str(s) for s in self.steps],
            "unit": format_number(self.unit),
            "law": law_to_dict(self.law),
            "least": None if self.least is None else str(self.least),
            "most": None if self.most is None else str(self.most),
        }

    def _cut(self, step: int) -> int:
        if self.least is not None:
            step = max(step, self.least)
        return step if self.most is None else min(step, self.most)


def to_units(steps: int, unit: Fraction) -> Number:
    """Return a number of steps in the question's units: an int where the unit is whole."""
    value = steps * unit
    return int(value) if unit.denominator == 1 else float(value)


def law_to_dict(law: Law) -> dict[str, str]:
    """Return a law as JSON data."""
    if isinstance(law, DiscreteLaplace):
        return {"name": "discrete Laplace", "scale": format_number(law.scale)}
    return {"name": "discrete Gaussian", "sigma_squared": format_number(law.sigma_squared)}


def law_from_dict(data: dict[str, str]) -> Law:
    """Return the law that `law_to_dict` wrote."""
    if data["name"] == "discrete Laplace":
        return DiscreteLaplace(parse_fraction(data["scale"]))
    return DiscreteGaussian(parse_fraction(data["sigma_squared"]))


def noisy_from_dict(data: dict[str, Any]) -> Noisy:
    """Return the estimate that `Noisy.to_dict` wrote."""
    least, most = (None if data[n] is None else int(data[n]) for n in ("least", "most"))
    steps = tuple(int(s) for s in data["steps"])
    return Noisy(steps, parse_fraction(data["unit"]), law_from_dict(data["law"]), least, most)
