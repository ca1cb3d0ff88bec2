"""Keys drawn within codes: columns that rise together do so there too, and each column's counts stay."""

from __future__ import annotations

import numpy as np
import pytest

import sordino as sd
from sordino.synth.latent_normal import correlations_within, draw_latent, fit_normal, hand_out_keys

ROWS = 20_000


@pytest.mark.parametrize("correlation", [-0.8, 0.5, 0.9])
def test_the_correlation_within_codes_is_that_of_the_variables_cut(correlation: float) -> None:
    rng = np.random.default_rng(1)
    values = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], ROWS).T
    codes = [np.searchsorted(np.quantile(v, np.linspace(0, 1, 9))[1:-1], v) for v in values]
    table = np.zeros((8, 8))
    np.add.at(table, tuple(codes), 1.0)
    (r,) = correlations_within({(0, 1): table}, {0: 8, 1: 8}).values()
    assert r == pytest.approx(correlation, abs=0.03)
    columns, covariance = fit_normal({(0, 1): r})
    counts = {c: np.bincount(codes[c], minlength=8).astype(float) for c in columns}
    latent = draw_latent(columns, covariance, codes, counts, sd.Rng.seeded(1))
    drawn = np.corrcoef(latent[0], latent[1])[0, 1]
    # a logistic variable stands for the normal one: it is a little wider
    assert abs(drawn - correlation) < 0.05


def test_columns_that_do_not_rise_together_have_no_variable() -> None:
    assert correlations_within({(0, 1): np.full((8, 8), 100.0)}, {0: 8, 1: 8}) == {}
    assert correlations_within({(0, 1): np.diag(np.full(8, 100.0))}, {0: 8}) == {}


def test_correlations_that_no_variables_have_still_give_a_covariance() -> None:
    columns, covariance = fit_normal({(0, 1): 0.9, (1, 2): 0.9, (0, 2): -0.9})
    assert columns == [0, 1, 2]
    assert np.diag(covariance) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_keys_follow_the_variable_and_keep_their_shares() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 3_000)
    latent = rng.normal(size=3_000)
    table = np.array([[0.5, 0.3, 0.2, 0, 0, 0], [0, 0, 0, 1.0, 0, 0], [0, 0, 0, 0, 0.25, 0.75]])
    keys = hand_out_keys(codes, latent, table, sd.Rng.seeded(3))
    for code in range(3):
        within = keys[codes == code]
        order = np.argsort(latent[codes == code])
        assert (np.diff(within[order]) >= 0).all()
        assert np.abs(np.bincount(within, minlength=6) - table[code] * len(within)).max() <= 1
