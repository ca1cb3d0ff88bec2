"""What denoising gains where there is something to be gained, and that it loses nothing elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.core.domain import Category, Domain, Integer
from sordino.core.neighbors import Neighbors
from sordino.synth.denoising import denoise_pair, shrink, smooth
from sordino.synth.encoded_column import Floats, encode_columns
from sordino.synth.one_way_marginals import estimate_one_way

BELL = 4_000 * np.exp(-0.5 * np.square((np.arange(96) - 40) / 14))
SHAPES = {
    "bell": (BELL, 0.35),
    "steps": (np.repeat([100.0, 4000.0, 900.0, 2500.0], 24), 0.3),
    "one spike": (np.where(np.arange(96) == 31, 40_000.0, 0.0), 0.2),
    "no order": (np.random.default_rng(3).permutation(BELL), 1.03),
}


def _error(found: Floats, true: Floats) -> float:
    return float(np.square(found - true).mean())


@pytest.mark.deep
@pytest.mark.parametrize("name", SHAPES)
def test_smoothing_gains_from_order_and_loses_nothing_without_it(name: str) -> None:
    """The mean squared error is at most this multiple of the noise's variance, and near the one stated."""
    true, most = SHAPES[name]
    rng, deviation = np.random.default_rng(1), 300.0
    errors, stated = [], []
    for _ in range(40):
        found, left = smooth(true + rng.normal(size=len(true)) * deviation, deviation**2)
        errors.append(_error(found, true))
        stated.append(left)
    assert np.mean(errors) <= most * deviation**2
    assert np.mean(stated) / 2.3 <= np.mean(errors) <= 1.3 * np.mean(stated)
    assert np.mean(stated) <= deviation**2


def test_counts_without_noise_and_few_counts_stay() -> None:
    assert np.allclose(smooth(BELL, 1e-6)[0], BELL, atol=0.01)
    assert smooth(BELL, 0.0)[0] is BELL
    few = np.array([3.0, 9.0, 1.0])
    assert smooth(few, 4.0) == (few, 4.0)


def test_shrinking_finds_the_posterior_mean_of_normal_values() -> None:
    """For values of variance V the posterior mean is V / (V + v) of a value, with v times that for variance."""
    rng = np.random.default_rng(2)
    for own in (0.0, 0.25, 1.0, 16.0):
        true = rng.normal(size=20_000) * own**0.5
        found, left = shrink(true + rng.normal(size=20_000), 1.0)
        best = own / (own + 1.0)
        assert _error(found, true) == pytest.approx(best, abs=0.03)
        assert best - 0.06 < left < best + 0.13


def test_what_stands_out_of_the_noise_is_left_alone() -> None:
    values = np.append(np.random.default_rng(4).normal(size=999), 50.0)
    found, _ = shrink(values, 1.0)
    assert found[-1] == pytest.approx(50.0, rel=0.05)
    assert np.square(found[:-1]).mean() < 0.05


@pytest.mark.parametrize("rank", [1, 2])
def test_a_table_of_low_rank_loses_most_of_its_noise(rank: int) -> None:
    rng, size, deviation = np.random.default_rng(rank), 40, 30.0
    means = np.full((size, size), 400.0)
    true: Floats = rng.normal(size=(size, rank)) @ rng.normal(size=(rank, size)) * 60.0
    found = denoise_pair(true + rng.normal(size=means.shape) * deviation, means, deviation**2)
    assert found is not None
    cells, left = found
    assert _error(cells, true) < 0.25 * deviation**2
    assert 0.5 < _error(cells, true) / left < 2.0


def test_a_table_of_noise_has_no_rank_and_one_of_full_rank_is_kept() -> None:
    rng, means = np.random.default_rng(5), np.full((30, 20), 100.0)
    noise = rng.normal(size=means.shape) * 20.0
    assert denoise_pair(noise * 0.9, means, 400.0) is None
    diagonal = np.diag(np.full(20, 3000.0))
    found = denoise_pair(diagonal + noise[:20], means[:20], 400.0)
    assert found is not None
    assert _error(found[0], diagonal) < 1.1 * 400.0


def test_only_ordered_columns_are_smoothed_and_missing_values_stay_apart() -> None:
    domain = Domain({"a": Integer(0, 95, missing="keep"), "b": Category(list(range(96)))})
    columns = encode_columns(domain, None, Neighbors("add_remove", None))
    rng = np.random.default_rng(6)
    missing = 30_000.0
    true = [np.append(BELL, missing) if c.missing else BELL for c in columns]
    noisy = [t + rng.normal(size=len(t)) * 500.0 for t in true]
    made = estimate_one_way(columns, noisy, [500.0**2] * len(columns))
    assert [c.ordered for c in columns] == [True, False]
    assert made.left[0] < 0.5 * 500.0**2
    assert made.left[1] == 500.0**2
    assert made.noisy[0] is noisy[0]
    assert abs(made.projected[0][-1] - missing) < 2_000
    assert _error(made.projected[0], true[0]) < 0.5 * 500.0**2
