"""Propose, test, release: noise for a proposed local sensitivity, given only where the data is far from breaking it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sordino.accounting.events import ApproxEvent
from sordino.errors import DeclarationError
from sordino.loss import format_number
from sordino.noise.laws import DiscreteLaplace
from sordino.noise.rng import Rng

__all__ = ["ProposeTestRelease"]

_FARTHEST = 2**62  # stands for no distance at all; cutting there moves no neighbors further apart


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
                f"{format_number(self.delta)}; give epsilon= and delta="
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
            return 0  # P(Z > 0) is below a half
        return DiscreteLaplace(1 / self.half).error(1 - 2 * self.delta)  # P(|Z| > t) <= 2 delta, so P(Z > t) <= delta

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
