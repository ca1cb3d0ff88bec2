"""Principal components from one vector of noisy moments: directions, what of the variance each has, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from sordino.ask.queries.moment_matrix import MomentMatrix
from sordino.core.errors import DeclarationError
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.loss import LossArguments, show_arguments
from sordino.models.columns import (
    Floats,
    Predictors,
    Table,
    ask_for,
    groups_of,
    note_rows,
    read_numbers_of,
)
from sordino.models.design import frame_units
from sordino.models.moments import NoisyMoments, join_moments, read_moments
from sordino.models.record import PricedModel, Provenance, clip_cell, provenance_of, require_fit


@dataclass(frozen=True, repr=False)
class ComponentsModel(PricedModel):
    """Principal components: `components` (components, columns) has orthonormal rows in the columns' units, or, where they were
    scaled, in their standard deviations. `means` and `deviations` are those of the columns.

    `variances` are along each component, `captured` the part of all variance that the components have together, and `angles` how
    far, in degrees, each may be turned by the noise at 95%: 90 where nothing tells it from others, as its variance is too near
    to theirs.
    """

    predictors: Predictors
    components: Floats
    variances: Floats
    angles: Floats
    captured: float
    means: Floats
    deviations: Floats
    scaled: bool
    provenance: Provenance

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in the order of `components`."""
        return tuple(name for name, _ in self.predictors.declared)

    def transform(self, frame: Any) -> Floats:
        """Return the place of each row of a frame along the components: (rows, components), nan where a cell is missing."""
        numbers = self.predictors.numbers_of(frame) - self.means
        if self.scaled:
            numbers = numbers / self.deviations
        result: Floats = numbers @ self.components.T
        return result

    def to_sql(self) -> list[str]:
        """Return the place along each component as an expression of SQL."""
        expressions = []
        for component in self.components:
            parts = []
            for (name, declared), weight, mean, deviation in zip(
                self.predictors.declared, component, self.means, self.deviations, strict=True
            ):
                factor = float(weight / deviation if self.scaled else weight)
                parts.append(f"{factor!r} * ({clip_cell(name, declared)} - {float(mean)!r})")
            expressions.append(" + ".join(parts))
        return expressions

    def facts(self) -> dict[str, str]:
        """Return the components, and how sure each is."""
        facts = {"columns": ", ".join(self.columns), "captured variance": f"{self.captured:.3f} of all"}
        for i, (component, angle) in enumerate(zip(self.components, self.angles, strict=True)):
            parts = ", ".join(f"{name} {part:.3g}" for name, part in zip(self.columns, component, strict=True))
            facts[f"component {i + 1}"] = f"{parts}; turned by at most {angle:.1f} degrees at 95%"
        return facts

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        count = len(self.columns)
        require_fit(self.components.ndim == 2 and self.components.shape[1] == count)
        require_fit(len(self.means) == len(self.deviations) == count)

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"{len(self.components)} principal components of {len(self.columns)} columns"


@show_arguments(LossArguments)
def pca(
    table: Table, *, columns: Sequence[str], components: int, scale: bool = False, **loss: Unpack[LossArguments]
) -> ComponentsModel:
    """Return the principal components of some numbers, in their own units, or with `scale` in their standard deviations.

    The covariance is one question with one charge. Raises UnknownName, QuestionRefused or DeclarationError before anything is
    spent; BudgetExhausted, ChargedError as ask.
    """
    question, predictors = components_question(table, columns, components)
    release = ask_for(table, question, loss)
    moments = join_moments(read_moments(release, question, table.domain))
    notes = note_rows(moments.rows, len(predictors.terms) ** 2)
    return find_components(moments, predictors, components, scale, provenance_of(release, notes))


def components_question(table: Table, columns: Sequence[str], components: int) -> tuple[MomentMatrix, Predictors]:
    """Return the question of principal components and its columns; raises what `pca` raises before a charge."""
    predictors = read_numbers_of(table, columns, "components")
    if isinstance(components, bool) or not isinstance(components, int) or not 1 <= components <= len(predictors.terms):
        raise DeclarationError(f"must be from 1 to {len(predictors.terms)}, the number of columns", key="components")
    return MomentMatrix(groups_of(predictors.numbers, table.domain)), predictors


def find_components(
    moments: NoisyMoments, predictors: Predictors, components: int, scale: bool, about: Provenance
) -> ComponentsModel:
    """Return the components of noisy moments.

    To first order the noise E turns component i towards j by v_j' E v_i / (difference of their variances); the angle
    adds up over all j, and is 90 degrees where the noise is above the difference.
    """
    rows = moments.rows
    matrix = moments.matrix
    centers, scales = frame_units(moments)
    means = matrix[0, 1:] / rows
    covariance = matrix[1:, 1:] / rows - np.outer(means, means)
    noise = math.sqrt(moments.variance) / rows
    deviations = np.sqrt(np.clip(np.diag(covariance), noise, None))
    own = 1.0 / deviations if scale else scales
    variances, vectors = np.linalg.eigh(own[:, None] * covariance * own)
    variances = np.clip(variances[::-1], 0.0, None)
    vectors = vectors[:, ::-1]
    # An eigenvector has no sign of its own: its largest part is above 0.
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(largest))])
    turned = np.zeros((len(variances), moments.size))
    turned[:, 1:] = vectors.T * own
    turned[:, 0] = -turned[:, 1:] @ means
    angles = []
    for i in range(components):
        weights = moments.weigh(turned, turned[i])
        errors = np.sqrt(moments.variance * (weights**2).sum(axis=1)) / rows
        gaps = np.abs(variances[i] - variances)
        # Of a component with itself the noise turns nothing.
        others = np.arange(len(variances)) != i
        sines = errors[others] / np.maximum(gaps[others], 1e-12 * max(float(variances[0]), 1e-12))
        sine = normal_quantile(0.95) * math.sqrt(float((np.minimum(sines, 1.0) ** 2).sum()))
        angles.append(math.degrees(math.asin(min(sine, 1.0))))
    captured = float(variances[:components].sum() / max(variances.sum(), 1e-300))
    return ComponentsModel(
        predictors,
        vectors.T[:components].copy(),
        variances[:components].copy(),
        np.array(angles),
        captured,
        centers + scales * means,
        deviations * scales,
        scale,
        about,
    )
