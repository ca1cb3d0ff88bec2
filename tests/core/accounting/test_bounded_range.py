"""Events of selections and of private keys: bounds against brute force over what they describe."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mistyping import mistype
from sordino.core.accounting.amplify import Sampled
from sordino.core.accounting.composition import best
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.accounting.events import (
    ApproxEvent,
    BoundedRangeEvent,
    Composed,
    DiscreteGaussianEvent,
    GaussianEvent,
    LaplaceEvent,
    ThresholdEvent,
)
from sordino.core.accounting.pld import pld_delta, pld_epsilon
from sordino.core.loss import Event, Grid, Losses
from sordino.errors import DeclarationError

EPSILONS = [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(5), Fraction(30)]


def two_points(epsilon: float, t: float) -> tuple[np.ndarray, np.ndarray]:
    """Return P and Q on two outcomes of losses t and t - epsilon."""
    p, rest = -math.expm1(t - epsilon) / -math.expm1(-epsilon), math.expm1(t) / math.expm1(epsilon)
    first, second = np.array([p, rest]), np.array([p * math.exp(-t), rest * math.exp(epsilon - t)])
    assert first.sum() == pytest.approx(1)
    assert second.sum() == pytest.approx(1)
    return first, second


@pytest.mark.each(7)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("order", [1.01, 1.5, 2.0, 8.0, 100.0])
def test_renyi_is_the_worst_pair(epsilon: Fraction, order: float) -> None:
    found = BoundedRangeEvent(epsilon).renyi(order)
    worst = 0.0
    for t in np.linspace(1e-9, float(epsilon) - 1e-9, 1001):
        p, q = two_points(float(epsilon), float(t))
        worst = max(worst, float(np.logaddexp.reduce(order * np.log(p) - (order - 1) * np.log(q))) / (order - 1))
    assert found >= worst - 1e-12
    assert found <= worst * 1.001 + 1e-7
    assert found <= order * float(epsilon) ** 2 / 8 * (1 + 1e-12)
    assert found <= float(epsilon) * (1 + 1e-12)
    assert found <= LaplaceEvent(epsilon).renyi(order) * (1 + 1e-9)


def test_renyi_at_its_ends() -> None:
    event = BoundedRangeEvent(2)
    assert event.renyi(math.inf) == pytest.approx(2)
    assert event.renyi(1e9) <= math.nextafter(2, 3)
    assert BoundedRangeEvent(0).renyi(2) == 0
    assert BoundedRangeEvent("1e-9").renyi(2) <= 3e-19
    assert BoundedRangeEvent(10**6).renyi(2) <= 10**6 * (1 + 1e-12)
    assert BoundedRangeEvent(10**400).renyi(2) == math.inf
    with pytest.raises(DeclarationError, match="order"):
        event.renyi(1)


def hockey_stick(losses: Losses, x: float, grid: Grid) -> float:
    """Return E[1 - exp(x - loss)]+ with what is infinite."""
    return float(-np.expm1(np.minimum(x - losses.at * grid.step, 0)) @ losses.mass) + losses.infinite


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", EPSILONS[1:])
def test_profile_dominates_every_pair_and_no_more(epsilon: Fraction) -> None:
    grid, e = Grid(1e-3, 1e-15), float(epsilon)
    profile = BoundedRangeEvent(epsilon).profile(grid)
    assert profile is not None
    assert profile.removed is profile.added
    assert profile.removed.mass.sum() == pytest.approx(1, abs=1e-6)
    for x in np.linspace(-e, e, 9):
        worst = 0.0
        for t in np.linspace(1e-9, e - 1e-9, 201):
            p, q = two_points(e, float(t))
            worst = max(worst, float(np.maximum(p - math.exp(x) * q, 0).sum()))
        found = hockey_stick(profile.removed, float(x), grid)
        assert found >= worst - 1e-12
        assert found <= worst + 2e-4


def test_profile_of_extreme_epsilons() -> None:
    grid = Grid(1e-3, 1e-15)
    for epsilon in (0, "1e-12", 5000):
        profile = BoundedRangeEvent(epsilon).profile(grid)
        assert profile is not None
        assert hockey_stick(profile.removed, float(Fraction(epsilon)), grid) < 1e-3


@pytest.mark.parametrize(
    "event",
    [
        BoundedRangeEvent("1/3"),
        ThresholdEvent(LaplaceEvent(1), "1e-6"),
        ThresholdEvent(GaussianEvent("1/8", (Fraction(1), Fraction(1, 10**6))), "1e-7"),
        ThresholdEvent(GaussianEvent("1/8"), 0),
    ],
    ids=repr,
)
def test_events_round_trip(event: Event) -> None:
    assert isinstance(event, Event)
    assert event_from_dict(event_to_dict(event)) == event
    assert eval(repr(event)) == event


def test_bounded_range_is_about_a_fourth_of_pure() -> None:
    """Below the epsilon^2 / 8 of Cesar & Rogers 2021."""
    event = BoundedRangeEvent("1/3")
    assert event.pure() == Fraction(1, 3)
    assert event.approx() == (Fraction(1, 3), Fraction(0))
    assert Fraction(99, 7200) < event.rho() < Fraction(1, 72)
    assert LaplaceEvent("1/3").rho() < 4 * event.rho()
    with pytest.raises(DeclarationError, match="epsilon"):
        BoundedRangeEvent(-1)


def test_threshold_event_adds_its_delta_and_claims_no_more() -> None:
    event = ThresholdEvent(ApproxEvent(1, "1e-6"), "1e-6")
    assert event.approx() == (Fraction(1), Fraction(2, 10**6))
    assert (event.pure(), event.rho(), event.renyi(3.0)) == (None, None, None)
    free = ThresholdEvent(LaplaceEvent(1), 0)
    assert (free.pure(), free.rho()) == (Fraction(1), LaplaceEvent(1).rho())
    assert ThresholdEvent(GaussianEvent("1/2"), "1e-6").approx() is None
    assert ThresholdEvent(ApproxEvent(1, "0.6"), "0.6").approx() is None
    for bad in (1, -1, 2):
        with pytest.raises(DeclarationError, match="delta"):
            ThresholdEvent(LaplaceEvent(1), bad)
    with pytest.raises(DeclarationError, match="inner"):
        ThresholdEvent(mistype("laplace"), 0)


def test_threshold_profile_is_delta_above_the_inner_one() -> None:
    grid = Grid(1e-3, 1e-15)
    inner, whole = LaplaceEvent(1).profile(grid), ThresholdEvent(LaplaceEvent(1), "1/100").profile(grid)
    assert inner is not None
    assert whole is not None
    for x in (-0.5, 0.0, 0.7, 1.2):
        expected = 0.01 + 0.99 * hockey_stick(inner.removed, x, grid)
        assert hockey_stick(whole.removed, x, grid) == pytest.approx(expected, rel=1e-9)


def test_threshold_profile_adds_its_delta_in_both_directions() -> None:
    """Of what is sampled, rows that come and rows that go lose differently: neither direction may lack the delta."""
    grid, sampled = Grid(1e-3, 1e-15), Sampled(LaplaceEvent(1), "1/2")
    inner, whole = sampled.profile(grid), ThresholdEvent(sampled, "1/100").profile(grid)
    assert whole is not None
    assert inner.added is not inner.removed
    for lost, before in ((whole.removed, inner.removed), (whole.added, inner.added)):
        assert lost.infinite >= before.infinite + 0.01 * (1 - before.infinite) - 1e-12


@pytest.mark.deep
def test_finding_i5_bounded_range_in_mixed_lists() -> None:
    """Reviewers, findings I5: with 40 Gaussians 3.0337 -> 2.8893 at 1e-6, with 40 Laplace 4.0259 -> 3.9485."""
    selections: list[Event] = [BoundedRangeEvent("0.1")] * 100
    gaussians: list[Event] = [DiscreteGaussianEvent(400, 1, 1)] * 40
    found = best([*selections, *gaussians], "1e-6")
    assert found.method == "PLD"
    assert found.epsilon == pytest.approx(2.8893, abs=2e-3)
    found = best([*selections, *[LaplaceEvent("0.1")] * 40], "1e-6")
    assert (found.method, round(found.epsilon, 3)) == ("PLD", 3.948)
    assert pld_delta([*selections, *gaussians], "2.89") <= 1e-6


def test_few_events_of_bounded_range_keep_their_least_pair() -> None:
    """Rho says less of two selections at a small epsilon: the pair stays, in a composed event too."""
    two = Composed((BoundedRangeEvent(1), BoundedRangeEvent(1)))
    assert pld_epsilon([two], "1e-9") <= 2
    assert pld_epsilon([two, DiscreteGaussianEvent(400, 1, 1)], "1e-6") < 2.2
