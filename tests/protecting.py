"""Tables under test: `protect` opens a curator in memory, with a budget that no test exhausts and seeded noise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sordino as sd
from sordino.core.loss import Loss
from sordino.core.source import PublicTable


def protect(
    source: Any,
    domain: sd.Domain,
    *,
    neighbors: str = "add_remove",
    unit: str | sd.PrivacyUnit = "row",
    budget: Loss | None = None,
    ledger: Path | str | None = None,
    seed: int = 0,
    rng: sd.Rng | None = None,
    public: Mapping[str, PublicTable] | None = None,
    name: str | None = None,
    csv: sd.Csv | None = None,
    relation: str | None = None,
    amend: str | None = None,
) -> sd.Curator:
    """Return a curator; a durable ledger has secure noise."""
    if rng is None and ledger is None:
        rng = sd.Rng.seeded(seed)
    return sd.protect(
        source,
        domain=domain,
        neighbors=neighbors,
        privacy_unit=unit,
        budget=budget or sd.PureDP(10**6),
        ledger=ledger,
        rng=rng,
        public=public,
        name=name,
        csv=csv,
        relation=relation,
        amend=amend,
    )
