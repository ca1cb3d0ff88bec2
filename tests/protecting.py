"""Tables under test: `protect` opens a curator in memory, with a budget that no test exhausts and seeded noise."""

from __future__ import annotations

from typing import Any

import sordino as sd

__all__ = ["protect"]


def protect(
    source: Any,
    domain: sd.Domain,
    *,
    neighbors: str = "add_remove",
    unit: Any = "row",
    budget: Any = None,
    ledger: Any = None,
    seed: int = 0,
    **how: Any,
) -> Any:
    """Return a curator; a durable ledger has secure noise."""
    rng = how.pop("rng", sd.Rng.seeded(seed) if ledger is None else None)
    return sd.protect(
        source,
        domain=domain,
        neighbors=neighbors,
        privacy_unit=unit,
        budget=budget or sd.PureDP(10**6),
        ledger=ledger,
        rng=rng,
        **how,
    )
