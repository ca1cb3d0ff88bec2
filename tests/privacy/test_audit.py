"""Audits of whole paths: samples on two neighbors never prove more loss than was charged, and prove some where they can.

Exact values come from the engine, once a table; then the path's own plan draws many times. Each audit is a lower bound
that is wrong with probability `ALARM`; seeds are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from battery import audited_epsilon
from planning import data_access_of, engine_behind
from privacy.units import S
from protecting import protect
from sordino.ask.clipping.search import search_by
from sordino.ask.curator.adaptive_session import AdaptiveSession
from sordino.ask.curator.aggregation_procedure import exact_vectors
from sordino.ask.curator.quantile_scans import _ExactCounts
from sordino.ask.queries.adaptive.magnitudes import MagnitudeHistogram, TailCount, search_number
from sordino.core.loss import PureDP
from sordino.core.noise.rng import Rng

ALARM = 1e-6
RUNS = [500, pytest.param(8_000, marks=pytest.mark.deep)]
DOMAIN = sd.Domain({"x": sd.Integer(0, 7), "free": sd.Integer(), "town": sd.Identifier(), "id": sd.Identifier()})


def curator_of(
    values: list[int], *, town: str = "oslo", relation: str = "add_remove", unit: Any = "row", units: Any = None
) -> Any:
    ids = [str(i) for i in range(len(values))] if units is None else units
    columns = {"x": values, "free": values, "town": [town] * len(values), "id": ids}
    kinds = {"x": pa.int64(), "free": pa.int64(), "town": pa.string(), "id": pa.string()}
    table = pa.table({n: pa.array(v, kinds[n]) for n, v in columns.items()})
    return protect(table, DOMAIN, neighbors=relation, unit=unit, budget=sd.ApproxDP(10**6, "0.9"), seed=3)


def epsilon_bound(here: Any, there: Any, delta: float = 0.0) -> float:
    """Return the epsilon that the project's own audit shows at least: both tails and few values, both ways."""
    return audited_epsilon(here, there, delta, ALARM)


@pytest.mark.deep
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize(("relation", "other"), [("add_remove", [1, 1, 2, 2, 2]), ("replace", [1, 2, 2, 2])])
def test_most_common(relation: str, other: list[int], runs: int) -> None:
    def drawn(values: list[int], seed: int) -> Any:
        one = curator_of(values, relation=relation)
        plan = one.plan(sd.most_common("x"), epsilon=1)
        exact = exact_vectors(
            engine_behind(one).run(plan.procedure.compiled.select(engine_behind(one).primitives)),
            plan.procedure.compiled,
        )[0]
        rng = Rng.seeded(seed)
        return np.array([plan.procedure.mechanism.release(exact, rng) == 2 for _ in range(runs)], dtype=float)

    found = epsilon_bound(drawn([1, 1, 2, 2], 1), drawn(other, 2))
    assert found <= 1
    assert found > (0.05 if runs > 2000 else -1)


@pytest.mark.each(4)
@pytest.mark.parametrize("runs", [120, pytest.param(8_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize(("relation", "other"), [("add_remove", [0] * 8), ("replace", [0] * 6 + [7])])
def test_median(relation: str, other: list[int], runs: int) -> None:
    """Two quantiles at once, so that the halving is audited as well; the statistic is their sum."""

    def drawn(values: list[int], seed: int) -> Any:
        one = curator_of(values, relation=relation)
        plan = one.plan(sd.quantiles("x", [0.5, 0.9]), epsilon=2).procedure.allocation.selections[0]
        counts, rng = _ExactCounts(plan, data_access_of(one)), Rng.seeded(seed)
        found = [plan.selection.release(counts, low=plan.low, high=plan.high, rng=rng)[0] for _ in range(runs)]
        return np.array(found, dtype=float).sum(axis=1)

    assert epsilon_bound(drawn([0] * 7, 1), drawn(other, 2)) <= 2


@pytest.mark.deep
@pytest.mark.attack("find a person by a key or a column that only they have")
@pytest.mark.each(4)
@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("delta", ["0.02", "0.3"])
@pytest.mark.parametrize("there", [0, 2, 6])
def test_private_keys(there: int, delta: str, runs: int) -> None:
    """A key of `there` units against one of one unit more; kept back counts as -1."""

    def drawn(count: int, seed: int) -> Any:
        one = curator_of([1] * count)
        plan = one.plan(S.group_by("town").agg(sd.count()), epsilon=2, delta=delta)
        selector = plan.procedure.allocation.threshold
        assert (
            plan.procedure.allocation.vectors[0][0].mechanism == selector.selector
        )  # its own noisy count answers COUNT
        rng, found = Rng.seeded(seed), []
        for _ in range(runs):
            shown = selector.release({"oslo": count}, rng)
            found.append(shown["oslo"] if shown else -100)
        return np.array(found, dtype=float)

    assert epsilon_bound(drawn(there, 1), drawn(there + 1, 2), float(delta)) <= 2


@dataclass
class Told:
    outputs: Any
    value: Any


def answered(words: Any, answer: Any, *_: Any) -> Any:
    del words
    outputs = answer[1]
    return Told(outputs, outputs[0].estimate.values()[0] if len(outputs) == 1 else None)


class Quick(AdaptiveSession):
    """A session whose scans outlive it, so that a table is read once for thousands of runs."""

    scanned: dict[str, Any]

    def _scan(self, scan: Any) -> Any:
        if scan.key not in self.scanned:
            self.scanned[scan.key] = super()._scan(scan)
        return self.scanned[scan.key]


def run_often(one: Any, algorithm: Any, runs: int, seed: int, epsilon: int) -> Any:
    rng = Rng.seeded(seed)
    scanned: dict[Any, Any] = {}
    found = []
    for _ in range(runs):
        session = Quick(
            rows=data_access_of(one),
            table=one._table,
            loss=PureDP(epsilon),
            rng=rng,
            make_release=answered,
        )
        session.scanned = scanned
        found.append(float(algorithm(session)))
    return np.array(found)


LADDER = MagnitudeHistogram(sd.col("x").node, (0, 2, 4, 8), offsets=False)


def crossing(q: Any) -> float:
    told = q.above([TailCount(LADDER, j, 5, "many", below=True) for j in (1, 1, 1, 2, 3)], 0, PureDP(1))
    return 9.0 if told.value is None else float(told.value)


def chosen(q: Any) -> float:
    return float(q.select([TailCount(LADDER, j, 5, "near", below=False) for j in range(3)], PureDP(1)).value)


@pytest.mark.each(8)
@pytest.mark.parametrize("runs", [60, pytest.param(2_500, marks=pytest.mark.deep)])
@pytest.mark.parametrize("algorithm", [crossing, chosen], ids=["sparse vector", "selection"])
@pytest.mark.parametrize(("relation", "other"), [("add_remove", [0] * 5), ("replace", [0] * 3 + [7])])
def test_sessions(relation: str, other: list[int], algorithm: Any, runs: int) -> None:
    one, two = (
        run_often(curator_of(v, relation=relation), algorithm, runs, s, 1) for s, v in enumerate(([0] * 4, other))
    )
    assert epsilon_bound(one, two) <= 1


@pytest.mark.parametrize("runs", [30, pytest.param(1_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "method",
    ["histogram", "quantile", *(pytest.param(name, marks=pytest.mark.deep) for name in ("sparse_vector", "ladder"))],
)
def test_bounds(method: Any, runs: int) -> None:
    """One far row more: the upper bound found reveals little of it."""

    def drawn(values: list[int], seed: int) -> Any:
        one = curator_of(values)
        node = sd.col("x").node
        cuts = (Fraction(1), Fraction(4), Fraction(7)) if method == "ladder" else ()
        search = search_by(method, node, search_number(node, one.domain, coarse=False), cuts)
        return run_often(one, lambda q: search(q).upper, runs, seed, 2)

    assert epsilon_bound(drawn([1] * 30, 1), drawn([1] * 30 + [7], 2)) <= 2
