"""The vectors of a plan: each with its sensitivity, its share of the loss and its mechanism. Knows no exact answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino.loss import Event, Loss, shown
from sordino.mechanisms.cheapest import cheapest
from sordino.mechanisms.mechanism import Mechanism
from sordino.neighbors import Neighbors, Sensitivity
from sordino.queries.aggregation import Resolved
from sordino.queries.query import Part

__all__ = ["PlannedPart", "plan_parts"]


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """One vector that gets noise of its own: what it is, how far one unit moves it and why, and its mechanism."""

    column: str
    part: Part
    sensitivity: Sensitivity
    mechanism: Mechanism

    def describe(self) -> str:
        """Return the part in words."""
        step = "" if self.part.unit == 1 else f" of {shown(self.part.unit)}"
        return f"{self.part.role}: {self.mechanism.describe()}{step}; {self.sensitivity.because}"


def plan_parts(
    resolved: Resolved, columns: Sequence[str], neighbors: Neighbors, loss: Loss
) -> tuple[tuple[tuple[PlannedPart, ...], ...], Event]:
    """Return the parts of each aggregate with their mechanisms, and the event that they amount to together.

    Each aggregate that needs noise gets an equal share of the loss, and each of its parts an equal share of that.
    """
    moved = [[resolved.sensitivity(p, neighbors) for p in several] for several in resolved.parts]
    active = [sum(1 for s in several if s.l1) for several in moved]
    aggregates = sum(1 for a in active if a)
    sized: list[tuple[Sensitivity, Fraction]] = []
    for several, parts, busy in zip(moved, resolved.parts, active, strict=True):
        share = Fraction(1, aggregates * busy) if busy else Fraction(0)
        sized += [(s.scaled(1 / p.unit), share if s.l1 else Fraction(0)) for s, p in zip(several, parts, strict=True)]
    mechanisms, event = cheapest(sized, loss)
    rest = iter(mechanisms)
    planned = tuple(
        tuple(PlannedPart(name, p, s, next(rest)) for p, s in zip(parts, several, strict=True))
        for name, parts, several in zip(columns, resolved.parts, moved, strict=True)
    )
    return planned, event
