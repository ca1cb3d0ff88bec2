"""What selections share: their protocol, scores as whole gaps below the best, the rate of a loss, and worst cases.

It may not know how an index is drawn. Scores are private; what is returned here about errors is not made of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np

from sordino.accounting.events import LaplaceEvent
from sordino.errors import DeclarationError
from sordino.loss import Event, format_number
from sordino.noise.bernoulli import as_fraction
from sordino.noise.rng import Rng
from sordino.noise.selection import Integers, whole_numbers

__all__ = [
    "Scores",
    "Selection",
    "check_miss",
    "flip_probabilities",
    "gaps_below_best",
    "positive",
    "pure_event",
    "selection_rate",
]

Scores: TypeAlias = Sequence[int | Fraction] | np.ndarray[Any, np.dtype[Any]]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


class Selection(Protocol):
    """Choose one of several candidates by private scores, higher being better."""

    @property
    def event(self) -> Event:
        """What one release amounts to."""

    def release(self, scores: Scores, rng: Rng) -> int:
        """Return the index chosen."""

    def probabilities(self, scores: Scores) -> Floats:
        """Return the law of the index, as floats: private wherever the scores are."""

    def error(self, confidence: float, *, candidates: int) -> float:
        """Return how far below the best score the choice may lie at a confidence, for any scores."""


def pure_event(epsilon: Fraction) -> LaplaceEvent:
    """Return the event of a pure mechanism of which no more than epsilon is known."""
    return LaplaceEvent(epsilon)


def positive(value: Fraction | int, name: str) -> Fraction:
    """Return `value` as a Fraction, refusing what is not above 0."""
    exact = as_fraction(value, name)
    if exact <= 0:
        raise DeclarationError(f"{name} must be above 0, not {format_number(exact)}")
    return exact


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
        whole, denominator = whole_numbers(scores, "scores"), 1  # type: ignore[arg-type]  # it refuses Fractions
    except DeclarationError:
        numerators, denominator = _common(scores)
        whole = whole_numbers(numerators, "scores")
    return whole.max() - whole, denominator


def check_miss(confidence: float, candidates: int) -> float:
    """Return 1 - confidence, refusing what is no confidence or no number of candidates."""
    if not 0 < confidence < 1:
        raise DeclarationError(f"confidence must lie between 0 and 1, such as 0.95, not {confidence}")
    if candidates < 1:
        raise DeclarationError(f"candidates must be at least 1, not {candidates}")
    return 1 - confidence


def flip_probabilities(heads: Floats) -> Floats:
    """Return the law of permute-and-flip from each coin's probability of heads, to about ten digits.

    Theorem: the choice is uniform among the heads, so P(i) = h_i E[1 / (1 + K)], K the other heads; as 1 / (1 + K) is
    the integral of s^K over [0, 1], that is h_i times the integral over u = 1 - s of the product of 1 - h_j u, j != i.
    The product falls like exp(-u sum h_j): Gauss-Legendre panels double in width from 1 / sum h_j on.
    """
    nodes, masses = np.polynomial.legendre.leggauss(24)
    edge, reach = 0.0, 1 / float(heads.sum())
    out = np.zeros(len(heads))
    while edge < 1 and edge * heads.sum() < 45:
        end = min(1.0, edge + reach)
        for node, mass in zip(nodes.tolist(), masses.tolist(), strict=True):
            u = min(
                (end - edge) * (node + 1) / 2 + edge, 1 - 2.0**-50
            )  # a node may round to 1, where a sure head has log 0
            logs = np.log1p(-heads * u)
            out += (end - edge) / 2 * mass * np.exp(logs.sum() - logs)
        edge, reach = end, end
    return heads * out


def _common(scores: Scores) -> tuple[list[int], int]:
    """Return numerators over one denominator."""
    given = scores.tolist() if isinstance(scores, np.ndarray) else list(scores)
    if not all(isinstance(s, Fraction | int | np.integer) and not isinstance(s, bool) for s in given):
        raise DeclarationError("scores must be whole numbers or Fractions; of a float take Fraction(repr(x))")
    fractions = [s if isinstance(s, Fraction) else Fraction(int(s)) for s in given]
    denominator = math.lcm(*{s.denominator for s in fractions})
    return [s.numerator * (denominator // s.denominator) for s in fractions], denominator
