"""Private keys with their counts: truncated Laplace noise, whose largest value is what a key of one unit must reach to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sordino.accounting.events import LaplaceEvent
from sordino.accounting.threshold_event import ThresholdEvent
from sordino.loss import format_number
from sordino.mechanisms.scores import positive
from sordino.mechanisms.threshold import Key, chance_to_appear, check_keys, keys_above, small_delta
from sordino.noise.rng import Rng
from sordino.noise.truncated_laplace import TruncatedLaplace, least_reach

__all__ = ["TruncatedThreshold"]


@dataclass(frozen=True, slots=True)
class TruncatedThreshold:
    """Add discrete Laplace noise of scale keys / epsilon, cut off at k, to each count of units; show noisy counts above k.

    `keys` bounds how many keys' counts one neighbor may move, each by 1 (m groups a unit; add_remove: m; replace: 2m).

    Theorem (Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially private partition selection", section 3.3): with
    e = epsilon / keys, d = delta / keys and k the least with P(Z = k) <= d, one key's release is (e, d)-private, also of
    counts of 0, which never show; `keys` of them are (epsilon, delta)-private by composition.
    Proof: the laws of n + Z and n + 1 + Z have ratios within exp(e) at every value but one on each side, n - k, which only
    the first has, and n + 1 + k, which only the second has: each of probability P(Z = k) <= d. Hiding values up to k is
    post-processing. A key of 0 units is always hidden, as 0 + Z <= k is, so its absence from the table changes nothing.

    Under replace all 2m keys pay, and m would not do: of large counts, each of the m keys that lose a unit has an end n + 1 +
    k that the neighbor lacks, and each of the m that gain one an end n - k, which shows where n > 2k. Some end shows with
    probability 1 - (1 - d)^2m. Whole Laplace noise has no ends, so that its delta covers the m keys that are new.

    An (epsilon, delta)-private release is one of a pure epsilon, but for an event of probability delta (Kairouz, Oh,
    Viswanath 2015, Theorem 3.4): hence the event. Under add_remove k is below the threshold of whole Laplace noise, whose
    tail, not whose end, must be delta: by about (1 / e) ln(1 / e) where e is small.

    >>> TruncatedThreshold(1, Fraction(1), Fraction(1, 10**6)).threshold
    15
    """

    keys: int
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "delta", small_delta(self.delta))
        check_keys(self.keys)

    @property
    def event(self) -> ThresholdEvent:
        """What one release amounts to, keys and noisy counts together."""
        return ThresholdEvent(LaplaceEvent(self.epsilon), self.delta)

    @property
    def law(self) -> TruncatedLaplace:
        """The law of the noise in each count."""
        return TruncatedLaplace(self.keys / self.epsilon, self.threshold - 1)

    @property
    def threshold(self) -> int:
        """The least noisy count that shows."""
        return 1 + least_reach(self.epsilon / self.keys, self.delta / self.keys)

    def appears(self, count: int) -> float:
        """Return the probability that a key of `count` units shows: a public function, 0 for a key of none."""
        return chance_to_appear(self.law, self.threshold, count)

    def release(self, exact: Mapping[Key, int], rng: Rng) -> dict[Key, int]:
        """Return the keys that show, in their own order, each with its noisy count; the others leave no trace."""
        return keys_above(exact, self.law, self.threshold, rng)

    def describe(self) -> str:
        """Return the mechanism in words."""
        scale = format_number(self.law.scale)
        return f"truncated discrete Laplace, scale {scale}, up to {self.law.reach}; keys shown from {self.threshold} on"
