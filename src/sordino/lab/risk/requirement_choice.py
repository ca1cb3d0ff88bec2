"""Requirements on epsilon taken together: the interval that meets them all, or the two that conflict and what would help.

It may not know data, or where a requirement came from: each is a lower or an upper bound with the relation that it is
proved for. Bounds are converted one way only: add_remove at epsilon implies replace at 2 epsilon, never the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Literal

from sordino.core.accounting.zcdp import epsilon_of, rho_for
from sordino.core.errors import DeclarationError
from sordino.core.loss import format_number
from sordino.core.neighbors import Neighbors, Relation

_SHOWN = 6  # digits of an epsilon in a sentence; rounded towards the inside of the interval


@dataclass(frozen=True, slots=True)
class Requirement:
    """Bound epsilon from below, above, or both: what is asked in words, the relation it is proved for, its source.

    `relation` None: it holds for whichever relation the loss is stated for. `delta`: the most delta that it allows; None
    where it does not say. `question`: what has to be answered for the lower bound; the lower bounds of different
    questions add up, since each answer has its own cost. `rows_for`: the fewest rows (or people) for a given epsilon.
    `spends`: the delta that goes with the lower bound; `currency` what those of several questions add up in.
    """

    kind: str
    says: str
    source: str
    relation: Relation | None
    lower: float = 0.0
    upper: float = math.inf
    delta: float | None = 0.0
    neighbors: Neighbors | None = None
    question: str | None = None
    rows_for: Callable[[float], int | None] | None = field(default=None, compare=False, repr=False)
    spends: Fraction = Fraction(0)
    currency: Literal["epsilon", "rho"] = "epsilon"

    def to_dict(self) -> dict[str, Any]:
        """Return the requirement as JSON data; null where there is no bound."""
        return {
            "kind": self.kind,
            "says": self.says,
            "source": self.source,
            "relation": self.relation,
            "lower": self.lower or None,
            "upper": _finite(self.upper),
        }


@dataclass(frozen=True, slots=True)
class Conflict:
    """Name two requirements that no epsilon meets: one needs `lower` at least, the other allows `upper` at most.

    `smallest_n`: the fewest rows at which both can be met, the rest left as it is; None where no number of rows helps or
    the first does not depend on it.
    """

    needs: Requirement
    allows: Requirement
    lower: float
    upper: float
    smallest_n: int | None

    def describe(self) -> str:
        """Return the conflict in words."""
        conflict = (
            f"no epsilon meets all requirements: {_words(self.needs.kind)} ({self.needs.says}) needs at least "
            f"{_format_epsilon(self.lower, up=True)}, and {_words(self.allows.kind)} ({self.allows.says}) allows at most "
            f"{_format_epsilon(self.upper, up=False)}"
        )
        if self.smallest_n is None:
            return f"{conflict}; ask for less of either"
        return f"{conflict}; from {self.smallest_n:,} rows on both can be met"


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold the interval of epsilon that meets all requirements, or their conflict, under one relation.

    `lower` is 0 and `upper` infinite where nothing bounds that end; `lower_by` and `upper_by` are the requirements that
    do. `relation` is what epsilon is stated under (None: whichever; then every requirement holds for that one), `delta`
    what the accuracies spend with it, or where they spend none the most that may go with it. `currency` is what the
    accuracies are asked in.
    """

    requirements: tuple[Requirement, ...]
    relation: Relation | None
    neighbors: Neighbors | None
    delta: float
    lower: float
    upper: float
    lower_by: Requirement | None
    upper_by: Requirement | None
    conflict: Conflict | None
    currency: Literal["epsilon", "rho"] = "epsilon"

    @property
    def epsilon(self) -> float | None:
        """The choice: the lower end where there is one (no more than accuracy needs), else the upper; None in conflict."""
        if self.conflict is not None:
            return None
        if self.lower > 0:
            return self.lower
        return _finite(self.upper)

    @property
    def rho(self) -> Fraction | None:
        """The choice in rho: the largest that implies (epsilon, delta); None where the accuracies are asked in epsilon."""
        return rho_for(self.epsilon, Fraction(repr(self.delta))) if self.currency == "rho" and self.epsilon else None

    def sentence(self) -> str:
        """Return the choice with its reasons, for a report."""
        if self.conflict is not None:
            words = self.conflict.describe()
            return words[0].upper() + words[1:] + "."
        if self.epsilon is None:
            return "These requirements bound epsilon at neither end: any meets them."
        under = "the relation that the loss is stated for" if self.relation is None else self.relation.replace("_", "/")
        protects = under if self.neighbors is None else self.neighbors.describe()
        least = _format_epsilon(self.lower, up=True)
        if float(least) > self.upper:
            least = repr(self.lower)  # the interval is too narrow to round in
        chosen = least if self.lower > 0 else _format_epsilon(self.epsilon, up=False)
        sentences = [f"Epsilon {chosen} ({protects}; {self._describe_delta()}) {self._meets()}"]
        if self.lower_by is not None:
            sentences.append(f"At least {least}: {self._because(self.lower_by)}")
        if self.upper_by is not None:
            sentences.append(f"At most {_format_epsilon(self.upper, up=False)}: {self._because(self.upper_by)}")
        return ". ".join(sentences) + "."

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON data; null where there is no bound."""
        conflict = self.conflict
        return {
            "schema": 1,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": None if self.rho is None else float(self.rho),
            "lower": self.lower or None,
            "upper": _finite(self.upper),
            "relation": self.relation,
            "privacy_unit": None if self.neighbors is None else self.neighbors.to_dict()["privacy_unit"],
            "lower_by": None if self.lower_by is None else self.lower_by.kind,
            "upper_by": None if self.upper_by is None else self.upper_by.kind,
            "conflict": None
            if conflict is None
            else {"needs": conflict.needs.kind, "allows": conflict.allows.kind, "smallest_n": conflict.smallest_n},
            "requirements": [r.to_dict() for r in self.requirements],
            "sentence": self.sentence(),
        }

    def __str__(self) -> str:
        return self.sentence()

    def _meets(self) -> str:
        several = {1: "the requirement", 2: "both requirements"}.get(
            len(self.requirements), f"all {len(self.requirements)} requirements"
        )
        rule = "the least that does" if self.lower > 0 else "the most that does"
        return f"meets {several}, and is {rule}"

    def _describe_delta(self) -> str:
        if not self.delta:
            return "delta 0"
        if self.rho is not None:
            return f"delta {self.delta:g}: rho {_format_epsilon(float(self.rho), up=self.lower > 0)}"
        return f"delta {'' if any(r.spends for r in self.requirements) else 'at most '}{self.delta:g}"

    def _because(self, by: Requirement) -> str:
        questions = {r.question for r in self.requirements if r.question is not None and r.lower > 0}
        added = (
            f", with {len(questions)} questions whose costs add up"
            if by is self.lower_by and len(questions) > 1
            else ""
        )
        turned = ""
        if by.relation == "replace" and self.relation == "add_remove":
            turned = f"; {by.upper:.6g} under replace, which epsilon under add/remove counts twice for"
        return f"{_words(by.kind)}: {by.says}{added} ({by.source}{turned})"


def choose_epsilon(*, requirements: Sequence[Requirement]) -> Choice:
    """Return the interval of epsilon that meets all requirements, or the two that conflict.

    The choice is the lower end, the least epsilon that meets the accuracy asked for, where there is one; else the upper
    end. It is stated under the relation of the accuracies, else under add_remove where any requirement needs that, else
    under replace. An upper bound e proved for replace becomes e / 2 under add_remove; one proved for add_remove bounds
    nothing under replace. Lower bounds of different questions add up (sequential composition: epsilon and delta, or
    rho at one delta), those of one question do not. Raises DeclarationError for no requirements, accuracies under
    different relations, units or currencies, a bound that cannot be converted, and an accuracy that spends more delta
    than another requirement allows: those that read pure epsilon bound nothing for Gaussian noise.

    >>> from sordino.lab.risk.requirements import posterior, relative
    >>> made = choose_epsilon(requirements=[posterior(prior=0.5, most=0.75), relative(ratio=3)])
    >>> round(made.epsilon, 6), made.upper_by.kind
    (0.549306, 'relative')
    """
    given = tuple(requirements) if isinstance(requirements, (list, tuple)) else ()
    if not given or not all(isinstance(r, Requirement) for r in given):
        raise DeclarationError(
            "requirements must be a list of one or more of risk.disclosure(...), posterior, test_power, advantage, gain, "
            "relative, economic, identifiability and accuracy"
        )
    neighbors = _neighbors(given)
    relation = _relation(given, neighbors)
    spent = _spent(given)
    lower, lower_by = _lower(given)
    upper, upper_by = math.inf, None
    for r in given:
        if (most := _upper(r, relation)) < upper:
            upper, upper_by = most, r
    delta = float(spent) or min((r.delta for r in given if r.delta is not None), default=0.0)
    conflict = None
    if lower > upper and lower_by is not None and upper_by is not None:
        conflict = Conflict(lower_by, upper_by, lower, upper, _rows(given, lower, lower_by, relation))
    currency: Literal["epsilon", "rho"] = "epsilon" if lower_by is None else lower_by.currency
    return Choice(given, relation, neighbors, delta, lower, upper, lower_by, upper_by, conflict, currency)


def _neighbors(given: Sequence[Requirement]) -> Neighbors | None:
    stated = [r.neighbors for r in given if r.neighbors is not None]
    if any(n != stated[0] for n in stated):
        raise DeclarationError(
            "accuracies must be asked under one neighbor relation and privacy unit, not "
            f"{stated[0].describe()} and {next(n for n in stated if n != stated[0]).describe()}"
        )
    return stated[0] if stated else None


def _relation(given: Sequence[Requirement], neighbors: Neighbors | None) -> Relation | None:
    proved = {r.relation for r in given if r.relation is not None}
    if neighbors is not None:
        for r in given:
            if r.relation == "add_remove" and neighbors.relation == "replace":
                raise DeclarationError(
                    f"{r.kind} is proved for add_remove, of which an epsilon under replace says nothing: state the "
                    'accuracy with neighbors="add_remove", whose epsilon counts twice under replace'
                )
        return neighbors.relation
    if "add_remove" in proved:
        return "add_remove"
    return "replace" if proved else None


def _upper(requirement: Requirement, relation: Relation | None) -> float:
    """Return the upper bound on epsilon under `relation`: halved where it is proved for replace."""
    if requirement.relation == "replace" and relation == "add_remove":
        return requirement.upper / 2
    return requirement.upper


def _spent(given: Sequence[Requirement]) -> Fraction:
    """Return the delta that all questions spend together; refuse more than every requirement allows."""
    hardest = _hardest(given)
    if len({(r.currency, r.spends if r.currency == "rho" else None) for r in hardest}) > 1:
        raise DeclarationError("accuracies must be asked in one currency: all in epsilon, or all in rho at one delta")
    each = [r.spends for r in hardest]
    total = max(each, default=Fraction(0)) if hardest and hardest[0].currency == "rho" else sum(each, Fraction(0))
    for r in given:
        if r.delta is not None and total > Fraction(repr(float(r.delta))):
            spent = format_number(total)
            raise DeclarationError(
                f"the accuracy spends delta {spent}, and {_words(r.kind)} allows {r.delta:g}: it would bound nothing; "
                f"state test_power(..., delta={spent}) or advantage(..., delta={spent}), which read a "
                "delta, or ask the accuracy at delta 0"
            )
    return total


def _rows(given: Sequence[Requirement], lower: float, needs: Requirement, relation: Relation | None) -> int | None:
    """Return the fewest rows at which `needs` fits into what the others leave of their upper bounds.

    Its own upper bound, which moves with the rows, is its own `rows_for`'s affair.
    """
    most = min((_upper(r, relation) for r in given if r is not needs), default=math.inf)
    hardest = _hardest(given)
    if needs.currency == "rho" and len(hardest) > 1:
        others = sum((rho_for(r.lower, r.spends) for r in hardest if r is not needs), Fraction(0))
        left = rho_for(most, needs.spends) - others
        spare = epsilon_of(left, needs.spends) * (1 - 1e-9) if left > 0 else 0.0
    else:
        spare = most - (lower - needs.lower)
    return None if needs.rows_for is None or spare <= 0 else needs.rows_for(spare)


def _hardest(given: Sequence[Requirement]) -> list[Requirement]:
    """Return the hardest lower bound of each question."""
    hardest: dict[str, Requirement] = {}
    for r in given:
        if r.lower > 0 and r.question is not None:
            before = hardest.get(r.question)
            hardest[r.question] = r if before is None or r.lower > before.lower else before
    return list(hardest.values())


def _lower(given: Sequence[Requirement]) -> tuple[float, Requirement | None]:
    """Return the least epsilon for all questions together, and the requirement with the largest share in it."""
    hardest = _hardest(given)
    if not hardest:
        return 0.0, None
    each = [r.lower for r in hardest]
    by = max(hardest, key=lambda r: r.lower)
    if len(each) == 1:
        return each[0], by
    if by.currency == "rho":
        cost = sum((rho_for(r.lower, r.spends) for r in hardest), Fraction(0))
        return round_epsilon_up(epsilon_of(cost, by.spends), lambda epsilon: rho_for(epsilon, by.spends) >= cost), by
    return math.nextafter(math.fsum(each), math.inf), by


def round_epsilon_up(start: float, holds: Callable[[float], bool]) -> float:
    """Return `start`, or the nearest float above it (in doubling steps of its last place) at which a bound holds."""
    found, step = start, math.ulp(start)
    while not holds(found):
        found, step = found + step, 2 * step
    return found


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _format_epsilon(value: float, *, up: bool) -> str:
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return f"{Context(prec=_SHOWN, rounding=rounding).create_decimal(Decimal(value)).normalize():g}"
