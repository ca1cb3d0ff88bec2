"""What the protocols for one number a respondent have alike: two public bounds, and answers on the scale between them.

An error never shows an answer.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, format_number, to_fraction
from sordino.local.protocols.randomizer import LocalProtocol
from sordino.local.reports import Parameters
from sordino.local.thresholds import BITS


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NumberProtocol(LocalProtocol):
    """A protocol for a number between two bounds, whose reports are numbers of 2 bytes."""

    lower: Fraction
    upper: Fraction
    claim: Fraction

    width: ClassVar[int] = 2

    def parameters(self) -> Parameters:
        """Return the public parameters, as canonical JSON data."""
        return {
            "kind": self.kind,
            "lower": format_number(self.lower),
            "upper": format_number(self.upper),
            "bits": BITS,
            **self.thresholds(),
            "epsilon": format_number(self.claim),
        }

    @abstractmethod
    def thresholds(self) -> Parameters:
        """Return the fields of `parameters` that are the protocol's own."""

    def _number(self, value: int | None) -> int:
        if value is None:
            raise DeclarationError(f"a {self.kind} has no report for a missing answer")
        return value


def check_range(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Return two bounds as fractions; raises DeclarationError unless lower < upper."""
    low = to_fraction(lower, name="lower")
    high = to_fraction(upper, name="upper")
    if low >= high:
        raise DeclarationError(f"lower must be below upper, not {format_number(low)} and {format_number(high)}")
    return low, high


def scale(answers: Any, lower: Fraction, upper: Fraction) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return where answers lie between the bounds, 0 to 1; those outside count as the nearer bound.

    Raises DeclarationError where an answer is missing (nan, None) or no number.
    """
    cells = answers.to_numpy(zero_copy_only=False) if hasattr(answers, "to_pylist") else answers
    try:
        numbers = np.asarray(cells, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise DeclarationError("answers must be numbers, none of them missing") from None
    missing = np.flatnonzero(np.isnan(numbers))
    if missing.size:
        raise DeclarationError(f"answer number {int(missing[0])} is missing: ask again, or leave the respondent out")
    low = float(lower)
    high = float(upper)
    inside = np.clip(numbers, low, high)
    return np.clip((inside - low) / (high - low), 0.0, 1.0)
