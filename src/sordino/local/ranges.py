"""Ranges of numbers: two public bounds, and answers put on the scale between them. An error never shows an answer."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sordino.errors import DeclarationError
from sordino.loss import Number, format_number, to_fraction

__all__ = ["check_range", "scale"]


def check_range(lower: Number, upper: Number) -> tuple[Fraction, Fraction]:
    """Return two bounds as fractions; raises DeclarationError unless lower < upper."""
    low, high = to_fraction(lower, name="lower"), to_fraction(upper, name="upper")
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
    low, high = float(lower), float(upper)
    inside = np.clip(numbers, low, high)
    return np.clip((inside - low) / (high - low), 0.0, 1.0)
