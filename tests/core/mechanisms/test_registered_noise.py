"""A law, a mechanism and an event from outside, no subclasses of ours: planned, asked, stored, read again and audited.

The staircase mechanism (Geng, Viswanath 2015) errs less than Laplace noise where a unit moves a count by several rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino import audit
from sordino.core.accounting.event_fields import event_from_dict, event_to_dict, register_event
from sordino.core.estimates.noisy import LAWS
from sordino.core.mechanisms.additive_noise import Laplace, Mechanism
from sordino.core.mechanisms.noise_choice import _REGISTERED, register_noise
from sordino.core.neighbors import Sensitivity
from sordino.core.noise.laws import ContinuousLaw
from sordino.core.noise.rng import Rng


@LAWS.register("staircase of a test")
@dataclass(frozen=True)
class StaircaseLaw:
    """P(X = x) falls by e^-epsilon with every `width` steps away from 0, `early` steps into each stair."""

    width: int
    early: int
    epsilon: Fraction

    @cached_property
    def masses(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """P(X = x) for x = 0, 1, 2, ... as far as floats tell."""
        stairs = math.ceil(50 / float(self.epsilon)) + 1
        x = np.arange(stairs * self.width)
        weights = np.exp(-float(self.epsilon) * (x // self.width + (x % self.width >= self.early)))
        return np.asarray(weights / (2 * weights.sum() - weights[0]))

    @overload
    def sample(self, rng: Rng, size: None = None) -> int: ...
    @overload
    def sample(self, rng: Rng, size: int) -> np.ndarray[Any, np.dtype[Any]]: ...
    def sample(self, rng: Rng, size: int | None = None) -> int | np.ndarray[Any, np.dtype[Any]]:
        words = rng.words((size or 1,), np.uint64)
        points = (words.astype(np.float64) + 0.5) / 2.0**64
        drawn = self.quantiles(points).astype(np.int64)
        return int(drawn[0]) if size is None else drawn

    def upper_tail(self, t: int) -> float:
        return float(self.masses[t + 1 :].sum()) if t >= 0 else 1.0 - self.upper_tail(-t - 1)

    def tail(self, t: int) -> float:
        return 1.0 if t < 0 else 2 * self.upper_tail(t) * (1 + 1e-12)

    def error(self, confidence: float | Fraction) -> int:
        return _error(self, float(confidence))

    def variance(self) -> float:
        return float(2 * (np.square(np.arange(self.masses.size, dtype=float)) * self.masses).sum())

    def at_least(self) -> Callable[[Any], Any]:
        upper = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)
        last = upper.size - 1

        def reaches(steps: Any) -> Any:
            above = upper[np.clip(steps, 0, last).astype(np.int64)]
            below = upper[np.clip(1 - steps, 0, last).astype(np.int64)]
            return np.where(steps > 0, above, 1.0 - below)

        return reaches

    def quantiles(self, points: Any) -> Any:
        tail = np.minimum(points, 1.0 - points)
        upper = np.cumsum(self.masses[::-1])[::-1]
        size = np.searchsorted(-upper[1:], -tail, side="right")
        return np.where(points < 0.5, -1.0, 1.0) * size

    def continuous(self) -> ContinuousLaw:
        return ContinuousLaw(self.variance(), math.sqrt(self.variance() / 2))


@lru_cache(maxsize=64)
def _error(law: StaircaseLaw, confidence: float) -> int:
    return next(t for t in itertools.count() if law.tail(t) <= 1 - confidence)


@register_event("staircase of a test")
@dataclass(frozen=True)
class StaircaseEvent:
    """Pure epsilon, and no other bound: accounting knows it by its methods alone."""

    epsilon: Fraction

    def pure(self) -> Fraction | None:
        return self.epsilon

    def approx(self) -> tuple[Fraction, Fraction] | None:
        return self.epsilon, Fraction(0)

    def rho(self) -> Fraction | None:
        return self.epsilon**2 / 2

    def renyi(self, order: float) -> float | None:
        return min(float(self.epsilon), order * float(self.epsilon) ** 2 / 2)

    def profile(self, grid: Any) -> Any:
        return sd.accounting.LaplaceEvent(self.epsilon).profile(grid)


@dataclass(frozen=True)
class Staircase:
    """Theorem (Geng, Viswanath 2015): P falls with |x|, and by e^-epsilon over l1 steps, so it is epsilon-private."""

    l1: int
    epsilon: Fraction

    @cached_property
    def law(self) -> StaircaseLaw:
        laws = [StaircaseLaw(self.l1, early, self.epsilon) for early in range(1, self.l1 + 1)]
        return min(laws, key=lambda law: law.error(0.95))

    @cached_property
    def event(self) -> StaircaseEvent:
        return StaircaseEvent(self.epsilon)

    def release(self, exact: Any, rng: Rng) -> list[int]:
        return [int(x) + self.law.sample(rng) for x in exact]

    def describe(self) -> str:
        return f"staircase of {self.l1} steps"


def offer(sensitivity: Sensitivity, loss: Any) -> Mechanism | None:
    if not isinstance(loss, sd.PureDP) or sensitivity.l0 != 1 or sensitivity.l1.denominator != 1:
        return None
    return Staircase(int(sensitivity.l1), loss.epsilon)


@pytest.fixture
def registered() -> Iterator[None]:
    register_noise(offer)
    yield
    _REGISTERED.clear()


def people(ledger: Path | None = None) -> sd.Curator:
    table = pa.table(
        {"who": [i // 4 for i in range(400)], "sex": ["f", "m"] * 200, "age": [i % 90 for i in range(400)]}
    )
    domain = sd.Domain({"who": sd.Identifier(), "sex": sd.Category(["f", "m"]), "age": sd.Integer(0, 90)})
    return protect(table, domain, unit=sd.PrivacyUnit("who", max_rows=20), ledger=ledger, name="people")


@pytest.mark.usefixtures("before_tables", "registered")
@pytest.mark.each(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM people",
        "SELECT COUNT(*) AS n, COUNT(*) + 1 AS m FROM people",
        "SELECT COUNT(*) AS n, AVG(age) AS a, SUM(age) / COUNT(*) AS b FROM people",
        "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex HAVING n > 10 ORDER BY n",
        "SELECT STDDEV(age) AS s, COUNT(*) AS n FROM people",
    ],
)
def test_what_is_planned_is_asked_stored_and_read_again(sql: str, tmp_path: Path) -> None:
    table = people(tmp_path / "staircase.ledger")
    plan = table.plan(sd.sql(sql), epsilon=4)
    release = table.ask(plan)
    stored = sd.Release.from_dict(release.to_dict())
    assert stored.to_dict() == release.to_dict()
    assert stored.table.to_pylist() == release.table.to_pylist()
    assert table.spent == sd.PureDP(4)
    table = people(tmp_path / "staircase.ledger")
    assert table.spent == sd.PureDP(4)


@pytest.mark.deep
@pytest.mark.usefixtures("before_tables", "registered")
def test_it_is_chosen_where_it_errs_less_and_its_intervals_cover() -> None:
    table = people()
    plan = table.plan(sd.count(), epsilon=4)
    column = plan.to_dict()["columns"][0]
    assert column["parts"][0]["mechanism"] == "staircase of 20 steps"
    assert column["expected_error"] < Laplace(Fraction(20), Fraction(4)).law.error(0.95)
    covered = 0
    for _ in range(40):
        low, high = table.ask(sd.count(), epsilon=4).interval(0.95)
        covered += low <= 400 <= high
    # Below 30 of 40 with a chance of 3e-6.
    assert covered >= 30


@pytest.mark.usefixtures("before_tables", "registered")
def test_it_is_audited_and_its_event_is_read_again() -> None:
    mechanism = Staircase(20, Fraction(1))
    assert not audit.audit_mechanism(mechanism, [0], [20], samples=800).violated
    lying = StaircaseEvent(Fraction(1, 4))
    halved = Staircase(20, Fraction(1))
    object.__setattr__(halved, "event", lying)
    assert audit.audit_mechanism(halved, [0], [20], samples=4_000).violated
    assert event_from_dict(event_to_dict(mechanism.event)) == mechanism.event


class Bare:
    """A mechanism that has what the protocol asks for, and says nothing of what it is made for."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.event = mechanism.event
        self.law = mechanism.law
        self.release = mechanism.release
        self.describe = mechanism.describe


def offer_bare(sensitivity: Sensitivity, loss: Any) -> Mechanism | None:
    offered = offer(sensitivity, loss)
    return None if offered is None else Bare(offered)


@pytest.mark.usefixtures("before_tables")
@pytest.mark.parametrize("maker", [offer, offer_bare])
def test_its_noise_is_replayed_beside_what_the_plan_declares(maker: Callable[..., Mechanism | None]) -> None:
    """It was said to move by 20 in l2, of 0 declared: further than declared."""
    register_noise(maker)
    try:
        plan = people().plan(sd.count(), epsilon=4)
        assert "staircase of 20 steps" in str(plan.to_dict())
        replay = audit.replay_plan(plan)
    finally:
        _REGISTERED.clear()
    assert replay.holds, replay
    assert [(v.norm, v.moved, v.allowed) for v in replay.vectors] == [("l1", 20, 20)]


@pytest.mark.usefixtures("before_tables")
def test_one_that_costs_more_than_the_loss_is_refused_before_the_charge() -> None:
    def overcharge(sensitivity: Sensitivity, loss: Any) -> Mechanism:
        return Staircase(int(sensitivity.l1), 2 * loss.epsilon)

    register_noise(overcharge)
    try:
        table = people()
        with pytest.raises(sd.errors.DeclarationError, match="staircase of 20 steps, costs more than epsilon 4"):
            table.ask(sd.count(), epsilon=4)
        assert table.spent == sd.PureDP(0)
    finally:
        _REGISTERED.clear()


def test_without_registering_nothing_changes() -> None:
    table = people()
    assert "staircase of 20 steps" not in str(table.plan(sd.count(), epsilon=4))
