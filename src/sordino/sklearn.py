"""Models as estimators in the manner of scikit-learn, which is not imported: fit(table), predict(frame), get_params.

    from sordino.sklearn import LinearRegression

    model = LinearRegression(y="price", x=["area", "rooms"], epsilon=1, delta="1e-6").fit(houses)

`fit` takes a private table, and charges it once; `predict` takes frames. An estimator is copied by `get_params` and the class, as
`clone` does, and stands as the last step of a Pipeline whose other steps only change public frames that are predicted.
There is one for each model; it takes what the model's function takes.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

from sordino.core.errors import DeclarationError, QuestionRefused, nearest
from sordino.models.registry import LOSS_ARGUMENTS, MODELS, arguments_of, load_fit

# What scikit-learn calls an attribute of a fitted model where it is not the model's own name and "_".
_RENAMED = {"cluster_centers_": "centers"}
# Estimators that are neither classifiers nor regressors.
_ROLES = {"PCA": "transformer", "KMeans": "clusterer"}


class Estimator:
    """Parameters by name, `fit` to a table, and the fitted model as `model_`; its attributes bear a "_", as `classes_`."""

    _model: ClassVar[str]

    def __init__(self, **parameters: Any) -> None:
        known = self._defaults()
        self.__dict__.update(known)
        self.set_params(**parameters)

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        declared = arguments_of(cls._model).items()
        own = {name: None if one.default is one.empty else one.default for name, one in declared}
        return own | dict.fromkeys(LOSS_ARGUMENTS)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters that it was made with."""
        del deep
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; raises DeclarationError for another name."""
        known = self._defaults()
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
        lacking = [name for name, one in arguments_of(self._model).items() if one.default is one.empty]
        for name in lacking:
            if getattr(self, name) is None:
                raise DeclarationError(f"is missing: {type(self).__name__} needs it", key=name)
        arguments = {name: value for name, value in self.get_params().items() if value is not None}
        self.model_ = load_fit(self._model)(table, **arguments)
        return self

    def predict(self, frame: Any) -> Any:
        """Return the prediction for each row of a frame; raises QuestionRefused for a model that predicts nothing."""
        model = self._fitted()
        if not hasattr(model, "predict"):
            raise QuestionRefused(f"{type(self).__name__} predicts nothing: use transform(frame)")
        return model.predict(frame)

    def score(self, frame: Any, y: Any) -> float:
        """Return for a public frame whose true values are `y` the R2 of predictions; of classes, the share that is right."""
        import numpy as np

        predicted = self.predict(frame)
        if getattr(self._fitted(), "classes", ()):
            right = [bool(a == b) for a, b in zip(predicted, list(y), strict=True)]
            return sum(right) / max(len(right), 1)
        truth = np.asarray(y, dtype=np.float64)
        return 1.0 - float(((truth - predicted) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())

    def __getattr__(self, name: str) -> Any:
        """Return `transform` and `predict_proba` of the fitted model, and its attributes: `components_` is its `components`."""
        of_model = _RENAMED.get(name, name.removesuffix("_"))
        is_method = name in ("transform", "predict_proba")
        if name.startswith("_") or name == "model_" or not (is_method or name.endswith("_")):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if not hasattr(MODELS[self._model].load_class(), of_model) and is_method:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(self._fitted(), of_model)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def _fitted(self) -> Any:
        if not self.__sklearn_is_fitted__():
            raise QuestionRefused(f"{type(self).__name__} is not fitted: call fit(table) first")
        return self.model_

    def __repr__(self) -> str:
        stated = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if value is not None)
        return f"{type(self).__name__}({stated})"


_BY_NAME = {kind.estimator: name for name, kind in MODELS.items()}
__all__ = sorted(_BY_NAME)


def __getattr__(name: str) -> Any:
    """Return the estimator of a model, made of the signature of the model's function."""
    if name not in _BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    model = _BY_NAME[name]
    kind = "classifier" if hasattr(MODELS[model].load_class(), "predict_proba") else "regressor"
    members = {"_model": model, "_estimator_type": _ROLES.get(name, kind), "__module__": __name__}
    members["__doc__"] = f"`sordino.models.{model}` as an estimator.\n\n{inspect.getdoc(load_fit(model))}"
    estimator: Any = type(name, (Estimator,), members)
    keywords = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default)
        for key, default in estimator._defaults().items()
    ]
    estimator.__signature__ = inspect.Signature(keywords)
    # From now on it is found without this function, by pickle too.
    globals()[name] = estimator
    return estimator
