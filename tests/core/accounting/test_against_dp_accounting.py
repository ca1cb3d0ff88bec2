"""Finding D14: docs/accounting.md said "never below" dp-accounting; what holds is that its two estimates enclose ours."""

from __future__ import annotations

import pytest

from sordino.core.accounting.composition import best
from sordino.core.accounting.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, LaplaceEvent
from sordino.core.accounting.pld import pld_epsilon
from sordino.core.loss import Event


@pytest.mark.deep
@pytest.mark.parametrize(
    ("event", "times"),
    [
        (DiscreteLaplaceEvent(1, 1), 8),
        (LaplaceEvent(1), 100),
        (LaplaceEvent("0.1"), 30),
        (DiscreteGaussianEvent(16, 1, 1), 10),
        (DiscreteGaussianEvent(100, 3, 1), 40),
    ],
)
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_d14_between_the_optimistic_and_the_pessimistic_estimate(event: Event, times: int, delta: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    ends = []
    for pessimistic in (False, True):
        stated = {"value_discretization_interval": 1e-4, "pessimistic_estimate": pessimistic}
        if isinstance(event, DiscreteGaussianEvent):
            one = pld.from_discrete_gaussian_mechanism(
                float(event.sigma_squared) ** 0.5, sensitivity=event.shift, **stated
            )
        else:
            one = pld.from_randomized_response(2 / (1 + 2.718281828459045 ** float(event.pure() or 0)), 2, **stated)
        ends.append(one.self_compose(times).get_epsilon_for_delta(delta))
    for found in (pld_epsilon([event] * times, delta), best([event] * times, delta).epsilon):
        assert ends[0] * (1 - 1e-9) <= found <= ends[1] * 1.001


def test_d14_it_is_not_never_below() -> None:
    """One case is enough to show why the sentence had to go: ours is below the pessimistic estimate."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    noise = pld.from_discrete_gaussian_mechanism(4, sensitivity=1, value_discretization_interval=1e-4)
    assert pld_epsilon([DiscreteGaussianEvent(16, 1, 1)] * 10, 1e-6) < noise.self_compose(10).get_epsilon_for_delta(
        1e-6
    )
