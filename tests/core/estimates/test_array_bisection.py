"""Bisection of arrays finds what one halving after another finds of each point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino.core.estimates.array_bisection import bisect_arrays
from trying import examples

PLACES = st.lists(st.floats(0, 1), min_size=1, max_size=5)


def halve(place: float, within: float, outside: float, halvings: int) -> float:
    """Return the end of the bracket that lies beyond `place`, one point at a time."""
    for _ in range(halvings):
        middle = (within + outside) / 2
        inside = middle <= place if within < outside else middle >= place
        within, outside = (middle, outside) if inside else (within, middle)
    return outside


@examples(20, 100, PLACES, st.sampled_from([1, 100]), st.sampled_from([1, 2]))
def test_every_point_is_found_as_by_single_halvings(places: list[float], terms: int, sides: int) -> None:
    found = np.array(places)
    ends = np.stack([np.full(len(places), 2.0), np.full(len(places), -1.0)])[:sides]
    start = np.broadcast_to(found, ends.shape)

    def inside(points: Any) -> Any:
        assert points.shape[1:] == ends.shape
        return np.where(ends > 1, points <= found, points >= found)

    made = bisect_arrays(inside, start, ends, halvings=36, terms=terms)
    for side in range(sides):
        for i, place in enumerate(places):
            assert made[side, i] == pytest.approx(halve(place, place, ends[side, i], 36), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("terms", [1, 100])
def test_what_is_returned_is_never_inside(terms: int) -> None:
    """The end of an interval errs outward, however many points are tried at once."""
    edges = np.random.default_rng(1).uniform(0, 1, 40)
    found = bisect_arrays(lambda x: x * x <= edges, np.zeros(40), np.full(40, 3.0), halvings=42, terms=terms)
    assert (found * found > edges).all()
    assert (found * found <= edges + 1e-10).all()
