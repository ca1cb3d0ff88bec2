"""Whole numbers past 2^53 are held exactly or refused: no figure depends on where the values lie."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino import sensitivity as sens
from sordino.errors import DeclarationError
from sordino.risk import Worlds
from trying import examples

QUERIES = ("count", "sum", "mean", "median", "quantile:0.25", "quantile:0.9", "min", "max", "var", "std")
SHIFTS = (2**53, -(2**53) - 1, 2**60, 1_732_464_000_000_000_000, 10**30)
BASE = 2**60


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a small universe, a table of it, how far apart neighbors are, and a shift."""
    universe = draw(st.lists(st.integers(-500, 500), min_size=2, max_size=6))
    size = draw(st.integers(1, len(universe)))
    distance = draw(
        st.sampled_from(
            [
                {"neighbors": "replace", "within": 1},
                {"neighbors": "replace", "within": 2},
                {"neighbors": "add_remove", "within": 1},
                {"neighbors": "add_remove", "within": 2},
                {"neighbors": "add_remove", "exactly": 1, "direction": "either"},
            ]
        )
    )
    table = draw(st.permutations(universe))[:size]
    return {"universe": universe, "table": table, "distance": distance, "shift": draw(st.sampled_from(SHIFTS))}


def changes(query: str, case: dict[str, Any], shift: int, of: Any = int) -> list[Any]:
    """Return the global and the local change of a shifted universe, None where there is none."""
    universe = [of(value + shift) for value in case["universe"]]
    table = [of(value + shift) for value in case["table"]]
    results: list[Any] = []
    for scope in ("global", "local"):
        try:
            if scope == "global":
                results.append(sens.global_sensitivity(query, universe, size=len(table), **case["distance"]))
            else:
                results.append(sens.local_sensitivity(query, universe, table, **case["distance"]))
        except DeclarationError:
            results.append(None)
    return results


@examples(14, 70, case=cases(), query=st.sampled_from(QUERIES), of=st.sampled_from([int, np.int64, Fraction, Decimal]))
def test_a_shift_changes_no_sensitivity(case: dict[str, Any], query: str, of: Any) -> None:
    if query == "sum" and case["distance"]["neighbors"] == "add_remove":
        return
    of = int if of is np.int64 and case["shift"] > 2**62 else of
    for near, far in zip(changes(query, case, 0), changes(query, case, case["shift"], of), strict=True):
        assert (near is None) == (far is None)
        if near is not None:
            assert far.value == pytest.approx(near.value, rel=1e-12, abs=1e-9)
            assert far.exact == near.exact
            if query in ("min", "max", "median"):
                assert far.value == near.value


@examples(10, 50, case=cases())
def test_a_sum_keeps_every_digit(case: dict[str, Any]) -> None:
    """Under add_remove a sum moves by records themselves: compared with all neighbors, in whole numbers."""
    case["distance"] = {"neighbors": "add_remove", "within": 1}
    shift = case["shift"]
    universe = [value + shift for value in case["universe"]]
    everyone, local = changes("sum", case, shift)
    assert everyone.value == max(map(abs, universe))
    left = list(universe)
    table = [value + shift for value in case["table"]]
    for value in table:
        left.remove(value)
    assert local.value == max(map(abs, table + left))


@examples(8, 40, case=cases(), query=st.sampled_from(QUERIES), epsilon=st.sampled_from([0.1, 1.0, 3.0]))
def test_a_shift_changes_no_risk(case: dict[str, Any], query: str, epsilon: float) -> None:
    if query == "sum":
        return
    size, shift = len(case["table"]), case["shift"]
    try:
        near = Worlds(case["universe"], size=size, query=query)
        near_sensitivity = near.sensitivity
    except DeclarationError:
        return
    far = Worlds([value + shift for value in case["universe"]], size=size, query=query)
    assert far.sensitivity == pytest.approx(near_sensitivity, rel=1e-12, abs=1e-9)
    assert far.spread == pytest.approx(near.spread, rel=1e-12, abs=1e-9)
    assert far.risk(epsilon=epsilon) == pytest.approx(near.risk(epsilon=epsilon), rel=1e-9)
    moved = shift if query in ("mean", "median", "quantile:0.25", "quantile:0.9", "min", "max") else 0
    assert far.posterior(output=7 + moved, epsilon=epsilon) == pytest.approx(
        near.posterior(output=7, epsilon=epsilon), rel=1e-9
    )
    person = case["universe"][0]
    assert far.record_risk(person + shift, output=7 + moved, epsilon=epsilon) == pytest.approx(
        near.record_risk(person, output=7, epsilon=epsilon), rel=1e-9
    )
    largest = float(near.prior.max())
    if largest < 0.9:
        risk = (1 + largest) / 2
        assert far.epsilon_for(risk=risk) == pytest.approx(near.epsilon_for(risk=risk), rel=1e-6)


def test_no_epsilon_is_safe_where_answers_differ_by_less_than_a_float() -> None:
    worlds = Worlds([BASE, BASE + 1, BASE + 2, BASE + 10], size=3, query="max")
    assert (worlds.sensitivity, worlds.spread) == (9, 8)
    assert worlds.epsilon_for(risk=1 / 3) < 0.5
    assert worlds.worlds[1] == (BASE, BASE + 1, BASE + 10)


def test_nanoseconds() -> None:
    moments = [1_732_464_000_000_000_000 + nanosecond for nanosecond in (0, 50, 90, 400)]
    for universe in (moments, np.array(moments), [Decimal(moment) for moment in moments]):
        change = sens.global_sensitivity("max", universe, size=3, neighbors="replace", within=1)
        assert (change.value, change.exact) == (310, True)
        assert change.witness[1][-1] == moments[-1]


def test_fractions_and_decimals() -> None:
    thirds = [Fraction(1, 3), Fraction(2, 3), Fraction(5, 3)]
    assert sens.global_sensitivity("max", thirds, size=2, neighbors="replace", within=1).value == 1
    cents = [Decimal("0.1"), Decimal("0.2"), Decimal("1000000.3")]
    assert (
        sens.local_sensitivity("sum", cents, cents[2:], neighbors="add_remove", exactly=1, direction="add").value == 0.2
    )


def test_a_small_record_beside_a_large_one_still_moves_a_sum() -> None:
    change = sens.local_sensitivity(
        "sum", [1e150, 1, 2], [1e150, 1], neighbors="add_remove", exactly=1, direction="add"
    )
    assert (change.value, change.exact) == (2, True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: sens.global_sensitivity("max", [0, 2**60 + 1, 2**60 + 2], size=2, neighbors="replace", within=1),
            "2\\^53",
        ),
        (lambda: sens.list_neighborhoods("max", [BASE, BASE + 1], size=1, neighbors="replace", within=1), "2\\^53"),
        (
            lambda: sens.local_noise(
                "max", [BASE, BASE + 1, BASE + 3], [BASE], [BASE + 1], neighbors="replace", epsilon=1
            ),
            "2\\^53",
        ),
        (
            lambda: sens.smooth_sensitivity(
                "median", [BASE, BASE + 1], lower=BASE, upper=BASE + 20, neighbors="replace", beta=1
            ),
            "2\\^53",
        ),
        (
            lambda: sens.global_sensitivity(
                "max", np.array(["2020-01-01"], "datetime64[ns]"), size=1, neighbors="replace", within=1
            ),
            "whole numbers of a unit",
        ),
    ],
)
def test_what_a_float_cannot_hold_is_refused(call: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        call()
