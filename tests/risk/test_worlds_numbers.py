"""Lee & Clifton 2011, "How Much Is Enough?": every number of the school example, and those printed wrongly elsewhere."""

from __future__ import annotations

import math

import pytest

from sordino.risk import InfeasibleRisk, Worlds

SCHOOL_YEAR = [1, 2, 3, 4]
ABSENCE_DAYS = [1, 2, 3, 10]
OUTPUT = 2.20131
EXACT = 1e-12

# universe, query: Df, Dv, bound at 2, epsilon from it, risk at .5, epsilon from it (for a risk of 1/3)
LEE_CLIFTON = {
    ("school_year", "mean"): (5 / 6, 1, 0.7860684399, 0.3378875900901369, 0.3291788293012836, 0.525149687269512),
    ("absence_days", "mean"): (17 / 6, 3, 0.7347845418, 0.38293926876882173, 0.3476971459619019, 0.43172011956720063),
    ("school_year", "median"): (1, 1, 0.7112345942, 0.4054651081, 0.3112296656, math.log(2)),
    ("absence_days", "median"): (4, 1, 0.3546612444, 1.6218604324, 0.2656046867, 4 * math.log(2)),
}
POSTERIORS = {
    ("school_year", "mean"): [0.33898835, 0.4003158, 0.17987348, 0.08082237],
    ("absence_days", "mean"): [0.61802372, 0.15816999, 0.12500781, 0.09879847],
    ("school_year", "median"): [0.38379565, 0.38379565, 0.11620435, 0.11620435],
    ("absence_days", "median"): [0.28706112, 0.28706112, 0.21293888, 0.21293888],
}
UNIVERSES = {"school_year": SCHOOL_YEAR, "absence_days": ABSENCE_DAYS}


def worlds(case: tuple[str, str]) -> Worlds:
    return Worlds(UNIVERSES[case[0]], size=3, query=case[1])


@pytest.mark.parametrize("case", LEE_CLIFTON, ids="-".join)
def test_lee_clifton_table(case: tuple[str, str]) -> None:
    w = worlds(case)
    sensitivity, spread, bound, from_bound, risk, from_risk = LEE_CLIFTON[case]
    assert w.count == 4
    assert w.sensitivity == pytest.approx(sensitivity, rel=EXACT)
    assert w.spread == pytest.approx(spread, rel=EXACT)
    assert w.risk_bound(epsilon=2.0) == pytest.approx(bound, abs=6e-11)
    assert w.epsilon_bound_for(risk=1 / 3) == pytest.approx(from_bound, abs=6e-11)
    assert w.risk(epsilon=0.5) == pytest.approx(risk, abs=6e-11)
    assert w.epsilon_for(risk=1 / 3) == pytest.approx(from_risk, abs=1e-12)
    assert w.risk(epsilon=from_risk) == pytest.approx(1 / 3, abs=1e-12)


@pytest.mark.parametrize("case", POSTERIORS, ids="-".join)
def test_lee_clifton_posterior(case: tuple[str, str]) -> None:
    found = worlds(case).posterior(output=OUTPUT, epsilon=2.0)
    assert found.tolist() == pytest.approx(POSTERIORS[case], abs=5.1e-9)
    assert math.fsum(found) == pytest.approx(1, abs=1e-15)


def test_lee_clifton_confidence() -> None:
    """Elsewhere printed as .1692 and .1512, from swapped arguments."""
    gains = [worlds((u, "mean")).posterior_gain(output=OUTPUT, epsilon=2.0) for u in UNIVERSES]
    assert gains == pytest.approx([0.15031580079, 0.36802371996], abs=6e-12)


@pytest.mark.parametrize("case", LEE_CLIFTON, ids="-".join)
def test_epsilon_is_on_the_feasible_side(case: tuple[str, str]) -> None:
    """Elsewhere printed a hair above it: .52514977."""
    w = worlds(case)
    epsilon = w.epsilon_for(risk=1 / 3)
    assert w.risk(epsilon=epsilon) <= 1 / 3 < w.risk(epsilon=epsilon * (1 + 1e-9))
    bound = w.epsilon_bound_for(risk=1 / 3)
    assert w.risk_bound(epsilon=bound) <= 1 / 3 < w.risk_bound(epsilon=bound * (1 + 1e-9))


def test_two_of_four() -> None:
    """C(N, m) worlds and the Dv of all pairs; elsewhere N worlds and the Dv of distance 1."""
    w = Worlds(ABSENCE_DAYS, size=2, query="mean")
    assert (w.count, w.sensitivity, w.spread) == (6, 4.5, 5)
    assert w.risk_bound(epsilon=1.0) == pytest.approx(0.37793395719, abs=6e-12)
    assert w.epsilon_bound_for(risk=1 / 3) == pytest.approx(0.82466165869, abs=6e-12)
    assert w.risk(epsilon=1.0) == pytest.approx(0.26289766485, abs=6e-12)
    assert w.epsilon_for(risk=1 / 3) == pytest.approx(1.7885947737910403, abs=1e-12)  # by 50 digits; printed as ...374


def test_a_prior_over_the_absence_worlds() -> None:
    w = Worlds(ABSENCE_DAYS, size=3, query="mean", prior=[0.7, 0.1, 0.1, 0.1])
    assert w.risk(epsilon=1.0) == pytest.approx(0.8562, abs=5e-5)
    assert w.risk_bound(epsilon=1.0) == pytest.approx(0.871, abs=5e-4)


def test_section_4_1() -> None:
    """Tails at scale 17/12; a numerator printed .3602 is .3062 = P(> .6946...)."""
    scale = 17 / 12
    above, below = 0.5 * math.exp(-1.1677 / scale), 1 - 0.5 * math.exp(-0.832 / scale)
    assert above == pytest.approx(0.2193, abs=5e-5)
    assert below == pytest.approx(0.7221, abs=5e-5)
    assert below / above == pytest.approx(3.293, abs=5e-4)
    assert Worlds(ABSENCE_DAYS, size=3, query="mean").sensitivity / 2 == pytest.approx(scale, rel=EXACT)


def test_risks_that_are_never_reached() -> None:
    median = Worlds(ABSENCE_DAYS, size=3, query="median")
    assert median.epsilon_for(risk=0.5) == math.inf
    assert median.epsilon_for(risk=0.9) == math.inf
    assert 0 < median.epsilon_for(risk=0.4999) < math.inf
    counts = Worlds(ABSENCE_DAYS, size=3, query="count")
    assert counts.risk(epsilon=100.0) == 0.25
    assert counts.epsilon_for(risk=0.3) == counts.epsilon_bound_for(risk=0.25) == math.inf


@pytest.mark.parametrize("risk", [0.25, 0.2, 1e-9])
def test_risks_below_the_prior(risk: float) -> None:
    with pytest.raises(InfeasibleRisk, match=r"0\.25") as caught:
        Worlds(ABSENCE_DAYS, size=3, query="mean").epsilon_for(risk=risk)
    assert caught.value.smallest == 0.25


def test_an_output_far_away_gives_finite_numbers() -> None:
    w = Worlds(ABSENCE_DAYS, size=3, query="mean")
    found = w.posterior(output=1e6, epsilon=2.0)
    assert found.tolist() == pytest.approx(w.posterior(output=5.0, epsilon=2.0).tolist(), abs=1e-9)
    assert Worlds([0, 1000], size=1, query="sum").posterior(output=1e6, epsilon=1e4).tolist() == [0.0, 1.0]
