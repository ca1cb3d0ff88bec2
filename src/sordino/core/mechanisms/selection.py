"""Selections: a private index of a high score, by the exponential mechanism or permute-and-flip, and which has less error.

Scores are private; errors are functions of public parameters alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from sordino.core.accounting.concentration import bounded_range_epsilon_for
from sordino.core.accounting.events import BoundedRangeEvent, LaplaceEvent
from sordino.core.errors import DeclarationError
from sordino.core.estimates.choices import Law, flip_gap, softmax_gap
from sordino.core.loss import ZCDP, Loss, format_number
from sordino.core.noise.bernoulli import as_fraction
from sordino.core.noise.rng import Rng
from sordino.core.noise.softmax import Integers, fill_urn, flip_coins, whole_numbers

Scores: TypeAlias = Sequence[int | Fraction] | np.ndarray[Any, np.dtype[Any]]


def positive(value: Fraction | int, name: str) -> Fraction:
    """Return `value` as a Fraction; raises DeclarationError unless it is above 0."""
    exact = as_fraction(value, name)
    if exact <= 0:
        raise DeclarationError(f"{name} must be above 0, not {format_number(exact)}")
    return exact


def store_positive(mechanism: object, *names: str) -> None:
    """Store these fields of a frozen mechanism as Fractions; raises DeclarationError unless each is above 0."""
    for name in names:
        object.__setattr__(mechanism, name, positive(getattr(mechanism, name), name))


def selection_rate(*, sensitivity: Fraction, epsilon: Fraction, monotone: bool) -> Fraction:
    """Return epsilon / (2 sensitivity), or epsilon / sensitivity where one more row moves no score down."""
    return epsilon / (sensitivity if monotone else 2 * sensitivity)


def gaps_below_best(scores: Scores) -> tuple[Integers, int]:
    """Return whole gaps and a denominator d with max(scores) - score_i = gap_i / d, exactly, whatever the size.

    Raises DeclarationError for no scores at all, floats, or anything else than whole numbers and Fractions.

    >>> gaps_below_best([Fraction(1, 2), 1, Fraction(-1, 3)])
    (array([3, 0, 8]), 6)
    """
    if len(scores) == 0:
        raise DeclarationError("scores must be of at least one candidate")
    try:
        whole = whole_numbers(scores, "scores")  # type: ignore[arg-type]
        denominator = 1
    except DeclarationError:
        # it refuses Fractions: they get a common denominator
        numerators, denominator = _common(scores)
        whole = whole_numbers(numerators, "scores")
    return whole.max() - whole, denominator


def check_miss(confidence: float, candidates: int) -> float:
    """Return 1 - confidence; raises DeclarationError unless 0 < confidence < 1 and there is a candidate."""
    if not 0 < confidence < 1:
        raise DeclarationError(f"confidence must lie between 0 and 1, such as 0.95, not {confidence}")
    if candidates < 1:
        raise DeclarationError(f"candidates must be at least 1, not {candidates}")
    return 1 - confidence


def _common(scores: Scores) -> tuple[list[int], int]:
    """Return the scores' numerators over their common denominator."""
    candidates = scores.tolist() if isinstance(scores, np.ndarray) else list(scores)
    if not all(isinstance(s, Fraction | int | np.integer) and not isinstance(s, bool) for s in candidates):
        raise DeclarationError("scores must be whole numbers or Fractions; of a float take Fraction(repr(x))")
    fractions = [s if isinstance(s, Fraction) else Fraction(int(s)) for s in candidates]
    denominator = math.lcm(*{s.denominator for s in fractions})
    return [s.numerator * (denominator // s.denominator) for s in fractions], denominator


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential mechanism: index i with probability proportional to weight_i exp(rate score_i).

    Theorem (McSherry & Talwar 2007, Theorem 6): with rate = epsilon / (2 sensitivity), where no score differs by more
    than `sensitivity` between neighbors, the choice is epsilon-differentially private; the losses of its outcomes lie in
    an interval of length epsilon, so that it is about epsilon^2 / 8 zCDP (`concentration`, theorem 4).

    `monotone` states that an added row moves no score down (or: none up), as counts are; then rate =
    epsilon / sensitivity, under add_remove. The caller answers for it. Under replace a row goes and another comes, so it
    is never monotone: the factor is 2.

    Weights are a base measure that is the same on neighbors: public, or the sizes of cells that scores are constant on,
    when what is released is a point drawn uniformly in the cell chosen, never the index itself.

    Raises DeclarationError unless sensitivity and epsilon are exact and above 0.

    >>> Exponential(1, Fraction(1)).release([0, 10**30, 5], Rng.seeded(1))
    1
    """

    sensitivity: Fraction
    epsilon: Fraction
    monotone: bool = False

    def __post_init__(self) -> None:
        store_positive(self, "sensitivity", "epsilon")

    @property
    def event(self) -> BoundedRangeEvent:
        """What one release amounts to: pure epsilon, of bounded range."""
        return BoundedRangeEvent(self.epsilon)

    @property
    def law(self) -> Law:
        """The name of the law, by which a released choice knows its error."""
        return "exponential"

    @property
    def rate(self) -> Fraction:
        """What a point of score is worth, in the exponent."""
        return selection_rate(sensitivity=self.sensitivity, epsilon=self.epsilon, monotone=self.monotone)

    def release(self, scores: Scores, rng: Rng, weights: Sequence[int] | Integers | None = None) -> int:
        """Return an index of exactly the law above; scores are ints or Fractions of any size, higher being better.

        `weights` are whole numbers of at least 0, not all 0; None means all alike. A weight of 0 is never chosen.
        """
        gaps, denominator = gaps_below_best(scores)
        return fill_urn(gaps, rate=self.rate / denominator, weights=weights).sample(rng)

    def error(self, confidence: float, *, candidates: int) -> float:
        """Return the gap below the best score that is passed with probability 1 - confidence at most, in points.

        A function of the number of candidates, all of one weight; the best possible for all scores, and below the
        (ln n + ln 1/miss) / rate of Dwork & Roth 2014, Theorem 3.11. Raises DeclarationError unless confidence lies
        between 0 and 1 and there is a candidate.

        >>> round(Exponential(1, Fraction(1)).error(0.95, candidates=14), 2)
        11.02
        """
        return softmax_gap(candidates=candidates, miss=check_miss(confidence, candidates)) / float(self.rate)

    def describe(self) -> str:
        """Return the mechanism in words."""
        return f"exponential mechanism, a point of score worth {format_number(self.rate)} in the exponent"


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """Permute-and-flip: visit the candidates in random order, flip a coin for each, and return the first heads.

    Coin i is heads with probability exp(-rate (best - score_i)), rate = epsilon / (2 sensitivity).

    Theorem (McKenna & Sheldon 2020): this is epsilon-differentially private; its expected gap is at most, and
    down to half, that of the exponential mechanism for all scores (the same). As the order is independent of the
    coins, the first heads is uniform among all heads: every coin is flipped, and one head drawn. The law is that of
    report-noisy-max with exponential noise of that rate (Ding, Kifer, Steinke, Wang, Xiao, Zhang 2021).

    `monotone` scores (see `Exponential`), under add_remove, allow rate = epsilon / sensitivity: with the others' noise
    given, i wins where its noise is at least r = (best noisy of the others) - score_i; a row added moves r by
    `sensitivity` at most, up or down, and P(noise >= r) changes by a factor of exp(rate sensitivity) at most. In general
    both terms of r move, in opposite ways at worst: hence the 2. Under replace it is always 2.

    No weights: a base measure needs the exponential mechanism. Raises DeclarationError unless sensitivity and epsilon are
    exact and above 0.

    >>> PermuteAndFlip(1, Fraction(1)).release([0, 10**30, 5], Rng.seeded(1))
    1
    """

    sensitivity: Fraction
    epsilon: Fraction
    monotone: bool = False

    def __post_init__(self) -> None:
        store_positive(self, "sensitivity", "epsilon")

    @property
    def event(self) -> LaplaceEvent:
        """What one release amounts to: pure epsilon."""
        return LaplaceEvent(self.epsilon)

    @property
    def law(self) -> Law:
        """The name of the law, by which a released choice knows its error."""
        return "permute and flip"

    @property
    def rate(self) -> Fraction:
        """What a point of score is worth, in the exponent."""
        return selection_rate(sensitivity=self.sensitivity, epsilon=self.epsilon, monotone=self.monotone)

    def release(self, scores: Scores, rng: Rng) -> int:
        """Return an index of exactly the law above; scores are ints or Fractions of any size, higher being better."""
        gaps, denominator = gaps_below_best(scores)
        heads = np.flatnonzero(flip_coins(gaps, rate=self.rate / denominator, rng=rng))
        return int(heads[rng.below(len(heads))])

    def error(self, confidence: float, *, candidates: int) -> float:
        """Return the gap below the best score that is passed with probability 1 - confidence at most, in points.

        A function of the number of candidates, the best possible for all scores. Raises DeclarationError unless
        confidence lies between 0 and 1 and there is a candidate.

        >>> round(PermuteAndFlip(1, Fraction(1)).error(0.95, candidates=14), 2)
        9.67
        """
        return flip_gap(candidates=candidates, miss=check_miss(confidence, candidates)) / float(self.rate)

    def describe(self) -> str:
        """Return the mechanism in words."""
        return f"permute and flip, a point of score worth {format_number(self.rate)} in the exponent"


def best_selection(
    *, sensitivity: Fraction | int, loss: Loss, candidates: int, monotone: bool = False
) -> Exponential | PermuteAndFlip:
    """Return the selection with the least expected gap, in the worst case over scores, that costs at most `loss`.

    At pure epsilon permute-and-flip is never worse (McKenna & Sheldon 2020); a delta beside it buys nothing.
    At rho the exponential mechanism, of bounded range, has about twice the epsilon of permute-and-flip, whose gap at one
    epsilon is no less than 1 / 1.52 of its own: it wins for rho up to 6, and is at most 1.52 times off beyond.
    `monotone` as there: only under add_remove.

    Raises DeclarationError unless the loss is above 0 and there is a candidate.

    >>> from sordino.core.loss import PureDP
    >>> best_selection(sensitivity=1, loss=PureDP(1), candidates=14, monotone=True)
    PermuteAndFlip(sensitivity=Fraction(1, 1), epsilon=Fraction(1, 1), monotone=True)
    """
    if candidates < 1:
        raise DeclarationError(f"candidates must be at least 1, not {candidates}")
    step = positive(sensitivity, "sensitivity")
    if isinstance(loss, ZCDP):
        return Exponential(step, bounded_range_epsilon_for(positive(loss.rho, "rho")), monotone)
    return PermuteAndFlip(step, positive(loss.epsilon, "epsilon"), monotone)
