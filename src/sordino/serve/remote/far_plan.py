"""FarPlan, FarBatch and FarBudget: what a server says of a question's price and of a budget. Nothing here is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import Loss, loss_from_numbers
from sordino.core.release import show_number, show_rows


@dataclass(frozen=True, slots=True, repr=False)
class FarPlan:
    """Hold a question with its whole cost and its expected error, as a server planned it; give it to `ask`.

    `cost`, `.error(0.95)`, `table_name`, `names`, `notes` and `earlier` are those of a local `Plan`; `to_dict()` is what
    `sordino plan --format json` prints.
    """

    asked: Mapping[str, Any] = field(repr=False)
    said: Mapping[str, Any]
    again: Callable[[float], Mapping[str, Any]] | None = field(default=None, compare=False)

    @property
    def cost(self) -> Loss:
        """What asking will cost."""
        return loss_from_numbers(self.said["cost"])

    @property
    def table_name(self) -> str:
        """The table that it was planned for."""
        return str(self.said["table"])

    @property
    def declaration(self) -> str:
        """The digest of the declaration that it was planned under."""
        return str(self.said["declaration"])

    @property
    def columns(self) -> list[dict[str, Any]]:
        """What is said of each answered column."""
        return list(self.said["columns"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What its release must say beside its numbers."""
        return tuple(self.said["notes"])

    @property
    def earlier(self) -> tuple[str, ...]:
        """Your charges that answered the same question before."""
        return tuple(self.said["earlier"])

    def error(self, confidence: float) -> Any:
        """Return the expected error, not exceeded with probability `confidence`, of each value by itself.

        A number for a single column, a dict by column name for several. Another confidence than the plan's is asked of the
        server again; an asynchronous plan states one, `plan(..., confidence=)`.
        """
        found = {column["name"]: column["expected_error"] for column in self._at(confidence)["columns"]}
        return next(iter(found.values())) if len(found) == 1 else found

    def error_times_rows(self, confidence: float) -> dict[str, float]:
        """Return, for each mean, its expected error times the number of rows in its group, a public figure."""
        return dict(self._at(confidence)["error_times_rows"])

    def _at(self, confidence: float) -> Mapping[str, Any]:
        if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
            raise DeclarationError(f"must lie between 0 and 1, such as 0.95, not {confidence}", key="confidence")
        if confidence == self.said["confidence"]:
            return self.said
        if self.again is None:
            raise DeclarationError(f"state it with the plan: plan(..., confidence={confidence})", key="confidence")
        return self.again(confidence)

    def sentence(self) -> str:
        """Return the question in words."""
        return str(self.said["question"])

    def describe(self, confidence: float = 0.95) -> str:
        """Return the plan in a few lines."""
        said = self._at(confidence)
        lines = [f"question   {said['question']}", f"cost       {self.cost.describe()}"]
        for one in said["columns"]:
            error = one["expected_error"]
            off = "its error depends on the rows: give assume_rows" if error is None else _say_error(error, one)
            at = "" if error is None else f" at {100 * confidence:g}%"
            lines.append(f"{one['name']:<10} {off}{at}")
        lines += [f"note       {note}" for note in said["notes"]]
        lines += [f"earlier    answered before as {', '.join(self.earlier)}"] if self.earlier else []
        return "\n".join(lines)

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data, as the server said it."""
        return dict(self._at(confidence))

    def __repr__(self) -> str:
        return f"<Plan {self.sentence()}; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe(self.said["confidence"])

    def _repr_html_(self) -> str:
        return f'<pre style="font-family: monospace">{escape(str(self))}</pre>'


def _say_error(error: float, column: Mapping[str, Any]) -> str:
    value = column["error_unit"] == "value"
    return f"+-{show_number(error)}" if value else show_rows(error, column["error_unit"])


@dataclass(frozen=True, slots=True, repr=False)
class FarBatch:
    """Hold the plans of several questions, as a server made them; give it to `ask` for a list of releases."""

    asked: Mapping[str, Any] = field(repr=False)
    said: Mapping[str, Any]

    @property
    def cost(self) -> Loss:
        """What all of them cost together."""
        return loss_from_numbers(self.said["cost"])

    @property
    def confidence(self) -> float:
        """The confidence of the errors."""
        return float(self.said["confidence"])

    @property
    def plans(self) -> tuple[FarPlan, ...]:
        """The plan of each question, to read; they are asked together."""
        return tuple(FarPlan({}, plan) for plan in self.said["plans"])

    def errors(self) -> list[float]:
        """Return the largest expected error of each question, at the confidence of the batch."""
        return list(self.said["errors"])

    def to_dict(self) -> dict[str, Any]:
        """Return the batch as JSON data, as the server said it."""
        return dict(self.said)

    def describe(self) -> str:
        """Return the batch in a few lines."""
        each = [f"           {plan.cost.describe()}: {plan.sentence()}" for plan in self.plans]
        return "\n".join([f"cost       {self.cost.describe()} in all", *each])

    def __repr__(self) -> str:
        return f"<Batch of {len(self.said['plans'])} plans; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe()


@dataclass(frozen=True, slots=True)
class FarBudget:
    """State how a budget stands, as `sordino budget --format json`; `own` is your share of it, None for an officer."""

    said: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The budget's name."""
        return str(self.said["budget"])

    @property
    def own(self) -> Mapping[str, Any] | None:
        """Your share: its cap, spent and remaining."""
        shares = list(self.said["shares"].values())
        return shares[0] if self.said["ledger"] is None and len(shares) == 1 else None

    @property
    def cap(self) -> Loss:
        """The cap."""
        return loss_from_numbers(self.said["cap"])

    @property
    def spent(self) -> Loss:
        """All that was charged, by everyone."""
        return loss_from_numbers(self.said["spent"])

    @property
    def remaining(self) -> Loss:
        """What everyone together can still be charged."""
        return loss_from_numbers(self.said["remaining"])

    @property
    def charges(self) -> int:
        """The number of all charges."""
        return int(self.said["charges"])

    @property
    def answered(self) -> int:
        """The number of charges that were answered."""
        return int(self.said["answered"])

    def own_loss(self, name: str) -> Loss:
        """Return cap, spent or remaining of your share, or of the whole budget where you have none."""
        return loss_from_numbers((self.own or self.said)[name])

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON data, as the server said it."""
        return dict(self.said)
