"""Private keys: noisy counts of units per key, of which only those past a threshold show, key and all.

Where truncated Laplace noise is drawn, its largest value is what a key of one unit must reach to show, and counts show too.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeVar

from sordino.core.accounting.events import DiscreteGaussianEvent, LaplaceEvent, ThresholdEvent
from sordino.core.accounting.gaussian_dp import gaussian_rho_for, gaussian_variance
from sordino.core.accounting.zcdp import rho_for
from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.mechanisms.selection import positive, store_positive
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.core.noise.truncated_laplace import TruncatedLaplace, least_reach

Key = TypeVar("Key", bound=Hashable)


class CountLaw(Protocol):
    """The law of the noise in counts of units."""

    def sample(self, rng: Rng, size: int) -> Any:
        """Draw an array of `size` numbers."""

    def upper_tail(self, t: int) -> float:
        """Return P(X > t)."""


@dataclass(frozen=True, slots=True)
class LaplaceThreshold:
    """Discrete Laplace noise of scale keys / epsilon on each key's count of units; counts of `threshold` or more show.

    `keys` bounds how many keys' counts one neighbor may move, each by 1: with at most m groups a unit, add_remove: m;
    replace: 2m. `new`, `keys` where None, bounds how many of them one neighbor may have that the other lacks: m in both.

    Theorem: the shown keys with their noisy counts are (epsilon, delta)-private (Korolova, Kenthapadi, Mishra, Ntoulas
    2009; Wilson et al. 2020), and so is the set of keys alone.
    Proof: a key that only one of two neighbors D, D' has counts 1 there, and shows with probability p =
    r^(threshold - 1) / (1 + r), r = exp(-epsilon / keys), where new p <= delta. Let Q, Q' be the laws with all such keys
    kept back: within epsilon of one another, by the Laplace mechanism. D shows one with probability d <= delta, D' with
    d' <= delta, independently of the rest. For x = min(1, exp(epsilon) Q'(S)), P(D in S) <= d + (1 - d) x, and
    exp(epsilon) P(D' in S) >= (1 - d') x; they differ by d + (d' - d) x <= delta at most.
    Each of d, d' is of one table's own keys, of which there are `new` at most: not of those of both together.
    `threshold` is 1 + ceil((keys / epsilon) ln(new / ((1 + r) delta))), certified in Decimal: the least that holds on
    the discrete tail, and 2 or more.

    Raises DeclarationError unless keys >= 1, epsilon > 0 and 0 < delta < 1, exact.

    >>> LaplaceThreshold(1, Fraction(1), Fraction(1, 10**6)).threshold
    15
    """

    keys: int
    epsilon: Fraction
    delta: Fraction
    new: int | None = None

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        object.__setattr__(self, "delta", small_delta(self.delta))
        check_keys(self.keys)
        check_keys(self.keys if self.new is None else self.new)

    @property
    def event(self) -> ThresholdEvent:
        """What one release amounts to, keys and noisy counts together."""
        return ThresholdEvent(LaplaceEvent(self.epsilon), self.delta)

    @property
    def law(self) -> DiscreteLaplace:
        """The law of the noise in each count."""
        return DiscreteLaplace(self.keys / self.epsilon)

    @property
    def threshold(self) -> int:
        """The least noisy count that shows."""
        return _threshold(self.law, self.new or self.keys, self.delta)

    def appears(self, count: int) -> float:
        """Return the probability that a key of `count` units shows: a public function, 0 for a key of none."""
        return chance_to_appear(self.law, self.threshold, count)

    def release(self, exact: Mapping[Key, int], rng: Rng) -> dict[Key, int]:
        """Return the keys that show, in their own order, each with its noisy count; the others leave no trace."""
        return keys_above(exact, self.law, self.threshold, rng)

    def describe(self) -> str:
        """Return the mechanism in words."""
        return f"discrete Laplace, scale {format_number(self.law.scale)}; keys shown from {self.threshold} on"


@dataclass(frozen=True, slots=True)
class GaussianThreshold:
    """Discrete Gaussian noise on each key's count of units; noisy counts of `threshold` or more show.

    `keys` and `new` as for `LaplaceThreshold` (m groups a unit; add_remove: m; replace: 2m, and m new): l2 sensitivity
    sqrt(keys), and sigma^2 = keys / (2 rho).

    Theorem: except for an event of probability `delta`, that a key of one unit shows, it is rho-zCDP: delta-approximate
    rho-zCDP (Bun & Steinke 2016, Definition 8.1): given that no key that one table alone has shows, the two are Gaussian
    releases of the others. With the certificate (e, d) of the noise the whole is (e, d + delta), as in `LaplaceThreshold`.
    `threshold` is the least number, 2 or more, with new P(X >= threshold - 1) <= delta on the discrete tail, rounded up.
    `certificate`, where given, is an (epsilon, delta) proved for the noise alone.

    Raises DeclarationError unless keys >= 1, rho > 0 and 0 < delta < 1, exact.

    >>> GaussianThreshold(1, Fraction(1, 2), Fraction(1, 10**6)).threshold
    7
    """

    keys: int
    rho: Fraction
    delta: Fraction
    certificate: tuple[Fraction, Fraction] | None = None
    new: int | None = None

    def __post_init__(self) -> None:
        store_positive(self, "rho")
        object.__setattr__(self, "delta", small_delta(self.delta))
        check_keys(self.keys)
        check_keys(self.keys if self.new is None else self.new)

    @property
    def event(self) -> ThresholdEvent:
        """What one release amounts to, keys and noisy counts together."""
        return ThresholdEvent(DiscreteGaussianEvent(self.law.sigma_squared, 1, self.keys, self.certificate), self.delta)

    @property
    def law(self) -> DiscreteGaussian:
        """The law of the noise in each count."""
        return DiscreteGaussian(self.keys / (2 * self.rho))

    @property
    def threshold(self) -> int:
        """The least noisy count that shows."""
        return _threshold(self.law, self.new or self.keys, self.delta)

    def appears(self, count: int) -> float:
        """Return the probability that a key of `count` units shows: a public function, 0 for a key of none."""
        return chance_to_appear(self.law, self.threshold, count)

    def release(self, exact: Mapping[Key, int], rng: Rng) -> dict[Key, int]:
        """Return the keys that show, in their own order, each with its noisy count; the others leave no trace."""
        return keys_above(exact, self.law, self.threshold, rng)

    def describe(self) -> str:
        """Return the mechanism in words."""
        sigma = float(self.law.sigma_squared) ** 0.5
        return f"discrete Gaussian, sigma {sigma:.6g}; keys shown from {self.threshold} on"


def gaussian_threshold_for_pair(
    *, keys: int, epsilon: Fraction, delta: Fraction, new: int | None = None
) -> GaussianThreshold:
    """Return the Gaussian threshold that is (epsilon, delta)-private: half of delta for the noise, half for the keys.

    >>> gaussian_threshold_for_pair(keys=8, epsilon=Fraction(1), delta=Fraction(1, 10**6)).event.approx()
    (Fraction(1, 1), Fraction(1, 1000000))
    """
    spare = small_delta(delta) / 2
    rho = rho_for(positive(epsilon, "epsilon"), delta - spare)
    # Gaussian DP may need less noise than zCDP; it is calibrated for as many counts as one neighbor moves.
    variance = gaussian_variance(Fraction(keys), gaussian_rho_for(epsilon, delta - spare))
    if variance is not None:
        rho = max(rho, keys / (2 * variance))
    return GaussianThreshold(keys, rho, spare, (epsilon, delta - spare), new)


def _threshold(law: DiscreteLaplace | DiscreteGaussian, keys: int, delta: Fraction) -> int:
    """Return the least t >= 2 with keys P(X >= t - 1) <= delta: the error at 1 - 2 delta / keys bounds both tails."""
    both = 2 * delta / keys
    return 2 if both >= 1 else law.error(1 - both) + 2


def chance_to_appear(law: CountLaw, threshold: int, count: int) -> float:
    """Return the probability that a key of `count` units has a noisy count of `threshold` or more, 0 for one of none."""
    if count < 0:
        raise DeclarationError("count must be at least 0")
    return law.upper_tail(threshold - 1 - count) if count else 0.0


def keys_above(exact: Mapping[Key, int], law: CountLaw, threshold: int, rng: Rng) -> dict[Key, int]:
    """Return the noisy counts at the threshold or more, sorted by key: the table's own order would reveal something."""
    # A key of no units must not show, whatever its noise.
    present = [key for key, count in exact.items() if count > 0]
    noise = law.sample(rng, size=len(present)).tolist()
    noisy = {key: n for key, z in zip(present, noise, strict=True) if (n := int(exact[key]) + z) >= threshold}
    return {key: noisy[key] for key in sort_keys(noisy)}


def sort_keys(keys: Collection[Any]) -> list[Any]:
    """Return keys in the order of `key_order`; keys of texts or whole numbers alone are compared directly, which is faster."""
    kinds = set(map(type, keys))
    if kinds == {int} or (kinds == {tuple} and {str} >= set(map(type, itertools.chain.from_iterable(keys)))):
        return sorted(keys)
    return sorted(keys, key=key_order)


def key_order(key: Any) -> Any:
    """Return a sort key: the key's parts, a missing value last."""
    if isinstance(key, tuple):
        return tuple(key_order(part) for part in key)
    return key is None, type(key).__name__, 0 if key is None else key


def small_delta(delta: Fraction) -> Fraction:
    """Return a delta as a Fraction; raises DeclarationError unless it lies between 0 and 1."""
    exact = positive(delta, "delta, where keys are private,")
    if exact >= 1:
        raise DeclarationError(f"delta must be below 1, not {format_number(exact)}; try 1e-6")
    return exact


def check_keys(keys: int) -> None:
    """Raise DeclarationError unless it is a whole number, 1 or more."""
    if isinstance(keys, bool) or not isinstance(keys, int) or keys < 1:
        raise DeclarationError("keys, how many one unit may be counted under, must be a whole number, 1 or more")


@dataclass(frozen=True, slots=True)
class TruncatedThreshold:
    """Discrete Laplace noise of scale keys / epsilon, truncated at k, on each count of units; noisy counts above k show.

    `keys` bounds how many keys' counts one neighbor may move, each by 1 (m groups a unit; add_remove: m; replace: 2m).

    Theorem (Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially private partition selection", whose Theorem 5
    compares such thresholds with the optimal selection): with e = epsilon / keys, d = delta / keys and k the least with
    P(Z = k) <= d, one key's release is (e, d)-private, also of counts of 0, which never show; `keys` of them are
    (epsilon, delta)-private by composition.
    Proof: the laws of n + Z and n + 1 + Z have ratios within exp(e) at every value but one on each side, n - k, which only
    the first has, and n + 1 + k, which only the second has: each of probability P(Z = k) <= d. Hiding values up to k is
    post-processing. A key of 0 units is always hidden, as 0 + Z <= k is, so its absence from the table changes nothing.

    Under replace all 2m keys pay, and m would not do: of large counts, each of the m keys that lose a unit has an end n + 1 +
    k that the neighbor lacks, and each of the m that gain one an end n - k, which shows where n > 2k. Some end shows with
    probability 1 - (1 - d)^2m. Whole Laplace noise has no ends, so that its delta covers the m keys that are new.

    An (epsilon, delta)-private release is epsilon-private except for an event of probability delta (Kairouz, Oh, Viswanath
    2015: it is a post-processing of randomized response that reveals its input with that probability): hence the event.
    Under add_remove k is below the threshold of untruncated Laplace noise, whose tail, not whose end, must be delta: by
    about (1 / e) ln(1 / e) where e is small.

    >>> TruncatedThreshold(1, Fraction(1), Fraction(1, 10**6)).threshold
    15
    """

    keys: int
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
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
