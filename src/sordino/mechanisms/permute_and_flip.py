"""Permute-and-flip: a choice of the best candidate that errs no more than the exponential mechanism, at pure epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.accounting.events import LaplaceEvent
from sordino.estimates.selections import Law, flip_gap
from sordino.loss import format_number
from sordino.mechanisms.scores import (
    Scores,
    check_miss,
    gaps_below_best,
    positive,
    selection_rate,
)
from sordino.noise.rng import Rng
from sordino.noise.softmax import flip_coins

__all__ = ["PermuteAndFlip"]


@dataclass(frozen=True, slots=True)
class PermuteAndFlip:
    """Visit the candidates in random order, flip a coin for each, and return the first heads.

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
        object.__setattr__(self, "sensitivity", positive(self.sensitivity, "sensitivity"))
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

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
