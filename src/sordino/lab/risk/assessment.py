"""What a risk comes to in the possible worlds of one public column or of several: the epsilon that keeps it, in words.

It opens no table: universes, sizes and priors are public statements of whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from sordino.ask.project.budget import CapChange
from sordino.ask.project.edit import round_cap_down
from sordino.core.accounting.belief import epsilon_for_tables
from sordino.core.arguments import amount, format_count
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import Number, to_fraction
from sordino.lab.risk.worlds import Worlds
from sordino.lab.sensitivity.statistics import TableFunction
from sordino.lab.sensitivity.universe import as_number, columns_of_table


@dataclass(frozen=True)
class RiskAssessment:
    """Hold what a risk comes to in the worlds of one column: the epsilon of one answer and of all, and what is seen.

    `prior` holds a probability a world, None where all are alike. `at` is an epsilon that is looked at besides, `output` an
    answer seen there. `up_to` is the largest epsilon that a picture shows, None where it is chosen.
    """

    worlds: Worlds
    risk: float
    column: str | None = None
    prior: Sequence[float] | None = None
    at: float | None = None
    output: float | None = None
    up_to: float | None = None

    @property
    def people(self) -> int:
        """How many people have a value."""
        return len(self.worlds.universe)

    @cached_property
    def epsilon(self) -> float | None:
        """The largest epsilon at which one answer keeps the risk; None where every one does."""
        return _finite(self.worlds.epsilon_for(risk=self.risk))

    @cached_property
    def epsilon_bound(self) -> float | None:
        """The same by the closed-form bound."""
        return _finite(self.worlds.epsilon_bound_for(risk=self.risk))

    @cached_property
    def epsilon_all_questions(self) -> float | None:
        """The largest total epsilon that keeps the risk, whatever is asked; None where all people are in the release."""
        if self.people <= self.worlds.size:
            return None
        heaviest = None if self.prior is None else max(self.prior) / math.fsum(self.prior)
        return epsilon_for_tables(self.risk, people=self.people, size=self.worlds.size, heaviest=heaviest)

    @property
    def sentence(self) -> str:
        """What one answer reveals at that epsilon, in words."""
        worlds = self.worlds
        noise = f"Laplace noise of scale {worlds.sensitivity:.6g} / epsilon, add/remove"
        limit = f"none of the {self._count()} possible releases more than {_percent(self.risk)}"
        claim = f"{self._attacker()} gives {limit} after one answer to the {worlds.query} ({noise})"
        source = f"(Lee & Clifton 2011, {worlds.method})"
        return f"At {'any epsilon' if self.epsilon is None else f'epsilon {_down(self.epsilon)}'}, {claim} {source}."

    @property
    def sentence_all_questions(self) -> str | None:
        """What all answers together reveal at the epsilon of all questions, in words; None where there is none."""
        if self.epsilon_all_questions is None:
            return None
        return (
            f"At epsilon {_down(self.epsilon_all_questions)} in all, {self._attacker()}, but not which, gives none of the "
            f"{self._count()} possible releases more than {_percent(self.risk)}, whatever is asked and however often (Lee & "
            "Clifton 2012, for tables two steps apart for each person exchanged)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the assessment as JSON data; null where every epsilon keeps the risk."""
        worlds = self.worlds
        content = {
            "schema": 1,
            **({} if self.column is None else {"column": self.column}),
            "people": self.people,
            "size": worlds.size,
            "query": worlds.query,
            "worlds": self._count(),
            "sensitivity": worlds.sensitivity,
            "spread": worlds.spread,
            "relation": "add_remove",
            "risk": self.risk,
            "exact": worlds.exact,
            "method": worlds.method,
            "epsilon": self.epsilon,
            "epsilon_bound": self.epsilon_bound,
            "risk_at_epsilon": self._risk_at(self.epsilon),
            "risk_at_epsilon_bound": self._risk_at(self.epsilon_bound),
            "sentence": self.sentence,
        }
        if self.epsilon_all_questions is not None:
            content["epsilon_all_questions"] = self.epsilon_all_questions
            content["sentence_all_questions"] = self.sentence_all_questions
        return content if self.at is None else content | {"at": self._seen(self.at)}

    def _seen(self, epsilon: float) -> dict[str, Any]:
        """Return the risk at an epsilon, and the posterior of each world where an output is given."""
        worlds = self.worlds
        content: dict[str, Any] = {
            "epsilon": epsilon,
            "risk": worlds.risk(epsilon=epsilon),
            "risk_bound": worlds.risk_bound(epsilon=epsilon),
            "method": worlds.method,
        }
        if self.output is not None:
            after = worlds.posterior(output=self.output, epsilon=epsilon).tolist()
            rows = zip(worlds.worlds, worlds.answers.tolist(), worlds.prior.tolist(), after, strict=True)
            content["output"] = self.output
            content["posterior_gain"] = worlds.posterior_gain(output=self.output, epsilon=epsilon)
            content["posteriors"] = [{"world": list(w), "answer": a, "prior": p, "posterior": q} for w, a, p, q in rows]
        return content

    def _risk_at(self, epsilon: float | None) -> float | None:
        return None if epsilon is None else self.worlds.risk(epsilon=epsilon)

    def _count(self) -> int | str:
        return self.worlds.count if self.worlds.count < 2**53 else format_count(self.worlds.count)

    def _attacker(self) -> str:
        return (
            f"an attacker who knows all {self.people:,} values and that {self.worlds.size:,} of them are in the release"
        )


def assess_risk(
    universes: Any,
    *,
    size: int,
    query: str | TableFunction,
    risk: Number,
    prior: Sequence[float] | None = None,
    epsilon: Number | None = None,
    output: Number | None = None,
    up_to: Number | None = None,
) -> list[RiskAssessment]:
    """Return what a risk comes to in the worlds of one column, its public values, or of several, values by column name.

    `universes` is a sequence of numbers, a mapping of them, or a table of pandas, polars or Arrow, all of whose columns are
    read. `size` of the people are in the release, and `query` is answered with noise, as in `Worlds`. With an `epsilon` the
    risk there is stated too, and with an `output` seen there the posterior of each world. `sd.plot` draws what is found, up
    to the epsilon `up_to`.

    >>> [found] = assess_risk([1, 2, 3, 10], size=3, query="mean", risk="1/3")
    >>> round(found.epsilon, 10)
    0.4317201196
    """
    limit = float(to_fraction(risk, name="risk"))
    at = None if epsilon is None else float(to_fraction(epsilon, name="epsilon"))
    released = None if output is None else as_number(to_fraction(output, name="output"))
    end = None if up_to is None else amount(up_to, name="up_to")
    return [
        RiskAssessment(Worlds(values, size=size, query=query, prior=prior), limit, column, prior, at, released, end)
        for column, values in columns_of_table(universes).items()
    ]


def assessments_to_dict(each: Sequence[RiskAssessment]) -> dict[str, Any]:
    """Return one column's assessment, or several with the least of their epsilons, which keeps the risk in all of them."""
    if len(each) == 1:
        return each[0].to_dict()
    binding = min((one for one in each if one.epsilon is not None), key=lambda one: one.epsilon or 0.0, default=None)
    return {
        "schema": 1,
        "columns": [{key: value for key, value in one.to_dict().items() if key != "schema"} for one in each],
        "relation": "add_remove",
        "epsilon": None if binding is None else binding.epsilon,
        "binding": None if binding is None else binding.column,
        "sentence": " ".join(f"{one.column}: {one.sentence}" for one in each),
    }


def cap_change_for(
    each: Sequence[RiskAssessment], path: Path, *, budget: str | None = None, one_question: bool = False
) -> CapChange:
    """Return the cap to be written into a project file: the epsilon of all questions, or that of a single answer.

    A budget pays for any question, so only the first is a promise about all that it pays for. Of several columns the one
    that allows the least is named. Raises DeclarationError where every epsilon keeps the risk.
    """
    caps = [(one, one.epsilon if one_question else one.epsilon_all_questions) for one in each]
    bounded = [(one, epsilon) for one, epsilon in caps if epsilon]
    if not bounded:
        raise DeclarationError(
            f"every epsilon keeps this risk, so that there is no cap to write: state a lower {arg('risk=')}..."
        )
    binding, epsilon = min(bounded, key=lambda pair: pair[1])
    reason = binding.sentence if one_question else binding.sentence_all_questions
    if len({epsilon for _, epsilon in bounded}) > 1:
        reason = f"Of {len(each)} columns, {binding.column} allows the least. {reason}"
    cap = _down(epsilon)
    reason = f"{reason} The cap is that epsilon, rounded down to {cap}"
    if one_question:
        reason += "; it holds for that one answer only: another question, or a second one, may pass the risk"
    change = CapChange(path, budget, relation="add_remove", kind=frozenset({"epsilon"}))
    change.cap({"epsilon": Decimal(cap)}, f"{reason}.")
    return change


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _down(epsilon: float) -> str:
    return round_cap_down(epsilon) if epsilon > 0 else "0"


def _percent(share: float) -> str:
    """Return a share as a percentage.

    >>> _percent(1 / 3)
    '33.3333%'
    """
    return f"{100 * share:.6g}%"
