"""Classification in one scan: discriminants from noisy moments, read as logistic regression, and naive Bayes from counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Unpack

import numpy as np

from sordino.ask.queries.aggregation import Grouping
from sordino.ask.queries.expressions.nodes import Bin, Name
from sordino.ask.queries.gradient_vector import SteppedRegression
from sordino.ask.queries.moment_matrix import MomentMatrix
from sordino.ask.queries.tabulation import Tabulation, tabulate
from sordino.core.domain import Boolean, Category, Column, Domain, Integer, Real
from sordino.core.errors import QuestionRefused
from sordino.core.estimates.table_cells import BY_COLUMNS, name_table
from sordino.core.loss import LossArguments, show_arguments
from sordino.core.release import Release
from sordino.models.columns import (
    Floats,
    Predictors,
    Table,
    Term,
    ask_for,
    check_folds,
    check_rows,
    declared_values,
    domain_of,
    groups_of,
    note_intervals,
    note_rows,
    note_weights,
    predictor_names,
    read_codes,
    read_frame,
    read_numbers,
    read_predictors,
    require_column,
    require_range,
    require_weight,
)
from sordino.models.design import invert, make_design, name_hidden, soften
from sordino.models.held_out import HeldOutClasses, HeldOutScores, score_held_out
from sordino.models.linear import linear_sql
from sordino.models.moments import NoisyMoments, join_moments, read_moments
from sordino.models.record import (
    PricedModel,
    Provenance,
    case_below,
    case_of,
    provenance_of,
    require_fit,
)
from sordino.models.steps import coefficient_interval, read_fit
from sordino.models.validation import fit_validated

# Of discriminants, measured on the census rows of Adult before steps took their place for two classes.
_CATEGORIES = (
    "most columns are categories: naive_bayes, or rows of sd.synth.fit(table, predict=y), may rank rows better"
)
# A score beyond this is a probability of 0 or 1.
# Declared whole numbers that are told apart as classes.
MOST_CLASSES = 100
_MOST_SCORE = 500.0


def softmax(scores: Floats) -> Floats:
    """Return probabilities that are in proportion to exp(score): (rows, classes)."""
    shifted = np.clip(scores - scores.max(axis=1, keepdims=True), -_MOST_SCORE, 0.0)
    weights = np.exp(shifted)
    result: Floats = weights / weights.sum(axis=1, keepdims=True)
    return result


def pick_classes(probabilities: Floats, classes: Sequence[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the most probable class of each row: (rows,), of objects; None where a column is missing."""
    places = np.where(np.isnan(probabilities).any(axis=1), -1, np.nan_to_num(probabilities).argmax(axis=1))
    labels = np.empty(len(classes) + 1, dtype=object)
    labels[:-1] = list(classes)
    return np.asarray(labels[places])


def require_classes(table: Table, y: Any) -> Column:
    """Return the declaration of what a classifier predicts; raises QuestionRefused unless it has declared values."""
    column = require_column(domain_of(table), y, "y")
    if isinstance(column, Integer) and column.lower is not None and column.upper is not None:
        is_class = 1 <= column.upper - column.lower < MOST_CLASSES
    else:
        is_class = isinstance(column, (Category, Boolean))
    if not is_class:
        raise QuestionRefused(
            f"y is {y!r}, which is a number of other than 2 to {MOST_CLASSES} declared values: classes are declared values; "
            "sd.models.linear_regression predicts numbers"
        )
    if len(declared_values(column)) < 2:
        raise QuestionRefused(f"y is {y!r}, which is declared with one value: there is nothing to tell apart")
    return column


# ---- Discriminants, as logistic regression


@dataclass(frozen=True, repr=False)
class LogisticModel(PricedModel):
    """A logistic regression: the log of the odds of a class against the first one is linear in the columns.

    `coefficients` has for each class but the first a mapping by name, in the columns' own units, `intercepts` a number. Of more
    than two classes they are those of the linear discriminant. `held_out` says how well units that were left out are told apart.
    """

    y: str
    target: Column
    predictors: Predictors
    names: tuple[str, ...]
    slopes: Floats
    constants: Floats
    provenance: Provenance
    held_out: HeldOutScores | HeldOutClasses | None = None
    noise: Floats | None = None
    sample: Floats | None = None
    weights: str | None = None
    kurtosis: Floats | None = None

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared values of y, in order."""
        return tuple(declared_values(self.target))

    @property
    def coefficients(self) -> Mapping[Any, Mapping[str, float]]:
        """By class, but the first: by name, how much the log of its odds against the first class rises by one unit."""
        return {
            label: dict(zip(self.names, (row - self.slopes[0]).tolist(), strict=True))
            for label, row in zip(self.classes[1:], self.slopes[1:], strict=True)
        }

    @property
    def intercepts(self) -> Mapping[Any, float]:
        """By class, but the first: the log of its odds where all columns are 0."""
        own = self.constants - self.constants[0]
        return dict(zip(self.classes[1:], own[1:].tolist(), strict=True))

    def interval(self, name: str, *, confidence: float = 0.95, of: str = "noise") -> tuple[float, float]:
        """Return the interval of a coefficient of two classes, or of the "intercept".

        That of the noise is about the same regression without noise, that of the population adds what rows vary by as a sample.
        (-inf, inf) where the noise hides it, as `notes` say. Raises UnknownName, QuestionRefused for more than two classes,
        DeclarationError.
        """
        if len(self.classes) != 2:
            raise QuestionRefused(
                "coefficients have intervals where there are two classes: those of more are discriminants"
            )
        values = {"intercept": float(self.constants[1] - self.constants[0])}
        values |= dict(zip(self.names, (self.slopes[1] - self.slopes[0]).tolist(), strict=True))
        return coefficient_interval(self, values, name, confidence, of)

    def predict_proba(self, frame: Any) -> Floats:
        """Return the probability of each class, in declared order: (rows, classes), nan where a column is missing."""
        return softmax(self.predictors.columns_of(frame) @ self.slopes.T + self.constants)

    def predict(self, frame: Any) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the most probable class of each row of a frame: (rows,); None where a column is missing."""
        return pick_classes(self.predict_proba(frame), self.classes)

    def to_sql(self) -> str:
        """Return the probability of the last of two classes as an expression of SQL; raises QuestionRefused for more."""
        if len(self.classes) != 2:
            raise QuestionRefused("the probability of one class is one expression of SQL for two classes alone")
        score = linear_sql(
            self.predictors, self.slopes[1] - self.slopes[0], float(self.constants[1] - self.constants[0])
        )
        return f"1 / (1 + EXP(-LEAST(GREATEST({score}, -{_MOST_SCORE}), {_MOST_SCORE})))"

    def scores_sql(self) -> list[str]:
        """Return for each class an expression of SQL that ranks it: the difference of two is the log of their odds."""
        pairs = zip(self.slopes, self.constants.tolist(), strict=True)
        return [linear_sql(self.predictors, row, constant) for row, constant in pairs]

    def facts(self) -> dict[str, str]:
        """Return what is predicted, from what, and what tells the classes apart."""
        facts = {
            "predicts": f"{self.y}: {', '.join(map(str, self.classes))}",
            "from": ", ".join(self.names),
            **({} if self.weights is None else {"weighted by": self.weights}),
        }
        for label, own in self.coefficients.items():
            facts[f"log odds of {label}"] = ", ".join(f"{name} {slope:.4g}" for name, slope in own.items())
        if self.held_out is not None:
            facts |= self.held_out.facts()
        return facts

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        require_fit(self.slopes.shape == (len(self.classes), len(self.names)) == (len(self.constants), len(self.names)))

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"logistic regression of {self.y} ({len(self.classes)} classes)"


@show_arguments(LossArguments)
def logistic_regression(
    table: Table,
    *,
    y: str,
    x: Sequence[Term],
    validate: int | None = None,
    weights: str | None = None,
    assume_rows: int | None = None,
    **loss: Unpack[LossArguments],
) -> LogisticModel:
    """Return a logistic regression of the category or boolean `y` on the columns `x`, by one charge.

    Of two classes it is fitted by a few steps along noisy gradients, from moments that say how columns go together; one that
    goes by them alone ranks rows about as well where columns are normal within classes, and is taken for more classes
    (the linear discriminant, Efron 1975). `validate=4` leaves one unit in four out of the fit, by a public hash, and counts their
    rows by class and score for `model.held_out`: AUC and calibration, for 15% of the loss. `weights` names a number of 0 or more
    with an upper bound, which a row counts by; of held-out rows, where there are two classes.

    Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted, ChargedError as ask.
    """
    question, predictors, target = logistic_question(
        table, y=y, x=x, validate=validate, assume_rows=assume_rows, weights=weights
    )
    if validate is not None and isinstance(question, MomentMatrix):
        validated: LogisticModel = fit_validated(
            logistic_regression, table, validate, loss, y=y, x=x, assume_rows=assume_rows, weights=weights
        )
        return validated
    release = ask_for(table, question, loss)
    if isinstance(question, SteppedRegression):
        model = read_logistic(release, question, table.domain, predictors, y, target)
    else:
        moments = join_moments(read_moments(release, question, table.domain))
        model = fit_discriminants(moments, predictors, y, target, release)
    notes = (*model.notes, *note_weights(weights))
    return replace(model, weights=weights, provenance=replace(model.provenance, notes=notes))


def logistic_question(
    table: Table,
    *,
    y: str,
    x: Sequence[Term],
    validate: int | None,
    assume_rows: int | None,
    weights: str | None = None,
) -> tuple[SteppedRegression | MomentMatrix, Predictors, Column]:
    """Return the question of a logistic regression: by steps for two classes, else of moments.

    Raises what `logistic_regression` raises before a charge.
    """
    question, predictors, target = discriminant_question(table, y=y, x=x, assume_rows=assume_rows, weights=weights)
    check_folds(validate)
    if len(declared_values(target)) > 2:
        return question, predictors, target
    numbers = groups_of(predictors.numbers, table.domain)
    categories = groups_of(predictors.categories, table.domain)
    stepped = SteppedRegression(Grouping(y, Name(y)), "logistic", numbers, categories, validate or 1, question.weight)
    return stepped, predictors, target


def read_logistic(
    release: Release, question: SteppedRegression, domain: Domain, predictors: Predictors, y: str, target: Column
) -> LogisticModel:
    """Return the logistic regression of a release."""
    fit = read_fit(release, question, domain)
    names = predictor_names(predictors)
    notes = (*note_rows(fit.rows, len(names) + 1), *note_intervals(names, fit.noise))
    held_out = None if question.folds == 1 else score_held_out(release)
    return LogisticModel(
        y,
        target,
        predictors,
        names,
        np.array([np.zeros(len(names)), fit.slopes_from_first()]),
        np.array([0.0, fit.constant + sum(float(values[0]) for values in fit.values)]),
        provenance_of(release, notes),
        held_out,
        fit.noise,
        fit.sample,
        kurtosis=fit.kurtosis,
    )


def discriminant_question(
    table: Table, *, y: str, x: Sequence[Term], assume_rows: int | None, weights: str | None = None
) -> tuple[MomentMatrix, Predictors, Column]:
    """Return the question of a logistic regression; raises what `logistic_regression` raises before a charge."""
    target = require_classes(table, y)
    predictors = read_predictors(table.domain, x, without=y)
    check_rows(assume_rows, 1 + len(predictor_names(predictors)))
    weight = None if weights is None else require_weight(table.domain, weights)
    categories = groups_of((*predictors.categories, y), table.domain)
    question = MomentMatrix(groups_of(predictors.numbers, table.domain), categories, weight=weight)
    return question, predictors, target


def fit_discriminants(
    moments: NoisyMoments, predictors: Predictors, y: str, target: Column, release: Release
) -> LogisticModel:
    """Return the linear discriminants of noisy moments: with W the covariance within classes, W^-1 mean_k a class."""
    names = tuple(column.alias for column in moments.compiled.question.categories)
    design = make_design(predictors, moments, names)
    matrix = moments.matrix
    rows = moments.rows
    noise = math.sqrt(moments.variance)
    places = list(design.places)
    start = moments.starts[names.index(y)]
    classes = list(range(start, start + len(declared_values(target))))
    # A class of fewer rows than noise has no mean of its own.
    counts = np.clip(matrix[0, classes], noise, None)
    overall = matrix[0, places] / rows
    certain = (counts**2 / (counts**2 + noise**2 * len(places)))[:, None]
    means = overall + certain * (matrix[np.ix_(classes, places)] / counts[:, None] - overall)
    within = matrix[np.ix_(places, places)] - (means * counts[:, None]).T @ means
    inverse = invert(soften(within, noise), design.penalty, noise)
    slopes = rows * means @ inverse.matrix
    constants = np.log(counts / counts.sum()) - 0.5 * (slopes * means).sum(axis=1)
    own = [design.own_units(row, float(constant)) for row, constant in zip(slopes, constants, strict=True)]
    spread = np.sqrt(np.clip(np.diag(within), 1.0, None))
    notes = list(note_rows(rows, len(places) + 1))
    if len(predictors.categories) > len(predictors.numbers):
        notes.append(_CATEGORIES)
    notes += [
        f"the noise hides what {group} does: it is shrunk" for group in name_hidden(inverse, design.names, spread)
    ]
    return LogisticModel(
        y,
        target,
        predictors,
        design.names,
        np.array([row for row, _ in own]).reshape(len(classes), len(places)),
        np.array([constant for _, constant in own]),
        provenance_of(release, tuple(notes)),
    )


# ---- Naive Bayes

# The bins of a number: as they are counted. Neighbors are then joined until each has well more rows than noise.
BINS = 64
_ENOUGH = 10.0
# The variance that is expected of a class's share of a bin, relative to the share of all rows.
_SPREAD = 0.25
_LEAST_RATIO = 0.02


@dataclass(frozen=True, repr=False)
class NaiveBayesModel(PricedModel):
    """Naive Bayes: `priors` (classes) and for each column the log of a value's share within each class over its share of all.

    `edges` has the bins of each number, as far as they were joined; `ratios` an array (values, classes) a column.
    """

    y: str
    target: Column
    predictors: Predictors
    priors: Floats
    edges: tuple[Floats | None, ...]
    ratios: tuple[Floats, ...]
    provenance: Provenance
    held_out: HeldOutScores | HeldOutClasses | None = None

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared values of y, in order."""
        return tuple(declared_values(self.target))

    def predict_proba(self, frame: Any) -> Floats:
        """Return the probability of each class, in declared order: (rows, classes). A missing cell tells nothing."""
        table = read_frame(frame, [name for name, _ in self.predictors.declared])
        rows = len(next(iter(table.values())))
        scores = np.tile(np.log(self.priors), (rows, 1))
        for (name, column), edges, ratios in zip(self.predictors.declared, self.edges, self.ratios, strict=True):
            if edges is None:
                codes = read_codes(table[name], column)
            else:
                numbers = read_numbers(table[name], column)
                codes = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(ratios) - 1)
                codes = np.where(np.isnan(numbers), -1, codes)
            scores += np.concatenate([ratios, np.zeros((1, len(self.priors)))])[codes]
        return softmax(scores)

    def predict(self, frame: Any) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the most probable class of each row of a frame: (rows,)."""
        return pick_classes(self.predict_proba(frame), self.classes)

    def to_sql(self) -> list[str]:
        """Return for each class an expression of SQL that ranks it: the class of the largest is predicted."""
        return self.scores_sql()

    def scores_sql(self) -> list[str]:
        """Return for each class an expression of SQL that ranks it: the difference of two is the log of their odds."""
        expressions = []
        for k in range(len(self.classes)):
            # By how much the class is above the first one.
            parts = [repr(float(np.log(self.priors[k] / self.priors[0])))]
            for (name, column), edges, ratios in zip(self.predictors.declared, self.edges, self.ratios, strict=True):
                if k == 0:
                    continue
                own = (ratios[:, k] - ratios[:, 0]).tolist()
                if edges is None:
                    parts.append(case_of(name, dict(zip(declared_values(column), own, strict=True)), otherwise="0"))
                else:
                    parts.append(case_below(name, edges[1:-1].tolist(), own, otherwise="0"))
            expressions.append(" + ".join(parts))
        return expressions

    def facts(self) -> dict[str, str]:
        """Return what is predicted, from what, and what tells the classes apart."""
        held = {} if self.held_out is None else self.held_out.facts()
        shares = ", ".join(f"{label} {share:.3f}" for label, share in zip(self.classes, self.priors, strict=True))
        names = ", ".join(name for name, _ in self.predictors.declared)
        return {"predicts": self.y, "from": names, "shares of classes": shares} | held

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        for (_, column), edges, ratios in zip(self.predictors.declared, self.edges, self.ratios, strict=True):
            values = len(declared_values(column)) if edges is None else len(edges) - 1
            require_fit(ratios.shape == (values, len(self.priors)))
        require_fit(len(self.priors) == len(self.classes) and bool((self.priors > 0).all()))

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"naive Bayes of {self.y} ({len(self.classes)} classes)"


@show_arguments(LossArguments)
def naive_bayes(
    table: Table, *, y: str, x: Sequence[str], validate: int | None = None, **loss: Unpack[LossArguments]
) -> NaiveBayesModel:
    """Return naive Bayes of the category or boolean `y` from the columns `x`, numbers by public bins.

    The counts of y with each column are one tabulation with one charge; bins of numbers are joined afterwards, by their noisy
    counts, until each has well more rows than noise. `validate=4` leaves one unit in four out, and scores the model on
    them for 15% of the loss. Raises UnknownName, QuestionRefused or DeclarationError before anything is spent; BudgetExhausted,
    ChargedError as ask.
    """
    question, predictors, target = counts_question(table, y=y, x=x)
    if validate is not None:
        validated: NaiveBayesModel = fit_validated(naive_bayes, table, validate, loss, y=y, x=x)
        return validated
    release = ask_for(table, question, loss)
    return fit_counts(release, predictors, y, target)


def counts_question(table: Table, *, y: str, x: Sequence[str]) -> tuple[Tabulation, Predictors, Column]:
    """Return the tabulation of naive Bayes; raises what `naive_bayes` raises before a charge."""
    target = require_classes(table, y)
    predictors = read_predictors(table.domain, x, without=y)
    if any(isinstance(term, tuple) for term in predictors.terms):
        raise QuestionRefused("naive Bayes takes columns by themselves: leave out products")
    keys = [Grouping(y, Name(y))]
    for name, column in predictors.declared:
        edges = bin_edges(name, column)
        keys.append(Grouping(name, Name(name) if edges is None else Bin(Name(name), edges=edges, width=None)))
    question = tabulate([[y, name] for name, _ in predictors.declared], finish="linear")
    return Tabulation(question.tables, tuple(keys), question.measures, "linear"), predictors, target


def bin_edges(name: str, column: Column) -> tuple[Fraction, ...] | None:
    """Return the edges of a number's bins, of one width; None for categories.

    Raises QuestionRefused where the number has no declared bounds.
    """
    require_range(name, column)
    if not isinstance(column, (Integer, Real)):
        return None
    assert column.lower is not None
    assert column.upper is not None
    low = Fraction(column.lower)
    high = Fraction(column.upper)
    step = grid_step(column)
    values = int((high - low) // step) + 1
    # Bins hold whole steps of the column's grid, as many in each.
    width = step * -(-values // BINS)
    count = -(-(high - low + step) // width)
    edges = [low + i * width for i in range(int(count))]
    return (*edges, max(high, edges[-1] + step))


def grid_step(column: Column) -> Fraction:
    """Return the step in which a number is read."""
    step = column.step if isinstance(column, Real) else None
    return Fraction(1) if step is None else step


def fit_counts(release: Release, predictors: Predictors, y: str, target: Column) -> NaiveBayesModel:
    """Return naive Bayes from the released tables of y with each column."""
    labels = declared_values(target)
    rows = release.rows
    # The noise of a cell, as a deviation: half of the width at two deviations.
    names = [name for name, _ in predictors.declared]
    errors = dict(zip((key[BY_COLUMNS] for key in rows), _errors(release), strict=True))
    edges: list[Floats | None] = []
    ratios = []
    totals = np.zeros(len(labels))
    for name, column in predictors.declared:
        table = name_table((y, name))
        cells = [float(row["count"]) for row in rows if row[BY_COLUMNS] == table]
        counts = np.array(cells).reshape(len(labels), -1).T
        noise = errors[table] / 1.96
        cut = bin_edges(name, column)
        if cut is not None:
            counts, places = join_bins(counts, noise)
            # A cell is read as the nearest step, so a bin begins half a step below its first one.
            half = grid_step(column) / 2
            edges.append(np.array([float(cut[place] - half) for place in places]))
            merged = np.diff(places).astype(np.float64)
        else:
            edges.append(None)
            merged = np.ones(len(counts))
        totals += np.clip(counts.sum(axis=0), 0, None)
        ratios.append(find_ratios(counts, noise * np.sqrt(merged)))
    priors = np.clip(totals, 1.0, None)
    notes = note_rows(float(totals.sum()) / len(names), sum(map(len, ratios)))
    return NaiveBayesModel(
        y,
        target,
        predictors,
        priors / priors.sum(),
        tuple(edges),
        tuple(ratios),
        provenance_of(release, notes),
    )


def _errors(release: Release) -> list[float]:
    errors: list[Any] = list(release.outputs[0].estimate.errors(0.95))
    return [float(error) for error in errors]


def join_bins(counts: Floats, noise: float) -> tuple[Floats, list[int]]:
    """Return counts (bins, classes) of neighboring bins joined, and where each begins and the last ends, in bins.

    A bin is whole once its rows are well above the noise of the cells that it joins.
    """
    places = [0]
    joined = []
    part = np.zeros(counts.shape[1])
    for i, row in enumerate(counts):
        part = part + row
        merged = i + 1 - places[-1]
        if part.sum() >= _ENOUGH * noise * math.sqrt(merged * counts.shape[1]):
            joined.append(part)
            places.append(i + 1)
            part = np.zeros(counts.shape[1])
    if not joined:
        return counts.sum(axis=0, keepdims=True), [0, len(counts)]
    joined[-1] = joined[-1] + part
    places[-1] = len(counts)
    return np.array(joined), places


def find_ratios(counts: Floats, noise: Floats) -> Floats:
    """Return the log of each value's share within a class over its share of all rows, drawn to 0 as it is noise."""
    counts = np.clip(counts, 0.0, None)
    total = max(float(counts.sum()), 1.0)
    values = np.clip(counts.sum(axis=1, keepdims=True), 1e-9, None)
    classes = np.clip(counts.sum(axis=0, keepdims=True), 1e-9, None)
    expected = values * classes / total
    ratio = counts / np.maximum(expected, 1e-9)
    uncertain = (noise[:, None] ** 2 + expected) / np.maximum(expected, 1e-9) ** 2
    kept = _SPREAD / (_SPREAD + uncertain)
    result: Floats = np.log(np.maximum(1.0 + kept * (ratio - 1.0), _LEAST_RATIO))
    return result
