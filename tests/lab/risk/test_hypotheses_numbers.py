"""Every printed number of the readings of epsilon, named by row and source; every inverse; every refusal at the door."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import pytest

from gaussian_tradeoff import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_power,
    mu_for_loss,
    mu_for_power,
    mu_for_rho,
)
from published import rows_of
from sordino.ask.queries.build import count
from sordino.core.accounting.belief import (
    advantage_bound,
    epsilon_for_advantage,
    epsilon_for_gain,
    epsilon_for_identification,
    epsilon_for_posterior,
    epsilon_for_power,
    epsilon_for_tables,
    posterior_bounds,
    power_bound,
    tables_bound,
)
from sordino.core.domain import Domain, Integer
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.errors import DeclarationError
from sordino.lab.risk.participation import (
    epsilon_for_cost,
    epsilon_for_relative,
    epsilon_for_study,
    people_for_accuracy,
    people_for_study,
    relative_bound,
    study_failure,
)
from sordino.lab.risk.requirement_choice import accuracy

READINGS = "readings_of_epsilon"
EPSILONS = (1e-9, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0)
PRIORS = (1e-9, 0.01, 0.3, 0.5, 0.9)


def close(value: float, printed: float) -> bool:
    return value == pytest.approx(printed, rel=1e-6)


@pytest.mark.parametrize(*rows_of(READINGS, "posterior_at_even_odds"))
def test_two_hypotheses_at_even_odds_kasiviswanathan_smith_2014(epsilon: float, printed: float) -> None:
    least, most = posterior_bounds(epsilon, prior=0.5)
    assert round(most, 4) == printed
    assert least == pytest.approx(1 - most, rel=1e-12)


@pytest.mark.parametrize(*rows_of(READINGS, "posterior_at_one_percent"))
def test_two_hypotheses_at_prior_one_percent_kasiviswanathan_smith_2014(epsilon: float, printed: float) -> None:
    assert close(posterior_bounds(epsilon, prior=0.01)[1], printed)


def gain_at(epsilon: float, prior: float) -> float:
    return posterior_bounds(epsilon, prior=prior)[1] - prior


def test_no_prior_rises_by_more_than_is_tolerated() -> None:
    where = 0.37754067
    gain = gain_at(1, where)
    assert close(gain, 0.24491866)
    assert epsilon_for_gain(gain) == pytest.approx(1, rel=1e-9)
    for prior in (where - 0.01, where + 0.01):
        assert gain_at(1, prior) < gain


@pytest.mark.parametrize(*rows_of(READINGS, "power_at_five_percent"))
def test_power_at_five_percent_wasserman_zhou_2010(epsilon: float, printed: float) -> None:
    assert close(power_bound(epsilon, level=0.05), printed)


def test_power_with_delta_kairouz_2015() -> None:
    assert power_bound(1, level=0.05, delta=0.01) == pytest.approx(0.05 * math.e + 0.01)
    assert power_bound(1, level=0.6, delta=0.01) == pytest.approx(1 - (1 - 0.01 - 0.6) / math.e)
    assert power_bound(0, level=0.05, delta=0.01) == pytest.approx(0.06)


@pytest.mark.parametrize(*rows_of(READINGS, "advantage"))
def test_total_variation_advantage_kairouz_2015(epsilon: float, printed: float) -> None:
    assert advantage_bound(epsilon) == pytest.approx(printed, abs=5e-8)


@pytest.mark.deep
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0.05), (0.5, 0.0), (2, 1e-3)])
def test_the_advantage_is_the_largest_power_less_level(epsilon: float, delta: float) -> None:
    levels = [i / 10_000 for i in range(1, 10_000)]
    best = max(power_bound(epsilon, level=a, delta=delta) - a for a in levels)
    assert best <= advantage_bound(epsilon, delta=delta) * (1 + 1e-12)
    assert best == pytest.approx(advantage_bound(epsilon, delta=delta), abs=3e-4)


@pytest.mark.parametrize(*rows_of(READINGS, "relative_risk_constant"))
def test_relative_risk_constant_kazan_reiter_2024(ratio: float, printed: float) -> None:
    assert round(epsilon_for_relative(ratio), 2) == printed
    assert close(epsilon_for_relative(ratio), math.log(ratio) / 2)


@pytest.mark.parametrize(*rows_of(READINGS, "relative_risk_profile"))
def test_relative_risk_profile_kazan_reiter_2024(ratio: float, printed: float) -> None:
    assert close(epsilon_for_relative(ratio, prior=1, tolerated=0.25), printed)


def test_differential_identifiability_lee_clifton_2012() -> None:
    universe, known = set(range(1, 11)), (1, 3)
    candidates = universe - set(known)
    means = [(sum(known) + i) / 3 for i in candidates]
    assert len(candidates) == 8
    assert max(means) - min(means) == pytest.approx(8 / 3)
    assert max((sum((2, 3)) + i) / 3 for i in universe - {2, 3}) - (2 + 3 + 1) / 3 == pytest.approx(3)  # another D'
    assert close(epsilon_for_identification("1/3", candidates=8), math.log(3.5))
    scale = 8 / 3 / epsilon_for_identification("1/3", candidates=8)
    assert close(scale, 2.128628267)


@pytest.mark.parametrize(("people", "size"), [(4, 3), (5, 2), (7, 4), (2, 1)])
def test_d9_all_tables_after_any_releases_by_enumeration(people: int, size: int) -> None:
    """Randomized response a person reaches the bound: its odds between two tables are e^epsilon for each step."""
    tables = [set(t) for t in itertools.combinations(range(people), size)]
    for epsilon in (0.01, 0.4, 2.0):
        weights = [math.exp(-epsilon * len(tables[0] ^ t)) for t in tables]
        exact = weights[0] / sum(weights)
        assert tables_bound(epsilon, people=people, size=size) == pytest.approx(exact, rel=1e-12)
        back = epsilon_for_tables(exact, people=people, size=size)
        assert back == pytest.approx(epsilon, rel=1e-9)
        prior = [i + 1 for i in range(len(tables))]
        after = max(
            prior[i] / sum(p * math.exp(-epsilon * len(tables[i] ^ t)) for p, t in zip(prior, tables, strict=True))
            for i in range(len(tables))
        )
        heaviest = prior[-1] / sum(prior)
        assert after <= tables_bound(epsilon, people=people, size=size, heaviest=heaviest) * (1 + 1e-12)
    assert epsilon_for_tables("1/3", people=4, size=3) == pytest.approx(math.log(1.5) / 2)
    assert tables_bound(0.5, people=10**6, size=500_000) <= 1


def test_economic_hsu_2014() -> None:
    assert close(epsilon_for_cost(1000, people=100, cost=20), math.log(1.5))


@pytest.mark.parametrize(
    ("people", "error", "failure", "continuous", "true"),
    [(299, "0.01", 0.05, 1.00192, 0.072), (99, "0.0302", 0.2, 0.5383, 0.251), (300, "0.01", 0.05, 0.998577, None)],
)
def test_d3_a_study_fails_by_the_discrete_law_of_its_count(
    people: int, error: str, failure: float, continuous: float, true: float | None
) -> None:
    """Finding D3: e^(-T n eps) is of continuous noise; of the count's own, n = 299, T = 1% failed 7.2% for 5%."""
    if true is not None:
        assert study_failure(continuous, error=error, people=people) == pytest.approx(true, abs=1e-3)
    found = epsilon_for_study(error, people=people, failure=failure)
    assert study_failure(found, error=error, people=people) <= failure
    assert study_failure(found * (1 - 1e-12), error=error, people=people) > failure
    law = Laplace(l1=Fraction(1), epsilon=Fraction(found)).law
    within = math.floor(Fraction(error) * people)
    assert law.tail(within) == pytest.approx(failure, rel=1e-9)  # P(|Z| > T n)
    domain = Domain({"x": Integer(0, 1)})
    asked = accuracy(
        error=Fraction(error) * people,
        confidence=str(1 - failure),
        query=count(),
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
    )
    assert found == pytest.approx(asked.lower, rel=1e-8)  # the two readings agree


def test_the_fewest_people_of_a_study() -> None:
    n = people_for_study(0.01, failure=0.05, budget=10_000, cost=20)
    assert n is not None

    def feasible(people: int) -> bool:
        least = epsilon_for_study(0.01, people=people, failure=0.05)
        return least <= epsilon_for_cost(10_000, people=people, cost=20)

    assert all(feasible(people) for people in range(n, n + 500))
    assert not feasible(n - 1)
    assert people_for_study(0.01, failure=0.05, budget=5_000, cost=20) is None  # 299.6 > 250


@pytest.mark.parametrize("studies", [5, pytest.param(14, marks=pytest.mark.deep)])
def test_the_fewest_people_of_random_studies(studies: int) -> None:
    """From that number on every size is enough, and the size before is not: looked for one by one."""
    draw = random.Random(3)
    for _ in range(studies):
        error, failure = Fraction(draw.randint(5, 400), 1000), draw.choice([0.01, 0.05, 0.3])
        budget = draw.uniform(1.05, 5) * -math.log(failure) / error
        n = people_for_study(error, failure=failure, budget=budget, cost=1)
        assert n is not None
        wrong = [
            people
            for people in range(max(1, n - 3), n + 200)
            if epsilon_for_study(error, people=people, failure=failure)
            > epsilon_for_cost(budget, people=people, cost=1)
        ]
        assert max(wrong, default=0) == n - 1
        epsilon = draw.uniform(0.05, 3)
        n = people_for_accuracy(error, failure=failure, epsilon=epsilon)
        assert all(study_failure(epsilon, error=error, people=p) <= failure for p in range(n, n + 200))
        assert n == 1 or study_failure(epsilon, error=error, people=n - 1) > failure


@pytest.mark.parametrize(*rows_of(READINGS, "gaussian_power"))
def test_gaussian_power_dong_roth_su_2022(mu: float, printed: float) -> None:
    assert gaussian_power(mu, level=0.05) == pytest.approx(printed, abs=5e-8)


def test_gaussian_formulas_dong_roth_su_2022() -> None:
    assert gaussian_power(0, level=0.05) == pytest.approx(0.05)
    phi = [0.5 * math.erfc(-x / math.sqrt(2)) for x in (-0.5, -1.5)]
    assert gaussian_delta(1, mu=1) == pytest.approx(phi[0] - math.e * phi[1], rel=1e-12)
    assert gaussian_delta(0, mu=1) == pytest.approx(2 * (0.5 * math.erfc(-0.5 / math.sqrt(2))) - 1)
    assert mu_for_rho(2) == 2


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.01, 0.3), (1, 0.25), (1, 0.1), (5, 1), (10, 4), (100, 5), (700, 30), (2, 9)]
)
def test_gaussian_delta_is_its_integral(epsilon: float, mu: float) -> None:
    """delta = integral of phi(u + t) (1 - e^(-mu t)) over t > 0, u = eps/mu - mu/2: no term is subtracted."""
    integrate = pytest.importorskip("scipy.integrate")
    u = epsilon / mu - mu / 2

    def density(t: float) -> float:
        return -math.expm1(-mu * t) * math.exp(-((u + t) ** 2) / 2) / math.sqrt(2 * math.pi)

    start, end = max(0.0, -u - 10), max(0.0, -u) + 40
    parts = [integrate.quad(density, x, x + 1, epsabs=0, epsrel=1e-12)[0] for x in range(int(start), int(end))]
    assert gaussian_delta(epsilon, mu=mu) == pytest.approx(math.fsum(parts), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1, 4, 20])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
def test_gaussian_inverses(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(delta, mu=mu)
    assert gaussian_delta(epsilon, mu=mu) <= delta
    if epsilon:
        assert gaussian_delta(epsilon * (1 - 1e-9), mu=mu) > delta
        assert mu_for_loss(epsilon, delta=delta) == pytest.approx(mu, rel=1e-7)
    most = gaussian_power(mu, level=0.05)
    if most < 1:
        assert gaussian_power(mu_for_power(most, level=0.05), level=0.05) <= most
        assert mu_for_power(most, level=0.05) == pytest.approx(mu, rel=1e-3 if mu > 5 else 1e-7)


def inverse_holds(forward: Callable[[float], float], inverse: Callable[[float], float], epsilon: float) -> None:
    limit = forward(epsilon)
    if limit >= 1:
        return
    found = inverse(limit)
    assert forward(found) <= limit
    assert found == pytest.approx(epsilon, rel=1e-6) or forward(epsilon * (1 - 1e-6)) == limit  # flat to a float
    assert forward(found * (1 + 1e-9) + 1e-15) >= limit


@pytest.mark.parametrize("epsilon", [e for e in EPSILONS if e > 1e-6])
@pytest.mark.parametrize("p", PRIORS)
def test_inverses_come_from_the_feasible_side(epsilon: float, p: float) -> None:
    inverse_holds(lambda e: posterior_bounds(e, prior=p)[1], lambda m: epsilon_for_posterior(m, prior=p), epsilon)
    inverse_holds(lambda e: power_bound(e, level=p), lambda m: epsilon_for_power(m, level=p), epsilon)
    d = 1e-3 if p < 0.9 else 0.0
    inverse_holds(lambda e: power_bound(e, level=p, delta=d), lambda m: epsilon_for_power(m, level=p, delta=d), epsilon)
    for q in (0.2, 1):
        forward = partial(relative_bound, prior=q, participation=p)
        limit = forward(epsilon)
        if limit > 1:
            found = epsilon_for_relative(limit, prior=q, participation=p)
            assert forward(found) <= limit
            assert found == pytest.approx(epsilon, rel=1e-6) or epsilon > 5


@pytest.mark.parametrize("epsilon", [e for e in EPSILONS if e > 1e-6])
def test_inverses_without_a_prior(epsilon: float) -> None:
    inverse_holds(lambda e: math.tanh(e / 4), epsilon_for_gain, epsilon)
    for d in (0.0, 1e-3):
        inverse_holds(partial(advantage_bound, delta=d), partial(epsilon_for_advantage, delta=d), epsilon)
    inverse_holds(
        lambda e: posterior_bounds(e, prior=1 / 50)[1],
        lambda m: epsilon_for_identification(m, candidates=50),
        epsilon,
    )
    found = epsilon_for_cost(3 * math.expm1(epsilon), people=1, cost=3)
    assert found == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.each(9)
@pytest.mark.parametrize("ratio", [1.01, 1.5, 6])
@pytest.mark.parametrize("tolerated", [0, 0.1, 0.25])
def test_relative_risk_is_the_worst_over_what_is_not_known(ratio: float, tolerated: float) -> None:
    """Against a grid: at the epsilon returned the bound holds at every point, and just above it, it fails at one."""
    for prior, participation in ((None, None), (None, 1), (None, 0.6), (0.3, None), (1, None), (0.05, None)):
        steps = 60 if prior is None and participation is None else 200
        grid = [i / steps for i in range(1, steps + 1)]
        points = [
            (q, p)
            for q in (grid if prior is None else [prior])
            for p in (grid if participation is None else [participation])
        ]
        epsilon = epsilon_for_relative(ratio, prior=prior, participation=participation, tolerated=tolerated)

        def worst(eps: float, points: list[tuple[float, float]] = points) -> float:
            found = (relative_bound(eps, prior=q, participation=p) / max(tolerated / (q * p), ratio) for q, p in points)
            return max(found)

        if math.isinf(epsilon):
            assert worst(50) <= 1
            continue
        assert worst(epsilon) <= 1 + 1e-12
        assert worst(epsilon * 1.1) > 1


def test_a_ratio_that_cannot_be_passed_is_unbounded() -> None:
    assert epsilon_for_relative(2, prior=0.5, participation=1) == math.inf


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: posterior_bounds(-1, prior=0.5), "epsilon must be at least 0"),
        (lambda: posterior_bounds(1, prior=0), r"prior must lie in \(0, 1\), not 0; the nearest that works: 1e-9"),
        (lambda: posterior_bounds(1, prior=1.2), "the nearest that works: 0.999"),
        (lambda: posterior_bounds(float("nan"), prior=0.5), "epsilon must be finite"),
        (lambda: epsilon_for_posterior(0.5, prior=0.5), "anything above 0.5"),
        (lambda: epsilon_for_posterior("a lot", prior=0.5), "most must be a number"),
        (lambda: epsilon_for_power(0.05, level=0.05), "anything above 0.05"),
        (lambda: epsilon_for_power(0.055, level=0.05, delta=0.01), "anything above 0.06"),
        (lambda: epsilon_for_advantage(0.01, delta=0.01), "anything above 0.01"),
        (lambda: epsilon_for_advantage(1), "most must lie in"),
        (lambda: epsilon_for_gain(0), "most must lie in"),
        (lambda: epsilon_for_identification(0.125, candidates=8), "anything above 0.125"),
        (lambda: epsilon_for_identification(0.5, candidates=1), "candidates must be a whole number, 2 or more"),
        (lambda: epsilon_for_relative(1), "ratio must be above 1, such as 1.5"),
        (lambda: epsilon_for_relative(2, prior=1.5), "prior must lie in"),
        (lambda: epsilon_for_cost(0, people=1, cost=1), "budget must be above 0"),
        (lambda: epsilon_for_cost(1, people=True, cost=1), "people must be a whole number"),
        (lambda: epsilon_for_study(1.5, people=5, failure=0.1), "error must lie in"),
        (lambda: gaussian_delta(1, mu=0), "mu must be above 0"),
        (lambda: mu_for_power(0.01, level=0.05), "anything above 0.05"),
    ],
)
def test_bad_figures_are_refused_with_the_nearest_that_works(call: Callable[[], object], says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        call()


def test_nothing_overflows() -> None:
    assert posterior_bounds(1e6, prior=1e-9) == (0.0, 1.0)
    assert power_bound(1e6, level=1e-9) == 1
    assert advantage_bound(1e6) == 1
    assert epsilon_for_cost(1e300, people=1, cost=1) == pytest.approx(math.log(1e300))
    assert relative_bound(1e6, prior=1e-9, participation=1) == pytest.approx(1e9)
    assert gaussian_delta(1e6, mu=1e-3) == 0
    assert gaussian_delta(1, mu=1e-9) == 0
