"""Plan: what a question would cost and how wrong its answer would be, from public facts alone; nothing is spent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino.accounting.composition import charge_amounts
from sordino.domain import Domain
from sordino.errors import DeclarationError, QuestionRefused
from sordino.loss import ZCDP, ApproxDP, Event, Loss, Number, PureDP, exact, loss_from, shown
from sordino.mechanisms.cheapest import cheapest
from sordino.mechanisms.mechanism import Mechanism
from sordino.neighbors import Neighbors, Sensitivity
from sordino.primitives import Primitives
from sordino.queries.aggregation import Aggregation, Resolved, resolve
from sordino.queries.query import Part
from sordino.release import loss_to_dict, show_number

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Plan", "PlannedPart", "asked_loss", "make_plan"]


_MOST_MEANS = 100_000


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


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Hold a question with its whole cost, its mechanisms, its sensitivities with reasons, and its expected error.

    Give it to `ask` to spend exactly `cost`. `earlier` names the charges that answered the same question before.
    """

    question: Aggregation
    table_name: str
    domain: Domain
    neighbors: Neighbors
    resolved: Resolved
    parts: tuple[tuple[PlannedPart, ...], ...]
    asked: Loss
    event: Event
    cost: Loss
    declaration: str
    assume_rows: int | None
    assume_mean: float | None
    earlier: tuple[str, ...] = ()

    def error(self, confidence: float) -> Any:
        """Return the expected error, not exceeded with probability `confidence`, of each value by itself.

        A number for a single column, a dict by column name for several. A mean's is None unless `assume_rows` was
        given; it is an upper bound (the mean at its worst) unless `assume_mean` was given too.
        """
        found = {a.alias: e for a, e in zip(self.question.aggregates, self._errors(confidence), strict=True)}
        return next(iter(found.values())) if len(found) == 1 else found

    def error_times_rows(self, confidence: float) -> dict[str, float]:
        """Return, for each mean, its expected error times the number of rows in its group, a public figure."""
        return {
            a.alias: a.expected(self.domain, self._laws(i), confidence, None, self.assume_mean)
            for i, a in enumerate(self.question.aggregates)
            if len(self.parts[i]) > 1
        }

    def identity(self) -> str:
        """Return canonical text of the table and the question, whatever the loss."""
        return json.dumps([self.table_name, self.question.identity()])

    def seen_before(self, charges: tuple[str, ...]) -> Plan:
        """Return the plan with the charges that answered the same question before."""
        return replace(self, earlier=charges)

    def select(self, on: Primitives) -> exp.Select:
        """Return the SQL tree of the exact answer, in an engine's words."""
        return self.resolved.select(on)

    def describe(self) -> str:
        """Return the plan in a few lines."""
        lines = [f"question   {self.question.describe()}", f"cost       {self.cost.describe()}"]
        lines.append(f"protects   {self.neighbors.describe()}")
        if self.resolved.keys:
            lines.append(f"rows       {self.resolved.cells} (every declared key)")
        for i, several in enumerate(self.parts):
            name = self.question.aggregates[i].alias
            lines.append(f"{name:<10} {self._expected(i)}")
            lines += [f"           {p.describe()}" for p in several]
        if self.earlier:
            lines.append(f"earlier    answered before as {', '.join(self.earlier)}: `sordino show` it at no cost")
        return "\n".join(lines)

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data."""
        errors = self._errors(confidence)
        return {
            "schema": 1,
            "question": self.question.describe(),
            "table": self.table_name,
            "cost": loss_to_dict(self.cost),
            "neighbors": self.neighbors.relation,
            "privacy_unit": self.neighbors.to_dict()["privacy_unit"],
            "rows": self.resolved.cells,
            "confidence": confidence,
            "columns": [
                {
                    "name": a.alias,
                    "question": a.describe(),
                    "expected_error": errors[i],
                    "parts": [
                        {
                            "role": p.part.role,
                            "mechanism": p.mechanism.describe(),
                            "unit": shown(p.part.unit),
                            "l1": shown(p.sensitivity.l1),
                            "l2": p.sensitivity.l2,
                            "linf": shown(p.sensitivity.linf),
                            "because": p.sensitivity.because,
                        }
                        for p in self.parts[i]
                    ],
                }
                for i, a in enumerate(self.question.aggregates)
            ],
            "error_times_rows": self.error_times_rows(confidence),
            "earlier": list(self.earlier),
            "declaration": self.declaration,
        }

    def __repr__(self) -> str:
        return f"<Plan {self.question.describe()}; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.describe())}</pre>"

    def _laws(self, i: int) -> Sequence[Any]:
        return [p.mechanism.law for p in self.parts[i]]

    def _errors(self, confidence: float) -> list[float | None]:
        return [
            a.expected(self.domain, self._laws(i), confidence, self.assume_rows, self.assume_mean)
            if len(self.parts[i]) == 1 or self.assume_rows is not None
            else None
            for i, a in enumerate(self.question.aggregates)
        ]

    def _expected(self, i: int) -> str:
        error = self._errors(0.95)[i]
        if error is not None:
            most = "" if len(self.parts[i]) == 1 or self.assume_mean is not None else "at most "
            rows = "" if len(self.parts[i]) == 1 else f" if it has {self.assume_rows:,} rows"
            return f"{most}+-{show_number(error)} at 95%{rows}"
        scaled = self.error_times_rows(0.95)[self.question.aggregates[i].alias]
        return f"at most +-{show_number(scaled)} / rows at 95% (give assume_rows, a public guess)"


def asked_loss(*, epsilon: Number | None, delta: Number | None, rho: Number | None) -> Loss:
    """Return the loss that `epsilon=`, `delta=` and `rho=` ask for; raises DeclarationError unless it is positive."""
    if (epsilon is None) == (rho is None):
        raise DeclarationError("state what may be lost: epsilon=..., or epsilon=... and delta=..., or rho=...")
    if rho is not None:
        if delta is not None:
            raise DeclarationError("delta goes with epsilon; rho stands alone")
        return ZCDP(_positive(rho, "rho"))
    most = _positive(epsilon if epsilon is not None else 0, "epsilon")
    if delta is None:
        return PureDP(most)
    chance = exact(delta, name="delta")
    if not 0 < chance < 1:
        raise DeclarationError(f"delta must lie between 0 and 1, such as 1e-9, not {shown(chance)}")
    return ApproxDP(most, chance)


def make_plan(
    question: Aggregation,
    *,
    table_name: str,
    domain: Domain,
    neighbors: Neighbors,
    asked: Loss,
    cap: Loss,
    declaration: str,
    assume_rows: int | None,
    assume_mean: float | None,
) -> Plan:
    """Return the plan of a question: each aggregate that needs noise gets an equal share, each of its parts likewise.

    Raises QuestionRefused where the question has no private answer, DeclarationError where the cap counts otherwise.
    """
    if assume_rows is not None and (
        isinstance(assume_rows, bool) or not isinstance(assume_rows, int) or assume_rows < 1
    ):
        raise DeclarationError("assume_rows, a public guess at the number of rows, must be a whole number, 1 or more")
    resolved = resolve(question, domain)
    if resolved.cells > _MOST_MEANS and any(len(several) > 1 for several in resolved.parts):
        raise QuestionRefused(
            f"means of {resolved.cells} groups: above {_MOST_MEANS} their intervals take too long; ask for SUM and COUNT"
        )
    moved = [[resolved.sensitivity(p, neighbors) for p in several] for several in resolved.parts]
    active = [sum(1 for s in several if s.l1) for several in moved]
    aggregates = sum(1 for a in active if a)
    sized: list[tuple[Sensitivity, Fraction]] = []
    for several, parts, busy in zip(moved, resolved.parts, active, strict=True):
        share = Fraction(1, aggregates * busy) if busy else Fraction(0)
        sized += [(s.scaled(1 / p.unit), share if s.l1 else Fraction(0)) for s, p in zip(several, parts, strict=True)]
    mechanisms, event = cheapest(sized, asked)
    amounts = charge_amounts(event, cap)
    rest = iter(mechanisms)
    planned = tuple(
        tuple(PlannedPart(a.alias, p, s, next(rest)) for p, s in zip(parts, several, strict=True))
        for a, parts, several in zip(question.aggregates, resolved.parts, moved, strict=True)
    )
    cost = loss_from(amounts, delta=cap.delta if isinstance(cap, ZCDP) else None)
    return Plan(
        question,
        table_name,
        domain,
        neighbors,
        resolved,
        planned,
        asked,
        event,
        cost,
        declaration,
        assume_rows,
        assume_mean,
    )


def _positive(value: Number, name: str) -> Fraction:
    amount = exact(value, name=name)
    if amount <= 0:
        raise DeclarationError(f"{name} must be above 0, not {shown(amount)}; 0.1 to 1 is common")
    if amount < Fraction(1, 10**12):
        raise DeclarationError(
            f"{name} of {float(amount):.3g} would say nothing: the least is 1e-12; 0.1 to 1 is common"
        )
    if amount > 10**6:
        raise DeclarationError(f"{name} of {shown(amount)} would protect nobody; 0.1 to 1 is common")
    return amount
