"""Choosing epsilon for a declared table: what people ask, read under its domain, neighbors and the currency of its budget.

It knows declarations, never data: row counts are public guesses of whoever asks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from sordino.ask.project.budget import CapChange, round_up_within
from sordino.ask.project.edit import round_cap_down
from sordino.ask.project.load import DeclaredTable, Project
from sordino.ask.queries.sql.parse import sql
from sordino.core.accounting.zcdp import rho_for
from sordino.core.arguments import whole
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import ZCDP, Number, format_number, to_fraction
from sordino.core.neighbors import Relation
from sordino.lab.risk.precision import Currency, Precision, precision_of
from sordino.lab.risk.requirement_choice import (
    Choice,
    Requirement,
    accuracy_of,
    choose_epsilon,
    for_questions,
    posterior,
    relative,
    test_power,
)


@dataclass(frozen=True, slots=True)
class TableChoice:
    """Hold the choice of epsilon for a declared table, and how exact its question is (None where none was stated).

    `choice` is the interval or the conflict; `currency` is what its cap is stated in; `rows` and `attacker_prior` (even
    odds where none was stated) are guesses that it was made with. `questions` is how many questions, each as exact as the one
    stated, it pays for; None where nobody said.
    """

    table: DeclaredTable
    choice: Choice
    precision: Precision | None
    currency: Currency
    rows: int | None = None
    attacker_prior: float = 0.5
    questions: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON data, with the noise that its error was computed for."""
        return self.choice.to_dict() | {"noise": None if self.precision is None else self.precision.noise()}

    def cap_change(self, path: Path, *, budget: str | None = None) -> CapChange:
        """Return the cap that the choice comes to, to be written into the project file at `path`; nothing is written yet.

        It is epsilon alone, with its delta, or for a budget in rho the rho that it comes to, rounded toward the side that
        keeps the requirements. A cap is for all questions together, so an accuracy needs `questions`, how many it is to pay
        for. Raises DeclarationError where it was not stated, where the requirements bound epsilon at neither end, or `budget`
        is not the table's.
        """
        choice = self.choice
        table = self.table
        if budget is not None and budget != table.budget:
            raise DeclarationError(f"table {table.name!r} draws on budget {table.budget!r}, not {budget!r}")
        if choice.epsilon is None:
            raise DeclarationError("these requirements bound epsilon at neither end: there is no cap to write")
        if choice.lower > 0 and self.questions is None:
            allowed = (
                ""
                if math.isinf(choice.upper)
                else f"; the other requirements allow {choice.upper:.6g} for all together"
            )
            raise DeclarationError(
                f"epsilon {choice.epsilon:.6g} pays for one answer that is so exact, and a cap pays for all questions: state "
                f"{arg('questions=')}N, how many such answers it is to pay for{allowed}"
            )
        slack = {"delta": Decimal(repr(choice.delta))} if choice.delta else {}
        key = "epsilon"
        wanted = Decimal(repr(choice.epsilon))
        most = Decimal(repr(choice.upper))
        if slack and self.currency == "rho":
            key = "rho"
            wanted = _rho(choice.epsilon, slack["delta"])
            most = _rho(choice.upper, slack["delta"])
        change = CapChange(path, table.budget, relation=table.neighbors.relation, kind=frozenset({key, *slack}))
        up = choice.lower > 0
        cap = round_up_within(wanted, most=most) if up else Decimal(round_cap_down(float(wanted)))
        why = choice.reason()
        if up:
            count = self.questions or 1
            paid = (
                "one such answer and no other question"
                if count == 1
                else f"{count:,} such answers, each at its equal share"
            )
            why += f" It pays for {paid}."
        if cap != wanted:
            why += f" The cap is that {key}, rounded {'up' if up else 'down'} to {cap:f}."
        change.cap({key: cap, **slack}, why)
        return change


def choose_for_table(
    project: Project,
    table: str | None = None,
    *,
    query: str | None = None,
    error: Number | None = None,
    confidence: Number = 0.95,
    rows: int | None = None,
    delta: Number | None = None,
    attacker_prior: Number | None = None,
    max_posterior: Number | None = None,
    test_level: Number | None = None,
    max_power: Number | None = None,
    relative_risk: Number | None = None,
    questions: int | None = None,
) -> TableChoice:
    """Return the interval of epsilon that meets every requirement on a declared table, or the two that conflict.

    `query`, SQL of one aggregate, is to be wrong by at most `error` with probability `confidence`; `rows` is a public
    guess, which a mean needs. `questions` is how many questions, each as exact as that one, are to be paid for (one, where it
    is left out, and then no cap can be written). At a `delta` above 0 Gaussian noise counts too, in rho where the table's
    budget is.
    `attacker_prior` and `max_posterior`: what an attacker suspects before, and at most after; `test_level` and
    `max_power`: false alarms and detections of a test; `relative_risk`: how many times as likely a disclosure may become.

    Raises DeclarationError for a requirement stated by half, for none at all, and where one is proved for another
    neighbor relation than the table's; else as `choose_epsilon` and the requirements do. No data is read.
    """
    declared = project.table(table)
    slack = Fraction(0) if delta is None else to_fraction(delta, name="delta")
    currency: Currency = "rho" if slack and isinstance(project.budgets[declared.budget].cap, ZCDP) else "epsilon"
    if (query is None) != (error is None):
        raise DeclarationError(
            f"{arg('query=')}... and {arg('error=')}... go together: the question, and how wrong it may be"
        )
    count = 1 if questions is None else whole(questions, name="questions", least=1)
    if questions is not None and query is None:
        raise DeclarationError(
            f"{arg('questions=')}... goes with {arg('query=')}... and {arg('error=')}...: how many such "
            "answers are to be paid for"
        )
    requirements = []
    precision = None
    if query is not None and error is not None:
        precision = _precision(query, declared, confidence=confidence, delta=slack, currency=currency)
        requirements.append(for_questions(accuracy_of(precision, error, n=rows), count))
    requirements += _readings(
        declared.neighbors.relation,
        attacker_prior,
        max_posterior,
        test_level,
        max_power,
        relative_risk,
        # deltas of several questions add up, but for a rho, which is turned into epsilon at one delta
        delta=slack if currency == "rho" else slack * count,
    )
    if not requirements:
        raise DeclarationError(
            f"state a requirement: {arg('error=')}..., {arg('max_posterior=')}..., {arg('max_power=')}... or "
            f"{arg('relative_risk=')}..."
        )
    choice = choose_epsilon(requirements=requirements)
    if choice.relation not in (None, declared.neighbors.relation):
        raise DeclarationError(
            f"{arg('relative_risk=')}... is proved for {choice.relation}; table {declared.name!r} states "
            f"{declared.neighbors.relation}"
        )
    prior = 0.5 if attacker_prior is None else float(to_fraction(attacker_prior, name="attacker_prior"))
    return TableChoice(declared, choice, precision, currency, rows, prior, questions)


def _precision(
    query: str, table: DeclaredTable, *, confidence: Number, delta: Fraction, currency: Currency
) -> Precision:
    table_named = sql(query).parse().table
    if table_named.lower() != table.name.lower():
        raise DeclarationError(
            f"the question asks table {table_named!r}: state {arg('table=')}..., which is {table.name!r} here"
        )
    return precision_of(
        query, domain=table.domain, neighbors=table.neighbors, confidence=confidence, delta=delta, currency=currency
    )


def _readings(
    relation: Relation,
    prior: Number | None,
    most: Number | None,
    level: Number | None,
    power: Number | None,
    ratio: Number | None,
    *,
    delta: Fraction,
) -> list[Requirement]:
    """Return the requirements on what an attacker learns."""
    requirements = []
    if (prior is None) != (most is None):
        raise DeclarationError(
            f"{arg('attacker_prior=')}... and {arg('max_posterior=')}... go together: before, and at most after"
        )
    if prior is not None and most is not None:
        requirements.append(posterior(prior=prior, most=most, neighbors=relation))
    if (level is None) != (power is None):
        raise DeclarationError(
            f"{arg('test_level=')}... and {arg('max_power=')}... go together: false alarms, and detections at most"
        )
    if level is not None and power is not None:
        requirements.append(test_power(level=level, most=power, delta=delta, neighbors=relation))
    if ratio is not None:
        requirements.append(relative(ratio=ratio))
    return requirements


def _rho(epsilon: float, delta: Decimal) -> Decimal:
    """Return the largest rho that implies (epsilon, delta)."""
    return Decimal(format_number(rho_for(epsilon, delta))) if math.isfinite(epsilon) else Decimal("inf")
