"""Where published code or figures go wrong, the right values; each was checked by enumeration of all tables."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sordino import sensitivity as sens
from sordino.lab.sensitivity import empirical
from sordino.lab.sensitivity.moves import moves_from
from sordino.lab.sensitivity.statistics import statistic_from
from sordino.lab.sensitivity.universe import exact_universe_from
from sordino.lab.sensitivity.variance import farthest_spread
from sordino.lab.sensitivity.worst_case import enumerate_pairs

ABSENCE_DAYS = [1, 2, 3, 4, 5, 6, 7, 8, 15, 20]
RELEASE = ABSENCE_DAYS[:6]


def test_local_compares_the_table_with_its_neighbors_and_never_two_neighbors() -> None:
    found = sens.local_sensitivity("median", [1, 2, 3, 10, 11], [1, 3, 10], neighbors="replace", within=1)
    assert found.value == 7  # 8 is the distance of two neighbors of the table, 2 and 10
    assert found.witness[0] == (1, 3, 10)
    assert abs(np.median(found.witness[1]) - 3) == 7


@pytest.mark.parametrize(
    ("distance", "query", "value"),
    [
        (2, "std", 4.7579),
        (2, "var", 38.8889),
        (3, "mean", 4.3571),
        (3, "var", 47.0833),
        (3, "quantile:0.75", 5.75),
        (3, "quantile:0.9", 11.5),
        (4, "mean", 5.3333),
        (4, "var", 58.3333),
        (4, "quantile:0.75", 8),
        (4, "quantile:0.9", 12),
    ],
)
def test_within_k_of_the_large_release(distance: int, query: str, value: float) -> None:
    found = sens.local_sensitivity(query, ABSENCE_DAYS, RELEASE, neighbors="add_remove", within=distance)
    assert found.value == pytest.approx(value, abs=5.1e-5)


@pytest.mark.parametrize("query", ["var", "std"])
def test_exactly_k_may_fall_with_k_and_within_k_never_does(query: str) -> None:
    def local(**distance: Any) -> float:
        return sens.local_sensitivity(query, ABSENCE_DAYS, RELEASE, neighbors="add_remove", **distance).value

    exactly = [local(exactly=k, direction="either") for k in range(1, 5)]
    within = [local(within=k) for k in range(1, 5)]
    assert any(later < earlier for earlier, later in itertools.pairwise(exactly))
    assert within == sorted(within)


def test_the_pair_of_the_variance_is_not_that_of_the_std(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empirical, "PAIRS_ENUMERATED", 0)
    universe = [2, 4, 0, 2, 2, 1, 2, 4]
    found = sens.global_sensitivity("std", universe, size=3, neighbors="replace", within=2)
    assert found.exact
    assert found.value == pytest.approx(1.632993161855452, rel=1e-12)
    variance = sens.global_sensitivity("var", universe, size=3, neighbors="replace", within=2)
    assert abs(np.std(variance.witness[0]) - np.std(variance.witness[1])) < 1.632


def test_std_without_a_proof_says_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"size": 6, "neighbors": "add_remove", "exactly": 4, "direction": "either", "ddof": 1}
    universe = [1.95, -8.06, 19.39, -1.58, 7.14, 13.46, 3.67, 9.18, 10.25]
    exact = sens.global_sensitivity("std", universe, **asked)
    assert exact.exact
    assert "every pair" in exact.because
    assert exact.value == pytest.approx(10.391120190851916, rel=1e-12)
    monkeypatch.setattr(empirical, "PAIRS_ENUMERATED", 0)
    bound = sens.global_sensitivity("std", universe, **asked)
    assert not bound.exact
    assert bound.attained < exact.value < bound.value < 1.04 * exact.value


def test_free_records_on_both_sides_of_the_added_ones() -> None:
    """Adding five records in the middle of two far ones: A lies inside F, so no one-sided order attains the value."""
    universe = [0, *(0.5 + step / 1000 for step in (-3, -2, -1, 1, 2, 3)), 1]
    found = sens.global_sensitivity("var", universe, size=2, neighbors="add_remove", exactly=4, direction="add")
    values = exact_universe_from(universe).floats
    moves = moves_from(
        neighbors="add_remove", within=None, exactly=4, direction="add", size=2, universe_size=values.size
    )
    assert found.value == pytest.approx(enumerate_pairs(values, statistic_from("var", ddof=0), moves)[0], rel=1e-12)
    assert found.witness[1] == pytest.approx((0, 0.498, 0.499, 0.501, 0.502, 1))


def test_a_large_offset_does_not_cancel() -> None:
    universe = [10**9 + v for v in ABSENCE_DAYS]
    for query in ("mean", "var", "std"):
        plain = sens.global_sensitivity(query, ABSENCE_DAYS, size=6, neighbors="replace", within=2)
        moved = sens.global_sensitivity(query, universe, size=6, neighbors="replace", within=2)
        assert moved.value == pytest.approx(plain.value, rel=1e-9)
        near = sens.local_sensitivity(query, ABSENCE_DAYS, RELEASE, neighbors="add_remove", within=2)
        away = sens.local_sensitivity(query, universe, [10**9 + v for v in RELEASE], neighbors="add_remove", within=2)
        assert away.value == pytest.approx(near.value, rel=1e-9)


def test_a_sweep_cut_short_says_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    universe = [0, *(0.5 + step / 1000 for step in range(-20, 21)), 1]
    asked: dict[str, Any] = {"size": 2, "neighbors": "add_remove", "exactly": 12, "direction": "add"}
    exact = sens.global_sensitivity("var", universe, **asked)
    monkeypatch.setattr("sordino.lab.sensitivity.variance._CELLS", 10)
    monkeypatch.setattr(empirical, "PAIRS_ENUMERATED", 0)
    bound = sens.global_sensitivity("var", universe, **asked)
    assert exact.exact
    assert not bound.exact
    assert bound.attained <= exact.value <= bound.value


def test_the_variance_search_returns_neighbors() -> None:
    values = exact_universe_from(ABSENCE_DAYS).floats
    moves = moves_from(neighbors="add_remove", within=3, exactly=None, direction=None, size=5, universe_size=10)
    found = farthest_spread(values, statistic_from("var", ddof=1), moves)
    removed = len(set(found.first) - set(found.second))
    assert (removed, len(found.second) - 5 + removed) in moves.pairs
