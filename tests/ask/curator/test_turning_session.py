"""Sessions of (epsilon, delta) that count epsilon first, then the rho of Gaussian vectors: never passed, and exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sordino as sd
from ask.curator.support import S, curator
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, MarginalQuery
from sordino.ask.queries.queryable import Queryable
from sordino.core.accounting.events import ApproxEvent, Composed, DiscreteGaussianEvent, DiscreteLaplaceEvent
from sordino.core.accounting.gaussian_dp import gaussian_variance, vectors_rho_for
from sordino.core.loss import ZCDP, ApproxDP, PureDP
from sordino.errors import DeclarationError, QuestionRefused

TABLE = MarginalQuery((ContingencyTable((Axis("occ"),)),))
QUARTER = Fraction(1, 4)


def _run(ask: Any, **more: Any) -> Any:
    held = curator(budget=ApproxDP(200, "1e-8"))
    return held.adapt(ask, describe="vectors", draws="either", **{"epsilon": 1, "delta": "1e-9", **more})


def test_epsilon_is_counted_until_rho_is_asked_and_then_what_is_left_of_the_pair() -> None:
    left = vectors_rho_for(1 - QUARTER, "1e-9")
    assert left is not None

    def ask(q: Queryable) -> Any:
        assert q.loss == ApproxDP(1, "1e-9")
        first = q.release(TABLE, PureDP(QUARTER))
        assert q.loss == ApproxDP(1, "1e-9")
        events = [first.event, *(q.release(TABLE, ZCDP(left / 2)).event for _ in range(2))]
        assert q.loss.amounts() == {"rho": left}
        with pytest.raises(QuestionRefused, match="is left"):
            q.release(TABLE, ZCDP(left / 10**6))
        with pytest.raises(QuestionRefused, match="Gaussian noise"):
            q.release(TABLE, PureDP(QUARTER))
        return events

    events, release = _run(ask)
    assert isinstance(events[0], DiscreteLaplaceEvent)
    assert all(isinstance(one, DiscreteGaussianEvent) for one in events[1:])
    assert release.event == ApproxEvent(1, "1e-9")
    assert release.cost == ApproxDP(1, "1e-9")
    spent = events[0].pure()
    assert spent == QUARTER
    assert Composed(events[1:]).rho() is not None


def test_epsilon_alone_may_spend_it_all_and_no_more() -> None:
    def ask(q: Queryable) -> Any:
        q.release(TABLE, PureDP(1))
        with pytest.raises(QuestionRefused, match="is left"):
            q.release(TABLE, PureDP("1e-6"))
        with pytest.raises(QuestionRefused, match="left for Gaussian"):
            q.release(TABLE, ZCDP("1e-6"))
        return "spent"

    assert _run(ask)[0] == "spent"


@pytest.mark.parametrize(
    "call",
    [
        lambda q: q.release(TABLE, ApproxDP("0.1", "1e-10")),
        lambda q: q.release(S.agg(sd.count()), ZCDP("1e-4")),
        lambda q: q.release(TABLE, PureDP(2)),
    ],
    ids=["pair", "question of rho", "beyond"],
)
def test_other_losses_are_refused(call: Any) -> None:
    def ask(q: Queryable) -> Any:
        with pytest.raises((QuestionRefused, DeclarationError)):
            call(q)
        return "refused"

    assert _run(ask)[0] == "refused"


def test_a_cap_on_rho_gets_gaussian_vectors_from_the_start() -> None:
    held = curator(budget=sd.ZCDP(1))
    found, _ = held.adapt(lambda q: q.loss, describe="rho", epsilon=1, delta="1e-9", draws="either")
    assert found == ZCDP(vectors_rho_for(1, "1e-9") or 0)


def test_an_adaptive_turn_stays_within_its_pair_by_its_exact_law() -> None:
    """A Laplace count; by its answer the turn comes at once or after another. Delta by enumeration, at the pair's epsilon."""
    epsilon, delta, width = Fraction(3, 2), 1e-4, 140
    places = np.arange(-width, width + 1)

    def laplace(loss: Fraction, shift: int) -> Any:
        return np.tanh(float(loss) / 2) * np.exp(-np.abs(places - shift) * float(loss))

    def gaussian(left: Fraction, shift: int) -> Any:
        rho = vectors_rho_for(left, delta)
        assert rho is not None
        variance = gaussian_variance(Fraction(1), rho)
        assert variance is not None
        weights = np.exp(-((places - shift) ** 2) / (2 * float(variance)))
        return weights / np.exp(-(places**2) / (2 * float(variance))).sum()

    first = [laplace(Fraction(1, 2), s) for s in (0, 1)]
    soon = [gaussian(epsilon - Fraction(1, 2), s) for s in (0, 1)]
    late = [np.outer(laplace(QUARTER, s), gaussian(epsilon - 3 * QUARTER, s)).ravel() for s in (0, 1)]
    for a, b in ((0, 1), (1, 0)):
        found = 0.0
        for i, place in enumerate(places.tolist()):
            rest = soon if place > 1 else late
            found += float(np.maximum(first[a][i] * rest[a] - math.exp(epsilon) * first[b][i] * rest[b], 0).sum())
        assert 0.3 * delta < found <= delta
