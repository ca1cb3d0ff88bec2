"""The figures of an evaluation, and how they read: released ones, or NOT PRIVATE ones that say so. It knows no data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.estimates.curve import normal_quantile
from sordino.core.loss import Loss, loss_from
from sordino.core.notebook_tables import html_table
from sordino.core.release import align

if TYPE_CHECKING:
    from sordino.core.release import Release
    from sordino.synth.evaluation.correlations import Correlations
    from sordino.synth.evaluation.distances import Distance
    from sordino.synth.evaluation.prediction import ConfusionMatrix
    from sordino.synth.evaluation.workload import Workload


@dataclass(frozen=True, slots=True)
class Prediction:
    """How often a scorecard trained on synthetic rows is right: on the original, and on synthetic rows (free).

    `reference` is of one that was trained on half of the original itself, NOT PRIVATE.
    """

    condition: str
    original: ConfusionMatrix
    synthetic: ConfusionMatrix
    reference: ConfusionMatrix | None = None


@dataclass(frozen=True, slots=True)
class ColumnCounts:
    """The counts of each key of one column, NOT PRIVATE: the original's beside the synthetic rows'."""

    column: int
    original: tuple[float, ...]
    synthetic: tuple[float, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """How far synthetic rows lie from the table: distances by sets of columns, what else was asked, and what it cost.

    `floor` of a distance is what rows drawn independently from the true table would show. `losses` are those of the parts;
    together they are what was charged. Without a `release` the figures are NOT PRIVATE.
    """

    distances: tuple[Distance, ...]
    cost: str
    private: bool
    rows: int
    correlations: Correlations | None = None
    workload: Workload | None = None
    prediction: Prediction | None = None
    losses: tuple[tuple[str, Loss], ...] = ()
    release: Release | None = None
    column_counts: tuple[ColumnCounts, ...] = field(default=(), repr=False)

    @property
    def ways(self) -> list[int]:
        """The numbers of columns that distances are over."""
        return sorted({len(d.columns) for d in self.distances})

    def mean(self, ways: int) -> float:
        """Return the mean distance over all sets of so many columns that were asked, cut to what is possible: 0 to 1."""
        values = [d.value for d in self.distances if len(d.columns) == ways]
        return min(max(float(np.mean(values)), 0.0), 1.0) if values else math.nan

    def error(self, ways: int, confidence: float) -> float:
        """Return the error, from the noise of asking, of that mean."""
        deviations = [d.deviation for d in self.distances if len(d.columns) == ways]
        return (
            normal_quantile(confidence) * math.sqrt(sum(v * v for v in deviations)) / len(deviations)
            if deviations
            else math.nan
        )

    def floor(self, ways: int) -> float:
        """Return the mean of what sampling alone would show."""
        floors = [d.floor for d in self.distances if len(d.columns) == ways]
        return float(np.mean(floors)) if floors else math.nan

    def worst(self, count: int = 10) -> tuple[Distance, ...]:
        """Return the sets of columns that lie farthest off."""
        return tuple(sorted(self.distances, key=lambda d: -d.value)[:count])

    def costs(self) -> list[tuple[str, str]]:
        """Return each part with its cost, once, and the total; empty where nothing was charged."""
        if self.release is None or not self.losses:
            return []
        amounts: dict[str, Any] = {}
        for _, loss in self.losses:
            for name, amount in loss.amounts().items():
                amounts[name] = amounts.get(name, 0) + amount
        total = loss_from(amounts).describe()
        charged = self.release.cost.describe()
        words = charged if set(self.release.cost.amounts()) == set(amounts) else f"{total}, charged as {charged}"
        parts = [(name, loss_from(loss.amounts()).describe()) for name, loss in self.losses]
        return [*parts, ("total", f"{words}, charge {self.release.charge}")]

    def notes(self) -> tuple[str, ...]:
        """Return the figures in words: what the record of a private evaluation holds."""
        words = [f"mean distance over {w}: {self.mean(w):.4f} within {self.error(w, 0.95):.4f}" for w in self.ways]
        if self.workload is not None:
            words.append(self.workload.describe())
        if self.correlations is not None:
            c = self.correlations
            words.append(f"correlations differ by {c.largest:.2f} at most, query error {c.error:.2f}")
        if self.prediction is not None:
            hits = self.prediction.original
            words.append(f"predicted right: {hits.accuracy:.3f} within {hits.error(1.96):.3f}")
        return tuple(words)

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as JSON data."""
        measured_ways = [w for w in (1, 2, 3) if not math.isnan(self.mean(w))]
        return {
            "private": self.private,
            "cost": self.cost,
            "costs": dict(self.costs()),
            "rows": self.rows,
            "means": {str(w): self.mean(w) for w in measured_ways},
            "errors95": {str(w): self.error(w, 0.95) for w in measured_ways},
            "floors": {str(w): self.floor(w) for w in measured_ways},
            "distances": [
                {"columns": list(d.columns), "value": d.value, "deviation": d.deviation, "floor": d.floor}
                for d in self.distances
            ],
            "notes": list(self.notes()),
        }

    def table(self) -> list[list[str]]:
        """Return the mean distances as rows of text, headed by names: over how many columns, mean, 95% error, and floor."""
        return [
            ["distance over", "mean", "95% error", "floor"],
            *(
                [
                    f"{w} column{'s' * (w != 1)}",
                    f"{self.mean(w):.4f}",
                    "exact" if self.exact else f"{self.error(w, 0.95):.4f}",
                    f"{self.floor(w):.4f}",
                ]
                for w in self.ways
            ),
        ]

    @property
    def exact(self) -> bool:
        """Whether the figures are of raw rows, without noise."""
        return self.release is None

    def figures(self) -> list[str]:
        """Return the other parts as lines of text."""
        lines = []
        if self.correlations is not None:
            c = self.correlations
            query_error = "" if self.exact else f", query error {c.error:.2f}"
            lines.append(f"correlations: differ by {c.largest:.2f} at most{query_error}")
        if self.workload is not None:
            w = self.workload
            lines.append(f"workload: {w.describe()}; 95% intervals held {100 * w.coverage:.0f}%")
        if self.prediction is not None:
            hits = self.prediction.original
            error = "" if self.exact else f", error {hits.error(1.96):.3f}"
            lines.append(f"prediction: {hits.accuracy:.3f} right{error}; {hits.base:.3f} by the larger side alone")
        return lines

    def __repr__(self) -> str:
        seal = "" if self.private else "NOT PRIVATE: computed on the table itself. "
        words = ", ".join(f"{w}-way {self.mean(w):.4f}" for w in (1, 2, 3) if not math.isnan(self.mean(w)))
        return f"<Evaluation: {seal}mean distances {words}; {self.cost}>"

    def __str__(self) -> str:
        seal = [] if self.private else ["NOT PRIVATE"]
        beside = [*self.figures(), *(f"cost of {n}: {c}" for n, c in self.costs()), self.cost]
        return "\n".join([*seal, *align(self.table()), *beside])

    def _repr_html_(self) -> str:
        head, *rows = self.table()
        beside = [*self.figures(), *(f"cost of {n}: {c}" for n, c in self.costs())]
        title = ("" if self.private else "NOT PRIVATE: ") + "synthetic rows beside the table"
        return html_table(title, head, rows, notes=beside, foot=self.cost)
