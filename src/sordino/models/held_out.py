"""How well a model predicts held-out units: R2 from their noisy moments, AUC, calibration and right classes from noisy counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.ask.queries.gradient_vector import SCORE_BIN, SCORE_BINS
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.release import Release
from sordino.models.design import frame_units
from sordino.models.moments import Floats, NoisyMoments

# Probabilities are told apart by tenths.
_TENTHS = 10
# A tenth with fewer rows than so many deviations of its noise says nothing of its share.
_LEAST_ROWS = 4.0
# The lower end of an R2 of which nothing is known: files hold no infinite numbers.
_UNKNOWN = -1e6


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The R2 of a model of all other units on those that were held out, with the interval of its noise."""

    r2: float
    lower: float
    upper: float
    confidence: float

    def facts(self) -> dict[str, str]:
        """Return what a card says of it."""
        level = f"{100 * self.confidence:g}%"
        if self.lower <= _UNKNOWN:
            return {"held-out R2": "not known: the noise hides how many rows were held out"}
        return {"held-out R2": f"{self.r2:.3f} ({self.lower:.3f} to {self.upper:.3f} at {level})"}


@dataclass(frozen=True, slots=True)
class ClassShare:
    """Of the held-out rows of a class, the `share` whose class is predicted, with the interval of its noise."""

    label: str
    share: float
    lower: float
    upper: float
    rows: float


@dataclass(frozen=True, slots=True)
class HeldOutClasses:
    """The share of held-out rows whose class is predicted, with the interval of its noise, in all and by class."""

    right: float
    lower: float
    upper: float
    confidence: float
    rows: float
    classes: tuple[ClassShare, ...]

    def facts(self) -> dict[str, str]:
        """Return what a card says of it."""
        level = f"{100 * self.confidence:g}%"
        facts = {
            "held-out rows predicted right": f"{self.right:.3f} ({self.lower:.3f} to {self.upper:.3f} at {level}, of the noise)"
        }
        for part in self.classes:
            facts[f"of class {part.label}"] = (
                f"{part.share:.2f} ({part.lower:.2f} to {part.upper:.2f} at {level}, of the noise)"
            )
        return facts


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of held-out rows whose probability lies in a tenth: the mean `predicted`, and the `share` that is of the second class."""

    predicted: float
    share: float
    lower: float
    upper: float
    rows: float


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """The area under the curve of held-out rows, with the interval of its noise, and calibration by tenths of probability."""

    auc: float
    lower: float
    upper: float
    confidence: float
    rows: float
    calibration: tuple[Calibration, ...]

    def facts(self) -> dict[str, str]:
        """Return what a card says of it."""
        level = f"{100 * self.confidence:g}%"
        facts = {"held-out AUC": f"{self.auc:.3f} ({self.lower:.3f} to {self.upper:.3f} at {level}, of the noise)"}
        for part in self.calibration:
            facts[f"where about {part.predicted:.2f} is predicted"] = (
                f"{part.share:.2f} ({part.lower:.2f} to {part.upper:.2f} at {level}, of the noise)"
            )
        return facts

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        parts = [[p.predicted, p.share, p.lower, p.upper, p.rows] for p in self.calibration]
        return {
            "auc": [self.auc, self.lower, self.upper, self.confidence],
            "rows": self.rows,
            "calibration": parts,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeldOutScores:
        """Return what `to_dict` wrote."""
        auc, lower, upper, confidence = map(float, data["auc"])
        parts = tuple(Calibration(*map(float, part)) for part in data["calibration"])
        return cls(auc, lower, upper, confidence, float(data["rows"]), parts)


def measure_r2(moments: NoisyMoments, weights: Floats, target: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return the R2 in some moments, and how far their noise may move it, to first order.

    `weights` (d,) are those of a row's columns in prediction less y, which is at place `target`. With E the sum of squared errors
    and T that about the mean of y, the R2 moves by (E / T dT - dE) / T.
    """
    about = np.zeros(moments.size)
    about[0] = -float(moments.matrix[0, target] / moments.rows)
    about[target] = 1.0
    about *= abs(weights[target])
    errors = max(float(weights @ moments.matrix @ weights), 0.0)
    # Where noise may have made all of T, it is taken to be as large as that noise.
    by_total = moments.weigh(about[None], about)[0]
    least = math.sqrt(moments.variance * float(by_total @ by_total))
    total = max(float(about @ moments.matrix @ about), least, 1e-12)
    moved = moments.weigh(weights[None], weights)[0] - (errors / total) * by_total
    margin = normal_quantile(confidence) * math.sqrt(moments.variance * float(moved @ moved)) / total
    return 1.0 - errors / total, margin


def score_r2(moments: NoisyMoments, weights: Floats, target: int, *, confidence: float = 0.95) -> HeldOut:
    """Return the R2 of a model of other rows in held-out ones, whose noise is independent of it.

    Where the noise hides how many rows there are, the mean of y that follows from them is any number, and so is the R2.
    """
    if moments.rows < _LEAST_ROWS * math.sqrt(moments.variance):
        return HeldOut(0.0, _UNKNOWN, 1.0, confidence)
    r2, margin = measure_r2(moments, weights, target, confidence=confidence)
    return HeldOut(r2, r2 - margin, min(r2 + margin, 1.0), confidence)


def score_predictions(moments: NoisyMoments) -> HeldOut:
    """Return the R2 by the moments of two numbers: what is predicted, and y."""
    centers, scales = frame_units(moments)
    return score_r2(moments, np.array([centers[0] - centers[1], scales[0], -scales[1]]), 2)


def score_classes(counts: Floats, deviation: float, labels: Sequence[str], *, confidence: float) -> HeldOutClasses:
    """Return the shares that are right, of counts (classes, 2) of rows whose class is predicted wrong or right."""
    width = normal_quantile(confidence)

    def measure(wrong: float, right: float, cells: int) -> tuple[float, float, float, float]:
        rows = max(wrong + right, 1.0)
        share = right / rows
        margin = width * deviation * math.sqrt(cells) * math.hypot(1 - share, share) / rows
        return min(max(share, 0.0), 1.0), max(share - margin, 0.0), min(share + margin, 1.0), rows

    wrong, right = counts.sum(axis=0).tolist()
    share, lower, upper, rows = measure(wrong, right, len(labels))
    parts = [ClassShare(label, *measure(row[0], row[1], 1)) for label, row in zip(labels, counts.tolist(), strict=True)]
    return HeldOutClasses(share, min(lower, 1.0), max(upper, 0.0), confidence, rows, tuple(parts))


def score_held_out(release: Release, *, confidence: float = 0.95) -> HeldOutScores:
    """Return the scores of a release of counts by class and score bin."""
    estimate = release.outputs[0].estimate
    assert isinstance(estimate, Noisy)
    unit = float(estimate.unit)
    counts = np.array([float(step) for step in estimate.steps]).reshape(2, SCORE_BINS) * unit
    deviation = math.sqrt(float(estimate.law.variance())) * unit
    return score_counts(counts, deviation, confidence=confidence)


def score_counts(counts: Floats, deviation: float, *, confidence: float) -> HeldOutScores:
    """Return AUC and calibration of counts (2, bins) of rows by class and score, whose noise has this deviation.

    AUC = sum_b pos_b (neg below b + neg_b / 2) / (pos neg), rows of one bin counting half; its noise is that of the counts, to
    first order.
    """
    others, rows = counts
    totals = np.maximum(counts.sum(axis=1), 1.0)
    below = np.cumsum(others) - others / 2
    above = rows.sum() - np.cumsum(rows) + rows / 2
    area = float(rows @ below / (totals[0] * totals[1]))
    slopes = np.concatenate([above - area * totals[1], below - area * totals[0]]) / (totals[0] * totals[1])
    width = normal_quantile(confidence)
    margin = width * deviation * math.sqrt(float(slopes @ slopes))
    low = max(area - margin, 0.0)
    high = min(area + margin, 1.0)
    return HeldOutScores(
        min(max(area, 0.0), 1.0),
        min(low, 1.0),
        max(high, 0.0),
        confidence,
        float(totals.sum()),
        tuple(_calibrate(counts, deviation, width)),
    )


def _calibrate(counts: Floats, deviation: float, width: float) -> list[Calibration]:
    middles = (np.arange(SCORE_BINS) + 0.5 - SCORE_BINS / 2) * float(SCORE_BIN)
    likely = 1 / (1 + np.exp(-middles))
    parts = []
    for tenth in range(_TENTHS):
        bins = np.minimum((likely * _TENTHS).astype(int), _TENTHS - 1) == tenth
        sums = counts[:, bins].sum(axis=1)
        rows = float(sums.sum())
        noise = deviation * math.sqrt(int(bins.sum()))
        if rows < _LEAST_ROWS * noise * math.sqrt(2):
            continue
        share = float(sums[1]) / rows
        margin = width * noise * math.hypot(1 - share, share) / rows
        weights = np.clip(counts[:, bins].sum(axis=0), 0, None)
        predicted = float(likely[bins] @ weights / max(weights.sum(), 1e-9))
        parts.append(
            Calibration(predicted, min(max(share, 0.0), 1.0), max(share - margin, 0.0), min(share + margin, 1.0), rows)
        )
    return parts
