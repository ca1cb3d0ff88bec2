"""The fields of events: parameters read and checked, and events written as JSON and read back.

It knows no event: a class joins by `@event_kind("its name")`, and its file is imported by `events.py`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sordino.core.codec import Records
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, Number, format_number, to_fraction


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


_EVENTS = Records("event", noun="event", fraction=str)
event_kind = _EVENTS.register


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as plain data for JSON: fractions as text "p/q", exactly.

    Raises DeclarationError for an event whose class has no `@event_kind`.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> event_to_dict(LaplaceEvent("1/3"))
    {'event': 'laplace', 'epsilon': '1/3'}
    """
    return _EVENTS.to_dict(event)


def event_from_dict(plain: Mapping[str, Any]) -> Event:
    """Return the event that `event_to_dict` wrote.

    Raises DeclarationError where the kind is not known or a field is missing or wrong.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> event_from_dict({"event": "laplace", "epsilon": "1/3"})
    LaplaceEvent(epsilon=Fraction(1, 3))
    """
    event = _EVENTS.from_dict(plain)
    assert isinstance(event, Event)
    return event
