"""What the tests of the curator share: a small table, its domain, and curators over it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import sordino as sd
from protecting import protect
from sordino import col
from sordino.ask.curator.curator import Curator
from sordino.ask.queries.build import Selection

S = Selection()
TABLE = pa.table(
    {
        "age": pa.array([20 + i % 60 for i in range(600)], pa.int64()),
        "gain": pa.array([float(i % 100) / 3 for i in range(600)]),
        "occ": pa.array([["Sales", "Tech", None][i % 3] for i in range(600)]),
        "id": pa.array([f"u{i // 10}" for i in range(600)]),
    }
)
DOMAIN = sd.Domain(
    {
        "age": sd.Integer(0, 100),
        "gain": sd.Real(0, 50, resolution=0.01),
        "occ": sd.Category(["Sales", "Tech"], missing="keep"),
        "sure": sd.Integer(0, 100, missing=sd.Fill(0)),
        "id": sd.Identifier(),
    }
)
QUESTIONS: dict[str, Any] = {
    "count": sd.count(),
    "count of": sd.count("age"),
    "sum": sd.sum("age"),
    "real sum": sd.sum("gain"),
    "mean": sd.mean("age"),
    "sure mean": sd.mean("sure"),
    "where": S.where(col("age") > 30).agg(sd.count()),
    "group": S.group_by("occ").agg(sd.count(), sd.mean("age")),
    "bins": sd.histogram("age", width=10),
    "several": [sd.count(), sd.sum("age"), sd.mean("gain")],
    "sql": sd.sql("SELECT occ, COUNT(*) AS n, AVG(age) AS age FROM data WHERE gain < 20 GROUP BY occ"),
}
EXHAUSTED = "nothing was charged"


def curator(
    *,
    budget: Any = None,
    neighbors: str = "add_remove",
    unit: Any = "row",
    ledger: Any = None,
    seed: int | None = 7,
    source: Any = None,
    domain: sd.Domain = DOMAIN,
    public: Any = None,
    amend: str | None = None,
) -> Curator:
    """Return a curator of the table; seeded, where the ledger is in memory."""
    return protect(
        TABLE.append_column("sure", TABLE.column("age")) if source is None else source,
        domain,
        neighbors=neighbors,
        unit=unit,
        budget=budget or sd.PureDP(1000),
        ledger=ledger,
        seed=seed or 0,
        rng=sd.Rng.secure() if seed is None else None,
        public=public,
        amend=amend,
    )
