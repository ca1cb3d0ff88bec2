"""How events are written down: each class has a name in ledgers, and fields of fractions, ints, events and tuples.

It knows no event: a class joins by `@event_kind("its name")`, and its file is imported by `events.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, TypeVar

from sordino.errors import DeclarationError, nearest
from sordino.loss import Event

__all__ = ["event_from_dict", "event_kind", "event_to_dict"]

T = TypeVar("T")

_KINDS: dict[str, type] = {}
_NAMES: dict[type, str] = {}


def event_kind(name: str) -> Callable[[type[T]], type[T]]:
    """Give an event class, a frozen dataclass, its name in ledgers; its fields hold fractions, ints, events, tuples."""

    def record(cls: type[T]) -> type[T]:
        _KINDS[name], _NAMES[cls] = cls, name
        return cls

    return record


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as plain data for JSON: fractions as text "p/q", exactly.

    Raises DeclarationError for an event whose class has no `@event_kind`.

    >>> from sordino.accounting.events import LaplaceEvent
    >>> event_to_dict(LaplaceEvent("1/3"))
    {'event': 'laplace', 'epsilon': '1/3'}
    """
    name = _NAMES.get(type(event))
    if name is None:
        raise DeclarationError(f"{type(event).__name__} has no name in ledgers: put @event_kind above the class")
    plain = {f.name: _plain(getattr(event, f.name)) for f in fields(event)}  # type: ignore[arg-type]  # a dataclass
    return {"event": name, **plain}


def event_from_dict(plain: Mapping[str, Any]) -> Event:
    """Return the event that `event_to_dict` wrote.

    Raises DeclarationError where the kind is not known or a field is missing or wrong.

    >>> from sordino.accounting.events import LaplaceEvent
    >>> event_from_dict({"event": "laplace", "epsilon": "1/3"})
    LaplaceEvent(epsilon=Fraction(1, 3))
    """
    name = str(plain.get("event"))
    if name not in _KINDS:
        raise DeclarationError(f"{name!r} is no kind of event; {nearest(name, _KINDS)}")
    cls = _KINDS[name]
    wanted = [f.name for f in fields(cls)]
    if set(plain) != {"event", *wanted}:
        raise DeclarationError(f"an event of kind {name!r} has exactly the fields {', '.join(wanted)}")
    event = cls(*(_parse(plain[field], name=field) for field in wanted))
    assert isinstance(event, Event)
    return event


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if value is None or type(value) is int:
        return value
    return event_to_dict(value)


def _parse(value: Any, *, name: str) -> Any:
    if isinstance(value, str):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            raise DeclarationError(f'{name} of an event must be text such as "1/3"') from None
    if isinstance(value, list):
        return tuple(_parse(part, name=name) for part in value)
    if isinstance(value, Mapping):
        return event_from_dict(value)
    return value
