"""Numbers of a series of releases: noisy counts, sums and their running totals, which share the noise of earlier steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.estimates.noisy import Noisy, find_ends, one_sided_error, round_steps, scale_steps, to_units
from sordino.core.estimates.weighted_sum import rounded_error
from sordino.core.noise.laws import DiscreteGaussian


def _write_fine(step: int) -> int | str:
    return step if abs(step) < 2**53 else str(step)


@ESTIMATES.register("series")
@dataclass(frozen=True, slots=True)
class SeriesCells:
    """Whole numbers of steps of `unit` plus the noise of a series, both in fine steps, of which a step of `unit` has `fine`.

    Shown are the nearest whole steps: the noise is symmetric, so this leaves values unbiased. `law` stands for that of the
    noise: a weighted sum of many discrete Gaussian draws of 2^16 fine steps or more, rounded to fine steps, is a Gaussian of
    the same variance but for less than the hundred-thousandth part of an interval. `least` bounds every true value, in steps.

    The columns of one release, and releases of one series, share draws: each interval holds by itself, and no formula over
    several of them has one. Totals, windows and differences come with their own.
    """

    steps: tuple[Annotated[int, _write_fine], ...]
    fine: int
    unit: Fraction
    law: DiscreteGaussian
    least: BigInt | None = None

    per_row: ClassVar[tuple[str, ...]] = ("steps",)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise, in the question's units."""
        return math.sqrt(self.law.sigma_squared) / self.fine * float(self.unit)

    def values(self) -> list[Number]:
        """Return the noisy values in whole steps."""
        return scale_steps(round_steps(self.steps, self.fine), self.unit)

    def errors(self, confidence: float) -> list[Number]:
        """Return the quantile of the noise and of rounding, the same for every row."""
        margin = Fraction(self.law.error(confidence), self.fine)
        return [to_units(rounded_error(margin), self.unit)] * len(self.steps)

    def intervals(self, confidence: float) -> Sequence[tuple[Number, Number]]:
        """Return value -+ error in whole steps, narrower beside a bound and cut to it, but never past the value."""
        margin = Fraction(self.law.error(confidence), self.fine)
        one_sided = Fraction(one_sided_error(self.law, confidence), self.fine)
        ends = find_ends(self.steps, self.fine, margin, one_sided, self.least, None)
        return list(zip(*(scale_steps(end, self.unit) for end in ends), strict=True))

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return in words how many values noise has carried past what is possible."""
        values = tuple(round_steps(self.steps, self.fine))
        return Noisy(values, self.unit, self.law, self.least).remarks(name)

    to_dict = estimate_to_dict
