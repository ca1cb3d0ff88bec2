"""What a histogram's counts say and how far they err: a range with its error, and the plan of a histogram beforehand.

It knows noise and public parameters, no table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sordino.core.errors import DeclarationError
from sordino.core.loss import Loss
from sordino.core.noise.laws import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from sordino.synth.hierarchy import quantile, sum_quantile

_FEW = 60.0  # deviations up to which whole steps matter, and the exact law is computed


@dataclass(frozen=True, slots=True)
class Range:
    """An estimated number of rows in a range, with its error: `.value`, `.interval(0.95)`, `.error(0.95)`.

    In a flat histogram the error is a sum of `bins` draws of one `law`, in whole rows; in a hierarchy the law is None.
    """

    value: float
    deviation: float
    excess: float
    law: NoiseLaw | None = None
    bins: int = 0

    def error(self, confidence: float) -> float:
        """Return the error not exceeded with this probability."""
        if isinstance(confidence, bool) or not 0 < confidence < 1:
            raise DeclarationError("confidence must lie between 0 and 1, such as 0.95")
        if self.law is not None and 0 < self.deviation <= _FEW:
            return float(sum_quantile(self.law, self.bins, confidence))
        reach = self.deviation * quantile(confidence, self.excess)
        return reach if self.law is None else float(math.ceil(reach))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return (lower, upper); a count is at least 0, unless noise has carried the value itself below."""
        reach = self.error(confidence)
        return min(max(self.value - reach, 0.0), self.value), max(self.value + reach, 0.0)

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class HistogramPlan:
    """What a histogram will cost and how far it will err: `.error(0.95)` of a bin, `.error(0.95, bins=10)` of ten together.

    `levels` is 1 but for a hierarchy, whose ranges `plan_ranges` compares. `law` is that of the noise in each count.
    """

    columns: tuple[str, ...]
    bins: int
    levels: int
    cost: Loss
    law: DiscreteLaplace | DiscreteGaussian

    def error(self, confidence: float, *, bins: int = 1) -> float:
        """Return the error, in rows, of a sum of so many bins that is not exceeded with this probability.

        Raises DeclarationError for a hierarchy, where it depends on the range, and for other than 1 to all of the bins.
        """
        if self.levels > 1:
            raise DeclarationError("the error in a hierarchy depends on the range: plan_ranges states it beforehand")
        if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= self.bins:
            raise DeclarationError(f"bins must be a whole number from 1 to {self.bins:,}, all of them")
        return Range(0.0, math.sqrt(self.law.variance() * bins), 3.0 / bins, self.law, bins).error(confidence)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Return the plan as JSON data: `errors` of 1, 10, 100, 1,000 and all bins together, in rows, by the number of bins.

        Raises DeclarationError for a hierarchy, where errors depend on the range.
        """
        sizes = [*(n for n in (1, 10, 100, 1_000) if n < self.bins), self.bins]
        return {
            "columns": list(self.columns),
            "bins": self.bins,
            "cost": self.cost.describe(),
            "confidence": confidence,
            "errors": {str(n): self.error(confidence, bins=n) for n in sizes},
        }

    def describe(self) -> str:
        """Return the plan as a sentence."""
        where = f"a histogram of {' and '.join(self.columns)}: {self.bins:,} bins, cost {self.cost.describe()}"
        if self.levels > 1:
            return f"{where}, in {self.levels} levels"
        whole = self.error(0.95, bins=self.bins)
        return f"{where}; each count within {self.error(0.95):,.0f} at 95%, all together within {whole:,.0f}"

    def __str__(self) -> str:
        return self.describe()
