"""Moments of pairs that rise together: a field is moved to those that were measured, margins kept, and left where none is off."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino.synth.encoded_column import Floats, model_column
from sordino.synth.fitted_model import Measured, fit_field
from sordino.synth.markov_random_field import MarkovRandomField, marginal
from sordino.synth.measurement import NoisyTable
from sordino.synth.one_way_marginals import CompressedMarginals, estimate_one_way
from sordino.synth.pair_moments import keep_moment, meet_moments, moment_scores

CODES = 12
ROWS = 20_000


def three_columns(
    correlation: float, seed: int, deviation: float
) -> tuple[CompressedMarginals, Measured, dict[Any, Floats]]:
    """Three columns of amounts that follow one another, a tenth 0: their codes, noisy tables of the pairs, and the exact ones."""
    rng = np.random.default_rng(seed)
    normal = rng.multivariate_normal(np.zeros(3), np.full((3, 3), correlation) + (1 - correlation) * np.eye(3), ROWS)
    amounts = np.where(rng.random((ROWS, 3)) < 0.1, 0, np.exp(1.5 + 0.6 * normal)).astype(int)
    codes = np.minimum(amounts, CODES - 1)
    domain = sd.Domain({n: sd.Integer(0, CODES - 1, missing=sd.Fill(0)) for n in "abc"})
    columns = [model_column(n, domain) for n in domain]
    counts = [np.bincount(codes[:, i], minlength=CODES).astype(float) for i in range(3)]
    one_way = estimate_one_way(columns, counts, [1.0] * 3)
    compressed = one_way.compress(one_way.named_codes(1.0))
    exact = {}
    measured: Measured = {}
    for a, b in itertools.combinations(range(3), 2):
        cells = np.bincount(codes[:, a] * CODES + codes[:, b], minlength=CODES**2).reshape(CODES, CODES).astype(float)
        exact[a, b] = cells
        measured[a, b] = NoisyTable(cells + deviation * rng.normal(size=cells.shape), deviation**2)
    return compressed, measured, exact


def correlations(tables: dict[Any, Floats]) -> Floats:
    values = np.arange(CODES)
    found = []
    for table in tables.values():
        shares = table / table.sum()
        x, y = (values - m @ values for m in (shares.sum(axis=1), shares.sum(axis=0)))
        spread = np.sqrt((shares.sum(axis=1) @ x**2) * (shares.sum(axis=0) @ y**2))
        found.append(float(x @ shares @ y / spread))
    return np.array(found)


def pairs_of(field: MarkovRandomField) -> dict[Any, Floats]:
    return {p: marginal(field.tables[0], field.tree.cliques[0], p) for p in itertools.combinations(range(3), 2)}


@pytest.mark.deep
@pytest.mark.parametrize("correlation", [0.85, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_strong_pairs_of_one_clique_get_the_moments_that_were_measured(correlation: float, seed: int) -> None:
    """A field whose pairs were fitted as if half as strong comes to the measured correlations, within noise and step."""
    compressed, measured, exact = three_columns(correlation, seed, 3.0)
    weaker: Measured = {p: replace(t, cells=(t.cells + compressed.independent(p)) / 2.0) for p, t in measured.items()}
    field = fit_field(compressed, weaker, [0b111], sweeps=20, potentials={})
    before = pairs_of(field)
    meet_moments(field, compressed, exact, dict.fromkeys(exact, 9.0))
    after = pairs_of(field)
    true = correlations(exact)
    assert np.all(correlations(before) < true - 0.05)
    # nearer than this none is moved, and what turns over three pairs leave
    assert np.abs(correlations(after) - true).max() < 0.025
    for pair, table in after.items():
        for axis in (0, 1):
            assert table.sum(axis=axis) == pytest.approx(before[pair].sum(axis=axis), rel=0.02, abs=5.0)
    assert field.tables[0].sum() == pytest.approx(compressed.rows, rel=1e-6)


@pytest.mark.deep
def test_pairs_that_are_correlated_as_they_were_read_and_weak_ones_are_left_alone() -> None:
    for correlation in (0.05, 0.9):
        compressed, measured, exact = three_columns(correlation, 5, 3.0)
        weaker: Measured = {p: replace(t, cells=compressed.independent(p)) for p, t in measured.items()}
        field = fit_field(compressed, weaker, [0b111], sweeps=5, potentials={})
        before = copy.deepcopy(field)
        meet_moments(field, compressed, exact if correlation < 0.5 else pairs_of(field), dict.fromkeys(exact, 9.0))
        assert all(np.array_equal(a, b) for a, b in zip(before.tables, field.tables, strict=True))


def test_cells_that_hold_nothing_still_hold_nothing() -> None:
    compressed, measured, exact = three_columns(0.9, 6, 3.0)
    weaker: Measured = {p: replace(t, cells=(t.cells + compressed.independent(p)) / 2.0) for p, t in measured.items()}
    field = fit_field(compressed, weaker, [0b111], sweeps=20, potentials={})
    field.tables[0][3, :, 4] = 0.0
    meet_moments(field, compressed, exact, dict.fromkeys(exact, 9.0))
    assert not field.tables[0][3, :, 4].any()


@pytest.mark.each(4)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("correlation", [-0.45, 0.6, 0.95])
def test_a_reading_gets_the_correlation_of_its_noisy_cells_and_keeps_its_margins(correlation: float, seed: int) -> None:
    """Halfway to independence it is moved back to the true one, within the noise; by noise of 100,000 a cell not at all."""
    compressed, measured, exact = three_columns(correlation, seed, 3.0)
    for pair, table in exact.items():
        scores = moment_scores(compressed, pair)
        assert scores is not None
        x, y = scores
        halfway = (table + compressed.independent(pair)) / 2.0
        kept = keep_moment(halfway, measured[pair], scores)
        deviation = 3.0 * np.sqrt((x @ x) * (y @ y)) / ROWS
        true = x @ table @ y / ROWS
        assert abs(x @ kept @ y / ROWS - true) <= 5.0 * deviation + 0.02
        assert abs(x @ kept @ y - x @ table @ y) < abs(x @ halfway @ y - x @ table @ y)
        for axis in (0, 1):
            assert kept.sum(axis=axis) == pytest.approx(halfway.sum(axis=axis), rel=0.02, abs=5.0)
        hidden = NoisyTable(table + 1e5 * np.random.default_rng(seed).normal(size=table.shape), 1e10)
        assert keep_moment(halfway, hidden, scores) == pytest.approx(halfway)
