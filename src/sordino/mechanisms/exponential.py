"""The exponential mechanism: an index whose probability falls by a factor with each point of score below the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.accounting.bounded_range import BoundedRangeEvent
from sordino.estimates.selections import Law, softmax_gap
from sordino.loss import format_number
from sordino.mechanisms.scores import (
    Scores,
    check_miss,
    gaps_below_best,
    positive,
    selection_rate,
)
from sordino.noise.rng import Rng
from sordino.noise.softmax import Integers, fill_urn

__all__ = ["Exponential"]


@dataclass(frozen=True, slots=True)
class Exponential:
    """Choose index i with probability proportional to weight_i exp(rate score_i).

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
        object.__setattr__(self, "sensitivity", positive(self.sensitivity, "sensitivity"))
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

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
