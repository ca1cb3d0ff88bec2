"""A cap on rho with a slack: private keys and Gaussian noise from one budget, and what its ledger holds."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.project.load import cap_from
from sordino.ask.queries.build import Selection
from sordino.core.accounting.belief import epsilon_and_delta
from sordino.core.accounting.composition import charge_amounts, tight
from sordino.core.accounting.event_fields import event_from_dict
from sordino.core.accounting.events import (
    ApproxEvent,
    Composed,
    DiscreteGaussianEvent,
    GaussianEvent,
    LaplaceEvent,
    ThresholdEvent,
    approximate_rho,
)
from sordino.core.accounting.pld import pld_epsilon
from sordino.core.accounting.zcdp import epsilon_of
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import loss_from_dict, loss_to_dict
from sordino.core.loss import ZCDP, loss_from_numbers, loss_to_numbers, read_loss
from sordino.errors import BudgetExhausted, DeclarationChanged, DeclarationError, QuestionRefused

S = Selection()
DOMAIN = sd.Domain({"town": sd.Identifier(), "age": sd.Integer(0, 100)})
CAP = ZCDP(1, delta="1e-6", slack="1e-6")
BY_TOWN = S.group_by("town").agg(sd.count(), sd.mean("age"))


def people(budget: sd.ZCDP = CAP, *, relation: str = "add_remove") -> Any:
    towns = ["oslo"] * 900 + ["bergen"] * 600 + ["alta"]
    table = pa.table({"town": towns, "age": [40] * len(towns)})
    return protect(table, DOMAIN, neighbors=relation, unit="row", seed=3, budget=budget)


def test_private_keys_and_gaussians_share_one_budget() -> None:
    curator = people()
    release = curator.ask(BY_TOWN, rho="0.2", delta="1e-7")
    assert [row["town"] for row in release.rows] == ["bergen", "oslo"]
    assert release.cost == ZCDP("0.2", slack="1e-7") or release.cost.amounts() == {
        "rho": Fraction(1, 5),
        "delta": Fraction(1, 10**7),
    }
    curator.ask(sd.count(), rho="0.3")
    assert curator.spent.amounts() == {"rho": Fraction(1, 2), "delta": Fraction(1, 10**7)}
    assert curator.remaining.amounts() == {"rho": Fraction(1, 2), "delta": Fraction(9, 10**7)}
    assert curator.ledger.verify().spent == curator.spent


def test_epsilon_and_delta_are_charged_as_rho_and_delta() -> None:
    curator = people()
    curator.ask(BY_TOWN, epsilon="0.5", delta="1e-7")
    spent = curator.spent.amounts()
    assert spent["delta"] == Fraction(1, 10**7)
    assert 0 < spent["rho"] < Fraction(1, 8)
    curator.ask(sd.count(), epsilon="0.5")
    assert curator.spent.amounts()["rho"] == spent["rho"] + LaplaceEvent("0.5").rho()


def test_the_slack_is_a_cap_of_its_own() -> None:
    curator = people(ZCDP(100, delta="1e-6", slack="2e-7"))
    curator.ask(BY_TOWN, rho="0.2", delta="1e-7")
    curator.ask(BY_TOWN, rho="0.2", delta="1e-7")
    with pytest.raises(BudgetExhausted, match="delta"):
        curator.ask(BY_TOWN, rho="0.2", delta="1e-8")
    assert curator.ask(sd.count(), rho=1).cost.amounts()["delta"] == 0


def test_a_cap_without_slack_refuses_private_keys_as_before() -> None:
    curator = people(ZCDP(1, delta="1e-6"))
    for delta in ("1e-7", None):
        with pytest.raises(QuestionRefused, match="slack = 1e-6"):
            curator.ask(BY_TOWN, rho="0.2", delta=delta)
    with pytest.raises(QuestionRefused, match="rho= and delta="):
        people().plan(BY_TOWN, rho="0.2")
    assert curator.spent.amounts() == {"rho": 0}


def test_a_plan_says_the_price_and_the_threshold() -> None:
    plan = people().plan(BY_TOWN, rho="0.2", delta="1e-7")
    assert plan.cost.amounts() == {"rho": Fraction(1, 5), "delta": Fraction(1, 10**7)}
    assert "rho 0.2, delta 1e-7" in str(plan)
    (threshold,) = [e for e in plan.event.events if isinstance(e, ThresholdEvent)]
    other = people(relation="replace").plan(BY_TOWN, rho="0.2", delta="1e-7")
    (wider,) = [e for e in other.event.events if isinstance(e, ThresholdEvent)]
    assert isinstance(threshold.inner, DiscreteGaussianEvent)
    assert isinstance(wider.inner, DiscreteGaussianEvent)
    assert wider.inner.sigma_squared == 2 * threshold.inner.sigma_squared


def test_the_list_of_a_ledger_has_a_tight_epsilon() -> None:
    """The exact law of the threshold's noise, with its delta: below the conversion of the sums, and above its parts."""
    curator = people()
    for _ in range(3):
        curator.ask(BY_TOWN, rho="0.1", delta="1e-7")
    found = tight(curator.ledger.charges(), "1e-6")
    assert found.epsilon < epsilon_of("0.3", "7e-7")
    events = [event_from_dict(charge.event) for charge in curator.ledger.charges()]
    assert pld_epsilon(events, "1e-6") <= epsilon_of("0.3", "7e-7")
    assert pld_epsilon(events, "2e-7") == float("inf")  # three slacks are more


def test_slack_approximate_events_sum() -> None:
    threshold = ThresholdEvent(GaussianEvent("1/8"), "1e-7")
    both = Composed((threshold, ApproxEvent(1, "1e-8"), LaplaceEvent(1)))
    rho = Fraction(1, 8) + 2 * LaplaceEvent(1).rho()
    assert approximate_rho(both) == (rho, Fraction(11, 10**8))
    assert charge_amounts(both, CAP) == {"rho": rho, "delta": Fraction(11, 10**8)}
    assert approximate_rho(ThresholdEvent(threshold, "1e-7")) == (Fraction(1, 8), Fraction(2, 10**7))
    assert approximate_rho(Composed((ThresholdEvent(GaussianEvent(1), "0.6"),) * 2)) is None
    with pytest.raises(DeclarationError, match="counts rho"):
        charge_amounts(both, ZCDP(1))


def test_bun_steinke_2016_what_a_slack_implies() -> None:
    """Lemma 8.8: (epsilon, delta + slack)."""
    assert epsilon_and_delta(ZCDP("0.5", "1e-6", "1e-7")) == pytest.approx((epsilon_of("0.5", "1e-6"), 1.1e-6))
    assert epsilon_and_delta(ZCDP(0, "1e-6", "1e-7")) == (0.0, 1e-7)


def test_losses_are_written_and_read() -> None:
    for loss in (CAP, ZCDP("1/3", None, "1e-9"), ZCDP(1, "1e-6"), ZCDP(1)):
        assert loss_from_dict(loss_to_dict(loss)) == loss
        assert loss_from_numbers(loss_to_numbers(loss)) == loss
        assert eval(repr(loss)) == loss
    assert loss_from_dict({"kind": "zcdp", "rho": "1", "delta": "1/1000000"}) == ZCDP(1, "1e-6")  # from before
    assert cap_from({"rho": "0.5", "delta": "1e-6"}) == ZCDP("0.5", "1e-6")
    assert cap_from({"rho": "0.5", "delta": "1e-6", "slack": "1e-7"}) == ZCDP("0.5", "1e-6", "1e-7")
    assert read_loss(epsilon=None, delta="1e-7", rho="0.1") == ZCDP("0.1", slack="1e-7")
    assert CAP.describe() == "rho 1, delta 1e-6 (converted at delta 1e-6)"
    with pytest.raises(DeclarationError, match="slack"):
        cap_from({"rho": "0.5", "slack": "1e-7"})
    with pytest.raises(DeclarationError, match="slack"):
        ZCDP(1, slack=1)


def test_a_ledger_keeps_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    with Ledger.open(path, cap=CAP) as ledger:
        ledger.commit(ledger.charge(ThresholdEvent(GaussianEvent("0.1"), "1e-7"), note="", question="q"), "1")
        with pytest.raises(DeclarationError, match="kind of a cap"):
            ledger.amend(reason="no more keys", cap=ZCDP(1, "1e-6"))
        ledger.amend(reason="more keys", cap=ZCDP(1, "1e-6", "1e-5"))
    with Ledger.existing(path) as ledger:
        assert ledger.spent() == ZCDP("0.1", "1e-6", "1e-7")
        assert ledger.verify().amendments == 1
    with pytest.raises(DeclarationChanged, match="rho 1, delta"):
        Ledger.open(path, cap=ZCDP(1, "1e-6"))
    other = tmp_path / "b.ledger"
    with Ledger.open(other, cap=ZCDP(1, "1e-6")) as ledger, pytest.raises(DeclarationError, match="kind of a cap"):
        ledger.amend(reason="keys", cap=CAP)
