"""How events are written down: each class has a name in ledgers, and fields of fractions, ints, events and tuples.

It knows no event: a class joins by `@event_kind("its name")`, and its file is imported by `events.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordino.codec import Records
from sordino.loss import Event

__all__ = ["event_from_dict", "event_kind", "event_to_dict"]

_EVENTS = Records("event", noun="event", fraction=str)
event_kind = _EVENTS.register


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as plain data for JSON: fractions as text "p/q", exactly.

    Raises DeclarationError for an event whose class has no `@event_kind`.

    >>> from sordino.accounting.events import LaplaceEvent
    >>> event_to_dict(LaplaceEvent("1/3"))
    {'event': 'laplace', 'epsilon': '1/3'}
    """
    return _EVENTS.to_dict(event)


def event_from_dict(plain: Mapping[str, Any]) -> Event:
    """Return the event that `event_to_dict` wrote.

    Raises DeclarationError where the kind is not known or a field is missing or wrong.

    >>> from sordino.accounting.events import LaplaceEvent
    >>> event_from_dict({"event": "laplace", "epsilon": "1/3"})
    LaplaceEvent(epsilon=Fraction(1, 3))
    """
    event = _EVENTS.from_dict(plain)
    assert isinstance(event, Event)
    return event
