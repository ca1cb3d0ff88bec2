"""Estimates: what every kind of estimate offers - values, errors and confidence intervals, one a row.

Everything in this package is post-processing of released values by public parameters; nothing in it sees an exact answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Protocol

from sordino.core.codec import Records

Number = int | float
# of any size, and so text in JSON
BigInt = Annotated[int, str]
ESTIMATES = Records("kind", noun="estimate")


class ColumnEstimate(Protocol):
    """A column of estimates: one value, error and interval a row, in the question's units.

    `per_row` names the fields that hold one item a row, or estimates that do.
    """

    per_row: ClassVar[tuple[str, ...]]

    def values(self) -> Sequence[Any]:
        """Return the point estimates: numbers, labels where labels were chosen, None where nothing was given."""

    def errors(self, confidence: float) -> Sequence[Number | None]:
        """Return the error of each that is not exceeded with probability `confidence`."""

    def intervals(self, confidence: float) -> Sequence[tuple[Number | None, Number | None]]:
        """Return the confidence interval of each by itself."""

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON data."""


def estimate_to_dict(estimate: Any) -> dict[str, Any]:
    """Return the estimate as JSON data."""
    return ESTIMATES.to_dict(estimate)


def interval_ends(estimate: Any, confidence: float) -> tuple[Sequence[Number | None], Sequence[Number | None]]:
    """Return the lower and the upper ends of an estimate's intervals, as columns where it holds them as such."""
    if hasattr(estimate, "ends"):
        lows, highs = estimate.ends(confidence)
        return lows, highs
    pairs = estimate.intervals(confidence)
    return [low for low, _ in pairs], [high for _, high in pairs]


def explain_no_ends(estimate: Any) -> str:
    """Return in words why intervals of this estimate may have no ends."""
    while hasattr(estimate, "of") and not isinstance(estimate.of, tuple):
        estimate = estimate.of
    return getattr(estimate, "no_ends", "no interval")


def take_rows(estimate: Any, places: Sequence[int]) -> Any:
    """Return an estimate with the rows at these places, in this order.

    >>> from fractions import Fraction
    >>> from sordino.core.estimates.noisy import Noisy
    >>> from sordino.core.noise.laws import DiscreteLaplace
    >>> take_rows(Noisy((5, 7, 9), Fraction(1), DiscreteLaplace(Fraction(1))), [2, 0]).steps
    (9, 5)
    """
    fields = {}
    for name in estimate.per_row:
        items = getattr(estimate, name)
        if hasattr(items, "per_row"):
            fields[name] = take_rows(items, places)
        elif not items:
            # an answer without rows, or a vector that this estimate does not use
            fields[name] = items
        elif hasattr(items[0], "per_row"):
            fields[name] = tuple(take_rows(vector, places) for vector in items)
        elif isinstance(items, range) and isinstance(places, range) and places.step == 1:
            fields[name] = items[places.start : places.stop]
        else:
            fields[name] = tuple(items[i] for i in places)
    return replace(estimate, **fields)
