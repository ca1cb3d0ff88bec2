"""How an algorithm divides the loss it was given, in one currency, and how much noise a part buys. Knows no data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sordino.accounting.zcdp import rho_for
from sordino.errors import DeclarationError
from sordino.loss import ZCDP, ApproxDP, Loss, PureDP
from sordino.neighbors import Neighbors
from sordino.queries.sensitivity_rules import count_sensitivity

__all__ = ["LossShares", "split_loss"]

_FINE = 1 << 30  # parts that shares are told in


@dataclass(frozen=True, slots=True)
class LossShares:
    """The whole loss in one currency, epsilon or rho, and what one unit moves a table of counts by."""

    currency: Literal["epsilon", "rho"]
    total: Fraction
    delta: Fraction | None
    move_l1: Fraction
    move_l2_squared: Fraction

    def loss(self, share: Fraction) -> Loss:
        """Return the loss that is a share of the whole."""
        return PureDP(self.total * share) if self.currency == "epsilon" else ZCDP(self.total * share, self.delta)

    def variance(self, share: Fraction | float, *, tables: int) -> float:
        """Return the variance of each cell where `tables` tables of counts share this share of the loss equally."""
        if float(share) <= 0:
            return math.inf
        paid = float(self.total) * float(share)
        if self.currency == "epsilon":
            return 2.0 * (float(self.move_l1) * tables / paid) ** 2
        return float(self.move_l2_squared) * tables / (2.0 * paid)

    def distance_variance(self, share: Fraction | float, *, distances: int) -> float:
        """Return the variance of each of `distances` l1 distances that share this share of the loss."""
        paid = float(self.total) * float(share)
        if self.currency == "epsilon":
            return 2.0 * (float(self.move_l1) * distances / paid) ** 2
        return float(self.move_l1) ** 2 * distances / (2.0 * paid)


def split_loss(loss: Loss, neighbors: Neighbors) -> LossShares:
    """Return how to spend a loss: pure losses as epsilon, (epsilon, delta) as the rho that implies it, rho as it is.

    Raises DeclarationError for a loss of nothing.
    """
    moved = count_sensitivity(neighbors, cells=2, droppable=True)
    # a table of two cells moves as far as any larger one in l1 and l2: C, C under add_remove; 2C, sqrt(2) C under replace
    if isinstance(loss, ZCDP):
        made = LossShares("rho", loss.rho, loss.delta, moved.l1, moved.l2_squared)
    elif isinstance(loss, ApproxDP) and loss.delta > 0:
        made = LossShares("rho", rho_for(loss.epsilon, loss.delta), loss.delta, moved.l1, moved.l2_squared)
    else:
        made = LossShares("epsilon", loss.epsilon, None, moved.l1, moved.l2_squared)
    if made.total <= 0:
        raise DeclarationError("a synthetic table needs a loss above 0: give epsilon=, epsilon= and delta=, or rho=")
    return made


def share_of(value: float) -> Fraction:
    """Return a share as an exact fraction, rounded down.

    >>> share_of(0.35) <= Fraction(35, 100)
    True
    """
    return Fraction(math.floor(value * _FINE), _FINE)
