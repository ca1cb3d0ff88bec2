"""Noisy numbers: counts and sums with the noise of a known law, their errors and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np

from sordino.core.codec import Records
from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from sordino.core.noise.staircase import Staircase

LAWS = Records("name", noun="law")
LAWS.register("discrete Laplace")(DiscreteLaplace)
LAWS.register("discrete Gaussian")(DiscreteGaussian)
LAWS.register("staircase")(Staircase)


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
        return scale_steps(self.steps, self.unit)

    def errors(self, confidence: float) -> list[Number]:
        """Return the quantile of the noise, the same for every row."""
        return [to_units(self.law.error(confidence), self.unit)] * len(self.steps)

    def intervals(self, confidence: float) -> list[tuple[Number, Number]]:
        """Return value -+ error, narrower beside a bound, cut to the bounds or, where the value lies past one, to the value."""
        margin = self.law.error(confidence)
        one_sided = one_sided_error(self.law, confidence)
        ends = find_ends(self.steps, 1, margin, one_sided, self.least, self.most)
        return list(zip(*(scale_steps(end, self.unit) for end in ends), strict=True))

    def sided_intervals(self, lower: float, upper: float) -> list[tuple[Number, Number]]:
        """Return intervals whose lower ends have half of the miss of the confidence `lower`, and the upper ones of `upper`.

        No test beside a bound is one-sided here, as it would have the whole miss.
        """
        ends = sided_ends(self.steps, 1, self.law.error(lower), self.law.error(upper), self.least, self.most)
        return list(zip(*(scale_steps(end, self.unit) for end in ends), strict=True))

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return in words how many values noise has carried past what is possible."""
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        beyond = sum(1 for step in self.steps if not least <= step <= most)
        side = "below 0" if self.least is not None else "above 0"
        rows = "" if len(self.steps) == 1 else f" in {beyond:,} of {len(self.steps):,} rows"
        remark = f"{name} is {side}{rows}: that is noise, kept so that sums over rows stay right; read 0"
        return (remark,) if beyond else ()

    to_dict = estimate_to_dict


def one_sided_error(law: NoiseLaw, confidence: float) -> int:
    """Return the smallest t >= 0 with P(Z > t) <= 1 - confidence; 0 for a confidence of 1/2 or less."""
    both = _both_sides(float(confidence))
    return law.error(both) if both > 0 else 0


@lru_cache(maxsize=256)
def _both_sides(confidence: float) -> Fraction:
    """Return the two-sided confidence that misses with 1 - `confidence` on each side."""
    return 2 * Fraction(repr(confidence)) - 1


def find_ends(
    steps: Sequence[int],
    per: int,
    margin: int | Fraction,
    one_sided: int | Fraction,
    least: int | None,
    most: int | None,
) -> tuple[list[int], list[int]]:
    """Return the ends of the interval of each `steps` / `per`: the least and the largest whole number whose test accepts it.

    They are cut to the bounds, but never past the nearest whole number, which is the value that is shown.

    >>> find_ends([7, 25], 10, Fraction(3, 2), Fraction(1), 0, None)
    ([0, 1], [2, 4])
    """
    finest = math.lcm(per, margin.denominator, one_sided.denominator)
    reach = int(margin * finest)
    one_sided_reach = int(one_sided * finest)
    scaled = _whole_array(
        [step * (finest // per) for step in steps], finest, reach, *(bound * finest for bound in (least, most) if bound)
    )
    shown = _round_half_even(scaled, finest)
    lower = _lower_ends(scaled, finest, reach, one_sided_reach, least, most)
    # an upper end is a lower end of the negated number, under the negated bounds
    negated = tuple(None if bound is None else -bound for bound in (most, least))
    upper = -_lower_ends(-scaled, finest, reach, one_sided_reach, *negated)
    return (
        np.minimum(shown, _cut(lower, least, most)).tolist(),
        np.maximum(shown, _cut(upper, least, most)).tolist(),
    )


def sided_ends(
    steps: Sequence[int], per: int, below: int | Fraction, above: int | Fraction, least: int | None, most: int | None
) -> tuple[list[int], list[int]]:
    """Return the ends of `find_ends` by two-sided tests alone, with a margin for each side.

    >>> sided_ends([7, 25], 10, Fraction(3, 2), Fraction(1), 0, None)
    ([0, 1], [1, 3])
    """
    lower = find_ends(steps, per, below, below, least, most)[0]
    upper = find_ends(steps, per, above, above, least, most)[1]
    return lower, upper


def _lower_ends(scaled: Any, finest: int, margin: int, one_sided: int, least: int | None, most: int | None) -> Any:
    """Return the least whole number whose test accepts each number; numbers and errors are in steps of 1 / `finest`."""
    # within `near` of a bound, a value is tested on the side away from the bound alone
    near = margin - one_sided
    low = scaled - margin
    if least is not None and most is not None and (most - least) * finest <= 2 * near:
        return -(-low // finest)
    if least is not None:
        bound = least * finest
        beside = np.maximum(bound, scaled - one_sided)
        beyond = np.maximum(((bound + near) // finest + 1) * finest, low)
        low = np.where(scaled <= bound + margin, beside, beyond)
    if most is not None:
        low = np.minimum(low, most * finest - near)
    return -(-low // finest)


def _whole_array(numbers: Sequence[int], *others: int) -> Any:
    """Return whole numbers as an array in which they can be added to the others: of 64 bits, or of any size."""
    largest = max(map(abs, (*numbers, *others)), default=0)
    return np.array(numbers, dtype=np.int64 if largest < 2**60 else object)


def _round_half_even(scaled: Any, finest: int) -> Any:
    """Return the nearest whole number of each in steps of 1 / `finest`, the even one of two."""
    below = scaled // finest
    rest = 2 * (scaled - below * finest)
    return below + ((rest > finest) | ((rest == finest) & (below % 2 == 1)))


def round_steps(steps: Sequence[int], per: int) -> list[int]:
    """Return the whole number nearest to each `steps` / `per`, the even one of two.

    >>> round_steps([5, 7, -15], 10)
    [0, 1, -2]
    """
    rounded: list[int] = _round_half_even(_whole_array(steps, per), per).tolist()
    return rounded


def _cut(steps: Any, least: int | None, most: int | None) -> Any:
    """Return an array of steps cut to the bounds."""
    above = steps if least is None else np.maximum(steps, least)
    return above if most is None else np.minimum(above, most)


def scale_steps(steps: Sequence[int], unit: Fraction) -> list[Number]:
    """Return numbers of steps in the question's units: ints where the unit is whole, else the nearest floats."""
    numerator = unit.numerator
    denominator = unit.denominator
    if denominator == 1:
        return [step * numerator for step in steps]
    return [step * numerator / denominator for step in steps]


def to_units(steps: int, unit: Fraction) -> Number:
    """Return one number of steps in the question's units, as `scale_steps`."""
    return scale_steps((steps,), unit)[0]
