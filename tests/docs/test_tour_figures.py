"""The figures of Adult that the tours state in their text: exact counts, the textbook's errors, what independence says."""

from __future__ import annotations

import numpy as np
import pytest

import sordino as sd
from places import ADULT, needs_adult
from sordino import local, synth
from sordino.local.estimates.frequency import variance

pytestmark = needs_adult


def test_synthetic_data() -> None:
    raw, domain = sd.datasets.load_adult(ADULT), sd.datasets.adult_domain()
    ages = synth.Histogram("age").exact(raw, domain=domain)
    assert (ages.range(21, 33).value, ages.range(30, 31).value) == (9878, 861)
    both = synth.Histogram(("age", "occupation")).exact(raw, domain=domain)
    assert both.cell(17, "Adm-clerical").value == 23
    assert both.counts()[:, -1].sum() == 1843
    alike = ages.cell(17).value * raw["occupation"].to_pylist().count("Adm-clerical") / raw.num_rows
    assert alike == pytest.approx(46, abs=0.5)
    adult = sd.protect(
        raw,
        domain=domain,
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(9),
        ledger=None,
        rng=sd.Rng.seeded(1),
    )
    noisy = synth.Histogram(("age", "occupation")).fit(adult, epsilon=1)
    added = np.clip(noisy.counts(), 0, None).sum() - noisy.counts().sum()
    assert 200 < added < 900  # "hundreds of people"
    assert synth.Histogram("age").fit(adult, epsilon=1).range(21, 33).error(0.95) == pytest.approx(9.3, abs=0.8)


def test_randomised_response() -> None:
    coins = local.fair_coins()
    assert variance(coins.p, coins.q, share=3650 / 32_561, n=32_561) ** 0.5 * 32_561 == pytest.approx(156.3, abs=0.05)
    assert 32_561 / 4 + 3650 / 2 == 9965.25
    assert 2 * (9928 - 32_561 / 4) == 3575.5
    assert (9844 - 32_561 / 4) / 0.5 == 3407.5
    jobs = sd.datasets.adult_domain()["occupation"]
    assert isinstance(jobs, sd.Category)
    assert local.Unary(jobs.values, p=0.75, q=0.25).encode(["Sales"])[0].tolist() == [int(i == 5) for i in range(14)]
