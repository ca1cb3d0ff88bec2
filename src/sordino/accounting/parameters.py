"""The parameters of events and theorems, checked: amounts, a delta, the order of a divergence. It knows no event."""

from __future__ import annotations

from fractions import Fraction

from sordino.errors import DeclarationError
from sordino.loss import Number, format_number, to_fraction

__all__ = ["check_order", "read_amount", "read_delta"]


def read_amount(value: Number, *, name: str, of: str = "") -> Fraction:
    """Return an amount such as an epsilon or a rho, exactly; refuse one below 0. `of` says in the message whose it is."""
    amount = to_fraction(value, name=name)
    if amount < 0:
        raise DeclarationError(f"{name}{of} must not be negative, not {format_number(amount)}")
    return amount


def read_delta(value: Number) -> Fraction:
    """Return a delta between 0 and 1, exactly."""
    delta = to_fraction(value, name="delta")
    if not 0 < delta < 1:
        raise DeclarationError(f"delta must lie between 0 and 1, both excluded, not {format_number(delta)}; try 1e-6")
    return delta


def check_order(order: float) -> None:
    """Refuse an order of a Renyi divergence that is not above 1."""
    if not order > 1:
        raise DeclarationError(f"the order of a Renyi divergence must be above 1, not {order}")
