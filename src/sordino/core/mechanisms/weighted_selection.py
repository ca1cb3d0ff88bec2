"""Private keys of units that have many: each unit spreads one weight over its keys, and keys of enough noisy weight show."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from sordino.core.accounting.events import GaussianEvent, ThresholdEvent
from sordino.core.accounting.gaussian_dp import gaussian_rho_for, gaussian_variance
from sordino.core.mechanisms.selection import positive, store_positive
from sordino.core.mechanisms.threshold import Key, check_keys, keys_above, small_delta
from sordino.core.noise.laws import DiscreteGaussian
from sordino.core.noise.rng import Rng

# Each round's share of rho and of delta.
ROUNDS = (Fraction(1, 10), Fraction(9, 10))
# Steps that one unit's whole weight is measured in.
_STEPS = 1024
# The largest rho of Gaussian DP: above it noise would be less than what its theorem covers.
_MOST_RHO = 8
# Up to so many keys of a unit each number has a weight of its own.
_EACH = 64


@dataclass(frozen=True)
class WeightedSelection:
    """A selection by noisy weights, in rounds: a unit gives each of its k keys that do not show yet the weight 1 / sqrt(k).

    A unit has at most `groups` keys in a round, chosen of those that do not show yet; `moved` is how many units' weights a
    neighbor moves (add_remove: 1; replace: 2).

    Theorem (weights: Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin 2020, "Differentially private set union",
    supplement, Algorithm 2 and Theorem D.2, weighted Gaussian; rounds: Swanberg, Desfontaines, Haney 2023, DP-SIPS): the
    keys of all rounds together are delta-approximate rho-zCDP, and (epsilon, delta + d) where their noise is certified to be
    (epsilon, d).
    Proof. (1) Weights are whole numbers of steps, w = floor(W / sqrt(k)), so that k w^2 <= W^2. One unit has a vector of
    weights of length W at most; exchanging it for another moves the sum by w - v with |w - v|^2 <= |w|^2 + |v|^2 <= 2 W^2,
    as no weight is below 0. So `moved` W^2 bounds the squared distance, for whichever keys were left out before. A round is
    a Gaussian release of the keys that both tables have, of rho_i = moved W^2 / (2 sigma_i^2), and the rounds compose
    adaptively. (2) A key that only one of the tables has is of one unit there, with k <= groups keys, of weight w(k) each: it
    shows with probability P(Z >= T_i - w(k)), all k of them with k P(Z >= T_i - w(k)) <= delta_i at most, whatever k.
    (3) Let Q, Q' be the laws of the runs on tables D, D' in which such keys are kept back. At any transcript so far, round i
    of D shows none of them with probability 1 - delta_i or more, independently of its other keys, and then goes on as Q. So
    P(D in S) >= (1 - delta) Q(S) for delta the sum of all delta_i, hence P(D in S) <= delta + (1 - delta) Q(S), and the same
    of D': with Q(S) <= exp(epsilon) Q'(S) + d, P(D in S) <= delta + d + exp(epsilon) P(D' in S).

    A unit of one key counts in full, one of `groups` keys no less than under a Gaussian threshold; and what large keys took
    in one round small ones have in the next. The first round has a tenth of rho and of delta, the second the rest.

    Raises DeclarationError unless groups >= 1, rho > 0 and 0 < delta < 1, exact.

    >>> selection = weighted_selection_for_pair(groups=8, moved=1, epsilon=Fraction(1), delta=Fraction(1, 10**6))
    >>> selection.units_to_show(0.5), selection.units_to_show(0.5, groups=1)
    (71, 25)
    """

    groups: int
    moved: int
    rho: Fraction
    delta: Fraction
    certificate: tuple[Fraction, Fraction] | None = None

    def __post_init__(self) -> None:
        store_positive(self, "rho")
        object.__setattr__(self, "delta", small_delta(self.delta))
        check_keys(self.groups)
        check_keys(self.moved)

    @property
    def event(self) -> ThresholdEvent:
        """The event of all rounds together."""
        return ThresholdEvent(GaussianEvent(self.rho, self.certificate), self.delta)

    @property
    def threshold(self) -> None:
        """Return None: no number of units is enough, or too few, by itself."""

    @cached_property
    def rounds(self) -> tuple[WeightedRound, ...]:
        """The rounds, in their order."""
        smooth = self.certificate is not None
        return tuple(
            _round(self.groups, self.moved, self.rho * part, self.delta * part, smooth=smooth) for part in ROUNDS
        )

    def appears(self, count: int, *, groups: int | None = None) -> float:
        """Return a lower bound on the probability that a key of `count` units shows, each of which has `groups` keys at most."""
        last = self.rounds[-1]
        weight = last.weight(self.groups if groups is None else min(groups, self.groups))
        return last.law.upper_tail(last.threshold - 1 - count * weight) if count else 0.0

    def units_to_show(self, chance: float, *, groups: int | None = None) -> int:
        """Return the least number of units, with `groups` keys each, at which a key shows with this chance."""
        return 1 + bisect_left(range(1, 2**62), chance, key=lambda count: self.appears(count, groups=groups))

    def describe(self) -> str:
        """Return the mechanism in words: which keys show."""
        many = self.units_to_show(0.5)
        few = self.units_to_show(0.5, groups=1)
        sigma = " then ".join(f"{float(one.law.sigma_squared) ** 0.5 / one.whole:.4g}" for one in self.rounds)
        return (
            f"keys that {many:,} units or more have, or from {few:,} on where units have fewer other keys that are not shown "
            f"(shown at least half of the time; 1 unit: {float(self.delta):.2g} at most); weighted selection in "
            f"{len(self.rounds)} rounds, discrete Gaussian, sigma {sigma} of one unit's weight"
        )

    def note(self) -> str:
        """Return the note of a release: the size below which private keys stay hidden."""
        many = self.units_to_show(0.5)
        few = self.units_to_show(0.5, groups=1)
        return (
            f"keys of fewer than about {few:,} to {many:,} units stay hidden: a key shows where the noisy weight of its units "
            f"is large enough, and a unit weighs the less the more keys it has (half of the keys of {many:,} units show at "
            f"{self.groups:,} keys a unit, of {few:,} at one)"
        )


@dataclass(frozen=True, slots=True)
class WeightedRound:
    """One round: a unit of k keys gives each weights[i] steps, starts[i] being the last start up to k; of one key, `whole`.

    Keys whose weights, with noise of `law`, sum to `threshold` steps or more show.
    """

    starts: tuple[int, ...]
    weights: tuple[int, ...]
    whole: int
    law: DiscreteGaussian
    threshold: int

    def weight(self, keys: int) -> int:
        """Return the weight that a unit of so many keys gives each of them, in steps."""
        return self.weights[bisect_left(self.starts, keys + 1) - 1]

    def release(self, exact: Mapping[Key, int], rng: Rng) -> list[Key]:
        """Return the keys whose noisy weights reach the threshold, sorted; the others leave no trace."""
        return list(keys_above(exact, self.law, self.threshold, rng))


def weighted_selection_for_pair(*, groups: int, moved: int, epsilon: Fraction, delta: Fraction) -> WeightedSelection:
    """Return the weighted selection that is (epsilon, delta)-private: half of delta for the noise, half for the keys.

    The rounds' noise is Gaussian DP, which composes adaptively by sums of rho (`gaussian_dp`).
    """
    spare = small_delta(delta) / 2
    rho = min(gaussian_rho_for(positive(epsilon, "epsilon"), delta - spare), Fraction(_MOST_RHO))
    return WeightedSelection(groups, moved, rho, spare, (epsilon, delta - spare))


@lru_cache(maxsize=256)
def _round(groups: int, moved: int, rho: Fraction, delta: Fraction, *, smooth: bool) -> WeightedRound:
    """Return a round at rho: of zCDP, or with `smooth` of Gaussian DP."""
    squared = Fraction(moved * _STEPS**2)
    variance = gaussian_variance(squared, rho) if smooth else squared / (2 * rho)
    # gaussian_variance is None below one step only, which the limits on rho and on steps exclude.
    assert variance is not None
    law = DiscreteGaussian(variance)
    starts = []
    weights = []
    least = 0
    start = 1
    while start <= groups:
        # from `_EACH` keys on, numbers of keys within about 3% share the weight of the largest of them
        last = min(groups, start + max(0, (start - _EACH) // 32))
        weight = math.isqrt(_STEPS**2 // last)
        starts.append(start)
        weights.append(weight)
        # at a delta of half a key or more, a key may show if noise lifts it at all: P(Z >= 1) < 1/2
        beyond = law.error(1 - 2 * delta / last) if 2 * delta < last else 0
        least = max(least, weight + beyond + 1)
        start = last + 1
    return WeightedRound(tuple(starts), tuple(weights), _STEPS, law, least)
