"""Choosing the selection for a loss from public parameters alone: the one that errs less."""

from __future__ import annotations

from fractions import Fraction

from sordino.accounting.concentration import bounded_range_epsilon_for
from sordino.errors import DeclarationError
from sordino.loss import ZCDP, Loss
from sordino.mechanisms.exponential import Exponential
from sordino.mechanisms.permute_and_flip import PermuteAndFlip
from sordino.mechanisms.scores import positive

__all__ = ["best_selection"]


def best_selection(
    *, sensitivity: Fraction | int, loss: Loss, candidates: int, monotone: bool = False
) -> Exponential | PermuteAndFlip:
    """Return the selection with the least expected gap, in the worst case over scores, that costs at most `loss`.

    At pure epsilon permute-and-flip is never worse (McKenna & Sheldon 2020); a delta beside it buys nothing.
    At rho the exponential mechanism, of bounded range, has about twice the epsilon of permute-and-flip, whose gap at one
    epsilon is no less than 1 / 1.52 of its own: it wins for rho up to 6, and is at most 1.52 times off beyond.
    `monotone` as there: only under add_remove.

    Raises DeclarationError unless the loss is above 0 and there is a candidate.

    >>> from sordino.loss import PureDP
    >>> best_selection(sensitivity=1, loss=PureDP(1), candidates=14, monotone=True)
    PermuteAndFlip(sensitivity=Fraction(1, 1), epsilon=Fraction(1, 1), monotone=True)
    """
    if candidates < 1:
        raise DeclarationError(f"candidates must be at least 1, not {candidates}")
    step = positive(sensitivity, "sensitivity")
    if isinstance(loss, ZCDP):
        return Exponential(step, bounded_range_epsilon_for(positive(loss.rho, "rho")), monotone)
    return PermuteAndFlip(step, positive(loss.epsilon, "epsilon"), monotone)
