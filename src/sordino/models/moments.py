"""Noisy moments: how they are released, and the matrix that a model reads from a release, with the noise of every entry."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.ask.queries.moment_matrix import (
    SQUARE,
    CompiledMoments,
    MomentMatrix,
    MomentVector,
    compile_moments,
)
from sordino.ask.queries.queryable import ExpectedColumn, NoiseForecast, Queryable, ReleaseContent
from sordino.core.domain import Domain
from sordino.core.estimates.noisy import Noisy
from sordino.core.loss import Loss
from sordino.core.noise.laws import NoiseLaw
from sordino.core.release import Key, Output, Release

Floats = np.ndarray[Any, np.dtype[np.float64]]

_SCALED = (
    "columns are scaled by their declared bounds to [-1, 1]; the square of a column is 3/2 of (the sum of its squares less "
    "half the rows)"
)


@dataclass(frozen=True)
class PreparedMoments:
    """How a moment matrix is answered: one vector, with the noise of one law."""

    question: MomentMatrix
    compiled: CompiledMoments
    loss: Loss
    law: NoiseLaw

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the answer's keys: the fold, and what the moment is of."""
        return ("fold", "moment")

    @property
    def rows(self) -> int | None:
        """How many moments the answer has."""
        return self.compiled.cells * self.compiled.halves

    @property
    def notes(self) -> tuple[str, ...]:
        """What the moments are of."""
        left_out = ("rows without a value in any of the columns take no part",) if self.compiled.droppable else ()
        return (_SCALED, *left_out)

    @property
    def squared_error(self) -> float:
        """The sum of the variances."""
        return float(self.law.variance()) * (self.rows or 0)

    def queries(self) -> list[MomentVector]:
        """Return the one query."""
        return [MomentVector(self.question)]

    def columns(self, confidence: float) -> list[ExpectedColumn]:
        """Return the error of each moment, in rows."""
        error = self.error(confidence)
        words = f"+-{error:.4g} rows at {100 * confidence:g}% in each moment of columns scaled to [-1, 1]"
        return [ExpectedColumn("moments", self.question.describe(), error, "rows", words)]

    def error(self, confidence: float) -> float:
        """Return the error of each moment, in rows."""
        return float(self.law.error(confidence) * MomentVector(self.question).unit)

    def answer(self, queryable: Queryable) -> ReleaseContent:
        """Release the vector."""
        released = queryable.release(MomentVector(self.question), self.loss)
        output = released.outputs[0]
        labels = _describe_cells(self.compiled)
        folds = ["all"] if self.compiled.halves == 1 else ["held out", "others"]
        keys = (
            Key("fold", tuple(fold for fold in folds for _ in labels)),
            Key("moment", tuple(labels * len(folds))),
        )
        return ReleaseContent(keys, (Output("moments", output.estimate, output.mechanism),), notes=self.notes)


def prepare_moments(question: MomentMatrix, forecast: NoiseForecast) -> PreparedMoments:
    """Return how a moment matrix is answered; raises QuestionRefused where it has no private answer."""
    compiled = compile_moments(question, forecast.domain)
    (law,) = forecast.laws(MomentVector(question), forecast.loss)
    return PreparedMoments(question, compiled, forecast.loss, law)


def _describe_cells(compiled: CompiledMoments) -> list[str]:
    """Return what each moment of one fold is of, in the order of the vector."""
    numbers = [number.alias for number in compiled.numbers]
    names = [column.alias for column in compiled.question.categories]
    labels: list[str] = []
    for block in compiled.blocks:
        product = " * ".join(numbers[i] for i in block.numbers)
        if not block.categories:
            labels.append(product or "rows")
            continue
        cells = [""]
        for category in block.categories:
            values = [_label_text(label) for label in compiled.categories[category].labels]
            cells = [f"{cell}{', ' if cell else ''}{names[category]} = {value}" for cell in cells for value in values]
        labels += [f"{product} where {cell}" if product else f"rows where {cell}" for cell in cells]
    return labels


def _label_text(label: Any) -> str:
    return "(missing)" if label is None else str(label)


@dataclass(frozen=True)
class NoisyMoments:
    """The matrix of moments of 1, the scaled numbers and the indicators of all declared values, in this order.

    `matrix` (d, d) is symmetric. `vector` are the released moments in rows, which have independent noise of variance
    `variance` each; `places` says by rows (cell, row, column, weight) which entries of the matrix each of them is in.
    """

    compiled: CompiledMoments
    vector: Floats
    variance: float
    laplace: bool = False

    @property
    def rows(self) -> float:
        """The noisy number of rows, 1 at least."""
        return max(float(self.vector[0]), 1.0)

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """The place of the first indicator of each category in the matrix."""
        places = [1 + len(self.compiled.numbers)]
        for declared in self.compiled.categories:
            places.append(places[-1] + len(declared.labels))
        return tuple(places)

    @property
    def size(self) -> int:
        """The number of rows of the matrix."""
        return self.starts[-1]

    @functools.cached_property
    def places(self) -> Floats:
        """Which entry, on or above the diagonal, each moment adds to, and with which weight: (n, 4)."""
        return place_moments(self.compiled)

    @functools.cached_property
    def matrix(self) -> Floats:
        """The matrix."""
        matrix = np.zeros((self.size, self.size))
        cells, one, other = self.places[:, :3].astype(np.int64).T
        np.add.at(matrix, (one, other), self.places[:, 3] * self.vector[cells])
        upper = np.triu(matrix, 1)
        result: Floats = np.triu(matrix) + upper.T
        return result

    def spread(self, left: Floats, right: Floats) -> Floats:
        """Return the covariance of the noise in left' M right, for each row of `left` (k, d) with one `right` (d): (k, k)."""
        weights = self.weigh(left, right)
        result: Floats = self.variance * (weights @ weights.T)
        return result

    def weigh(self, left: Floats, right: Floats) -> Floats:
        """Return how left' M right depends on each moment, for each row of `left` (k, d) with one `right` (d): (k, n)."""
        cells, one, other = self.places[:, :3].astype(np.int64).T
        weight = self.places[:, 3]
        both = left[:, one] * right[other] + np.where(one == other, 0.0, 1.0) * left[:, other] * right[one]
        weights = np.zeros((len(left), len(self.vector)))
        np.add.at(weights.T, cells, (weight * both).T)
        return weights

    def add(self, other: NoisyMoments) -> NoisyMoments:
        """Return the moments of the rows of both, whose noise adds up."""
        return NoisyMoments(self.compiled, self.vector + other.vector, self.variance + other.variance, self.laplace)


@functools.lru_cache(maxsize=8)
def place_moments(compiled: CompiledMoments) -> Floats:
    """Return for each moment the entries of the matrix, on or above the diagonal, that it is in: (cell, row, column, weight)."""
    starts = [1 + len(compiled.numbers)]
    for declared in compiled.categories:
        starts.append(starts[-1] + len(declared.labels))
    sizes = [len(declared.labels) for declared in compiled.categories]
    entries: list[tuple[float, float, float, float]] = []
    cell = 0
    for block in compiled.blocks:
        numbers = [1 + number for number in block.numbers]
        for key in range(block.cells):
            if len(block.categories) == 2:
                first, second = block.categories
                place = starts[first] + key // sizes[second], starts[second] + key % sizes[second]
                entries.append((cell, *place, 1.0))
            elif block.categories:
                indicator = starts[block.categories[0]] + key
                entries.append((cell, numbers[0] if numbers else 0, indicator, 1.0))
                if not numbers:
                    # An indicator is its own square.
                    entries.append((cell, indicator, indicator, 1.0))
            elif block.is_square:
                entries.append((cell, numbers[0], numbers[0], float(1 / SQUARE)))
                entries.append((0, numbers[0], numbers[0], 0.5))
            else:
                row, column = (0, *numbers)[-2:] if numbers else (0, 0)
                entries.append((cell, row, column, 1.0))
            cell += 1
    return np.array(entries, dtype=np.float64)


def read_moments(release: Release, question: MomentMatrix, domain: Domain) -> list[NoisyMoments]:
    """Return the moments of a release: of all rows, or of the held-out ones and of the others."""
    compiled = compile_moments(question, domain)
    estimate = release.outputs[0].estimate
    assert isinstance(estimate, Noisy)
    unit = float(estimate.unit)
    steps = np.array([float(step) for step in estimate.steps]) * unit
    variance = float(estimate.law.variance()) * unit**2
    laplace = "Laplace" in type(estimate.law).__name__
    return [
        NoisyMoments(compiled, part, variance, laplace) for part in np.split(steps, compiled.halves)
    ]


def join_moments(parts: Sequence[NoisyMoments]) -> NoisyMoments:
    """Return the moments of all rows."""
    return functools.reduce(NoisyMoments.add, parts)
