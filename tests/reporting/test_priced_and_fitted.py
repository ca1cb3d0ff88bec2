"""Pictures of prices and of fitted models: what they show is what the plan and the model say, in the chart's own data."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sordino as sd
from protecting import protect
from sordino import synth
from sordino.core.errors import DeclarationError
from sordino.reporting.picture import PICTURE_ENDINGS, darken, encode_picture

DOMAIN = sd.Domain(
    {
        "area": sd.Integer(0, 400),
        "age": sd.Integer(0, 100),
        "zone": sd.Category(["north", "south"], missing="keep"),
        "price": sd.Integer(-1000, 5000),
    }
)


def people(*, rng: sd.Rng | None = None) -> Any:
    draws = np.random.default_rng(4)
    area = draws.integers(0, 400, 500)
    zone = draws.choice(["north", "south"], 500)
    price = 5 * area + np.where(zone == "south", 300, 0)
    frame = pd.DataFrame({"area": area, "age": draws.integers(0, 100, 500), "zone": zone, "price": price})
    return protect(frame, domain=DOMAIN, budget=sd.PureDP(10**8), rng=rng)


def values_in(picture: Any) -> list[dict[str, Any]]:
    """Return all rows of a picture's data."""
    spec = picture.spec()
    return [row for data in spec.get("datasets", {}).values() for row in data] + _inline(spec)


def _inline(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, dict):
        own = part["data"].get("values", []) if isinstance(part.get("data"), dict) else []
        return [*own, *(row for key, value in part.items() if key != "data" for row in _inline(value))]
    return [row for one in part for row in _inline(one)] if isinstance(part, list) else []


def test_a_plan_is_drawn_at_every_loss_that_it_was_planned_at() -> None:
    table = people()
    question = sd.sql("SELECT zone, COUNT(*) AS n, AVG(age) AS mean_age FROM data GROUP BY zone")
    plans = [table.plan(question, epsilon=e, assume_rows=500) for e in ("0.1", "0.01", "1")]
    picture = sd.plot(plans)
    rows = {(row["name"], row["loss"]): row["error"] for row in values_in(picture) if "loss" in row}
    for plan in plans:
        epsilon = float(plan.asked.amounts()["epsilon"])
        assert {name: rows[name, epsilon] for name in ("n", "mean_age")} == plan.error(0.95)
    assert "epsilon 0.1, as it was priced" in str(picture.spec())
    # a part without a number of its own is left out, and one without any is refused
    alone = sd.plot(table.plan(sd.sql("SELECT COUNT(*) AS n, AVG(age) AS a FROM data"), epsilon=1))
    assert {row["name"] for row in values_in(alone) if "loss" in row} == {"n"}
    with pytest.raises(DeclarationError, match="assume_rows"):
        sd.plot(table.plan(sd.mean("age"), epsilon=1))
    with pytest.raises(DeclarationError, match="one question at several losses"):
        sd.plot([table.plan(sd.count(), epsilon=1), table.plan(sd.sum("age"), epsilon=1)])


def test_the_plan_of_a_tabulation_has_a_line_a_table() -> None:
    plan = people().plan(sd.tabulate([["zone"], []]), epsilon=1)
    rows = {row["name"]: row["error"] for row in values_in(sd.plot(plan)) if "loss" in row}
    assert rows == {" x ".join(name) or "total": error for name, error in plan.error(0.95).items()}


def test_a_histograms_plan_is_drawn_up_to_all_bins() -> None:
    plan = synth.Histogram("zone").plan(people(), epsilon=1)
    rows = {row["bins"]: row["error"] for row in values_in(sd.plot(plan)) if "bins" in row}
    assert rows == {n: plan.error(0.95, bins=n) for n in (1, 2, plan.bins)}


def test_a_regression_shows_what_each_column_moves_with_its_interval() -> None:
    model = sd.models.linear_regression(people(), y="price", x=["area", ("area", "age"), "zone"], epsilon=10**6)
    rows = {row["name"]: row for row in values_in(sd.plot(model)) if "low" in row}
    spans = {"area": 400, "area * age": 40_000, "zone = south": 1}
    for name, span in spans.items():
        low, high = model.interval(name)
        assert rows[name]["value"] == pytest.approx(model.coefficients[name] * span)
        assert (rows[name]["low"], rows[name]["high"]) == pytest.approx((low * span, high * span))
    assert rows["area"]["value"] == pytest.approx(2000, abs=20)


MODELS: dict[str, dict[str, Any]] = {
    "linear_regression": {"y": "price", "x": ["area", "zone"]},
    "theil_sen": {"y": "price", "x": ["area"]},
    "logistic_regression": {"y": "zone", "x": ["area", "price"]},
    "naive_bayes": {"y": "zone", "x": ["area", "price"]},
    "pca": {"columns": ["area", "age", "price"], "components": 2},
    "kmeans": {"columns": ["area", "age"], "clusters": 3},
}


@pytest.mark.each(6)
@pytest.mark.parametrize("kind", MODELS)
def test_every_model_is_drawn_and_marked_where_its_noise_was_seeded(kind: str) -> None:
    model = getattr(sd.models, kind)(people(rng=sd.Rng.seeded(2)), **MODELS[kind], epsilon=100)
    picture = sd.plot(model)
    assert picture.title.startswith("NOT PRIVATE (its noise was seeded): ")
    spec = picture.spec()
    assert spec["$schema"]
    picture.chart.to_dict(validate=True)
    for drawn in (picture, darken(picture)):
        assert len(encode_picture(drawn, ".svg")) > 1000
    assert ".svg" in PICTURE_ENDINGS


def test_a_model_of_secure_noise_is_not_marked() -> None:
    model = sd.models.linear_regression(people(rng=sd.Rng.secure()), **MODELS["linear_regression"], epsilon=100)
    assert "NOT PRIVATE" not in sd.plot(model).title


def test_centers_stand_in_the_columns_own_units() -> None:
    model = sd.models.kmeans(people(), columns=["area", "age"], clusters=2, epsilon=10**6)
    rows = [row for row in values_in(sd.plot(model)) if "row" in row]
    texts = {(row["row"], row["column"]): row["text"] for row in rows}
    for i, (center, share) in enumerate(zip(model.centers, model.shares, strict=True)):
        column = f"{i + 1} ({100 * share:.0f}% of rows)"
        assert [texts[name, column] for name in model.columns] == [f"{value:.4g}" for value in center]
    # a color says where between the declared bounds: -1 at the lower, 1 at the upper
    places = {(row["row"], row["column"]): row["value"] for row in rows}
    first = f"1 ({100 * model.shares[0]:.0f}% of rows)"
    assert places["area", first] == pytest.approx(float(2 * Fraction(float(model.centers[0, 0])) / 400 - 1))
