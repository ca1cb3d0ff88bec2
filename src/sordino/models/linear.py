"""Linear regression from one vector of noisy moments: coefficients with intervals, predictions, R2, a held-out R2."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, get_args

import numpy as np

from sordino.ask.queries.moment_matrix import MomentMatrix
from sordino.core.domain import Boolean, Category
from sordino.core.errors import DeclarationError, QuestionRefused, UnknownName, nearest
from sordino.core.estimates.weighted_sum import normal_quantile
from sordino.core.loss import LossArguments, show_arguments
from sordino.models.columns import (
    Floats,
    Level,
    Predictors,
    Table,
    Term,
    ask_for,
    check_folds,
    check_rows,
    declared_values,
    domain_of,
    factors_of,
    groups_of,
    note_rows,
    note_weights,
    predictor_names,
    read_predictors,
    require_column,
    require_weight,
)
from sordino.models.design import Design, NoisyInverse, frame_units, invert, make_design, name_hidden
from sordino.models.held_out import HeldOut, measure_r2, score_r2
from sordino.models.moments import NoisyMoments, join_moments, read_moments
from sordino.models.record import PricedModel, Provenance, case_of, clip_cell, provenance_of, require_fit

Of = Literal["noise", "population"]
INTERCEPT = "intercept"
# A coefficient with this part or more of its squared length in directions that the noise hides may be anything.
_HIDDEN = 0.01
# Where noise alone would make more than this part of what is predicted, all slopes are shrunk by that part (James and Stein
# 1961), and no coefficient has an interval.
_SMALL_NOISE = 0.3


@dataclass(frozen=True, repr=False)
class LinearModel(PricedModel):
    """A linear regression: `coefficients` by name, in the columns' own units, and `intercept`.

    A category has a coefficient for each declared value but the first, "zone = b": how much rows of that value lie above rows of
    the first one. `r2` and `residual_error` are those in the rows that the model was fitted to, estimated from the noisy moments:
    `r2_error` is how far the noise may have moved the first at 95%.
    """

    y: str
    predictors: Predictors
    names: tuple[str, ...]
    values: Floats
    intercept: float
    noise_covariance: Floats
    population_covariance: Floats
    undetermined: tuple[str, ...]
    r2: float
    r2_error: float
    residual_error: float
    rows: float
    provenance: Provenance
    held_out: HeldOut | None = None
    weights: str | None = None

    @property
    def coefficients(self) -> Mapping[str, float]:
        """The coefficient of each column, and of each value of a category but the first."""
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def interval(self, name: str, *, confidence: float = 0.95, of: Of = "noise") -> tuple[float, float]:
        """Return the interval of a coefficient, or of the "intercept".

        `of="noise"`: of what the same regression without noise would be in this very table; `of="population"`: of the coefficient
        in the population that the rows are a sample of, if their errors are independent and alike. Infinite where the
        noise hides the coefficient. Raises UnknownName for another name, DeclarationError for another kind.
        """
        names = (INTERCEPT, *self.names)
        if name not in names:
            raise UnknownName(f"no coefficient is named {name!r}; {nearest(str(name), names)}")
        if of not in get_args(Of):
            raise DeclarationError(f'is "noise" or "population", not {of!r:.40}', key="of")
        if not isinstance(confidence, (int, float)) or isinstance(confidence, bool) or not 0 < confidence < 1:
            raise DeclarationError("must lie between 0 and 1", key="confidence")
        place = names.index(name)
        if name in self.undetermined:
            return -math.inf, math.inf
        value = self.intercept if place == 0 else float(self.values[place - 1])
        variance = float(self.noise_covariance[place, place])
        if of == "population":
            variance += float(self.population_covariance[place, place])
        margin = normal_quantile(confidence) * math.sqrt(max(variance, 0.0))
        return value - margin, value + margin

    def predict(self, frame: Any) -> Floats:
        """Return the prediction for each row of a frame: (rows,), in the unit of y; nan where a column is missing.

        Cells are clipped to their declared bounds, as the table's were; columns that the model does not use are ignored.
        """
        return self.predictors.scores_of(frame, self.values, self.intercept)

    def to_sql(self) -> str:
        """Return the prediction as an expression of SQL, over columns of the same names."""
        return linear_sql(self.predictors, self.values, self.intercept)

    def facts(self) -> dict[str, str]:
        """Return what is predicted, from what, how well, and the coefficients with their intervals."""
        facts = {
            "predicts": self.y,
            "from": ", ".join(self.names),
            **({} if self.weights is None else {"weighted by": self.weights}),
            "R2": f"{self.r2:.3f} +- {self.r2_error:.3f} at 95%, in the rows it was fitted to, estimated from noisy moments",
            "residual error": f"{self.residual_error:.4g}",
        }
        if self.held_out is not None:
            facts |= self.held_out.facts()
        for name in self.names:
            low, high = self.interval(name)
            facts[f"coefficient of {name}"] = (
                f"{self.coefficients[name]:.4g} ({low:.4g} to {high:.4g} at 95%, of the noise)"
            )
        return facts

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        size = len(predictor_names(self.predictors))
        require_fit(len(self.names) == len(self.values) == size)
        require_fit(self.noise_covariance.shape == self.population_covariance.shape == (size + 1, size + 1))

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"linear regression of {self.y} on {len(self.names)} columns: R2 {self.r2:.3f}"


def linear_sql(predictors: Predictors, values: Floats, intercept: float) -> str:
    """Return intercept + sum of slope * column as SQL; cells are clipped to their bounds, as predictions clip them."""
    columns = dict(predictors.declared)
    parts = [repr(intercept)]
    for term, slope in zip(predictors.numbers, values.tolist(), strict=False):
        cells = [_factor_sql(factor, columns) for factor in factors_of(term)]
        parts.append(f"{slope!r} * {' * '.join(cells)}")
    at = len(predictors.numbers)
    for name in predictors.categories:
        labels = declared_values(columns[name])
        parts.append(case_of(name, dict(zip(labels, [0.0, *values[at : at + len(labels) - 1].tolist()], strict=True))))
        at += len(labels) - 1
    return " + ".join(parts)


def _factor_sql(factor: str | Level, columns: dict[str, Any]) -> str:
    if isinstance(factor, str):
        return clip_cell(factor, columns[factor])
    labels = declared_values(columns[factor.column])
    return case_of(factor.column, {label: 1 if label == factor.value else 0 for label in labels})


# ---- Fitting


@show_arguments(LossArguments)
def linear_regression(
    table: Table,
    *,
    y: str,
    x: Sequence[Term],
    validate: int | None = None,
    weights: str | None = None,
    assume_rows: int | None = None,
    **loss: Unpack[LossArguments],
) -> LinearModel:
    """Return a linear regression of the number `y` on the columns `x`: numbers, categories, tuples for products.

    All moments are one question with one charge. Numbers are standardised by a first look at where they lie, so loose bounds
    cost little; a row far from all others counts less (`model.notes`). `validate=4` holds one unit in four out, chosen by a
    public hash, for `model.held_out`, at no further loss: the model itself is then fitted to all. `weights` names a number of 0
    or more with an upper bound, which a row counts by.

    Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    (AdaSSP: Wang 2018, arXiv 1803.02596.)
    """
    question, predictors = moments_for(table, y=y, x=x, validate=validate, weights=weights, assume_rows=assume_rows)
    release = ask_for(table, question, loss)
    parts = read_moments(release, question, table.domain)
    moments = join_moments(parts)
    fitted = fit_moments(moments, predictors)
    held_out = None if len(parts) == 1 else _score_others(parts[0], parts[1], predictors)
    notes = list(note_weights(weights))
    notes += list(note_rows(moments.rows, len(fitted.design.names) + 1))
    notes += [
        f"the noise hides how much each of {group} does by itself: they are shrunk together"
        if "," in group
        else f"the noise hides what {group} does: it is shrunk"
        for group in fitted.hidden_groups
    ]
    if fitted.kept < 1:
        notes.append(
            f"most of what is predicted may be noise: all coefficients are shrunk to {100 * fitted.kept:.0f}%, and none has an "
            "interval; a larger epsilon, fewer columns or more rows make one"
        )
    return replace(
        fitted.finish(y, predictors, moments, provenance_of(release, tuple(notes)), held_out), weights=weights
    )


def _score_others(held: NoisyMoments, others: NoisyMoments, predictors: Predictors) -> HeldOut:
    fitted = fit_moments(others, predictors)
    return score_r2(held, fitted.weights, fitted.target)


def moments_for(
    table: Table,
    *,
    y: str,
    x: Sequence[Term],
    validate: int | None,
    assume_rows: int | None,
    weights: str | None = None,
) -> tuple[MomentMatrix, Predictors]:
    """Return the question of a linear regression, and its predictors; raises what `linear_regression` raises before a charge."""
    domain = domain_of(table)
    target = require_column(domain, y, "y")
    if isinstance(target, (Category, Boolean)):
        raise QuestionRefused(
            f"y is {y!r}, which is no number: sd.models.logistic_regression predicts categories and booleans"
        )
    predictors = read_predictors(domain, x, without=y)
    check_rows(assume_rows, 1 + len(predictor_names(predictors)))
    check_folds(validate)
    numbers = groups_of((*predictors.numbers, y), domain)
    weight = None if weights is None else require_weight(domain, weights)
    return MomentMatrix(numbers, groups_of(predictors.categories, domain), validate or 1, weight), predictors


@dataclass(frozen=True)
class FittedMoments:
    """A regression in standardised units: `slopes` (k,) and `constant` of y, the inverse, and what part of slopes was `kept`."""

    moments: NoisyMoments
    design: Design
    inverse: NoisyInverse
    slopes: Floats
    constant: float
    means: Floats
    kept: float = 1.0

    @functools.cached_property
    def noise_part(self) -> float:
        """The part of the squared length of the slopes, by the lifted covariance, that their noise alone would make."""
        lifted = np.linalg.inv(self.inverse.matrix)
        length = float(self.slopes @ lifted @ self.slopes)
        return float(np.trace(self.noise_covariance[1:, 1:] @ lifted)) / max(length, 1e-300)

    @property
    def target(self) -> int:
        """The place of y in the matrix."""
        return len(self.moments.compiled.numbers)

    @functools.cached_property
    def weights(self) -> Floats:
        """The weights (d,) of a row's columns in prediction less y."""
        weights = np.zeros(self.moments.size)
        weights[0] = self.constant
        weights[list(self.design.places)] = self.slopes
        weights[self.target] = -1.0
        return weights

    @property
    def hidden_groups(self) -> list[str]:
        """The columns of each direction that the noise hides, in words."""
        spread = np.sqrt(np.clip(np.diag(self.moments.matrix)[list(self.design.places)], 1.0, None))
        return name_hidden(self.inverse, self.design.names, spread)

    @functools.cached_property
    def noise_covariance(self) -> Floats:
        """The covariance of the noise of (constant, slopes), to first order: (k + 1, k + 1).

        The slopes solve sum (z_j - mean_j) (prediction - y) = 0, so they move by the inverse times how far the noise moves
        these sums at the fitted coefficients.
        """
        count = len(self.slopes)
        left = np.zeros((count + 1, self.moments.size))
        left[0, 0] = 1.0
        left[np.arange(1, count + 1), list(self.design.places)] = 1.0
        left[1:, 0] = -self.means
        moved = self.moments.weigh(left, self.weights)
        slopes = self.inverse.matrix @ moved[1:]
        constant = moved[0] / self.moments.rows - self.means @ slopes
        both = np.concatenate([constant[None], slopes])
        result: Floats = self.moments.variance * (both @ both.T)
        return result

    def population_covariance(self, variance: float) -> Floats:
        """Return the sampling covariance of (constant, slopes) where y has this variance about the prediction."""
        matrix = self.inverse.matrix
        moved = matrix @ self.means
        top = 1.0 / self.moments.rows + self.means @ moved
        result: Floats = variance * np.block([[np.array([[top]]), -moved[None]], [-moved[:, None], matrix]])
        return result

    def finish(
        self, y: str, predictors: Predictors, moments: NoisyMoments, about: Provenance, held_out: HeldOut | None
    ) -> LinearModel:
        """Return the model in the columns' own units."""
        centers, scales = frame_units(moments)
        y_center = float(centers[-1])
        y_scale = float(scales[-1])
        slopes, constant = self.design.own_units(self.slopes * y_scale, self.constant * y_scale)
        # From (constant, slopes) in standardised units to own units.
        change = np.eye(len(slopes) + 1) * y_scale
        count = len(self.design.centers)
        at = np.arange(1, count + 1)
        change[at, at] = y_scale / self.design.scales
        change[0, at] = -y_scale * self.design.centers / self.design.scales
        variance = max(float(self.weights @ moments.matrix @ self.weights), 0.0) / moments.rows
        r2, r2_error = measure_r2(moments, self.weights, self.target)
        undetermined = []
        if self.inverse.hidden.any():
            hidden = self.inverse.directions[:, self.inverse.hidden]
            shares = (hidden**2).sum(axis=1) / (self.inverse.directions**2).sum(axis=1)
            undetermined = [name for name, share in zip(self.design.names, shares, strict=True) if share >= _HIDDEN]
            undetermined += [INTERCEPT] if undetermined else []
        if self.kept < 1:
            undetermined = [INTERCEPT, *self.design.names]
        return LinearModel(
            y,
            predictors,
            self.design.names,
            slopes,
            y_center + constant,
            change @ self.noise_covariance @ change.T,
            change @ self.population_covariance(variance) @ change.T,
            tuple(undetermined),
            min(max(r2, 0.0), 1.0),
            min(r2_error, 1.0),
            y_scale * math.sqrt(variance),
            moments.rows,
            about,
            held_out,
        )


def fit_moments(moments: NoisyMoments, predictors: Predictors) -> FittedMoments:
    """Return the regression of the last number on the predictors, from noisy moments."""
    names = tuple(column.alias for column in moments.compiled.question.categories)
    design = make_design(predictors, moments, names)
    matrix = moments.matrix
    places = list(design.places)
    target = len(moments.compiled.numbers)
    means = matrix[0, places] / moments.rows
    covariance = matrix[np.ix_(places, places)] - moments.rows * np.outer(means, means)
    y_mean = float(matrix[0, target] / moments.rows)
    inverse = invert(covariance, design.penalty, math.sqrt(moments.variance))
    slopes = inverse.matrix @ (matrix[places, target] - moments.rows * means * y_mean)
    fitted = FittedMoments(moments, design, inverse, slopes, y_mean - float(slopes @ means), means)
    if fitted.noise_part <= _SMALL_NOISE:
        return fitted
    kept = max(1.0 - fitted.noise_part, 0.0)
    return replace(fitted, slopes=kept * slopes, constant=y_mean - kept * float(slopes @ means), kept=kept)
