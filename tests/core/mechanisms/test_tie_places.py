"""Tie places: a grid like that of floating-point numbers from both ends, and the bound on how far a split errs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from sordino.core.estimates.choices import Ranks, RankStage, exponential_sum
from sordino.core.mechanisms import tie_places
from sordino.core.mechanisms.tie_places import PARTS, cut, place_at, place_count, split_tail

F = Fraction


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_places_grow_mirror_and_lie_as_close_as_the_theorem_says(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, grid = 2**10, 2**bits
    monkeypatch.setattr(tie_places, "PARTS", parts)
    monkeypatch.setattr(tie_places, "_BITS", bits)
    cuts = [cut(place) for place in range(place_count())]
    assert cuts == sorted(set(cuts))
    assert [parts - c for c in reversed(cuts)] == cuts
    for a, b in itertools.pairwise(c for c in cuts if c <= parts // 2):
        assert b / (2 * grid) <= b - a or b - a == 1
        assert b - a <= max(1, b / grid)
    assert [place_at(c) for c in cuts] == list(range(place_count()))
    assert all(cut(place_at(y)) <= y < cut(place_at(y) + 1) for y in range(parts // 2))


def test_places_as_released() -> None:
    assert (cut(0), cut(place_count() // 2), cut(place_count() - 1)) == (0, PARTS // 2, PARTS)
    for place in (1, 2**41 - 1, 2**41, 2**45 + 12345, place_count() // 2 - 1, place_count() - 2):
        assert cut(place - 1) < cut(place) < cut(place + 1)
        assert place_at(cut(place)) == place


@lru_cache(1)
def _grid() -> tuple[Any, Any]:
    """Return places evenly spread over all, and the share of the ties that lies below each."""
    places = np.unique(np.linspace(0, place_count() - 1, 100_001).astype(np.int64))
    return places, np.array([cut(int(p)) / PARTS for p in places])


def _exact_chance(below: int, above: int, left: int, right: int, *, rate: float, t: float) -> float:
    """Return P(error >= t) where `below` and `above` rows tie around the target, beside `left` and `right` values."""
    count, (places, shares) = place_count(), _grid()
    off = np.abs(shares * (below + above) - below)
    own = np.exp(-rate * off)
    step = (places[1:] - places[:-1]).astype(float)
    weigh = step / 2
    mass = float((weigh * (own[1:] + own[:-1])).sum())
    far_own = own * (off >= t)
    far = float((weigh * (far_own[1:] + far_own[:-1])).sum())
    others = [(left * count * math.exp(-rate * below), below), (right * count * math.exp(-rate * above), above)]
    total = mass + sum(w for w, _ in others)
    return (far + sum(w for w, distance in others if distance >= t)) / total


@pytest.mark.deep
@pytest.mark.parametrize(("left", "right"), [(0, 0), (1000, 0), (500, 500), (10**9, 10**3)])
def test_no_table_errs_more_than_the_tail_says(left: int, right: int) -> None:
    """Ties around the target from none to a million rows either way; and the bound is no more than a few ranks too large."""
    values, rate, least = left + right + 1, 0.5, math.inf
    steep, choices = split_tail(values, 2 * 10**6, F(1, 2), first=True)
    for below, above in itertools.product([1, 20, 30, 40, 60, 1000, 10**6], repeat=2):
        for t in (10.0, 30.0, 55.0, 60.0, 70.0, 90.0):
            chance, bound = _exact_chance(below, above, left, right, rate=rate, t=t), choices - float(steep) * t
            assert chance <= math.exp(min(bound, 0.0)) * (1 + 1e-3)
            if 0 > bound > -10 and chance > 0:
                least = min(least, bound - math.log(chance))
    assert values > 10**6 or least < 12  # wider ones pass the bound between these distances


@pytest.mark.deep
@pytest.mark.parametrize(("parts", "bits", "targets"), [(64, 1, 3), (64, 1, 7), (256, 2, 7)])
def test_no_small_table_errs_more_than_the_tail_says(
    parts: int, bits: int, targets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly: all tables of up to 5 rows over 3 values, targets all over, and later splits between cuts of all kinds."""
    monkeypatch.setattr(tie_places, "PARTS", parts)
    monkeypatch.setattr(tie_places, "_BITS", bits)
    count, closest = place_count(), math.inf
    shares = np.array([cut(place) / parts for place in range(count)])
    tails = {(n, r, f): split_tail(3, n, F(r), first=f) for n in range(6) for r in (2, 16) for f in (True, False)}
    kinds = [v * count + place for v in range(3) for place in (0, 1, count // 2, count - 3)]
    for counts in itertools.product(range(6), repeat=3):
        if sum(counts) > 5:
            continue
        below = np.cumsum([0, *counts])
        ranks = np.concatenate([below[v] + counts[v] * shares for v in range(3)])
        for low, high in [(0, 3 * count - 1), *itertools.combinations(kinds, 2)]:
            first = high == 3 * count - 1
            inside = ranks[low // count * count : (high // count + 1) * count].clip(ranks[low], ranks[high])
            for target, rate in itertools.product(np.linspace(inside[0], inside[-1], targets), (2, 16)):
                errors = -np.sort(-np.abs(inside - target))
                steep, choices = tails[sum(counts), rate, first]
                chances = np.cumsum(np.exp(-rate * errors))
                gaps = choices - float(steep) * errors - np.log(chances / chances[-1])
                assert gaps.min() >= -1e-9
                closest = min(closest, gaps[errors > 0].min(initial=math.inf))
    assert closest < 5  # the bound is not idle


def test_later_splits_may_hold_a_part_of_the_ties() -> None:
    first, later = (split_tail(10**6, 2**40, F(1, 2), first=f) for f in (True, False))
    bounds = [(choices + 3) / float(rate) for rate, choices in (first, later)]
    assert bounds[0] < bounds[1] < (math.log(10**6) + math.log(2**39) + 3) / 0.5  # of places that are evenly spread


@pytest.mark.deep
def test_a_chain_of_stages_is_a_sum_of_exponentials() -> None:
    means = (1.0, 0.5, 0.5, 0.25, 0.01)
    draws = np.random.default_rng(1).exponential(size=(1_000_000, 5)) @ np.array(means)
    for chance in (0.5, 0.05, 0.001):
        assert np.mean(draws > exponential_sum(means, chance)) == pytest.approx(
            chance, abs=5 * math.sqrt(chance / 1_000_000)
        )
    assert exponential_sum((1.0,), 0.05) == pytest.approx(math.log(20), rel=2e-6)
    stages = (RankStage(F(1), F(1, 2), 3.0), RankStage(F(1, 2), F(1, 2), 7.0))
    chained, apart = Ranks((0,), F(1), stages, chained=True), Ranks((0,), F(1), stages)
    assert chained.errors(0.95)[0] == pytest.approx(13 + 2 * exponential_sum((0.5, 1.0), 0.05))
    assert apart.errors(0.95)[0] == pytest.approx(13 + 3 * math.log(40))  # of releases before stages were chained
