"""Poisson sampling: each bound against enumeration of both directions, the oracle, and the doors that stay shut."""

import math
from fractions import Fraction
from typing import Any

import pytest

from core.accounting import brute
from mistyping import mistype
from sordino.core.accounting.amplify import Sampled, poisson_sampled
from sordino.core.accounting.composition import tight
from sordino.core.accounting.concentration import pure_rho
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.accounting.events import (
    ApproxEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
)
from sordino.core.accounting.pld import pld_delta, pld_epsilon
from sordino.core.loss import Event
from sordino.errors import DeclarationError

FINE = 2**20
CASES: dict[str, tuple[Event, brute.Pair]] = {
    "response": (LaplaceEvent(1), brute.response(1.0)),
    "approx": (ApproxEvent(0.5, 1e-3), brute.response(0.5, 1e-3)),
    "laplace": (DiscreteLaplaceEvent(1.5, 4), brute.laplace(1.5, 4)),
    "gaussian": (DiscreteGaussianEvent(3, 2, 1), brute.gaussian(3.0, 2)),
}


@pytest.mark.each(11)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rate", [0.01, 0.2, 0.7])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.4, 1.0])
def test_delta_is_the_worse_of_both_directions(name: str, rate: float, epsilon: float) -> None:
    event, pair = CASES[name]
    mixed = brute.subsample(pair, rate)
    truth = max(brute.delta_of_list([one], epsilon) for one in (mixed, brute.exchange(mixed)))
    found = pld_delta([Sampled(event, rate)], epsilon)
    assert truth * (1 - 1e-9) - 1e-15 <= found <= truth * 1.002 + 1e-11


def test_several_samples_compose_each_direction_by_itself() -> None:
    pairs = [brute.subsample(CASES[name][1], 0.3) for name in ("response", "laplace")]
    events = [Sampled(CASES[name][0], 0.3) for name in ("response", "laplace")]
    for epsilon in (0.0, 0.2, 0.6):
        truth = max(
            brute.delta_of_list(pairs, epsilon), brute.delta_of_list([brute.exchange(p) for p in pairs], epsilon)
        )
        assert truth * (1 - 1e-9) <= pld_delta(events, epsilon) <= truth * 1.002


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0, 50.0])
@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.99])
def test_pure_bound_is_the_theorem_rounded_up(epsilon: float, rate: float) -> None:
    truth = math.log1p(rate * math.expm1(epsilon))
    found = Sampled(LaplaceEvent(epsilon), rate).pure()
    assert found is not None
    assert truth * (1 - 1e-14) <= found <= truth * (1 + 2e-11)
    assert Sampled(ApproxEvent(epsilon, "1e-6"), rate).approx() == (found, Fraction(repr(rate)) * Fraction(1, 10**6))
    assert Sampled(LaplaceEvent(epsilon), rate).rho() == pure_rho(min(found, Fraction(repr(epsilon))))


def divergence(pair: brute.Pair, order: float) -> float:
    found, infinite = brute.losses(pair)
    assert infinite < 1e-12
    most = max(found)
    return most + math.log(math.fsum(p * math.exp((order - 1) * (x - most)) for x, p in found.items())) / (order - 1)


@pytest.mark.parametrize("name", ["response", "laplace", "gaussian"])
@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize("order", [1.5, 2, 3, 5, 12])
def test_renyi_holds_in_both_directions(name: str, rate: float, order: float) -> None:
    event, pair = CASES[name]
    mixed = brute.subsample(pair, rate)
    truth = max(divergence(mixed, order), divergence(brute.exchange(mixed), order))
    value = Sampled(event, rate).renyi(order)
    assert value is not None
    whole = event.renyi(order)
    assert whole is not None
    assert truth * (1 - 1e-6) <= value <= whole
    if order == int(order):
        assert value <= truth * 1.03 + 1e-9


@pytest.mark.deep
def test_what_is_only_concentrated_takes_the_bound_for_any_mechanism() -> None:
    """Zhu & Wang 2019: at least that of Gaussian noise, whose directions are alike; at most the event's own."""
    rho = DiscreteGaussianEvent(4, 1, 1).rho()
    for order in (2, 3, 8, 8.5):
        value = Sampled(GaussianEvent(rho), 0.05).renyi(order)
        assert value is not None
        gaussian = Sampled(DiscreteGaussianEvent(4, 1, 1), 0.05).renyi(order)
        assert gaussian is not None
        assert gaussian * (1 - 1e-9) <= value
        assert value <= GaussianEvent(rho).renyi(order)
    assert pld_delta([Sampled(GaussianEvent(rho), 0.1)], 0.2) <= pld_delta([GaussianEvent(rho)], 0.2)
    assert pld_delta([Sampled(GaussianEvent(rho), 0.1)], 0.2) >= pld_delta(
        [Sampled(DiscreteGaussianEvent(4, 1, 1), 0.1)], 0.2
    )


@pytest.mark.parametrize(
    "event",
    [
        Sampled(LaplaceEvent("1/3"), "1/10"),
        Sampled(Composed((DiscreteGaussianEvent(4, 1, 1), LaplaceEvent(1))), 0.5),
        Sampled(Sampled(DiscreteLaplaceEvent(1, 3), 0.5), 0.5),
    ],
    ids=repr,
)
def test_sampled_survives_ledgers_and_has_a_profile(event: Sampled) -> None:
    assert event_from_dict(event_to_dict(event)) == event
    assert eval(repr(event)) == event
    assert isinstance(event, Event)
    assert pld_delta([event], 0.3) <= pld_delta([event.inner], 0.3) * 1.001


def test_sampling_twice_is_sampling_at_the_product() -> None:
    twice = pld_delta([Sampled(Sampled(DiscreteLaplaceEvent(1, 3), 0.5), 0.4)], 0.1)
    once = pld_delta([Sampled(DiscreteLaplaceEvent(1, 3), 0.2)], 0.1)
    assert once * (1 - 1e-3) <= twice <= once * 1.005


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "size", "rate", "times", "grid"),
    [
        ("gaussian", 0.5, 0.1, 60, 1e-3),
        ("gaussian", 0.5, 0.1, 60, 1e-4),
        ("laplace", 1.0, 0.02, 300, 1e-4),
        ("gaussian", 1.0, 0.01, 500, 1e-4),
    ],
)
def test_sampled_noise_agrees_with_dp_accounting(kind: str, size: float, rate: float, times: int, grid: float) -> None:
    """Within 1e-3 above the oracle's upper bound, never below its lower one."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    make = pld.from_gaussian_mechanism if kind == "gaussian" else pld.from_laplace_mechanism
    low, high = (
        make(1 / size, sampling_prob=rate, pessimistic_estimate=upper, value_discretization_interval=grid)
        .self_compose(times)
        .get_epsilon_for_delta(1e-6)
        for upper in (False, True)
    )
    scale = Fraction(1) / Fraction(repr(size))
    event = (
        DiscreteGaussianEvent((scale * FINE) ** 2, FINE, 1) if kind == "gaussian" else DiscreteLaplaceEvent(size, FINE)
    )
    value = pld_epsilon([Sampled(event, rate)] * times, 1e-6)
    assert low * (1 - 1e-6) <= value <= high * 1.001


def test_rate_one_is_no_sampling_and_replace_is_refused() -> None:
    event = LaplaceEvent(1)
    assert poisson_sampled(event, rate=1, relation="add_remove") is event
    assert pld_delta([Sampled(event, 1)], 0.1) == pytest.approx(pld_delta([event], 0.1), rel=1e-6)
    with pytest.raises(DeclarationError, match="add_remove only"):
        poisson_sampled(event, rate=0.1, relation="replace")
    for rate in (0, 1.5, -0.1):
        with pytest.raises(DeclarationError, match="rate"):
            poisson_sampled(event, rate=rate, relation="add_remove")
    with pytest.raises(DeclarationError, match="inner"):
        Sampled(mistype("laplace"), 0.5)


@pytest.mark.each(2)
@pytest.mark.parametrize("rate", ["0.99999999999999999999", Fraction(2**60 - 1, 2**60)])
def test_a_rate_next_to_1_is_bounded_by_the_event_itself(rate: Any) -> None:
    """No float lies between it and 1: whatever is told of such a ledger later must not fail, nor be below the truth."""
    for inner in (LaplaceEvent(1), GaussianEvent("0.1"), ApproxEvent(1, "1e-6"), DiscreteGaussianEvent(9, 1, 1)):
        for event in (Sampled(inner, rate), poisson_sampled(inner, rate=rate, relation="add_remove")):
            pure, whole = event.pure(), inner.pure()
            assert (pure is None) == (whole is None)
            assert pure is None or (whole is not None and 0 <= whole - pure <= Fraction(1, 10**9))
            for order in (1.5, 2.0, 30.0):
                told, most = event.renyi(order), inner.renyi(order)
                assert told is None or (most is not None and told <= most * (1 + 1e-9) + 1e-12)
        assert tight([Sampled(inner, rate)], "1e-5").epsilon == pytest.approx(tight([inner], "1e-5").epsilon, rel=0.01)
