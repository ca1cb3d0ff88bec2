"""Robust statistics of sorted whole numbers: exact, with Laplace noise of smooth sensitivity, or by propose-test-release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.core.accounting.events import ApproxEvent, LaplaceEvent
from sordino.core.errors import DeclarationError, QuestionRefused, arg
from sordino.core.loss import format_number, to_fraction
from sordino.core.noise.cauchy import draw_rounded_cauchy
from sordino.core.noise.discrete import discrete_laplace
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.rng import Rng

# Parts of a step in which statistics are reported: a mean or a quantile lies between steps.
FINE = 1024
# Stands for no distance at all; cutting there moves no neighbors further apart.
_FARTHEST = 2**62
_MOST_DELTA = Fraction("0.7357")
# The denominator of a level for which smooth sensitivities are computed.
_FINEST = 10**9


def exact_statistic(statistic: str, values: Any, *, lower: int, upper: int) -> Fraction:
    """Return the mean, median, quantile:q (linear interpolation) or var of sorted whole numbers, exactly.

    Of no values the mean and quantiles are the midpoint of the bounds, the variance 0. `values` is a sorted int64 array.
    """
    size = len(values)
    level = level_of(statistic)
    if size == 0:
        return Fraction(0) if statistic == "var" else Fraction(lower + upper, 2)
    if level is not None:
        place = (size - 1) * level
        below = math.floor(place)
        low = int(values[below])
        high = int(values[min(below + 1, size - 1)])
        return low + (place - below) * (high - low)
    total = sum(values.tolist())
    if statistic == "mean":
        return Fraction(total, size)
    squares = sum(v * v for v in values.tolist())
    return Fraction(size * squares - total * total, size * size)


def fine_steps(value: Fraction) -> int:
    """Return a value in parts of a step, to the nearest: this moves two values apart by at most one part more."""
    return math.floor(value * FINE + Fraction(1, 2))


def level_of(statistic: str) -> Fraction | None:
    """Return q of "quantile:q" and 1/2 of "median", None for other statistics; raises QuestionRefused for unknown ones."""
    if statistic in ("mean", "var"):
        return None
    if statistic == "median":
        return Fraction(1, 2)
    if statistic.startswith("quantile:"):
        level = to_fraction(statistic.partition(":")[2], name="the quantile's level")
        if 0 <= level <= 1 and level.denominator <= _FINEST:
            return level
        raise QuestionRefused(
            "a quantile's level must lie between 0 and 1, with 9 decimals at most, such as quantile:0.9"
        )
    raise QuestionRefused(f"a statistic is mean, median, var or quantile:q, not {statistic[:40]!r}")


@dataclass(frozen=True, slots=True)
class SmoothLaplace:
    """Add noise of scale 2 S / epsilon, S a beta-smooth upper bound on the local sensitivity of a whole number.

    Theorem (Nissim, Raskhodnikova, Smith 2007, Lemma 2.5 and Examples 1, 3): S is beta-smooth if it is at least the local
    sensitivity everywhere and S(D) <= e^beta S(D') for neighbors. A shift by S then costs epsilon / 2, and the change of
    the scale by e^beta the other half:

    - delta > 0: discrete Laplace noise; beta = ln(1 + epsilon / (2 ln(2 / delta))) gives (epsilon, delta). Proof: let s and
      s' be the scales of neighbors, P(z) = tanh(1 / 2s) e^(-|z| / s). First the scale, at the same place. If s < s', then
      tanh(1 / 2s) <= (s' / s) tanh(1 / 2s'), as tanh is concave and 0 at 0, and the exponential only falls: a factor of
      e^beta at most, below e^(epsilon / 2) since ln(2 / delta) >= 1. If s > s', the normaliser helps, which is not
      counted, and the exponential costs |z| (1 / s' - 1 / s) <= (|z| / s) (e^beta - 1); that passes epsilon / 2 only
      where |z| / s > ln(2 / delta), of which the chance under P is at most 2 e^(-ln(2 / delta)) = delta. Then the shift,
      at scale s': a factor of e^(epsilon / 2), with S' at least the local sensitivity. Together e^epsilon and delta.
    - delta = 0: Cauchy noise, rounded; beta = epsilon / 2. |d/dz ln(1 + z^2)| <= 1 pays the shift, and
      ln((1 + e^(2 beta) z^2) / (1 + z^2)) - beta lies within -+ beta: pure epsilon, at the price of heavy tails.

    The width of the noise follows the data, so it is private, and no error is stated. Raises DeclarationError unless
    epsilon > 0 and 0 <= delta <= 0.7357 (2 / e, above which the proof does not go).

    >>> SmoothLaplace(Fraction(1), Fraction(0)).beta < 0.5
    True
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise DeclarationError(f"epsilon must be above 0, not {format_number(self.epsilon)}")
        if not 0 <= self.delta <= _MOST_DELTA:
            rule = f"delta must lie between 0 and {format_number(_MOST_DELTA)}, not {format_number(self.delta)}"
            raise DeclarationError(f"{rule}: smooth noise has no proof above; 1e-6 is common")

    @property
    def beta(self) -> float:
        """The smoothness that S must have, a hair below the theorem's, so that rounding in S cannot pass it."""
        half = float(self.epsilon) / 2
        if self.delta == 0:
            return half * (1 - 1e-6)
        tail = math.log(2 * self.delta.denominator) - math.log(self.delta.numerator)
        return math.log1p(half / tail) * (1 - 1e-6)

    @property
    def event(self) -> LaplaceEvent | ApproxEvent:
        """What one release amounts to."""
        return LaplaceEvent(self.epsilon) if self.delta == 0 else ApproxEvent(self.epsilon, self.delta)

    def width(self, smooth: float) -> Fraction:
        """Return S in the parts of a step in which statistics are told, and one part more for their rounding.

        Exact: S + a constant is as smooth as S, but S rounded to whole parts would jump by more than e^beta.
        """
        return Fraction(smooth) * FINE + 1

    def release(self, exact: int, width: Fraction, rng: Rng) -> int:
        """Return x + (2 width / epsilon) Z, in parts of a step."""
        scale = 2 * width / self.epsilon
        return exact + (draw_rounded_cauchy(scale, rng) if self.delta == 0 else discrete_laplace(scale, rng))

    def describe(self) -> str:
        """Return the mechanism in words."""
        law = "Cauchy" if self.delta == 0 else "discrete Laplace"
        return f"{law}, scale 2 S / epsilon, S smooth at beta {self.beta:.6g}: its width is private"


@dataclass(frozen=True, slots=True)
class ProposeTestRelease:
    """Test privately how far the data is from any whose local sensitivity passes `bound`; release only if far.

    Theorem (Dwork & Lei 2009; Dwork & Roth 2014, Algorithm 13): with half = epsilon / 2, the distance plus discrete
    Laplace noise Z of scale 1 / half is half-private, as the distance moves by at most 1 between neighbors. A table at
    distance 0 passes the threshold t with probability P(Z > t) <= delta. Any other has a local sensitivity of at most
    `bound`, so Laplace noise of scale bound / half is half-private: (epsilon, delta) in all, failure included.

    t is the least whole number with that tail, e^(-half (t + 1)) / (1 + e^-half), certified in Decimal: about
    ln(2) / half + 1 below the textbook's ln(1 / delta) / half, which is for the bound e^(-half t) / 2 <= delta, rounded.

    `bound` is in whole steps. Raises DeclarationError unless epsilon, delta and bound are above 0.

    >>> ProposeTestRelease(1, Fraction(2), Fraction(1, 32561**2)).threshold  # the textbook's is 21
    20
    """

    bound: int
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0 or not 0 < self.delta < 1:
            raise DeclarationError(
                f"propose-test-release needs epsilon above 0 and delta between 0 and 1, not {format_number(self.epsilon)} and "
                f"{format_number(self.delta)}; give {arg('epsilon=')} and {arg('delta=')}"
            )
        if self.bound < 1:
            raise DeclarationError("bound, in steps, must be at least 1")

    @property
    def half(self) -> Fraction:
        """The epsilon of the test, and of the release."""
        return self.epsilon / 2

    @property
    def threshold(self) -> int:
        """The largest noisy distance that does not pass."""
        if self.delta >= Fraction(1, 2):
            # P(Z > 0) is below a half.
            return 0
        # P(|Z| > t) <= 2 delta, so P(Z > t) <= delta.
        return DiscreteLaplace(1 / self.half).error(1 - 2 * self.delta)

    @property
    def event(self) -> ApproxEvent:
        """What one run amounts to, whether it passes or fails."""
        return ApproxEvent(self.epsilon, self.delta)

    @property
    def law(self) -> DiscreteLaplace:
        """The law of the noise of an answer that is given."""
        return DiscreteLaplace(self.bound / self.half)

    def release(self, exact: int, distance: float, rng: Rng) -> int | None:
        """Return x + Z, or None where the test fails; `distance` is a whole number of rows, or infinite."""
        whole = _FARTHEST if math.isinf(distance) else min(int(distance), _FARTHEST)
        noisy_distance = whole + DiscreteLaplace(1 / self.half).sample(rng)
        return exact + self.law.sample(rng) if noisy_distance > self.threshold else None

    def describe(self) -> str:
        """Return the mechanism in words."""
        return (
            f"a test at threshold {self.threshold}, then discrete Laplace, scale {format_number(self.law.scale)} steps"
        )
