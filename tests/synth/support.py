"""What the tests of synthesizers share: a Queryable over columns of codes that draws exact noise and records every access."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from places import ADULT_DISCRETE
from sordino.core.accounting.events import GaussianEvent
from sordino.core.accounting.gaussian_dp import vectors_rho_for
from sordino.core.accounting.zcdp import rho_for
from sordino.core.domain import Boolean, Category, Domain, Integer
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.point_estimate import PointEstimate
from sordino.core.loss import ZCDP, ApproxDP, Loss, PureDP
from sordino.core.mechanisms.additive_noise import Laplace, Mechanism, gaussian_for_rho
from sordino.core.mechanisms.selection import best_selection
from sordino.core.neighbors import Neighbors, Sensitivity
from sordino.core.noise.rng import Rng
from sordino.core.release import Output, Release
from sordino.synth.encoded_column import model_column
from sordino.synth.evaluation.distances import table_distance
from sordino.synth.methods import METHODS, load_method
from sordino.synth.model import Model


@dataclass
class RecordingQueryable:
    """Answer Marginals and Distances over `keys`, one array of declared keys a column (-1: left out); record each access."""

    domain: Domain
    keys: dict[str, Any]
    loss: Loss
    rng: Rng
    neighbors: Neighbors = field(default_factory=lambda: Neighbors("add_remove", None))
    accesses: list[tuple[Any, Loss]] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)
    before: int = 0

    def release(self, query: Any, loss: Loss) -> Release:
        """Return the query's exact vectors with noise of the cheapest mechanism."""
        if isinstance(self.loss, ApproxDP) and isinstance(loss, ZCDP):
            self.turn()
        self.accesses.append((query, loss))
        assert self.spent() <= self.allowed()
        parts = query.parts(self.domain, self.neighbors)
        mechanisms = [_mechanism(s, share, loss) for s, share in parts]
        vectors = query.from_counts([self._counted(t) for t in query.tables], self.domain)
        outputs = []
        for name, mechanism, vector in zip(query.names(), mechanisms, vectors, strict=True):
            drawn = mechanism.law.sample(self.rng, size=len(vector))
            noisy = Noisy(tuple((vector + drawn).tolist()), query.unit, mechanism.law)
            outputs.append(Output(name, noisy, mechanism.describe()))
        return Release(
            question=query.describe(), keys=(), outputs=tuple(outputs), cost=loss, spent=loss, remaining=loss,
            event=mechanisms[0].event,
            neighbors=self.neighbors.relation, privacy_unit="one row", declaration="", charge="", table_name="test", time="",
        )  # fmt: skip

    def select(self, candidates: Any, loss: Loss) -> Release:
        """Return the place of about the largest answer, by the cheapest selection."""
        self.accesses.append((tuple(candidates), loss))
        assert self.spent() <= self.allowed()
        moved = max(s.linf for c in candidates for s, _ in c.parts(self.domain, self.neighbors))
        mechanism = best_selection(candidates=len(candidates), sensitivity=moved, loss=loss, monotone=False)
        scores = [int(c.from_counts([self._counted(t) for t in c.tables], self.domain)[0][0]) for c in candidates]
        chosen = PointEstimate((mechanism.release(scores, self.rng),), Fraction(1))
        return Release(
            question="the farthest", keys=(), outputs=(Output("chosen", chosen, mechanism.describe()),), cost=loss, spent=loss,
            remaining=loss, event=mechanism.event,
            neighbors=self.neighbors.relation, privacy_unit="one row", declaration="", charge="", table_name="test", time="",
        )  # fmt: skip

    def spent(self) -> Fraction:
        """Return the sum of what was asked, in the session's currency."""
        asked = [loss for _, loss in self.accesses[self.before :]]
        assert len({type(loss) for loss in asked}) <= 1, "one session, one currency at a time"
        return sum((next(iter(loss.amounts().values())) for loss in asked), Fraction(0))

    def turn(self) -> None:
        """Count rho from here on, as a session of (epsilon, delta) does from the first question of rho."""
        assert isinstance(self.loss, ApproxDP)
        left = self.loss.epsilon - self.spent()
        self.before = len(self.accesses)
        smooth = vectors_rho_for(left, self.loss.delta)
        self.loss = ZCDP(rho_for(left, self.loss.delta) if smooth is None else smooth)

    def allowed(self) -> Fraction:
        """Return the session's whole loss, in that currency."""
        if isinstance(self.loss, ZCDP):
            return self.loss.rho
        assert isinstance(self.loss, (PureDP, ApproxDP))
        return self.loss.epsilon

    def _counted(self, table: Any) -> tuple[Any, Any]:
        grouping = table.grouping()
        if grouping not in self.cache:
            sizes = [len(a.keys(self.domain).labels) for a in grouping]
            place = np.zeros(len(next(iter(self.keys.values()))), dtype=np.int64)
            kept = np.ones(len(place), dtype=bool)
            for axis, size in zip(grouping, sizes, strict=True):
                found = self.keys[axis.column]
                if axis.edges is not None:
                    steps = _first_steps(axis.column, self.domain)[np.maximum(found, 0)]
                    found = np.where(found < 0, -1, np.searchsorted(np.array(axis.edges[:-1]), steps, side="right") - 1)
                if axis.missing:
                    found = np.where(self.keys[axis.column] < 0, size - 1, found)
                kept &= found >= 0
                place = place * size + np.maximum(found, 0)
            cells, counts = np.unique(place[kept], return_counts=True)
            self.cache[grouping] = (np.stack(np.unravel_index(cells, sizes), axis=1), counts)
        cells_and_counts: tuple[Any, Any] = self.cache[grouping]
        return cells_and_counts


def _first_steps(name: str, domain: Domain) -> Any:
    """Return the first step that each declared key of an ordered column stands for."""
    column = model_column(name, domain)
    if column.edges is None:
        return np.arange(column.lowest, column.lowest + column.size)
    return np.array([*column.edges[:-1], column.edges[-1]])


def _mechanism(sensitivity: Sensitivity, share: Fraction, loss: Loss) -> Mechanism:
    if isinstance(loss, ZCDP):
        return gaussian_for_rho(l2_squared=sensitivity.l2_squared, rho=loss.rho * share)
    assert isinstance(loss, PureDP)
    return Laplace(sensitivity.l1, loss.epsilon * share)


class Strict:
    """A Queryable's face with nothing else on it: any other access fails the test."""

    def __init__(self, inner: RecordingQueryable) -> None:
        object.__setattr__(self, "_Strict__inner", inner)

    def __getattr__(self, name: str) -> Any:
        if name not in ("domain", "neighbors", "loss", "release", "select"):
            raise AssertionError(f"a synthesizer used {name!r} of its Queryable")
        return getattr(object.__getattribute__(self, "_Strict__inner"), name)


@dataclass
class Source:
    """A table that adaptive algorithms can be run on, as a Curator is one; it keeps each session for inspection."""

    domain: Domain
    keys: dict[str, Any]
    rng: Rng
    neighbors: Neighbors = field(default_factory=lambda: Neighbors("add_remove", None))
    sessions: list[RecordingQueryable] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)

    def adapt(
        self,
        algorithm: Callable[[Any], Any],
        *,
        describe: str,
        record: Any = None,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        draws: Any = "any",
    ) -> tuple[Any, Release]:
        """Run the algorithm on a recording Queryable: (epsilon, delta) counts rho, as in a curator."""
        loss: Loss = ZCDP(rho) if rho is not None else PureDP(epsilon)
        if rho is None and delta is not None:
            smooth = vectors_rho_for(epsilon, delta) if draws == "vectors" else None
            loss = ZCDP(rho_for(epsilon, delta) if smooth is None else smooth)
            if draws == "either":
                loss = ApproxDP(epsilon, delta)
        session = RecordingQueryable(self.domain, self.keys, loss, self.rng, self.neighbors, cache=self.cache)
        self.sessions.append(session)
        result = algorithm(Strict(session))
        release = Release(
            question=describe, keys=(), outputs=(), cost=loss, spent=loss, remaining=loss, event=GaussianEvent(Fraction(1)),
            neighbors=self.neighbors.relation, privacy_unit="one row", declaration="", charge="c-1", table_name="test",
            time="", private=self.rng.private, notes=tuple(record(result).notes) if record else (),
        )  # fmt: skip
        return result, release


def every_method(marginals: Sequence[Sequence[str]]) -> dict[str, Callable[..., Model]]:
    """Return what fits a model by each synthesizer that `METHODS` lists; `marginals` are the tables of the one that is told."""
    named = {name: {"cliques": marginals} if "cliques" in _fields(name) else {} for name in METHODS}
    return {name: load_method(name)(**options).fit for name, options in named.items()}


def _fields(name: str) -> set[str]:
    return {field.name for field in fields(load_method(name))}


def small_source(seed: int = 1, neighbors: Neighbors | None = None) -> Source:
    """Return the small table as synthesizers meet it."""
    domain, keys = small()
    return Source(domain, keys, Rng.seeded(seed), neighbors or Neighbors("add_remove", None))


@cache
def small(rows: int = 3000, seed: int = 0) -> tuple[Domain, dict[str, Any]]:
    """Return a small table with every kind of column that has a key a value, and strong dependencies."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(40, 15, rows), 0, 99).astype(np.int64)
    job = np.where(age < 20, 0, rng.integers(0, 4, rows))
    keys = {
        "age": age,
        "job": job,
        "pay": np.clip(age // 10 + job + rng.integers(0, 3, rows), 0, 15),
        "sex": rng.integers(0, 2, rows),
        "town": np.where(rng.random(rows) < 0.1, 3, rng.integers(0, 3, rows)),
    }
    domain = Domain(
        {
            "age": Integer(0, 99),
            "job": Category(["none", "desk", "shop", "field"]),
            "pay": Integer(0, 15),
            "sex": Boolean(),
            "town": Category(["a", "b", "c"], missing="keep"),
        }
    )
    return domain, keys


def adult_keys() -> tuple[Domain, dict[str, Any]]:
    """Return the discretised Adult table, or skip where it is absent."""
    if not ADULT_DISCRETE.is_file():
        pytest.skip(f"the data is not here: {ADULT_DISCRETE.name}")
    sizes = json.loads(ADULT_DISCRETE.with_name("adult_discrete_domain.json").read_text())
    ordered = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
    domain = Domain({n: Integer(0, s - 1) if n in ordered else Category(list(range(s))) for n, s in sizes.items()})
    rows = np.loadtxt(ADULT_DISCRETE, delimiter=",", skiprows=1, dtype=np.int64)
    return domain, {n: rows[:, i] for i, n in enumerate(sizes)}


def mean_distance(real: dict[str, Any], drawn: list[Any], sizes: list[int], ways: int) -> float:
    """Return the mean total-variation distance over all sets of so many columns."""
    names = list(real)
    found = [
        table_distance([real[names[c]] for c in s], [drawn[c] for c in s], [sizes[c] for c in s])
        for s in itertools.combinations(range(len(names)), ways)
    ]
    return float(np.mean(found))
