"""The checks on what is passed to the worlds: probabilities, priors, numbers. It may not know queries or answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.errors import DeclarationError
from sordino.sensitivity.universe import Floats

__all__ = ["epsilon_from", "number_from", "prior_from", "risk_from", "said"]


def number_from(value: Any, argument: str) -> float:
    """Return a finite number as a float; raise DeclarationError, which names the argument, for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | np.integer | np.floating):
        raise DeclarationError(f"{argument} must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DeclarationError(f"{argument} must be a finite number, not {number}")
    return number


def epsilon_from(epsilon: Any) -> float:
    """Return epsilon as a float above 0."""
    number = number_from(epsilon, "epsilon")
    if number <= 0:
        raise DeclarationError(f"epsilon must be above 0, not {number:g}: at 0 nothing is told; try 0.01")
    return number


def risk_from(risk: Any) -> float:
    """Return a risk between 0 and 1 as a float."""
    number = number_from(risk, "risk")
    if number <= 0:
        raise DeclarationError(
            f"risk must be a probability above 0, not {number:g}: no release promises that; try 0.01"
        )
    if number >= 1:
        raise DeclarationError(f"risk must be a probability below 1, not {number:g}: 1 asks for nothing; try 0.99")
    return number


def prior_from(prior: Sequence[float], *, worlds: int) -> Floats:
    """Return one probability a world, from 0 to 1, with a sum within 1e-9 of 1 (and then scaled to 1)."""
    try:
        given = np.asarray(list(prior), dtype=np.float64)
    except (TypeError, ValueError):
        raise DeclarationError("prior must be a sequence of numbers, one probability a world") from None
    if given.ndim != 1 or given.size != worlds:
        raise DeclarationError(
            f"prior must hold {worlds} probabilities, one a world in the order of itertools.combinations, not {given.size}"
        )
    if not np.isfinite(given).all() or (given < 0).any():
        raise DeclarationError("prior must hold probabilities from 0 to 1: it has nan, infinity or a number below 0")
    total = math.fsum(given.tolist())
    if abs(total - 1) > 1e-9:
        raise DeclarationError(f"prior must sum to 1 within 1e-9, not to {total:.12g}; divide each probability by that")
    return np.asarray(given / total, dtype=np.float64)


def said(count: int) -> str:
    """Return a count as digits, or as a power of ten where that is longer than anyone reads."""
    if count < 10**15:
        return str(count)
    power, share = divmod(math.log10(count), 1)
    return f"{10**share:.2f}e{power:.0f}"
