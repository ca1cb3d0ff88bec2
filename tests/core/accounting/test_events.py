"""Events: their bounds are those of the theorems, and they survive being written down."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from mistyping import mistype
from sordino.core.accounting.concentration import pure_rho
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.accounting.events import Composed, GaussianEvent, LaplaceEvent
from sordino.core.loss import Event
from sordino.errors import DeclarationError

CERTIFIED = GaussianEvent(Fraction(1, 8), (Fraction(1), Fraction(1, 10**5)))
EVENTS = [
    LaplaceEvent(0),
    LaplaceEvent("1/3"),
    GaussianEvent(0.125),
    CERTIFIED,
    Composed(()),
    Composed((LaplaceEvent(1), CERTIFIED, Composed((GaussianEvent(1),))), (Fraction(2), Fraction(1, 100))),
]


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_event_survives_json_and_repr(event: Event) -> None:
    assert isinstance(event, Event)
    assert event_from_dict(event_to_dict(event)) == event
    assert eval(repr(event)) == event
    assert hash(event) == hash(event_from_dict(event_to_dict(event)))


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 0.5, 1.0, 3.0, 20.0, 400.0])
@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 10.0, 1000.0])
def test_laplace_renyi_is_that_of_randomized_response(epsilon: float, order: float) -> None:
    import decimal

    with decimal.localcontext(decimal.Context(prec=400, Emax=10**9, Emin=-(10**9))):
        e, a = decimal.Decimal(repr(epsilon)), decimal.Decimal(repr(order))
        p, q = e.exp() / (1 + e.exp()), 1 / (1 + e.exp())
        true = float(((p**a) * q ** (1 - a) + (q**a) * p ** (1 - a)).ln() / (a - 1))
    value = LaplaceEvent(epsilon).renyi(order)
    assert true * (1 - 1e-15) <= value <= true * (1 + 1e-12)
    assert value <= min(epsilon, order * float(LaplaceEvent(epsilon).rho())) * (1 + 1e-12)


def test_composed_sums_and_is_none_where_a_part_is() -> None:
    both = Composed((LaplaceEvent(1), CERTIFIED))
    assert both.pure() is None
    assert both.approx() == (Fraction(2), Fraction(1, 10**5))
    assert both.rho() == pure_rho(Fraction(1)) + Fraction(1, 8)
    assert both.renyi(2.0) == pytest.approx(LaplaceEvent(1).renyi(2.0) + 0.25)
    assert Composed((CERTIFIED, CERTIFIED)).approx() == (Fraction(2), Fraction(2, 10**5))
    assert Composed((GaussianEvent(1),)).approx() is None
    assert Composed((GaussianEvent(1),), (Fraction(3), Fraction(1, 10))).approx() == (Fraction(3), Fraction(1, 10))
    assert Composed((LaplaceEvent("1/3"), LaplaceEvent("2/3"))).pure() == 1


def test_pure_bound_covers_infinite_order() -> None:
    assert LaplaceEvent(2).renyi(math.inf) == 2.0
    assert GaussianEvent(1).renyi(math.inf) == math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: LaplaceEvent(-1),
        lambda: LaplaceEvent(math.nan),
        lambda: GaussianEvent(-1),
        lambda: GaussianEvent(1, (Fraction(1), Fraction(1))),
        lambda: Composed((mistype("laplace"),)),
        lambda: LaplaceEvent(1).renyi(1.0),
        lambda: event_from_dict({"event": "laplac", "epsilon": "1"}),
        lambda: event_from_dict({"event": "laplace"}),
        lambda: event_from_dict({"event": "laplace", "epsilon": "one"}),
        lambda: event_to_dict(mistype(object())),
    ],
)
def test_what_breaks_a_rule_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(DeclarationError):
        make()
