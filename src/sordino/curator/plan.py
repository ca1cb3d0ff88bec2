"""Plan: what a question would cost and how wrong its answer would be, from public facts alone; nothing is spent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.accounting.composition import charge_amounts
from sordino.curator.answer import noisy_columns
from sordino.curator.parts import PlannedPart, plan_parts
from sordino.curator.rows import Answer, Rows
from sordino.domain import Domain
from sordino.errors import DeclarationError, QuestionRefused
from sordino.loss import ZCDP, ApproxDP, Event, Loss, Number, PureDP, exact, loss_from, shown
from sordino.neighbors import Neighbors
from sordino.noise.rng import Rng
from sordino.primitives import Primitives
from sordino.queries.aggregation import Aggregation, Resolved, resolve
from sordino.release import loss_to_dict, show_number

__all__ = ["Plan", "asked_loss", "make_plan"]

_MOST_MEANS = 100_000


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

    def sentence(self) -> str:
        """Return the question in words."""
        return self.question.describe()

    def check(self, words: Primitives) -> None:
        """Build the tree of the exact answer, before the charge."""
        self.resolved.select(words)

    def released(self, rows: Rows, rng: Rng) -> Answer:
        """Return the keys and the noisy outputs: one scan, then noise."""
        table = rows.run(self.resolved.select(rows.words()))
        return noisy_columns(self.question, self.resolved, self.parts, self.domain, table=table, rng=rng)

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
    planned, event = plan_parts(resolved, [a.alias for a in question.aggregates], neighbors, asked)
    amounts = charge_amounts(event, cap)
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
