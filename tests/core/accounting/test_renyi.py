"""Renyi composition: never worse than zCDP, the least over orders, and divergences that are those of the laws."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from core.accounting import brute
from sordino.core.accounting.events import ApproxEvent, Composed, DiscreteLaplaceEvent, GaussianEvent, LaplaceEvent
from sordino.core.accounting.renyi import renyi_epsilon
from sordino.core.accounting.zcdp import basic_epsilon_of, epsilon_from_renyi, epsilon_of
from sordino.core.loss import Event
from sordino.errors import DeclarationError

LISTS: list[list[Event]] = [
    [LaplaceEvent(1)] * 500,
    [LaplaceEvent("0.01")] * 2000,
    [GaussianEvent(Fraction(1, 80000))] * 500,
    [GaussianEvent("1/2")],
    [LaplaceEvent("0.3")] * 20 + [GaussianEvent("0.001")] * 50 + [DiscreteLaplaceEvent(2, 5)],
    [LaplaceEvent(30)],
    [GaussianEvent(200)],
    [Composed((LaplaceEvent(1), GaussianEvent("0.1")))] * 3,
]


@pytest.mark.parametrize(("order", "divergence", "delta"), [(1.5, 0.2, 1e-2), (3.0, 1.0, 1e-6), (40.0, 0.05, 1e-4)])
def test_no_loss_passes_the_converted_epsilon_and_one_reaches_it(order: float, divergence: float, delta: float) -> None:
    """Canonne, Kamath, Steinke 2020, Proposition 12, over all laws that lie at one loss z or nowhere near it.

    Such a law has chance exp((order - 1) (divergence - z)) of z at most; its delta is that times 1 - exp(epsilon - z).
    """
    epsilon = epsilon_from_renyi(order, divergence, delta)
    losses = np.linspace(epsilon, epsilon + 20, 400_001)
    found = np.exp((order - 1) * (divergence - losses)) * -np.expm1(epsilon - losses)
    assert delta * (1 - 1e-6) <= found.max() <= delta


@functools.cache
def curve_of(number: int) -> list[tuple[float, float | None]]:
    """Return the divergences of a list at 160 orders, the same for every delta."""
    whole = Composed(LISTS[number])
    return [(order, whole.renyi(order)) for order in (1 + math.exp(step / 8) for step in range(-60, 100))]


@pytest.mark.deep
@pytest.mark.parametrize("number", range(len(LISTS)), ids=lambda n: f"{len(LISTS[n])} of {LISTS[n][0]!r}"[:60])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_never_worse_than_zcdp_and_the_least_over_orders(number: int, delta: float) -> None:
    events = LISTS[number]
    value, order = renyi_epsilon(events, delta)
    rho = sum((event.rho() or Fraction(0) for event in events), Fraction(0))
    assert value <= epsilon_of(rho, delta)
    assert order > 1
    best = min(epsilon_from_renyi(a, d, delta) for a, d in curve_of(number) if d)
    assert value <= best * (1 + 1e-6)


def test_reference_numbers() -> None:
    assert renyi_epsilon([GaussianEvent("1/2")], 1e-5)[0] <= basic_epsilon_of("1/2", 1e-5)
    assert basic_epsilon_of("1/2", 1e-5) == pytest.approx(5.298525912188081, rel=1e-13)
    value, _ = renyi_epsilon([GaussianEvent(Fraction(1, 80000))] * 500, 1e-5)
    assert value <= 0.5427415065723368


def test_zcdp_alone_is_at_its_optimal_order() -> None:
    assert renyi_epsilon([GaussianEvent("1/2")], 1e-5)[0] == pytest.approx(epsilon_of("1/2", 1e-5), rel=1e-6)


@pytest.mark.deep
@pytest.mark.parametrize(("epsilon", "steps"), [(0.01, 1), (0.5, 1), (0.5, 2), (1.0, 7), (3.0, 30), (20.0, 4)])
@pytest.mark.parametrize("order", [1.01, 1.5, 2.0, 8.0, 100.0])
def test_discrete_laplace_divergence_is_that_of_the_law(epsilon: float, steps: int, order: float) -> None:
    found, infinite = brute.losses(brute.laplace(epsilon, steps))
    assert infinite == 0
    most = max(found)
    total = math.fsum(p * math.exp((order - 1) * (x - most)) for x, p in found.items())
    truth = most + math.log(total) / (order - 1)
    value = DiscreteLaplaceEvent(epsilon, steps).renyi(order)
    assert truth - 1e-9 / (order - 1) <= value <= truth * (1 + 1e-6) + 1e-9 / (order - 1)
    assert value <= LaplaceEvent(epsilon).renyi(order) * (1 + 1e-7)


def test_what_has_no_divergence() -> None:
    assert renyi_epsilon([LaplaceEvent(1), ApproxEvent(1, "1e-9")], 1e-6)[0] == math.inf
    assert renyi_epsilon([], 1e-6)[0] == 0
    for delta in (0, 1, -1):
        with pytest.raises(DeclarationError):
            renyi_epsilon([LaplaceEvent(1)], delta)
