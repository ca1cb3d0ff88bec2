"""Regressions of tight accounting found by fuzzing, bounds on rounding, and many events laid out at once."""

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from core.accounting import brute
from sordino.core.accounting import pld as convolution
from sordino.core.accounting.amplify import Sampled
from sordino.core.accounting.composition import best
from sordino.core.accounting.events import (
    ApproxEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
)
from sordino.core.accounting.pld import lay_out, pld_delta, pld_epsilon
from sordino.core.accounting.renyi import laplaces_renyi, responses_renyi
from sordino.core.loss import Event, Grid


def count_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[Any, ...]]:
    """Return the list to which each call of a function of `pld` will add its arguments."""
    calls: list[tuple[Any, ...]] = []
    function = getattr(convolution, name)

    def note(*arguments: Any) -> Any:
        calls.append(arguments)
        return function(*arguments)

    monkeypatch.setattr(convolution, name, note)
    return calls


def distinct(seed: int, count: int) -> list[Event]:
    """Return mixed events, all different."""
    draw, found = random.Random(seed), []
    for _ in range(count):
        epsilon, shift = Fraction(draw.randrange(1000, 300_000), 10**6), draw.randrange(1, 40)
        several: list[Event] = [
            LaplaceEvent(epsilon),
            DiscreteLaplaceEvent(epsilon, shift),
            DiscreteGaussianEvent(Fraction(math.ceil((shift / epsilon) ** 2)), shift, 1),
            ApproxEvent(epsilon, "1e-12"),
            GaussianEvent(epsilon**2 / 2),
        ]
        found.append(draw.choice(several))
    return found


@pytest.mark.deep
def test_ten_thousand_distinct_charges(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are laid out on one grid and composed by one transform: bench/accounting.py says how long that takes."""
    layouts = count_calls(monkeypatch, "lay_out")
    transforms = count_calls(monkeypatch, "_transform")
    found = best(distinct(5, 10_000), 1e-6)
    assert found.method == "PLD"
    assert found.epsilon == pytest.approx(234.4937, abs=0.01)
    assert (len(layouts), len(transforms)) == (1, 1)


@pytest.mark.deep
@pytest.mark.parametrize("step", [0.0007, 0.02])
def test_laid_out_together_is_each_by_itself(step: float) -> None:
    grid = Grid(step, 1e-15)
    for event in distinct(1, 15):
        rows, _ = lay_out({event: 3}, grid)
        loss = event.profile(grid)
        if loss is None:
            continue
        together: dict[int, float] = {}
        for one in rows:
            for at, mass in zip(one.at.tolist(), one.mass.tolist(), strict=True):
                together[at] = together.get(at, 0.0) + mass
        alone = dict(zip(loss.removed.at.tolist(), loss.removed.mass.tolist(), strict=True))
        assert sum(int(one.times.sum()) for one in rows) == 3
        for at in together.keys() | alone.keys():
            assert together.get(at, 0.0) == pytest.approx(alone.get(at, 0.0), rel=1e-9, abs=1e-25)


@pytest.mark.parametrize("order", [1.01, 2.0, 7.5, 300.0, math.inf])
def test_many_divergences_are_each_by_itself(order: float) -> None:
    sizes = [0.0, 1e-6, 0.01, 0.7, 3.0, 40.0]
    many = responses_renyi(np.array(sizes), order)
    assert many == pytest.approx([LaplaceEvent(size).renyi(order) for size in sizes], rel=1e-12)
    for steps in (1, 4, 900):
        found = laplaces_renyi(np.array(sizes), np.full(len(sizes), float(steps)), order)
        assert found == pytest.approx([DiscreteLaplaceEvent(s, steps).renyi(order) for s in sizes], rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("length", [1024, 65536])
def test_transforms_round_less_than_is_counted(length: int) -> None:
    """Against extended precision: at most a third of the bound, at random and at peaked masses."""
    if np.finfo(np.longdouble).eps > 1e-18:
        pytest.skip("no extended precision here")
    draw = np.random.default_rng(3)
    for width, power in ((length, 1.0), (length // 3, 30.0), (7, 1.0)):
        masses = draw.random(width) ** power
        masses /= masses.sum()
        start = int(draw.integers(-5 * length, length))
        told = convolution._all(masses, start, length)
        padded = np.zeros(length, dtype=np.longdouble)
        padded[(start + np.arange(width)) % length] = masses
        exact = np.fft.rfft(padded)
        assert exact.dtype == np.clongdouble
        bound = convolution._ROUNDING * math.log2(length)
        assert np.abs(told - exact).max() < bound / 3
        places = np.unique(draw.integers(0, length // 2, 50))
        if width < 1000:
            some = convolution._some(masses[None, :], start, places, length)[0]
            assert np.abs(some - exact[places]).max() < (width + 32) * convolution._UNIT


@pytest.mark.parametrize(("counts", "delta"), [({"0.89": 18, "0.1": 12}, 1e-7), ({"0.52": 14, "0.97": 19}, 1e-5)])
def test_pure_lists_hold_exactly(counts: dict[str, int], delta: float) -> None:
    """In 60 digits delta is met; dp-accounting is above by 1e-10, the tails (1e-15) that it cuts and counts as lost."""
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 60
    value = pld_epsilon([LaplaceEvent(size) for size, times in counts.items() for _ in range(times)], delta)
    total = {mp.mpf(0): mp.mpf(1)}
    for size, times in counts.items():
        told = 1 / (1 + mp.exp(-mp.mpf(size)))
        law = [(times - 2 * j, mp.binomial(times, j) * told ** (times - j) * (1 - told) ** j) for j in range(times + 1)]
        total = {a + k * mp.mpf(size): p * q for a, p in total.items() for k, q in law}
    for epsilon, met in ((mp.mpf(value), True), (mp.mpf(value) * (1 - mp.mpf("1e-4")), False)):
        exact = mp.fsum(p * (1 - mp.exp(epsilon - a)) for a, p in total.items() if a > epsilon)
        assert (exact <= mp.mpf(delta)) is met


def test_what_is_sampled_of_nothing_is_nothing() -> None:
    """A grid fit to losses of 0 once asked for 400 GiB."""
    assert pld_delta([Sampled(LaplaceEvent(0), 0.95)], 0) < 1e-11
    assert pld_epsilon([Sampled(LaplaceEvent(0), "0.0001")] * 2, 1e-9) < 1e-9


def test_narrow_noise_sampled_keeps_its_law() -> None:
    """The far tail of noise of sigma .22, told at its least loss, once was most of the mixture: delta was 1."""
    pair = brute.subsample(brute.gaussian(0.05, 1), 0.5)
    truth = max(brute.delta_of_list([one] * 3, 0.0) for one in (pair, brute.exchange(pair)))
    found = pld_delta([Sampled(DiscreteGaussianEvent("0.05", 1, 1), 0.5)] * 3, 0)
    assert truth * (1 - 1e-9) <= found <= truth * 1.001


@pytest.mark.deep
def test_rare_losses_below_the_window_do_not_move_above_it() -> None:
    pair = brute.subsample(brute.gaussian(3.0, 2), 0.01)
    truth = max(brute.delta_of_list([one], 0.0) for one in (pair, brute.exchange(pair)))
    assert pld_delta([Sampled(DiscreteGaussianEvent(3, 2, 1), 0.01)], 0) <= truth * 1.001


def test_epsilon_is_zero_where_delta_covers_all() -> None:
    assert pld_epsilon([LaplaceEvent("0.000241")], 0.3) == 0
    assert pld_epsilon([LaplaceEvent("0.01"), LaplaceEvent(0)], 0.3) == 0


@pytest.mark.deep
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [599, 601, 700, 745, 800, 2000, 10**5])
@pytest.mark.parametrize("steps", [1, 2, 100, 3000, 10**5])
def test_losses_whose_tails_underflow_are_laid_out(epsilon: int, steps: int) -> None:
    """As the losses of any mechanism of that epsilon: beyond 745 a tail is 0 as a float, and 0 / 0 was cast to a place."""
    once, thrice = ([DiscreteLaplaceEvent(epsilon, steps)] * times for times in (1, 3))
    assert epsilon * (1 - 1e-6) < pld_epsilon(once, 1e-6) <= epsilon * (1 + 1e-9)
    assert epsilon * 3 * (1 - 1e-6) < pld_epsilon(thrice, 1e-6) <= epsilon * 3 * (1 + 1e-9)
    assert pld_delta(once, epsilon + 1) < 1e-9
