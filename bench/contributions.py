"""Contribution bounds: the error of counts and sums as bounds act after WHERE, by group, and on a unit's whole total.

python bench/contributions.py
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

import sordino as sd
from sordino import col

_GROUPS, _TIMES, _ROWS = 50, 2, (8, 32, 128, 500)
DOMAIN = sd.Domain(
    {"id": sd.Integer(0, 10**6), "x": sd.Integer(0, 99), "g": sd.Integer(0, _GROUPS - 1), "cost": sd.Integer(0, 100)}
)


def few_of_many() -> pa.Table:
    """Return 1,000 units of 50 rows, of which one in ten meets a condition."""
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(1000), 50)
    return _table(
        ids, rng.integers(0, 100, len(ids)), rng.integers(0, _GROUPS, len(ids)), rng.integers(0, 101, len(ids))
    )


def skewed() -> pa.Table:
    """Return 20,000 units, most of few rows in few groups and some of hundreds; their costs are skewed too."""
    rng = np.random.default_rng(2)
    rows = np.minimum(rng.zipf(1.7, 20_000), 500)
    ids = np.repeat(np.arange(20_000), rows)
    home = rng.integers(0, _GROUPS, 20_000)[ids]
    groups = (home + np.minimum(rng.geometric(0.5, len(ids)) - 1, 5)) % _GROUPS
    return _table(
        ids, rng.integers(0, 100, len(ids)), groups, np.minimum(rng.exponential(15, len(ids)), 100).astype(int)
    )


def _table(ids: Any, x: Any, groups: Any, costs: Any) -> pa.Table:
    return pa.table({"id": ids, "x": x, "g": groups, "cost": costs})


def _protect(table: pa.Table, budget: Any, seed: int) -> Any:
    unit = sd.PrivacyUnit("id", max_rows=500)
    rng = sd.Rng.seeded(seed)
    return sd.protect(
        table, domain=DOMAIN, neighbors="add_remove", privacy_unit=unit, budget=budget, ledger=None, rng=rng
    )


def _error(table: pa.Table, question: Any, column: str, truth: Any, loss: dict[str, float]) -> float:
    """Return the root of the mean squared error over groups and runs: of noise and of the rows left out."""
    budget = sd.PureDP(1000) if "epsilon" in loss else sd.ZCDP(1000)
    errors = []
    for seed in range(_TIMES):
        rows = _protect(table, budget, seed).ask(question, **loss).rows
        errors.append(np.array([r[column] for r in rows], dtype=float) - truth)
    return round(float(np.sqrt(np.mean(np.square(errors)))), 1)


def run() -> dict[str, Any]:
    """Return the figures: before and after, at the same loss."""
    found: dict[str, Any] = {}
    data = few_of_many()
    meets = (data["x"].to_numpy() < 10).reshape(1000, 50)
    truth, before = int(meets.sum()), int(meets[:, :5].sum())  # the first five rows of a unit, which come in no order
    curator = _protect(data, sd.PureDP(10), 1)
    asked = curator.where(col("x") < 10).agg(sd.count()).bound_contributions(max_rows=5)
    noise = round(curator.plan(asked, epsilon=1).error(0.95), 1)
    after = curator.ask(asked, epsilon=1).value
    found["count of 1 row in 10, max_rows 5"] = {"truth": truth, "before": before, "after": after, "noise 95%": noise}
    data = skewed()
    counts = np.bincount(data["g"].to_numpy(), minlength=_GROUPS)
    totals = np.bincount(data["g"].to_numpy(), weights=data["cost"].to_numpy(), minlength=_GROUPS)
    losses: dict[str, dict[str, float]] = {"epsilon 0.1": {"epsilon": 0.1}, "rho 0.005": {"rho": 0.005}}
    for name, loss in losses.items():
        by_group = curator.group_by("g").agg(sd.count().alias("n"))
        rows = {m: _error(data, by_group.bound_contributions(max_rows=m), "n", counts, loss) for m in _ROWS}
        sizes = [(g, r) for g in (2, 6) for r in (4, 16, 64)]
        groups = {
            f"{g} groups, {r} rows": _error(
                data, by_group.bound_contributions(max_groups=g, max_rows_per_group=r), "n", counts, loss
            )
            for g, r in sizes
        }
        found[f"counts by group, {name}"] = {
            "max_rows": rows,
            "best": min(rows.values()),
            "by group": min(groups.values()),
        }
        found[f"counts by group, {name}"]["at"] = min(groups, key=lambda k: groups[k])
        clipped = curator.group_by("g").agg(sd.sum("cost").alias("s"))
        sums = {m: _error(data, clipped.bound_contributions(max_rows=m), "s", totals, loss) for m in _ROWS}
        whole = {
            f"{g} groups, {u}": _error(
                data,
                curator.group_by("g").agg(sd.sum("cost", per_unit=(0, u)).alias("s")).bound_contributions(max_groups=g),
                "s",
                totals,
                loss,
            )
            for g in (2, 6)
            for u in (200, 800, 3200)
        }
        found[f"sums by group, {name}"] = {
            "max_rows": sums,
            "best": min(sums.values()),
            "unit totals": min(whole.values()),
        }
        found[f"sums by group, {name}"]["at"] = min(whole, key=lambda k: whole[k])
    return found


if __name__ == "__main__":
    for row, figures in run().items():
        print(f"{row:36} {json.dumps(figures)}")
