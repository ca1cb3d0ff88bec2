"""Codes of columns with many values: as many as the noise leaves clear, so that a larger loss buys finer tables of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino import synth
from sordino.synth import one_way_marginals
from sordino.synth.one_way_marginals import compress_domain, most_codes
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


@pytest.mark.deep
def test_a_table_of_wide_columns_comes_nearer_at_a_large_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns of 300 values that follow each other, epsilon 8: nearer by a third and more than with 64 codes."""
    rng = np.random.default_rng(7)
    hidden = rng.random(50_000)
    keys: dict[str, Any] = {
        "a": (hidden * 300).astype(int),
        "b": rng.permutation(300)[np.clip((hidden + rng.normal(size=50_000) / 60) * 300, 0, 299).astype(int)],
        "c": rng.integers(0, 5, 50_000),
    }
    domain = sd.Domain({n: sd.Category(list(range(int(v.max()) + 1))) for n, v in keys.items()})
    found = []
    for most in (512, 64):
        monkeypatch.setattr(one_way_marginals, "_MOST_CODES", most)
        model = synth.fit(Source(domain, keys, sd.Rng.seeded(1)), epsilon=8, delta="1e-9", rng=sd.Rng.seeded(1))
        drawn = model.draw_keys(50_000, sd.Rng.seeded(2))
        two = {n: keys[n] for n in "ab"}
        found.append(mean_distance(two, drawn[:2], [301, 301], 2))
    assert found[0] < 0.67 * found[1]
