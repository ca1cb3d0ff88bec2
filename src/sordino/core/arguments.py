"""Checks of stated arguments: probabilities, amounts, whole numbers, priors. It may not know what they are used for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, to_fraction

Floats = NDArray[np.float64]


def chance(value: Number, *, name: str, zero: bool = False, one: bool = False) -> float:
    """Return a probability in (0, 1) as a float; `zero` and `one` say which ends are allowed too."""
    exact = to_fraction(value, name=name)
    if not ((0 < exact < 1) or (zero and exact == 0) or (one and exact == 1)):
        interval = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        near = ("0" if zero else "1e-9") if exact <= 0 else ("1" if one else "0.999")
        # a percentage was likely meant
        hint = f"did you mean {float(exact / 100):g}?" if 2 <= exact < 100 else f"the nearest that works: {near}"
        raise DeclarationError(f"{name} must lie in {interval}, not {float(exact):g}; {hint}")
    return float(exact)


def amount(value: Number, *, name: str, zero: bool = False) -> float:
    """Return a finite number above 0 (or from 0 on) as a float."""
    exact = to_fraction(value, name=name)
    if exact < 0 or (exact == 0 and not zero):
        raise DeclarationError(f"{name} must be {'at least' if zero else 'above'} 0, not {float(exact):g}")
    try:
        number = float(exact)
    except OverflowError:
        raise DeclarationError(f"{name} must be at most 1e308") from None
    # an underflow would turn a positive number into 0
    if number == 0 and exact > 0:
        raise DeclarationError(f"{name} must be at least 1e-307")
    return number


def require_above(value: float, low: float, *, name: str, because: str) -> None:
    """Raise DeclarationError unless a limit is above the figure at epsilon 0; the message states that figure."""
    if value <= low:
        raise DeclarationError(
            f"{name} of {value:g} cannot be had: {because} is {low:.12g} even at epsilon 0; the nearest that works is "
            f"anything above {low:.12g}"
        )


def whole(value: object, *, name: str, least: int) -> int:
    """Return a whole number that is at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DeclarationError(f"{name} must be a whole number, {least} or more, not {value!r}")
    return value


def finite_number(value: Any, argument: str) -> float:
    """Return a finite number as a float, "1/3" too; raise DeclarationError, which names the argument, for anything else."""
    if isinstance(value, str | Decimal):
        value = to_fraction(value, name=argument)
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | np.integer | np.floating):
        raise DeclarationError(f"{argument} must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DeclarationError(f"{argument} must be a finite number, not {number}")
    return number


def world_epsilon(epsilon: Any) -> float:
    """Return epsilon as a float from 0 on: at 0 nothing is revealed, and the prior stands."""
    number = finite_number(epsilon, "epsilon")
    if number < 0:
        raise DeclarationError(f"epsilon must be at least 0, not {number:g}; at 0 nothing is revealed: try 0.01")
    return number


def world_risk(risk: Any) -> float:
    """Return a risk between 0 and 1 as a float."""
    number = finite_number(risk, "risk")
    if number <= 0:
        raise DeclarationError(
            f"risk must be a probability above 0, not {number:g}: no release promises that; try 0.01"
        )
    if number >= 1:
        raise DeclarationError(f"risk must be a probability below 1, not {number:g}: 1 asks for nothing; try 0.99")
    return number


def probabilities(prior: Sequence[float], *, worlds: int) -> Floats:
    """Return one probability a world, from 0 to 1, with a sum within 1e-9 of 1 (and then scaled to 1)."""
    try:
        weights = np.asarray(list(prior), dtype=np.float64)
    except (TypeError, ValueError):
        raise DeclarationError("prior must be a sequence of numbers, one probability a world") from None
    if weights.ndim != 1 or weights.size != worlds:
        raise DeclarationError(
            f"prior must hold {worlds} probabilities, one a world in the order of itertools.combinations, not {weights.size}"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise DeclarationError("prior must hold probabilities from 0 to 1: it has nan, infinity or a number below 0")
    total = math.fsum(weights.tolist())
    if abs(total - 1) > 1e-9:
        raise DeclarationError(f"prior must sum to 1 within 1e-9, not to {total:.12g}; divide each probability by that")
    return np.asarray(weights / total, dtype=np.float64)


def format_count(count: int) -> str:
    """Return a count as digits, or as a power of ten where that is longer than anyone reads."""
    if count < 10**15:
        return str(count)
    power, share = divmod(math.log10(count), 1)
    return f"{10**share:.2f}e{power:.0f}"
