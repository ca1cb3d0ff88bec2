"""Lee & Clifton 2011, "How Much Is Enough?": every number of the school example, and those printed wrongly elsewhere."""

from __future__ import annotations

import math

import pytest

from published import read_published, rows_of
from sordino.risk import InfeasibleRisk, Worlds

UNIVERSES: dict[str, list[float]] = read_published("attacker_worlds")["universes"]
ABSENCE_DAYS = UNIVERSES["absence_days"]
OUTPUT = 2.20131
EXACT = 1e-12


def worlds(universe: str, query: str) -> Worlds:
    return Worlds(UNIVERSES[universe], size=3, query=query)


@pytest.mark.parametrize(*rows_of("attacker_worlds", "risks"))
def test_lee_clifton_risks(
    universe: str,
    query: str,
    sensitivity: float,
    spread: float,
    risk_bound: float,
    epsilon_bound: float,
    risk: float,
    epsilon: float,
) -> None:
    w = worlds(universe, query)
    assert w.count == 4
    assert w.sensitivity == pytest.approx(sensitivity, rel=EXACT)
    assert w.spread == pytest.approx(spread, rel=EXACT)
    assert w.risk_bound(epsilon=2.0) == pytest.approx(risk_bound, abs=6e-11)
    assert w.epsilon_bound_for(risk=1 / 3) == pytest.approx(epsilon_bound, abs=6e-11)
    assert w.risk(epsilon=0.5) == pytest.approx(risk, abs=6e-11)
    assert w.epsilon_for(risk=1 / 3) == pytest.approx(epsilon, abs=1e-12)
    assert w.risk(epsilon=epsilon) == pytest.approx(1 / 3, abs=1e-12)


@pytest.mark.parametrize(*rows_of("attacker_worlds", "posteriors"))
def test_lee_clifton_posteriors(universe: str, query: str, posteriors: list[float]) -> None:
    found = worlds(universe, query).posterior(output=OUTPUT, epsilon=2.0)
    assert found.tolist() == pytest.approx(posteriors, abs=5.1e-9)
    assert math.fsum(found) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(*rows_of("attacker_worlds", "posterior_gains"))
def test_lee_clifton_confidence(universe: str, gain: float) -> None:
    """Elsewhere printed as .1692 and .1512, from swapped arguments."""
    assert worlds(universe, "mean").posterior_gain(output=OUTPUT, epsilon=2.0) == pytest.approx(gain, abs=6e-12)


@pytest.mark.parametrize("query", ["mean", "median"])
@pytest.mark.parametrize("universe", UNIVERSES)
def test_epsilon_is_on_the_feasible_side(universe: str, query: str) -> None:
    """Elsewhere printed a hair above it: .52514977."""
    w = worlds(universe, query)
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
