"""What people ask of a release, as requirements on epsilon: each a bound, the relation it is proved for, its source.

It may not know data, engines or ledgers. A reading that holds for any relation takes `neighbors=` where the person means
one; left out, it is about whichever relation the loss is stated for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from sordino.core.accounting.hypotheses import (
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
from sordino.lab.risk.requirement_choice import Requirement, round_epsilon_up

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
    found = worlds.epsilon_for(risk=limit)
    if not isinstance(found, (int, float)) or not found >= 0:
        raise DeclarationError(f"worlds.epsilon_for must return an epsilon of 0 or more, not {found!r}")
    says = f"an attacker who weighs possible worlds gives none of them a probability above {_share(limit)}, from that one answer"
    how = getattr(worlds, "method", None)
    source = "Lee & Clifton 2011" if how is None else f"Lee & Clifton 2011, {how}"
    return Requirement("disclosure", says, source, "add_remove", upper=float(found))


def posterior(*, prior: Number, most: Number, neighbors: Relation | None = None) -> Requirement:
    """Require that a hypothesis about one unit, of probability `prior` before, has at most `most` after.

    An upper bound, `epsilon_for_posterior`. Raises DeclarationError unless 0 < prior < most < 1.
    Kasiviswanathan & Smith 2014.

    >>> round(posterior(prior=0.5, most=0.75).upper, 6)
    1.098612
    """
    found = epsilon_for_posterior(most, prior=prior)
    before, after = chance(prior, name="prior"), chance(most, name="most")
    says = f"a suspicion of {_share(before)} never rises above {_share(after)}"
    return Requirement("posterior", says, _SEMANTICS, _check_relation(neighbors), upper=found)


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
    found = epsilon_for_power(most, level=level, delta=delta)
    says = (
        f"no test with {_share(chance(level, name='level'))} false alarms detects more than "
        f"{_share(chance(most, name='most'))}"
    )
    slack = chance(delta, name="delta", zero=True)
    return Requirement("test_power", says, _REGIONS, _check_relation(neighbors), upper=found, delta=slack)


def advantage(*, most: Number, delta: Number = 0, neighbors: Relation | None = None) -> Requirement:
    """Require that detections exceed false alarms by at most `most`, whatever the test.

    An upper bound, `epsilon_for_advantage`, at a total delta of at most `delta`. Raises DeclarationError unless
    delta < most < 1. Kairouz, Oh, Viswanath 2015.

    >>> round(advantage(most=0.5).upper, 6)
    1.098612
    """
    found = epsilon_for_advantage(most, delta=delta)
    says = f"no test detects more often than it gives false alarms by over {_share(chance(most, name='most'))}"
    slack = chance(delta, name="delta", zero=True)
    return Requirement("advantage", says, _REGIONS, _check_relation(neighbors), upper=found, delta=slack)


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
    found = epsilon_for_relative(ratio, prior=prior, participation=participation, tolerated=tolerated)
    times, spared = amount(ratio, name="ratio"), chance(tolerated, name="tolerated", zero=True)
    says = f"a disclosure about a person becomes at most {times:g} times as likely"
    if spared:
        says += f", unless its probability stays within {_share(spared)}"
    return Requirement("relative", says, "Kazan & Reiter 2024", "add_remove", upper=found)


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
        found = _plan_precision(query, confidence, delta)
    else:
        if domain is None or neighbors is None or privacy_unit is None:
            raise DeclarationError(
                f"state domain=, neighbors= and privacy_unit= with the query, or give a plan: {arg('query=')}table.plan(...)"
            )
        near = neighbors_from(neighbors=neighbors, privacy_unit=privacy_unit)
        found = precision_of(
            query, domain=domain, neighbors=near, confidence=confidence, delta=delta, currency=currency
        )
    return accuracy_of(found, error, n=n)


def accuracy_of(found: Precision, error: Number, *, n: int | None = None) -> Requirement:
    """Require that a question whose precision is known is within `error`; `n` as in `accuracy`."""
    limit, rows = amount(error, name="error"), None if n is None else whole(n, name="n", least=1)
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
    spends, rows_for = requirement.spends, requirement.rows_for
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
    share, miss = chance(error, name="error"), chance(failure, name="failure")
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
    found = epsilon_for_identification(risk, candidates=candidates)
    says = f"none of {candidates:,} candidates is identified with more than {_share(chance(risk, name='risk'))}"
    return Requirement("identifiability", says, "Lee & Clifton 2012", "replace", upper=found)


def _check_relation(neighbors: object) -> Relation | None:
    if neighbors is None:
        return None
    return neighbors_from(neighbors=neighbors, privacy_unit="row").relation  # type: ignore[arg-type]  # checked there


def _share(value: float) -> str:
    return f"{100 * value:.6g}%"


def _plan_precision(plan: Planned, confidence: Number, delta: Number) -> Precision:
    """Return the Precision of a plan's question in its own currency; the delta of a rho is stated by it or beside it."""
    stated, asked = to_fraction(delta, name="delta"), plan.asked
    own = asked.delta if isinstance(asked, ApproxDP) else Fraction(0)
    if isinstance(asked, ZCDP):
        own = stated or asked.delta or stated
    elif stated not in (0, own):
        raise DeclarationError(
            f"the plan is asked at delta {format_number(own)}, not {format_number(stated)}: leave delta out"
        )
    return precision_of(
        plan.question,
        domain=plan.domain,
        neighbors=plan.neighbors,
        confidence=confidence,
        delta=own,
        currency="rho" if isinstance(asked, ZCDP) else "epsilon",
    )
