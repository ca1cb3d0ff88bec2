"""The risk room: what an epsilon means to an attacker, to a person and to an analyst, and the epsilon that meets it.

It may not know engines, curators or data: universes, sizes and requirements are public. Every name is imported when it
is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino.risk.attacker import Simulation as Simulation
    from sordino.risk.worlds import InfeasibleRisk as InfeasibleRisk
    from sordino.risk.worlds import Worlds as Worlds

_EXPORTS = {
    "InfeasibleRisk": "sordino.risk.worlds",
    "Simulation": "sordino.risk.attacker",
    "Worlds": "sordino.risk.worlds",
    "Choice": "sordino.risk.choice",
    "Requirement": "sordino.risk.choice",
    "accuracy": "sordino.risk.requirements",
    "advantage": "sordino.risk.requirements",
    "choose_epsilon": "sordino.risk.requirements",
    "disclosure": "sordino.risk.requirements",
    "economic": "sordino.risk.requirements",
    "gain": "sordino.risk.requirements",
    "identifiability": "sordino.risk.requirements",
    "posterior": "sordino.risk.requirements",
    "relative": "sordino.risk.requirements",
    "test_power": "sordino.risk.requirements",
}

__all__ = [
    "Choice",
    "InfeasibleRisk",
    "Requirement",
    "Simulation",
    "Worlds",
    "accuracy",
    "advantage",
    "choose_epsilon",
    "disclosure",
    "economic",
    "gain",
    "identifiability",
    "posterior",
    "relative",
    "test_power",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sordino.risk' has no attribute {name!r}")
    found = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(_EXPORTS)
