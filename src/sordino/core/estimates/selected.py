"""Selected: estimates of rows that noisy values chose to show, with intervals that hold whatever the choice.

It may not know any exact answer, nor the rows that were left out: only how many rows there were to choose from. So it is with
the noisy counts that private keys were shown by (`ShownCount`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from sordino.core.errors import DeclarationError
from sordino.core.estimates.estimate import ESTIMATES, ColumnEstimate, Number, estimate_to_dict
from sordino.core.estimates.noisy import LAWS, Noisy
from sordino.core.estimates.weighted_sum import WeightedSum
from sordino.core.noise.laws import NoiseLaw
from sordino.core.noise.truncated_laplace import TruncatedLaplace
from sordino.core.rounding import bisect_whole


@ESTIMATES.register("selected")
@dataclass(frozen=True, slots=True)
class Selected:
    """The estimates of the rows that HAVING, or ORDER BY with LIMIT, chose by noisy values from `among` rows.

    Theorem: with probability `confidence`, the intervals of all rows shown hold together, for every rule of selection.
    Proof (Bonferroni): each of the `among` intervals at 1 - (1 - confidence) / among misses with probability at most
    (1 - confidence) / among. The event that none of them misses has probability `confidence` or more, and on it the
    intervals of any subset hold, also of one that the same noise chose. For private keys `among` is the number that
    passed the threshold: their values have noise of their own, so given those keys the same holds.

    Intervals of the rows alone, at `confidence` each, would not do: the largest of 2,000 equal counts is the one with the
    largest noise (Benjamini, Yekutieli 2005, on intervals after selection).

    `top` says that the rows are the first `top` in the order of these very values, the largest first, or with `rising` the
    smallest. Then only the lower ends allow for `among` rows (with `rising` the upper ends); the others allow for `top`.
    Theorem: with m = `among`, k = `top`, a = 1 - `confidence`, margins P(Z > s) <= a / 2m and P(Z < -t) <= a / 2k, and noise Z_i
    that is independent by row, all of [y_i - s, y_i + t] that are shown hold with probability `confidence`. Proof: a lower
    end fails only where some Z_i > s of all m: a / 2 at most. An upper end fails where row i is shown and Z_i < -t. Given the
    noise of the other rows, i is shown for every Z_i above some number, so that being shown and Z_i < -t are correlated
    negatively (Chebyshev's inequality for a rising and a falling function): the chance of both is at most P(i shown) a / 2k.
    These add up to a / 2, as k rows are shown.
    """

    of: ColumnEstimate
    among: int
    top: int = 0
    rising: bool = False

    per_row: ClassVar[tuple[str, ...]] = ("of",)

    @property
    def unit(self) -> Fraction:
        """The step of the values, where they have one."""
        return getattr(self.of, "unit", Fraction(1, 2))

    @property
    def error_unit(self) -> str:
        """What errors are counted in, where that is not the values' own unit."""
        return getattr(self.of, "error_unit", "")

    @property
    def cell_kind(self) -> str:
        """What its cells are, where they are no numbers."""
        return getattr(self.of, "cell_kind", "")

    def values(self) -> Sequence[Any]:
        """Return the values as they were released: those of selected rows lean towards being selected."""
        return self.of.values()

    def errors(self, confidence: float) -> Sequence[Number | None]:
        """Return the error of each; all hold together with probability `confidence`."""
        return self.of.errors(simultaneous_confidence(confidence, self.among))

    def intervals(self, confidence: float) -> Sequence[tuple[Number | None, Number | None]]:
        """Return the interval of each; all hold together with probability `confidence`."""
        for_all = simultaneous_confidence(confidence, self.among)
        if not self.top or not isinstance(self.of, (Noisy, WeightedSum)):
            return self.of.intervals(for_all)
        for_shown = simultaneous_confidence(confidence, min(self.top, self.among))
        if self.rising:
            return self.of.sided_intervals(for_shown, for_all)
        return self.of.sided_intervals(for_all, for_shown)

    def remarks(self, name: str) -> tuple[str, ...]:
        """Return the remarks of the values, in words."""
        remarks = getattr(self.of, "remarks", None)
        return () if remarks is None else tuple(remarks(name))

    to_dict = estimate_to_dict


def simultaneous_confidence(confidence: float, among: int) -> float:
    """Return the confidence of each of `among` intervals at which all hold together with `confidence`, rounded up.

    Raises DeclarationError if doubles cannot distinguish it from 1.

    >>> simultaneous_confidence(0.95, 1), simultaneous_confidence(0.95, 5)
    (0.95, 0.99)
    """
    miss = (1 - Fraction(repr(confidence))) / max(1, among)
    each = float(1 - miss)
    if 1 - Fraction(repr(each)) > miss:
        each = math.nextafter(each, 2.0)
    if each >= 1.0:
        raise DeclarationError(f"confidence {confidence} for {among:,} rows together is too near 1; try 0.95")
    return each


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
