"""The figures of an evaluation, and how they read: released ones, or NOT PRIVATE ones that say so. It knows no data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.loss import Loss, loss_from
from sordino.core.release import align
from sordino.core.text_table import html_table
from sordino.synth.evaluation.figure import Figure, round_up

if TYPE_CHECKING:
    from sordino.core.release import Release
    from sordino.synth.evaluation.correlations import Correlations, PairTable
    from sordino.synth.evaluation.distances import Distance
    from sordino.synth.evaluation.distributions import Distribution
    from sordino.synth.evaluation.heap_shares import ColumnHeaps
    from sordino.synth.evaluation.prediction import ConfusionMatrix, Ranking
    from sordino.synth.evaluation.trained_models import TrainedScore
    from sordino.synth.evaluation.violations import Violation
    from sordino.synth.evaluation.workload import Workload


@dataclass(frozen=True, slots=True)
class Prediction:
    """How often a scorecard trained on synthetic rows is right: on the original, and on synthetic rows (free).

    `reference` is of one that was trained on half of the original itself, NOT PRIVATE. `ranking` is how well the score ranks
    the original's rows, where that was asked, and `synthetic_ranking` synthetic ones.
    """

    condition: str
    original: ConfusionMatrix
    synthetic: ConfusionMatrix
    reference: ConfusionMatrix | None = None
    ranking: Ranking | None = None
    synthetic_ranking: Ranking | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON data."""
        plain: dict[str, Any] = {
            "condition": self.condition,
            "right": self.original.right.to_dict(),
            "right_by_the_larger_side": self.original.right_by_the_larger_side.to_dict(),
            "right_on_synthetic": self.synthetic.accuracy,
        }
        if self.reference is not None:
            plain["trained_on_original"] = {"right": self.reference.accuracy, "private": False}
        if self.ranking is not None and self.synthetic_ranking is not None:
            plain |= {"auc": self.ranking.to_dict(), "auc_on_synthetic": self.synthetic_ranking.to_dict()}
        return plain


@dataclass(frozen=True, slots=True)
class ColumnCounts:
    """The counts of each key of one column, NOT PRIVATE: the original's beside the synthetic rows'."""

    column: int
    original: tuple[float, ...]
    synthetic: tuple[float, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """How far synthetic rows lie from the table: distances by sets of columns, what else was asked, and what it cost.

    `correlations` are by ranks, `pearson` by values; `pairs` are the tables of those correlated most. `trained` are NOT
    PRIVATE scores.

    `floor` of a distance is what rows drawn independently from the true table would show. `losses` are those of the parts;
    together they are what was charged. Without a `release` the figures are NOT PRIVATE.
    """

    distances: tuple[Distance, ...]
    cost: str
    private: bool
    rows: int
    correlations: Correlations | None = None
    pearson: Correlations | None = None
    pairs: tuple[PairTable, ...] = field(default=(), repr=False)
    distributions: tuple[Distribution, ...] = ()
    heaps: tuple[ColumnHeaps, ...] = ()
    violations: tuple[Violation, ...] = ()
    trained: tuple[TrainedScore, ...] = ()
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

    def figure(self, ways: int) -> Figure:
        """Return that mean with its error at 95%."""
        return Figure(self.mean(ways), self.error(ways, 0.95))

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
        parts = [(name, _short(loss)) for name, loss in self.losses]
        return [*parts, ("total", f"{words}, charge {self.release.charge}")]

    def notes(self) -> tuple[str, ...]:
        """Return the figures in words: what the record of a private evaluation holds."""
        words = [f"mean distance over {w}: {self.figure(w).with_error(4)}" for w in self.ways]
        if self.workload is not None:
            words.append(self.workload.describe())
        words += self._correlation_lines()
        words += self._distribution_lines()
        words += self._heap_lines()
        if self.prediction is not None:
            words.append(f"predicted right: {self.prediction.original.right.with_error(3)}")
            if self.prediction.ranking is not None:
                words.append(f"AUC: {self.prediction.ranking.text()}")
        words += self._violation_lines()
        return tuple(words)

    def _correlation_lines(self) -> list[str]:
        """Return one line for both kinds of correlations."""
        if self.correlations is None:
            return []
        kinds = [c for c in (self.correlations, self.pearson) if c is not None]
        reach = self.correlations.error
        error = f", query error {reach:.2f}" if reach and math.isfinite(reach) else ""
        parts = [
            f"by less than the noise shows, at most {round_up(c.difference.most, 2)} ({c.kind})"
            if c.difference.shown is None
            else f"by {c.difference.text()} at most ({c.kind})"
            for c in kinds
        ]
        return [f"correlations differ {', '.join(parts)}{error}"]

    def _distribution_lines(self) -> list[str]:
        """Return the columns that differ most, worst first."""
        if not self.distributions:
            return []
        order = sorted(self.distributions, key=lambda d: -(d.difference.shown or 0.0))
        visible = [d for d in order if d.difference.shown is not None][:3]
        if not visible:
            most = max(d.difference.most for d in self.distributions)
            return [f"distribution functions differ by less than the noise shows (at most {most:.2f})"]
        words = ", ".join(f"{d.column} {d.difference.text()}" for d in visible)
        return [f"distribution functions differ most (Kolmogorov-Smirnov): {words}"]

    def _heap_lines(self) -> list[str]:
        """Return a line for each column whose rows, synthetic or original, are round more often than its values are."""
        lines = [
            f"round values of {heaps.column}, share of synthetic rows: {', '.join(s.describe() for s in heaps.largest)}"
            for heaps in self.heaps
            if heaps.largest
        ]
        return lines or ["round values: none holds visibly more rows than its share of the values"] * bool(self.heaps)

    def _violation_lines(self) -> list[str]:
        return [
            f"{v.rule}: broken by {100 * v.synthetic:.2f}% of synthetic rows; of the original's share {v.original.with_error(4)}"
            for v in self.violations
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as JSON data."""
        measured_ways = [w for w in (1, 2, 3) if not math.isnan(self.mean(w))]
        means = {str(w): self.figure(w) for w in measured_ways}
        distances = [(d, Figure(min(d.value, 1.0), normal_quantile(0.95) * d.deviation)) for d in self.distances]
        return {
            "private": self.private,
            "cost": self.cost,
            "costs": dict(self.costs()),
            "rows": self.rows,
            # what the noise hides is null, and `at_most` says how large it can be
            "means": {w: f.shown for w, f in means.items()},
            "at_most": {w: f.most for w, f in means.items() if f.shown is None},
            "errors95": {str(w): self.error(w, 0.95) for w in measured_ways},
            "floors": {str(w): self.floor(w) for w in measured_ways},
            "distances": [
                {"columns": list(d.columns), **f.to_dict(), "deviation": d.deviation, "floor": d.floor}
                for d, f in distances
            ],
            "correlations": {
                c.kind.lower(): {"columns": list(c.columns), **c.to_dict()}
                for c in (self.correlations, self.pearson)
                if c is not None
            },
            "distributions": [d.to_dict() for d in self.distributions],
            "heaps": [h.to_dict() for h in self.heaps],
            "workload": None if self.workload is None else self.workload.to_dict(),
            "prediction": None if self.prediction is None else self.prediction.to_dict(),
            "trained": [t.to_dict() for t in self.trained],
            "rules": [v.to_dict() for v in self.violations],
            "notes": list(self.notes()),
        }

    def table(self) -> list[list[str]]:
        """Return the mean distances as rows of text, headed by names: over how many columns, mean, 95% error, and floor."""
        return [
            ["distance over", "mean", "95% error", "floor"],
            *(
                [
                    f"{w} column{'s' * (w != 1)}",
                    self.figure(w).short(4),
                    "none" if self.exact else f"{self.error(w, 0.95):.4f}",
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
        lines = self._correlation_lines()
        lines += self._distribution_lines()
        lines += self._heap_lines()
        if self.workload is not None:
            w = self.workload
            lines.append(f"workload: {w.describe()}; 95% intervals held {100 * w.coverage:.0f}%")
        if self.prediction is not None:
            hits = self.prediction.original
            base = hits.right_by_the_larger_side
            lines.append(f"prediction: right {hits.right.with_error(3)}; by the larger side alone {base.text(3)}")
            if self.prediction.ranking is not None and self.prediction.synthetic_ranking is not None:
                ranking, own = self.prediction.ranking, self.prediction.synthetic_ranking
                lines.append(f"AUC of the scorecard: {ranking.text()}; on synthetic rows {own.text()}")
        lines += [
            f"{t.measure} of {t.kind} for {t.target}, NOT PRIVATE: {t.texts()[0]} trained on synthetic rows, "
            f"{t.texts()[1]} on real ones"
            for t in self.trained
        ]
        return lines + self._violation_lines()

    def __repr__(self) -> str:
        seal = "" if self.private else "NOT PRIVATE: computed on the table itself. "
        words = ", ".join(f"{w}-way {self.figure(w).short(4)}" for w in (1, 2, 3) if not math.isnan(self.mean(w)))
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


def _short(loss: Loss) -> str:
    """Return a loss in words, about six digits of a share that has no end as a decimal."""
    words = loss_from(loss.amounts()).describe()
    if "/" not in words:
        return words
    return ", ".join(f"about {name} {float(amount):.6g}" for name, amount in loss.amounts().items())
