"""Every algorithm equals brute force on random small universes: ties, negatives, heavy tails; and its witness attains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino import sensitivity as sens
from sordino.errors import DeclarationError
from sordino.lab.sensitivity import empirical
from sordino.lab.sensitivity.moves import moves_from
from sordino.lab.sensitivity.statistics import statistic_from
from sordino.lab.sensitivity.universe import exact_universe_from, places_of
from sordino.lab.sensitivity.worst_case import cost, enumerate_pairs

QUERIES = ("count", "sum", "mean", "median", "quantile:0.25", "quantile:0.9", "min", "max", "var", "std")
TIES = st.integers(-3, 3).map(float)
PLAIN = st.integers(-100, 100).map(float)
TAILS = st.tuples(st.sampled_from([-1, 1]), st.integers(0, 12)).map(lambda pair: pair[0] * 3.0 ** pair[1])
CLOSE = st.integers(0, 20).map(lambda step: 1000 + step / 8)


@st.composite
def cells(draw: st.DrawFn, most: int = 8) -> dict[str, Any]:
    """Draw a universe, a table of it, and a distance; both relations and every kind of distance."""
    value = draw(st.sampled_from([TIES, PLAIN, TAILS, CLOSE]))
    universe = draw(st.lists(value, min_size=2, max_size=most))
    size = draw(st.integers(1, len(universe)))
    table = draw(st.permutations(universe))[:size]
    k = draw(st.integers(1, 4))
    distance = draw(
        st.sampled_from(
            [
                {"neighbors": "replace", "within": k},
                {"neighbors": "replace", "exactly": k},
                {"neighbors": "add_remove", "within": k},
                {"neighbors": "add_remove", "exactly": k, "direction": "add"},
                {"neighbors": "add_remove", "exactly": k, "direction": "remove"},
                {"neighbors": "add_remove", "exactly": k, "direction": "either"},
            ]
        )
    )
    return {"universe": universe, "table": table, "distance": distance, "ddof": draw(st.integers(0, 1))}


def oracle(query: str, cell: dict[str, Any], *, local: bool) -> float:
    universe = exact_universe_from(cell["universe"]).floats
    stated = {"within": None, "exactly": None, "direction": None} | cell["distance"]
    moves = moves_from(**stated, size=len(cell["table"]), universe_size=universe.size)
    places = places_of(cell["table"], universe) if local else None
    return enumerate_pairs(universe, statistic_from(query, ddof=cell["ddof"]), moves, table=places)[0]


def answer(query: str, table: tuple[float, ...], ddof: int) -> float:
    head, _, tail = query.partition(":")
    if head == "quantile":
        return float(np.quantile(table, float(tail)))
    if head == "count":
        return len(table)
    if head in ("var", "std"):
        return float({"var": np.var, "std": np.std}[head](table, ddof=ddof))
    of: dict[str, Callable[[Any], Any]] = {
        "sum": math.fsum, "mean": np.mean, "median": np.median, "min": min, "max": max
    }  # fmt: skip
    return float(of[head](table))


def check_against_brute_force(query: str, cell: dict[str, Any], *, local: bool) -> sens.Change | None:
    """Compute a cell, check its witness and return it; None where some neighbor has no answer."""
    ddof, distance = cell["ddof"], cell["distance"]
    try:
        if local:
            found = sens.local_sensitivity(query, cell["universe"], cell["table"], ddof=ddof, **distance)
        else:
            size = len(cell["table"])
            found = sens.global_sensitivity(query, cell["universe"], size=size, ddof=ddof, **distance)
    except DeclarationError:
        return None
    first, second = found.witness
    scale = max(map(abs, cell["universe"]))
    gap = abs(answer(query, first, ddof) - answer(query, second, ddof))
    assert gap == pytest.approx(found.attained, rel=1e-9, abs=1e-11 * scale ** (2 if query == "var" else 1))
    everyone, one, other = Counter(cell["universe"]), Counter(first), Counter(second)
    assert len(first) == len(cell["table"])
    assert one <= everyone
    assert other <= everyone
    assert not local or one == Counter(cell["table"])
    removed, added = (one - other).total(), (other - one).total()
    k = distance.get("within", distance.get("exactly"))
    assert (removed <= k and added <= k) if distance["neighbors"] == "replace" else removed + added <= k
    return found


def close(query: str, cell: dict[str, Any], value: float) -> Any:
    scale = max(map(abs, cell["universe"]))
    return pytest.approx(value, rel=1e-9, abs=1e-11 * scale ** (2 if query == "var" else 1))


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(cell=cells())
def test_equals_brute_force(query: str, cell: dict[str, Any]) -> None:
    for local in (False, True):
        found = check_against_brute_force(query, cell, local=local)
        if found is not None:
            assert found.exact
            assert found.value == found.attained
            assert found.value == close(query, cell, oracle(query, cell, local=local))


@pytest.mark.deep
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(cell=cells())
def test_variance_equals_brute_force(cell: dict[str, Any]) -> None:
    for local in (False, True):
        found = check_against_brute_force("var", cell, local=local)
        if found is not None:
            assert found.value == close("var", cell, oracle("var", cell, local=local))


@pytest.mark.deep
@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(cell=cells())
def test_std_is_proved_or_bounded_without_enumeration(cell: dict[str, Any]) -> None:
    compare_std(cell)


def compare_std(cell: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(empirical, "PAIRS_ENUMERATED", 0)
        found = check_against_brute_force("std", cell, local=False)
    if found is not None:
        exact = oracle("std", cell, local=False)
        small = 1e-8 * max(map(abs, cell["universe"]))
        assert found.attained <= exact * (1 + 1e-9) + small
        assert found.value >= exact * (1 - 1e-9) - small
        if found.exact:
            assert found.value == close("std", cell, exact)


@pytest.mark.deep
@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(cell=cells(), neighbors=st.sampled_from(["add_remove", "replace"]))
def test_within_never_falls_and_local_is_at_most_global(query: str, cell: dict[str, Any], neighbors: str) -> None:
    compare_distances(query, cell, neighbors)


@pytest.mark.deep
@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(cell=cells(), neighbors=st.sampled_from(["add_remove", "replace"]))
def test_within_never_falls_and_local_is_at_most_global_widely(
    query: str, cell: dict[str, Any], neighbors: str
) -> None:
    compare_distances(query, cell, neighbors)


def compare_distances(query: str, cell: dict[str, Any], neighbors: str) -> None:
    for local in (False, True):
        before = 0.0
        for k in range(1, 5):
            found = check_against_brute_force(
                query, cell | {"distance": {"neighbors": neighbors, "within": k}}, local=local
            )
            if found is None:
                break
            assert found.value >= before * (1 - 1e-9) - 1e-9
            before = found.value
    whole, own = check_against_brute_force(query, cell, local=False), check_against_brute_force(query, cell, local=True)
    assert (whole is None) == (own is None)
    if whole is not None and own is not None:
        assert own.value <= whole.value * (1 + 1e-9) + 1e-9


def test_the_cost_is_that_of_the_enumeration() -> None:
    moves = moves_from(neighbors="replace", within=2, exactly=None, direction=None, size=3, universe_size=6)
    assert cost(6, moves) == 20 * 20
    assert cost(6, moves, table=True) == 20


@pytest.mark.deep
@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(cell=cells(most=11))
def test_equals_brute_force_widely(query: str, cell: dict[str, Any]) -> None:
    for local in (False, True):
        found = check_against_brute_force(query, cell, local=local)
        if found is not None:
            assert found.value == close(query, cell, oracle(query, cell, local=local))


@pytest.mark.deep
@settings(max_examples=3500, deadline=None, derandomize=True, database=None)
@given(cell=cells(most=10))
def test_std_is_proved_or_bounded_widely(cell: dict[str, Any]) -> None:
    compare_std(cell)
