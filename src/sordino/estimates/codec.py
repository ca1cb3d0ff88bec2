"""Reading estimates back from the JSON data that they wrote, each kind by its own file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordino.estimates import curve, moments, ranks, selections
from sordino.estimates.estimate import Estimate, PointEstimate, Ratio, noisy_from_dict, parse_fraction
from sordino.estimates.selected import Selected

__all__ = ["estimate_from_dict"]


def estimate_from_dict(data: dict[str, Any]) -> Estimate:
    """Return the estimate that `to_dict` wrote."""
    read = _READERS.get(data["kind"])
    return noisy_from_dict(data) if read is None else read(data)


def _ratio(data: dict[str, Any]) -> Ratio:
    top, bottom = noisy_from_dict(data["numerator"]), noisy_from_dict(data["denominator"])
    return Ratio(top, bottom, int(data["center"]), int(data["lower"]), int(data["upper"]))


def _point(data: dict[str, Any]) -> PointEstimate:
    return PointEstimate(tuple(None if s is None else int(s) for s in data["steps"]), parse_fraction(data["unit"]))


def _selected(data: dict[str, Any]) -> Selected:
    return Selected(estimate_from_dict(data["of"]), int(data["among"]))


_READERS: dict[str, Callable[[dict[str, Any]], Estimate]] = {
    "bare": _point,
    "choices": selections.from_dict,
    "curve": curve.from_dict,
    "ranks": ranks.from_dict,
    "ratio": _ratio,
    "selected": _selected,
    "spread": moments.from_dict,
}
