"""Train on synthetic rows, test on the table's own, NOT PRIVATE: models of scikit-learn, beside those trained on real rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.synth.encoded_column import Codes, EncodedColumn, Floats
    from sordino.synth.model import Model

# Rows that a model learns from, or is tested on, at most.
_MOST_ROWS = 20_000
# Values of a column without an order that have an indicator of their own; the others share none.
_MOST_VALUES = 100
HOW_TO_INSTALL = "scikit-learn is not installed: pip install 'sordino[evaluate]'"


@dataclass(frozen=True, slots=True)
class TrainedScore:
    """How well one kind of model predicts one half of the real rows, NOT PRIVATE: trained on synthetic rows, or on the other.

    `measure` is "AUC" for a condition and "R2" for a number.
    """

    target: str
    kind: str
    measure: str
    synthetic: float
    original: float

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


def can_train() -> bool:
    """Return whether scikit-learn is installed."""
    return importlib.util.find_spec("sklearn") is not None


def require_trainable(model: Model, target: str) -> None:
    """Raise DeclarationError where a column is no number, or scikit-learn is not installed."""
    column = model.parts.columns[model.columns.index(target)]
    if not column.ordered:
        raise DeclarationError(
            f"{target!r} is no number: predict a condition, such as \"{target} = '...'\", or a column of numbers"
        )
    if not can_train():
        raise DeclarationError(f"a column of numbers is predicted by models of scikit-learn. {HOW_TO_INSTALL}")


def score_condition(
    model: Model, words: str, used: Sequence[str], truths: tuple[Any, Any], synthetic: Rows, original: Rows
) -> tuple[TrainedScore, ...]:
    """Return the AUC of models that predict a condition from columns that it does not use; `truths` are of both tables."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    kinds: dict[str, Callable[[], Any]] = {
        "logistic regression": lambda: LogisticRegression(max_iter=500),
        "boosted trees": lambda: HistGradientBoostingClassifier(random_state=0),
    }

    def score(fitted: Any, features: Floats, truth: Any) -> float:
        return float(roc_auc_score(truth, fitted.predict_proba(features)[:, 1]))

    return _score(model, words, set(used), truths, (synthetic, original), kinds, score, "AUC")


def score_number(model: Model, target: str, synthetic: Rows, original: Rows) -> tuple[TrainedScore, ...]:
    """Return the R2 of models that predict a column of numbers from all others; rows without a value take no part."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import r2_score

    place = model.columns.index(target)
    column = model.parts.columns[place]
    valued = [
        rows.take(np.flatnonzero((rows.keys[place] >= 0) & (rows.keys[place] < column.value_count)))
        for rows in (synthetic, original)
    ]
    values = valued[0].steps[place] * float(column.unit), valued[1].steps[place] * float(column.unit)
    kinds: dict[str, Callable[[], Any]] = {
        "linear regression": lambda: RidgeCV(alphas=np.logspace(-3, 3, 7)),
        "boosted trees": lambda: HistGradientBoostingRegressor(random_state=0),
    }

    def score(fitted: Any, features: Floats, truth: Any) -> float:
        return float(r2_score(truth, fitted.predict(features)))

    return _score(model, target, {target}, values, (valued[0], valued[1]), kinds, score, "R2")


def _score(
    model: Model,
    words: str,
    used: set[str],
    targets: tuple[Any, Any],
    tables: tuple[Rows, Rows],
    kinds: dict[str, Callable[[], Any]],
    score: Callable[[Any, Floats, Any], float],
    measure: str,
) -> tuple[TrainedScore, ...]:
    columns = [(i, c) for i, c in enumerate(model.parts.columns) if c.name not in used and c.size > 1]
    synthetic, original = (_features(columns, rows) for rows in tables)
    # every second row is for the test, whatever order the table has
    train, test = slice(0, 2 * _MOST_ROWS, 2), slice(1, 2 * _MOST_ROWS, 2)
    drawn = slice(0, _MOST_ROWS)
    scores = []
    for kind, make in kinds.items():
        values = []
        for features, target in ((synthetic[drawn], targets[0][drawn]), (original[train], targets[1][train])):
            if len(np.unique(target)) < 2 or len(np.unique(targets[1][test])) < 2:
                values.append(float("nan"))
                continue
            mean, spread = features.mean(axis=0), features.std(axis=0)
            scale = np.where(spread > 0, spread, 1.0)
            fitted = make().fit((features - mean) / scale, target)
            values.append(score(fitted, (original[test] - mean) / scale, targets[1][test]))
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
