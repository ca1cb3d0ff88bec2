"""The estimate of a model's answer: values, the deviation of each, the ends of what is possible, and where it comes from.

It is post-processing of a released model; it knows no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from sordino.core.estimates.estimate import ESTIMATES, estimate_to_dict
from sordino.core.estimates.weighted_sum import normal_quantile

KIND_WORDS = {
    "one": "one column",
    "measured": "columns that were measured together",
    "unmeasured": "two columns that were not measured together",
    "many": "three columns or more",
}


def _write_bound(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _read_bound(stored: float | None) -> float:
    return -math.inf if stored is None else float(stored)


@ESTIMATES.register("model")
@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """One column of a model's answer.

    Its intervals hold on average over random questions, not for each by itself. They are cut to what is possible: at
    `least`, and at `most`, a value and its own deviation, such as the number of rows. `laplace` says that some are sums of
    Laplace noise: their errors are the larger of the Laplace law's quantile and the normal one's at this deviation.
    """

    numbers: tuple[float, ...] = field(metadata={"key": "values"})
    deviations: tuple[float, ...]
    least: Annotated[float, _write_bound, _read_bound]
    most: tuple[float, float]
    laplace: bool = False

    per_row: ClassVar[tuple[str, ...]] = ("numbers", "deviations")

    def values(self) -> list[float]:
        """Return the model's values."""
        return list(self.numbers)

    def errors(self, confidence: float) -> list[float]:
        """Return the error of each that is not exceeded with this probability."""
        reach = self._reach(confidence)
        return [reach * d for d in self.deviations]

    def intervals(self, confidence: float) -> list[tuple[float, float]]:
        """Return (lower, upper) of each."""
        reach = self._reach(confidence)
        top, beyond = self.most
        return [
            (min(max(v - reach * d, self.least), v), max(min(v + reach * d, top + reach * beyond), v))
            for v, d in zip(self.numbers, self.deviations, strict=True)
        ]

    def _reach(self, confidence: float) -> float:
        normal = normal_quantile(confidence)
        return max(normal, -math.log1p(-confidence) / math.sqrt(2.0)) if self.laplace else normal

    to_dict = estimate_to_dict


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where an answer that costs nothing comes from: a model, the kind of question to it, and what the model cost.

    `kind` is a key of KIND_WORDS, or `noise`: sums of the noisy counts themselves; `paid` is in words.
    """

    kind: str
    paid: str

    def describe(self, table: str) -> str:
        """Return why the answer is free."""
        return f"from the model of {table}, not from the table: free, the model was paid for ({self.paid})"

    def remark(self) -> str:
        """Return what its intervals mean."""
        if self.kind == "noise":
            return "intervals are those of the noise in the counts that the model was fitted to, each by itself"
        return f"intervals hold on average over questions of this kind: {KIND_WORDS.get(self.kind, self.kind)}"

    def to_dict(self) -> dict[str, str]:
        """Return the source as JSON data."""
        return {"from": "a model, not the table", "kind": self.kind, "paid": self.paid}
