"""Time values: estimates of dates and moments, shown as dates and as moments on a stated clock, like their intervals."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from sordino.core.estimates.estimate import ESTIMATES, ColumnEstimate, Number, estimate_to_dict
from sordino.core.time_zones import show_time


@ESTIMATES.register("time")
@dataclass(frozen=True, slots=True)
class TimeValues:
    """Estimates `of` days since 1970 (time "date"), or of seconds since 1970 in UTC (time "datetime", shown by `zone`).

    Values are rounded to the nearest `step`, the ends of intervals outward, so that they cover no less.
    Errors are lengths of time: numbers of days for dates, of seconds for moments; those of ranks stay rows.
    """

    of: ColumnEstimate
    time: str
    zone: str
    step: Fraction

    per_row: ClassVar[tuple[str, ...]] = ("of",)

    @property
    def error_unit(self) -> str:
        """What errors are counted in, where they are no lengths of time: rows, for quantiles."""
        return getattr(self.of, "error_unit", "")

    @property
    def cell_kind(self) -> str:
        """What its cells are, also where none has a value."""
        return "day" if self.time == "date" else f"moment {self.zone}"

    def values(self) -> list[Any]:
        """Return dates or moments."""
        half = Fraction(1, 2)
        return [None if v is None else self._show(math.floor(Fraction(v) / self.step + half)) for v in self.of.values()]

    def errors(self, confidence: float) -> Sequence[Number | None]:
        """Return the error of each that is not exceeded with probability `confidence`."""
        return self.of.errors(confidence)

    def intervals(self, confidence: float) -> Sequence[tuple[Any, Any]]:
        """Return the interval of each as two dates or moments."""
        return [
            (
                None if low is None else self._show(math.floor(Fraction(low) / self.step)),
                None if high is None else self._show(math.ceil(Fraction(high) / self.step)),
            )
            for low, high in self.of.intervals(confidence)
        ]

    def _show(self, steps: int) -> datetime.date:
        return show_time(steps * self.step, self.time, self.zone)

    to_dict = estimate_to_dict
