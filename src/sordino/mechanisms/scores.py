"""What selections share: scores as whole gaps below the best, the rate of a loss, and worst cases.

It may not know how an index is drawn. Scores are private; what is returned here about errors is not made of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from sordino.errors import DeclarationError
from sordino.loss import format_number
from sordino.noise.bernoulli import as_fraction
from sordino.noise.softmax import Integers, whole_numbers

__all__ = [
    "Scores",
    "check_miss",
    "gaps_below_best",
    "positive",
    "selection_rate",
]

Scores: TypeAlias = Sequence[int | Fraction] | np.ndarray[Any, np.dtype[Any]]


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


def _common(scores: Scores) -> tuple[list[int], int]:
    """Return numerators over one denominator."""
    given = scores.tolist() if isinstance(scores, np.ndarray) else list(scores)
    if not all(isinstance(s, Fraction | int | np.integer) and not isinstance(s, bool) for s in given):
        raise DeclarationError("scores must be whole numbers or Fractions; of a float take Fraction(repr(x))")
    fractions = [s if isinstance(s, Fraction) else Fraction(int(s)) for s in given]
    denominator = math.lcm(*{s.denominator for s in fractions})
    return [s.numerator * (denominator // s.denominator) for s in fractions], denominator
