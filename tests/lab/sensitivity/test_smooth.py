"""Smooth sensitivity against brute force over small discrete domains, its smoothness, its numbers and its refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino.errors import DeclarationError, QuestionRefused
from sordino.lab.sensitivity.smooth import SmoothSensitivity, distance_above, local_at_distance, smooth_sensitivity
from trying import examples

QUANTILES = ["quantile:0", "quantile:0.1", "quantile:0.25", "quantile:1/3", "median", "quantile:0.6", "quantile:1"]
QUERIES = [*QUANTILES, "quantile:0.9", "mean", "var"]
RELATIONS = ["add_remove", "replace"]
EXACT = {("median", "add_remove")} | {(q, "replace") for q in QUERIES if q != "var"}
SLACK = 1e-9

Table = tuple[float, ...]


def answer(query: str, table: Table, lower: float, upper: float) -> float:
    if not table:
        return 0.0 if query == "var" else (lower + upper) / 2
    if query in ("mean", "var"):
        return float(np.mean(table) if query == "mean" else np.var(table))
    q = 0.5 if query == "median" else float(Fraction(query.removeprefix("quantile:")))
    return float(np.quantile(table, q))


def neighbors_of(table: Table, relation: str, grid: tuple[float, ...]) -> set[Table]:
    less = {table[:i] + table[i + 1 :] for i in range(len(table))}
    if relation == "add_remove":
        return less | {tuple(sorted((*table, v))) for v in grid}
    return {tuple(sorted((*t, v))) for t in less for v in grid}


@cache
def brute(query: str, relation: str, grid: tuple[float, ...], largest: int) -> list[dict[Table, float]]:
    """A_0, A_1, ...: dicts over the tables for which all tables within k moves, and one more, have at most `largest`."""
    lower, upper = grid[0], grid[-1]
    tables = [t for n in range(largest + 1) for t in combinations_with_replacement(grid, n)]
    exact = {t: answer(query, t, lower, upper) for t in tables}
    near = {t: [s for s in neighbors_of(t, relation, grid) if s in exact] for t in tables}
    moves = {t: max((abs(exact[t] - exact[s]) for s in near[t]), default=0.0) for t in tables}
    found = [{t: m for t, m in moves.items() if relation == "replace" or len(t) < largest}]
    for _ in range(largest):
        last = found[-1]
        known = {t for t in last if all(s in last for s in near[t])}
        found.append({t: max(last[t], max((last[s] for s in near[t]), default=0.0)) for t in known})
    return found


def check_brute(query: str, relation: str, grid: tuple[float, ...], largest: int) -> None:
    levels = brute(query, relation, grid, largest)
    for table in levels[0]:
        made = local_at_distance(query, table, lower=grid[0], upper=grid[-1], neighbors=relation, most=len(levels) - 1)
        assert np.all(np.diff(made) >= -SLACK)
        for k, level in enumerate(levels):
            if table not in level:
                continue
            if (query, relation) in EXACT:
                assert made[k] == pytest.approx(level[table], rel=SLACK, abs=SLACK), (table, k)
            assert made[k] >= level[table] - SLACK, (table, k)
            assert made[k] <= (grid[-1] - grid[0]) ** (2 if query == "var" else 1)


@pytest.mark.deep
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("query", QUERIES)
def test_brute_force_never_beats_what_is_claimed(query: str, relation: str) -> None:
    check_brute(query, relation, (0.0, 1.0, 4.0), 7 if relation == "add_remove" else 5)
    check_brute(query, relation, (-2.0, 0.0, 0.5, 3.0), 5 if relation == "add_remove" else 4)


@pytest.mark.deep
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("query", QUERIES)
def test_brute_force_never_beats_what_is_claimed_on_wider_domains(query: str, relation: str) -> None:
    check_brute(query, relation, (0.0, 1.0, 3.0, 4.0, 10.0), 8 if relation == "add_remove" else 6)
    check_brute(query, relation, (-1.0, -0.5, 0.0, 0.25, 0.5, 1.0), 6 if relation == "add_remove" else 5)


@pytest.mark.each(5)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("query", QUERIES)
def test_a_move_takes_every_level_at_most_to_the_next(query: str, relation: str) -> None:
    grid = (0.0, 1.0, 3.0, 4.0)
    tables = [t for n in range(6) for t in combinations_with_replacement(grid, n)]
    levels = {t: local_at_distance(query, t, lower=0, upper=4, neighbors=relation, most=12) for t in tables}
    for table in tables:
        for other in neighbors_of(table, relation, grid):
            if other in levels:
                assert np.all(levels[table][:-1] <= levels[other][1:] + SLACK), (table, other)


values = st.floats(-3, 7, allow_nan=False) | st.sampled_from([-3.0, 0.0, 1.0, 1.0, 7.0])


@st.composite
def neighboring(draw: st.DrawFn) -> tuple[str, list[float], list[float]]:
    relation = draw(st.sampled_from(RELATIONS))
    shared = draw(st.lists(values, max_size=25))
    first = [*shared, draw(values)] if relation == "replace" else shared
    return relation, first, [*shared, draw(values)]


@examples(
    30, 150, pair=neighboring(), query=st.sampled_from(QUERIES), beta=st.sampled_from([1e-6, 0.01, 0.1, 0.5, 2.0])
)
def test_smooth_and_at_least_the_change_seen(
    pair: tuple[str, list[float], list[float]], query: str, beta: float
) -> None:
    relation, first, second = pair
    a, b = (
        smooth_sensitivity(query, t, lower=-3, upper=7, neighbors=relation, beta=beta).value for t in (first, second)
    )
    assert a <= math.exp(beta) * b * (1 + SLACK)
    assert b <= math.exp(beta) * a * (1 + SLACK)
    changed = abs(answer(query, tuple(first), -3, 7) - answer(query, tuple(second), -3, 7))
    assert min(a, b) >= changed - 1e-9


@examples(
    16,
    80,
    data=st.lists(values, max_size=60),
    query=st.sampled_from(QUERIES),
    relation=st.sampled_from(RELATIONS),
    beta=st.sampled_from([1e-9, 1e-3, 0.03, 0.3, 3.0, 50.0]),
)
def test_the_fast_maximum_is_the_maximum_over_all_distances(
    data: list[float], query: str, relation: str, beta: float
) -> None:
    made = smooth_sensitivity(query, data, lower=-3, upper=7, neighbors=relation, beta=beta)
    levels = local_at_distance(query, data, lower=-3, upper=7, neighbors=relation, most=2 * len(data) + 4)
    terms = levels * np.exp(-beta * np.arange(len(levels)))
    assert made.value == pytest.approx(terms.max(), rel=1e-10, abs=1e-280)
    assert made.value >= terms.max()
    assert terms[min(made.distance, len(terms) - 1)] == pytest.approx(terms.max(), rel=1e-10, abs=1e-280)


@examples(
    16, 80, pair=neighboring(), query=st.sampled_from(QUERIES), bound=st.sampled_from([0, 0.1, 0.3, 1, 2.5, 4.9, 9.9])
)
def test_the_distance_to_instability_changes_by_one_at_most(
    pair: tuple[str, list[float], list[float]], query: str, bound: float
) -> None:
    relation, first, second = pair
    a, b = (distance_above(query, t, lower=-3, upper=7, neighbors=relation, bound=bound) for t in (first, second))
    assert a == b or abs(a - b) <= 1


@examples(
    10,
    50,
    data=st.lists(values, max_size=30),
    query=st.sampled_from(QUERIES),
    relation=st.sampled_from(RELATIONS),
    bound=st.sampled_from([0, 0.2, 1, 3, 6, 10, 30]),
)
def test_the_distance_is_the_least_that_passes_the_bound(
    data: list[float], query: str, relation: str, bound: float
) -> None:
    made = distance_above(query, data, lower=-3, upper=7, neighbors=relation, bound=bound)
    levels = local_at_distance(query, data, lower=-3, upper=7, neighbors=relation, most=2 * len(data) + 4)
    above = np.flatnonzero(levels > bound)
    assert made == (above[0] if len(above) else math.inf)


def test_reference_smooth_mean_of_32561_ages() -> None:
    """Reference section 3: 2S = .0061423174963913885 = 2 * 100/n: u/(n - k) decays slower than exp(-beta k) from k = 0."""
    n = 32_561
    beta = 1 / (2 * math.log(2 * n**2))
    for relation in RELATIONS:
        made = smooth_sensitivity("mean", np.zeros(n), lower=0, upper=100, neighbors=relation, beta=beta)
        assert 2 * made.value == pytest.approx(0.0061423174963913885, rel=1e-11)
        assert made.distance == 0
    mixed = np.linspace(0, 50, n)
    made = smooth_sensitivity("mean", mixed, lower=0, upper=100, neighbors="add_remove", beta=beta)
    assert 2 * made.value < 0.0061423174963913885  # what the ages are can only help


def test_reference_distance_of_the_mean() -> None:
    """Reference section 3: 12,561, the largest k with 100/(n - k) <= .005; one more move passes the bound."""
    data = np.zeros(32_561)
    assert distance_above("mean", data, lower=0, upper=100, neighbors="add_remove", bound=0.005) == 12_562


def test_reference_median_of_five_moves_by_seven() -> None:
    """Reference section 2: local at (1, 3, 10) of the universe 1, 2, 3, 10, 11 is 7 (there from 3 to 10), not 8."""
    made = local_at_distance("median", [1, 3, 10], lower=1, upper=11, neighbors="replace", most=0)
    assert made.tolist() == [7.0]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("query", QUERIES)
def test_an_empty_table_is_answered(query: str, relation: str) -> None:
    made = smooth_sensitivity(query, [], lower=0, upper=10, neighbors=relation, beta=0.5)
    assert (made.value == pytest.approx(0, abs=1e-200)) == (relation == "replace")
    if query not in ("var", "mean", "median") and relation == "add_remove":
        assert made.value >= 5


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("beta", [1e-9, 1e-5])
def test_a_constant_table_of_a_hundred_thousand(relation: str, beta: float) -> None:
    """Its median moves by 5 once all records are gone or replaced, and by nothing long before that."""
    found = smooth_sensitivity("median", np.full(100_000, 5.0), lower=0, upper=10, neighbors=relation, beta=beta)
    assert found.distance == (100_000 if relation == "add_remove" else 99_999)
    assert found.value == pytest.approx(5 * math.exp(-beta * found.distance), rel=1e-9)


def test_values_outside_the_bounds_are_clipped() -> None:
    wild, tame = ([-100, 2, math.inf], [0, 2, 10])
    for query in QUERIES:
        made = [smooth_sensitivity(query, t, lower=0, upper=10, neighbors="replace", beta=1) for t in (wild, tame)]
        assert made[0] == made[1]


def test_the_result_reads() -> None:
    made = smooth_sensitivity("mean", [1, 2], lower=0, upper=4, neighbors="replace", beta=1)
    assert isinstance(made, SmoothSensitivity)
    assert eval(repr(made)) == made


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"query": "medain"}, QuestionRefused, "median"),
        ({"query": "sum"}, QuestionRefused, "worst_case_sensitivity"),
        ({"query": 3}, QuestionRefused, "query"),
        ({"query": "quantile:2"}, DeclarationError, "quantile"),
        ({"query": "quantile:x"}, DeclarationError, "quantile"),
        ({"data": [1, math.nan]}, DeclarationError, "data"),
        ({"data": ["a"]}, DeclarationError, "data"),
        ({"data": [[1.0]]}, DeclarationError, "data"),
        ({"lower": 11}, DeclarationError, "lower"),
        ({"lower": None}, DeclarationError, "lower"),
        ({"upper": math.inf}, DeclarationError, "upper"),
        ({"neighbors": "bounded"}, DeclarationError, "neighbors"),
        ({"beta": 0}, DeclarationError, "beta"),
        ({"beta": math.nan}, DeclarationError, "beta"),
        ({"beta": None}, DeclarationError, "beta"),
    ],
)
def test_refusals_name_the_argument(change: dict[str, Any], error: type[Exception], word: str) -> None:
    call: dict[str, Any] = {
        "query": "median", "data": [1.0], "lower": 0, "upper": 10, "neighbors": "replace", "beta": 1
    }  # fmt: skip
    with pytest.raises(error, match=word):
        smooth_sensitivity(**(call | change))


def test_refusals_of_distances() -> None:
    with pytest.raises(DeclarationError, match="most"):
        local_at_distance("mean", [1], lower=0, upper=1, neighbors="replace", most=-1)
    with pytest.raises(DeclarationError, match="bound"):
        distance_above("mean", [1], lower=0, upper=1, neighbors="replace", bound=-1)
