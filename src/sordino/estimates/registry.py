"""The kinds of estimates by their names in JSON, each read back by its own file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordino.estimates import curve, model_estimate, point_estimate, ranks, ratio, second_moments, selections
from sordino.estimates.estimate import ColumnEstimate
from sordino.estimates.noisy import noisy_from_dict
from sordino.estimates.selected import Selected

__all__ = ["estimate_from_dict"]


def estimate_from_dict(data: dict[str, Any]) -> ColumnEstimate:
    """Return the estimate that `to_dict` wrote."""
    read = _READERS.get(data["kind"])
    return noisy_from_dict(data) if read is None else read(data)


def _read_selected(data: dict[str, Any]) -> Selected:
    return Selected(estimate_from_dict(data["of"]), int(data["among"]))


_READERS: dict[str, Callable[[dict[str, Any]], ColumnEstimate]] = {
    "bare": point_estimate.from_dict,
    "choices": selections.from_dict,
    "curve": curve.from_dict,
    "model": model_estimate.from_dict,
    "ranks": ranks.from_dict,
    "ratio": ratio.from_dict,
    "selected": _read_selected,
    "spread": second_moments.from_dict,
}
