"""The sensitivity laboratory: how far an answer can move, in the worst case, over a finite universe, and smoothed.

It may not know engines, curators, noise or mechanisms. Every name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.lab.sensitivity.empirical import Change as Change
    from sordino.lab.sensitivity.empirical import LocalNoise as LocalNoise
    from sordino.lab.sensitivity.empirical import global_sensitivity as global_sensitivity
    from sordino.lab.sensitivity.empirical import local_noise as local_noise
    from sordino.lab.sensitivity.empirical import local_sensitivity as local_sensitivity
    from sordino.lab.sensitivity.function import function_sensitivity as function_sensitivity
    from sordino.lab.sensitivity.moves import distance as distance
    from sordino.lab.sensitivity.neighborhoods import Neighborhoods as Neighborhoods
    from sordino.lab.sensitivity.neighborhoods import list_neighborhoods as list_neighborhoods
    from sordino.lab.sensitivity.profile import sensitivity_profile as sensitivity_profile
    from sordino.lab.sensitivity.smooth import smooth_sensitivity as smooth_sensitivity
    from sordino.lab.sensitivity.worst_case import worst_case_sensitivity as worst_case_sensitivity

__getattr__, __dir__, __all__ = export_lazily(__name__)

# A package to importlib, so that the old paths of modules in it are found (core/moved.py).
__path__: list[str] = []
