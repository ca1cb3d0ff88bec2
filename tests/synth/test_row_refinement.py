"""Rows moved towards tables of pairs: nearer to them, in range, and never into cells that no row may be in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.core.noise.rng import Rng
from sordino.synth.encoded_column import Floats
from sordino.synth.evaluation.distances import table_distance
from sordino.synth.junction_tree import junction_tree
from sordino.synth.markov_random_field import independent_field
from sordino.synth.measurement import NoisyTable
from sordino.synth.pair_moments import standardize
from sordino.synth.row_refinement import expected_pairs, refine_rows
from synth.support import Source

_SIZES = [6, 8, 4]


def targets(rows: float) -> dict[tuple[int, int], np.ndarray]:
    """Return the pairs of a made table of dependent columns, in which some cells are empty."""
    joint = np.random.default_rng(1).gamma(0.4, size=_SIZES)
    joint[0, :4] = 0.0
    joint *= rows / joint.sum()
    return {(0, 1): joint.sum(axis=2), (0, 2): joint.sum(axis=1), (1, 2): joint.sum(axis=0)}


def count(codes: list[np.ndarray], a: int, b: int) -> np.ndarray:
    """Return how many rows have each pair of codes."""
    return np.bincount(codes[a] * _SIZES[b] + codes[b], minlength=_SIZES[a] * _SIZES[b]).reshape(_SIZES[a], _SIZES[b])


@pytest.mark.deep
def test_rows_come_near_to_the_pairs_and_leave_empty_cells() -> None:
    """The squared distance falls to a thousandth; rows drawn alike from all cells begin far away."""
    expected, others = targets(20_000.0), np.random.default_rng(2)
    drawn = [others.integers(0, n, 20_000) for n in _SIZES]
    given = [c.copy() for c in drawn]
    made = drawn
    for seed in range(8):
        made = refine_rows(made, _SIZES, expected, Rng.seeded(seed))
    before, after = (
        sum(float(np.square(count(codes, *p) - t).sum()) for p, t in expected.items()) for codes in (given, made)
    )
    assert after < before / 1_000
    assert all((a == b).all() for a, b in zip(drawn, given, strict=True))
    assert all(len(c) == 20_000 and c.min() >= 0 and c.max() < n for c, n in zip(made, _SIZES, strict=True))
    empty = expected[0, 1] == 0
    assert empty.sum() == 4
    assert count(made, 0, 1)[empty].sum() <= count(given, 0, 1)[empty].sum() / 20


@pytest.mark.deep
def test_pairs_that_disagree_about_a_column_do_not_move_its_counts() -> None:
    """Noisy tables have counts of their own of each column: without the column's own, rows followed them by hundreds."""
    expected, others = targets(20_000.0), np.random.default_rng(2)
    first = expected[0, 1].sum(axis=1)
    drawn = [np.repeat(np.arange(6), np.round(first).astype(int)), *(np.zeros(0, dtype=np.int64),) * 2]
    drawn[1:] = [others.integers(0, n, len(drawn[0])) for n in _SIZES[1:]]
    noisy = {pair: np.maximum(table + others.normal(0.0, 30.0, table.shape), 0.0) for pair, table in expected.items()}
    counts = [np.bincount(c, minlength=n).astype(float) for c, n in zip(drawn, _SIZES, strict=True)]
    farthest = []
    for kept in ((), counts):
        made = drawn
        for seed in range(8):
            made = refine_rows(made, _SIZES, noisy, Rng.seeded(seed), counts=kept)
        moved = [np.bincount(c, minlength=n) - k for c, n, k in zip(made, _SIZES, counts, strict=True)]
        farthest.append(max(float(np.abs(m).max()) for m in moved))
    assert farthest[1] < farthest[0] / 2


def test_without_pairs_nothing_moves() -> None:
    codes = [np.arange(10) % 3, np.arange(10) % 2]
    assert all((a == b).all() for a, b in zip(refine_rows(codes, [3, 2], {}, Rng.seeded(1)), codes, strict=True))


@pytest.mark.deep
def test_a_pair_that_no_clique_holds_shows_in_the_rows(tmp_path: Path) -> None:
    """Three columns that all follow one factor, and a cap that holds no triple: the third pair is measured all the same."""
    others = np.random.default_rng(3)
    factor = others.normal(size=20_000)
    keys = {
        f"c{i}": np.clip((factor + 0.5 * others.normal(size=20_000)) * 3 + 8, 0, 15).astype(np.int64) for i in range(3)
    }
    domain = sd.Domain({n: sd.Integer(0, 15) for n in keys})
    model = synth.fit(Source(domain, keys, sd.Rng.seeded(1)), epsilon=10, delta="1e-9", cap=600, rng=sd.Rng.seeded(2))
    (loose,) = model.parts.loose
    assert model.parts.field.tree.home(loose, [16] * 3) is None
    drawn = model.draw_keys(20_000, sd.Rng.seeded(3))
    real = list(keys.values())
    assert table_distance([real[c] for c in loose], [drawn[c] for c in loose], [16, 16]) < 0.03  # .15 without the table
    model.save(tmp_path / "c.model")
    again = synth.load(tmp_path / "c.model").draw_keys(20_000, sd.Rng.seeded(3))
    assert all((a == b).all() for a, b in zip(drawn, again, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_a_pair_that_no_clique_holds_is_expected_to_be_correlated_as_its_counts_are(seed: int) -> None:
    """Cells hide most of .8 in noise of 40 rows each; where noise may be all of a correlation, cells alone count."""
    rng = np.random.default_rng(seed)
    values = np.arange(12)
    normal = rng.multivariate_normal(np.zeros(2), [[1.0, 0.8], [0.8, 1.0]], 20_000)
    first, second = np.clip(normal * 2.0 + 6.0, 0.0, 11.0).astype(np.int64).T
    exact = np.bincount(first * 12 + second, minlength=144).reshape(12, 12).astype(np.float64)
    margins = [exact.sum(axis=1), exact.sum(axis=0)]
    scores = {i: standardize(values.astype(np.float64), m) for i, m in enumerate(margins)}
    field = independent_field(junction_tree([0b01, 0b10]), margins, 20_000.0)
    codes = [rng.permutation(np.repeat(values, m.astype(int))) for m in margins]

    def correlation(noise: float, by: dict[int, Floats]) -> float:
        noisy = NoisyTable(exact + noise * np.random.default_rng(seed + 50).normal(size=exact.shape), noise**2)
        expected = expected_pairs(field, codes, {(0, 1): noisy}, by)[0, 1]
        return float(scores[0] @ expected @ scores[1]) / 20_000.0

    true = float(scores[0] @ exact @ scores[1]) / 20_000.0
    assert abs(correlation(40.0, scores) - true) < abs(correlation(40.0, {}) - true) / 2.0
    assert abs(correlation(40.0, scores) - true) < 0.1
    assert correlation(400.0, scores) == correlation(400.0, {})


@pytest.mark.deep
def test_few_dependencies_and_a_rich_loss_are_fitted_in_two_rounds() -> None:
    """One pair among eight columns: a count of pairs sent it to the poor branch at any loss."""
    others = np.random.default_rng(4)
    keys = {f"c{i}": others.integers(0, 6, 20_000) for i in range(8)}
    keys["c7"] = np.where(others.random(20_000) < 0.6, keys["c0"], keys["c7"])
    domain = sd.Domain({n: sd.Category(list(range(6))) for n in keys})
    source = Source(domain, keys, sd.Rng.seeded(1))
    model = synth.fit(source, epsilon=10, delta="1e-9", rng=sd.Rng.seeded(2))
    assert model.facts["tier"] == "a clique tree of pairs"
    assert (0, 7) in model.parts.measured
