"""The sensitivity room: how far an answer can move, in the worst case, over a finite universe, and smoothed.

It may not know engines, curators, noise or mechanisms. Every name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino.sensitivity.empirical import Change as Change
    from sordino.sensitivity.empirical import global_sensitivity as global_sensitivity
    from sordino.sensitivity.empirical import local_sensitivity as local_sensitivity
    from sordino.sensitivity.function import function_sensitivity as function_sensitivity
    from sordino.sensitivity.profile import sensitivity_profile as sensitivity_profile
    from sordino.sensitivity.smooth import smooth_sensitivity as smooth_sensitivity
    from sordino.sensitivity.worst_case import worst_case_sensitivity as worst_case_sensitivity

_EXPORTS = {
    "Change": "sordino.sensitivity.empirical",
    "function_sensitivity": "sordino.sensitivity.function",
    "global_sensitivity": "sordino.sensitivity.empirical",
    "local_sensitivity": "sordino.sensitivity.empirical",
    "sensitivity_profile": "sordino.sensitivity.profile",
    "smooth_sensitivity": "sordino.sensitivity.smooth",
    "worst_case_sensitivity": "sordino.sensitivity.worst_case",
}

__all__ = [
    "Change",
    "function_sensitivity",
    "global_sensitivity",
    "local_sensitivity",
    "sensitivity_profile",
    "smooth_sensitivity",
    "worst_case_sensitivity",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sordino.sensitivity' has no attribute {name!r}")
    found = getattr(importlib.import_module(_EXPORTS[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
