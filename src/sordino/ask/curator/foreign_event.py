"""Foreign events: a run of others on the same rows, such as DP-SGD, priced for the table's budget. It sees no data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from sordino.ask.curator.adaptive_session import AdaptiveProcedure, AdaptiveQuestion
from sordino.ask.curator.plan import UNKNOWN_ROWS, Plan, TableContext, price
from sordino.core.accounting.composition import best
from sordino.core.accounting.event_fields import read_delta
from sordino.core.accounting.events import Composed
from sordino.core.accounting.repeated import is_sampled, read_event
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.ledger.ledger import check_text
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, Number, PureDP, to_fraction
from sordino.core.neighbors import Neighbors

# An epsilon that follows from a delta is rounded up to so many parts.
_EPSILON_PARTS = 10**6
_DECLARED = (
    "that this event describes what was run on these rows is the curator's declared word: nothing of it was seen here"
)
_SAMPLED = "so is that each unit was in a batch by a secret coin of its own, drawn anew for each (Poisson sampling)"


def plan_event(
    event: Any,
    table: TableContext,
    *,
    note: str,
    delta: Number | None,
    neighbors: str | None,
    privacy_unit: str | None,
) -> Plan:
    """Return the plan of charging an event that was run elsewhere; see `Curator.charge_event` for what it raises."""
    if not isinstance(note, str) or not note.strip():
        raise DeclarationError("says what was run, such as note='DP-SGD of the churn model'", key="note")
    check_text(note, name="note", empty=False)
    _check_match(table.neighbors, neighbors, privacy_unit)
    own = read_event(event)
    sampled = is_sampled(own)
    if sampled and table.neighbors.relation != "add_remove":
        raise DeclarationError(
            "was run on a Poisson sample, which makes it cheaper under neighbors add_remove only, and the table is declared with "
            f"{table.neighbors.relation}",
            key="event",
        )
    counted, loss = _count(own, table.cap, delta)
    procedure = AdaptiveProcedure(
        question=AdaptiveQuestion(f"run elsewhere: {note}"),
        event=counted,
        rows=UNKNOWN_ROWS,
        notes=(_DECLARED, *([_SAMPLED] if sampled else [])),
        inner=loss,
        smooth=False,
    )
    return price(procedure, table, asked=loss)


def _check_match(table: Neighbors, relation: str | None, privacy_unit: str | None) -> None:
    """Raise DeclarationError for a relation or a privacy unit that is not the table's."""
    if relation is not None and relation != table.relation:
        raise DeclarationError(
            f"is {relation!r:.40}, and the table is declared with {table.relation!r}: an event of the one does not count for the "
            "other",
            key="neighbors",
        )
    unit = "row" if table.people is None else table.people
    if privacy_unit is not None and privacy_unit not in (unit, table.describe_unit()):
        raise DeclarationError(
            f"is {privacy_unit!r:.40}, and the table's is {unit!r}: an event of the one does not count for the other",
            key="privacy_unit",
        )


def _count(event: Event, cap: Loss, delta: Number | None) -> tuple[Event, Loss]:
    """Return the event as a cap can count it, and its loss; raises QuestionRefused where it cannot."""
    epsilon = event.pure()
    if delta is not None and not isinstance(cap, ApproxDP):
        raise DeclarationError(
            "is that of a run under a budget of epsilon and delta, which this table's is not: leave it out", key="delta"
        )
    if isinstance(cap, ZCDP):
        rho = event.rho()
        if rho is None:
            raise QuestionRefused("nothing is known of the event's rho, which is what this budget counts")
        return event, ZCDP(rho)
    if isinstance(cap, PureDP) or (delta is None and epsilon is not None):
        if epsilon is None:
            raise QuestionRefused(
                "the event has no pure epsilon, as with Gaussian noise: this budget counts epsilon alone; open one of epsilon "
                "and delta, or of rho"
            )
        return event, PureDP(epsilon)
    if delta is None:
        pair = event.approx()
        if pair is not None:
            return event, ApproxDP(*pair)
        raise DeclarationError(
            "is missing: an event without a pure epsilon is charged as (epsilon, delta), such as delta='1e-6'",
            key="delta",
        )
    target = read_delta(delta)
    # The run is fixed beforehand, so the least of all bounds holds for it; a float, rounded up again.
    bound = best([event], target).epsilon
    epsilon = Fraction(math.ceil(to_fraction(bound, name="epsilon") * _EPSILON_PARTS), _EPSILON_PARTS)
    return Composed((event,), (epsilon, target)), ApproxDP(epsilon, target)
