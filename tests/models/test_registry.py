"""The registry of models: each is on the face, planned, saved, an estimator; one from outside joins by one file and one line."""

from __future__ import annotations

import datetime
import functools
import inspect
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
import sordino.sklearn
from protecting import protect
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import LossArguments, show_arguments
from sordino.models.record import PricedModel, Provenance, encode_model, provenance_of
from sordino.models.registry import LOSS_ARGUMENTS, MODELS, ModelKind, arguments_of, load_fit

DOMAIN = sd.Domain({"age": sd.Integer(0, 100)})
# Files as they were written before models had one frame.
STORED = Path(__file__).parent.parent / "data" / "models"


def people() -> sd.Curator:
    return protect(pa.table({"age": [30] * 400}), DOMAIN, budget=sd.PureDP(50), seed=2)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_stands_once_and_is_met_everywhere(name: str) -> None:
    kind = MODELS[name]
    assert getattr(sd.models, name) is load_fit(name)
    assert getattr(sd.models, kind.load_class().__name__) is kind.load_class()
    estimator = getattr(sordino.sklearn, kind.estimator)
    takes = [*arguments_of(name), *LOSS_ARGUMENTS]
    assert list(inspect.signature(estimator).parameters) == takes
    assert list(estimator().get_params()) == takes
    assert name in (estimator.__doc__ or "")
    assert kind.estimator in dir(sordino.sklearn) or kind.estimator in sordino.sklearn.__all__
    with pytest.raises(DeclarationError, match="is missing"):
        estimator(epsilon=1).fit(people())


@pytest.mark.parametrize("path", sorted(STORED.glob("*.model")), ids=lambda path: path.stem)
def test_files_written_before_are_read(path: Path) -> None:
    model = sd.models.load(path)
    stored = json.loads(path.read_text())
    again = json.loads(encode_model(model))
    assert again["kind"] == stored["kind"]
    assert {key: again["model"][key] for key in stored["model"]} == stored["model"]


# ---- Bad input, of every model

ROWS = {"age": [30.0, 31.0] * 40, "pay": [1.5, 2.0] * 40, "sex": ["f", "m"] * 40, "yes": [True, False] * 40}
WIDE = sd.Domain(
    {
        "age": sd.Real(0, 100, resolution="0.5"),
        "pay": sd.Real(0, 9, resolution="0.5"),
        "sex": sd.Category(["f", "m"]),
        "yes": sd.Boolean(),
        "open": sd.Real(resolution="0.5"),
        "constant": sd.Integer(3, 3),
        "one": sd.Category(["k"]),
        "day": sd.Date("2020-01-01", "2020-12-31"),
        "id": sd.Identifier(),
    }
)


@pytest.fixture(scope="module")
def wide() -> sd.Curator:
    more: dict[str, list[Any]] = {
        "open": [1.0],
        "constant": [3],
        "one": ["k"],
        "day": [datetime.date(2020, 5, 1)],
        "id": ["u"],
    }
    rows = ROWS | {name: cells * 80 for name, cells in more.items()}
    return protect(pa.table(rows), WIDE, budget=sd.ApproxDP(10**6, "0.1"), seed=3)


def arguments_for(name: str) -> dict[str, Any]:
    """Return arguments with which a model fits: a number or a class from a number, or two numbers."""
    takes = arguments_of(name)
    arguments: dict[str, Any] = {"depth": 2, "components": 1, "clusters": 2}
    if "x" in takes:
        arguments |= {"y": "pay" if name in ("linear_regression", "poisson_regression") else "yes", "x": ["age", "sex"]}
        arguments |= {"y": "pay", "x": ["age"]} if name == "theil_sen" else {}
    else:
        arguments |= {"columns": ["age", "pay"]}
    return {key: value for key, value in arguments.items() if key in takes}


BAD = ["open", "constant", "one", "day", "id", "nothing", "twice", "text", "none", "what is predicted"]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_refuses_bad_columns_before_the_charge(name: str, bad: str, wide: sd.Curator) -> None:
    arguments = arguments_for(name)
    key = "x" if "x" in arguments else "columns"
    others: dict[str, Any] = {"twice": ["age", "age"], "text": "age", "none": []}
    others["what is predicted"] = [arguments.get("y", "nothing")]
    before = wide.spent
    for given in ({key: others.get(bad, [bad])}, {"y": bad} if "y" in arguments else {key: [bad]}):
        for call in (load_fit(name), functools.partial(sd.models.plan, name)):
            with pytest.raises((DeclarationError, QuestionRefused)) as refusal:
                call(wide, **{**arguments, **given}, epsilon=1)
            assert len(str(refusal.value)) > 20
    assert wide.spent == before


LOSSES: list[dict[str, Any]] = [
    {},
    {"epsilon": 1, "rho": 1},
    {"epsilon": 0},
    {"epsilon": -1},
    {"epsilon": 1, "delta": 2},
]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_refuses_a_loss_that_is_none(name: str, wide: sd.Curator) -> None:
    before = wide.spent
    for loss in LOSSES:
        with pytest.raises(DeclarationError):
            load_fit(name)(wide, **arguments_for(name), **loss)
    if "assume_rows" in arguments_of(name):
        for rows in (0, 1, True):
            with pytest.raises((DeclarationError, QuestionRefused)):
                load_fit(name)(wide, **arguments_for(name), assume_rows=rows, epsilon=1)
    assert wide.spent == before


@pytest.mark.each(9)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_reads_odd_frames(name: str, wide: sd.Curator) -> None:
    model = load_fit(name)(wide, **arguments_for(name), epsilon=100)
    predict = model.transform if hasattr(model, "transform") else model.predict
    empty: dict[str, list[Any]] = {column: [] for column in ROWS}
    assert len(predict(empty)) == 0
    assert len(predict(ROWS | {"extra": ["?"] * 80})) == 80
    gone = {"age": [None, float("nan")], "pay": [None, 1.0], "sex": [None, "x"], "yes": [None, True]}
    assert len(predict(gone)) == 2
    frames: list[Any] = [{}, None, 3, [1], {"other": [1]}]
    # Of a model of one column others are ignored, whatever their length.
    frames += [] if name == "theil_sen" else [{"age": [1, 2], "pay": [1], "sex": ["f"], "yes": [True]}]
    frames.append({name: ["many"] for name in ROWS})
    for frame in frames:
        with pytest.raises(DeclarationError, match="frame"):
            predict(frame)


# ---- A model from outside: this file, and one line


@dataclass(frozen=True, repr=False)
class MeanModel(PricedModel):
    """A mean that predicts itself."""

    y: str
    mean: float
    provenance: Provenance

    def predict(self, frame: Any) -> Any:
        return np.full(len(frame["age"]), self.mean)

    def facts(self) -> dict[str, str]:
        return {"mean": f"{self.mean:.0f}"}


@show_arguments(LossArguments)
def mean_model(table: Any, *, y: str, factor: int = 1, **loss: Any) -> MeanModel:
    """Return the mean of y."""
    release = table.ask(sd.mean(y), **loss)
    return MeanModel(y, factor * float(release.value), provenance_of(release, ()))


def test_a_model_from_outside_joins_by_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(MODELS, "mean_model", ModelKind("a mean", f"{__name__}.MeanModel", "MeanRegression"))
    table = people()
    assert sd.models.plan("mean_model", table, y="age", epsilon=1).cost == sd.PureDP(1)
    assert table.spent == sd.PureDP(0)
    model = mean_model(table, y="age", epsilon=40)
    assert "a mean" in str(model.card)
    assert repr(model) == "<a mean, epsilon 40>"
    model.save(tmp_path / "mean.model")
    assert sd.models.load(tmp_path / "mean.model") == model
    with pytest.raises(DeclarationError, match="which takes y, factor"):
        sd.models.plan("mean_model", table, y="age", depth=3, epsilon=1)


def test_estimators_have_what_their_models_have() -> None:
    components = sordino.sklearn.PCA(columns=["age"], components=1, epsilon=1)
    assert hasattr(components, "nothing") is hasattr(components, "predict_proba") is False
    assert pickle.loads(pickle.dumps(components)).get_params() == components.get_params()
    with pytest.raises(QuestionRefused, match="not fitted"):
        components.transform({"age": [1]})
    assert components.fit(people()).components_.shape == (1, 1)
    with pytest.raises(AttributeError, match="Forest"):
        sordino.sklearn.__getattr__("Forest")
