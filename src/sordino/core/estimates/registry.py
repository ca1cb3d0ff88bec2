"""The kinds of estimates by their names in JSON: each is registered by its own file, imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sordino.core.estimates import (  # noqa: F401
    choices,
    formula,
    model_estimate,
    noisy,
    point_estimate,
    ratio,
    replicates,
    second_moments,
    selected,
    table_cells,
    time_values,
    weighted_sum,
)
from sordino.core.estimates.estimate import ESTIMATES, ColumnEstimate


def estimate_from_dict(data: Mapping[str, Any]) -> ColumnEstimate:
    """Return the estimate that `to_dict` wrote."""
    estimate: ColumnEstimate = ESTIMATES.from_dict(data)
    return estimate
