"""Training elsewhere on the same budget: events by dp_accounting's names, priced, refused, stored and read again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sordino as sd
from protecting import protect
from sordino.core.accounting.composition import best
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict
from sordino.core.accounting.events import Composed, GaussianEvent, LaplaceEvent
from sordino.core.accounting.repeated import NormalEvent, Repeated, read_event
from sordino.core.errors import BudgetExhausted, DeclarationError, QuestionRefused, SordinoError
from sordino.core.loss import Grid, Loss
from trying import examples

# The classes of dp_accounting by their names and fields: the package itself is no dependency.


@dataclass
class GaussianDpEvent:
    noise_multiplier: Any


@dataclass
class LaplaceDpEvent:
    noise_multiplier: Any


@dataclass
class PoissonSampledDpEvent:
    sampling_probability: Any
    event: Any


@dataclass
class SelfComposedDpEvent:
    event: Any
    count: Any


@dataclass
class ComposedDpEvent:
    events: Any


@dataclass
class ZCDpEvent:
    rho: Any
    xi: Any = 0


@dataclass
class NonPrivateDpEvent:
    pass


SGD = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 100)
DOMAIN = sd.Domain({"a": sd.Integer(0, 9), "id": sd.Identifier()})


def open_table(budget: Loss, **options: Any) -> sd.Curator:
    return protect(pa.table({"a": [1, 2, 3], "id": ["x", "x", "y"]}), DOMAIN, budget=budget, **options)


def test_a_run_of_dp_sgd_is_charged_once() -> None:
    """Rate .1, noise 2, 100 steps: by the PLD of dp_accounting 0.6 epsilon lies between 2.33239 and 2.33741 at 1e-5."""
    table = open_table(sd.ApproxDP(4, "1e-4"))
    release = table.charge_event(SGD, note="DP-SGD of the churn model", delta="1e-5")
    epsilon = release.cost.amounts()["epsilon"]
    assert 2.33239 < epsilon < 2.33741 * 1.003
    assert table.spent == release.cost == sd.ApproxDP(epsilon, "1e-5")
    assert "declared word" in release.notes[0]
    assert "Poisson" in release.notes[1]
    assert table.releases()[0].question == "run elsewhere: DP-SGD of the churn model"
    assert "100.0" not in table.explain(release.charge)
    # What is left is for questions, on the same ledger.
    table.ask(sd.count(), epsilon=1)
    assert table.spent == sd.ApproxDP(epsilon + 1, "1e-5")
    with pytest.raises(BudgetExhausted):
        table.charge_event(SGD, note="once more", delta="1e-5")


EXACT: list[tuple[Any, Loss, Loss]] = [
    (LaplaceDpEvent(4), sd.PureDP(1), sd.PureDP("1/4")),
    (SelfComposedDpEvent(LaplaceDpEvent(4), 3), sd.PureDP(1), sd.PureDP("3/4")),
    (ComposedDpEvent([LaplaceDpEvent(4), LaplaceDpEvent(2)]), sd.ApproxDP(1, "1e-6"), sd.ApproxDP("3/4", 0)),
    (GaussianDpEvent(2), sd.ZCDP(1), sd.ZCDP("1/8")),
    (SelfComposedDpEvent(GaussianDpEvent(2), 5), sd.ZCDP(1), sd.ZCDP("5/8")),
    # Sampling lowers no rho that holds at every order.
    (SelfComposedDpEvent(PoissonSampledDpEvent(0.5, GaussianDpEvent(2)), 5), sd.ZCDP(1), sd.ZCDP("5/8")),
    (ZCDpEvent("0.3"), sd.ZCDP(1), sd.ZCDP("0.3")),
    (LaplaceEvent("1/3"), sd.PureDP(1), sd.PureDP("1/3")),
    (SelfComposedDpEvent(GaussianDpEvent(2), 0), sd.ZCDP(1), sd.ZCDP(0)),
]


@pytest.mark.parametrize(("event", "cap", "cost"), EXACT, ids=lambda part: type(part).__name__)
def test_costs_are_exact(event: Any, cap: Loss, cost: Loss) -> None:
    table = open_table(cap)
    assert table.charge_event(event, note="a run").cost == cost
    assert table.spent.amounts() == cost.amounts()


REFUSED: list[tuple[Any, Loss, dict[str, Any], type[SordinoError], str]] = [
    (SGD, sd.PureDP(9), {}, QuestionRefused, "no pure epsilon"),
    (SGD, sd.ApproxDP(9, "1e-4"), {}, DeclarationError, "delta is missing"),
    (SGD, sd.ApproxDP(9, "1e-4"), {"delta": 1}, DeclarationError, "delta must lie"),
    (GaussianDpEvent(1), sd.ZCDP(9), {"delta": "1e-6"}, DeclarationError, "leave it out"),
    (GaussianDpEvent(1), sd.ZCDP(9), {"neighbors": "replace"}, DeclarationError, "add_remove"),
    (GaussianDpEvent(1), sd.ZCDP(9), {"privacy_unit": "id"}, DeclarationError, "the table's is 'row'"),
    (GaussianDpEvent(1), sd.ZCDP(9), {"note": " "}, DeclarationError, "note says what was run"),
    (GaussianDpEvent(0), sd.ZCDP(9), {}, DeclarationError, "above 0"),
    (GaussianDpEvent(-1), sd.ZCDP(9), {}, DeclarationError, "above 0"),
    (GaussianDpEvent(float("nan")), sd.ZCDP(9), {}, DeclarationError, "noise_multiplier|fields"),
    (GaussianDpEvent("much"), sd.ZCDP(9), {}, DeclarationError, "noise_multiplier|fields"),
    (PoissonSampledDpEvent(2, GaussianDpEvent(1)), sd.ZCDP(9), {}, DeclarationError, "rate"),
    (SelfComposedDpEvent(GaussianDpEvent(1), -2), sd.ZCDP(9), {}, DeclarationError, "times"),
    (SelfComposedDpEvent(GaussianDpEvent(1), 1.5), sd.ZCDP(9), {}, DeclarationError, "whole number"),
    (ComposedDpEvent(3), sd.ZCDP(9), {}, DeclarationError, "fields of dp_accounting"),
    (ZCDpEvent(1, 1), sd.ZCDP(9), {}, DeclarationError, "xi"),
    (NonPrivateDpEvent(), sd.ZCDP(9), {}, DeclarationError, "protects nothing"),
    (3, sd.ZCDP(9), {}, DeclarationError, "GaussianDpEvent"),
    (GaussianDpEvent("0.2"), sd.ZCDP(9), {}, BudgetExhausted, "rho"),
]


@pytest.mark.parametrize(("event", "cap", "options", "error", "words"), REFUSED)
def test_what_cannot_be_counted_is_refused_at_no_cost(
    event: Any, cap: Loss, options: dict[str, Any], error: type[SordinoError], words: str
) -> None:
    table = open_table(cap)
    with pytest.raises(error, match=words):
        table.charge_event(event, **({"note": "a run"} | options))
    assert not any(table.spent.amounts().values())


def test_samples_and_units_are_those_of_the_table() -> None:
    replaced = open_table(sd.ApproxDP(9, "1e-4"), neighbors="replace")
    with pytest.raises(DeclarationError, match="under neighbors add_remove only"):
        replaced.charge_event(SGD, note="a run", delta="1e-5")
    assert replaced.charge_event(GaussianDpEvent(2), note="a run", delta="1e-5").cost.amounts()["delta"] == Fraction(
        1, 10**5
    )
    people = open_table(sd.ZCDP(9), unit=sd.PrivacyUnit("id", max_rows=2))
    with pytest.raises(DeclarationError, match="the table's is 'id'"):
        people.charge_event(GaussianDpEvent(2), note="a run", privacy_unit="row")
    assert people.charge_event(GaussianDpEvent(2), note="a run", privacy_unit="id", neighbors="add_remove").cost


def test_nested_events_end() -> None:
    event: Any = GaussianDpEvent(2)
    for _ in range(40):
        event = ComposedDpEvent([event])
    with pytest.raises(DeclarationError, match="too deep"):
        read_event(event)


def test_a_charge_is_on_the_ledger_of_the_file(tmp_path: Path) -> None:
    table = open_table(sd.ApproxDP(3, "1e-4"), ledger=tmp_path / "ledger.sqlite", rng=sd.Rng.secure())
    charge = table.charge_event(SGD, note="a run", delta="1e-5").charge
    table.close()
    again = open_table(sd.ApproxDP(3, "1e-4"), ledger=tmp_path / "ledger.sqlite", rng=sd.Rng.secure())
    assert again.release(charge).event == Composed(
        (read_event(SGD),), (again.spent.amounts()["epsilon"], again.spent.amounts()["delta"])
    )
    again.close()


@examples(8, 40, st.integers(1, 40), st.fractions("1/50", 3, max_denominator=50))
def test_a_repeated_event_is_as_that_many(times: int, size: Fraction) -> None:
    for inner in (LaplaceEvent(size), NormalEvent(size), GaussianEvent(size, (size, Fraction(1, 10**6)))):
        once = Repeated(inner, times)
        many = Composed([inner] * times)
        assert (once.pure(), once.rho(), once.approx()) == (many.pure(), many.rho(), many.approx())
        assert once.renyi(3.0) == pytest.approx(many.renyi(3.0))
        assert event_from_dict(json.loads(json.dumps(event_to_dict(once)))) == once


def test_losses_of_a_repeated_event_are_those_of_that_many() -> None:
    grid = Grid(0.01, 1e-12)
    once: Any = Repeated(NormalEvent(3), 5).profile(grid)
    many: Any = Composed([NormalEvent(3)] * 5).profile(grid)
    for epsilon in (0.0, 0.5, 2.0):
        deltas = [
            float((side.mass * (1 - 2.718281828459045 ** (epsilon - side.at * grid.step)).clip(0)).sum())
            + side.infinite
            for side in (once.removed, many.removed)
        ]
        assert deltas[0] == pytest.approx(deltas[1], rel=0.02)
    with pytest.raises(DeclarationError, match="whole number"):
        Repeated(LaplaceEvent(1), 0)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("rate", "noise", "steps"),
    [(1.0, 5.0, 20), (0.1, 2.0, 100), (0.01, 1.1, 1000)],
)
def test_epsilons_agree_with_dp_accounting(rate: float, noise: float, steps: int) -> None:
    """Never below its estimate from losses rounded down, and within 1% of that from losses rounded up."""
    accounting = pytest.importorskip("dp_accounting")
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    event = accounting.SelfComposedDpEvent(
        accounting.PoissonSampledDpEvent(rate, accounting.GaussianDpEvent(noise)), steps
    )
    low, high = (
        pld.from_gaussian_mechanism(
            noise, sampling_prob=rate, pessimistic_estimate=upper, value_discretization_interval=1e-3
        )
        .self_compose(steps)
        .get_epsilon_for_delta(1e-5)
        for upper in (False, True)
    )
    assert low <= best([read_event(event)], "1e-5").epsilon <= high * 1.01
