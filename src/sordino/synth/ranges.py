"""Which way of counting ranges of one column errs least: one by one, a flat histogram, or a hierarchy. Public facts only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sordino.errors import DeclarationError
from sordino.loss import Number, PureDP, to_fraction
from sordino.queries.queryable import Adaptive
from sordino.synth.histogram import histogram_bins, place_of
from sordino.synth.levels import best_layout, layout_of, range_variances
from sordino.synth.loss_shares import split_loss

__all__ = ["RangePlan", "plan_ranges"]

_MOST_BINS = 4096


@dataclass(frozen=True, slots=True)
class RangePlan:
    """The root mean squared error, in rows, of each way to count the ranges at the same loss; hierarchy None: not feasible.

    `cheapest` names the least. Asking directly answers these ranges only; the other two any range, unlimited.
    """

    direct: float
    flat: float
    hierarchy: float | None

    @property
    def cheapest(self) -> Literal["direct", "flat", "hierarchy"]:
        """The way that errs least."""
        found = {"direct": self.direct, "flat": self.flat}
        if self.hierarchy is not None:
            found["hierarchy"] = self.hierarchy
        name: Any = min(found, key=lambda n: found[n])
        return name  # type: ignore[no-any-return]

    def describe(self) -> str:
        """Return the comparison as a sentence."""
        tree = "too many bins" if self.hierarchy is None else f"{self.hierarchy:,.1f}"
        words = f"asked one by one {self.direct:,.1f}, as a histogram {self.flat:,.1f}, as a hierarchy {tree}"
        return f"expected error of a range, in rows: {words}; cheapest: {self.cheapest}"


def plan_ranges(
    source: Adaptive, column: str, ranges: Sequence[tuple[Any, Any]], *, epsilon: Number, width: Number | None = None
) -> RangePlan:
    """Return what each way of counting ranges [a, b) of a column costs in error at a pure loss, before anything is spent.

    Theorem: with m ranges over one value at most, a row is in m of them, so asking all at once errs by sqrt(2) m / epsilon
    each (add_remove; rows of a unit and replacement scale all three alike). A flat histogram errs by sqrt(2 r) / epsilon
    over r bins; a hierarchy as `Histogram(..., ranges=...)` combines it.
    """
    if not ranges:
        raise DeclarationError("plan_ranges takes one range or more, such as [(20, 30), (30, 65)]")
    encoded = histogram_bins(column, source, width)
    split = split_loss(PureDP(to_fraction(epsilon, name="epsilon")), source.neighbors)
    cell = split.variance(1.0, tables=1)
    size = encoded.size - encoded.missing
    places = [place_of(encoded, source, a, b) for a, b in ranges]
    rises = np.zeros(size + 1)
    for low, high in places:
        if low < high:
            rises[low] += 1
            rises[high] -= 1
    deepest = max(float(np.cumsum(rises).max()), 1.0)
    bins = float(np.mean([high - low for low, high in places]))
    tree = None
    if 2 < size <= _MOST_BINS:
        layouts = [best_layout(size, places, pure=True)]
        layouts += [layout_of(size, 2)] if layouts[0].flat else []
        tree = math.sqrt(cell * float(range_variances(layouts[-1], places, pure=True).mean()))
    return RangePlan(deepest * math.sqrt(cell), math.sqrt(bins * cell), tree)
