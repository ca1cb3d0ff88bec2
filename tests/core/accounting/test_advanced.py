"""Closed-form composition, the best of all bounds, a ledger told tightly, and costs in each currency."""

import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from core.accounting import brute
from sordino.core.accounting.composition import (
    best,
    charge_amounts,
    compose_advanced,
    compose_kairouz,
    currencies,
    optimal,
    tight,
)
from sordino.core.accounting.concentration import laplace_rho, pure_rho
from sordino.core.accounting.events import (
    ApproxEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
)
from sordino.core.accounting.pld import pld_epsilon
from sordino.core.accounting.zcdp import epsilon_of
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP
from sordino.core.mechanisms.noise_choice import cheapest
from sordino.core.neighbors import Sensitivity
from sordino.errors import DeclarationError


def test_reference_numbers_of_500_runs() -> None:
    assert compose_advanced([1.0] * 500, Fraction(1, 10**5)) == pytest.approx(966.4392155439899, rel=1e-13)
    found = best([DiscreteLaplaceEvent(1, 2**20)] * 500, 1e-5)
    assert found.method == "PLD"
    assert found.epsilon == pytest.approx(258.3, abs=0.05)
    assert found.table["advanced composition"] == pytest.approx(966.4392155439899, rel=1e-12)
    assert found.table["Kairouz, Oh, Viswanath"] == pytest.approx(338.36, abs=0.005)
    assert found.table["zCDP"] == pytest.approx(epsilon_of(500 * laplace_rho(Fraction(1), 2**20), 1e-5))
    assert found.table["sum"] == 500


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 1), (1.0, 3), (0.4, 12), (2.5, 6)])
@pytest.mark.parametrize("delta", [0.2, 1e-3, 1e-7])
def test_optimal_is_the_exact_answer(epsilon: float, k: int, delta: float) -> None:
    value = optimal(epsilon, k, delta)
    pairs = [brute.response(epsilon)] * k
    assert brute.delta_of_list(pairs, value) <= delta * (1 + 1e-8)
    assert value == 0 or brute.delta_of_list(pairs, value * 0.9999) > delta
    assert value <= compose_kairouz([epsilon] * k, Fraction(delta)) * (1 + 1e-12)


def test_optimal_agrees_with_the_multiples_of_kairouz_2015_theorem_3_3() -> None:
    epsilon, k = 0.5, 9
    for i in range(k // 2 + 1):
        delta = (
            sum(math.comb(k, j) * (math.exp((k - j) * epsilon) - math.exp((k - 2 * i + j) * epsilon)) for j in range(i))
            / (1 + math.exp(epsilon)) ** k
        )
        if delta:
            assert optimal(epsilon, k, delta) == pytest.approx((k - 2 * i) * epsilon, rel=1e-9)
    assert optimal(epsilon, k, 1e-300) == pytest.approx(k * epsilon)
    assert optimal(1, 20_000, 1e-6) < compose_kairouz([1.0] * 20_000, Fraction(1, 10**6))
    assert optimal(0, 5, 0.1) == optimal(1, 0, 0.1) == 0


@pytest.mark.parametrize("lists", [8, pytest.param(25, marks=pytest.mark.deep)])
def test_bounds_of_several_sizes_hold(lists: int) -> None:
    """Against exact composition of randomized responses by PLD, which no valid bound for pure events can beat."""
    draw = random.Random(3)
    for _ in range(lists):
        sizes = [draw.choice([0.01, 0.1, 0.5, 1.5]) for _ in range(draw.randrange(1, 12))]
        delta = draw.choice([0.3, 1e-2, 1e-6])
        truth = pld_epsilon([LaplaceEvent(size) for size in sizes], delta) * (1 - 1e-3)
        assert truth <= compose_kairouz(sizes, Fraction(delta)) <= compose_advanced(sizes, Fraction(delta)) * (1 + 1e-9)
        assert compose_kairouz(sizes, Fraction(delta)) <= sum(sizes) * (1 + 1e-12)


LISTS: list[list[Event]] = [
    [LaplaceEvent(1)],
    [LaplaceEvent("0.1")] * 30,
    [LaplaceEvent("0.1")] * 30 + [ApproxEvent("0.2", "1e-8")] * 4,
    [GaussianEvent("0.01", (Fraction(1), Fraction(1, 10**7)))] * 3,
    [DiscreteGaussianEvent(40, 2, 1, (Fraction(2), Fraction(1, 10**7)))] * 3 + [LaplaceEvent(2)],
    [Composed((GaussianEvent("0.01"), LaplaceEvent("0.1")), (Fraction(1), Fraction(1, 10**9))), LaplaceEvent("0.2")],
    [GaussianEvent("0.2"), ApproxEvent(1, "1e-9")],
]


@pytest.mark.each(5)
@pytest.mark.parametrize("events", LISTS, ids=lambda events: f"{len(events)} of {events[0]!r}"[:60])
def test_best_is_the_least_of_its_table(events: list[Event]) -> None:
    found = best(events, 1e-6)
    told = {name: value for name, value in found.table.items() if value is not None}
    assert found.epsilon == min(told.values()) == told[found.method]
    assert set(found.table) == {
        "sum",
        "advanced composition",
        "Kairouz, Oh, Viswanath",
        "optimal composition",
        "zCDP",
        "Renyi",
        "PLD",
    }
    assert found.describe().startswith("epsilon ")
    pld = found.table["PLD"]
    assert pld is not None
    for name in ("sum", "Kairouz, Oh, Viswanath", "advanced composition"):
        if told.get(name) is not None and all(event.profile is not None and event.pure() for event in events):
            assert pld <= told[name] * 1.001


def test_a_finished_list_is_never_dearer_than_its_sum() -> None:
    for k in (1, 2, 5):
        assert best([LaplaceEvent("0.7")] * k, 1e-9).epsilon <= 0.7 * k * (1 + 1e-12)
    assert best([LaplaceEvent(1)] * 2, 0).epsilon == 2
    with pytest.raises(DeclarationError, match="larger delta"):
        best([ApproxEvent(1, "1e-3")], 1e-6)
    for delta in (-1, 1):
        with pytest.raises(DeclarationError):
            best([LaplaceEvent(1)], delta)


def test_the_tight_report_leaves_the_ledger_as_it_is(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "people.ledger", cap=PureDP(10)) as ledger:
        for number in range(60):
            ledger.commit(ledger.charge(DiscreteLaplaceEvent("0.1", 1), note="", question=str(number)), "{}")
        ledger.charge(LaplaceEvent("0.1"), note="", question="in doubt")
        found = tight(ledger.charges(), 1e-6)
        assert found.epsilon == pytest.approx(best([LaplaceEvent("0.1")] * 61, 1e-6).epsilon, rel=1e-6)
        assert found.epsilon < 4.2 < 6.1 == float(ledger.spent().amounts()["epsilon"])
        assert ledger.remaining() == PureDP("3.9")


def test_currencies() -> None:
    assert currencies(LaplaceEvent("1/2")) == {
        "epsilon": Fraction(1, 2),
        "approx": (Fraction(1, 2), 0),
        "rho": pure_rho(Fraction(1, 2)),
    }
    assert currencies(GaussianEvent(1)) == {"epsilon": None, "approx": None, "rho": Fraction(1)}
    told = currencies(GaussianEvent("1/2"), 1e-5)["approx"]
    assert isinstance(told, tuple)
    assert float(told[0]) == pytest.approx(epsilon_of("1/2", 1e-5))
    assert told[1] == Fraction(1, 10**5)
    assert currencies(ApproxEvent(1, "1e-3"), 1e-6)["approx"] is None


SENSITIVITIES = [
    Sensitivity(1, Fraction(1), Fraction(1), Fraction(1), "a count"),
    Sensitivity(3, Fraction(3), Fraction(3), Fraction(1), "three cells"),
    Sensitivity(1, Fraction(99), Fraction(99**2), Fraction(99), "a sum"),
    Sensitivity(2, Fraction(5), Fraction(13), Fraction(3), "uneven"),
    Sensitivity(1, Fraction(1, 3), Fraction(1, 9), Fraction(1, 3), "not whole"),
]


@pytest.mark.each(5)
@pytest.mark.parametrize("sensitivity", SENSITIVITIES, ids=lambda s: s.because)
@pytest.mark.parametrize("loss", [PureDP("1/3"), ZCDP("1/7")], ids=repr)
def test_law_in_the_event_leaves_the_charge_as_it_was(sensitivity: Sensitivity, loss: Loss) -> None:
    _, event = cheapest([(sensitivity, Fraction(1))], loss)
    assert charge_amounts(event, loss) == loss.amounts()
    if isinstance(loss, PureDP):
        whole = sensitivity.l1.denominator == 1
        assert event.rho() == (laplace_rho(loss.epsilon, int(sensitivity.l1)) if whole else pure_rho(loss.epsilon))
        assert charge_amounts(event, ApproxDP(1, 0)) == {"epsilon": loss.epsilon, "delta": 0}
    assert pld_epsilon([event], 1e-6) <= best([event], 1e-6).epsilon * 1.01
