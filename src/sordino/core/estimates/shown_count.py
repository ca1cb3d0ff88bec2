"""ShownCount: the noisy counts that private keys were shown by, with intervals that allow for their being shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from sordino.core.estimates.estimate import ESTIMATES, Number, estimate_to_dict
from sordino.core.estimates.noisy import LAWS
from sordino.core.noise.laws import NoiseLaw
from sordino.core.noise.truncated_laplace import TruncatedLaplace
from sordino.core.rounding import bisect_whole

LAWS.register("truncated discrete Laplace")(TruncatedLaplace)

CountLaw = NoiseLaw | TruncatedLaplace


@ESTIMATES.register("shown count")
@dataclass(frozen=True, slots=True)
class ShownCount:
    """Counts plus noise of a known law, of which only those of `threshold` or more show; true ones are at least `least`.

    Theorem: an interval of `confidence` covers the count of a key that shows with that probability, given that it shows.
    Proof: y of a count n has P(y >= t | shown) = P(Z >= t - n) / P(Z >= threshold - n). The interval holds the n for which
    neither P(y or more | shown) nor P(y or less | shown) is (1 - confidence) / 2 or less: the inversion of a test. The
    noise is log-concave, so the first rises and the second falls with n (Karlin, Rubin 1956): its ends are found by
    bisection. Intervals y -+ error would not do: a small key that shows has large noise.
    """

    steps: tuple[int, ...]
    law: CountLaw
    threshold: int
    least: int = 1

    per_row: ClassVar[tuple[str, ...]] = ("steps",)

    @property
    def unit(self) -> Fraction:
        """The step of the values."""
        return Fraction(1)

    def values(self) -> list[Number]:
        """Return the noisy counts."""
        return list(self.steps)

    def errors(self, confidence: float) -> list[Number]:
        """Return the quantile of the noise, the same for every row."""
        return [self.law.error(confidence)] * len(self.steps)

    def intervals(self, confidence: float) -> list[tuple[Number, Number]]:
        """Return the interval of each count, given that its key shows."""
        # from `clear` on a key shows almost surely: 2% of the miss is room for what its being shown changes
        margin = self.law.error(1 - (1 - confidence) * 0.98)
        clear = self.threshold + self.law.error(0.98) + margin
        return [
            (max(self.least, y - margin), y + margin)
            if y > clear
            else _interval(self.law, self.threshold, self.least, y, margin, confidence)
            for y in self.steps
        ]

    to_dict = estimate_to_dict


@lru_cache(maxsize=100_000)
def _interval(law: CountLaw, threshold: int, least: int, y: int, margin: int, confidence: float) -> tuple[int, int]:
    half = (1 - confidence) / 2

    def not_too_large(n: int) -> bool:
        """Whether P(y or more | shown) of a count n is above half of the miss."""
        return law.upper_tail(y - 1 - n) > half * law.upper_tail(threshold - 1 - n)

    def not_too_small(n: int) -> bool:
        """Whether P(y or less | shown) of a count n is above half of the miss."""
        shows = law.upper_tail(threshold - 1 - n)
        return shows == 0 or shows - law.upper_tail(y - n) > half * shows

    low = _first(not_too_large, least, y)
    beyond = _first(lambda n: not not_too_small(n), max(y, least), y + 2 * margin + 2)
    return min(low, y), max(beyond - 1, y)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number from `low` on at which `holds` is true, `high` if there is none below it."""
    if low >= high or holds(low):
        return low
    return bisect_whole(lambda n: n >= high or holds(n), low, high)
