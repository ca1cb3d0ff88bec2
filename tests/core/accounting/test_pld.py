"""Privacy loss distributions: brute force, the oracle, published numbers, and never a value below the truth."""

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import pytest

from core.accounting import brute
from core.accounting.test_tightness import count_calls
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.accounting.events import (
    ApproxEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
)
from sordino.core.accounting.gaussian_dp import analytic_gaussian_sigma
from sordino.core.accounting.pld import pld_delta, pld_epsilon
from sordino.core.accounting.zcdp import delta_of, epsilon_of
from sordino.core.loss import Event, Grid, PrivacyLoss
from sordino.errors import DeclarationError

FINE = 2**20  # steps of a lattice on which discrete laws are continuous ones to far below 1e-6
EVENTS: dict[str, tuple[Event, brute.Pair]] = {
    "response": (LaplaceEvent(0.5), brute.response(0.5)),
    "approx": (ApproxEvent(0.3, 1e-4), brute.response(0.3, 1e-4)),
    "laplace, 1 step": (DiscreteLaplaceEvent(0.7, 1), brute.laplace(0.7, 1)),
    "laplace, 7 steps": (DiscreteLaplaceEvent(1, 7), brute.laplace(1.0, 7)),
    "gaussian, shift 1": (DiscreteGaussianEvent(2, 1, 1), brute.gaussian(2.0, 1)),
    "gaussian, shift 3": (DiscreteGaussianEvent(30, 3, 1), brute.gaussian(30.0, 3)),
}
LISTS = [
    ["response"],
    ["approx"],
    ["laplace, 7 steps"],
    ["gaussian, shift 3"],
    ["response", "response", "laplace, 1 step", "laplace, 1 step"],
    ["laplace, 7 steps"] * 3,
    ["gaussian, shift 1"] * 2,
    ["gaussian, shift 3", "laplace, 7 steps", "approx"],
]


@pytest.mark.each(3)
@pytest.mark.parametrize("names", LISTS, ids=lambda names: " + ".join(names))
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.65, 1.2, 2.5])
def test_delta_is_that_of_enumeration(names: list[str], epsilon: float) -> None:
    truth = brute.delta_of_list([EVENTS[name][1] for name in names], epsilon)
    found = pld_delta([EVENTS[name][0] for name in names], epsilon)
    assert truth * (1 - 1e-9) - 1e-15 <= found <= truth * 1.001 + 1e-11


@pytest.mark.each(11)
@pytest.mark.parametrize("names", LISTS, ids=lambda names: " + ".join(names))
@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-6])
def test_epsilon_is_the_least_that_holds(names: list[str], delta: float) -> None:
    pairs, found = [EVENTS[name][1] for name in names], pld_epsilon([EVENTS[name][0] for name in names], delta)
    if math.isinf(found):
        assert brute.delta_of_list(pairs, 100.0) > delta
        return
    assert brute.delta_of_list(pairs, found) <= delta * (1 + 1e-8)
    assert found < 1e-6 or brute.delta_of_list(pairs, found * 0.999) >= delta * (1 - 1e-6)


@pytest.mark.each(5)
@pytest.mark.parametrize("event", [event for event, _ in EVENTS.values()], ids=list(EVENTS))
def test_losses_dominate_on_coarse_grids_too(event: Event) -> None:
    """A grid of any step gives a delta at or above that of a fine one, at every epsilon."""
    for step in (0.003, 0.05, 0.4, 3.0):
        for epsilon in (0.0, 0.2, 0.7):
            fine = pld_delta([event], epsilon)
            assert delta(event.profile(Grid(step, 1e-12)), step, epsilon) >= fine * (1 - 2e-4) - 1e-12


def delta(loss: PrivacyLoss | None, step: float, epsilon: float) -> float:
    assert loss is not None
    one = loss.removed
    terms = [m * -math.expm1(epsilon - a * step) for a, m in zip(one.at, one.mass, strict=True) if a * step > epsilon]
    return one.infinite + math.fsum(terms)


@pytest.mark.parametrize(("event", "pair"), EVENTS.values(), ids=list(EVENTS))
def test_profile_is_a_pair_of_laws(event: Event, pair: brute.Pair) -> None:
    """P's masses sum to 1, Q's to 1 less what P cannot show; both directions are alike."""
    loss = event.profile(Grid(0.01, 1e-12))
    assert loss is not None
    assert loss.added is loss.removed
    finite, infinite = brute.losses(pair)
    assert 1 <= loss.removed.mass.sum() + loss.removed.infinite <= 1 + 1e-9
    assert infinite * (1 - 1e-12) <= loss.removed.infinite <= infinite + 1e-12
    without = math.fsum(m * math.exp(-0.01 * a) for a, m in zip(loss.removed.at, loss.removed.mass, strict=True))
    assert without == pytest.approx(math.fsum(p * math.exp(-x) for x, p in finite.items()), abs=1e-8)


def vectors(l1: int) -> list[tuple[int, ...]]:
    return [v for k in range(1, l1 + 1) for v in itertools.product(range(1, l1 + 1), repeat=k) if sum(v) <= l1]


@pytest.mark.each(10)
@pytest.mark.parametrize("epsilon", [0.05, 0.8, 3.0])
@pytest.mark.parametrize("l1", [2, 3, 4])
def test_vector_laplace_is_dominated_by_one_number_that_moves_by_l1(epsilon: float, l1: int) -> None:
    """Every vector of whole moves of l1 length at most `l1`: delta is at most the scalar's, at every epsilon."""
    scalar = brute.laplace(epsilon, l1)
    bends = sorted({0.0, *(abs(x) for x in brute.losses(scalar)[0])})
    places = [*bends, *((a + b) / 2 for a, b in itertools.pairwise(bends))]
    for v in {tuple(sorted(v)) for v in vectors(l1)}:
        if len(v) > 3:
            continue
        pairs = [brute.laplace(epsilon, l1, shift=each) for each in v]
        for place in places:
            assert brute.delta_of_list(pairs, place) <= brute.delta_of_list([scalar], place) + 1e-9, (v, place)


def test_smaller_shifts_of_gaussian_noise_are_dominated() -> None:
    for small in (1, 2, 3):
        for epsilon in (0.0, 0.1, 0.4, 1.0):
            less, more = (brute.delta_of_list([brute.gaussian(6.0, s)], epsilon) for s in (small, small + 1))
            assert less <= more + 1e-15


def test_cells_of_a_gaussian_add_up() -> None:
    three = DiscreteGaussianEvent(9, 2, 3)
    one = DiscreteGaussianEvent(9, 2, 1)
    assert three.rho() == 3 * (one.rho() or 0)
    assert pld_epsilon([three], 1e-6) == pytest.approx(pld_epsilon([one] * 3, 1e-6), rel=1e-9)
    step = 0.004
    whole = delta(three.profile(Grid(step, 1e-15)), step, 1.0)
    assert pld_delta([one] * 3, 1.0) == pytest.approx(whole, rel=1e-3)


def test_reference_laplace_pld_of_500() -> None:
    value = pld_epsilon([DiscreteLaplaceEvent(1, FINE)] * 500, 1e-5)
    assert value == pytest.approx(258.3, abs=0.05)


def test_gaussians_are_those_of_the_analytic_formula() -> None:
    """500 runs at sigma 200 on a lattice so fine that the law is continuous: Balle & Wang 2018, Theorem 8."""
    value = pld_epsilon([DiscreteGaussianEvent(200**2 * FINE**2, FINE, 1)] * 500, 1e-5)
    assert analytic_gaussian_sigma(value * 0.999, 1e-5) > 200 / 500**0.5
    assert analytic_gaussian_sigma(value * (1 + 1e-6), 1e-5) <= 200 / 500**0.5


@pytest.mark.each(6)
@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.5, 20.0])
def test_an_event_of_rho_alone_converts_by_zcdp(rho: float) -> None:
    value = pld_epsilon([GaussianEvent(rho / 4)] * 4, 1e-6)
    assert epsilon_of(rho, 1e-6) * (1 - 1e-12) <= value <= epsilon_of(rho, 1e-6) * 1.002
    gaussian = [DiscreteGaussianEvent(Fraction(FINE**2) / Fraction(repr(2 * rho)), FINE, 1)]
    told, least = pld_delta([GaussianEvent(rho)], 0.3), pld_delta(gaussian, 0.3)
    assert least * (1 - 1e-6) - 1e-19 <= told <= delta_of(rho, 0.3) * 1.01 + 1e-19


def test_composed_is_what_its_parts_are() -> None:
    inner: list[Event] = [LaplaceEvent(0.2), DiscreteGaussianEvent(50, 2, 1), ApproxEvent(0.1, 1e-9)]
    whole = pld_epsilon([Composed((inner[0], Composed(tuple(inner[1:]))))], 1e-6)
    assert whole == pytest.approx(pld_epsilon(inner, 1e-6), rel=1e-12)
    step = 0.002
    assert delta(Composed(inner).profile(Grid(step, 1e-15)), step, 0.5) == pytest.approx(
        pld_delta(inner, 0.5), rel=2e-3
    )


def test_what_has_no_bound_adds_up() -> None:
    """Losses beyond any bound: of two mechanisms at delta .1 each, and of the tail that a table of Gaussian noise leaves."""
    both = Composed((ApproxEvent(1, "0.1"), ApproxEvent(1, "0.1"))).profile(Grid(0.01, 1e-15))
    assert both is not None
    assert both.removed.infinite >= 0.19 - 1e-12
    for sigma_squared in (50, 10**6):  # summed step by step, and in blocks
        cut = DiscreteGaussianEvent(sigma_squared, 2, 1).profile(Grid(0.01, 1e-3))
        assert cut is not None
        assert cut.removed.infinite >= 1e-3


def test_edges() -> None:
    assert pld_epsilon([], 1e-6) == 0
    assert pld_delta([], 0) == 0
    assert pld_epsilon([LaplaceEvent(0)] * 3, 1e-6) <= 1e-6
    assert pld_epsilon([LaplaceEvent(100)], 1e-12) == pytest.approx(100, rel=1e-6)
    assert pld_epsilon([LaplaceEvent("1e-9")] * 5, 1e-12) <= 5.01e-9
    assert pld_delta([LaplaceEvent(1)] * 3, 3) < 1e-12
    assert math.isinf(pld_epsilon([ApproxEvent(0.1, 1e-6)], 1e-7))
    assert pld_delta([ApproxEvent(0.1, 1e-6)] * 2, 50) == pytest.approx(2e-6, rel=1e-5)
    for delta in (0, 1):
        with pytest.raises(DeclarationError):
            pld_epsilon([], delta)
    with pytest.raises(DeclarationError):
        pld_delta([], -1)


def test_very_small_deltas_keep_their_digits() -> None:
    """At delta 1e-60 a plain transform has nothing left; the tilted one agrees with the analytic formula."""
    value = pld_epsilon([DiscreteGaussianEvent(100 * FINE**2, FINE, 1)] * 100, "1e-60")
    assert analytic_gaussian_sigma(value * 0.999, "1e-60") > 1.0
    assert analytic_gaussian_sigma(value * (1 + 1e-5), "1e-60") <= 1.0


def mix_events(seed: int, *, most: int, distinct: int) -> list[Event]:
    draw = random.Random(seed)
    pool: list[Event] = []
    for _ in range(distinct):
        epsilon = Fraction(draw.randrange(1000, 300_000), 10**6)
        shift = draw.randrange(1, 40)
        kinds: list[Event] = [
            LaplaceEvent(epsilon),
            DiscreteLaplaceEvent(epsilon, shift),
            DiscreteGaussianEvent(Fraction(math.ceil((shift / epsilon) ** 2)), shift, 1),
            ApproxEvent(epsilon, "1e-12"),
            GaussianEvent(epsilon**2 / 2),
        ]
        pool.append(draw.choice(kinds))
    return [draw.choice(pool) for _ in range(most)]


@pytest.mark.deep
def test_ten_thousand_charges_cost_as_much_as_their_hundred_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind is laid out once, and all are composed by one transform: bench/accounting.py says how long that takes."""
    events = mix_events(5, most=10_000, distinct=100)
    layouts = count_calls(monkeypatch, "lay_out")
    transforms = count_calls(monkeypatch, "_transform")
    value = pld_epsilon(events, 1e-6)
    assert [len(counts) for counts, _ in layouts] == [100]
    assert len(transforms) == 1
    assert value == pytest.approx(234.2099, abs=0.01)
    rho = sum((rho for rho in (e.rho() for e in events) if rho is not None), Fraction(0))
    assert value < epsilon_of(rho, 1e-7) + 100


def oracle(items: list[tuple[str, int, float, float]], target: float, *, upper: bool) -> float:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    total: Any = None
    for kind, times, size, more in items:
        told = {"pessimistic_estimate": upper, "value_discretization_interval": 2e-4}
        if kind == "laplace":
            one = pld.from_laplace_mechanism(1 / size, **told)
        elif kind == "gaussian":
            one = pld.from_gaussian_mechanism(1 / size, **told)
        else:
            pair = common.DifferentialPrivacyParameters(size, more)
            one = pld.from_privacy_parameters(pair, value_discretization_interval=2e-4)
        one = one.self_compose(times)
        total = one if total is None else total.compose(one)
    return float(total.get_epsilon_for_delta(target))


def ours(items: list[tuple[str, int, float, float]]) -> list[Event]:
    events: list[Event] = []
    for kind, times, size, more in items:
        made: dict[str, Event] = {
            "laplace": DiscreteLaplaceEvent(size, FINE),
            "gaussian": DiscreteGaussianEvent(Fraction(1) / Fraction(repr(size)) ** 2 * FINE**2, FINE, 1),
            "response": LaplaceEvent(size),
            "approx": ApproxEvent(size, more),
        }
        events += [made[kind]] * times
    return events


@pytest.mark.deep
@pytest.mark.parametrize("seed", [5, *range(5), 6, 7])
def test_random_lists_agree_with_dp_accounting(seed: int) -> None:
    """Within 1e-3 above the oracle's upper bound, and never below its lower one, at continuous noise's scale."""
    draw = random.Random(seed)
    items = []
    for _ in range(draw.randrange(1, 4)):
        kind = draw.choice(["laplace", "gaussian", "response", "approx"])
        items.append((kind, draw.randrange(1, 60), round(math.exp(draw.uniform(-3.5, 0.0)), 3), 1e-10))
    target = draw.choice([1e-4, 1e-6])
    value = pld_epsilon(ours(items), target)
    assert value <= oracle(items, target, upper=True) * 1.001
    if all(kind in ("laplace", "gaussian") for kind, *_ in items):
        assert value >= oracle(items, target, upper=False) * (1 - 1e-6)
    else:  # the oracle has no lower bound for the others: its upper one is right to a step each
        assert value >= oracle(items, target, upper=True) * (1 - 1e-3)


WRITTEN = [DiscreteLaplaceEvent("1/3", 12), DiscreteGaussianEvent("7/2", 3, 2, (Fraction(1), Fraction(1, 9)))]


@pytest.mark.parametrize("event", WRITTEN, ids=repr)
def test_new_events_survive_ledgers(event: Event) -> None:
    assert event_from_dict(event_to_dict(event)) == event
    assert eval(repr(event)) == event
