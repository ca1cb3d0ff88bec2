"""The fields of events: parameters read and checked, and events written as JSON and read back.

It knows no event: a class joins by `@register_event("its name")`, and its file is imported by `events.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.core.codec import Records
from sordino.core.errors import DeclarationError
from sordino.core.loss import Event, Grid, Number, format_number, to_fraction
from sordino.core.registration import is_own
from sordino.core.rounding import float_up


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


class _EventRecords(Records):
    """Events as records, inside others too: one whose class is not Sordino's own is written with its bounds."""

    def to_dict(self, record: Any) -> dict[str, Any]:
        if isinstance(record, UnknownEvent):
            return {"event": record.kind, **json.loads(record.fields), "bounds": record.bounds()}
        plain = super().to_dict(record)
        if is_own(type(record)):
            return plain
        return {**plain, "bounds": UnknownEvent("", "", record.pure(), record.approx(), record.rho()).bounds()}

    def from_dict(self, data: Mapping[str, Any]) -> Any:
        fields = {name: value for name, value in data.items() if name != "bounds"}
        if "bounds" not in data or self.knows(str(data.get("event"))):
            return super().from_dict(fields)
        kind = str(fields.pop("event", ""))
        return UnknownEvent(kind, json.dumps(fields, sort_keys=True), **_read_bounds(data["bounds"]))


_EVENTS = _EventRecords("event", noun="event", fraction=str)
register_event = _EVENTS.register


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as plain data for JSON: fractions as text "p/q", exactly.

    An event whose class is not Sordino's own is written with its bounds, so that its record means the same where nobody
    registered the class. Raises DeclarationError for an event whose class has no `@register_event`.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> event_to_dict(LaplaceEvent("1/3"))
    {'event': 'laplace', 'epsilon': '1/3'}
    """
    return _EVENTS.to_dict(event)


def event_from_dict(plain: Mapping[str, Any]) -> Event:
    """Return the event that `event_to_dict` wrote; an UnknownEvent for a kind that is not registered but states its bounds.

    Raises DeclarationError where the kind is not known and states none, or a field is missing or wrong.

    >>> from sordino.core.accounting.events import LaplaceEvent
    >>> event_from_dict({"event": "laplace", "epsilon": "1/3"})
    LaplaceEvent(epsilon=Fraction(1, 3))
    """
    event = _EVENTS.from_dict(plain)
    assert isinstance(event, Event)
    return event


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a class that is not registered here: what its record says of its bounds, and nothing else."""

    kind: str
    fields: str
    epsilon: Fraction | None
    pair: tuple[Fraction, Fraction] | None
    zcdp: Fraction | None

    def pure(self) -> Fraction | None:
        """Return the epsilon of pure differential privacy that its record states."""
        return self.epsilon

    def approx(self) -> tuple[Fraction, Fraction] | None:
        """Return the (epsilon, delta) pair that its record states."""
        return self.pair

    def rho(self) -> Fraction | None:
        """Return the rho of zero-concentrated differential privacy that its record states."""
        return self.zcdp

    def renyi(self, order: float) -> float | None:
        """Return what follows from rho: rho-zCDP bounds the divergence of each order by order * rho (Bun & Steinke 2016)."""
        check_order(order)
        return None if self.zcdp is None else float_up(Fraction(order) * self.zcdp)

    def profile(self, grid: Grid) -> None:
        """Return None: no distribution of its losses is known."""
        del grid

    def bounds(self) -> dict[str, Any]:
        """Return its bounds as plain data."""
        pair = None if self.pair is None else [str(amount) for amount in self.pair]
        numbers = {"pure": self.epsilon, "rho": self.zcdp}
        return {name: None if n is None else str(n) for name, n in numbers.items()} | {"approx": pair}


_EVENTS.include(UnknownEvent)


def _read_bounds(plain: Any) -> dict[str, Any]:
    """Read the bounds that a record states; raises DeclarationError if they are malformed or negative."""
    if not isinstance(plain, Mapping) or set(plain) != {"pure", "rho", "approx"}:
        raise DeclarationError(
            "an event of unknown kind states the bounds pure, rho and approx, each of which may be null"
        )
    pair = plain["approx"]
    if pair is not None and (not isinstance(pair, list) or len(pair) != 2):
        raise DeclarationError("the bound approx of an event is an epsilon and a delta")
    amounts = {name: None if plain[name] is None else read_amount(plain[name], name=name) for name in ("pure", "rho")}
    approx = None if pair is None else (read_amount(pair[0], name="epsilon"), read_amount(pair[1], name="delta"))
    return {"epsilon": amounts["pure"], "pair": approx, "zcdp": amounts["rho"]}
