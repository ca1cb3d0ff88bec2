"""A synthesizer from outside, no subclass of ours: asked for by name, charged once, sampled, stored and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from places import ROOT
from protecting import protect
from sordino.errors import DeclarationError
from sordino.synth.encoded_column import EncodedColumn
from sordino.synth.fitted_model import FittedModel, independent_model
from sordino.synth.fitting import plan_fit
from sordino.synth.measurement import FitSession
from sordino.synth.methods import METHODS, FitRequest, load_method, register_synthesizer


@dataclass(frozen=True)
class Twice:
    """One-way counts measured twice, each with half of the loss; the second measurement is the model."""

    columns: Sequence[str] | None = None
    constraints: Sequence[Any] = ()

    label = "one-way counts, twice"

    def fit(self, source: Any, *, epsilon: Any = None, delta: Any = None, rho: Any = None, rng: Any = None) -> Any:
        plan = plan_fit(source, self.columns, self.constraints, epsilon=epsilon, delta=delta, rho=rho)
        return plan.run(self._measure, "Twice", rng)

    def _measure(self, session: FitSession, columns: Sequence[EncodedColumn]) -> FittedModel:
        session.measure_one_way(columns, session.left / 2)
        return independent_model(session.measure_one_way(columns, session.left), "twice")


@pytest.fixture
def people() -> sd.Curator:
    table = pa.table({"sex": ["f", "m"] * 500, "age": [i % 50 for i in range(1000)]})
    return protect(table, sd.Domain({"sex": sd.Category(["f", "m"]), "age": sd.Integer(0, 49)}), budget=sd.PureDP(10))


@pytest.fixture
def registered() -> Iterator[None]:
    register_synthesizer("twice", Twice)
    yield
    del METHODS["twice"]


@pytest.mark.usefixtures("before_tables", "registered")
def test_it_is_fitted_by_name_sampled_and_read_again(people: sd.Curator, tmp_path: Path) -> None:
    model = FitRequest("twice", columns=["sex"]).fit(people, epsilon=2)
    assert people.spent == sd.PureDP(2)
    assert (model.facts["method"], model.facts["tier"]) == ("Twice", "twice")
    model.save(tmp_path / "twice.model")
    again = sd.synth.load(tmp_path / "twice.model")
    assert again.sample(50, rng=sd.Rng.seeded(1)) == model.sample(50, rng=sd.Rng.seeded(1))
    assert again.sample(50, rng=sd.Rng.seeded(1)).column_names == ["sex"]


@pytest.mark.usefixtures("before_tables", "registered")
def test_what_it_does_not_take_is_refused_before_a_charge(people: sd.Curator) -> None:
    with pytest.raises(DeclarationError, match="cap= goes with the method auto or aim or marginals, not with twice"):
        FitRequest("twice", cap=1000).fit(people, epsilon=2)
    with pytest.raises(DeclarationError, match="exists"):
        register_synthesizer("twice", Twice)
    assert people.spent == sd.PureDP(0)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "auto"])
def test_every_method_is_imported_by_its_name_and_on_its_page(name: str) -> None:
    """The one that chooses is `synth.fit`."""
    method = load_method(name)
    assert getattr(sd.synth, method.__name__) is method
    assert f"`synth.{method.__name__}(" in (ROOT / "docs" / "synth.md").read_text(encoding="utf-8")


def test_every_method_has_a_label_and_an_unknown_one_is_refused() -> None:
    assert all(load_method(name).label for name in METHODS)
    with pytest.raises(DeclarationError, match="has no such value"):
        load_method("twice")
