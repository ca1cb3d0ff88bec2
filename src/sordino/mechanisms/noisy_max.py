"""Report noisy max: the best of declared options, by scores with one-sided noise; ties fall to a fair draw."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.accounting.events import LaplaceEvent
from sordino.loss import format_number
from sordino.mechanisms.permute_and_flip import PermuteAndFlip
from sordino.mechanisms.selection import Floats, Scores, gaps_below_best, positive, pure_event, selection_rate
from sordino.noise.gumbel import geometric
from sordino.noise.rng import Rng

__all__ = ["NoisyMax"]


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """Add geometric noise of ratio exp(-rate) a step to each score and report which is the largest; draw among ties.

    Theorem: the law is that of permute-and-flip, so the choice is epsilon-differentially private with rate = epsilon /
    (2 sensitivity), or epsilon / sensitivity for `monotone` scores under add_remove (see `PermuteAndFlip`).
    Proof: scores lie on a lattice, of steps 1. For E exponential of rate `rate`, floor(E) is geometric and E - floor(E)
    is independent of it, of one continuous law on [0, 1). So the largest score_i + E_i is that of the largest score_i +
    floor(E_i), and among ties the largest fraction, which each tied candidate has with the same chance. Exponential
    noise gives permute-and-flip (Ding, Kifer, Steinke, Wang, Xiao, Zhang 2021). A fixed order among ties
    would be private too (a whole threshold moves by whole steps), but would favor who is declared first.

    Report-noisy-max is from Dwork & Roth 2014, section 3.3. Raises DeclarationError unless sensitivity and epsilon are
    exact and above 0.

    >>> NoisyMax(1, Fraction(1)).release([0, 10**30, 5], Rng.seeded(1))
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
        return pure_event(self.epsilon)

    @property
    def rate(self) -> Fraction:
        """What a point of score is worth, in the exponent."""
        return selection_rate(sensitivity=self.sensitivity, epsilon=self.epsilon, monotone=self.monotone)

    def release(self, scores: Scores, rng: Rng) -> int:
        """Return an index of exactly the law above; scores are ints or Fractions of any size, higher being better."""
        gaps, denominator = gaps_below_best(scores)
        noise = geometric(denominator / self.rate, rng, len(gaps))
        if noise.dtype == object or gaps.dtype == object:
            noise, gaps = noise.astype(object), gaps.astype(object)
        noisy = noise - gaps  # both below 2^63, so no overflow
        best = np.flatnonzero(noisy == noisy.max())
        return int(best[rng.below(len(best))])

    def probabilities(self, scores: Scores) -> Floats:
        """Return the law of the index as floats to ten digits, for tests and plans on made-up scores.

        >>> NoisyMax(1, Fraction(2)).probabilities([1, 1]).round(9).tolist()
        [0.5, 0.5]
        """
        return self._twin.probabilities(scores)

    def error(self, confidence: float, *, candidates: int) -> float:
        """Return the gap below the best score that is passed with probability 1 - confidence at most, in points.

        >>> round(NoisyMax(1, Fraction(1)).error(0.95, candidates=14), 2)
        9.67
        """
        return self._twin.error(confidence, candidates=candidates)

    def describe(self) -> str:
        """Return the mechanism in words."""
        return f"report noisy max, one-sided noise of scale {format_number(1 / self.rate)} points"

    @property
    def _twin(self) -> PermuteAndFlip:
        return PermuteAndFlip(self.sensitivity, self.epsilon, self.monotone)
