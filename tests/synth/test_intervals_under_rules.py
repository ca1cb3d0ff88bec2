"""Intervals of a model's answers where rules forbid cells: the law of their errors, and what share of answers they cover."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino as sd
from protecting import protect
from sordino import synth
from sordino.synth.additive_projection import AdditiveProjection
from sordino.synth.error_law import ColumnNoise, ErrorLaw


def _table(rng: np.random.Generator, sizes: tuple[int, ...]) -> Any:
    """Return counts by random cells, of which two in five hold none; there is a row in each class of each axis."""
    counts = rng.gamma(1.0, size=sizes) * (rng.random(sizes) < 0.6)
    longest = max(sizes)
    counts[tuple(np.arange(longest) % size for size in sizes)] += 0.5
    return counts


def _classes(sizes: tuple[int, ...]) -> Any:
    """Return which class of each axis each cell is in, as numbers: the sum over axes of any additive function is this times it."""
    parts = []
    for axis, size in enumerate(sizes):
        shape = [size if i == axis else 1 for i in range(len(sizes))]
        parts.append(np.broadcast_to(np.arange(size).reshape(shape), sizes).ravel()[:, None] == np.arange(size))
    return np.hstack(parts).astype(float)


shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@settings(max_examples=60)
@given(sizes=shapes, seed=st.integers(0, 2**32 - 1))
def test_the_nearest_additive_function_is_that_of_least_squares(sizes: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = _table(rng, sizes)
    cells = AdditiveProjection(counts)
    function = rng.normal(size=counts.size)[cells.held]
    parts = cells.project(function)
    found = cells.shares @ function + sum(part[classes] for part, classes in zip(parts, cells.classes, strict=True))
    weights = np.sqrt(cells.shares)
    columns = _classes(sizes)[cells.held]
    expected = columns @ np.linalg.lstsq(columns * weights[:, None], function * weights, rcond=None)[0]
    assert found == pytest.approx(expected, abs=1e-5)


@settings(max_examples=25)
@given(sizes=st.tuples(st.integers(2, 4), st.integers(2, 4), st.integers(1, 3)), seed=st.integers(0, 2**32 - 1))
def test_counts_of_columns_move_a_fitted_sum_by_the_additive_part(sizes: tuple[int, int, int], seed: int) -> None:
    """The theorem: a table raked to other counts of its columns has another sum of f, by <change, part> of each axis."""
    rng = np.random.default_rng(seed)
    counts = _table(rng, sizes)
    counts /= counts.sum()
    cells = AdditiveProjection(counts)
    function = rng.normal(size=sizes)
    # counts that some table on the same cells has
    goal = counts * (1.0 + 1e-3 * rng.uniform(-1.0, 1.0, sizes))
    goal /= goal.sum()
    raked = counts.copy()
    for _ in range(3000):
        for axis in range(3):
            others = tuple(i for i in range(3) if i != axis)
            raked *= goal.sum(axis=others, keepdims=True) / raked.sum(axis=others, keepdims=True)
    moved = float(((raked - counts) * function).sum())
    parts = cells.project(function.ravel()[cells.held])
    stated = 0.0
    for axis, part in enumerate(parts):
        others = tuple(i for i in range(3) if i != axis)
        stated += float(part @ (goal - counts).sum(axis=others))
    assert moved == pytest.approx(stated, abs=5e-6)


@pytest.mark.parametrize("sizes", [(5,), (4, 3), (3, 4, 5), (2, 3, 2, 3)])
def test_without_a_forbidden_cell_the_law_is_that_of_independent_columns(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(7)
    shares = [rng.dirichlet(np.ones(n) * 3) for n in sizes]
    noises = [ColumnNoise(p, rng.gamma(2.0, 20.0, len(p)), rng.normal(size=len(p)), np.zeros(len(p))) for p in shares]
    pairs = frozenset({(0, 1)} if len(sizes) > 1 else set())
    errors = ErrorLaw(tuple(noises), pairs, 1.0, 100.0, 400.0, 900.0, 3.0)
    whole = shares[0]
    for share in shares[1:]:
        whole = np.multiply.outer(whole, share)
    values, groups = rng.normal(size=sizes), np.arange(math.prod(sizes)).reshape(sizes) % 3 - 1
    asked: tuple[Any, ...] = (range(len(sizes)), [np.arange(n) for n in sizes], values)
    plain = errors.deviation(*asked, groups, 2)
    assert errors.deviation_among(*asked, 5000.0 * whole, groups, 2) == pytest.approx(plain, rel=1e-3)


def _areas(rng: np.random.Generator, most: int) -> tuple[dict[str, Any], sd.Domain, list[synth.Rule]]:
    """Return houses whose areas add up, and which were begun before they were done."""
    rows = 20_000
    above = rng.integers(0, most, rows)
    basement = np.where(rng.random(rows) < 0.5, 0, rng.integers(0, most, rows))
    start = rng.integers(0, 3 * most // 5, rows)
    end = np.minimum(start + rng.geometric(0.15, rows) - 1, most)
    table = {"above": above, "basement": basement, "living": above + basement, "start": start, "end": end}
    domain = sd.Domain({name: sd.Integer(0, 2 * most if name == "living" else most) for name in table})
    return table, domain, [synth.equal("above + basement", "living"), synth.at_most("start", "end")]


def _cover(
    most: int, *, epsilon: float, fits: int, asked: int, groups: list[tuple[str, ...]], **options: Any
) -> tuple[float, float, float]:
    """Return the share of random ranges that intervals cover, their mean width, and the mean error."""
    rng = np.random.default_rng(11)
    table, domain, rules = _areas(rng, most)
    seen = []
    for seed in range(fits):
        curator = protect(pa.table(table), domain, budget=sd.ApproxDP(100, "1e-4"), seed=seed)
        model = synth.fit(curator, epsilon=epsilon, delta="1e-6", constraints=rules, **options)
        for _, names in zip(range(asked), itertools.cycle(groups), strict=False):
            ends = {name: sorted(rng.choice(table[name], 2).tolist()) for name in names}
            inside = [(table[name] >= low) & (table[name] <= high) for name, (low, high) in ends.items()]
            true = int(np.logical_and.reduce(inside).sum())
            where = " AND ".join(f'"{name}" BETWEEN {low} AND {high}' for name, (low, high) in ends.items())
            answer = model.answer(sd.sql(f"SELECT COUNT(*) AS n FROM model WHERE {where}"))
            low, high = answer.interval(0.95)
            seen.append((low <= true <= high, high - low, abs(float(answer.value) - true)))
    covered, width, error = np.array(seen, dtype=float).mean(axis=0).tolist()
    return covered, width, error


PAIRS = [("above", "living"), ("basement", "living"), ("above", "basement")]


def test_ranges_of_columns_that_a_sum_joins_lie_in_their_intervals() -> None:
    """Of 40 ranges .43 were covered: their widths were those of cells that independent columns would rarely fill."""
    covered, width, error = _cover(20, epsilon=1, fits=2, asked=20, groups=PAIRS)
    assert covered >= 0.85
    assert width < 12 * error
