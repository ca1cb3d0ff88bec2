"""Codes of columns with many values: as many as the noise leaves clear, so that a larger loss buys finer tables of pairs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.synth import one_way_marginals, trees
from sordino.synth.one_way_marginals import compress_domain, most_codes
from sordino.synth.pair_selection import expected_gains, few_cells
from sordino.synth.pair_selection import mean_distance as least_distance
from synth.support import Source, mean_distance


def test_the_number_of_codes_follows_the_noise_within_bounds() -> None:
    found = [most_codes(50_000, deviation) for deviation in (0.0, 1.0, 5.0, 10.0, 20.0, 40.0, 1000.0)]
    assert found == [512, 512, 400, 200, 100, 64, 64]
    counts = np.full(300, 50_000 / 300)
    sizes = [
        compress_domain(counts, d, middles=None, missing=False, most=most_codes(50_000, d)).size for d in (1, 10, 60)
    ]
    assert sizes == [300, 200, 64]
    runs = [
        compress_domain(counts, d, middles=np.arange(300.0), missing=False, most=most_codes(50_000, d)).size
        for d in (1, 60)
    ]
    assert runs[0] > 250
    assert runs[1] <= 64


def columns_that_follow() -> tuple[sd.Domain, dict[str, Any]]:
    """Two columns of 300 values that follow each other, in an order that nobody knows, and a third of no relation."""
    rng = np.random.default_rng(7)
    hidden = rng.random(50_000)
    keys: dict[str, Any] = {
        "a": (hidden * 300).astype(int),
        "b": rng.permutation(300)[np.clip((hidden + rng.normal(size=50_000) / 60) * 300, 0, 299).astype(int)],
        "c": rng.integers(0, 5, 50_000),
    }
    return sd.Domain({n: sd.Category(list(range(int(v.max()) + 1))) for n, v in keys.items()}), keys


def distance_of_the_pair(epsilon: float, seed: int) -> float:
    """Return how far the drawn table of the two lies from that of the rows."""
    domain, keys = columns_that_follow()
    model = synth.fit(Source(domain, keys, sd.Rng.seeded(seed)), epsilon=epsilon, delta="1e-9", rng=sd.Rng.seeded(seed))
    drawn = model.draw_keys(50_000, sd.Rng.seeded(seed + 1))
    return mean_distance({n: keys[n] for n in "ab"}, drawn[:2], [301, 301], 2)


def test_a_pair_that_holds_all_rows_is_kept_beside_pairs_of_chance() -> None:
    """It was .90 away: what chance adds to the two others was measured first, and their cliques left it no cells."""
    assert distance_of_the_pair(8, 1) < 0.15


def distance_of_a_code_and_its_group(fit: Any, epsilon: float) -> float:
    """Return how far 300 codes and the hundred groups that they nearly all say are drawn from the rows, beside three others."""
    rng = np.random.default_rng(7)
    code = rng.integers(0, 300, 50_000)
    group = np.where(rng.random(50_000) < 0.97, rng.permutation(300)[code] // 3, rng.integers(0, 100, 50_000))
    keys: dict[str, Any] = {"code": code, "group": group} | {f"o{n}": rng.integers(0, n, 50_000) for n in (5, 12, 30)}
    domain = sd.Domain({n: sd.Category(list(range(int(v.max()) + 1))) for n, v in keys.items()})
    source = Source(domain, keys, sd.Rng.seeded(1))
    model = fit(source, epsilon=epsilon, delta="1e-9", rng=sd.Rng.seeded(1))
    drawn = model.draw_keys(50_000, sd.Rng.seeded(2))
    return mean_distance({n: keys[n] for n in ("code", "group")}, drawn[:2], [301, 101], 2)


@pytest.mark.parametrize(
    ("fit", "epsilon"),
    [
        (synth.fit, 2),
        pytest.param(synth.MST().fit, 3, marks=pytest.mark.deep),
        pytest.param(synth.Tree().fit, 3, marks=pytest.mark.deep),
    ],
    ids=["automatic", "MST", "tree"],
)
def test_a_code_keeps_its_group(fit: Any, epsilon: float) -> None:
    """They were .97, .92 and .15 away: by the means of independent columns no cell of theirs passes the noise."""
    assert distance_of_a_code_and_its_group(fit, epsilon) < 0.1


@pytest.mark.deep
@pytest.mark.parametrize(("epsilon", "most"), [(4, 0.35), (8, 0.15), (20, 0.1)])
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_so_it_is_at_any_loss_that_shows_it(epsilon: float, most: float, seed: int) -> None:
    assert distance_of_the_pair(epsilon, seed) < most


@pytest.mark.parametrize("rows", [9_000_000, 900_000])
@pytest.mark.parametrize("width", [3, 10, 60])
def test_rows_of_columns_that_follow_each_other_lie_in_few_cells(rows: int, width: int) -> None:
    """Of 300 x 300 cells a band holds all rows: what is said of it from the score is what a count of its cells finds."""
    band = np.abs(np.subtract.outer(np.arange(300), np.arange(300))) < width
    drawn = np.random.default_rng(width).poisson(rows * band / band.sum()).astype(float)
    means = np.full((300, 300), drawn.sum() / 90_000)
    distance = float(np.abs(drawn - means).sum())
    few = few_cells(means, distance - least_distance(means))
    assert few is not None
    share, away = few
    assert share == pytest.approx(distance / drawn.sum(), abs=0.05)
    assert np.median(away) == pytest.approx(float((drawn - means)[band].mean()), rel=0.35)
    assert few_cells(means, 0.0) is None
    assert few_cells(means, 0.4 * drawn.sum()) is None


def test_a_table_of_no_rows_has_no_gain_and_no_error() -> None:
    """A noisy score may be of any size: no row, and no lack of rows, may make a fit fail after its charge."""
    assert expected_gains([5.0], [np.zeros((4, 4))], 1.0, 2.0).tolist() == [0.0]


def test_cliques_hold_the_farthest_pairs_where_the_first_leave_them_no_cells() -> None:
    sizes: Any = SimpleNamespace(sizes=(301, 301, 6), rows=1000.0)
    pairs = [(0, 2), (1, 2), (0, 1)]
    distances = {(0, 2): 10.0, (1, 2): 0.0, (0, 1): 900.0}
    first = pairs[:2]
    assert trees._edges_of_cliques(pairs, [], first, distances, sizes, 150_000) == [(0, 1), (0, 2)]
    # All three together fit, or the third is as near as the others: what was measured first stays.
    assert trees._edges_of_cliques(pairs, [], first, distances, sizes, 600_000) == pairs
    assert trees._edges_of_cliques(pairs, [], first, {**distances, (0, 1): 150.0}, sizes, 150_000) == first
    # A triple's pair may not have been looked at.
    assert trees._edges_of_cliques(first, [(0, 1, 2)], first, dict.fromkeys(first, 1.0), sizes, 150_000) == first


@pytest.mark.deep
def test_a_table_of_wide_columns_comes_nearer_at_a_large_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of 300 values that follow each other, epsilon 8: nearer by a third and more than with 64 codes."""
    found = []
    for most in (512, 64):
        monkeypatch.setattr(one_way_marginals, "_MOST_CODES", most)
        found.append(distance_of_the_pair(8, 1))
    assert found[0] < 0.67 * found[1]
