"""Poisson regression of counts: the log of the expected count is linear in the columns; fitted by noisy gradient steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.nodes import Name
from sordino.ask.queries.gradient_vector import SteppedRegression
from sordino.core.domain import Column, Integer, Real
from sordino.core.errors import QuestionRefused
from sordino.core.loss import LossArguments, show_arguments
from sordino.models.columns import (
    Floats,
    Predictors,
    Table,
    Term,
    ask_for,
    check_rows,
    domain_of,
    groups_of,
    note_intervals,
    note_rows,
    note_weights,
    predictor_names,
    read_predictors,
    require_column,
    require_weight,
)
from sordino.models.held_out import HeldOut
from sordino.models.linear import linear_sql
from sordino.models.record import PricedModel, Provenance, provenance_of, require_fit
from sordino.models.steps import coefficient_interval, read_fit
from sordino.models.validation import fit_validated


@dataclass(frozen=True, repr=False)
class PoissonModel(PricedModel):
    """A Poisson regression: `coefficients` by name, in the columns' own units, and `intercept`, of the log of the expected count.

    A coefficient of .1 is a count that is exp(.1) = 1.11 times as high by one unit of the column. A category has a coefficient
    for each declared value but the first.
    """

    y: str
    target: Column
    predictors: Predictors
    names: tuple[str, ...]
    values: Floats
    intercept: float
    provenance: Provenance
    held_out: HeldOut | None = None
    noise: Floats | None = None
    sample: Floats | None = None
    weights: str | None = None
    kurtosis: Floats | None = None

    @property
    def coefficients(self) -> Mapping[str, float]:
        """The coefficient of each column, and of each value of a category but the first."""
        return dict(zip(self.names, self.values.tolist(), strict=True))

    def interval(self, name: str, *, confidence: float = 0.95, of: str = "noise") -> tuple[float, float]:
        """Return the interval of a coefficient, or of the "intercept".

        That of the noise is about the same regression without noise; that of the population adds what rows vary by as a sample
        where the variance of a count is its mean. (-inf, inf) where the noise hides it, as `notes` say. Raises UnknownName,
        DeclarationError.
        """
        values = {"intercept": self.intercept, **self.coefficients}
        return coefficient_interval(self, values, name, confidence, of)

    @property
    def most(self) -> float:
        """The declared upper bound of the count, which no prediction passes."""
        column: Any = self.target
        return float(column.upper)

    def predict(self, frame: Any) -> Floats:
        """Return the expected count of each row of a frame: (rows,), up to the declared bound; nan where a column is missing."""
        scores = self.predictors.scores_of(frame, self.values, self.intercept)
        result: Floats = np.minimum(np.exp(np.minimum(scores, 700.0)), self.most)
        return result

    def to_sql(self) -> str:
        """Return the expected count as an expression of SQL, over columns of the same names."""
        score = linear_sql(self.predictors, self.values, self.intercept)
        return f"EXP(LEAST({score}, {math.log(self.most)!r}))"

    def facts(self) -> dict[str, str]:
        """Return what is predicted, from what, and the coefficients."""
        facts = {"predicts": f"{self.y}, a count", "from": ", ".join(self.names)}
        facts |= {} if self.weights is None else {"weighted by": self.weights}
        facts |= {} if self.held_out is None else self.held_out.facts()
        for name, value in self.coefficients.items():
            facts[f"log of the count by {name}"] = f"{value:.4g}"
        return facts

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        require_fit(self.names == predictor_names(self.predictors) and len(self.values) == len(self.names))

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"Poisson regression of {self.y} on {len(self.names)} columns"


@show_arguments(LossArguments)
def poisson_regression(
    table: Table,
    *,
    y: str,
    x: Sequence[Term],
    validate: int | None = None,
    weights: str | None = None,
    assume_rows: int | None = None,
    **loss: Unpack[LossArguments],
) -> PoissonModel:
    """Return a Poisson regression of the count `y`, a number of 0 or more with a declared upper bound, on the columns `x`.

    It is fitted by a few steps along noisy gradients, with one charge. An error beyond four spreads of the counts is cut there,
    so that no row moves a step far. `validate=4` leaves one unit in four out, and scores the model on them for 15% of the loss:
    the R2 of its predictions. `weights` names a number of 0 or more with an upper bound, which a row counts by in both. Raises
    UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    """
    question, predictors = poisson_question(table, y=y, x=x, assume_rows=assume_rows, weights=weights)
    if validate is not None:
        arguments: dict[str, Any] = {"y": y, "x": x, "assume_rows": assume_rows, "weights": weights}
        validated: PoissonModel = fit_validated(poisson_regression, table, validate, loss, **arguments)
        return validated
    release = ask_for(table, question, loss)
    fit = read_fit(release, question, table.domain)
    names = predictor_names(predictors)
    return PoissonModel(
        y,
        table.domain[y],
        predictors,
        names,
        fit.slopes_from_first(),
        fit.constant + sum(float(values[0]) for values in fit.values),
        provenance_of(
            release, (*note_weights(weights), *note_rows(fit.rows, len(names) + 1), *note_intervals(names, fit.noise))
        ),
        noise=fit.noise,
        sample=fit.sample,
        weights=weights,
        kurtosis=fit.kurtosis,
    )


def poisson_question(
    table: Table, *, y: str, x: Sequence[Term], assume_rows: int | None, weights: str | None = None
) -> tuple[SteppedRegression, Predictors]:
    """Return the question of a Poisson regression; raises what `poisson_regression` raises before a charge."""
    target = require_column(domain_of(table), y, "y")
    if not isinstance(target, (Integer, Real)):
        raise QuestionRefused(
            f"y is {y!r}, which is no number: sd.models.logistic_regression predicts categories and booleans"
        )
    lower = target.lower
    if lower is not None and lower < 0:
        raise QuestionRefused(
            f"y is {y!r}, which is declared with values below 0: a count is 0 or more, and "
            "sd.models.linear_regression takes any number"
        )
    predictors = read_predictors(table.domain, x, without=y)
    check_rows(assume_rows, 1 + len(predictor_names(predictors)))
    numbers = groups_of(predictors.numbers, table.domain)
    weight = None if weights is None else require_weight(table.domain, weights)
    categories = groups_of(predictors.categories, table.domain)
    return SteppedRegression(Grouping(y, Name(y)), "poisson", numbers, categories, weight=weight), predictors
