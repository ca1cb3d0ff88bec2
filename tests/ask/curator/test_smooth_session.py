"""Sessions that draw Gaussian noise alone: the larger rho of Gaussian DP, never passed, and exact when adaptive."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sordino as sd
from ask.curator.support import S, curator
from sordino.ask.queries.adaptive.marginal import Axis, ContingencyTable, Distances, MarginalQuery
from sordino.ask.queries.queryable import Queryable
from sordino.core.accounting.events import Composed, DiscreteGaussianEvent, GaussianEvent
from sordino.core.accounting.gaussian_dp import gaussian_rho_for, gaussian_variance, vectors_rho_for
from sordino.core.accounting.pld import pld_delta
from sordino.core.accounting.zcdp import rho_for
from sordino.core.loss import ZCDP, ApproxDP, Event, PureDP
from sordino.core.mechanisms.additive_noise import Gaussian
from sordino.core.mechanisms.noise_choice import smooth_vectors
from sordino.core.neighbors import Sensitivity
from sordino.errors import QuestionRefused
from sordino.synth.measurement import split_loss

TABLE = MarginalQuery((ContingencyTable((Axis("occ"),)), ContingencyTable((Axis("age", edges=(0, 40, 100)),))))
TOTAL = sd.Neighbors("add_remove", None)


def test_vectors_get_the_rho_of_gaussian_dp_and_the_session_never_passes_it() -> None:
    events: list[Event] = []

    def ask(q: Queryable) -> Any:
        assert q.loss == ZCDP(gaussian_rho_for(1, "1e-9"))
        third = ZCDP(gaussian_rho_for(1, "1e-9") / 3)
        events.extend(q.release(TABLE, third).event for _ in range(3))
        with pytest.raises(QuestionRefused, match="is left"):
            q.release(TABLE, ZCDP(Fraction(1, 10**9)))
        return None

    held = curator(budget=ApproxDP(2, "1e-8"))
    _, release = held.adapt(ask, describe="vectors", epsilon=1, delta="1e-9", draws="vectors")
    assert held.spent == release.cost == ApproxDP(1, "1e-9")
    assert isinstance(release.event, GaussianEvent)
    assert release.event.rho() == gaussian_rho_for(1, "1e-9") > Fraction(11, 10) * rho_for(1, "1e-9")
    drawn = Composed(events)
    assert pld_delta([drawn], 1) <= 1e-9
    assert pld_delta([drawn], 1) >= 0.9e-9
    rho = drawn.rho()
    assert rho is not None
    assert rho <= release.event.rho()


@pytest.mark.parametrize(
    "call",
    [
        lambda q: q.release(TABLE, PureDP("0.1")),
        lambda q: q.release(S.agg(sd.count()), ZCDP("1e-4")),
        lambda q: q.select([Distances((ContingencyTable((Axis("occ"),)),), (np.zeros(3, np.int64),))], ZCDP("1e-4")),
        lambda q: q.above([Distances((ContingencyTable((Axis("occ"),)),), (np.zeros(3, np.int64),))], 1, ZCDP("1e-4")),
    ],
    ids=["pure", "question", "select", "above"],
)
def test_nothing_but_gaussian_vectors_is_drawn(call: Any) -> None:
    def ask(q: Queryable) -> Any:
        with pytest.raises(QuestionRefused, match="Gaussian noise"):
            call(q)
        return "refused"

    held = curator(budget=ApproxDP(2, "1e-8"))
    assert held.adapt(ask, describe="others", epsilon=1, delta="1e-9", draws="vectors")[0] == "refused"


def test_large_losses_and_other_sessions_count_rho_as_before() -> None:
    assert vectors_rho_for(50, "1e-9") is None
    held = curator(budget=ApproxDP(100, "1e-8"))
    found, _ = held.adapt(lambda q: q.loss, describe="large", epsilon=50, delta="1e-9", draws="vectors")
    assert found == ZCDP(rho_for(50, "1e-9"))
    found, _ = held.adapt(lambda q: q.loss, describe="any", epsilon=1, delta="1e-9")
    assert found == ZCDP(rho_for(1, "1e-9"))
    assert split_loss(ApproxDP(50, "1e-9"), TOTAL).total == rho_for(50, "1e-9")
    assert split_loss(ApproxDP(1, "1e-9"), TOTAL).total == gaussian_rho_for(1, "1e-9")


def test_an_adaptive_run_stays_within_its_pair_by_its_exact_law() -> None:
    """Half is spent on one count; how the rest is spent hangs on the answer. Delta by enumeration, at the pair's epsilon."""
    epsilon, delta = 1.5, 1e-4
    whole = gaussian_rho_for(epsilon, delta)

    def law(rho: Fraction, shift: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        variance = gaussian_variance(Fraction(1), rho)
        assert variance is not None
        x = np.arange(-90, 91)
        weights = np.exp(-((x - shift) ** 2) / (2 * float(variance)))
        return np.asarray(weights / np.exp(-(x**2) / (2 * float(variance))).sum())

    first = law(whole / 2, 0), law(whole / 2, 1)
    once = law(whole / 2, 0), law(whole / 2, 1)
    twice = tuple(np.outer(law(whole / 4, s), law(whole / 4, s)).ravel() for s in (0, 1))
    for order in ((0, 1), (1, 0)):
        found = 0.0
        for i, place in enumerate(range(-90, 91)):
            rest = once if place > 1 else twice
            p, q = first[order[0]][i] * rest[order[0]], first[order[1]][i] * rest[order[1]]
            found += float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
        assert 0.8 * delta < found <= delta


def test_noise_is_about_a_step_where_less_would_do() -> None:
    moved = Sensitivity(1, Fraction(1), Fraction(1), Fraction(1), "a count")
    (made,), event = smooth_vectors([(moved, Fraction(1))], Fraction(2))
    assert isinstance(made, Gaussian)
    assert 1 < made.sigma_squared < Fraction(12, 10)
    assert isinstance(event, DiscreteGaussianEvent)
    still = Sensitivity(0, Fraction(0), Fraction(0), Fraction(0), "nothing")
    (free, _), _ = smooth_vectors([(still, Fraction(0)), (moved, Fraction(1))], Fraction(1, 100))
    assert free.event.pure() == 0
