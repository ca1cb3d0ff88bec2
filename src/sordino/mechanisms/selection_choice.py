"""Choosing the selection for a loss from public parameters alone: the least expected gap below the best candidate."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from sordino.errors import DeclarationError
from sordino.loss import ZCDP, Loss
from sordino.mechanisms.exponential import Exponential
from sordino.mechanisms.permute_and_flip import PermuteAndFlip
from sordino.mechanisms.selection import bad_flip, positive
from sordino.noise.bernoulli import directed

__all__ = ["best_selection", "expected_gap", "root_below"]

_DIGITS = 30


def best_selection(
    *, sensitivity: Fraction | int, loss: Loss, candidates: int, monotone: bool = False, weighted: bool = False
) -> Exponential | PermuteAndFlip:
    """Return the selection with the least expected gap, in the worst case over scores, that costs at most `loss`.

    At pure epsilon permute-and-flip is never worse (McKenna & Sheldon 2020); a delta beside it buys nothing.
    At rho the exponential mechanism has epsilon = sqrt(8 rho), twice that of permute-and-flip, sqrt(2 rho), which errs no
    less than half as much at one epsilon: it wins. `weighted` candidates have a
    base measure, which the exponential mechanism alone takes. `monotone` as there: only under add_remove.

    Raises DeclarationError unless the loss is above 0 and there is a candidate.

    >>> from sordino.loss import PureDP
    >>> best_selection(sensitivity=1, loss=PureDP(1), candidates=14, monotone=True)
    PermuteAndFlip(sensitivity=Fraction(1, 1), epsilon=Fraction(1, 1), monotone=True)
    """
    if candidates < 1:
        raise DeclarationError(f"candidates must be at least 1, not {candidates}")
    step = positive(sensitivity, "sensitivity")
    if isinstance(loss, ZCDP):
        rho = positive(loss.rho, "rho")
        pure, ranged = root_below(2 * rho), root_below(8 * rho)
    else:
        pure = ranged = positive(loss.epsilon, "epsilon")
    flips, exponential = PermuteAndFlip(step, pure, monotone), Exponential(step, ranged, monotone)
    if weighted or expected_gap(exponential, candidates=candidates) < expected_gap(flips, candidates=candidates):
        return exponential
    return flips


def expected_gap(made: Exponential | PermuteAndFlip, *, candidates: int) -> float:
    """Return the expected gap below the best score in the worst case over scores, in points of score.

    It is reached where all others lie at one gap x (McKenna & Sheldon 2020): the largest x P(not
    the best), with (n - 1) e^-x / (1 + (n - 1) e^-x) for the exponential mechanism and 1 - (1 - (1 - p)^n) / (n p),
    p = e^-x, for permute-and-flip; found by ternary search over a function with one peak.

    >>> round(expected_gap(Exponential(1, Fraction(2)), candidates=2), 4)
    0.2785
    """
    others = candidates - 1
    if others == 0:
        return 0.0

    def missed(x: float) -> float:
        return others / (math.exp(x) + others) if isinstance(made, Exponential) else bad_flip(x, candidates)

    return _peak(lambda x: x * missed(x), high=2 * math.log(candidates) + 10) / float(made.rate)


def root_below(value: Fraction) -> Fraction:
    """Return the square root, exactly where it is a fraction, else rounded down to nine decimals: sums stay short.

    Below 1/1000 it keeps six digits.
    """
    over, under = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if Fraction(over * over, under * under) == value:
        return Fraction(over, under)
    down, _ = directed(_DIGITS)
    ratio = down.divide(Decimal(value.numerator), Decimal(value.denominator))
    root = Fraction(down.next_minus(down.sqrt(ratio)))
    places = 9 if root >= Fraction(1, 1000) else 6 - math.floor(math.log10(root))
    return Fraction(math.floor(root * 10**places), 10**places)


def _peak(function: Callable[[float], float], *, high: float) -> float:
    low = 0.0
    for _ in range(200):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (first, high) if function(first) < function(second) else (low, second)
    return function((low + high) / 2)
