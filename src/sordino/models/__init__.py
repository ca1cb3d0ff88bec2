"""Models in one scan: regression, classification, components and clusters, priced, with intervals.

    model = sd.models.linear_regression(houses, y="price", x=["area", "rooms", "zone"], epsilon=1, delta="1e-6")
    model.coefficients; model.interval("area", confidence=0.95, of="noise"); model.predict(frame)

Every name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.models.linear import LinearModel as LinearModel
    from sordino.models.linear import linear_regression as linear_regression

__getattr__, __dir__, __all__ = export_lazily(__name__)
