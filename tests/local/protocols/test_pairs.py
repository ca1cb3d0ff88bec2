"""Pairs of attributes: both ways unbiased with the stated error, intervals that cover, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.errors import DeclarationError
from sordino.local import Pairs, exact_epsilon
from sordino.noise.rng import Rng

LABELS = {"sex": ["f", "m"], "age": ["young", "middle", "old"]}
SHARES = np.array([[0.3, 0.2, 0.0], [0.0, 0.1, 0.4]])  # far from the product of its margins


def answers_of(n: int) -> dict[str, list[str]]:
    counts = (SHARES * n).round().astype(int)
    places = [(i, j) for i in range(2) for j in range(3) for _ in range(counts[i, j])]
    return {"sex": [LABELS["sex"][i] for i, _ in places], "age": [LABELS["age"][j] for _, j in places]}


@pytest.mark.parametrize("way", ["pair", "each"])
def test_estimates_are_unbiased_and_intervals_cover(way: str) -> None:
    """300 runs: every mean within 5 deviations of the truth, .92 to .98 of all intervals cover, all at once .92 or more."""
    n, runs, rng = 1000, 300, Rng.seeded(1)
    pairs, answers = Pairs(LABELS, epsilon=3, respondents=n, way=way), answers_of(n)
    found, hits, together = [], 0, 0
    for _ in range(runs):
        estimate = pairs.estimate(pairs.perturb(answers, rng))
        found.append(estimate.frequencies)
        for simultaneous in (False, True):
            ends = estimate.interval(0.95, simultaneous=simultaneous).to_pydict()
            lower, upper = (np.array(ends[name]).reshape(2, 3) for name in ("lower", "upper"))
            inside = (lower <= SHARES) & (upper >= SHARES)
            hits, together = (
                hits + int(inside.sum()) * (not simultaneous),
                together + (simultaneous and bool(inside.all())),
            )
    deviations = np.std(found, axis=0) / math.sqrt(runs)
    assert (np.abs(np.mean(found, axis=0) - SHARES) < 5 * deviations).all()
    assert 0.92 < hits / (6 * runs) < 0.985
    assert together / runs > 0.92


def test_the_plan_states_the_error_of_both_ways() -> None:
    """The deviation of a pair that nobody has, of 300 runs, is the stated one to within a fifth, answers level by margin."""
    n, rng = 900, Rng.seeded(2)
    labels = {"a": range(3), "b": range(3)}
    answers = {"a": np.repeat([0, 1, 2], n // 3), "b": np.repeat([1, 2, 0], n // 3)}  # margins level, (0, 0) empty
    for way in ("pair", "each"):
        pairs = Pairs(labels, epsilon=2, respondents=n, way=way)
        found = [pairs.estimate(pairs.perturb(answers, rng)).frequencies[0, 0] for _ in range(300)]
        assert 1.96 * np.std(found) == pytest.approx(pairs.errors[way], rel=0.2)
    assert Pairs(labels, epsilon=2, respondents=n).way == "pair"
    assert "points at 95% by a report of the pair" in Pairs(labels, epsilon=2, respondents=n).why
    assert pairs.errors["pair"] < pairs.errors["each"]


def test_both_ways_reveal_epsilon_at_most() -> None:
    for way in ("pair", "each"):
        pairs = Pairs(LABELS, epsilon=1, respondents=1000, way=way)
        assert sum(Fraction(exact_epsilon(made)) for made in pairs.protocols) <= 1
        assert sum(Fraction(exact_epsilon(made)) for made in pairs.protocols) > Fraction(99, 100)
        assert float(pairs.event.pure()) == 1


def test_the_table_names_both_labels() -> None:
    pairs = Pairs(LABELS, epsilon=2, respondents=1000)
    table = pairs.estimate(pairs.perturb(answers_of(1000), Rng.seeded(1))).table
    assert table.column_names == ["sex", "age", "count", "frequency", "lower", "upper"]
    assert table.column("sex").to_pylist() == ["f"] * 3 + ["m"] * 3
    assert table.column("age").to_pylist() == LABELS["age"] * 2


def test_what_is_no_pair_is_refused() -> None:
    with pytest.raises(DeclarationError, match="two named attributes"):
        Pairs({"sex": ["f", "m"]}, epsilon=1, respondents=10)
    with pytest.raises(DeclarationError, match="not a way"):
        Pairs(LABELS, epsilon=1, respondents=10, way="users")
    pairs = Pairs(LABELS, epsilon=1, respondents=10, way="each")
    with pytest.raises(DeclarationError, match="columns sex and age"):
        pairs.perturb({"sex": ["f"]}, Rng.seeded(1))
    with pytest.raises(DeclarationError, match="same length"):
        pairs.perturb({"sex": ["f"], "age": ["old", "old"]}, Rng.seeded(1))
    reports = pairs.perturb({"sex": ["f"], "age": ["old"]}, Rng.seeded(1))
    with pytest.raises(DeclarationError, match="all of them"):
        pairs.estimate(reports[:1])
    with pytest.raises(DeclarationError):
        Pairs(LABELS, epsilon=2, respondents=10, way="each").estimate(reports)
