"""The plan of a choice among declared values, and its release from exact counts, after the charge."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.accounting.composition import charge_amounts
from sordino.curator.data_access import Answer, Rows
from sordino.curator.noise_answer import exact_vectors
from sordino.domain import Domain
from sordino.estimates.selections import Choices
from sordino.loss import ZCDP, Event, Loss, loss_from
from sordino.mechanisms.exponential import Exponential
from sordino.mechanisms.permute_and_flip import PermuteAndFlip
from sordino.mechanisms.selection_choice import best_selection
from sordino.neighbors import Neighbors
from sordino.noise.rng import Rng
from sordino.primitives import Primitives
from sordino.queries.aggregates.most_common import MostCommon
from sordino.queries.aggregation import Resolved
from sordino.release import Output, loss_to_dict, show_rows

__all__ = ["ChoicePlan", "make_choice_plan"]


@dataclass(frozen=True, slots=True, repr=False)
class ChoicePlan:
    """Hold a choice with its whole cost and its mechanism; nothing is spent, nothing of the data is used."""

    question: MostCommon
    table_name: str
    neighbors: Neighbors
    resolved: Resolved
    asked: Loss
    mechanism: Exponential | PermuteAndFlip
    event: Event
    cost: Loss
    declaration: str
    earlier: tuple[str, ...] = ()

    def error(self, confidence: float) -> float:
        """Return how many rows fewer than the most common value the choice may have, at most, at `confidence`."""
        return self.mechanism.error(confidence, candidates=self.resolved.cells)

    def sentence(self) -> str:
        """Return the question in words."""
        return self.question.describe()

    def identity(self) -> str:
        """Return canonical text of the table and the question, whatever the loss."""
        return json.dumps([self.table_name, self.question.identity()])

    def seen_before(self, charges: tuple[str, ...]) -> ChoicePlan:
        """Return the plan with the charges that answered the same question before."""
        return replace(self, earlier=charges)

    def check(self, words: Callable[[], Primitives]) -> None:
        """Build the tree of the exact counts, before the charge."""
        self.resolved.select(words())

    def released(self, rows: Rows, rng: Rng) -> Answer:
        """Return the label chosen by the exact counts."""
        exact_counts = exact_vectors(rows.run(self.resolved.select(rows.words())), self.resolved)[0]
        chosen = self.resolved.keys[0].labels[self.mechanism.release(exact_counts, rng)]
        estimate = Choices((chosen,), self.resolved.cells, self.mechanism.rate, self.mechanism.law)
        return (), (Output(self.question.alias, estimate, self.mechanism.describe()),)

    @property
    def names(self) -> list[str]:
        """The names of the answer's columns."""
        return [self.question.alias]

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of its group-by columns: none."""
        return ()

    def describe(self, confidence: float = 0.95) -> str:
        """Return the plan in a few lines."""
        lines = [
            f"question   {self.question.describe()}",
            f"cost       {self.cost.describe()}",
            f"protects   {self.neighbors.describe()}",
            f"error      {show_rows(self.error(confidence), Choices.error_unit)} at {100 * confidence:g}%",
            f"mechanism  {self.mechanism.describe()}, among {self.resolved.cells} values",
        ]
        if self.earlier:
            lines.append(f"earlier    answered before as {', '.join(self.earlier)}: `sordino show` it at no cost")
        return "\n".join(lines)

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {
            "schema": 1,
            "question": self.question.describe(),
            "table": self.table_name,
            "cost": loss_to_dict(self.cost),
            "neighbors": self.neighbors.relation,
            "privacy_unit": self.neighbors.to_dict()["privacy_unit"],
            "rows": 1,
            "confidence": confidence,
            "columns": [
                {
                    "name": self.question.alias,
                    "question": self.question.describe(),
                    "expected_error": self.error(confidence),
                    "error_unit": Choices.error_unit,
                    "mechanism": self.mechanism.describe(),
                }
            ],
            "earlier": list(self.earlier),
            "declaration": self.declaration,
        }

    def __repr__(self) -> str:
        return f"<ChoicePlan {self.question.describe()}; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe()


def make_choice_plan(
    question: MostCommon,
    *,
    table_name: str,
    domain: Domain,
    neighbors: Neighbors,
    asked: Loss,
    cap: Loss,
    declaration: str,
) -> ChoicePlan:
    """Return the plan of a choice, by the selection that errs least for the loss.

    Theorem: a unit of C rows moves each count by at most C, and under add_remove all in one direction (monotone), so a
    point of score is worth epsilon / C in the exponent; under replace epsilon / 2C.
    """
    resolved = question.resolve(domain)
    mechanism = best_selection(
        sensitivity=Fraction(neighbors.contributions),
        loss=asked,
        candidates=resolved.cells,
        monotone=neighbors.relation == "add_remove",
    )
    amounts = charge_amounts(mechanism.event, cap)
    cost = loss_from(amounts, delta=cap.delta if isinstance(cap, ZCDP) else None)
    event: Event = mechanism.event
    return ChoicePlan(question, table_name, neighbors, resolved, asked, mechanism, event, cost, declaration)
