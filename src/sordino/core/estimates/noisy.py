"""Noisy numbers: counts and sums with the noise of a known law, their errors and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar

from sordino.core.codec import Records
from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace, NoiseLaw

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

    Theorem: an interval of `confidence` covers every possible value x with that probability or more, and with no more than
    the noise's whole steps make it. Proof: it holds the x whose test does not reject y. With P(|Z| > t) <= 1 - confidence
    and P(Z > s) <= 1 - confidence, the test of x rejects where |y - x| > t; but within t - s of a bound it rejects on the
    side away from the bound alone, beyond s. As the other side is cut off there, the interval y -+ t would cover an
    empty group's 0 with (1 + confidence) / 2. Both ends of the accepted y rise with x, so the set is an interval.
    (Intervals for bounded parameters: Feldman, Cousins 1998; Mandelkern 2002.)
    """

    steps: tuple[Annotated[int, _write_step], ...]
    unit: Fraction
    law: NoiseLaw
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
        """Return value -+ error, narrower beside a bound, cut to the bounds or, where the value lies past one, to the value."""
        margin = self.law.error(confidence)
        one_sided = one_sided_error(self.law, confidence)
        # an upper end is a lower end of the negated number, under the negated bounds
        upside_down = tuple(None if b is None else -b for b in (self.most, self.least))
        ends = []
        for s in self.steps:
            low = lower_end(s, margin, one_sided, self.least, self.most)
            high = -lower_end(-s, margin, one_sided, *upside_down)
            ends.append((to_units(min(s, self._cut(low)), self.unit), to_units(max(s, self._cut(high)), self.unit)))
        return ends

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return in words how many values noise has carried past what is possible."""
        beyond = sum(1 for s in self.steps if self._cut(s) != s)
        side = "below 0" if self.least is not None else "above 0"
        rows = "" if len(self.steps) == 1 else f" in {beyond:,} of {len(self.steps):,} rows"
        remark = f"{name} is {side}{rows}: that is noise, kept so that sums over rows stay right; read 0"
        return (remark,) if beyond else ()

    to_dict = estimate_to_dict

    def _cut(self, step: int) -> int:
        if self.least is not None:
            step = max(step, self.least)
        return step if self.most is None else min(step, self.most)


def one_sided_error(law: NoiseLaw, confidence: float) -> int:
    """Return the smallest t >= 0 with P(Z > t) <= 1 - confidence; 0 for a confidence of 1/2 or less."""
    both = _both_sides(float(confidence))
    return law.error(both) if both > 0 else 0


@lru_cache(maxsize=256)
def _both_sides(confidence: float) -> Fraction:
    """Return the two-sided confidence that misses with 1 - `confidence` on each side."""
    return 2 * Fraction(repr(confidence)) - 1


def lower_end(
    step: int | Fraction, margin: int | Fraction, one_sided: int | Fraction, least: int | None, most: int | None
) -> int:
    """Return the least true value, a whole number, whose test does not reject `step`."""
    # within `near` of a bound, a value is tested on the side away from the bound alone
    near = margin - one_sided
    low = step - margin
    if least is not None and most is not None and most - least <= 2 * near:
        return math.ceil(low)
    if least is not None:
        low = max(least, step - one_sided) if step <= least + margin else max(math.floor(least + near) + 1, low)
    return math.ceil(low if most is None else min(low, most - near))


def to_units(steps: int, unit: Fraction) -> Number:
    """Return a number of steps in the question's units: an int where the unit is whole."""
    value = steps * unit
    return int(value) if unit.denominator == 1 else float(value)
