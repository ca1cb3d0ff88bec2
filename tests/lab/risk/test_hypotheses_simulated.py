"""What the readings claim about mechanisms, played against our own discrete Laplace and discrete Gaussian noise.

Every comparison is with a seeded sample at 5 standard errors: a false-alarm rate of 6e-7 each, 2e-5 for this file.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gaussian_tradeoff import gaussian_delta, gaussian_power, mu_for_rho
from sordino.core.accounting.belief import (
    advantage_bound,
    epsilon_for_identification,
    posterior_bounds,
    power_bound,
)
from sordino.core.mechanisms.additive_noise import Laplace, gaussian_for_rho
from sordino.core.noise.rng import Rng
from sordino.lab.risk.participation import epsilon_for_study, relative_bound, study_failure

DRAWS = 200_000


def near(share: float, expected: float, *, draws: int = DRAWS) -> bool:
    return abs(share - expected) <= 5 * math.sqrt(expected * (1 - expected) / draws) + 1e-12


def power_of_best_test(nothing: Any, something: Any, score: Any, *, level: float, rng: Rng) -> tuple[float, float]:
    """Return the (false alarms, detections) of the likelihood-ratio test at `level`, drawn at random on its boundary.

    The boundary is set on one half of the draws under "nothing"; false alarms are counted on the other.
    """
    half = len(nothing) // 2
    train, rest = score(nothing[:half]), score(nothing[half:])
    edge = np.quantile(train, 1 - level, method="inverted_cdf")
    above, at = float(np.mean(train > edge)), float(np.mean(train == edge))
    chance = 0.0 if at == 0 else (level - above) / at

    def alarms(scores: Any) -> float:
        tossed = np.asarray(rng.uniform_doubles(len(scores))) < chance
        return float(np.mean((scores > edge) | ((scores == edge) & tossed)))

    return alarms(rest), alarms(score(something))


@pytest.mark.each(5)
@pytest.mark.parametrize(("epsilon", "level"), [(0.5, 0.05), (1.0, 0.05), (1.0, 0.2), (1.0, 0.6), (2.0, 0.02)])
@pytest.mark.parametrize("shift", [1, 3])
def test_power_of_the_likelihood_ratio_test_against_laplace(epsilon: float, level: float, shift: int) -> None:
    """The ratio of discrete Laplace noise is e^eps wherever x >= shift: there the bound is attained, not only kept."""
    law = Laplace(l1=Fraction(shift), epsilon=Fraction(epsilon)).law
    rng = Rng.seeded(41)
    nothing, something = law.sample(rng, DRAWS), law.sample(rng, DRAWS) + shift
    alarms, detected = power_of_best_test(
        nothing, something, lambda x: np.abs(x) - np.abs(x - shift), level=level, rng=rng
    )
    bound = power_bound(epsilon, level=level)
    # the boundary itself is estimated: its error moves the level, and e^eps times as much the power
    slack = 5 * math.exp(epsilon) * math.sqrt(level / DRAWS) * 3
    assert abs(alarms - level) <= slack
    assert detected <= bound + slack
    exact_edge = law.upper_tail(shift - 1)  # P(X >= shift)
    if level <= exact_edge or level >= 1 - exact_edge:
        assert detected == pytest.approx(bound, abs=slack)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_advantage_against_laplace_is_attained(epsilon: float) -> None:
    law, rng = Laplace(l1=Fraction(1), epsilon=Fraction(epsilon)).law, Rng.seeded(42)
    alarms, detected = np.mean(law.sample(rng, DRAWS) >= 1), np.mean(law.sample(rng, DRAWS) + 1 >= 1)
    assert abs((detected - alarms) - advantage_bound(epsilon)) <= 5 * math.sqrt(0.5 / DRAWS)


@pytest.mark.parametrize(("epsilon", "prior"), [(0.5, 0.5), (1.0, 0.01), (1.0, 0.3), (2.0, 0.7)])
def test_posterior_of_two_hypotheses_against_laplace(epsilon: float, prior: float) -> None:
    """Among the runs that look most like "in", the share that is in is the upper posterior; likewise the lower."""
    law, rng = Laplace(l1=Fraction(1), epsilon=Fraction(epsilon)).law, Rng.seeded(43)
    inside = np.asarray(rng.uniform_doubles(DRAWS)) < prior
    seen = law.sample(rng, DRAWS) + inside
    low, high = posterior_bounds(epsilon, prior=prior)
    for chosen, expected in ((seen >= 1, high), (seen <= 0, low)):
        assert near(float(np.mean(inside[chosen])), expected, draws=int(np.sum(chosen)))


@pytest.mark.each(3)
@pytest.mark.parametrize("epsilon", [0.5, 1.5])
@pytest.mark.parametrize(("prior", "participation"), [(0.2, 0.6), (0.5, 1.0), (0.7, 0.1), (1.0, 0.3)])
def test_relative_risk_against_laplace_is_attained(epsilon: float, prior: float, participation: float) -> None:
    """A sum of values in {-1, 1}: sensitive is 1, not sensitive -1 (two steps away), absent 0 (one step)."""
    law, rng = Laplace(l1=Fraction(1), epsilon=Fraction(epsilon)).law, Rng.seeded(44)
    present = np.asarray(rng.uniform_doubles(DRAWS)) < participation
    sensitive = present & (np.asarray(rng.uniform_doubles(DRAWS)) < prior)
    value = np.where(sensitive, 1, np.where(present, -1, 0))
    chosen = law.sample(rng, DRAWS) + value >= 1
    expected = prior * participation * relative_bound(epsilon, prior=prior, participation=participation)
    assert near(float(np.mean(sensitive[chosen])), expected, draws=int(np.sum(chosen)))


@pytest.mark.deep
def test_identification_against_laplace_lee_clifton_2012() -> None:
    """U = {1..10}, D' = {1, 3}: the mean of D' and one of eight candidates, with noise for a risk of one third."""
    candidates = np.array([2, 4, 5, 6, 7, 8, 9, 10])
    epsilon = epsilon_for_identification("1/3", candidates=8)
    law = Laplace(l1=Fraction(8), epsilon=Fraction(epsilon)).law  # in thirds: the sum, which moves by 8 under replace
    outputs = np.arange(-200, 220)

    def posteriors(seen: Any) -> Any:
        weight = np.exp(-np.abs(seen[:, None] - (4 + candidates)) / float(law.scale))
        return weight / weight.sum(axis=1, keepdims=True)

    assert posteriors(outputs).max() <= 1 / 3
    rng = Rng.seeded(45)
    true = np.asarray(rng.uniform_doubles(DRAWS) * 8).astype(int)
    guess = posteriors(law.sample(rng, DRAWS) + 4 + candidates[true]).argmax(axis=1)
    right = float(np.mean(guess == true))
    assert right <= posterior_bounds(epsilon, prior=1 / 8)[1] + 5 * math.sqrt(0.25 / DRAWS)
    assert right > 1 / 8


@pytest.mark.parametrize(("rho", "level"), [(Fraction(1, 8), 0.05), (Fraction(1, 2), 0.05), (Fraction(2), 0.01)])
def test_power_of_the_likelihood_ratio_test_against_gaussian(rho: Fraction, level: float) -> None:
    shift = 40
    law, rng = gaussian_for_rho(l2_squared=Fraction(shift**2), rho=rho).law, Rng.seeded(46)
    nothing, something = law.sample(rng, DRAWS), law.sample(rng, DRAWS) + shift
    alarms, detected = power_of_best_test(nothing, something, lambda x: x, level=level, rng=rng)
    bound = gaussian_power(mu_for_rho(rho), level=level)
    slope = math.exp(mu_for_rho(rho) * 2.33)  # of the power in the level, at most
    assert abs(alarms - level) <= 5 * math.sqrt(level * 4 / DRAWS)
    assert abs(detected - bound) <= 5 * (math.sqrt(0.25 / DRAWS) + slope * math.sqrt(level * 2 / DRAWS))


@pytest.mark.parametrize(("rho", "epsilon"), [(Fraction(1, 2), 0.5), (Fraction(1, 2), 1.0), (Fraction(2), 1.0)])
def test_delta_of_the_gaussian(rho: Fraction, epsilon: float) -> None:
    """delta(eps) = P1(S) - e^eps P0(S) where S is the set of outputs whose likelihood ratio exceeds e^eps."""
    shift, mu = 40, mu_for_rho(rho)
    law, rng = gaussian_for_rho(l2_squared=Fraction(shift**2), rho=rho).law, Rng.seeded(47)
    edge = (epsilon / mu + mu / 2) * math.sqrt(law.sigma_squared)
    here, there = np.mean(law.sample(rng, DRAWS) + shift > edge), np.mean(law.sample(rng, DRAWS) > edge)
    slack = 5 * math.sqrt((here * (1 - here) + math.exp(2 * epsilon) * there * (1 - there)) / DRAWS)
    assert abs(here - math.exp(epsilon) * there - gaussian_delta(epsilon, mu=mu)) <= slack


@pytest.mark.parametrize(("rho", "prior"), [(Fraction(1, 2), 0.5), (Fraction(1, 2), 0.05), (Fraction(2), 0.3)])
def test_posterior_of_two_hypotheses_against_gaussian(rho: Fraction, prior: float) -> None:
    """Gaussian noise has no pure epsilon: the posterior passes the bound of any, as often as its loss passes epsilon."""
    shift, mu = 40, mu_for_rho(rho)
    law, rng = gaussian_for_rho(l2_squared=Fraction(shift**2), rho=rho).law, Rng.seeded(49)
    inside = np.asarray(rng.uniform_doubles(DRAWS)) < prior
    seen = law.sample(rng, DRAWS) + shift * inside
    loss = (2 * shift * seen - shift**2) / (2 * float(law.sigma_squared))
    posterior = prior / (prior + (1 - prior) * np.exp(-loss))
    for low, high in ((0, 0.1), (0.1, 0.4), (0.4, 0.7), (0.7, 1)):
        chosen = (posterior > low) & (posterior <= high)
        if np.sum(chosen) > 1000:
            assert near(float(inside[chosen].mean()), float(posterior[chosen].mean()), draws=int(np.sum(chosen)))
    for epsilon in (0.5, 1, 2):
        passed = posterior[inside] > posterior_bounds(epsilon, prior=prior)[1]
        expected = 0.5 * math.erfc((epsilon / mu - mu / 2) / math.sqrt(2))
        half_step = 1 / math.sqrt(2 * math.pi * float(law.sigma_squared))  # the edge falls between whole outputs
        assert abs(passed.mean() - expected) <= 5 * math.sqrt(0.25 / passed.size) + half_step


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_gaussian_power_is_within_the_bound_of_each_of_its_pairs(mu: float) -> None:
    for epsilon in (0.01, 0.5, 1, 2, 5):
        delta = gaussian_delta(epsilon, mu=mu)
        for level in (0.001, 0.05, 0.3, 0.9):
            bound = power_bound(epsilon, level=level, delta=delta)
            assert gaussian_power(mu, level=level) <= bound * (1 + 1e-12)


def test_failure_of_a_study_hsu_2014() -> None:
    epsilon = epsilon_for_study(0.01, people=300, failure=0.05)
    law = Laplace(l1=Fraction(1), epsilon=Fraction(epsilon)).law
    failed = float(np.mean(np.abs(law.sample(Rng.seeded(48), DRAWS)) > 3))
    assert study_failure(epsilon, error=0.01, people=300) == pytest.approx(0.05, rel=1e-9)
    assert near(failed, 0.05)
