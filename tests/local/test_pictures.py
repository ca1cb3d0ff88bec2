"""Pictures of the local model: what is drawn, and that true values say NOT PRIVATE."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sordino.errors import DeclarationError
from sordino.local import Distribution, Hadamard, best
from sordino.noise.rng import Rng
from sordino.report.local import Comparison, draw, draw_comparison, draw_spread, draw_weighed, drawer_of
from sordino.report.picture import Picture


def spec_of(thing, title=None) -> str:
    drawer = drawer_of(thing)
    assert drawer is not None
    chart, said = drawer(thing, 0.95, title)
    picture = Picture(chart, said)
    assert picture._repr_mimebundle_()["image/svg+xml"].startswith("<svg")
    return json.dumps(picture.spec())


def test_things_are_told_by_their_shape() -> None:
    protocol = Hadamard([*range(4), None], epsilon=1)
    estimate = protocol.estimate(protocol.count(protocol.perturb([0, 1, None], Rng.seeded(1))))
    wave = Distribution(0, 1, 1)
    spread = wave.estimate(wave.count(wave.perturb([0.5] * 99, Rng.seeded(1))))
    compared = Comparison("jobs", [("a", 3.0, 2.5, 1.0, 4.0, 3.0)], "true counts")
    assert drawer_of(estimate) is draw
    assert drawer_of(spread) is draw_spread
    assert drawer_of(best("abcd".replace("", " ").split(), epsilon=1, respondents=9)) is draw_weighed
    assert drawer_of(compared) is draw_comparison
    assert drawer_of([1]) is None
    assert drawer_of("text") is None
    spec = spec_of(estimate)
    assert "(missing)" in spec
    assert "if 1% lie together" in spec
    assert "smoothed and biased" in spec_of(spread)
    assert "NOT PRIVATE (true counts): jobs" in spec_of(compared)
    assert "respondents, a rare label" in spec_of(best(range(14), epsilon=1, respondents=1000, malicious=0.01))


def test_many_labels_and_none() -> None:
    protocol = Hadamard(range(300), epsilon=1)
    estimate = protocol.estimate(protocol.count(protocol.perturb(np.arange(300), Rng.seeded(1))))
    assert "the first 200 of 300 labels" in spec_of(estimate)
    with pytest.raises(DeclarationError, match="no label"):
        draw_comparison(Comparison("none", [], "true counts"), 0.95, None)
