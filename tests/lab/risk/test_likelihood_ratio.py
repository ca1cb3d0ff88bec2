"""The odds of two answers: the figures of Lee & Clifton 2011, page 333, tails by integration, and the promise of epsilon."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mistyping import mistype
from sordino.errors import DeclarationError
from sordino.risk import answer_odds


def test_page_333_of_lee_and_clifton() -> None:
    tails = answer_odds(3.1677, answers=(2, 4), scale="17/12", tail="above")
    assert [tails.first, tails.second] == pytest.approx([0.2193, 0.7221], abs=5e-5)
    assert tails.odds == pytest.approx(3.293, abs=5e-4)
    density = answer_odds(2.20131, answers=(2, 13 / 3), scale="17/12").first
    assert density == pytest.approx(0.3062, abs=5e-5)  # printed as .3602


@pytest.mark.parametrize("output", [-3.0, 1.9, 2.5, 7.0])
def test_tails_are_integrals_of_the_density_and_add_up_to_one(output: float) -> None:
    grid = np.linspace(output, output + 60, 600_001)
    density = np.exp(-np.abs(grid - 2.0) / 1.5) / 3.0
    above = answer_odds(output, answers=(2.0, 4.0), scale=1.5, tail="above")
    below = answer_odds(output, answers=(2.0, 4.0), scale=1.5, tail="below")
    assert above.first == pytest.approx(np.trapezoid(density, grid), abs=1e-6)
    assert above.first + below.first == pytest.approx(1)
    assert above.second + below.second == pytest.approx(1)


@pytest.mark.parametrize("tail", ["at", "above", "below"])
def test_the_odds_keep_the_promise_of_epsilon(tail: Any) -> None:
    epsilon = 0.7
    worst = [answer_odds(x, answers=(0, 3), scale=3 / epsilon, tail=tail).odds for x in (-1e6, -1, 0, 1, 3, 5, 1e6)]
    assert max(abs(math.log(odds)) for odds in worst) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"answers": (1, 2, 3)}, "answers must be two"),
        ({"scale": 0}, "scale must be above 0"),
        ({"tail": mistype("over")}, "tail must be"),
        ({"answers": (1, math.nan)}, "answers must be a finite"),
    ],
)
def test_bad_input(more: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        answer_odds(1.0, **{"answers": (1, 2), "scale": 1, **more})
