"""Pictures of the local model: what is drawn, and that true values say NOT PRIVATE."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.local import SHE, CollectionSimulation, Distribution, Hadamard, best, plan_collection, simulate_collection
from sordino.reporting.charts import plot
from sordino.reporting.local_charts import draw_simulation


def spec_of(thing: object, title: str | None = None) -> str:
    picture = plot(thing, title=title)
    assert picture._repr_mimebundle_()["image/svg+xml"].startswith("<svg")
    return json.dumps(picture.spec())


def test_each_type_has_its_chart() -> None:
    protocol = Hadamard([*range(4), None], epsilon=1)
    estimate = protocol.estimate(protocol.count(protocol.perturb([0, 1, None], Rng.seeded(1))))
    wave = Distribution(0, 1, 1)
    spread = wave.estimate(wave.count(wave.perturb([0.5] * 99, Rng.seeded(1))))
    simulated = simulate_collection([0, 1, 1], protocol, Rng.seeded(1), subject="jobs")
    for unknown in ([1], "text", [simulated], []):
        with pytest.raises(DeclarationError, match=f"not {type(unknown).__name__}"):
            plot(unknown)
    spec = spec_of(estimate)
    assert "(missing)" in spec
    assert "if 1% collude" in spec
    assert "smoothed and biased" in spec_of(spread)
    assert "NOT PRIVATE (true values of known people are shown)" in spec_of(simulated)
    assert "respondents, a rare label" in spec_of(best(range(14), epsilon=1, respondents=1000, malicious=0.01))


def test_a_plan_shows_protocols_and_the_people_needed() -> None:
    plan = plan_collection(range(4), epsilon=1, respondents=5000, malicious=0.01, shuffle_delta="1e-6")
    spec = spec_of(plan)
    assert f'"people": {plan.needed.local}' in spec
    assert f'"people": {plan.needed.curator}' in spec
    assert "only if an independent shuffler" in spec.replace('", "', " ")
    assert "too wide to draw beside them: SHE" in spec.replace('", "', " ")  # its bar would hide the others
    assert "SHE" in [row["protocol"] for row in plan.choice.table.to_pylist()]


def test_noisy_sums_are_drawn_as_other_estimates() -> None:
    made = SHE(range(3), epsilon=1)
    assert "95% intervals" in spec_of(made.estimate(made.count(made.perturb([0, 1, 2], Rng.seeded(1)))))


def test_many_labels_and_none() -> None:
    protocol = Hadamard(range(300), epsilon=1)
    estimate = protocol.estimate(protocol.count(protocol.perturb(np.arange(300), Rng.seeded(1))))
    assert "the first 200 of 300 labels" in spec_of(estimate)
    with pytest.raises(DeclarationError, match="no label"):
        draw_simulation(CollectionSimulation("none", [], protocol, estimate), 0.95, None)
