"""Requirements on epsilon, and the choice that meets all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

from sordino.core.accounting.belief import (
    epsilon_for_advantage,
    epsilon_for_gain,
    epsilon_for_identification,
    epsilon_for_posterior,
    epsilon_for_power,
)
from sordino.core.accounting.zcdp import epsilon_of, rho_for
from sordino.core.arguments import amount, chance, whole
from sordino.core.domain import Domain
from sordino.core.errors import DeclarationError, arg
from sordino.core.loss import ZCDP, ApproxDP, Loss, Number, format_number, to_fraction
from sordino.core.neighbors import Neighbors, PrivacyUnit, Relation, neighbors_from
from sordino.lab.risk.participation import (
    epsilon_for_cost,
    epsilon_for_relative,
    epsilon_for_study,
    people_for_accuracy,
    people_for_study,
)
from sordino.lab.risk.precision import Currency, Precision, precision_of

# ---- Requirements on epsilon taken together: the interval that meets them all, or the two that conflict and what
# would help
#
# It may not know data, or where a requirement came from: each is a lower or an upper bound with the relation that it is
# proved for. Bounds are converted one way only: add_remove at epsilon implies replace at 2 epsilon, never the reverse.

# Digits of an epsilon in a sentence; it is rounded towards the inside of the interval.
_SHOWN = 6


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
            # The interval is too narrow to round in.
            least = repr(self.lower)
        stated = least if self.lower > 0 else _format_epsilon(self.epsilon, up=False)
        sentences = [f"Epsilon {stated} ({protects}; {self._describe_delta()}) {self._meets()}"]
        if self.lower_by is not None:
            sentences.append(f"At least {least}: {self._because(self.lower_by)}")
        if self.upper_by is not None:
            sentences.append(f"At most {_format_epsilon(self.upper, up=False)}: {self._because(self.upper_by)}")
        return ". ".join(sentences) + "."

    def reason(self) -> str:
        """Return why this epsilon was chosen, in a board's words: what each end is for, without proofs and noise."""
        if self.epsilon is None:
            return self.sentence()
        stated = _format_epsilon(self.lower, up=True) if self.lower > 0 else _format_epsilon(self.epsilon, up=False)
        sentences = [f"Epsilon {stated} {self._meets()}"]
        if self.lower_by is not None:
            sentences.append(f"It is no lower, so that {self.lower_by.says}")
        if self.upper_by is not None:
            sentences.append(
                f"It is no higher than {_format_epsilon(self.upper, up=False)}, so that {self.upper_by.says}"
            )
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

    >>> from sordino.lab.risk.requirement_choice import posterior, relative
    >>> made = choose_epsilon(requirements=[posterior(prior=0.5, most=0.75), relative(ratio=3)])
    >>> round(made.epsilon, 6), made.upper_by.kind
    (0.549306, 'relative')
    """
    stated = tuple(requirements) if isinstance(requirements, (list, tuple)) else ()
    if not stated or not all(isinstance(r, Requirement) for r in stated):
        raise DeclarationError(
            "requirements must be a list of one or more of risk.disclosure(...), posterior, test_power, advantage, gain, "
            "relative, economic, identifiability and accuracy"
        )
    neighbors = _neighbors(stated)
    relation = _relation(stated, neighbors)
    spent = _spent(stated)
    lower, lower_by = _lower(stated)
    upper = math.inf
    upper_by = None
    for r in stated:
        if (most := _upper(r, relation)) < upper:
            upper = most
            upper_by = r
    delta = float(spent) or min((r.delta for r in stated if r.delta is not None), default=0.0)
    conflict = None
    if lower > upper and lower_by is not None and upper_by is not None:
        conflict = Conflict(lower_by, upper_by, lower, upper, _rows(stated, lower, lower_by, relation))
    currency: Literal["epsilon", "rho"] = "epsilon" if lower_by is None else lower_by.currency
    return Choice(stated, relation, neighbors, delta, lower, upper, lower_by, upper_by, conflict, currency)


def _neighbors(requirements: Sequence[Requirement]) -> Neighbors | None:
    stated = [r.neighbors for r in requirements if r.neighbors is not None]
    if any(n != stated[0] for n in stated):
        raise DeclarationError(
            "accuracies must be asked under one neighbor relation and privacy unit, not "
            f"{stated[0].describe()} and {next(n for n in stated if n != stated[0]).describe()}"
        )
    return stated[0] if stated else None


def _relation(requirements: Sequence[Requirement], neighbors: Neighbors | None) -> Relation | None:
    proved = {r.relation for r in requirements if r.relation is not None}
    if neighbors is not None:
        for r in requirements:
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


def _spent(requirements: Sequence[Requirement]) -> Fraction:
    """Return the delta that all questions spend together; refuse more than every requirement allows."""
    hardest = _hardest(requirements)
    if len({(r.currency, r.spends if r.currency == "rho" else None) for r in hardest}) > 1:
        raise DeclarationError("accuracies must be asked in one currency: all in epsilon, or all in rho at one delta")
    each = [r.spends for r in hardest]
    total = max(each, default=Fraction(0)) if hardest and hardest[0].currency == "rho" else sum(each, Fraction(0))
    for r in requirements:
        if r.delta is not None and total > Fraction(repr(float(r.delta))):
            spent = format_number(total)
            raise DeclarationError(
                f"the accuracy spends delta {spent}, and {_words(r.kind)} allows {r.delta:g}: it would bound nothing; "
                f"state test_power(..., delta={spent}) or advantage(..., delta={spent}), which read a "
                "delta, or ask the accuracy at delta 0"
            )
    return total


def _rows(
    requirements: Sequence[Requirement], lower: float, needs: Requirement, relation: Relation | None
) -> int | None:
    """Return the fewest rows at which `needs` fits into what the others leave of their upper bounds.

    Its own upper bound, which moves with the rows, is its own `rows_for`'s affair.
    """
    most = min((_upper(r, relation) for r in requirements if r is not needs), default=math.inf)
    hardest = _hardest(requirements)
    if needs.currency == "rho" and len(hardest) > 1:
        others = sum((rho_for(r.lower, r.spends) for r in hardest if r is not needs), Fraction(0))
        left = rho_for(most, needs.spends) - others
        spare = epsilon_of(left, needs.spends) * (1 - 1e-9) if left > 0 else 0.0
    else:
        spare = most - (lower - needs.lower)
    return None if needs.rows_for is None or spare <= 0 else needs.rows_for(spare)


def _hardest(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Return the hardest lower bound of each question."""
    hardest: dict[str, Requirement] = {}
    for r in requirements:
        if r.lower > 0 and r.question is not None:
            before = hardest.get(r.question)
            hardest[r.question] = r if before is None or r.lower > before.lower else before
    return list(hardest.values())


def _lower(requirements: Sequence[Requirement]) -> tuple[float, Requirement | None]:
    """Return the least epsilon for all questions together, and the requirement with the largest share in it."""
    hardest = _hardest(requirements)
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
    value = start
    step = math.ulp(start)
    while not holds(value):
        value = value + step
        step = 2 * step
    return value


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _format_epsilon(value: float, *, up: bool) -> str:
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return f"{Context(prec=_SHOWN, rounding=rounding).create_decimal(Decimal(value)).normalize():g}"


# ---- What people ask of a release, as requirements on epsilon: each a bound, the relation it is proved for, its source
#
# It may not know data, engines or ledgers. A reading that holds for any relation takes `neighbors=` where the person means
# one; left out, it is about whichever relation the loss is stated for.

_SEMANTICS = "Kasiviswanathan & Smith 2014"
_REGIONS = "Wasserman & Zhou 2010; Kairouz, Oh, Viswanath 2015"


class Disclosing(Protocol):
    """What `disclosure` reads: an attacker's possible worlds."""

    def epsilon_for(self, *, risk: Any) -> float:
        """Return the largest epsilon at which no world's posterior passes `risk`; math.inf where none can."""


@runtime_checkable
class Planned(Protocol):
    """What `accuracy` reads of a plan: the question, over what, for whom, and what it is asked in."""

    question: Any
    domain: Domain
    neighbors: Neighbors
    asked: Loss


def disclosure(*, worlds: Disclosing, risk: Number) -> Requirement:
    """Require that no possible world's posterior passes `risk`, for the query and attacker of `worlds` (risk.Worlds).

    An upper bound, `worlds.epsilon_for(risk=risk)`, for that query's own Laplace noise under add_remove. Raises
    DeclarationError unless 0 < risk < 1, and what `worlds` raises where the risk cannot be had. Lee & Clifton 2011; the
    source says whether it comes of the exact risk or of the closed-form bound.

    >>> class Two:
    ...     def epsilon_for(self, *, risk): return 0.525149687269512
    >>> disclosure(worlds=Two(), risk="1/3").upper
    0.525149687269512
    """
    limit = chance(risk, name="risk")
    if not callable(getattr(worlds, "epsilon_for", None)):
        raise DeclarationError("worlds must be a risk.Worlds(...), or another object with epsilon_for(risk=...)")
    bound = worlds.epsilon_for(risk=limit)
    if not isinstance(bound, (int, float)) or not bound >= 0:
        raise DeclarationError(f"worlds.epsilon_for must return an epsilon of 0 or more, not {bound!r}")
    says = f"an attacker who weighs possible worlds gives none of them a probability above {_share(limit)}, from that one answer"
    how = getattr(worlds, "method", None)
    source = "Lee & Clifton 2011" if how is None else f"Lee & Clifton 2011, {how}"
    return Requirement("disclosure", says, source, "add_remove", upper=float(bound))


def posterior(*, prior: Number, most: Number, neighbors: Relation | None = None) -> Requirement:
    """Require that a hypothesis about one unit, of probability `prior` before, has at most `most` after.

    An upper bound, `epsilon_for_posterior`. Raises DeclarationError unless 0 < prior < most < 1.
    Kasiviswanathan & Smith 2014.

    >>> round(posterior(prior=0.5, most=0.75).upper, 6)
    1.098612
    """
    bound = epsilon_for_posterior(most, prior=prior)
    before = chance(prior, name="prior")
    after = chance(most, name="most")
    says = f"a suspicion of {_share(before)} never rises above {_share(after)}"
    return Requirement("posterior", says, _SEMANTICS, _check_relation(neighbors), upper=bound)


def test_power(
    *,
    level: Number,
    most: Number,
    delta: Number = 0,  # noqa: PT028  # a requirement, not a pytest test
    neighbors: Relation | None = None,  # noqa: PT028
) -> Requirement:
    """Require that no test with false-alarm rate `level` detects more than `most` of the time.

    An upper bound, `epsilon_for_power`, at a total delta of at most `delta`. Raises DeclarationError unless
    level + delta < most < 1. Wasserman & Zhou 2010; Kairouz, Oh, Viswanath 2015.

    >>> round(test_power(level=0.05, most=0.25).upper, 6)
    1.609438
    """
    bound = epsilon_for_power(most, level=level, delta=delta)
    says = (
        f"no test with {_share(chance(level, name='level'))} false alarms detects more than "
        f"{_share(chance(most, name='most'))}"
    )
    slack = chance(delta, name="delta", zero=True)
    return Requirement("test_power", says, _REGIONS, _check_relation(neighbors), upper=bound, delta=slack)


def advantage(*, most: Number, delta: Number = 0, neighbors: Relation | None = None) -> Requirement:
    """Require that detections exceed false alarms by at most `most`, whatever the test.

    An upper bound, `epsilon_for_advantage`, at a total delta of at most `delta`. Raises DeclarationError unless
    delta < most < 1. Kairouz, Oh, Viswanath 2015.

    >>> round(advantage(most=0.5).upper, 6)
    1.098612
    """
    bound = epsilon_for_advantage(most, delta=delta)
    says = f"no test detects more often than it gives false alarms by over {_share(chance(most, name='most'))}"
    slack = chance(delta, name="delta", zero=True)
    return Requirement("advantage", says, _REGIONS, _check_relation(neighbors), upper=bound, delta=slack)


def gain(*, most: Number, neighbors: Relation | None = None) -> Requirement:
    """Require that no suspicion, whatever it was before, rises by more than `most`.

    An upper bound, `epsilon_for_gain`. Raises DeclarationError unless 0 < most < 1. Kasiviswanathan & Smith 2014.

    >>> round(gain(most=0.25).upper, 6)
    1.021651
    """
    says = f"no suspicion rises by more than {_share(chance(most, name='most'))}"
    return Requirement("gain", says, _SEMANTICS, _check_relation(neighbors), upper=epsilon_for_gain(most))


def relative(
    *, ratio: Number, prior: Number | None = None, participation: Number | None = None, tolerated: Number = 0
) -> Requirement:
    """Require that a disclosure about a person becomes at most `ratio` times as likely through the release.

    An upper bound under add_remove, `epsilon_for_relative`, over all priors and participations not given; posteriors up
    to `tolerated` are of no concern. Raises as that does. Kazan & Reiter 2024.

    >>> round(relative(ratio=3).upper, 6)
    0.549306
    """
    bound = epsilon_for_relative(ratio, prior=prior, participation=participation, tolerated=tolerated)
    times = amount(ratio, name="ratio")
    spared = chance(tolerated, name="tolerated", zero=True)
    says = f"a disclosure about a person becomes at most {times:g} times as likely"
    if spared:
        says += f", unless its probability stays within {_share(spared)}"
    return Requirement("relative", says, "Kazan & Reiter 2024", "add_remove", upper=bound)


def accuracy(
    *,
    error: Number,
    confidence: Number,
    query: object,
    n: int | None = None,
    domain: Domain | None = None,
    neighbors: Relation | None = None,
    privacy_unit: str | PrivacyUnit | None = None,
    delta: Number = 0,
    currency: Currency = "epsilon",
) -> Requirement:
    """Require that the answer to `query` is within `error` with probability `confidence`, by its expected error.

    A lower bound: the least epsilon at which the error of the question's own mechanism is within `error`, in the
    question's unit. At delta 0 that is Laplace noise at pure epsilon; at a `delta` above it whichever of Laplace and the
    Gaussian errs less; with currency="rho" the Gaussian at the largest rho that implies (epsilon, delta).

    `query` has one aggregate, in Python or SQL, and then `domain`, `neighbors` and `privacy_unit` are stated too; or it
    is a plan, `table.plan(...)`, which knows all of them and what it is asked in. `n`, a public guess at the rows (of
    each group), is needed for a mean, whose error is the most for any mean within the bounds. Raises DeclarationError
    where any of these is missing or the error cannot be had, QuestionRefused where there is no private answer.

    >>> from sordino.core.domain import Integer
    >>> adult = Domain({"age": Integer(0, 125)})
    >>> asked = dict(query="SELECT AVG(age) FROM adult", domain=adult, neighbors="add_remove", privacy_unit="row")
    >>> round(accuracy(error=0.5, confidence=0.95, n=32561, **asked).lower, 6)
    0.023001
    >>> round(accuracy(error=0.5, confidence=0.95, n=32561, delta="1e-6", currency="rho", **asked).lower, 6)
    0.057407
    """
    if isinstance(query, Planned):
        if domain is not None or neighbors is not None or privacy_unit is not None:
            raise DeclarationError("a plan knows its domain, neighbors and privacy_unit: leave them out")
        precision = _plan_precision(query, confidence, delta)
    else:
        if domain is None or neighbors is None or privacy_unit is None:
            raise DeclarationError(
                f"state domain=, neighbors= and privacy_unit= with the query, or give a plan: {arg('query=')}table.plan(...)"
            )
        near = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
        precision = precision_of(
            query, domain=domain, neighbors=near, confidence=confidence, delta=delta, currency=currency
        )
    return accuracy_of(precision, error, n=n)


def accuracy_of(found: Precision, error: Number, *, n: int | None = None) -> Requirement:
    """Require that a question whose precision is known is within `error`; `n` as in `accuracy`."""
    limit = amount(error, name="error")
    rows = None if n is None else whole(n, name="n", least=1)
    guess = f" of {rows:,} rows" if found.needs_rows and rows is not None else ""
    return Requirement(
        "accuracy",
        f"{found.question.describe()}{guess} is within {limit:g} with probability {_share(found.confidence)}",
        f"the error of {found.noise()}, {found.neighbors.describe()}",
        found.neighbors.relation,
        lower=found.epsilon_for(limit, rows=rows),
        delta=None,
        neighbors=found.neighbors,
        question=found.question.identity(),
        rows_for=(lambda epsilon: found.rows_for(limit, epsilon=epsilon)) if found.needs_rows else None,
        spends=found.delta,
        currency=found.currency,
    )


def for_questions(requirement: Requirement, questions: int) -> Requirement:
    """Require of each of so many questions what `requirement` requires of one: their losses add up (sequential composition).

    Epsilons and deltas add up, or rhos at one delta. Raises DeclarationError unless `questions` is a whole number, 1 or more,
    and where their deltas come to 1.

    >>> one = Requirement("accuracy", "a count is within 3", "", "add_remove", lower=0.25, question="a count")
    >>> for_questions(one, 4).lower
    1.0
    """
    count = whole(questions, name="questions", least=1)
    if count == 1:
        return requirement
    spends = requirement.spends
    rows_for = requirement.rows_for
    in_rho = requirement.currency == "rho"
    if in_rho:
        cost = rho_for(requirement.lower, spends) * count
        lower = round_epsilon_up(epsilon_of(cost, spends), lambda epsilon: rho_for(epsilon, spends) >= cost)
    else:
        exact = Fraction(requirement.lower) * count
        lower = float(exact) if Fraction(float(exact)) >= exact else math.nextafter(float(exact), math.inf)
        if spends * count >= 1:
            raise DeclarationError(
                f"{count:,} questions spend delta {format_number(spends * count)} together: state less"
            )

    def rows_for_each(epsilon: float) -> int | None:
        assert rows_for is not None
        if math.isinf(epsilon):
            return rows_for(epsilon)
        share = epsilon_of(rho_for(epsilon, spends) / count, spends) * (1 - 1e-9) if in_rho else epsilon / count
        return rows_for(share)

    return replace(
        requirement,
        says=f"each of {count:,} questions such as {requirement.says}",
        lower=lower,
        spends=spends if in_rho else spends * count,
        rows_for=None if rows_for is None else rows_for_each,
    )


def economic(
    *, people: int, budget: Number, cost: Number, error: Number | None = None, failure: Number | None = None
) -> Requirement:
    """Require that `budget` pays `people` for taking part, each of whom expects to lose `cost` without it.

    An upper bound under add_remove, `epsilon_for_cost`; with `error` (a share of the people) and `failure` also a lower
    bound, for a count whose noise passes that with that probability at most, `epsilon_for_study`. `budget` and `cost` in
    one unit. Raises DeclarationError for figures out of range and for one of error and failure alone. Hsu et al. 2014.

    >>> made = economic(people=1000, budget=10_000, cost=20, error=0.01, failure=0.05)
    >>> round(made.lower, 6), round(made.upper, 6)
    (0.284349, 0.405465)
    """
    if (error is None) != (failure is None):
        raise DeclarationError("error, a share of the people, and failure, its probability, are stated together")
    most = epsilon_for_cost(budget, people=people, cost=cost)
    says = f"{amount(budget, name='budget'):g} pays {people:,} people, who each expect to lose {amount(cost, name='cost'):g}"
    if error is None or failure is None:
        return Requirement("economic", says, "Hsu et al. 2014", "add_remove", upper=most)
    share = chance(error, name="error")
    miss = chance(failure, name="failure")
    paid = people_for_study(error, failure=failure, budget=budget, cost=cost)

    def rows_for(epsilon: float) -> int | None:
        if paid is None or math.isinf(epsilon):
            return paid
        return max(paid, people_for_accuracy(error, failure=failure, epsilon=epsilon))

    return Requirement(
        "economic",
        f"{says}, for a count within {_share(share)} of them with probability {_share(1 - miss)}",
        "Hsu et al. 2014",
        "add_remove",
        lower=epsilon_for_study(error, people=people, failure=failure),
        upper=most,
        question=f"a count of {people} people, by Hsu et al. 2014",
        rows_for=rows_for,
    )


def identifiability(*, risk: Number, candidates: int) -> Requirement:
    """Require that none of `candidates` people is identified as the one in the table with a posterior above `risk`.

    An upper bound under replace (one candidate in the place of another), `epsilon_for_identification`; half of it under
    add_remove. Raises DeclarationError unless 1 / candidates < risk < 1. Lee & Clifton 2012.

    >>> round(identifiability(risk="1/3", candidates=8).upper, 6)
    1.252763
    """
    bound = epsilon_for_identification(risk, candidates=candidates)
    says = f"none of {candidates:,} candidates is identified with more than {_share(chance(risk, name='risk'))}"
    return Requirement("identifiability", says, "Lee & Clifton 2012", "replace", upper=bound)


def _check_relation(neighbors: object) -> Relation | None:
    if neighbors is None:
        return None
    return neighbors_from(neighbors=neighbors, privacy_unit="row").relation  # type: ignore[arg-type]  # checked there


def _share(value: float) -> str:
    return f"{100 * value:.6g}%"


def _plan_precision(plan: Planned, confidence: Number, delta: Number) -> Precision:
    """Return the Precision of a plan's question in its own currency; the delta of a rho is stated by it or beside it."""
    stated = to_fraction(delta, name="delta")
    loss = plan.asked
    plan_delta = loss.delta if isinstance(loss, ApproxDP) else Fraction(0)
    if isinstance(loss, ZCDP):
        plan_delta = stated or loss.delta or stated
    elif stated not in (0, plan_delta):
        raise DeclarationError(
            f"the plan is asked at delta {format_number(plan_delta)}, not {format_number(stated)}: leave delta out"
        )
    return precision_of(
        plan.question,
        domain=plan.domain,
        neighbors=plan.neighbors,
        confidence=confidence,
        delta=plan_delta,
        currency="rho" if isinstance(loss, ZCDP) else "epsilon",
    )
