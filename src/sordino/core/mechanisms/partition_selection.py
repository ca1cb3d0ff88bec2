"""Private keys alone: each shows with a probability that rises with its units as fast as privacy allows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sordino.core.accounting.events import LaplaceEvent, ThresholdEvent
from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.mechanisms.selection import store_positive
from sordino.core.mechanisms.threshold import Key, check_keys, small_delta, sort_keys
from sordino.core.noise.bernoulli import exp_bounds
from sordino.core.noise.rng import Rng

MOST_STEPS = 100_000
_GUARD_BITS = 64


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """A selection that shows a key of n units with probability p(n), the largest that privacy allows, without its count.

    `keys` bounds how many keys' counts one neighbor may move, each by 1 (m groups a unit; add_remove: m; replace: 2m).

    Theorem (Desfontaines, Voss, Gipson, Mandayam 2022, Theorem 1): with e = epsilon / keys and d = delta / keys, the largest
    p with p(0) = 0 that is (e, d)-private is p(n + 1) = min(exp(e) p(n) + d, 1 - exp(-e) (1 - p(n) - d), 1). For one key a
    unit no selection shows any key with a larger probability; for several the whole is (epsilon, delta)-private by
    composition.

    Here p lies on a grid of 2^-b, computed in whole numbers with exp(-e) rounded up and all else rounded down. So both
    bounds still hold: a smaller p(n + 1) is further within them, and as p never falls, p(n) <= exp(e) p(n + 1) + d and
    1 - p(n + 1) <= exp(e) (1 - p(n)) + d hold too. A key shows where a uniform number below 2^b is less than p 2^b.

    >>> selection = PartitionSelection(1, Fraction(1), Fraction(1, 10**6))
    >>> [round(selection.appears(n), 3) for n in (13, 14, 15)]
    [0.257, 0.7, 0.89]
    """

    keys: int
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        store_positive(self, "epsilon")
        object.__setattr__(self, "delta", small_delta(self.delta))
        check_keys(self.keys)
        if expected_steps(self.epsilon / self.keys, self.delta / self.keys) > MOST_STEPS:
            raise DeclarationError("epsilon for each key is too small for a table of probabilities: use a threshold")

    @property
    def event(self) -> ThresholdEvent:
        """What one release amounts to."""
        return ThresholdEvent(LaplaceEvent(self.epsilon), self.delta)

    def appears(self, count: int) -> float:
        """Return the probability that a key of `count` units shows: a public function, 0 for a key of none."""
        if count < 0:
            raise DeclarationError("count must be at least 0")
        table, bits = self.table
        return table[count] / (1 << bits) if count < len(table) else 1.0

    @property
    def table(self) -> tuple[tuple[int, ...], int]:
        """The probabilities in units of 2^-b for 0, 1, 2, ... units, until they are 1; and b."""
        return _probabilities(self.epsilon / self.keys, self.delta / self.keys)

    def release(self, exact: Mapping[Key, int], rng: Rng) -> dict[Key, None]:
        """Return the keys that show, in their own order; the others leave no trace."""
        table, bits = self.table
        last = len(table) - 1
        visible = [key for key, count in exact.items() if count > 0 and rng.bits(bits) < table[min(int(count), last)]]
        return dict.fromkeys(sort_keys(visible))

    def describe(self) -> str:
        """Return the mechanism in words."""
        return (
            f"optimal partition selection, epsilon {format_number(self.epsilon / self.keys)} and delta "
            f"{float(self.delta / self.keys):.3g} for each key"
        )


def expected_steps(epsilon: Fraction, delta: Fraction) -> float:
    """Return about how many units make a key show for sure: twice those that make it show half of the time."""
    return 4 + 2 * (math.log1p(float(epsilon)) - math.log(float(delta) or 5e-324)) / float(epsilon)


@lru_cache(maxsize=64)
def _probabilities(epsilon: Fraction, delta: Fraction) -> tuple[tuple[int, ...], int]:
    bits = _GUARD_BITS + max(64, math.ceil(1 / delta).bit_length())
    whole = 1 << bits
    # exp(-epsilon) rounded up and delta rounded down, so that both bounds of the theorem hold
    decay = math.ceil(Fraction(exp_bounds(epsilon, bits)[1]) * whole)
    added = math.floor(delta * whole)
    table = [0]
    while table[-1] < whole:
        last = table[-1]
        by_epsilon = last * whole // decay + added
        left = whole - last - added
        by_rest = whole if left <= 0 else whole - -(-left * decay // whole)
        table.append(min(by_epsilon, by_rest, whole))
    return tuple(table), bits
