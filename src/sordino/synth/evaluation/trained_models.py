"""Train on synthetic rows, test on the table's own, NOT PRIVATE: beside models of the same kind that learn from real rows.

Logistic and linear regression are always there; boosted trees where scikit-learn is installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError
from sordino.synth.evaluation.linear_models import explained, fit_linear, fit_logistic, rank_auc

if TYPE_CHECKING:
    from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
    from sordino.synth.model import Model

# Rows that a model learns from, or is tested on, at most.
_MOST_ROWS = 20_000
# Values of a column without an order that have an indicator of their own; the others share none.
_MOST_VALUES = 100
# What is added to the squares of the weights of standardized features.
_RIDGE = 1.0

# From features and targets to what predicts from features: a number that rises with the target.
Trainer = Callable[["Floats", Any], Callable[["Floats"], "Floats"]]


@dataclass(frozen=True, slots=True)
class TrainedScore:
    """How well one kind of model predicts one half of the real rows, NOT PRIVATE: trained on synthetic rows, or on the other.

    `measure` is "AUC" for a condition and "R2" for a number. None where the target never changes in the rows to learn from,
    or in those of the test.
    """

    target: str
    kind: str
    measure: str
    synthetic: float | None
    original: float | None

    def texts(self) -> tuple[str, str]:
        """Return both scores in words: trained on synthetic rows, and on real ones."""
        synthetic, original = (
            "none, the target never changes" if s is None else f"{s:.3f}" for s in (self.synthetic, self.original)
        )
        return synthetic, original

    def to_dict(self) -> dict[str, Any]:
        """Return the scores as JSON data."""
        return {
            "target": self.target,
            "model": self.kind,
            "measure": self.measure,
            "trained_on_synthetic": self.synthetic,
            "trained_on_original": self.original,
            "private": False,
        }


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows by declared keys (-1: dropped) and by steps, one array a column."""

    keys: Sequence[Codes]
    steps: Sequence[Codes]

    def take(self, places: Any) -> Rows:
        """Return some of the rows."""
        return Rows([k[places] for k in self.keys], [s[places] for s in self.steps])


def has_boosted_trees() -> bool:
    """Return whether scikit-learn is installed."""
    return importlib.util.find_spec("sklearn") is not None


def require_trainable(model: Model, target: str) -> None:
    """Raise DeclarationError where a column is no number."""
    column = model.parts.columns[model.columns.index(target)]
    if not column.ordered:
        raise DeclarationError(
            f"{target!r} is no number: predict a condition, such as \"{target} = '...'\", or a column of numbers"
        )


def score_condition(
    model: Model, words: str, used: Sequence[str], truths: tuple[Any, Any], synthetic: Rows, original: Rows
) -> tuple[TrainedScore, ...]:
    """Return the AUC of models that predict a condition from columns that it does not use; `truths` are of both tables."""
    kinds: dict[str, Trainer] = {"logistic regression": lambda x, y: _linear(fit_logistic(_with_ones(x), y, _RIDGE))}
    if has_boosted_trees():
        kinds["boosted trees"] = _boosted_classifier
    return _score(model, words, set(used), truths, (synthetic, original), kinds, rank_auc, "AUC")


def score_number(model: Model, target: str, synthetic: Rows, original: Rows) -> tuple[TrainedScore, ...]:
    """Return the R2 of models that predict a column of numbers from all others; rows without a value take no part."""
    place = model.columns.index(target)
    column = model.parts.columns[place]
    valued = [
        rows.take(np.flatnonzero((rows.keys[place] >= 0) & (rows.keys[place] < column.value_count)))
        for rows in (synthetic, original)
    ]
    values = valued[0].steps[place] * float(column.unit), valued[1].steps[place] * float(column.unit)
    kinds: dict[str, Trainer] = {"linear regression": lambda x, y: _linear(fit_linear(_with_ones(x), y, _RIDGE))}
    if has_boosted_trees():
        kinds["boosted trees"] = _boosted_regressor
    return _score(model, target, {target}, values, (valued[0], valued[1]), kinds, explained, "R2")


def _linear(weights: Floats) -> Callable[[Floats], Floats]:
    return lambda features: _with_ones(features) @ weights


def _with_ones(features: Floats) -> Floats:
    return np.concatenate([np.ones((len(features), 1)), features], axis=1)


def _boosted_classifier(features: Floats, truth: Any) -> Callable[[Floats], Floats]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    fitted: Any = HistGradientBoostingClassifier(random_state=0).fit(features, truth)
    return lambda rows: np.asarray(fitted.predict_proba(rows)[:, 1])


def _boosted_regressor(features: Floats, values: Floats) -> Callable[[Floats], Floats]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    fitted: Any = HistGradientBoostingRegressor(random_state=0).fit(features, values)
    return lambda rows: np.asarray(fitted.predict(rows))


def _score(
    model: Model,
    words: str,
    used: set[str],
    targets: tuple[Any, Any],
    tables: tuple[Rows, Rows],
    kinds: dict[str, Trainer],
    score: Callable[[Any, Floats], float],
    measure: str,
) -> tuple[TrainedScore, ...]:
    columns = [(i, c) for i, c in enumerate(model.parts.columns) if c.name not in used and c.size > 1]
    synthetic, original = (_features(columns, rows) for rows in tables)
    # every second row is for the test, whatever order the table has
    train, test = slice(0, 2 * _MOST_ROWS, 2), slice(1, 2 * _MOST_ROWS, 2)
    drawn = slice(0, _MOST_ROWS)
    scores = []
    for kind, train_on in kinds.items():
        values: list[float | None] = []
        for features, target in ((synthetic[drawn], targets[0][drawn]), (original[train], targets[1][train])):
            if len(np.unique(target)) < 2 or len(np.unique(targets[1][test])) < 2:
                values.append(None)
                continue
            mean, spread = features.mean(axis=0), features.std(axis=0)
            scale = np.where(spread > 0, spread, 1.0)
            predict = train_on((features - mean) / scale, target)
            values.append(score(targets[1][test], predict((original[test] - mean) / scale)))
        scores.append(TrainedScore(words, kind, measure, values[0], values[1]))
    return tuple(scores)


def _features(columns: Sequence[tuple[int, EncodedColumn]], rows: Rows) -> Floats:
    """Return one row of numbers for each row: values of ordered columns, indicators of others and of missing cells."""
    features: list[Any] = []
    for place, column in columns:
        keys = rows.keys[place]
        absent = (keys < 0) | (keys >= column.value_count)
        if column.ordered:
            values = rows.steps[place].astype(np.float64)
            middle = float(np.median(values[~absent])) if not absent.all() else 0.0
            features += [np.where(absent, middle, values), absent.astype(np.float64)]
        else:
            features += [(keys == key).astype(np.float64) for key in range(min(column.value_count, _MOST_VALUES))]
    made: Floats = np.stack(features, axis=1)
    return made
