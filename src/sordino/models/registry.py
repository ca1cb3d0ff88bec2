"""Models by the names of their functions: the one place that lists them, for Python, files, the command line and scikit-learn."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from sordino.core.errors import DeclarationError, nearest
from sordino.core.loss import LossArguments

# Arguments of every model: they say what it may cost, not what it is.
LOSS_ARGUMENTS = tuple(LossArguments.__annotations__)


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A model: its `title` in files and on cards, the `path` of its class, and the `estimator` of `sordino.sklearn`.

    The function that fits it is in the same module as the class.
    """

    title: str
    path: str
    estimator: str

    def load_class(self) -> Any:
        """Return the class of the fitted model, imported now: the command line lists the names without numpy."""
        module, _, name = self.path.rpartition(".")
        return getattr(importlib.import_module(module), name)


MODELS = {
    "linear_regression": ModelKind("linear regression", "sordino.models.linear.LinearModel", "LinearRegression"),
    "theil_sen": ModelKind("Theil-Sen regression", "sordino.models.median_lines.TheilSenModel", "TheilSenRegressor"),
    "logistic_regression": ModelKind(
        "logistic regression", "sordino.models.classification.LogisticModel", "LogisticRegression"
    ),
    "poisson_regression": ModelKind("Poisson regression", "sordino.models.poisson.PoissonModel", "PoissonRegression"),
    "naive_bayes": ModelKind("naive Bayes", "sordino.models.classification.NaiveBayesModel", "NaiveBayes"),
    "decision_tree": ModelKind("decision tree", "sordino.models.tree.TreeModel", "DecisionTree"),
    "boosted_histograms": ModelKind(
        "boosted histograms", "sordino.models.histograms.HistogramsModel", "BoostedHistograms"
    ),
    "pca": ModelKind("principal components", "sordino.models.components.ComponentsModel", "PCA"),
    "kmeans": ModelKind("k-means", "sordino.models.clusters.ClustersModel", "KMeans"),
}


def require_model(name: Any) -> ModelKind:
    """Return a model by the name of its function; raises DeclarationError for another name."""
    if name not in MODELS:
        raise DeclarationError(f"{name!s:.40} is no model; {nearest(str(name), MODELS)}")
    return MODELS[name]


def load_fit(name: str) -> Any:
    """Return the function that fits a model; raises DeclarationError for another name."""
    module, _, _ = require_model(name).path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def arguments_of(name: str) -> dict[str, inspect.Parameter]:
    """Return what a model takes beside a table and a loss, as its function declares it.

    >>> list(arguments_of("pca"))
    ['columns', 'components', 'scale']
    """
    parameters = inspect.signature(load_fit(name)).parameters
    return {key: one for key, one in parameters.items() if key not in ("table", *LOSS_ARGUMENTS)}
