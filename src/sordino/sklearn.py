"""Models as estimators in the manner of scikit-learn, which is not imported: fit(table), predict(frame), get_params.

    from sordino.sklearn import LinearRegression

    model = LinearRegression(y="price", x=["area", "rooms"], epsilon=1, delta="1e-6").fit(houses)

`fit` takes a private table, and charges it once; `predict` takes frames. An estimator is copied by `get_params` and the class, as
`clone` does, and stands as the last step of a Pipeline whose other steps only change public frames that are predicted.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from sordino.core.errors import DeclarationError, QuestionRefused, nearest


class _Estimator:
    """Parameters by name, `fit` to a table, and the fitted model as `model_`."""

    _model: ClassVar[str]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters that it was made with."""
        del deep
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; raises DeclarationError for another name."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise DeclarationError(f"is no parameter of {type(self).__name__}; {nearest(name, known)}", key=name)
            setattr(self, name, value)
        return self

    def fit(self, table: Any, y: None = None) -> Self:
        """Fit to a private table, charged once. Raises what the function of `sordino.models` raises."""
        if y is not None:
            raise DeclarationError(
                "is named where the estimator is made: y='price'; fit takes the table alone", key="y"
            )
        import sordino.models

        arguments = {name: value for name, value in self.get_params().items() if value is not None}
        self.model_ = getattr(sordino.models, self._model)(table, **arguments)
        return self

    def predict(self, frame: Any) -> Any:
        """Return the prediction for each row of a frame."""
        return self._fitted().predict(frame)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _fitted(self) -> Any:
        if not hasattr(self, "model_"):
            raise QuestionRefused(f"{type(self).__name__} is not fitted: call fit(table) first")
        return self.model_

    def __repr__(self) -> str:
        stated = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if value is not None)
        return f"{type(self).__name__}({stated})"


class LinearRegression(_Estimator):
    """`sordino.models.linear_regression` as an estimator.

    >>> LinearRegression(y="price", x=["area"], epsilon=1).get_params()["x"]
    ['area']
    """

    _model = "linear_regression"
    _estimator_type = "regressor"

    def __init__(
        self,
        *,
        y: Any = None,
        x: Any = None,
        validate: Any = None,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
    ) -> None:
        self.y = y
        self.x = x
        self.validate = validate
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho

    def score(self, frame: Any, y: Any) -> float:
        """Return the R2 of predictions for a public frame whose true values are `y`."""
        import numpy as np

        truth = np.asarray(y, dtype=np.float64)
        errors = truth - self.predict(frame)
        return 1.0 - float((errors**2).sum() / ((truth - truth.mean()) ** 2).sum())


class _Classifier(_Estimator):
    """An estimator of classes."""

    _estimator_type = "classifier"

    def __init__(
        self, *, y: Any = None, x: Any = None, epsilon: Any = None, delta: Any = None, rho: Any = None
    ) -> None:
        self.y = y
        self.x = x
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho

    @property
    def classes_(self) -> tuple[Any, ...]:
        """The declared classes, in order."""
        classes: tuple[Any, ...] = self._fitted().classes
        return classes

    def predict_proba(self, frame: Any) -> Any:
        """Return the probability of each class for each row of a frame: (rows, classes)."""
        return self._fitted().predict_proba(frame)

    def score(self, frame: Any, y: Any) -> float:
        """Return the share of rows of a public frame whose class is predicted right."""
        predicted = self.predict(frame)
        right = [bool(a == b) for a, b in zip(predicted, list(y), strict=True)]
        return sum(right) / max(len(right), 1)


class LogisticRegression(_Classifier):
    """`sordino.models.logistic_regression` as an estimator."""

    _model = "logistic_regression"

    def __init__(
        self,
        *,
        y: Any = None,
        x: Any = None,
        validate: Any = None,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
    ) -> None:
        super().__init__(y=y, x=x, epsilon=epsilon, delta=delta, rho=rho)
        self.validate = validate


class PoissonRegression(_Estimator):
    """`sordino.models.poisson_regression` as an estimator."""

    _model = "poisson_regression"
    _estimator_type = "regressor"

    def __init__(
        self, *, y: Any = None, x: Any = None, epsilon: Any = None, delta: Any = None, rho: Any = None
    ) -> None:
        self.y = y
        self.x = x
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho


class NaiveBayes(_Classifier):
    """`sordino.models.naive_bayes` as an estimator."""

    _model = "naive_bayes"


class DecisionTree(_Classifier):
    """`sordino.models.decision_tree` as an estimator; of a number `score` is the share that is predicted exactly."""

    _model = "decision_tree"

    def __init__(
        self,
        *,
        y: Any = None,
        x: Any = None,
        depth: Any = None,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
    ) -> None:
        super().__init__(y=y, x=x, epsilon=epsilon, delta=delta, rho=rho)
        self.depth = depth


class PCA(_Estimator):
    """`sordino.models.pca` as an estimator."""

    _model = "pca"

    def __init__(
        self,
        *,
        columns: Any = None,
        components: Any = None,
        scale: bool = False,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
    ) -> None:
        self.columns = columns
        self.components = components
        self.scale = scale
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho

    @property
    def components_(self) -> Any:
        """The components: (components, columns)."""
        return self._fitted().components

    def transform(self, frame: Any) -> Any:
        """Return the place of each row of a frame along the components: (rows, components)."""
        return self._fitted().transform(frame)

    def predict(self, frame: Any) -> Any:
        """Raise QuestionRefused: components predict nothing."""
        del frame
        raise QuestionRefused("components predict nothing: use transform(frame)")


class KMeans(_Estimator):
    """`sordino.models.kmeans` as an estimator."""

    _model = "kmeans"
    _estimator_type = "clusterer"

    def __init__(
        self,
        *,
        columns: Any = None,
        clusters: Any = None,
        scale: bool = False,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
    ) -> None:
        self.columns = columns
        self.clusters = clusters
        self.scale = scale
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho

    @property
    def cluster_centers_(self) -> Any:
        """The centers: (clusters, columns)."""
        return self._fitted().centers
