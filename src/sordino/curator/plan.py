"""Plan: what a question would cost and how wrong its answer would be, from public facts alone; nothing is spent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sordino.accounting.amplify import poisson_sampled
from sordino.accounting.composition import charge_amounts
from sordino.curator.allocation import Parts, PlannedPart, plan_parts
from sordino.curator.data_access import Answer, Rows
from sordino.curator.noise_answer import after_release, noisy_columns
from sordino.curator.notes import contribution_notes, key_note, selection_note, units_to_show
from sordino.domain import Domain
from sordino.errors import DeclarationError, QuestionRefused
from sordino.estimates.ranks import Ranks
from sordino.estimates.selected import simultaneous_confidence
from sordino.loss import ZCDP, ApproxDP, Event, Loss, Number, PureDP, exact, loss_from, round_up, shown
from sordino.neighbors import Neighbors
from sordino.noise.rng import Rng
from sordino.primitives import Primitives
from sordino.queries.aggregates.sums import Mean
from sordino.queries.aggregation import Aggregation, Resolved, resolve
from sordino.queries.joins import joined, joined_domain, joined_neighbors
from sordino.queries.off_grid import never_equal
from sordino.release import Output, currencies_to_dict, loss_to_dict, other_currencies, show_number, show_rows

__all__ = ["Plan", "asked_loss", "make_plan"]

_MOST_MEANS = 100_000
_LEAST_RATE = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Hold a question with its whole cost, its mechanisms, its sensitivities with reasons, and its expected error.

    Give it to `ask` to spend exactly `cost`. `earlier` names the charges that answered the same question before.
    """

    question: Aggregation
    table_name: str
    domain: Domain
    neighbors: Neighbors
    answered: Parts
    asked: Loss
    event: Event
    cost: Loss
    declaration: str
    assume_rows: int | None
    assume_mean: float | None
    earlier: tuple[str, ...] = ()

    @property
    def resolved(self) -> Resolved:
        """The question's meaning over the domain."""
        return self.answered.resolved

    @property
    def parts(self) -> tuple[tuple[PlannedPart, ...], ...]:
        """The noisy vectors of each aggregate; none for one that is a selection."""
        return self.answered.vectors

    @property
    def names(self) -> list[str]:
        """The names of the answer's columns, keys first."""
        return [*(g.alias for g in self.question.groups), *(n for c in self._columns(None) for n in c.names)]

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of its group-by columns."""
        return tuple(g.alias for g in self.question.groups)

    def error(self, confidence: float) -> Any:
        """Return the expected error, not exceeded with probability `confidence`, of each value by itself.

        A number for a single column, a dict by column name for several. A mean's, and that of any statistic made of
        several sums, is None unless `assume_rows` was given; it is an upper bound (the mean at its worst) unless
        `assume_mean` was given too. A quantile's is in rows. Where HAVING or LIMIT select rows by noisy values it is not
        exceeded in any group, all together, as in the release; with private keys their number is not known beforehand.
        """
        found = {n: e for c in self._columns(confidence) for n, e in zip(c.names, c.errors, strict=True)}
        return next(iter(found.values())) if len(found) == 1 else found

    def error_times_rows(self, confidence: float) -> dict[str, float]:
        """Return, for each mean, its expected error times the number of rows in its group, a public figure."""
        confidence = self._for_each(confidence)
        return {
            a.alias: a.expected(self.domain, self._laws(i), confidence, None, self.assume_mean)
            for i, a in enumerate(self.question.aggregates)
            if isinstance(a, Mean)
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

    def check(self, words: Callable[[], Primitives]) -> None:
        """Build the trees of the exact answer, before the charge."""
        joins = self.question.joins
        if self.resolved.terms:
            self.resolved.select(joined(words(), joins, self.domain))
        for selection in self.answered.selections:
            if selection is not None:
                selection.select(joined(words(), joins, self.domain))

    def released(self, rows: Rows, rng: Rng) -> Answer:
        """Return the keys and the noisy outputs: one scan for all sums and counts, a few for each selection."""
        if self.question.sample is None or self.question.sample == 1:
            return self._released(rows, rng)
        with rows.sampled(self.question.sample, rng) as drawn:
            return self._released(drawn, rng)

    def _released(self, rows: Rows, rng: Rng) -> Answer:
        rows = rows.joined(self.question.joins, self.domain)
        table = rows.run(self.resolved.select(rows.words())) if self.resolved.terms else None
        keys, outputs = noisy_columns(self.question, self.answered, self.domain, table=table, rng=rng)
        summed = iter(outputs)
        told: list[Output] = []
        for selection in self.answered.selections:
            told += [next(summed)] if selection is None else selection.released(rows, rng)
        return after_release(self.question.after, keys, tuple(told))

    def describe(self) -> str:
        """Return the plan in a few lines."""
        lines = [f"question   {self.question.describe()}", f"cost       {self.cost.describe()}"]
        lines += [f"           {words}" for words in other_currencies(self.event, self.cost)]
        lines.append(f"protects   {self.neighbors.describe()}")
        if self.question.sample is not None:
            lines.append(f"sample     {self.sample_told()}")
        if self.resolved.keys:
            lines.append(f"rows       {self.rows_told()}")
        for column in self._columns(0.95):
            for name, error in zip(column.names, column.errors, strict=True):
                lines.append(f"{name:<10} {self._expected(column, error)}")
            lines += [f"           {line}" for line in column.lines]
        lines += [f"note       {line}" for line in never_equal(self.question, self.domain)]
        if self.earlier:
            lines.append(f"earlier    answered before as {', '.join(self.earlier)}: `sordino show` it at no cost")
        return "\n".join(lines)

    def sample_told(self) -> str | None:
        """Return what sampling means for the answer and the price, in words; None where all units are used."""
        rate = self.question.sample
        if rate is None:
            return None
        return (
            f"each unit is used with chance {shown(rate)}, by a secret coin; counts, sums and their errors are of the "
            f"sample, not scaled; {self.asked.describe()} on the sample costs {self.cost.describe()}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a release must say beside its numbers, from public facts: which rows it is about, and how they were chosen."""
        threshold, groups = self.answered.threshold, self._groups()
        notes = contribution_notes(self.neighbors, private_keys=threshold is not None)
        notes += () if threshold is None else (key_note(threshold),)
        notes += (selection_note(groups),) if self._selects() else ()
        notes += never_equal(self.question, self.domain)
        sample = self.sample_told()
        return notes if sample is None else (*notes, sample)

    def rows_told(self) -> str:
        """Return which rows the answer will have, in words."""
        threshold = self.answered.threshold
        if threshold is None:
            return f"{self.resolved.cells:,}: every declared key"
        half, sure = units_to_show(threshold, 0.5), units_to_show(threshold, 0.95)
        alone = round_up(threshold.appears(1), digits=2)
        return (
            f"keys that {half} units or more have (shown at least half of the time; {sure} units: 95%; 1 unit: {alone}); "
            f"{threshold.describe()}"
        )

    def to_dict(self, *, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data."""
        threshold = self.answered.threshold
        return {
            "schema": 1,
            "question": self.question.describe(),
            "table": self.table_name,
            "cost": loss_to_dict(self.cost),
            "currencies": currencies_to_dict(self.event),
            "neighbors": self.neighbors.relation,
            "privacy_unit": self.neighbors.to_dict()["privacy_unit"],
            "sample": self.sample_told(),
            "rows": self.resolved.cells if threshold is None else None,
            "private_keys": None if threshold is None else self.rows_told(),
            "confidence": confidence,
            "columns": [
                {
                    "name": name,
                    "question": column.question,
                    "expected_error": error,
                    "error_unit": column.unit,
                    "error_supposes": column.assumes or None,
                    "parts": list(column.parts),
                }
                for column in self._columns(confidence)
                for name, error in zip(column.names, column.errors, strict=True)
            ],
            "error_times_rows": self.error_times_rows(confidence),
            "notes": list(self.notes),
            "earlier": list(self.earlier),
            "declaration": self.declaration,
        }

    def __repr__(self) -> str:
        return f"<Plan {self.question.describe()}; cost {self.cost.describe()}, nothing spent>"

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from html import escape

        return f'<pre style="font-family: monospace">{escape(self.describe())}</pre>'

    def _laws(self, i: int) -> Sequence[Any]:
        return [p.mechanism.law for p in self.parts[i]]

    def _groups(self) -> int | None:
        """Return how many rows the noisy answer has before any are left out; None where that is private."""
        return None if self.resolved.private_keys else self.resolved.cells

    def _selects(self) -> bool:
        """Return whether noisy values decide which rows are shown."""
        after = self.question.after
        return after is not None and after.selects(self.groups, self._groups())

    def _for_each(self, confidence: float) -> float:
        """Return the confidence of each group at which all that rows are selected from hold together."""
        return simultaneous_confidence(confidence, self._groups() or 1) if self._selects() else confidence

    def _columns(self, confidence: float | None) -> list[_Told]:
        """Return what the plan says of each aggregate's columns; without a confidence, no errors."""
        found: list[_Told] = []
        confidence = None if confidence is None else self._for_each(confidence)
        for i, (asked, selection) in enumerate(zip(self.question.aggregates, self.answered.selections, strict=True)):
            if selection is not None:
                names = selection.asked.columns()
                errors: list[float | None] = [None] * len(names)
                if confidence is not None and self.assume_rows is not None:
                    errors = list(selection.errors(confidence, assume_rows=self.assume_rows))
                elif confidence is not None:
                    errors = list(selection.errors(confidence, assume_rows=None))
                words = {"role": "selection", "mechanism": selection.describe()}
                found.append(
                    _Told(names, asked.describe(), tuple(errors), Ranks.error_unit, (words,), (words["mechanism"],), 1)
                )
                continue
            error = None
            if confidence is not None and (len(self.parts[i]) == 1 or self.assume_rows is not None):
                laws = self._laws(i)
                error = asked.expected(self.domain, laws, confidence, self.assume_rows, self.assume_mean)
            parts = tuple(_part_told(p) for p in self.parts[i])
            lines = tuple(p.describe() for p in self.parts[i])
            several = len(self.parts[i])
            assumes = str(getattr(asked, "assumes", ""))
            found.append(_Told((asked.alias,), asked.describe(), (error,), "value", parts, lines, several, assumes))
        return found

    def _expected(self, column: _Told, error: float | None) -> str:
        if column.unit == Ranks.error_unit and error is not None:
            return f"{show_rows(error, column.unit)} at 95%"
        if error is not None:
            most = "" if column.sums == 1 or self.assume_mean is not None or column.assumes else "at most "
            rows = "" if column.sums == 1 else f" if it has {self.assume_rows:,} rows"
            supposed = f", {column.assumes}" if column.assumes else ""
            return f"{most}+-{show_number(error)} at 95%{rows}{supposed}"
        scaled = self.error_times_rows(0.95).get(column.names[0])
        if scaled is None:
            return "its error depends on the rows (give assume_rows, a public guess)"
        return f"at most +-{show_number(scaled)} / rows at 95% (give assume_rows, a public guess)"


@dataclass(frozen=True, slots=True)
class _Told:
    """What a plan says of one aggregate: its columns, their errors and unit, its parts as data and in words."""

    names: tuple[str, ...]
    question: str
    errors: tuple[float | None, ...]
    unit: str
    parts: tuple[dict[str, Any], ...]
    lines: tuple[str, ...]
    sums: int
    assumes: str = ""


def _part_told(part: PlannedPart) -> dict[str, Any]:
    return {
        "role": part.part.role,
        "mechanism": part.mechanism.describe(),
        "unit": shown(part.part.unit),
        "l1": shown(part.sensitivity.l1),
        "l2": part.sensitivity.l2,
        "linf": shown(part.sensitivity.linf),
        "because": part.sensitivity.because,
    }


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
    domain, wider = joined_domain(domain, question.joins), joined_neighbors(neighbors, question.joins)
    resolved = resolve(question, domain)
    if resolved.private_keys and neighbors.unit is None and wider.copies > 1:
        raise QuestionRefused(
            "private keys of a join with several rows a key need a privacy unit that is a column, to count units by: "
            "declare PrivacyUnit(column, max_rows=...), or group by a column with declared values"
        )
    if (
        not resolved.private_keys
        and resolved.cells > _MOST_MEANS
        and any(len(several) > 1 for several in resolved.parts)
    ):
        raise QuestionRefused(
            f"means of {resolved.cells} groups: above {_MOST_MEANS} their intervals take too long; ask for SUM and COUNT"
        )
    if resolved.private_keys and not isinstance(cap, ApproxDP):
        raise QuestionRefused(
            "the keys of this group-by are private, which costs a delta, and this budget counts none: declare the cap as "
            "{epsilon = 1.0, delta = 1e-6}, or the column as a category with its values"
        )
    answered = plan_parts(question, resolved, domain, wider, asked)
    event = _sampled(question.sample, answered.event, neighbors)
    amounts = charge_amounts(event, cap)
    cost = loss_from(amounts, delta=cap.delta if isinstance(cap, ZCDP) else None)
    return Plan(
        question,
        table_name,
        domain,
        neighbors,
        answered,
        asked,
        event,
        cost,
        declaration,
        assume_rows,
        assume_mean,
    )


def _sampled(rate: Fraction | None, event: Event, neighbors: Neighbors) -> Event:
    """Return the event of answering from a Poisson sample; raises QuestionRefused where no theorem makes it cheaper."""
    if rate is None:
        return event
    if neighbors.relation != "add_remove":
        raise QuestionRefused(
            "a sample is drawn by one coin a unit, which makes a question cheaper under neighbors add_remove only; "
            "leave TABLESAMPLE out"
        )
    if not _LEAST_RATE <= rate <= 1:
        raise QuestionRefused(f"a sample's share must lie between {shown(_LEAST_RATE)} and 1, not {shown(rate)}")
    return poisson_sampled(event, rate=rate, relation=neighbors.relation)


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
