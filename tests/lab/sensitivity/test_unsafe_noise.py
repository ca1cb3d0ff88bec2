"""Noise as wide as local sensitivity: what it reveals, by hand, and its picture, which says that it is NOT PRIVATE."""

from __future__ import annotations

import math
from typing import Any

import pytest

import sordino as sd
from sordino import sensitivity as sens
from sordino.errors import DeclarationError

UNIVERSE = [1, 2, 3, 10, 11]


def test_far_answers_reveal_more_than_any_epsilon() -> None:
    found = sens.local_noise("median", UNIVERSE, [1, 2, 3], [1, 2, 11], neighbors="replace", epsilon=0.5)
    assert found.answers == (2, 2)
    assert found.scales == (2, 16)  # local sensitivities 1 and 8
    narrow, wide = found.density(34)
    assert narrow == pytest.approx(math.exp(-16) / 4)
    assert wide == pytest.approx(math.exp(-2) / 32)
    assert found.loss(34) == pytest.approx(math.log(wide / narrow))
    assert found.loss(10_000) > 1_000  # where the densities underflow


def test_the_picture_is_marked() -> None:
    found = sens.local_noise("median", UNIVERSE, [1, 2, 3], [1, 2, 11], neighbors="replace", epsilon=1)
    picture = sd.plot(found)
    assert picture.title.startswith("NOT PRIVATE")
    spec = str(picture.spec())
    assert "1, 2, 3" in spec
    assert "the epsilon claimed, 1" in spec


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"other": [1, 10, 11]}, "must be neighbors: they are 2 moves apart"),
        ({"other": [1, 2, 3]}, "0 moves apart"),
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"query": "count"}, "cannot move at all"),
        ({"neighbors": "bounded"}, 'called "replace" here'),
    ],
)
def test_what_shows_nothing_is_refused(change: dict[str, Any], match: str) -> None:
    how: dict[str, Any] = {"query": "median", "other": [1, 2, 11], "neighbors": "replace", "epsilon": 1} | change
    with pytest.raises(DeclarationError, match=match):
        sens.local_noise(
            how["query"], UNIVERSE, [1, 2, 3], how["other"], neighbors=how["neighbors"], epsilon=how["epsilon"]
        )
