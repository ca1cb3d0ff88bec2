"""Weighted sums of noisy vectors that several answers share, such as a count that follows from two noisy sums.

So are the points of a curve, each a sum of many noisy numbers, and the numbers of a series of releases, which share the noise
of earlier steps. No exact answer is known here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from sordino.core.estimates.estimate import ESTIMATES, BigInt, Number, estimate_to_dict
from sordino.core.estimates.noisy import (
    Noisy,
    find_ends,
    one_sided_error,
    round_steps,
    scale_steps,
    sided_ends,
    to_units,
)
from sordino.core.noise.laws import DiscreteGaussian, sum_error

# one row a number that is wanted, one weight a noisy vector
Mix = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """How the numbers of an aggregate follow from noisy vectors, and which of the answer's vectors those are."""

    mix: Mix
    vectors: tuple[int, ...]


@ESTIMATES.register("weighted sum")
@dataclass(frozen=True, slots=True)
class WeightedSum:
    """A number in whole steps of `scale`: the sum of weight times noisy vector, whose noises are independent, rounded.

    `vectors` says which of the answer's noisy vectors they are: estimates that share one share its noise. Sums may lie
    between two steps, but true values never do. So the value is the nearest step: as the noise is symmetric, so is what
    rounding adds, and the value stays unbiased. Formulas and means read the sums as they were (`sums`). The interval is that
    of the law of the weighted sum of the noises, one-sided beside `least` and `most`, as in `Noisy`; its ends move inwards to
    the next step, which leaves out no possible value. An interval reaches its value in any case, and so holds a whole step.
    """

    of: tuple[Noisy, ...]
    weights: tuple[Fraction, ...]
    scale: Fraction
    vectors: tuple[int, ...]
    least: BigInt | None = None
    most: BigInt | None = None

    per_row: ClassVar[tuple[str, ...]] = ("of",)

    @property
    def unit(self) -> Fraction:
        """The step of the values."""
        return self.scale

    def values(self) -> list[Number]:
        """Return the sums in whole steps, the nearest ones."""
        return scale_steps(round_steps(*self._steps()), self.scale)

    def sums(self) -> list[float]:
        """Return the sums before they are rounded to whole steps."""
        steps, per = self._steps()
        return [float(value) for value in scale_steps(steps, self.scale / per)]

    def errors(self, confidence: float) -> list[Number]:
        """Return the quantile of the noise and of rounding, the same for every row."""
        return [to_units(rounded_error(self._margin(confidence)), self.scale)] * len(self.of[0].steps)

    def intervals(self, confidence: float) -> list[tuple[Number, Number]]:
        """Return value -+ error in whole steps, narrower beside a bound and cut to it, but never past the value."""
        margin = self._margin(confidence)
        one_sided = self._margin(max(0.0, 2 * confidence - 1))
        ends = find_ends(*self._steps(), margin, one_sided, self.least, self.most)
        return list(zip(*(scale_steps(end, self.scale) for end in ends), strict=True))

    def sided_intervals(self, lower: float, upper: float) -> list[tuple[Number, Number]]:
        """Return intervals whose lower ends have half of the miss of the confidence `lower`, and the upper ones of `upper`."""
        ends = sided_ends(*self._steps(), self._margin(lower), self._margin(upper), self.least, self.most)
        return list(zip(*(scale_steps(end, self.scale) for end in ends), strict=True))

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return in words how many values noise has carried past what is possible."""
        values = tuple(round_steps(*self._steps()))
        return Noisy(values, Fraction(1), self.of[0].law, self.least, self.most).remarks(name)

    to_dict = estimate_to_dict

    def _steps(self) -> tuple[list[int], int]:
        """Return the sums in parts of a step, and how many of these are a step."""
        return mix_steps((self.weights,), self.of)[0]

    def _margin(self, confidence: float) -> Fraction:
        if not confidence:
            return Fraction(0)
        return sum_error(tuple(o.law for o in self.of), self.weights, confidence)


def rounded_error(margin: Fraction) -> int:
    """Return the error of a number that is rounded to whole steps, which adds half a step at most.

    >>> rounded_error(Fraction(1, 10)), rounded_error(Fraction(5, 2))
    (0, 3)
    """
    return math.floor(margin + Fraction(1, 2))


def mix_steps(mix: Mix, of: tuple[Noisy, ...]) -> list[tuple[list[int], int]]:
    """Return the numbers that follow from noisy vectors, exactly: of each row of `mix` its numerators and their denominator."""
    mixed = []
    for row in mix:
        # sums of whole numbers over one denominator are faster than sums of Fractions
        below = math.lcm(*(weight.denominator for weight in row))
        used = [(int(weight * below), vector.steps) for weight, vector in zip(row, of, strict=True) if weight]
        sums = [0] * len(of[0].steps)
        for weight, steps in used:
            sums = [total + weight * step for total, step in zip(sums, steps, strict=True)]
        mixed.append((sums, below))
    return mixed


def mix_weights(mix: Mix, weights: Sequence[Any]) -> Sequence[Any]:
    """Return the weights of noisy vectors in a weighted sum of mixed numbers; the weights themselves without a mix."""
    if not mix:
        return weights
    return [sum(float(row[i]) * w for row, w in zip(mix, weights, strict=True)) for i in range(len(mix[0]))]


@ESTIMATES.register("curve")
@dataclass(frozen=True, slots=True)
class NoisyCurve:
    """Values that are weighted sums of independent noisy numbers, and the standard deviation of each one's noise.

    Errors are the larger of the normal law's quantile and the Laplace law's of that deviation: sums that one number
    dominates are near the second, sums that many share near the first.
    """

    points: tuple[float, ...]
    deviations: tuple[float, ...]

    per_row: ClassVar[tuple[str, ...]] = ("points", "deviations")

    def values(self) -> list[float]:
        """Return the point estimates."""
        return list(self.points)

    def errors(self, confidence: float) -> list[float]:
        """Return the error of each that is not exceeded with probability `confidence` or more."""
        # quantiles of the two laws at deviation 1
        laplace = -math.log1p(-confidence) / math.sqrt(2)
        widest = max(laplace, normal_quantile(confidence))
        return [widest * d for d in self.deviations]

    def intervals(self, confidence: float) -> list[tuple[float, float]]:
        """Return the confidence interval of each by itself."""
        return [(v - e, v + e) for v, e in zip(self.points, self.errors(confidence), strict=True)]

    to_dict = estimate_to_dict


@functools.lru_cache(maxsize=64)
def normal_quantile(confidence: float) -> float:
    """Return z with P(|N| <= z) = confidence.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    from statistics import NormalDist

    below = (1 + confidence) / 2
    # Within 2e-16 of 1 it rounds to 1, where the other tail still has digits.
    return NormalDist().inv_cdf(below) if below < 1 else -NormalDist().inv_cdf((1 - confidence) / 2)


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
