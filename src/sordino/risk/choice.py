"""Requirements on epsilon taken together: the interval that meets them all, or the two that conflict and what would help.

It may not know data, or where a requirement came from: each is a lower or an upper bound with the relation that it is
proved for. Bounds are converted one way only: add_remove at epsilon implies replace at 2 epsilon, never the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from sordino.errors import DeclarationError
from sordino.neighbors import Neighbors, Relation

__all__ = ["Choice", "Conflict", "Requirement", "choose_epsilon"]

_SHOWN = 6  # digits of an epsilon in a sentence; rounded towards the inside of the interval


@dataclass(frozen=True, slots=True)
class Requirement:
    """Bound epsilon from below, above, or both: what is asked in words, the relation it is proved for, its source.

    `relation` None: it holds for whichever relation the loss is stated for. `delta`: the most delta that it allows; None
    where it does not say. `question`: what has to be answered for the lower bound; the lower bounds of different
    questions add up, since each answer has its own cost. `rows_for`: the fewest rows (or people) for a given epsilon.
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
        told = (
            f"no epsilon meets all requirements: {_words(self.needs.kind)} ({self.needs.says}) needs at least "
            f"{_told(self.lower, up=True)}, and {_words(self.allows.kind)} ({self.allows.says}) allows at most "
            f"{_told(self.upper, up=False)}"
        )
        if self.smallest_n is None:
            return f"{told}; ask for less of either"
        return f"{told}; from {self.smallest_n:,} rows on both can be met"


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold the interval of epsilon that meets all requirements, or their conflict, under one relation.

    `lower` is 0 and `upper` infinite where nothing bounds that end; `lower_by` and `upper_by` are the requirements that
    do. `relation` is what epsilon is stated under (None: whichever; then every requirement holds for that one), `delta`
    the most that may go with it.
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

    @property
    def epsilon(self) -> float | None:
        """The choice: the lower end where there is one (no more than accuracy needs), else the upper; None in conflict."""
        if self.conflict is not None:
            return None
        if self.lower > 0:
            return self.lower
        return _finite(self.upper)

    def sentence(self) -> str:
        """Return the choice with its reasons, for a report."""
        if self.conflict is not None:
            words = self.conflict.describe()
            return words[0].upper() + words[1:] + "."
        if self.epsilon is None:
            return "These requirements bound epsilon at neither end: any meets them."
        under = "the relation that the loss is stated for" if self.relation is None else self.relation.replace("_", "/")
        protects = under if self.neighbors is None else self.neighbors.describe()
        least = _told(self.lower, up=True)
        if float(least) > self.upper:
            least = repr(self.lower)  # the interval is too narrow to round in
        chosen = least if self.lower > 0 else _told(self.epsilon, up=False)
        told = [f"Epsilon {chosen} ({protects}; {self._delta_told()}) {self._meets()}"]
        if self.lower_by is not None:
            told.append(f"At least {least}: {self._because(self.lower_by)}")
        if self.upper_by is not None:
            told.append(f"At most {_told(self.upper, up=False)}: {self._because(self.upper_by)}")
        return ". ".join(told) + "."

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON data; null where there is no bound."""
        conflict = self.conflict
        return {
            "schema": 1,
            "epsilon": self.epsilon,
            "delta": self.delta,
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

    def _delta_told(self) -> str:
        return f"delta at most {self.delta:g}" if self.delta else "delta 0"

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
    nothing under replace. Lower bounds of different questions add up (sequential composition), those of one question do
    not. Raises DeclarationError for no requirements, accuracies under different relations or units, and a bound that
    cannot be converted.

    >>> from sordino.risk.requirements import posterior, relative
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
    lower, lower_by = _lower(given)
    upper, upper_by = math.inf, None
    for r in given:
        if (most := _upper(r, relation)) < upper:
            upper, upper_by = most, r
    delta = min((r.delta for r in given if r.delta is not None), default=0.0)
    conflict = None
    if lower > upper and lower_by is not None and upper_by is not None:
        conflict = Conflict(lower_by, upper_by, lower, upper, _rows(given, lower, lower_by, relation))
    return Choice(given, relation, neighbors, delta, lower, upper, lower_by, upper_by, conflict)


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


def _rows(given: Sequence[Requirement], lower: float, needs: Requirement, relation: Relation | None) -> int | None:
    """Return the fewest rows at which `needs` fits into what the others leave of their upper bounds.

    Its own upper bound, which moves with the rows, is its own `rows_for`'s affair.
    """
    most = min((_upper(r, relation) for r in given if r is not needs), default=math.inf)
    spare = most - (lower - needs.lower)
    return None if needs.rows_for is None or spare <= 0 else needs.rows_for(spare)


def _lower(given: Sequence[Requirement]) -> tuple[float, Requirement | None]:
    """Return the least epsilon for all questions together, and the requirement with the largest share in it."""
    hardest: dict[str, Requirement] = {}
    for r in given:
        if r.lower > 0 and r.question is not None:
            before = hardest.get(r.question)
            hardest[r.question] = r if before is None or r.lower > before.lower else before
    if not hardest:
        return 0.0, None
    each = [r.lower for r in hardest.values()]
    total = each[0] if len(each) == 1 else math.nextafter(math.fsum(each), math.inf)
    return total, max(hardest.values(), key=lambda r: r.lower)


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _told(value: float, *, up: bool) -> str:
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return f"{Context(prec=_SHOWN, rounding=rounding).create_decimal(Decimal(value)).normalize():g}"
