"""What a run costs: events, composition and conversions, as users import them. Nothing here sees data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.core.accounting.composition import best as best
    from sordino.core.accounting.composition import currencies as currencies
    from sordino.core.accounting.composition import tight as tight
    from sordino.core.accounting.events import DiscreteGaussianEvent as DiscreteGaussianEvent
    from sordino.core.accounting.events import DiscreteLaplaceEvent as DiscreteLaplaceEvent
    from sordino.core.accounting.events import GaussianEvent as GaussianEvent
    from sordino.core.accounting.events import LaplaceEvent as LaplaceEvent
    from sordino.core.accounting.gaussian_dp import gaussian_rho_for as gaussian_rho_for
    from sordino.core.accounting.zcdp import epsilon_of as epsilon_of
    from sordino.core.accounting.zcdp import rho_for as rho_for

__getattr__, __dir__, __all__ = export_lazily(__name__)

# A package to importlib, so that the old paths of modules in it are found (core/moved.py).
__path__: list[str] = []
