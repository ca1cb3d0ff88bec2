"""An event from outside is composed, stored and read like Sordino's own; a stored one of unknown kind keeps its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from sordino.core.accounting.amplify import Sampled
from sordino.core.accounting.composition import best, charge_amounts, tight
from sordino.core.accounting.discretize import Response
from sordino.core.accounting.event_fields import UnknownEvent, event_from_dict, event_to_dict, register_event
from sordino.core.accounting.events import Composed, GaussianEvent, LaplaceEvent, ThresholdEvent, approximate_rho
from sordino.core.accounting.pld import pld_epsilon
from sordino.core.accounting.renyi import renyi_epsilon
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import Event, Grid, PrivacyLoss, PureDP
from sordino.errors import DeclarationError


@register_event("coin of a test")
@dataclass(frozen=True, slots=True)
class Coin:
    """Randomized response, with nothing but the five methods that each event has."""

    epsilon: Fraction

    def pure(self) -> Fraction:
        return self.epsilon

    def approx(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, Fraction(0)

    def rho(self) -> Fraction | None:
        return LaplaceEvent(self.epsilon).rho()

    def renyi(self, order: float) -> float:
        return LaplaceEvent(self.epsilon).renyi(order)

    def profile(self, grid: Grid) -> PrivacyLoss:
        return LaplaceEvent(self.epsilon).profile(grid)


@register_event("fast coin of a test")
@dataclass(frozen=True, slots=True)
class FastCoin(Coin):
    """The same, with its common law."""

    def common_law(self) -> Response:
        return Response(float(self.epsilon), 0.0)

    def profile(self, grid: Grid) -> PrivacyLoss:
        raise AssertionError(f"the law says all: it need not be asked for losses on {grid}")

    def renyi(self, order: float) -> float:
        assert order == 2.0, "asked whether there is a bound, and no more: the law says all"
        return LaplaceEvent(self.epsilon).renyi(order)


@register_event("leaky of a test")
@dataclass(frozen=True, slots=True)
class Leaky:
    """Something rho-zCDP but for a failure of probability delta."""

    inner: Fraction
    delta: Fraction

    def pure(self) -> None:
        return None

    def approx(self) -> tuple[Fraction, Fraction]:
        return Fraction(1), Fraction(1, 1000)

    def rho(self) -> None:
        return None

    def renyi(self, order: float) -> None:
        del order

    def profile(self, grid: Grid) -> None:
        del grid

    def approximate_rho(self) -> tuple[Fraction, Fraction]:
        return self.inner, self.delta


HALF = Fraction(1, 2)
LEAKY = Leaky(Fraction(1, 8), Fraction(1, 10**6))


@pytest.mark.each(2)
@pytest.mark.parametrize("coin", [Coin(HALF), FastCoin(HALF)])
def test_it_composes_as_its_bounds_say(coin: Event) -> None:
    ours = LaplaceEvent(HALF)
    # the grid of the losses follows from what is known of each event, and adds up to 1e-4 of the whole
    others: list[Event] = [GaussianEvent("1/8"), LaplaceEvent("1/3")]
    for times in (1, 30):
        assert pld_epsilon([coin] * times, 1e-6) == pytest.approx(pld_epsilon([ours] * times, 1e-6), rel=1e-4)
        mixed = best([coin] * times + others, 1e-6)
        expected = best([ours] * times + others, 1e-6)
        assert mixed.method == expected.method
        for method, epsilon in expected.table.items():
            assert mixed.table[method] == (None if epsilon is None else pytest.approx(epsilon, rel=1e-4))
    assert Composed((coin, ours)).pure() == 1
    assert renyi_epsilon([coin], 1e-6)[0] == pytest.approx(renyi_epsilon([ours], 1e-6)[0])


def test_it_says_what_a_cap_on_rho_and_delta_counts() -> None:
    assert approximate_rho(LEAKY) == (Fraction(1, 8), Fraction(1, 10**6))
    assert approximate_rho(ThresholdEvent(LEAKY, "1e-6")) == (Fraction(1, 8), Fraction(2, 10**6))
    assert approximate_rho(Composed((LEAKY, GaussianEvent("1/8")))) == (Fraction(1, 4), Fraction(1, 10**6))
    assert approximate_rho(UnknownEvent("x", "{}", None, (Fraction(1), Fraction(0)), None)) is None
    with pytest.raises(DeclarationError, match="counts epsilon alone"):
        charge_amounts(LEAKY, PureDP(1))


@pytest.mark.parametrize("event", [Coin(HALF), FastCoin(HALF), LEAKY, Composed((Coin(HALF), LaplaceEvent(1)))])
def test_it_is_written_and_read_again(event: Event) -> None:
    assert event_from_dict(event_to_dict(event)) == event


@pytest.mark.parametrize("event", [Coin(HALF), LEAKY])
def test_a_record_of_a_kind_that_nobody_registered_keeps_its_bounds(event: Event) -> None:
    plain = {**event_to_dict(event), "event": "forgotten"}
    read = event_from_dict(plain)
    assert isinstance(read, UnknownEvent)
    assert (read.pure(), read.approx(), read.rho()) == (event.pure(), event.approx(), event.rho())
    assert event_to_dict(read) == plain
    for outer in (Composed((read, LaplaceEvent(1))), ThresholdEvent(read, "1e-6"), Sampled(read, "1/2")):
        assert event_from_dict(event_to_dict(outer)) == outer


def test_a_part_of_a_kind_that_nobody_registered_keeps_its_bounds() -> None:
    """The bounds stand beside each part of its own, so that a record of several means the same everywhere."""
    whole = event_to_dict(Composed((Coin(HALF), LaplaceEvent(1))))
    whole["events"][0]["event"] = "forgotten"
    read = event_from_dict(whole)
    assert read.pure() == Fraction(3, 2)
    assert event_to_dict(read) == whole


def test_a_ledger_charges_it_and_has_it_after_reopening(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "coins.ledger", cap=PureDP(2))
    ledger.charge(Coin(HALF), note="", question="q")
    ledger.close()
    again = Ledger.existing(tmp_path / "coins.ledger")
    again.charge(FastCoin(HALF), note="", question="q")
    assert again.spent() == PureDP(1)
    assert [event_from_dict(charge.event) for charge in again.charges()] == [Coin(HALF), FastCoin(HALF)]
    assert tight(again.charges(), 0).epsilon == 1.0
    again.close()
