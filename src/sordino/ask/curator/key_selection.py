"""Which private keys show: the selection that shows the smallest keys for its share of the loss, and what it says of itself.

It knows no exact count: the choice is made of public parameters alone.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sordino.core.errors import QuestionRefused, arg
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP, round_up
from sordino.core.mechanisms.partition_selection import MOST_STEPS, PartitionSelection, expected_steps
from sordino.core.mechanisms.threshold import (
    GaussianThreshold,
    LaplaceThreshold,
    TruncatedThreshold,
    gaussian_threshold_for_pair,
)
from sordino.core.mechanisms.weighted_selection import WeightedSelection, weighted_selection_for_pair
from sordino.core.neighbors import Neighbors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sordino.core.noise.rng import Rng

# Gaussian tails below it are beyond doubles
_LEAST = Fraction(1, 10**200)
# how many more units a key may need at worst where weights are chosen
_WORSE = Fraction(108, 100)

CountingThreshold = LaplaceThreshold | GaussianThreshold | TruncatedThreshold
KeySelector = CountingThreshold | PartitionSelection


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The selection of private keys by `selector`, of at least `min_units` units.

    Theorem (pre-thresholding): the whole costs what the selector costs. Each key's count n becomes max(0, n - min_units +
    1) before it. Counts of neighbors that differ by 1 at most still do, the same keys or fewer differ, and a key of no
    units stays one: the selector's own theorem holds of the counts that it is given. A noisy count gets min_units - 1 back.
    """

    selector: KeySelector
    min_units: int = 1

    @property
    def event(self) -> Event:
        """What it amounts to."""
        return self.selector.event

    @property
    def threshold(self) -> int | None:
        """The least noisy count of units that shows, None where keys show by chance alone."""
        own = None if isinstance(self.selector, PartitionSelection) else self.selector.threshold
        return None if own is None else own + self.min_units - 1

    def appears(self, count: int) -> float:
        """Return the probability that a key of `count` units shows."""
        return self.selector.appears(max(0, count - self.min_units + 1))

    def release(self, exact: Mapping[Any, int], rng: Rng) -> dict[Any, int | None]:
        """Return the keys that show, in their own order, with noisy counts where the selector has them."""
        less = self.min_units - 1
        if not less:
            return {**self.selector.release(exact, rng)}
        noisy_counts = self.selector.release({key: n - less for key, n in exact.items() if n > less}, rng)
        return {key: None if noisy is None else noisy + less for key, noisy in noisy_counts.items()}

    def units_to_show(self, chance: float) -> int:
        """Return the least number of units with which a private key shows with this chance."""
        return _units_to_show(self, chance)

    def describe(self) -> str:
        """Return in words which keys show."""
        half = self.units_to_show(0.5)
        sure = self.units_to_show(0.95)
        one = self.min_units
        alone = round_up(self.appears(one), digits=2)
        least = "" if one == 1 else f"; none of fewer than {one:,} units"
        return (
            f"keys that {half} units or more have (shown at least half of the time; {sure} units: 95%; {one} "
            f"unit{'s' * (one > 1)}: {alone}){least}; {self.selector.describe()}"
        )

    def note(self) -> str:
        """Return below which size private keys stay hidden, as a release must say."""
        half = self.units_to_show(0.5)
        sure = self.units_to_show(0.95)
        how = (
            "a key shows by chance, the more surely the more units it has"
            if self.threshold is None
            else f"a key shows where its noisy count of units reaches {self.threshold:,}"
        )
        least = "" if self.min_units == 1 else f", and no key of fewer than {self.min_units:,} units shows"
        return (
            f"keys of fewer than about {half:,} units stay hidden: {how} (half of the keys of {half:,} units do, 95% of those "
            f"of {sure:,}){least}"
        )


@lru_cache(maxsize=256)
def _units_to_show(keys: KeySelection, chance: float) -> int:
    """Return `KeySelection.units_to_show`, which a plan and its words need several times."""
    high = 1
    while high < 2**62 and keys.appears(high) < chance:
        high *= 2
    low = high // 2 + 1
    # the chance rises with the number of units
    return low + bisect_left(range(low, high), chance, key=keys.appears)


def choose_key_selection(
    neighbors: Neighbors, loss: Loss, *, share: Fraction, counts: bool, min_units: int, named: str | None = None
) -> tuple[KeySelection | WeightedSelection, Loss]:
    """Choose the selection of private keys for this share of epsilon; returns it with the remaining loss.

    Units of several groups have weights where the question does not count them and, at worst, where every unit has all of
    its groups, a key needs 8% more units at most: where units have fewer, or large keys show in the first round, it needs
    fewer. `named` says weighted or threshold. Raises QuestionRefused where there is no delta, or nothing to weigh.
    """
    best, rest = _choose_by_counts(neighbors, loss, share=share, counts=counts, min_units=min_units)
    if named == "threshold" or (named is None and (counts or min_units > 1 or neighbors.groups < 2)):
        return best, rest
    if min_units > 1:
        raise QuestionRefused(
            "min_units hides keys by how many units they have, but weights do not count units: leave one of the two out"
        )
    if neighbors.id_column is None:
        if named is None:
            return best, rest
        raise QuestionRefused(
            "a weighted selection of keys spreads the weight of a unit over its rows, but here each row is a unit: leave "
            "keys='weighted' out"
        )
    # the one row that per_unit makes of a unit has one key; of rows that a join copies from it, no engine counts the keys
    if not neighbors.capped and neighbors.groups > 1:
        if named is None:
            return best, rest
        raise QuestionRefused(
            "a weighted selection of keys spreads the weight of a unit over its rows, but here a join makes several of the one "
            "row of a unit: leave keys='weighted' out"
        )
    weighted, left = _choose_by_weights(neighbors, loss, share=share)
    if weighted is None or (named is None and weighted.units_to_show(0.5) > _WORSE * best.units_to_show(0.5)):
        if named is None:
            return best, rest
        raise QuestionRefused("a weighted selection of keys needs a delta of 1e-200 or more: leave keys='weighted' out")
    return weighted, left


def _choose_by_weights(neighbors: Neighbors, loss: Loss, *, share: Fraction) -> tuple[WeightedSelection | None, Loss]:
    """Return the weighted selection, and what it leaves of the loss: with others it takes half of delta."""
    moved = 1 if neighbors.relation == "add_remove" else 2
    if isinstance(loss, ZCDP):
        assert loss.slack is not None
        return WeightedSelection(neighbors.groups, moved, loss.rho * share, loss.slack), ZCDP(loss.rho * (1 - share))
    assert isinstance(loss, ApproxDP)
    if loss.delta < _LEAST:
        return None, loss
    part = loss.epsilon * share
    delta = loss.delta if share == 1 else loss.delta / 2
    selection = weighted_selection_for_pair(groups=neighbors.groups, moved=moved, epsilon=part, delta=delta)
    return selection, loss if share == 1 else ApproxDP(loss.epsilon - part, delta)


def _choose_by_counts(
    neighbors: Neighbors, loss: Loss, *, share: Fraction, counts: bool, min_units: int
) -> tuple[KeySelection, Loss]:
    """Return the selection that shows a key with chance 1/2 at the fewest units, for this share of epsilon, and the rest.

    It is the optimal selection for one key, truncated Laplace noise, a Laplace or a Gaussian threshold; where it `counts`,
    which makes an answer of the noisy count, one of those with noise. Raises QuestionRefused where there is no delta.
    """
    new = neighbors.groups
    moved = new * (1 if neighbors.relation == "add_remove" else 2)
    if isinstance(loss, ZCDP) and loss.slack is not None and loss.slack >= _LEAST:
        gaussian = GaussianThreshold(moved, loss.rho * share, loss.slack, new=new)
        return KeySelection(gaussian, min_units), ZCDP(loss.rho * (1 - share))
    if not isinstance(loss, ApproxDP) or loss.delta == 0:
        raise QuestionRefused(
            "the keys of this group-by are private: showing any of them needs a delta, the probability that a key of one unit "
            f"is shown; give {arg('epsilon=')} and {arg('delta=')}, such as {arg('delta=')}1e-6 (under a cap on "
            f"rho with a slack: {arg('rho=')} and {arg('delta=')}), or declare the column as a category with its values"
        )
    part = loss.epsilon * share
    delta = loss.delta
    selectors: list[KeySelector] = [TruncatedThreshold(moved, part, delta), LaplaceThreshold(moved, part, delta, new)]
    if not counts and expected_steps(part / moved, delta / moved) <= MOST_STEPS:
        selectors.insert(0, PartitionSelection(moved, part, delta))
    whole = share == 1
    if delta >= _LEAST:
        spent = delta if whole else delta / 2
        selectors.append(gaussian_threshold_for_pair(keys=moved, epsilon=part, delta=spent, new=new))
    selections = [KeySelection(selector, min_units) for selector in selectors]
    best = min(selections, key=lambda one: (one.units_to_show(0.5), one.units_to_show(0.95)))
    if isinstance(best.selector, GaussianThreshold) and not whole:
        return best, ApproxDP(loss.epsilon - part, delta / 2)
    return best, PureDP(loss.epsilon - part) if not whole else loss
