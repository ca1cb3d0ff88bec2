"""Coverage of every kind of interval that a curator gives: simulated at nominal 95%, through `ask` itself.

Each kind is asked of many equal groups, whose noise is independent, so a few asks are many intervals. Seeds are fixed. A
frequency may fall below its least by 4.5 standard deviations: were the seed not fixed, a chance of 4e-6 each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from ask.curator.support import curator
from battery import coverage_slack
from planning import data_access_of, engine_behind
from sordino import col
from sordino.core.domain import Column

ROWS = 40  # of each group, all alike
X = [(7 * i) % 41 for i in range(ROWS)]
Y = [(x + 3 * i) % 41 for i, x in enumerate(X)]
CASES = sum(y if x > 20 else -3 for x, y in zip(X, Y, strict=True))
LOSSES = [{"epsilon": 2}, {"rho": "0.5"}]


def people(groups: int, loss: dict[str, Any], *, neighbors: str = "add_remove", rows: int = ROWS, seed: int = 3) -> Any:
    keys = [g for g in range(groups) for _ in range(rows)]
    table = {"k": keys, "name": [f"n{k:05d}" for k in keys], "x": X[:rows] * groups, "y": Y[:rows] * groups}
    columns: dict[str, Column] = {
        "k": sd.Integer(0, groups - 1),
        "name": sd.Identifier(),
        "x": sd.Integer(0, 40),
        "y": sd.Integer(0, 40),
    }
    budget: Any = sd.ZCDP(10**6) if "rho" in loss else sd.ApproxDP(10**6, "0.99")
    return curator(budget=budget, neighbors=neighbors, source=pa.table(table), domain=sd.Domain(columns), seed=seed)


def hits(release: Any, place: int, truth: float) -> Any:
    low, high = np.array(release.outputs[place].estimate.intervals(0.95), dtype=float).T
    return (low - 1e-9 <= truth) & (truth <= high + 1e-9)


# aggregate, truth of a group of ROWS rows, and the largest share of intervals that may hold: near 95% where the law is
# that of one noise; higher where whole steps, clamps, or a test at every nuisance make an interval wider
KINDS: dict[str, tuple[Any, float, float]] = {
    "count": (sd.count(), ROWS, 0.99),
    "sum": (sd.sum("x"), sum(X), 0.97),
    "mean": (sd.mean("x"), float(np.mean(X)), 0.97),
    "variance": (sd.variance("x"), float(np.var(X)), 0.995),
    "std": (sd.std("x"), float(np.std(X)), 0.995),
    "covariance": (sd.covariance("x", "y"), float(np.cov(X, Y, bias=True)[0, 1]), 0.995),
    "correlation": (sd.correlation("x", "y"), float(np.corrcoef(X, Y)[0, 1]), 1.0),
    "distinct": (sd.count_distinct("x"), len(set(X)), 0.99),
    "case": (sd.sum(sd.when(col("x") > 20, col("y")).otherwise(-3)), CASES, 0.97),
}  # fmt: skip


@pytest.mark.each(200)
@pytest.mark.parametrize("groups", [600, pytest.param(10_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_groups(kind: str, loss: dict[str, Any], neighbors: str, groups: int) -> None:
    asked, truth, most = KINDS[kind]
    table = people(groups, loss, neighbors=neighbors)
    held = hits(table.ask(table.group_by("k").agg(asked), **loss), 0, truth)
    assert 0.95 - coverage_slack(groups) <= held.mean() <= most + coverage_slack(groups)


@pytest.mark.parametrize("groups", [600, pytest.param(20_000, marks=pytest.mark.deep)])
def test_private_keys(groups: int) -> None:
    table = people(groups, {"epsilon": 1})
    asked = [sd.count().alias("n"), sd.sum("x").alias("s"), sd.mean("x").alias("m")]
    release = table.ask(table.group_by("name").agg(*asked), epsilon=1.5, delta="0.000001")
    shown = len(release.rows)
    assert 0.2 * groups < shown < groups  # the threshold decides, so those that show are selected
    for place, truth in enumerate((ROWS, sum(X), float(np.mean(X)))):
        assert hits(release, place, truth).mean() >= 0.95 - coverage_slack(shown)


@pytest.mark.parametrize("groups", [600, pytest.param(20_000, marks=pytest.mark.deep)])
def test_samples_are_covered_as_samples(groups: int) -> None:
    """An interval is for the rows that were drawn; a seeded source draws the same again, so that they can be counted."""
    table = people(groups, {"epsilon": 1})
    plan = table.plan(table.sample("1/2").group_by("k").agg(sd.count(), sd.sum("x")), epsilon=2)
    _, outputs = plan.procedure.release(None, data_access_of(table), sd.Rng.seeded(5))
    drawn = engine_behind(table).sample(threshold=2**63, key=sd.Rng.seeded(5).bytes(32))
    exact = drawn.run(plan.procedure.compiled.select(drawn.primitives)).sort_by("k0")
    drawn.close()
    for output, name in zip(outputs, ("t0", "t1"), strict=True):
        truth = np.zeros(groups)
        truth[exact["k0"].to_numpy()] = exact[name].to_numpy()
        low, high = np.array(output.estimate.intervals(0.95), dtype=float).T
        assert 0.95 - coverage_slack(groups) <= ((low <= truth) & (truth <= high)).mean() <= 0.99


@pytest.mark.each(9)
@pytest.mark.parametrize("groups", [200, pytest.param(5_000, marks=pytest.mark.deep)])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_quantiles_are_as_near_in_rows_as_they_say(level: float, loss: dict[str, Any], groups: int) -> None:
    table = people(groups, loss)
    release = table.ask(table.group_by("k").agg(sd.quantile("x", level)), **loss)
    estimate = release.outputs[0].estimate
    values = np.array(estimate.values())[:, None]
    below, upto = (np.array(X) < values).sum(axis=1), (np.array(X) <= values).sum(axis=1)
    off = np.maximum(0, np.maximum(below - level * ROWS, level * ROWS - upto))
    assert (off <= estimate.errors(0.95)).mean() >= 0.95 - coverage_slack(groups)


@pytest.mark.parametrize("asks", [30, pytest.param(1_500, marks=pytest.mark.deep)])
def test_choices_are_as_near_in_rows_as_they_say(asks: int) -> None:
    counts = {"a": 12, "b": 9, "c": 5, "d": 2}
    table = curator(
        source=pa.table({"c": [label for label, n in counts.items() for _ in range(n)]}),
        domain=sd.Domain({"c": sd.Category(list(counts))}),
        budget=sd.PureDP(10**6),
    )
    releases = [table.ask(sd.most_common("c"), epsilon=0.5) for _ in range(asks)]
    off = [max(counts.values()) - counts[r.value] for r in releases]
    assert np.mean([o <= r.error(0.95) for o, r in zip(off, releases, strict=True)]) >= 0.95 - coverage_slack(asks)
    assert any(off)


# ---- rows that noisy values select


Cut = Callable[[Any], Any]
CUTS: dict[str, Cut] = {
    "having": lambda asked: asked.having(col("n") > 14),
    "limit": lambda asked: asked.order_by(-col("n")).limit(5),
    "least": lambda asked: asked.order_by(col("n")).limit(3),
    "both": lambda asked: asked.having((col("n") < 6) | (col("n") > 16)).order_by(-col("n")).limit(20),
}


FEW = 90


def select_cells(cut: Cut, key: str, loss: dict[str, Any], *, asks: int, groups: int, what: Any, truth: float) -> Any:
    """Return, for each column of each ask that shows a row, whether all rows hold the truth, and for each row if it does."""
    releases: list[Any] = []
    for start in range(0, asks, FEW):  # the deltas of no more than these fit under a cap below 1
        table = people(groups, loss, rows=10, seed=start)
        plan = table.plan(cut(table.group_by(key).agg(sd.count().alias("n"), what.alias("v"))), **loss)
        releases += [r for r in (table.ask(plan) for _ in range(min(FEW, asks - start))) if r.rows]
    found = [hits(r, place, there) for place, there in enumerate((10, truth)) for r in releases]
    return [bool(f.all()) for f in found], np.concatenate(found)


@pytest.mark.each(20)
@pytest.mark.parametrize("asks", [12, pytest.param(250, marks=pytest.mark.deep)])
@pytest.mark.parametrize("key", ["k", "name"])
@pytest.mark.parametrize("cut", CUTS)
def test_rows_that_noisy_values_select_are_covered_together(cut: str, key: str, asks: int) -> None:
    """2,000 equal groups of 10 rows: with the intervals of single rows, none of those shown would hold its truth."""
    loss = {"epsilon": 1} if key == "k" else {"epsilon": 2, "delta": "0.01"}
    together, each = select_cells(CUTS[cut], key, loss, asks=asks, groups=2000, what=sd.count(), truth=10)
    assert len(together) == 2 * asks
    assert np.mean(together) >= 0.95 - coverage_slack(asks)
    assert each.mean() >= 0.95


@pytest.mark.each(6)
@pytest.mark.parametrize(
    ("what", "truth"), [(sd.sum("x"), sum(X[:10])), (sd.mean("x"), np.mean(X[:10])), (sd.std("x"), np.std(X[:10]))],
    ids=["sum", "mean", "std"],
)  # fmt: skip
@pytest.mark.parametrize("asks", [6, pytest.param(120, marks=pytest.mark.deep)])
def test_whatever_they_are_selected_by(what: Any, truth: float, asks: int) -> None:
    def by_value(asked: Any) -> Any:
        return asked.order_by(-col("v")).limit(30)

    together, each = select_cells(by_value, "k", {"epsilon": 3}, asks=asks, groups=800, what=what, truth=float(truth))
    assert np.mean(together) >= 0.95 - coverage_slack(asks)
    assert each.mean() >= 0.95


@pytest.mark.deep
def test_selected_quantiles_are_as_near_as_they_say() -> None:
    table = people(300, {"epsilon": 2}, rows=10)
    asked = table.group_by("k").agg(sd.median("x").alias("m")).order_by(-col("m")).limit(20)
    release = table.ask(asked, epsilon=2)
    for m, error in zip(release.table["m"].to_pylist(), release.error(0.95)["m"].to_pylist(), strict=True):
        upto, below = (sum(x <= m for x in X[:10]), sum(x < m for x in X[:10]))
        assert max(0, below - 5, 5 - upto) <= error
    single = table.plan(table.group_by("k").agg(sd.median("x")), epsilon=2)
    assert table.plan(asked, epsilon=2).error(0.95) == release.error(0.95)["m"][0].as_py() > single.error(0.95)
