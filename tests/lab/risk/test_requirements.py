"""Requirements taken together: the interval, its binding ends, the conflicts and what reconciles them, the relations."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mistyping import mistype
from planning import allocation_of
from sordino.ask.curator.aggregation_procedure import plan_aggregation
from sordino.ask.curator.plan import Plan, TableContext
from sordino.ask.queries.build import Selection, as_aggregation, count, histogram, mean
from sordino.ask.queries.build import sum as total
from sordino.ask.queries.expressions.expr import col
from sordino.ask.queries.sql.parse import sql
from sordino.core.accounting.zcdp import rho_for
from sordino.core.domain import Boolean, Domain, Integer, Real
from sordino.core.loss import ZCDP, ApproxDP, PureDP
from sordino.core.mechanisms.additive_noise import Laplace, gaussian_for_rho
from sordino.core.neighbors import Neighbors, PrivacyUnit
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError, QuestionRefused
from sordino.lab.risk import requirement_choice as risk
from sordino.lab.risk.precision import precision_of
from sordino.lab.risk.requirement_choice import Choice, Requirement, choose_epsilon
from sordino.lab.risk.worlds import Worlds

ADULT = Domain({"age": Integer(0, 125), "income": Real(-5, 20, resolution="0.01"), "member": Boolean()})
MEAN = "SELECT AVG(age) FROM adult"


class Answering:
    """Stands in for Worlds."""

    def __init__(self, epsilon: object) -> None:
        self.epsilon = epsilon

    def epsilon_for(self, *, risk: object) -> Any:
        assert isinstance(risk, float)
        return self.epsilon


def asked(query: object = MEAN, **changed: Any) -> Requirement:
    """Return the accuracy of a question; each is a search of forty plans, made once for all tests that state the same."""
    try:
        return _search(query, tuple(changed.items()))
    except TypeError:
        # Some that are refused are not hashable.
        return _search.__wrapped__(query, tuple(changed.items()))


@functools.cache
def _search(query: object, changed: tuple[tuple[str, Any], ...]) -> Requirement:
    given: dict[str, Any] = {
        "error": 0.5,
        "confidence": 0.95,
        "domain": ADULT,
        "neighbors": "add_remove",
        "privacy_unit": "row",
        "n": 32561,
    }
    return risk.accuracy(query=query, **(given | dict(changed)))


def check(choice: Choice) -> None:
    """The interval meets every requirement, and its ends are tight."""
    assert choice.conflict is None
    for r in choice.requirements:
        factor = 2 if (r.relation, choice.relation) == ("replace", "add_remove") else 1
        assert factor * choice.upper <= r.upper
        assert r.lower <= choice.lower
    json.dumps(choice.to_dict(), allow_nan=False)


@pytest.mark.deep
def test_accuracy_and_risk_make_an_interval_and_the_choice_is_its_lower_end() -> None:
    made = choose_epsilon(requirements=[asked(), risk.posterior(prior=0.5, most=0.75), risk.relative(ratio=3)])
    check(made)
    assert made.epsilon == made.lower == pytest.approx(0.0230009234)
    assert made.upper == pytest.approx(math.log(3) / 2)
    assert (made.lower_by, made.upper_by) == (made.requirements[0], made.requirements[2])
    assert made.relation == "add_remove"
    words = made.sentence()
    for part in (
        "0.023001",
        "0.549306",
        "the mean of age of 32,561 rows is within 0.5",
        "Kazan & Reiter 2024",
        "one row",
    ):
        assert part in words


def test_without_accuracy_the_choice_is_the_upper_end() -> None:
    made = choose_epsilon(requirements=[risk.posterior(prior=0.5, most=0.75), risk.test_power(level=0.05, most=0.25)])
    check(made)
    assert made.epsilon == made.upper == pytest.approx(math.log(3))
    assert (made.lower, made.lower_by, made.relation) == (0.0, None, None)
    assert "the most that does" in made.sentence()


@pytest.mark.parametrize(
    ("requirement", "upper", "relation"),
    [
        (risk.posterior(prior=0.5, most=0.75), math.log(3), None),
        (risk.posterior(prior=0.5, most=0.75, neighbors="replace"), math.log(3), "replace"),
        (risk.test_power(level=0.05, most=0.25), math.log(5), None),
        (risk.test_power(level=0.05, most=0.25, delta=0.05), math.log(4), None),
        (risk.advantage(most=0.5), math.log(3), None),
        (risk.gain(most=0.5), 4 * math.atanh(0.5), None),
        (risk.relative(ratio=3), math.log(3) / 2, "add_remove"),
        (risk.relative(ratio=3, prior=1, tolerated=0.25), 1.2992830, "add_remove"),
        (risk.economic(people=100, budget=1000, cost=20), math.log(1.5), "add_remove"),
        (risk.identifiability(risk="1/3", candidates=8), math.log(3.5), "replace"),
        (risk.disclosure(worlds=Answering(0.525149687269512), risk="1/3"), 0.525149687269512, "add_remove"),
    ],
)
def test_each_requirement_alone(requirement: Requirement, upper: float, relation: str | None) -> None:
    made = choose_epsilon(requirements=[requirement])
    check(made)
    assert made.epsilon == requirement.upper == pytest.approx(upper, rel=1e-6)
    assert made.relation == requirement.relation == relation
    assert made.upper_by is requirement
    assert requirement.source in made.sentence()


def test_a_bound_under_replace_is_halved_under_add_remove() -> None:
    both = [risk.identifiability(risk="1/3", candidates=8), risk.relative(ratio=6)]
    made = choose_epsilon(requirements=both)
    check(made)
    assert made.upper == pytest.approx(math.log(3.5) / 2)
    assert made.upper_by is both[0]
    assert "which epsilon under add/remove counts twice for" in made.sentence()


def test_a_bound_under_add_remove_says_nothing_under_replace() -> None:
    with pytest.raises(DeclarationError, match="relative is proved for add_remove"):
        choose_epsilon(requirements=[asked(neighbors="replace"), risk.relative(ratio=3)])
    kept = choose_epsilon(requirements=[asked(neighbors="replace"), risk.identifiability(risk="1/3", candidates=8)])
    check(kept)
    assert (kept.relation, kept.upper) == ("replace", kept.requirements[1].upper)


def test_a_risk_that_no_epsilon_reaches_bounds_nothing() -> None:
    never = risk.disclosure(worlds=Answering(math.inf), risk=0.9)
    made = choose_epsilon(requirements=[never])
    assert (made.epsilon, made.upper, made.upper_by) == (None, math.inf, None)
    assert "any meets them" in made.sentence()
    assert choose_epsilon(requirements=[never, asked()]).epsilon == asked().lower
    json.dumps(made.to_dict(), allow_nan=False)


@pytest.mark.deep
def test_a_conflict_names_the_two_and_the_smallest_n() -> None:
    given = [risk.gain(most=0.9), asked(n=1000), risk.relative(ratio=1.5), risk.posterior(prior=0.01, most=0.5)]
    made = choose_epsilon(requirements=given)
    assert made.conflict is not None
    assert (made.epsilon, made.conflict.needs, made.conflict.allows) == (None, given[1], given[2])
    n = made.conflict.smallest_n
    assert n is not None
    check(choose_epsilon(requirements=[given[0], asked(n=n), *given[2:]]))
    assert choose_epsilon(requirements=[asked(n=n - 1), *given[2:]]).conflict is not None
    assert f"from {n:,} rows on" in made.sentence()
    assert made.to_dict()["conflict"] == {"needs": "accuracy", "allows": "relative", "smallest_n": n}


def test_no_number_of_rows_helps_a_count() -> None:
    made = choose_epsilon(requirements=[asked(count(), error=3), risk.relative(ratio=1.5)])
    assert made.conflict is not None
    assert made.conflict.smallest_n is None
    assert made.sentence().endswith("ask for less of either.")


@pytest.mark.deep
def test_questions_add_up_and_the_same_question_does_not() -> None:
    one, two = asked(count(), error=50), asked()
    assert choose_epsilon(requirements=[one, asked(count(), error=100)]).lower == one.lower
    assert choose_epsilon(requirements=[two, asked(mean("age"), error=1)]).lower == two.lower
    made = choose_epsilon(requirements=[one, two])
    assert made.lower == pytest.approx(one.lower + two.lower)
    assert made.lower >= one.lower + two.lower
    assert made.lower_by is one
    assert "2 questions whose costs add up" in made.sentence()


@pytest.mark.deep
def test_questions_that_only_conflict_together_are_reconciled_by_rows() -> None:
    top = risk.posterior(prior=0.5, most=0.52)  # 0.080043
    given = [asked(count(), error=100), asked(n=12_000), top]
    made = choose_epsilon(requirements=given)
    assert made.conflict is not None
    n = made.conflict.smallest_n
    assert n is not None
    check(choose_epsilon(requirements=[given[0], asked(n=n), top]))
    assert choose_epsilon(requirements=[given[0], asked(n=n - 1), top]).conflict is not None


def test_an_economic_study_bounds_both_ends_and_names_the_people() -> None:
    def study(people: int) -> Requirement:
        return risk.economic(people=people, budget=10_000, cost=20, error=0.01, failure=0.05)

    made = choose_epsilon(requirements=[study(1000)])
    check(made)
    assert made.epsilon == pytest.approx(0.284349, abs=1e-6)  # 2 q^11 / (1 + q) = .05
    for others in ([], [risk.posterior(prior=0.5, most=0.55)]):
        small = choose_epsilon(requirements=[study(60), *others])
        assert small.conflict is not None
        n = small.conflict.smallest_n
        assert n is not None
        check(choose_epsilon(requirements=[study(n), *others]))
        assert choose_epsilon(requirements=[study(n - 1), *others]).conflict is not None
    poor = choose_epsilon(requirements=[risk.economic(people=100, budget=5000, cost=20, error=0.01, failure=0.05)])
    assert poor.conflict is not None
    assert poor.conflict.smallest_n is None


def test_delta_is_the_least_that_every_requirement_allows() -> None:
    power = risk.test_power(level=0.05, most=0.25, delta=0.001)
    assert choose_epsilon(requirements=[power, asked()]).delta == 0.001
    assert choose_epsilon(requirements=[power, risk.gain(most=0.5)]).delta == 0


def test_a_narrow_interval_is_not_rounded_out_of() -> None:
    lower = asked().lower
    top = Requirement("cap", "no more", "a test", None, upper=math.nextafter(lower, 1))
    made = choose_epsilon(requirements=[asked(), top])
    assert made.conflict is None
    assert repr(made.epsilon) in made.sentence()


@pytest.mark.each(19)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("unit", ["row", PrivacyUnit("member", max_rows=3)])
@pytest.mark.parametrize(
    ("query", "error"),
    [
        (count(), 3),
        (count("income"), 40),
        (total("income"), 12.5),
        (mean("income"), 0.25),
        (histogram("age", width=10), 20),
        (Selection().where(col("age") > 30).agg(count()), 9),
        (sql(MEAN), 0.5),
    ],
)
def test_accuracy_is_the_plans_error_inverted(query: object, error: float, neighbors: Any, unit: Any) -> None:
    """At the epsilon returned the plan of the same question errs within `error`; 1e-6 below it does not."""
    made = asked(query, error=error, neighbors=neighbors, privacy_unit=unit, n=1000)
    near = Neighbors(neighbors, None if unit == "row" else unit)
    found = precision_of(query, domain=ADULT, neighbors=near, confidence=0.95)

    def planned(epsilon: float) -> float:
        plan = plan_aggregation(
            found.question if not isinstance(query, type(count())) else as_aggregation(query),
            TableContext("adult", ADULT, near, PureDP(10**7), ""),
            asked=PureDP(epsilon),
            assume_rows=1000,
            assume_mean=None,
        )
        return float(plan.error(0.95))

    if made.lower == 0:  # the number of rows is no secret under replace
        assert planned(1e-6) == 0
        return
    assert planned(made.lower) <= error
    assert planned(made.lower * (1 - 1e-6)) > error


@pytest.mark.each(30)
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("delta", ["1e-6", "1/20"])
@pytest.mark.parametrize(
    ("query", "error"),
    [(count(), 3), (total("income"), 12.5), (mean("income"), 0.25), (histogram("age", width=10), 20)],
)
def test_accuracy_with_gaussian_noise_is_the_plans_error_inverted(
    query: object, error: float, delta: str, currency: Any
) -> None:
    """At the epsilon returned, with its delta or as rho, the plan errs within `error`; 1e-6 below it does not."""
    made = asked(query, error=error, n=1000, delta=delta, currency=currency)
    assert (made.spends, made.currency, made.delta) == (Fraction(delta), currency, None)
    near = Neighbors("add_remove", None)
    found = precision_of(query, domain=ADULT, neighbors=near, confidence=0.95, delta=delta, currency=currency)

    def planned(epsilon: float) -> Plan:
        return plan_aggregation(
            found.question,
            TableContext(
                "adult", ADULT, near, ApproxDP(10**7, "1/2") if currency == "epsilon" else ZCDP(10**7, "1/2"), ""
            ),
            asked=ApproxDP(epsilon, delta) if currency == "epsilon" else ZCDP(rho_for(epsilon, delta)),
            assume_rows=1000,
            assume_mean=None,
        )

    told_at = delta if currency == "rho" else 0  # a plan in epsilon knows its delta
    assert risk.accuracy(error=error, confidence=0.95, query=planned(1), n=1000, delta=told_at) == made
    if made.lower == 0:  # the delta alone is enough
        assert planned(1e-6).error(0.95) <= error
        return
    assert planned(made.lower).error(0.95) <= error
    assert planned(made.lower * (1 - 1e-6)).error(0.95) > error


def test_gaussian_noise_errs_within_what_was_asked() -> None:
    """Played: 5 standard errors, a false alarm in 1.7 million."""
    draws = 100_000
    made = asked(histogram("age", width=10), error=20, delta="1e-6", currency="rho", privacy_unit="row")
    noise = gaussian_for_rho(l2_squared=Fraction(1), rho=rho_for(made.lower, "1e-6")).law.sample(Rng.seeded(8), draws)
    assert np.mean(np.abs(noise) <= 20) >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / draws)


def test_rho_adds_up_and_epsilon_at_a_delta_too() -> None:
    power = risk.test_power(level=0.05, most=0.5, delta="2e-6")
    for currency in ("rho", "epsilon"):
        gaussian: dict[str, Any] = {"delta": "1e-6", "currency": currency}
        one, two = asked(count(), error=50, **gaussian), asked(**gaussian)
        made = choose_epsilon(requirements=[one, two, power])
        check(made)
        if currency == "epsilon":
            assert made.lower == pytest.approx(one.lower + two.lower)
            assert (made.delta, made.rho) == (2e-6, None)
        else:
            both = rho_for(one.lower, "1e-6") + rho_for(two.lower, "1e-6")
            assert made.rho is not None
            assert both <= made.rho <= both * (1 + Fraction(1, 10**9))
            assert made.lower < one.lower + two.lower
            assert made.delta == 1e-6
        assert "1e-06" in made.sentence() or "2e-06" in made.sentence()
    tight = [
        one,
        asked(n=3000, delta="1e-6", currency="epsilon"),
        risk.test_power(level=0.05, most=0.0667, delta="2e-6"),
    ]
    assert choose_epsilon(requirements=tight).conflict is not None


@pytest.mark.deep
def test_rows_reconcile_questions_in_rho() -> None:
    gaussian: dict[str, Any] = {"delta": "1e-6", "currency": "rho"}
    given = [asked(count(), error=200, **gaussian), asked(n=3000, **gaussian)]
    top = risk.test_power(level=0.05, most=0.1, delta="1e-6")
    made = choose_epsilon(requirements=[*given, top])
    assert made.conflict is not None
    n = made.conflict.smallest_n
    assert n is not None
    check(choose_epsilon(requirements=[given[0], asked(n=n, **gaussian), top]))
    assert choose_epsilon(requirements=[given[0], asked(n=n - 1, **gaussian), top]).conflict is not None


def test_readings_of_pure_epsilon_bound_nothing_for_gaussian_noise() -> None:
    gaussian = asked(delta="1e-6")
    for reading in (risk.posterior(prior=0.5, most=0.75), risk.gain(most=0.5), risk.relative(ratio=3)):
        with pytest.raises(DeclarationError, match=r"spends delta 1e-6.*allows 0.*test_power\(..., delta=1e-6\)"):
            choose_epsilon(requirements=[gaussian, reading])
    with pytest.raises(DeclarationError, match="allows 1e-07"):
        choose_epsilon(requirements=[gaussian, risk.advantage(most=0.5, delta="1e-7")])
    for other in (asked(count(), error=50), asked(count(), error=50, delta="1e-7", currency="rho")):
        with pytest.raises(DeclarationError, match="one currency"):
            choose_epsilon(requirements=[asked(delta="1e-6", currency="rho"), other])


def test_accuracy_is_kept_by_the_mechanism_itself() -> None:
    """Played: counts and means within the error asked, 95% of the time. False-alarm rate 6e-7 (5 standard errors)."""
    draws, rng = 100_000, Rng.seeded(7)
    few = 5 * math.sqrt(0.95 * 0.05 / draws)
    epsilon = asked(count(), error=50).lower
    noise = Laplace(l1=Fraction(1), epsilon=Fraction(epsilon)).law.sample(rng, draws)
    assert np.mean(np.abs(noise) <= 50) >= 0.95 - few
    rows, law = 32561, Laplace(l1=Fraction(125), epsilon=Fraction(asked().lower)).law
    above, below = 125 * rows + law.sample(rng, draws), law.sample(rng, draws)
    off = 125 * above / (above + below) - 125  # every age 125, the farthest mean from the middle
    assert np.mean(np.abs(off) <= 0.5) == pytest.approx(0.95, abs=few + 2e-3)  # first order in counts / rows


def both(**one: Any) -> list[Requirement]:
    return [asked(count(), error=50), asked(count(), error=50, **one)]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: choose_epsilon(requirements=[]), "requirements must be a list"),
        (lambda: choose_epsilon(requirements=[mistype(0.5)]), "requirements must be a list"),
        (lambda: asked(n=None), "give n, a public guess"),
        (lambda: asked(n=0), "n must be a whole number, 1 or more"),
        (lambda: asked(error=0), "error must be above 0"),
        (lambda: asked(confidence=1), "confidence must lie in"),
        (lambda: asked(delta=1), "delta must lie in"),
        (lambda: asked(delta=-1), "delta must lie in"),
        (lambda: asked(currency="rho"), "state delta=, such as 1e-6"),
        (lambda: asked(currency="mu", delta="1e-6"), '"epsilon" or "rho"'),
        (lambda: asked(domain=None), "state domain=, neighbors= and privacy_unit="),
        (lambda: asked(neighbors="swap"), "neighbors must be"),
        (lambda: asked(privacy_unit="user"), "privacy_unit must be"),
        (lambda: asked([count(), mean("age")]), "asked of one aggregate, not of 2"),
        (lambda: asked(domain={"age": 1}), "domain must be a Domain"),
        (lambda: choose_epsilon(requirements=both(neighbors="replace")), "one neighbor relation"),
        (
            lambda: choose_epsilon(requirements=both(privacy_unit=PrivacyUnit("age", max_rows=2))),
            "one neighbor relation",
        ),
        (lambda: risk.disclosure(worlds=mistype(3), risk=0.5), "worlds must be a risk.Worlds"),
        (lambda: risk.disclosure(worlds=Answering(None), risk=0.5), "must return an epsilon"),
        (lambda: risk.disclosure(worlds=Answering(1.0), risk=1.5), "risk must lie in"),
        (lambda: risk.posterior(prior=0.5, most=0.4), "anything above 0.5"),
        (lambda: risk.posterior(prior=0.5, most=0.6, neighbors=mistype("both")), "neighbors must be"),
        (lambda: risk.economic(people=5, budget=1, cost=1, error=0.1), "stated together"),
        (lambda: risk.identifiability(risk=0.1, candidates=8), "anything above 0.125"),
    ],
)
def test_bad_requirements_are_refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        call()


def test_what_has_no_private_answer_is_refused_as_a_question() -> None:
    with pytest.raises(QuestionRefused, match="no bounded sensitivity"):
        asked(mean("open"), domain=Domain({"open": Integer()}))


@pytest.mark.parametrize("column", ["sum", "mean"])
def test_how_the_docs_read_an_epsilon_of_worlds_into_a_curators(column: str) -> None:
    """The curator's epsilon = the worlds' x declared sensitivity / Df (a mean: both its sums move, so half of it)."""
    days = Domain({"days": Integer(0, 31)})
    universe, size = [1, 2, 3, 10], 3
    worlds = Worlds(universe, size=size, query="sum")
    declared = Fraction(31, 1 if column == "sum" else 2)
    epsilon = worlds.epsilon_for(risk=1 / 3) * declared / worlds.sensitivity

    def worst(epsilon: float) -> float:
        plan = plan_aggregation(
            as_aggregation(total("days") if column == "sum" else mean("days")),
            # under a cap on rho the noise is that of Laplace at every epsilon
            TableContext("school", days, Neighbors("add_remove", None), ZCDP(10), ""),
            asked=PureDP(epsilon),
            assume_rows=size,
            assume_mean=None,
        )
        laws = [p.mechanism.law for p in allocation_of(plan).vectors[0]]
        signs = [1] if column == "sum" else [1, -1]  # of the total in each vector; the rest is the same in every world
        exact = [sum(table) for table in worlds.worlds]
        weights = np.array([[1.0] * len(exact)])
        for law, sign in zip(laws, signs, strict=True):
            assert isinstance(law, DiscreteLaplace)
            odds = [[math.exp(-abs(x - sign * f) / float(law.scale)) for f in exact] for x in range(-60, 60, 2)]
            weights = (weights[:, None, :] * np.array(odds)[None]).reshape(-1, len(exact))
        return float((weights / weights.sum(axis=1, keepdims=True)).max())

    assert worst(epsilon * (1 - 1e-9)) <= 1 / 3 < worst(epsilon * (1 + 1e-9))
