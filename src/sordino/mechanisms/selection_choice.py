"""Choosing the selection for a loss from public parameters alone: the one that errs less."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from sordino.errors import DeclarationError
from sordino.loss import ZCDP, Loss
from sordino.mechanisms.exponential import Exponential
from sordino.mechanisms.permute_and_flip import PermuteAndFlip
from sordino.mechanisms.scores import positive
from sordino.noise.bernoulli import rounding_contexts

__all__ = ["best_selection", "root_below"]

_DIGITS = 30


def best_selection(
    *, sensitivity: Fraction | int, loss: Loss, candidates: int, monotone: bool = False
) -> Exponential | PermuteAndFlip:
    """Return the selection with the least expected gap, in the worst case over scores, that costs at most `loss`.

    At pure epsilon permute-and-flip is never worse (McKenna & Sheldon 2020); a delta beside it buys nothing.
    At rho the exponential mechanism has epsilon = sqrt(8 rho), twice that of permute-and-flip, sqrt(2 rho), which errs no
    less than half as much at one epsilon: it wins. `monotone` as there: only under add_remove.

    Raises DeclarationError unless the loss is above 0 and there is a candidate.

    >>> from sordino.loss import PureDP
    >>> best_selection(sensitivity=1, loss=PureDP(1), candidates=14, monotone=True)
    PermuteAndFlip(sensitivity=Fraction(1, 1), epsilon=Fraction(1, 1), monotone=True)
    """
    if candidates < 1:
        raise DeclarationError(f"candidates must be at least 1, not {candidates}")
    step = positive(sensitivity, "sensitivity")
    if isinstance(loss, ZCDP):
        return Exponential(step, root_below(8 * positive(loss.rho, "rho")), monotone)
    return PermuteAndFlip(step, positive(loss.epsilon, "epsilon"), monotone)


def root_below(value: Fraction) -> Fraction:
    """Return the square root, exactly where it is a fraction, else rounded down to nine decimals: sums stay short.

    Below 1/1000 it keeps six digits.
    """
    over, under = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if Fraction(over * over, under * under) == value:
        return Fraction(over, under)
    down, _ = rounding_contexts(_DIGITS)
    ratio = down.divide(Decimal(value.numerator), Decimal(value.denominator))
    root = Fraction(down.next_minus(down.sqrt(ratio)))
    places = 9 if root >= Fraction(1, 1000) else 6 - math.floor(math.log10(root))
    return Fraction(math.floor(root * 10**places), 10**places)
